// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"net/netip"
	"strings"
	"testing"

	"spate.dev/operator/internal/engine/enginev1"
)

func TestWhatTwoRunsCannotBothHave(t *testing.T) {
	templates := func(clientPort, serverPort, first, last string) *enginev1.Plan {
		pool := &enginev1.Pool{First: netip.MustParseAddr(first).AsSlice(), Last: netip.MustParseAddr(last).AsSlice()}
		servers := &enginev1.Pool{First: netip.MustParseAddr("48.0.0.1").AsSlice(), Last: netip.MustParseAddr("48.0.0.9").AsSlice()}
		return &enginev1.Plan{Stateful: &enginev1.Stateful{Pools: []*enginev1.Pool{pool, servers}, Templates: []*enginev1.Template{{
			ClientPort: clientPort, ServerPort: serverPort, Clients: []*enginev1.WeightedPool{{Pool: 0}}, Servers: []*enginev1.WeightedPool{{Pool: 1}},
		}}}}
	}
	marked := func(m *enginev1.Mark) *enginev1.Plan {
		return &enginev1.Plan{Streams: []*enginev1.Stream{{Measure: &enginev1.Measure{Mark: m}}}}
	}
	identification := &enginev1.Mark{Field: &enginev1.Mark_Ipv4Identification{Ipv4Identification: 7}}
	label := &enginev1.Mark{Field: &enginev1.Mark_Ipv6FlowLabel{Ipv6FlowLabel: 7}}
	reflecting := &enginev1.Plan{Reflectors: []*enginev1.Reflector{{Port: "west"}}}
	advertising := func(port, first string) *enginev1.Plan {
		return &enginev1.Plan{Routes: []*enginev1.RouteSet{{Name: "a", Port: port, Prefixes: &enginev1.Prefixes{Range: &enginev1.PrefixRange{First: first, Count: 10}}}}}
	}
	for name, c := range map[string]struct {
		a, b *enginev1.Plan
		want string
	}{
		"the same clients":      {templates("east", "", "16.0.0.1", "16.0.0.9"), templates("east", "", "16.0.0.5", "16.0.0.200"), "port east would have addresses from 16.0.0.5 to 16.0.0.9 for both"},
		"a client that serves":  {templates("east", "", "48.0.0.9", "48.0.0.20"), templates("north", "east", "17.0.0.1", "17.0.0.9"), "from 48.0.0.9 to 48.0.0.9"},
		"others":                {templates("east", "", "16.0.0.1", "16.0.0.9"), templates("east", "", "16.0.0.10", "16.0.0.20"), ""},
		"another port":          {templates("east", "", "16.0.0.1", "16.0.0.9"), templates("west", "", "16.0.0.1", "16.0.0.9"), ""},
		"another family":        {templates("east", "", "::1", "::9"), templates("east", "", "0.0.0.1", "0.0.0.9"), ""},
		"real servers of both":  {templates("east", "", "16.0.0.1", "16.0.0.1"), templates("north", "", "16.0.0.1", "16.0.0.1"), ""},
		"two reflectors":        {reflecting, reflecting, "port west would reflect for both"},
		"a reflector, clients":  {reflecting, templates("west", "", "16.0.0.1", "16.0.0.9"), "port west would reflect for one"},
		"the same mark":         {marked(identification), marked(identification), "the mark 7"},
		"marks of other fields": {marked(identification), marked(label), ""},
		"the same routes":       {advertising("east", "20.0.0.0/24"), advertising("east", "20.0.9.0/24"), "port east would advertise 20.0.9.0/24 for both"},
		"other routes":          {advertising("east", "20.0.0.0/24"), advertising("east", "20.0.10.0/24"), ""},
	} {
		a, b := ClaimsOf(c.a), ClaimsOf(c.b)
		for _, got := range []string{a.Conflict(b), b.Conflict(a)} {
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
}
