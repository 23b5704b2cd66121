// SPDX-License-Identifier: Apache-2.0

package mlr

// This file answers: how much of a lower bound's load is forwarded? (RFC 9971 section 6.2 and appendix B)

import (
	"maps"
	"slices"
)

// quantileLoss is the loss ratio at the exceed ratio's quantile of the full-length trials at a load: time that is missing to the duration sum
// counts as lost. The conditional throughput is the load times what this leaves of 1.
func quantileLoss(trials []measured, s sums, t *target) float64 {
	durations := map[float64]float64{}
	for _, trial := range trials {
		if trial.duration >= t.trial {
			durations[trial.lossFor(t.goal)] += trial.duration
		}
	}
	losses := slices.Sorted(maps.Keys(durations))
	whole := max(t.sum, s.fullLow+s.fullHigh)
	remaining := float64(whole * (1 - t.exceed)) // not fused with the subtractions, which would differ between processors
	for _, loss := range losses {
		if remaining -= durations[loss]; remaining <= 0 {
			return loss
		}
	}
	if len(losses) > 0 && remaining < rounding*whole {
		return losses[len(losses)-1]
	}
	return 1
}

// rounding is the share of a duration sum that can be left over only because its parts were added in another order.
const rounding = 1e-12
