// SPDX-License-Identifier: Apache-2.0

// Which tunnels do the packets of a pool's clients pass through, whatever their kind?

package limits

import (
	"math/big"
	"net/netip"

	"spate.dev/operator/internal/engine/enginev1"
)

// Tunnels are the tunnels of a pool's clients.
type Tunnels struct {
	ends
	// Field of a pool that has them.
	Field string
	// Near is the word for a near end.
	Near string
	// UDP port that they lead to; 0 if they are not over UDP.
	port uint64
}

// ends are the ends of tunnels of any kind.
type ends interface {
	GetLocal() []byte
	GetLocalCount() uint32
	GetRemote() []byte
	GetMirror() bool
}

// TunnelsOf returns the tunnels of a pool's clients; nil if they pass through none.
func TunnelsOf(pool *enginev1.Pool) *Tunnels {
	if gtpu := pool.GetGtpu(); gtpu != nil {
		return &Tunnels{gtpu, "gtpu", "gNB", 2152}
	}
	if vxlan := pool.GetVxlan(); vxlan != nil {
		return &Tunnels{vxlan, "vxlan", "local VTEP", 4789}
	}
	if gre := pool.GetGre(); gre != nil {
		return &Tunnels{gre, "gre", "local end", 0}
	}
	if mpls := pool.GetMpls(); mpls != nil {
		return &Tunnels{mpls, "mpls", "label edge router", 0}
	}
	return nil
}

// last returns the last near end's address; false if there is no such address.
func (t *Tunnels) last() (netip.Addr, bool) {
	last := new(big.Int).SetBytes(t.GetLocal())
	last.Add(last, big.NewInt(int64(max(t.GetLocalCount(), 1))-1))
	if last.BitLen() > 8*len(t.GetLocal()) {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(last.FillBytes(make([]byte, len(t.GetLocal()))))
}

// Tunnels checks the destinations of tunnels, and of mirrored ones in the other direction; nil means none.
func (g *Guard) Tunnels(tunnels *Tunnels) {
	if tunnels == nil {
		return
	}
	remote, _ := netip.AddrFromSlice(tunnels.GetRemote())
	if !covered(g.limits.AllowedDestinations, remote, remote) {
		g.Refuse("allowedDestinations", "tunnels lead to %s", remote)
	}
	if !tunnels.GetMirror() {
		return
	}
	first, _ := netip.AddrFromSlice(tunnels.GetLocal())
	last, ok := tunnels.last()
	if !ok || !covered(g.limits.AllowedDestinations, first, last) {
		g.Refuse("allowedDestinations", "mirrored tunnels lead back to %s and on", first)
	}
}
