# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034  # sourced: the scripts beside this one use the names
# Where does the cluster keep its things, and what are its numbers? Sourced by every script here.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# Everything the node writes: disposable, wiped by each `up`.
: "${SPATE_CACHE:=${XDG_CACHE_HOME:-$HOME/.cache}/spate}"
state=$SPATE_CACHE/cluster
# What was changed on the machine, written before the change: `down` needs nothing else to undo it. One cluster a machine.
record=/run/spate-cluster

node=spate-node
node_ip=10.99.0.1
service_cidr=10.96.0.0/16
service_api_ip=10.96.0.1
pod_cidr=10.244.0.0/24

# The cgroup that holds all of the node, made in every v1 hierarchy; in v2 the scope of this name where systemd runs.
cgroup=spate-cluster
# Pages of 2 MiB that pods may ask for (hugepages-2Mi); 192 are 384 MiB.
hugepages=${SPATE_CLUSTER_HUGEPAGES:-192}
hugepages_file=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
# Settings of the whole machine that the kubelet changes as it starts.
kubelet_sysctls=(vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes)
# Less than one CPU is the system's: the CPU manager then keeps one whole CPU (0) out of exclusive hands, and what is left of it
# is for pods that ask for a fraction: half a CPU for those of tests, and that of e2e/prometheus.
system_cpu=350m
# The CPU the kubelet thereby keeps out of exclusive hands, and where the control plane runs: a pod's own CPU stays its own.
system_cpus=${SPATE_CLUSTER_SYSTEM_CPUS:-0}

# Every time to wait is this many times longer (an emulated machine is slow).
patience=${SPATE_CLUSTER_PATIENCE:-1}

kubeconfig=$state/pki/admin.kubeconfig

say() { printf 'cluster: %s\n' "$*"; }
die() { printf 'cluster: error: %s\n' "$*" >&2; exit 1; }

# When a process started, in ticks since boot: with its id, it names one process for good. Nothing if there is none.
start_time() { sed -E 's/.*\) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

# The process that holds the node's namespaces open (an `unshare`), or nothing.
holder() {
  local pid started
  if read -r pid started 2>/dev/null < "$record/holder" && [ "$(start_time "$pid")" = "$started" ]; then echo "$pid"; fi
} 2>/dev/null

# PID 1 of the node's PID namespace, as this namespace numbers it, or nothing.
init_pid() {
  local pid
  pid=$(holder)
  if [ -n "$pid" ]; then pgrep -P "$pid" || true; fi
}
