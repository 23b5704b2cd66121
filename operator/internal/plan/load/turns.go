// SPDX-License-Identifier: Apache-2.0

// Which streams of a plan take turns?

package load

import "spate.dev/operator/internal/engine/enginev1"

// turns returns the chain's number for each stream of a plan: streams of one chain take turns.
func turns(streams []*enginev1.Stream) []int {
	chain := make([]int, len(streams))
	byName := make(map[string]int, len(streams))
	for i, s := range streams {
		chain[i], byName[s.GetName()] = i, i
	}
	root := func(i int) int {
		for chain[i] != i {
			chain[i] = chain[chain[i]]
			i = chain[i]
		}
		return i
	}
	for i, s := range streams {
		if next, known := byName[s.GetNext().GetStream()]; known && s.GetNext() != nil {
			a, b := root(i), root(next)
			chain[max(a, b)] = min(a, b)
		}
	}
	for i := range chain {
		chain[i] = root(i)
	}
	return chain
}
