// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

// sending returns a template whose client sends one size and whose server another, for a number of rounds.
func sending(t *testing.T, request, answer, rounds int) *spatev1.ASTFTemplate {
	t.Helper()
	return templateOf(t, fmt.Sprintf(`
source:
  programs:
    transport: TCP
    client:
    - {label: again, send: {content: {size: %[1]d}}}
    - receive: {bytes: %[2]d, clear: true}
    - add: {variable: rounds, value: 1}
    - jump: {to: again, variable: rounds, comparison: Less, value: %[3]d}
    server:
    - {label: again, receive: {bytes: %[1]d, clear: true}}
    - send: {content: {size: %[2]d}}
    - add: {variable: rounds, value: 1}
    - jump: {to: again, variable: rounds, comparison: Less, value: %[3]d}
destinationPort: 80
connectionRate: 1cps
`, request, answer, rounds)+poolsOf(webTemplate))
}

// mixed returns a profile whose entries have shares.
func mixed(by spatev1.ShareUnit, rate spatev1.MixRate, shares ...int32) *spatev1.TrafficProfile {
	p := profile()
	p.Spec.Traffic = nil
	for i, share := range shares {
		e := running(fmt.Sprintf("e%d", i), fmt.Sprintf("t%d", i), "east", "west")
		e.Application.Share = ptr.To(share)
		p.Spec.Traffic = append(p.Spec.Traffic, e)
	}
	p.Spec.Mix = &spatev1.ConnectionMix{Rate: rate, ShareBy: by}
	return p
}

func TestMixes(t *testing.T) {
	// A connection has 100, 400 and 3,000 bytes.
	templates := map[string]*spatev1.ASTFTemplate{"t0": sending(t, 40, 60, 1), "t1": sending(t, 50, 150, 2), "t2": sending(t, 100, 200, 10)}
	for name, c := range map[string]struct {
		by     spatev1.ShareUnit
		rate   spatev1.MixRate
		shares []int32
		factor spatev1.ScaledRate
		want   string
	}{
		"connections of connections": {spatev1.ShareConnections, "10kcps", []int32{5, 3, 2}, "", "5000/1 3000/1 2000/1"},
		"without a remainder":        {spatev1.ShareConnections, "1cps", []int32{1, 1, 1}, "", "1/3 1/3 1/3"},
		"by a factor":                {spatev1.ShareConnections, "1cps", []int32{1, 1, 1}, "1.5x", "1/2 1/2 1/2"},
		// Every three connections have 100 + 400 + 3,000 bytes.
		"connections of bits": {spatev1.ShareConnections, "28kbps", []int32{1, 1, 1}, "", "1/1 1/1 1/1"},
		// Each has a third: 4 kB/s.
		"bytes of bits": {spatev1.ShareBytes, "96kbps", []int32{1, 1, 1}, "", "40/1 10/1 4/3"},
		// In proportion to 30 : 7.5 : 1.
		"bytes of connections": {spatev1.ShareBytes, "77cps", []int32{1, 1, 1}, "", "60/1 15/1 2/1"},
		// 10^6 units in proportion to 999999 : 1 : 1.
		"by largest remainders": {spatev1.ShareConnections, "1cps", []int32{999_999, 1, 1}, "", "499999/500000 1/1000000 1/1000000"},
	} {
		t.Run(name, func(t *testing.T) {
			p := mixed(c.by, c.rate, c.shares...)
			p.Spec.Rate = c.factor
			var got []string
			for _, made := range planOf(t, Input{Profile: p, Templates: templates}).Templates {
				got = append(got, fmt.Sprintf("%d/%d", made.FlowsPerSecond.Numerator, made.FlowsPerSecond.Denominator))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

func TestEntriesWithoutAShareKeepTheirRates(t *testing.T) {
	p := mixed(spatev1.ShareConnections, "7cps", 3)
	other := running("other", "t0", "east", "west")
	other.Application.ConnectionRate = "5cps"
	p.Spec.Traffic = append(p.Spec.Traffic, other)
	resolved := mustResolve(t, Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"t0": sending(t, 1, 1, 1)}})
	for i, want := range []uint64{7, 5} {
		if got := resolved.stateful.Templates[i].FlowsPerSecond; got.Numerator != want || got.Denominator != 1 {
			t.Errorf("got %v, want %d", got, want)
		}
	}
	if e := resolved.Entries[0]; e.ConnectionRate != "7cps" || len(EntryStates(resolved.Entries, p)) != 0 {
		t.Errorf("an active run is to change: %+v", e)
	}
	before := ProfileDigest(p)
	if p.Spec.Mix.Rate = "8cps"; ProfileDigest(p) == before {
		t.Error("another mix starts no run")
	}
}

func TestMixesThatCannotBe(t *testing.T) {
	fine := sending(t, 1, 1, 1)
	program := func(changes ...string) *spatev1.ASTFTemplate { return templateOf(t, webTemplate, changes...) }
	const text = "source:\n  programs:\n    transport: TCP\n    client:\n    - send: {content: {text: a}}\n    server:\n    - receive: {bytes: 1}\ndestinationPort: 80\nconnectionRate: 1cps\n"
	for name, c := range map[string]struct {
		change   func(*spatev1.TrafficProfile)
		template *spatev1.ASTFTemplate
		want     string
	}{
		"right":        {func(*spatev1.TrafficProfile) {}, fine, ""},
		"no mix":       {func(p *spatev1.TrafficProfile) { p.Spec.Mix = nil }, fine, "spec.traffic[0].application.share: is of spec.mix, which is absent"},
		"no share":     {func(p *spatev1.TrafficProfile) { p.Spec.Traffic[0].Application.Share = nil }, fine, "spec.mix: no entry has a share of it"},
		"both":         {func(p *spatev1.TrafficProfile) { p.Spec.Traffic[0].Application.ConnectionRate = "1cps" }, fine, "spec.traffic[0].application.share: set share or connectionRate, not both"},
		"no clients":   {func(p *spatev1.TrafficProfile) { p.Spec.Traffic[0].TransmitPort = "" }, fine, "spec.traffic[0].application.share: there are no clients"},
		"no share 0":   {func(p *spatev1.TrafficProfile) { *p.Spec.Traffic[0].Application.Share = 0 }, fine, "spec.traffic[0].application.share: 0: must be at least 1"},
		"packets":      {func(p *spatev1.TrafficProfile) { p.Spec.Mix.Rate = "1Mpps" }, fine, `spec.mix.rate: "1Mpps": must be connections a second such as 100kcps, or bits`},
		"with headers": {func(p *spatev1.TrafficProfile) { p.Spec.Mix.Rate = "1MbpsL2" }, fine, "headers do not count"},
		"nothing":      {func(p *spatev1.TrafficProfile) { p.Spec.Mix.Rate = "0cps" }, fine, "must be greater than zero"},
		"no number":    {func(p *spatev1.TrafficProfile) { p.Spec.Mix.Rate = "manycps" }, fine, "must be connections a second such as 100kcps, or bits"},
		"of packets":   {func(p *spatev1.TrafficProfile) { p.Spec.Mix.ShareBy = "Packets" }, fine, `spec.mix.shareBy: "Packets": must be Connections or Bytes`},
		"too fine": {func(p *spatev1.TrafficProfile) {
			p.Spec.Mix.Rate, p.Spec.Mix.ShareBy = "1.00000000001cps", spatev1.ShareConnections
			e := running("other", "t0", "east", "west")
			e.Application.Share = ptr.To[int32](6)
			p.Spec.Traffic = append(p.Spec.Traffic, e)
		}, fine, "spec.mix.rate: \"1.00000000001cps\": has too many digits"},
		"too little": {func(p *spatev1.TrafficProfile) { p.Spec.Mix.Rate = "0.000001bps" }, fine, "spec.traffic[0].application.share: is less than a connection in 1000000 s"},
		"a time":     {func(*spatev1.TrafficProfile) {}, program(), "source.programs.server loops for a time (command 3): count its rounds with a variable"},
		"no end": {func(*spatev1.TrafficProfile) {}, program("    - loop: {to: more, since: start, duration: 1s}", "    - set: {variable: start, value: 0}\n    - jump: {to: more, variable: start, comparison: Equal}"),
			"source.programs.server does not end in 1000000 steps"},
		"by a time": {func(*spatev1.TrafficProfile) {}, program("    - loop: {to: more, since: start, duration: 1s}", "    - jump: {to: more, variable: start, comparison: Greater}"),
			"source.programs.server jumps by a time (command 3)"},
		"one side":  {func(p *spatev1.TrafficProfile) { p.Spec.Traffic[0].ReceivePort = "" }, templateOf(t, strings.Replace(text, "    server:\n    - receive: {bytes: 1}\n", "", 1)+poolsOf(webTemplate)), "it has no source.programs.server"},
		"no bytes":  {func(*spatev1.TrafficProfile) {}, templateOf(t, strings.Replace(strings.Replace(text, "send: {content: {text: a}}", "close: {}", 1), "receive: {bytes: 1}", "close: {}", 1)+poolsOf(webTemplate)), "it sends nothing"},
		"a capture": {func(*spatev1.TrafficProfile) {}, templateOf(t, "source: {pcap: {volume: {name: captures, path: a.pcap}}}\nconnectionRate: 1cps\n"+poolsOf(webTemplate)), "its programs come from a capture, which only engines read"},
		"a switch":  {func(*spatev1.TrafficProfile) {}, templateOf(t, strings.Replace(text, "    - receive: {bytes: 1}\n", "    - receive: {bytes: 1}\n    - switchTemplate: {template: t0}\n", 1)+poolsOf(webTemplate)), "source.programs.server goes on as another template's (command 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			p := mixed(spatev1.ShareBytes, "1Mbps", 1)
			c.change(p)
			g := generator()
			g.Spec.Volumes = []spatev1.GeneratorVolume{{Name: "captures"}}
			_, problems := Resolve(Input{Profile: p, Generator: g, Templates: map[string]*spatev1.ASTFTemplate{"t0": c.template}})
			if got := problems.Message(); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
