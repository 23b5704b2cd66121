// SPDX-License-Identifier: Apache-2.0

// How much of a result does a status have, in words?

package v1alpha1

import (
	"fmt"
	"strings"
)

// Has returns how much of each truncated list the status has, such as "57 of 512 templates".
func (d *ResultDetails) Has() string {
	var all []string
	for _, t := range d.Truncated {
		all = append(all, fmt.Sprintf("%d of %d %s", t.Kept, t.Total, t.List))
	}
	return strings.Join(all, ", ")
}
