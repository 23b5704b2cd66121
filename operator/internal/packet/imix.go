// SPDX-License-Identifier: Apache-2.0

// Which sizes does a published Internet mix have?

package packet

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

// mixes by name: sizes on the wire in bytes, FCS included, with their weights.
var mixes = map[spatev1.IMIX][]WeightedSize{
	spatev1.IMIXSimple: {{64, 7}, {594, 4}, {1518, 1}},
	spatev1.IMIXTCP:    {{90, 5867}, {92, 200}, {594, 2366}, {1518, 1567}},
	spatev1.IMIXIPsec:  {{90, 5867}, {92, 200}, {594, 2366}, {1418, 1567}},
	spatev1.IMIXTolly:  {{64, 55}, {78, 5}, {576, 17}, {1518, 23}},
}

// settleIMIX returns the longest length of a mix without FCS, and its sizes.
func (n needs) settleIMIX(name spatev1.IMIX, at *field.Path) (longest int, _ *Sizes, _ *field.Error) {
	mix, known := mixes[name]
	if !known {
		return 0, nil, field.NotSupported(at, name, slices.Sorted(maps.Keys(mixes)))
	}
	settled := &Sizes{}
	for _, size := range mix {
		if err := n.check(size.Bytes, at); err != nil {
			return 0, nil, field.Invalid(at, name, fmt.Sprintf("has packets of %d bytes: %s", size.Bytes, err.Detail))
		}
		settled.List = append(settled.List, WeightedSize{size.Bytes - FCSBytes, size.Weight})
		longest = max(longest, size.Bytes-FCSBytes)
	}
	return longest, settled, nil
}
