// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: what does a PCI device need, such as a virtual function?

import (
	spatev1 "spate.dev/api/v1alpha1"
)

// sriov is a device of a device plugin. Its PCI address is in a variable of the device plugin or in Multus' network status.
type sriov struct {
	spec           *spatev1.SRIOVAttachment
	name, resource string
}

func (s sriov) device() string { return "attached:" + s.name + ",resource=" + s.resource }

func (sriov) opensDevice() bool { return true }

// kernelDriver is true of a bifurcated device: raw queues and flow rules are set up through its kernel driver.
func (s sriov) kernelDriver() bool { return s.spec.Driver == spatev1.DriverBifurcated }

func (sriov) loadsProgram() bool { return false }

func (sriov) shared([]spatev1.GeneratorPodStatus) string { return "" }
