// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: what does shared memory with another process need?

import (
	"fmt"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/ports"
)

// memif is a socket on a volume of the generator, which the pod has anyway: tenants get no path of the node by it.
type memif struct{ spec *spatev1.MemifAttachment }

func (m memif) device() string {
	return fmt.Sprintf("memif:%s,id=%d,role=%s", ports.MemifSocket(m.spec), m.spec.ID, strings.ToLower(string(m.spec.Role)))
}

func (memif) opensDevice() bool                          { return false }
func (memif) kernelDriver() bool                         { return false }
func (memif) loadsProgram() bool                         { return false }
func (memif) shared([]spatev1.GeneratorPodStatus) string { return "" }
