// SPDX-License-Identifier: Apache-2.0

// Which names do streams and variables have in resources?

package trex

import (
	"regexp"
	"strconv"
	"strings"
)

// mostLabel is the maximum length of a DNS label.
const mostLabel = 63

var (
	noLabel    = regexp.MustCompile(`[^a-z0-9]+`)
	validLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// label converts a name to a DNS label, or returns the other name if nothing is left.
func label(name, otherwise string) string {
	text := strings.Trim(noLabel.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if text = strings.TrimRight(text[:min(len(text), mostLabel)], "-"); text == "" {
		return otherwise
	}
	return text
}

// labels that are in use.
type labels struct{ taken map[string]bool }

// unique returns a label that is not in use, with the position appended where necessary.
func (l *labels) unique(wanted string, position int) string {
	if l.taken == nil {
		l.taken = map[string]bool{}
	}
	for name := wanted; ; position++ {
		if !l.taken[name] {
			l.taken[name] = true
			return name
		}
		end := "-" + strconv.Itoa(position)
		name = strings.TrimRight(wanted[:min(len(wanted), mostLabel-len(end))], "-") + end
	}
}
