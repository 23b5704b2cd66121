// SPDX-License-Identifier: Apache-2.0

// Which templates do programs open connections of? TRex's programs name groups of templates, and a connection has the client's address of the
// one that opens it.

package trex

import (
	"encoding/json"
	"slices"
	"strconv"
)

// sketch is what must be known of a template before it is converted.
type sketch struct {
	Group  uint64 `json:"tg_id"`
	Client struct {
		Program    *int `json:"program_index"`
		Generators struct {
			Clients struct {
				Index int `json:"index"`
			} `json:"dist_client"`
		} `json:"ip_gen"`
	} `json:"client_template"`
}

// openings names the templates, and reports programs that name a group of none. What cannot be read of a template is reported where it is
// converted.
func (a *astf) openings(templates []json.RawMessage) {
	a.sketches, a.named, a.grouped = make([]sketch, len(templates)), make([]string, len(templates)), map[uint64][]int{}
	for i, raw := range templates {
		s := &a.sketches[i]
		if json.Unmarshal(raw, s) != nil {
			*s = sketch{}
		}
		name := strconv.Itoa(i + 1)
		if s.Group > 0 && s.Group <= uint64(len(a.groups)) {
			name = a.groupName(s.Group)
			a.grouped[s.Group] = append(a.grouped[s.Group], i)
		}
		a.named[i] = a.objects.unique(label(a.name+"-"+name, name), i+1)
	}
	for _, p := range a.programs {
		for _, s := range p.steps {
			if s.group > 0 && !s.object.broken && len(a.grouped[s.group]) == 0 {
				s.object.wrong("tg_id", "%d is the group of no template", s.group)
			}
		}
	}
}

// clients returns the program of a template's clients; nil if it has none that is known.
func (a *astf) clients(template int) *astfProgram {
	index := a.sketches[template].Client.Program
	if index == nil || *index < 0 || *index >= len(a.programs) {
		return nil
	}
	return a.programs[*index]
}

// isOpened reports whether clients of any template name this one.
func (a *astf) isOpened(template int) bool {
	group := a.sketches[template].Group
	names := func(s step) bool { return s.group == group }
	for i := range a.sketches {
		if p := a.clients(i); group > 0 && p != nil && slices.ContainsFunc(p.steps, names) {
			return true
		}
	}
	return false
}

// openedOnly reads what only templates with a rate have, and reports clients that differ from those of templates that open connections.
func (a *astf) openedOnly(template int, client *object) {
	if client.has("limit") || client.has("cont") {
		a.notes.add("%s: is omitted: as with TRex it limits no connections that programs open", client.at("limit"))
	}
	client.take("limit")
	client.take("cont")
	client.take("core_base")
	own := a.sketches[template].Client.Generators.Clients.Index
	for i := range a.sketches {
		p, other := a.clients(i), a.sketches[i].Client.Generators.Clients.Index
		if p == nil || !p.executes || other == own || max(own, other) >= len(a.pools) || min(own, other) < 0 {
			continue
		}
		of, by := a.pools[own], a.pools[other]
		if of.first != by.first || of.last != by.last || of.order != by.order || of.offset != by.offset {
			client.wrong("ip_gen", "its connections are opened from the addresses of the clients that open them, as of template %d: use the same generator", i+1)
			return
		}
	}
}
