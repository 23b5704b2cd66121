// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/big"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/load"
)

const datagrams = `
source:
  programs:
    transport: UDP
    client:
    - sendMessage: {size: 100}
    - receiveMessages: {messages: 1}
    server:
    - receiveMessages: {messages: 1}
    - sendMessage: {size: 4}
destinationPort: 53
connectionRate: 1kcps
pools:
  clients: [{name: c, start: "2001:db8::1", end: "2001:db8::ff"}]
  servers: [{name: s, start: "2001:db8:1::1", end: "2001:db8:1::ff"}]
`

// place is a port of all engines.
func place(port string) load.Place { return load.Place{Port: port} }

func TestTemplatesAskForWhatTheirFlowsSendAtLeast(t *testing.T) {
	const control = 2 * (60 + 24) // SYN and FIN
	for name, c := range map[string]struct {
		template             string
		changes              []string
		rate                 spatev1.ScaledRate
		client, server, both int64 // bytes per second on the medium; packets per second
	}{
		"http":            {template: webTemplate, rate: "1x", client: 1500 * (5 + 78 + control), server: 1500 * (300 + 78 + control), both: 1500 * 6},
		"twice":           {template: webTemplate, rate: "2x", client: 3000 * (5 + 78 + control), server: 3000 * (300 + 78 + control), both: 3000 * 6},
		"many segments":   {template: webTemplate, rate: "1x", changes: []string{"{size: 300}", "{size: 14601}"}, client: 1500 * (5 + 78 + control), server: 1500 * (14601 + 11*78 + control), both: 1500 * 16},
		"small segments":  {template: webTemplate, rate: "1x", changes: []string{"destinationPort", "tunables: {server: {tcp: {mss: 100}}}\ndestinationPort"}, client: 1500 * (5 + 78 + control), server: 1500 * (300 + 3*78 + control), both: 1500 * 8},
		"a way around":    {template: webTemplate, rate: "1x", changes: []string{"- setTime: {variable: start}", "- setTime: {variable: start}\n    - jump: {to: end, variable: start, comparison: Greater}", "- count:", "- label: end\n      count:"}, client: 1500 * (5 + 78 + control), server: 1500 * control, both: 1500 * 5},
		"messages (IPv6)": {template: datagrams, rate: "1x", client: 1000 * (100 + 62 + 24), server: 1000 * (4 + 62 + 24), both: 1000 * 2},
	} {
		t.Run(name, func(t *testing.T) {
			p := profile(running("web", "http", "east", "west"))
			p.Spec.Rate = c.rate
			in := Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, c.template, c.changes...)}}
			resolved := mustResolve(t, in)
			of, err := load.Of(resolved.Plan(Identity{RunID: "r"}))
			if err != nil {
				t.Fatal(err)
			}
			for _, load := range []load.Load{resolved.Load, of} {
				for port, want := range map[string]int64{"east": c.client, "west": c.server} {
					if got := load.Ports[place(port)]; got == nil || got.L1Bits.Cmp(big.NewRat(8*want, 1)) != 0 {
						t.Errorf("port %s: got %v bits a second, want %d", port, got, 8*want)
					}
				}
				if load.Packets.Cmp(big.NewRat(c.both, 1)) != 0 {
					t.Errorf("got %v packets a second, want %d", load.Packets, c.both)
				}
			}
		})
	}
}

func TestTemplatesBeyondALineRateAreReportedBeforeTheStart(t *testing.T) {
	p := profile(running("web", "http", "east", "west"))
	template := templateOf(t, webTemplate, "{size: 300}", "{size: 1000000}")
	ten := generator(func(g *spatev1.TrafficGenerator) { g.Spec.Ports[1].LineRate = "10Gbps" })
	_, problems := Resolve(Input{Profile: p, Generator: ten, Templates: map[string]*spatev1.ASTFTemplate{"http": template}})
	if len(problems) != 1 || problems[0].Reason != spatev1.ReasonOversubscribed || !strings.HasPrefix(problems[0].Message, "port west of generator ") {
		t.Errorf("got %v", problems)
	}
}
