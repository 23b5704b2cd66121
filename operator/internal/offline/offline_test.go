// SPDX-License-Identifier: Apache-2.0

package offline

import (
	"slices"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/plan"
)

func files(t *testing.T, texts ...string) Files {
	t.Helper()
	var r manifest.Reader
	for i, text := range texts {
		r.Read(string(rune('a'+i)), []byte(text))
	}
	set, problems := r.Done()
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return Files{Set: set, LineRate: DefaultLineRate}
}

const (
	profile = `apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: smoke}
spec:
  generatorRef: {name: lab}
  traffic:
    - {name: one, transmitPort: east, stream: {ref: {name: udp}}}
`
	streamText = `apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: udp}
spec:
  packet:
    headers:
      - ethernet: {}
      - ipv4: {source: 198.18.0.1, destination: 198.19.0.1}
      - udp: {destinationPort: 7}
    size: 128
  transmit: {continuous: {rate: 50%}}
`
	lab = `apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: lab}
spec:
  ports:
    - {name: east, attachment: {discard: {}}, lineRate: 1Gbps}
  limits: {maxRate: 1Gbps}
`
	// unnamed is the profile without a generator.
	unnamed = `apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: smoke}
spec:
  traffic:
    - {name: one, transmitPort: east, stream: {ref: {name: udp}}}
`
	// astray writes a field of a header that the stream has not.
	astray = streamText + "  fields: [{name: f, values: [1], writes: [{field: tcp.sourcePort}]}]\n"
	replay = `apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: udp}
spec:
  transmit: {replay: {pcap: {from: {secretKeyRef: {name: captures, key: web}}}}}
`
)

func TestFilesBecomePlans(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		// rate of the first stream in bits a second on the medium.
		rate uint64
	}{
		"with a generator":    {[]string{profile, streamText, lab}, 500_000_000},
		"with a stand-in":     {[]string{profile + "---\n" + streamText}, 5_000_000_000},
		"with the only one":   {[]string{unnamed, streamText, lab, strings.Replace(lab, "name: lab", "name: lab, namespace: other", 1)}, 500_000_000},
		"in one namespace":    {[]string{strings.ReplaceAll(profile+"---\n"+streamText, "metadata: {", "metadata: {namespace: lab, ")}, 5_000_000_000},
		"of another template": {[]string{streamText, profile, strings.Replace(streamText, "name: udp", "name: other", 1)}, 5_000_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			f := files(t, c.files...)
			if problems := f.Check(); len(problems) > 0 {
				t.Error(problems)
			}
			chosen, err := f.Choose("", "")
			if err != nil {
				t.Fatal(err)
			}
			resolved, problems := f.Resolve(chosen)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			rate := resolved.Plan(plan.Identity{RunID: "r"}).Streams[0].GetContinuous().Rate.GetL1BitsPerSecond()
			if rate.GetNumerator() != c.rate*rate.GetDenominator() {
				t.Errorf("rate %v, want %d", rate, c.rate)
			}
		})
	}
}

func TestProblemsAreReportedOnceAndWhereTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  []string
	}{
		"in a stream": {[]string{profile, astray}, []string{`b, document 1: StatelessStream udp: spec.fields[0].writes[0].field: `}},
		"in both": {[]string{strings.Replace(profile, "transmitPort", "receivePort: east, transmitPort", 1), astray},
			[]string{`b, document 1: StatelessStream udp: spec.fields[0].writes[0].field: `, "a, document 1: TrafficProfile smoke: spec.traffic[0].receivePort: "}},
		"no stream":         {[]string{profile}, []string{`TrafficProfile smoke: spec.traffic[0].stream.ref.name: StatelessStream "udp" does not exist`}},
		"another namespace": {[]string{profile, strings.Replace(streamText, "name: udp", "name: udp, namespace: other", 1)}, []string{`StatelessStream "udp" does not exist in namespace default`}},
		"no such generator": {[]string{profile, streamText, strings.Replace(lab, "name: lab", "name: other", 1)}, []string{`spec.generatorRef.name: TrafficGenerator "lab" does not exist`}},
		"no generator":      {[]string{unnamed, streamText}, []string{"a, document 1: TrafficProfile smoke: spec.generatorRef: is required: namespace default has no TrafficGenerator"}},
		"two generators": {[]string{unnamed, streamText, lab, strings.Replace(lab, "name: lab", "name: other", 1)},
			[]string{"a, document 1: TrafficProfile smoke: spec.generatorRef: is required: namespace default has 2 TrafficGenerators (lab, other)"}},
		"a generator elsewhere": {[]string{unnamed, streamText, strings.Replace(lab, "name: lab", "name: lab, namespace: other", 1)},
			[]string{"TrafficProfile smoke: spec.generatorRef: is required: namespace default has no TrafficGenerator"}},
		"not granted": {[]string{strings.Replace(profile, "{name: lab}", "{name: lab, namespace: other}", 1), streamText, strings.Replace(lab, "name: lab", "name: lab, namespace: other", 1)},
			[]string{"spec.generatorRef: TrafficGenerator lab in namespace other (c, document 1) does not allow namespace default: see its spec.allowedNamespaces"}},
		"too much":      {[]string{strings.Replace(profile, "traffic:", "rate: 5Gbps\n  traffic:", 1), streamText, lab}, []string{"TrafficProfile smoke: spec.rate: "}},
		"a generator's": {[]string{strings.Replace(lab, "1Gbps}", "1Gbps, gateway: 198.18.0.254}", 1)}, []string{"a, document 1: TrafficGenerator lab: spec.ports[0].gateway: "}},
		"no capture":    {[]string{profile, replay}, []string{`key "web" of Secret "captures" does not exist`}},
		"a capture that is none": {[]string{profile, replay, "apiVersion: v1\nkind: Secret\nmetadata: {name: captures}\nstringData: {web: hello}\n"},
			[]string{`key "web" of Secret "captures": is neither a pcap nor a pcapng file`}},
	} {
		t.Run(name, func(t *testing.T) {
			problems := files(t, c.files...).Check()
			if len(problems) < len(c.want) || name != "too much" && len(problems) > len(c.want) {
				t.Fatalf("got %v", problems)
			}
			for i, want := range c.want {
				if !strings.Contains(problems[i].Error(), want) {
					t.Errorf("got %v\nwant %s", problems[i], want)
				}
			}
		})
	}
}

func TestWhatCouldNotBeReadIsNotMissing(t *testing.T) {
	for name, wrong := range map[string]string{
		"a stream":    strings.Replace(streamText, "size: 128", "size: big", 1),
		"a generator": strings.Replace(lab, "1Gbps}", "5}", 1) + "---\n" + strings.Replace(lab, "name: lab", "name: other", 1),
		"a Secret":    replay + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: captures}\ndata: {web: '*'}\n",
	} {
		var r manifest.Reader
		r.Read("a", []byte(profile+"---\n"+wrong))
		if name == "a generator" {
			r.Read("b", []byte(streamText))
		}
		set, problems := r.Done()
		if more := (Files{Set: set, LineRate: DefaultLineRate}).Check(); len(problems) == 0 || len(more) > 0 {
			t.Errorf("%s: got %v, and %v", name, problems, more)
		}
	}
}

func TestProfilesAreChosen(t *testing.T) {
	other := strings.Replace(profile, "name: smoke", "name: other", 1)
	for name, c := range map[string]struct {
		files  []string
		choice string
		want   string
	}{
		"the only one":      {[]string{profile}, "", ""},
		"by name":           {[]string{profile, other}, "other", ""},
		"of none":           {[]string{streamText}, "", "there is no TrafficProfile in the files"},
		"of two":            {[]string{profile, other}, "", "there are 2 TrafficProfiles in the files: choose one with --profile, of smoke, other"},
		"another":           {[]string{profile, other}, "third", `there is no TrafficProfile "third" in the files; there is smoke, other`},
		"in two namespaces": {[]string{profile, strings.Replace(profile, "name: smoke", "name: smoke, namespace: b", 1)}, "smoke", "in several namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := files(t, c.files...).Choose(c.choice, "")
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestStandInsHaveThePortsThatProfilesName(t *testing.T) {
	p := &spatev1.TrafficProfile{Spec: spatev1.TrafficProfileSpec{TrafficDefinition: spatev1.TrafficDefinition{
		GeneratorRef: &spatev1.GeneratorReference{Name: "lab", Namespace: "shared"},
		Traffic: []spatev1.TrafficEntry{{TransmitPort: "a"}, {TransmitPort: "b", ReceivePort: "c"}, {TransmitPort: "a"}, {TransmitPort: "d"},
			{Application: &spatev1.ApplicationEntry{}, TransmitPort: "f"}, {Application: &spatev1.ApplicationEntry{}, ReceivePort: "g"}},
		Reflect: []spatev1.ReflectPort{{Port: "d"}},
		Receive: []spatev1.ReceivePort{{Port: "e"}},
	}}}
	g := StandIn(p, "25Gbps")
	var got []string
	for _, port := range g.Spec.Ports {
		kind := "network"
		if port.Attachment.Discard != nil {
			kind = "discard"
		}
		got = append(got, string(port.Name)+" "+kind+" "+string(port.LineRate))
	}
	want := []string{"a discard 25Gbps", "d network 25Gbps", "b network 25Gbps", "c network 25Gbps", "f network 25Gbps", "g network 25Gbps", "e network 25Gbps"}
	if !slices.Equal(got, want) || g.Name != "lab" || g.Namespace != "shared" {
		t.Errorf("got %v of %s/%s", got, g.Namespace, g.Name)
	}
}

func TestStandInsHaveTwoPortsWhereEntriesNameNone(t *testing.T) {
	for name, c := range map[string]struct {
		entries []spatev1.TrafficEntry
		want    []string
	}{
		"none":             {[]spatev1.TrafficEntry{{}}, []string{"port-1", "port-2"}},
		"one":              {[]spatev1.TrafficEntry{{}, {TransmitPort: "east"}}, []string{"east", "port-1"}},
		"one, as are made": {[]spatev1.TrafficEntry{{}, {TransmitPort: "port-1"}}, []string{"port-1", "port-2"}},
		"two":              {[]spatev1.TrafficEntry{{TransmitPort: "east", ReceivePort: "west"}, {}}, []string{"east", "west"}},
		"three":            {[]spatev1.TrafficEntry{{TransmitPort: "east", ReceivePort: "west"}, {}, {TransmitPort: "north"}}, []string{"north", "east", "west"}},
	} {
		p := &spatev1.TrafficProfile{Spec: spatev1.TrafficProfileSpec{TrafficDefinition: spatev1.TrafficDefinition{Traffic: c.entries}}}
		var got []string
		for _, port := range StandIn(p, "25Gbps").Spec.Ports {
			got = append(got, string(port.Name))
			if port.Attachment.Kernel == nil || port.LineRate != "25Gbps" {
				t.Errorf("%s: %+v", name, port)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

const (
	referring = `apiVersion: spate.dev/v1alpha1
kind: TrafficRun
metadata: {name: smoke-fast}
spec:
  profileRef: {name: smoke}
  overrides: {rate: 0.5x, duration: 7s}
`
	describing = `apiVersion: spate.dev/v1alpha1
kind: TrafficRun
metadata: {generateName: once-}
spec:
  profile:
    generatorRef: {name: lab}
    traffic:
      - {name: one, transmitPort: east, stream: {ref: {name: udp}}}
  overrides: {duration: 3s}
  paused: true
`
)

func TestRunsInFilesBecomePlansOfWhatTheyExecute(t *testing.T) {
	for name, c := range map[string]struct {
		files            []string
		run              string
		runName, profile string
		rate             uint64
		duration         uint64
		paused           bool
	}{
		"of a profile":              {[]string{profile, streamText, lab, referring}, "smoke-fast", "smoke-fast", "smoke", 250_000_000, 7e9, false},
		"of its own":                {[]string{streamText, lab, describing}, "", "once", "once", 500_000_000, 3e9, true},
		"on a stand-in":             {[]string{streamText, describing}, "once-", "once", "once", 5_000_000_000, 3e9, true},
		"on the only generator":     {[]string{streamText, lab, strings.Replace(describing, "    generatorRef: {name: lab}\n", "", 1)}, "", "once", "once", 500_000_000, 3e9, true},
		"on a generator of its own": {[]string{profile, streamText, strings.Replace(lab, "name: lab", "name: other", 1), strings.Replace(referring, "{rate", "{generatorRef: {name: other}, rate", 1)}, "smoke-fast", "smoke-fast", "smoke", 250_000_000, 7e9, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := files(t, c.files...)
			d, err := f.Choose("", c.run)
			if err != nil {
				t.Fatal(err)
			}
			resolved, problems := f.Resolve(d)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			made := d.Plan(resolved)
			rate := made.Streams[0].GetContinuous().Rate.GetL1BitsPerSecond()
			if made.RunId != c.runName || made.Run != c.runName || made.Profile != c.profile || made.Namespace != "default" || made.Timing.DurationNs != c.duration ||
				rate.GetNumerator() != c.rate*rate.GetDenominator() || made.Streams[0].Paused != c.paused {
				t.Errorf("got %v", made)
			}
		})
	}
}

func TestProblemsOfRunsAreReportedByTheirFields(t *testing.T) {
	change := strings.NewReplacer
	for name, c := range map[string]struct {
		files []string
		want  []string
	}{
		"right":      {[]string{profile, streamText, lab, referring, strings.Replace(describing, "0.5x", "1x", 1)}, nil},
		"no profile": {[]string{streamText, lab, referring}, []string{`c, document 1: TrafficRun smoke-fast: spec.profileRef.name: TrafficProfile "smoke" does not exist in namespace default`}},
		"elsewhere": {[]string{strings.Replace(profile, "name: smoke", "name: smoke, namespace: other", 1), strings.Replace(streamText, "name: udp", "name: udp, namespace: other", 1), strings.Replace(lab, "name: lab", "name: lab, namespace: other", 1), referring},
			[]string{`d, document 1: TrafficRun smoke-fast: spec.profileRef.name: TrafficProfile "smoke" does not exist in namespace default`}},
		"too fast": {[]string{profile, streamText, lab, change("0.5x", "9x").Replace(referring)}, []string{
			"d, document 1: TrafficRun smoke-fast: spec.overrides.rate: the traffic needs ", "d, document 1: TrafficRun smoke-fast: spec.overrides.rate: port east of generator lab would have to carry 4.5Gbps"}},
		"what is wrong with the profile too": {[]string{strings.Replace(profile, "transmitPort: east", "transmitPort: north", 1), streamText, lab, referring},
			[]string{`a, document 1: TrafficProfile smoke: spec.traffic[0].transmitPort: "north" is no port of generator lab`}},
		"with its override alone": {[]string{profile, streamText, lab, strings.Replace(strings.Replace(lab, "name: lab", "name: other", 1), "name: east", "name: north", 1), change("{rate", "{generatorRef: {name: other}, rate").Replace(referring)},
			[]string{`e, document 1: TrafficRun smoke-fast: spec.profileRef: TrafficProfile "smoke": spec.traffic[0].transmitPort: "east" is no port of generator other`}},
		"of its own":  {[]string{streamText, lab, strings.Replace(describing, "transmitPort: east", "transmitPort: north", 1)}, []string{`c, document 1: TrafficRun once-: spec.profile.traffic[0].transmitPort: "north" is no port of generator lab`}},
		"a threshold": {[]string{profile, streamText, lab, change("{rate", "{thresholds: [{name: t, expression: result.fail == 0}], rate").Replace(referring)}, []string{`TrafficRun smoke-fast: spec.overrides.thresholds[0].expression: "result.fail == 0"`}},
		"a stream's":  {[]string{astray, lab, describing}, []string{"a, document 1: StatelessStream udp: spec.fields[0].writes[0].field: "}},
		"not granted": {[]string{streamText, strings.Replace(lab, "name: lab", "name: lab, namespace: other", 1), strings.Replace(describing, "{name: lab}", "{name: lab, namespace: other}", 1)},
			[]string{"c, document 1: TrafficRun once-: spec.profile.generatorRef: TrafficGenerator lab in namespace other (b, document 1) does not allow namespace default"}},
		"no generator": {[]string{streamText, strings.Replace(describing, "    generatorRef: {name: lab}\n", "", 1)}, []string{"TrafficRun once-: spec.profile.generatorRef: is required: namespace default has no TrafficGenerator"}},
	} {
		t.Run(name, func(t *testing.T) {
			problems := files(t, c.files...).Check()
			if len(problems) != len(c.want) {
				t.Fatalf("got %v\nwant %v", problems, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(problems[i].Error(), want) {
					t.Errorf("got %s\nwant %s", problems[i].Error(), want)
				}
			}
		})
	}
}

func TestObjectsThatCannotBeReadAreNotMissed(t *testing.T) {
	for name, texts := range map[string][]string{
		"a profile":   {strings.Replace(profile, "traffic:", "streams:", 1), referring},
		"a generator": {unnamed, streamText, strings.Replace(lab, "ports:", "portz:", 1)},
	} {
		var r manifest.Reader
		for i, text := range texts {
			r.Read(string(rune('a'+i)), []byte(text))
		}
		set, unread := r.Done()
		if problems := (Files{Set: set, LineRate: DefaultLineRate}).Check(); len(problems) > 0 || len(unread) != 1 {
			t.Errorf("%s: got %v beside %v", name, problems, unread)
		}
	}
}

func TestWarningsOfARunAreThoseThatItsProfileHasNot(t *testing.T) {
	const delayed = "TrafficProfile \"smoke\": spec.traffic[0]: its stream's startDelay of 5s is not shorter than the run"
	late := strings.Replace(streamText, "  transmit:", "  startDelay: 5s\n  transmit:", 1)
	for _, c := range []struct {
		profile, run string
		want         []string
	}{
		{strings.Replace(profile, "traffic:", "duration: 9s\n  traffic:", 1), strings.Replace(referring, "7s", "2s", 1), []string{"TrafficRun smoke-fast: spec.profileRef: " + delayed}},
		{strings.Replace(profile, "traffic:", "duration: 2s\n  traffic:", 1), strings.Replace(referring, "7s", "2s", 1), []string{"TrafficProfile smoke: spec.traffic[0]: its stream's startDelay of 5s is not shorter"}},
		{strings.Replace(profile, "traffic:", "duration: 9s\n  traffic:", 1), referring, nil},
	} {
		got := files(t, c.profile, late, lab, c.run).Warnings()
		if len(got) != len(c.want) || len(got) > 0 && !strings.Contains(got[0].Error(), c.want[0]) {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}

func TestARunIsChosenByItsName(t *testing.T) {
	other := strings.Replace(referring, "smoke-fast", "smoke-slow", 1)
	for name, c := range map[string]struct {
		files        []string
		profile, run string
		want, error  string
	}{
		"the only profile":        {[]string{profile, referring}, "", "", "TrafficProfile smoke", ""},
		"a run beside it":         {[]string{profile, referring}, "", "smoke-fast", "TrafficRun smoke-fast", ""},
		"of two":                  {[]string{profile, referring, other}, "", "smoke-slow", "TrafficRun smoke-slow", ""},
		"the only run":            {[]string{describing}, "", "", "TrafficRun once-", ""},
		"two runs, no profile":    {[]string{describing, other}, "", "", "", "there are 2 TrafficRuns in the files: choose one with --run, of once-, smoke-slow"},
		"a run that is not there": {[]string{profile, other}, "", "third", "", `there is no TrafficRun "third" in the files; there is smoke-slow`},
		"no run at all":           {[]string{profile}, "", "third", "", "there is no TrafficRun in the files"},
		"without its profile":     {[]string{other}, "", "", "", `TrafficRun smoke-slow: spec.profileRef.name: TrafficProfile "smoke" does not exist in namespace default`},
		"a profile and no name":   {[]string{describing}, "smoke", "", "", "there is no TrafficProfile in the files"},
	} {
		d, err := files(t, c.files...).Choose(c.profile, c.run)
		if d.Object != c.want || (err == nil) != (c.error == "") || err != nil && !strings.Contains(err.Error(), c.error) {
			t.Errorf("%s: got %q, %v", name, d.Object, err)
		}
	}
}
