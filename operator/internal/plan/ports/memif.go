// SPDX-License-Identifier: Apache-2.0

package ports

// This file answers: where in the engine's pod is the socket of a shared memory interface?

import (
	"path"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/data"
)

// MemifSocket returns the path of the socket in the pod.
func MemifSocket(memif *spatev1.MemifAttachment) string {
	return path.Join(data.VolumesDir, string(memif.Volume), memif.Socket)
}
