// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/origin"
)

// withPorts returns a generator with the first of the ports east, west, loop and void.
func withPorts(count int) *spatev1.TrafficGenerator {
	return generator(func(g *spatev1.TrafficGenerator) { g.Spec.Ports = g.Spec.Ports[:count] })
}

func TestEntriesWithoutPortsHaveThoseOfAGeneratorWithTwo(t *testing.T) {
	marked := func(s *spatev1.StatelessStreamSpec) {
		auto := spatev1.IPv4MarkValue("auto")
		s.Measure = spatev1.Measure{Mark: &spatev1.Mark{IPv4Identification: &auto}}
	}
	p := profile(
		entryOf("measured", "", "", streamOf("1pps", 64)), entryOf("marked", "", "", streamOf("1pps", 64, marked)), entryOf("sent", "", "", streamOf("1pps", 64, unmeasured)),
		entryOf("back", "west", "east", streamOf("1pps", 64)), running("web", "one", "", ""), running("real", "one", "", "west"))
	before := p.DeepCopy()
	in := Input{Profile: p, Generator: withPorts(2), Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate)}}
	plan := mustResolve(t, in).Plan(Identity{})
	for i, want := range [][2]string{{"east", "west"}, {"east", "west"}, {"east", ""}, {"west", "east"}} {
		if s := plan.Streams[i]; s.TxPort != want[0] || s.RxPort != want[1] {
			t.Errorf("%s: from %q to %q, want %v", s.Name, s.TxPort, s.RxPort, want)
		}
	}
	for i, want := range [][2]string{{"east", "west"}, {"", "west"}} {
		if s := plan.Stateful.Templates[i]; s.ClientPort != want[0] || s.ServerPort != want[1] {
			t.Errorf("%s: clients at %q, servers at %q, want %v", s.Name, s.ClientPort, s.ServerPort, want)
		}
	}
	if yamlOf(t, p) != yamlOf(t, before) {
		t.Error("the profile was changed")
	}
}

func TestPortsAreNeededWhereAGeneratorHasNotTwo(t *testing.T) {
	for count, text := range map[int]string{1: "1 port", 3: "3 ports"} {
		for kind, e := range map[string]spatev1.TrafficEntry{"a stream": entryOf("a", "", "", streamOf("1pps", 64)), "an application": running("a", "one", "", "")} {
			in := Input{Profile: profile(e), Generator: withPorts(count), Templates: map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate)}}
			_, problems := Resolve(in)
			want := "spec.traffic[0].transmitPort: is required: generator lab has " + text + ", and only those of a generator with two ports are known by default"
			if problems.Message() != want {
				t.Errorf("%s: got %s\nwant %s", kind, problems.Message(), want)
			}
		}
	}
	_, problems := Resolve(Input{Profile: profile(entryOf("a", "", "west", streamOf("1pps", 64))), Generator: withPorts(2)})
	if want := "spec.traffic[0].transmitPort: is required: the port that sends the stream"; problems.Message() != want {
		t.Errorf("got %s, want %s", problems.Message(), want)
	}
}

// Without a generator its ports are not known: only the generator is reported as missing.
func TestPortsAreNotMissedWithoutAGenerator(t *testing.T) {
	p := profile(entryOf("a", "", "", streamOf("1pps", 64)), running("web", "one", "", ""))
	p.Spec.Thresholds = []spatev1.Threshold{{Name: "t", Expression: `result.templates["web"].client.failed == 0 && result.streams["a"].lost == 0`}}
	templates := map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate)}
	_, problems := Resolve(Input{Profile: p, Templates: templates})
	if want := `spec.generatorRef.name: TrafficGenerator "lab" does not exist in namespace test: apply it, or correct the name`; problems.Message() != want || problems.Reason() != spatev1.ReasonReferenceNotFound {
		t.Errorf("got %s", problems)
	}
	mustResolve(t, Input{Profile: p, Templates: templates, Generator: withPorts(2)})
}

func TestAProfileWithoutAGeneratorSaysWhichThereAre(t *testing.T) {
	p := imix()
	p.Spec.GeneratorRef = nil
	_, problems := Resolve(Input{Profile: p})
	if want := "spec.generatorRef: is required: namespace test has no TrafficGenerator; apply one, or describe one in a profile's spec.generator"; problems.Message() != want || problems.Reason() != spatev1.ReasonReferenceNotFound {
		t.Errorf("got %s", problems)
	}
	mustResolve(t, Input{Profile: p, Generator: generator()})
	several := GeneratorRequired("test", []string{"lab", "other"})
	if want := "spec.generatorRef: is required: namespace test has 2 TrafficGenerators (lab, other); name one of them"; several.Error() != want || several.Reason != spatev1.ReasonInvalidSpec {
		t.Errorf("got %s: %s", several.Reason, several)
	}
}

// inline returns an entry with an inline application.
func inline(t *testing.T, name, source string) spatev1.TrafficEntry {
	t.Helper()
	template := ofSource(t, source)
	return spatev1.TrafficEntry{Name: spatev1.EntryName(name), TransmitPort: "east", ReceivePort: "west", Application: &spatev1.ApplicationEntry{
		Inline: &template.Spec,
	}}
}

func TestAnInlineTemplateIsPlannedAsAReferencedOne(t *testing.T) {
	data := map[spatev1.DataReference][]byte{fromConfigMap("captures", "web").Reference(): recording(t, 3)}
	for _, source := range []string{
		"{http: {requestsPerConnection: 3}}", "{dns: {}}", "{payload: {transport: UDP, requestBytes: 9}}", "{pcap: {from: {configMapKeyRef: {name: captures, key: web}}}}",
	} {
		described, referring := inline(t, "web", source), running("web", "one", "east", "west")
		template := ofSource(t, source)
		template.Spec.DestinationPort, described.Application.Inline.DestinationPort = ptr.To[int32](99), ptr.To[int32](99)
		described.Application.ConnectionRate, referring.Application.ConnectionRate = "7cps", "7cps"
		of := func(e spatev1.TrafficEntry) *Resolved {
			return mustResolve(t, Input{Profile: profile(e), Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"one": template}, Data: data})
		}
		if got, want := of(described).Plan(Identity{}), of(referring).Plan(Identity{}); !proto.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", source, got, want)
		}
		if got := of(described).Definitions; len(got) != 0 {
			t.Errorf("%s: it is no object of its own: %v", source, got)
		}
		want := spatev1.EntrySnapshot{Name: "web", ConnectionRate: "7cps", TemplateRate: "1cps"}
		if got := of(described).Entries; len(got) != 1 || got[0] != want {
			t.Errorf("%s: entries %+v", source, got)
		}
		if got, want := DataReferences(profile(described), nil, nil), DataReferences(profile(referring), nil, map[string]*spatev1.ASTFTemplate{"one": template}); !slices.Equal(got, want) {
			t.Errorf("%s: data %v, want %v", source, got, want)
		}
	}
}

func TestInlineTemplatesAreReportedByTheirOwnFields(t *testing.T) {
	for want, e := range map[string]spatev1.TrafficEntry{
		`spec.traffic[0].application.inline.source.http.requestBytes: 37: the request has 36 bytes`:             inline(t, "a", "{http: {requestBytes: 37}}"),
		"spec.traffic[0].application.inline.destinationPort: is required":                                       inline(t, "a", "{payload: {transport: TCP, requestBytes: 1}}"),
		"spec.traffic[0].application.inline.source: set exactly one of":                                         inline(t, "a", "{http: {}, dns: {}}"),
		"spec.traffic[0].application: set exactly one of templateRef and inline":                                {Name: "a", TransmitPort: "east", ReceivePort: "west", Application: &spatev1.ApplicationEntry{}},
		`spec.traffic[0].application.inline.source.pcap.from: key "web" of ConfigMap "captures" does not exist`: inline(t, "a", "{pcap: {from: {configMapKeyRef: {name: captures, key: web}}}}"),
	} {
		_, problems := Resolve(Input{Profile: profile(e), Generator: generator(), Data: map[spatev1.DataReference][]byte{}})
		if !strings.Contains(problems.Message(), want) {
			t.Errorf("got %s\nwant %s", problems.Message(), want)
		}
	}
	made := mustResolve(t, Input{Profile: profile(inline(t, "a", "{http: {}}")), Generator: generator()})
	message := origin.Of(made.Plan(Identity{}), made.Entries, made.Clients).Refused("stateful.templates[0].client_tunables.mss", "x").Error()
	if want := "entry a: application.inline.tunables.client.tcp.mss: x"; message != want {
		t.Errorf("got %s, want %s", message, want)
	}
}

func TestInlineTemplatesOfTwoEntriesAreTwo(t *testing.T) {
	got := planOf(t, Input{Profile: profile(inline(t, "a", "{http: {path: /one}}"), inline(t, "b", "{http: {path: /two}}"))})
	for i, want := range []string{"GET /one ", "GET /two "} {
		if payload := got.Payloads[got.Templates[i].Client.Instructions[0].GetSend().Payload]; !strings.HasPrefix(string(payload.GetBytes()), want) {
			t.Errorf("entry %d sends %q, want %q", i, payload.GetBytes(), want)
		}
	}
}

func TestPresetsAreEstimatedByWhatTheyExpandTo(t *testing.T) {
	described, referring := inline(t, "web", "{http: {requestBytes: 60000}}"), running("web", "one", "east", "west")
	templates := map[string]*spatev1.ASTFTemplate{"one": ofSource(t, "{http: {requestBytes: 60000}}")}
	if a, b := Estimate(profile(described), nil, nil), Estimate(profile(referring), nil, templates); a != b || a < 60000 {
		t.Errorf("inline %d bytes, by reference %d", a, b)
	}
}

func TestAPausedProfilePausesWhatSends(t *testing.T) {
	p := profile(entryOf("stream", "east", "west", streamOf("1pps", 64)), running("clients", "one", "east", "west"), running("real-clients", "one", "", "west"))
	templates := map[string]*spatev1.ASTFTemplate{"one": templateOf(t, webTemplate)}
	sending := mustResolve(t, Input{Profile: p, Generator: generator(), Templates: templates})
	p.Spec.Paused = true
	paused := mustResolve(t, Input{Profile: p, Generator: generator(), Templates: templates})
	plan := paused.Plan(Identity{})
	if !plan.Streams[0].Paused || !plan.Stateful.Templates[0].Paused || plan.Stateful.Templates[1].Paused {
		t.Errorf("got %v", plan)
	}
	if paused.Load.Packets.Cmp(sending.Load.Packets) != 0 {
		t.Errorf("a paused profile asks for %s packets a second, and may be resumed to %s", paused.Load.Packets, sending.Load.Packets)
	}
	if changes := EntryStates(paused.Entries, p); changes != nil {
		t.Errorf("nothing was changed since: %+v", changes)
	}
	var names []string
	for _, change := range EntryStates(sending.Entries, p) {
		if !change.Paused {
			t.Errorf("%+v is resumed", change)
		}
		names = append(names, change.Name)
	}
	if got := strings.Join(names, " "); got != "stream clients" {
		t.Errorf("an active run has to pause %s", got)
	}
}

func TestPresetsKnowThePortOfTheirProtocol(t *testing.T) {
	for source, want := range map[string]uint32{"{http: {}}": 80, "{dns: {}}": 53} {
		one := ofSource(t, source)
		got := planOf(t, Input{Profile: profile(running("a", "one", "east", "west")), Templates: map[string]*spatev1.ASTFTemplate{"one": one}})
		if port := got.Templates[0].DestinationPort; port != want {
			t.Errorf("%s: port %d, want %d", source, port, want)
		}
		one.Spec.DestinationPort = ptr.To[int32](8080)
		got = planOf(t, Input{Profile: profile(running("a", "one", "east", "west")), Templates: map[string]*spatev1.ASTFTemplate{"one": one}})
		if port := got.Templates[0].DestinationPort; port != 8080 {
			t.Errorf("%s: port %d, and 8080 is set", source, port)
		}
	}
}

func TestAPresetIsPlannedAsItsProgramsAre(t *testing.T) {
	one := ofSource(t, "{http: {requestsPerConnection: 4, thinkTime: 1s}}")
	programs := one.DeepCopy()
	programs.Spec = *application.Expand(&one.Spec)
	programs.Spec.Source.HTTP = nil
	of := func(template *spatev1.ASTFTemplate) *enginev1.Stateful {
		return planOf(t, Input{Profile: profile(running("a", "one", "east", "west")), Templates: map[string]*spatev1.ASTFTemplate{"one": template}})
	}
	got, want := of(one), of(programs)
	if origin := &got.Templates[0].Origin; *origin != "spec.source.http" {
		t.Errorf("its origin is %q", *origin)
	} else {
		*origin = ""
	}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if TemplateDigest(&one.Spec) == TemplateDigest(&programs.Spec) {
		t.Error("the digest is that of what was written")
	}
}

// A port's load has the minimum that each flow sends, even if it repeats its request.
func TestTheLoadOfAPresetIsAtLeastThatOfARequest(t *testing.T) {
	const plainRequest = "GET / HTTP/1.1\r\nHost: spate.test\r\n\r\n"
	for _, source := range []string{"{http: {}}", "{http: {requestsPerConnection: 9}}", "{http: {requestsPerConnection: 9, thinkTime: 1s}}"} {
		in := Input{Profile: profile(running("a", "one", "east", "west")), Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"one": ofSource(t, source)}}
		load := mustResolve(t, in).Load
		for port, data := range map[string]int64{"east": int64(len(plainRequest)), "west": 1024} {
			if got := load.Ports[place(port)].L2Bits; got.Cmp(big.NewRat(8*data, 1)) < 0 {
				t.Errorf("%s: port %s sends %s bits a second, and each flow %d bytes of data", source, port, got, data)
			}
		}
	}
}

// ofSource returns a template with a source and no port.
func ofSource(t *testing.T, source string) *spatev1.ASTFTemplate {
	t.Helper()
	return templateOf(t, "source: "+source+"\nconnectionRate: 1cps\n"+poolsOf(webTemplate))
}

func yamlOf(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
