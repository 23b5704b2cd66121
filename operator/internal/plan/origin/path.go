// SPDX-License-Identifier: Apache-2.0

// What does an engine's path of a part of a plan consist of?

package origin

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// path is where a part of a plan is, as engines report it, such as streams[3].packet.frame.
type path []segment

// segment is a field, and the index of an item in it; without one the index is -1.
type segment struct {
	name  string
	index int
}

var pathSegment = regexp.MustCompile(`^([a-z0-9_]+)(?:\[([0-9]+)\])?$`)

// parsePath is the inverse of path.String.
func parsePath(text string) (p path) {
	if text == "" {
		return nil
	}
	for part := range strings.SplitSeq(text, ".") {
		s := segment{part, -1}
		if found := pathSegment.FindStringSubmatch(part); found != nil {
			if index, err := strconv.Atoi(found[2]); err == nil {
				s = segment{found[1], index}
			}
		}
		p = append(p, s)
	}
	return p
}

func (p path) String() string {
	parts := make([]string, len(p))
	for i, s := range p {
		parts[i] = s.name
		if s.index >= 0 {
			parts[i] += fmt.Sprintf("[%d]", s.index)
		}
	}
	return strings.Join(parts, ".")
}

// begins reports whether a path leads to fields, which are separated by dots, or to something within them.
func (p path) begins(fields string) bool {
	names := strings.Split(fields, ".")
	if len(p) < len(names) {
		return false
	}
	for i, name := range names {
		if p[i].name != name {
			return false
		}
	}
	return true
}
