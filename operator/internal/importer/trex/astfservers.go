// SPDX-License-Identifier: Apache-2.0

// Which servers do the clients of a template reach? TRex finds servers by port and address, in any template.

package trex

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// listener identifies a template's servers by what TRex finds them by.
type listener struct {
	raw         json.RawMessage
	udp         bool
	port        uint64
	first, last netip.Addr
	// picky servers compare first bytes; only their own clients are known to send these.
	picky bool
}

// listeners returns those of all templates. What cannot be read is reported where its template is read.
func (a *astf) listeners(templates []json.RawMessage) []listener {
	all := make([]listener, len(templates))
	for i, raw := range templates {
		var outer struct {
			Server json.RawMessage `json:"server_template"`
		}
		var server struct {
			Program uint16 `json:"program_index"`
			Rules   []struct {
				Port  uint64          `json:"port"`
				First *netip.Addr     `json:"ip_start"`
				Last  *netip.Addr     `json:"ip_end"`
				Map   json.RawMessage `json:"l7_map"`
			} `json:"assoc"`
		}
		if json.Unmarshal(raw, &outer) != nil || json.Unmarshal(outer.Server, &server) != nil || len(server.Rules) != 1 || int(server.Program) >= len(a.programs) {
			continue
		}
		rule := server.Rules[0]
		one := listener{raw: outer.Server, udp: a.programs[server.Program].udp, port: rule.Port, picky: rule.Map != nil && !isNull(rule.Map)}
		if rule.First != nil && rule.Last != nil {
			one.first, one.last = *rule.First, *rule.Last
		}
		all[i] = one
	}
	return all
}

// answers reports whether these are the servers of a port and addresses.
func (l *listener) answers(port uint64, pool *addresses, udp bool) bool {
	within := !l.first.IsValid() || !pool.first.Less(l.first) && !l.last.Less(pool.last)
	return l.raw != nil && l.port == port && l.udp == udp && within
}

// reached returns the servers that a template's clients connect to: its own, or where these do not listen there, those
// of the template whose servers do.
func (a *astf) reached(index int, own *object, port uint64, pool *addresses, clients *astfProgram) *object {
	if pool == nil || clients == nil || a.servers[index].raw == nil || a.servers[index].answers(port, pool, clients.udp) {
		return own
	}
	for i := range a.servers {
		if other := &a.servers[i]; other.answers(port, pool, clients.udp) && !other.picky {
			a.notes.add("template %d: its clients connect to port %d of the servers of template %d, as with TRex; its own servers are omitted", index+1, port, i+1)
			return a.problems.object(other.raw, fmt.Sprintf("$.templates[%d].server_template", i))
		}
	}
	return own
}
