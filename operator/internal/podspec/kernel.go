// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: what does an interface of the kernel need?

import (
	spatev1 "spate.dev/api/v1alpha1"
)

// kernel is an interface of the pod's network namespace, which the engine opens by packet sockets.
type kernel struct{ name string }

// device names the interface: it is known at once, and the network status comes seconds later.
func (k kernel) device() string { return "kernel:" + k.name }

func (kernel) opensDevice() bool { return true }

// kernelDriver is true for packet sockets and promiscuous mode.
func (kernel) kernelDriver() bool { return true }

func (kernel) shared([]spatev1.GeneratorPodStatus) string {
	return "its packets pass through the kernel"
}
