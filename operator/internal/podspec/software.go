// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: what do ports need that lead nowhere outside of the engine?

import (
	spatev1 "spate.dev/api/v1alpha1"
)

// loopback receives what it sends.
type loopback struct{}

func (loopback) device() string                             { return "loopback" }
func (loopback) opensDevice() bool                          { return false }
func (loopback) kernelDriver() bool                         { return false }
func (loopback) loadsProgram() bool                         { return false }
func (loopback) shared([]spatev1.GeneratorPodStatus) string { return "" }

// discard drops what it sends.
type discard struct{}

func (discard) device() string                             { return "null" }
func (discard) opensDevice() bool                          { return false }
func (discard) kernelDriver() bool                         { return false }
func (discard) loadsProgram() bool                         { return false }
func (discard) shared([]spatev1.GeneratorPodStatus) string { return "" }
