// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: what does an interface of the kernel need?

import (
	spatev1 "spate.dev/api/v1alpha1"
)

// kernel is an interface of the pod's network namespace, which the engine opens by packet sockets, or by an AF_XDP socket.
type kernel struct {
	name string
	xdp  bool
}

// device names the interface: it is known at once, and the network status comes seconds later.
func (k kernel) device() string {
	if k.xdp {
		return "xdp:" + k.name
	}
	return "kernel:" + k.name
}

// opensDevice is true for rings of packet sockets and packet memory of AF_XDP, which the kernel locks.
func (kernel) opensDevice() bool { return true }

// kernelDriver is true for sockets and promiscuous mode.
func (kernel) kernelDriver() bool { return true }

func (k kernel) loadsProgram() bool { return k.xdp }

// shared depends on the interface's driver for AF_XDP, which is known once an engine has opened it.
func (k kernel) shared(pods []spatev1.GeneratorPodStatus) string {
	if !k.xdp {
		return "its packets pass through the kernel"
	}
	known := false
	for _, pod := range pods {
		for _, port := range pod.Ports {
			if port.Name != k.name || port.XDP == nil {
				continue
			}
			if port.XDP.CopyMode != spatev1.XDPZeroCopy {
				return "the kernel copies its packets (AF_XDP, status.pods[].ports[].xdp.copyMode)"
			}
			known = true
		}
	}
	if !known {
		return "no engine has opened its AF_XDP socket yet, so it is not known whether the kernel copies its packets"
	}
	return ""
}
