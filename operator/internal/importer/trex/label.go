// SPDX-License-Identifier: Apache-2.0

// How are streams and variables called in resources?

package trex

import (
	"regexp"
	"strconv"
	"strings"
)

// mostLabel is what a DNS label has room for.
const mostLabel = 63

var (
	noLabel    = regexp.MustCompile(`[^a-z0-9]+`)
	validLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
)

// label makes a name a DNS label, or gives another one if nothing of it is left.
func label(name, otherwise string) string {
	text := strings.Trim(noLabel.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if text = strings.TrimRight(text[:min(len(text), mostLabel)], "-"); text == "" {
		return otherwise
	}
	return text
}

// labels that are taken.
type labels struct{ taken map[string]bool }

// unique gives a label that is not taken: with the position behind it where need be.
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
