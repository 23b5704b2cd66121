// SPDX-License-Identifier: Apache-2.0

package preflight

// This file answers: what is the value of a reported fact, or why is it unknown?

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"spate.dev/operator/internal/engine/enginev1"
)

// errNotReported is why a fact is unknown that an engine of another version does not report.
var errNotReported = errors.New("the engine does not report it")

// reason returns why a fact without a value is unknown: the engine's path and error.
func reason(unknown string) error {
	if unknown == "" {
		return errNotReported
	}
	return errors.New(unknown)
}

func text(f *enginev1.TextFact) (string, error) {
	if v, known := f.GetFact().(*enginev1.TextFact_Value); known {
		return v.Value, nil
	}
	return "", reason(f.GetUnknown())
}

func bytes(f *enginev1.BytesFact) (uint64, error) {
	if v, known := f.GetFact().(*enginev1.BytesFact_Value); known {
		return v.Value, nil
	}
	return 0, reason(f.GetUnknown())
}

func boolean(f *enginev1.BoolFact) (bool, error) {
	if v, known := f.GetFact().(*enginev1.BoolFact_Value); known {
		return v.Value, nil
	}
	return false, reason(f.GetUnknown())
}

func numbers(f *enginev1.NumbersFact) ([]uint32, error) {
	if v, known := f.GetFact().(*enginev1.NumbersFact_Value); known {
		return v.Value.GetNumbers(), nil
	}
	return nil, reason(f.GetUnknown())
}

func link(f *enginev1.PcieLinkFact) (*enginev1.PcieLink, error) {
	if v, known := f.GetFact().(*enginev1.PcieLinkFact_Value); known {
		return v.Value, nil
	}
	return nil, reason(f.GetUnknown())
}

// listed names things by their numbers, such as "CPU 2" or "CPUs 2-5,8".
func listed(one, several string, numbers []uint32) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(numbers)))
	if len(sorted) == 1 {
		return one + " " + strconv.Itoa(int(sorted[0]))
	}
	var ranges []string
	for from := 0; from < len(sorted); {
		to := from
		for to+1 < len(sorted) && sorted[to+1] == sorted[to]+1 {
			to++
		}
		if to > from {
			ranges = append(ranges, fmt.Sprintf("%d-%d", sorted[from], sorted[to]))
		} else {
			ranges = append(ranges, strconv.Itoa(int(sorted[from])))
		}
		from = to + 1
	}
	return several + " " + strings.Join(ranges, ",")
}

func cpus(numbers []uint32) string { return listed("CPU", "CPUs", numbers) }

func nodes(numbers []uint32) string { return listed("node", "nodes", numbers) }

// byNode names CPUs by their NUMA nodes, such as "CPU 2 on node 0, CPUs 8-9 on node 1".
func byNode(of map[uint32][]uint32) string {
	var parts []string
	for _, node := range sortedKeys(of) {
		parts = append(parts, cpus(of[node])+" on "+nodes([]uint32{node}))
	}
	return strings.Join(parts, ", ")
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
