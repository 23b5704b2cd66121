// SPDX-License-Identifier: Apache-2.0

// Which MAC addresses do emulated clients have on a port, and who has them, too?

package clients

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"net"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
)

// macRange are successive MAC addresses, as numbers.
type macRange struct{ first, last uint64 }

func rangeOf(first []byte, count uint32) macRange {
	start := binary.BigEndian.Uint64(append(make([]byte, 2, 8), first...))
	return macRange{start, start + uint64(count) - 1}
}

func (r macRange) overlaps(o macRange) bool { return r.first <= o.last && o.first <= r.last }

func (r macRange) String() string { return fmt.Sprintf("%s to %s", macText(r.first), macText(r.last)) }

func macText(number uint64) string {
	return net.HardwareAddr(binary.BigEndian.AppendUint64(nil, number)[2:]).String()
}

func (g *Group) macs() macRange { return rangeOf(g.Made.Mac.First, g.Made.Count) }

// Beside reports clients of templates with MACs of emulated clients on the same port.
func Beside(groups []Group, made *enginev1.Stateful) (problems problem.Problems) {
	for _, t := range made.GetTemplates() {
		for _, weighted := range t.Clients {
			pool := made.Pools[weighted.Pool]
			if len(pool.FirstMac) != 6 {
				continue
			}
			macs := rangeOf(pool.FirstMac, countOf(pool))
			for i := range groups {
				if g := &groups[i]; string(g.Spec.Port) == t.ClientPort && macs.overlaps(g.macs()) {
					problems.Add(spatev1.ReasonInvalidSpec, g.At, "its MACs, %s, overlap those of pool %s of entry %s on the same port, %s; choose another mac.first or startMAC", g.macs(), pool.Name, t.Name, macs)
				}
			}
		}
	}
	return problems
}

// countOf returns the number of addresses of a pool, at most that of a family.
func countOf(pool *enginev1.Pool) uint32 {
	first, last := new(big.Int).SetBytes(pool.First), new(big.Int).SetBytes(pool.Last)
	count := last.Add(last.Sub(last, first), big.NewInt(1))
	if !count.IsUint64() || count.Uint64() > 0xffffffff {
		return 0xffffffff
	}
	return uint32(count.Uint64())
}

// MACs are those of a run's clients, by port.
type MACs []onPort

type onPort struct {
	port string
	macs macRange
}

// MACsOf returns those of a plan's groups.
func MACsOf(groups []*enginev1.ClientGroup) (all MACs) {
	for _, g := range groups {
		if first := g.GetMac().GetFirst(); len(first) == 6 && g.Count > 0 {
			all = append(all, onPort{g.Port, rangeOf(first, g.Count)})
		}
	}
	return all
}

// Shared returns which of them clients of another run have; empty if none.
func (m MACs) Shared(others MACs) string {
	for _, a := range m {
		for _, b := range others {
			if a.port == b.port && a.macs.overlaps(b.macs) {
				return fmt.Sprintf("port %s would have clients with MACs from %s to %s for both", a.port, macText(max(a.macs.first, b.macs.first)), macText(min(a.macs.last, b.macs.last)))
			}
		}
	}
	return ""
}
