// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: how much memory is available for plans?

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// unlimited is what cgroup v1 reports without a limit: more than any machine has.
const unlimited = 1 << 60

// memory is the limit of what the operator may use; 0 for none.
func (o *options) memory() (int64, error) {
	if o.memoryLimit == "" {
		return memoryOfGroup(os.ReadFile), nil
	}
	limit, err := resource.ParseQuantity(o.memoryLimit)
	if err == nil && limit.Value() <= 0 {
		err = errors.New("must be more than 0")
	}
	return limit.Value(), err
}

// gcPercent is how much the heap may grow between two collections. The operator keeps little compared to what it allocates when it
// reconciles a run, so it collects three times as often as by Go's default.
const gcPercent = 30

// shareMemory leaves half of the memory to spate-engine, which checks plans in its own process: the collector works harder before the
// operator's half is used up. GOMEMLIMIT and GOGC take precedence.
func shareMemory(memory int64) {
	if memory > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memory / 2)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// memoryOfGroup is the lowest limit of the process's control groups, v2 and v1; 0 if there is none. In a container, its own group is at
// the root.
func memoryOfGroup(read func(string) ([]byte, error)) (least int64) {
	groups, err := read("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(groups)); lines.Scan(); {
		parts := strings.SplitN(lines.Text(), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, file := "", ""
		switch parts[1] {
		case "": // v2
			root, file = "/sys/fs/cgroup", "memory.max"
		case "memory":
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			text, err := read(path.Join(root, group, file))
			limit, number := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && number == nil && limit < unlimited && (least == 0 || limit < least) { // "max" is no limit
				least = limit
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}
