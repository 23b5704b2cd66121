// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/load"
)

// openingOf returns two entries: of the first the client opens two connections of the second, which has no rate.
func openingOf(t *testing.T) Input {
	t.Helper()
	opener := templateOf(t, webTemplate, "    - send: {content: {text: GET /}}\n", "    - send: {content: {text: GET /}}\n    - openConnection: {template: two}\n    - nextTemplate: {template: two}\n    - openConnection: {}\n",
		"counter: answered", "counter: answered, since: start")
	other := templateOf(t, webTemplate, "destinationPort: 80", "destinationPort: 81", "connectionRate: 1.5kcps\n", "")
	return Input{
		Profile:   profile(running("a", "one", "east", "west"), running("b", "two", "east", "")),
		Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"one": opener, "two": other},
	}
}

func TestAProgramOpensConnectionsOfAnotherEntry(t *testing.T) {
	got := planOf(t, openingOf(t))
	client := got.Templates[0].Client.Instructions
	isJSON(t, client[1], `{"openConnection": {"template": 1}}`)
	isJSON(t, client[2], `{"nextTemplate": 1}`)
	isJSON(t, client[3], `{"openConnection": {}}`)
	isJSON(t, got.Templates[0].Server.Instructions[4], `{"countTime": {"counter": 0, "since": 0}}`)
	if got.Templates[1].FlowsPerSecond != nil || got.Templates[0].FlowsPerSecond == nil {
		t.Errorf("rates: %v and %v", got.Templates[0].FlowsPerSecond, got.Templates[1].FlowsPerSecond)
	}
	if got.Templates[0].Clients[0].Pool != got.Templates[1].Clients[0].Pool {
		t.Errorf("clients of pools %v and %v", got.Templates[0].Clients, got.Templates[1].Clients)
	}
	// What is opened by name counts with the flow that opens it: the port has twice the packets of the opener's flows alone.
	both := load.OfFlows(got).Ports[load.Place{Port: "east"}]
	got.Templates[0].Client.Instructions = slices.Concat(client[:1], client[2:])
	alone := load.OfFlows(got).Ports[load.Place{Port: "east"}]
	if both == nil || alone == nil || both.Packets.Cmp(alone.Packets.Add(alone.Packets, alone.Packets)) != 0 {
		t.Errorf("with what it opens: %v, the doubled load without: %v", both, alone)
	}
}

func TestAProgramNamesSeveralTemplates(t *testing.T) {
	in := openingOf(t)
	in.Templates["three"] = templateOf(t, webTemplate, "destinationPort: 80", "destinationPort: 82", "connectionRate: 1.5kcps\n", "")
	in.Profile.Spec.Traffic = append(in.Profile.Spec.Traffic, running("c", "three", "east", ""))
	named := in.Templates["one"].Spec.Source.Programs.Client[2].NextTemplate
	named.Alternatives = []spatev1.ObjectName{"three"}
	client := planOf(t, in).Templates[0].Client.Instructions
	isJSON(t, client[1], `{"openConnection": {"template": 1}}`)
	isJSON(t, client[2], `{"nextTemplates": {"templates": [1, 2]}}`)
	isJSON(t, client[3], `{"openConnection": {}}`)
	for _, c := range []struct {
		alternatives []spatev1.ObjectName
		want         string
	}{
		{[]spatev1.ObjectName{"three", "two"}, `spec.source.programs.client[2].nextTemplate.alternatives[1]: "two" is named twice`},
		{[]spatev1.ObjectName{"three", "three"}, `spec.source.programs.client[2].nextTemplate.alternatives[1]: "three" is named twice`},
		{[]spatev1.ObjectName{"four"}, `spec.source.programs.client[2].nextTemplate.alternatives[0]: no entry of the profile runs "four" with its clients on east`},
	} {
		named.Alternatives = c.alternatives
		_, problems := Resolve(in)
		if got := problems.Message(); !strings.Contains(got, c.want) {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestConnectionsThatCannotBeOpenedAreReported(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *Input)
		want   string
	}{
		"of no entry": {func(in *Input) { in.Profile.Spec.Traffic = in.Profile.Spec.Traffic[:1] },
			`spec.traffic[0].application.templateRef: ASTFTemplate "one": spec.source.programs.client[1].openConnection.template: no entry of the profile runs "two" with its clients on east; add one`},
		"on another port": {func(in *Input) { in.Profile.Spec.Traffic[1].TransmitPort = "west" },
			`no entry of the profile runs "two" with its clients on east`},
		"without a rate, and opened by none": {func(in *Input) { in.Templates["one"] = in.Templates["two"] },
			"spec.traffic[0].application.connectionRate: is required, here or in the template, which has none"},
		"transactions": {func(in *Input) { in.Profile.Spec.Rate = "3ktps" },
			"transactions of a are not known: opens a connection of another template (command 1)"},
		"by a server": {func(in *Input) {
			server := in.Templates["one"].Spec.Source.Programs.Server
			server[4] = spatev1.Command{OpenConnection: &spatev1.OpenConnectionCommand{Template: "two"}}
		}, "spec.source.programs.server[4].openConnection: servers open no connections"},
	} {
		t.Run(name, func(t *testing.T) {
			in := openingOf(t)
			c.change(&in)
			_, problems := Resolve(in)
			if got := problems.Message(); !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestATemplateThatOpensOthersIsValidatedWithItsProfile(t *testing.T) {
	template := openingOf(t).Templates["one"]
	if _, why := Alone(template, nil); !strings.Contains(why, "whose connections it opens") {
		t.Errorf("got %q", why)
	}
}
