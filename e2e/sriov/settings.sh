# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034  # sourced: the scripts beside this one use the names
# Names and numbers of the second node. Sourced by every script here, after e2e/cluster/settings.sh.

sriov=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Logs and the serial console; each `join` wipes it.
folder=$SPATE_CACHE/e2e/sriov
machine=sriov-node
# The two ends of the link between the cluster's network namespace and the machine.
tap=machine0
# TCP port at which QEMU is controlled, in that network namespace.
monitor=4444
# TCP port at which the machine gets the host's time.
time_port=4445
gateway_ip=10.99.1.1
machine_ip=10.99.1.2
machine_pod_cidr=10.244.1.0/24
# NICs that pods get whole: PCI addresses of up-a, down-a, up-b and down-b in the machine, of which each up is wired to its down.
whole="0000:43:00.0 0000:44:00.0 0000:45:00.0 0000:46:00.0"
