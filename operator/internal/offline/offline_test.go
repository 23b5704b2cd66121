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
    - {name: one, streamRef: {name: udp}, transmitPort: east}
`
	stream = `apiVersion: spate.dev/v1alpha1
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
    - {name: east, attachment: {nullPort: {}}, lineRate: 1Gbps}
  limits: {maxRate: 1Gbps}
`
	replay = `apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: udp}
spec:
  transmit: {replay: {pcap: {from: {secretName: captures, key: web}}}}
`
)

func TestFilesBecomePlans(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		// rate of the first stream in bits a second on the medium.
		rate uint64
	}{
		"with a generator":    {[]string{profile, stream, lab}, 500_000_000},
		"with a stand-in":     {[]string{profile + "---\n" + stream}, 5_000_000_000},
		"in one namespace":    {[]string{strings.ReplaceAll(profile+"---\n"+stream, "metadata: {", "metadata: {namespace: lab, ")}, 5_000_000_000},
		"of another template": {[]string{stream, profile, strings.Replace(stream, "name: udp", "name: other", 1)}, 5_000_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			f := files(t, c.files...)
			if problems := f.Check(); len(problems) > 0 {
				t.Error(problems)
			}
			chosen, err := f.Profile("")
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
		"in a stream": {[]string{profile, strings.Replace(stream, "50%", "much", 1)}, []string{`b, document 1: StatelessStream udp: spec.transmit.continuous.rate: "much"`}},
		"in both": {[]string{strings.Replace(profile, "transmitPort", "receivePort: east, transmitPort", 1), strings.Replace(stream, "50%", "much", 1)},
			[]string{`b, document 1: StatelessStream udp: spec.transmit`, "a, document 1: TrafficProfile smoke: spec.traffic[0].receivePort: "}},
		"no stream":         {[]string{profile}, []string{`TrafficProfile smoke: spec.traffic[0].streamRef.name: StatelessStream "udp" does not exist`}},
		"another namespace": {[]string{profile, strings.Replace(stream, "name: udp", "name: udp, namespace: other", 1)}, []string{`StatelessStream "udp" does not exist in namespace default`}},
		"no such generator": {[]string{profile, stream, strings.Replace(lab, "name: lab", "name: other", 1)}, []string{`spec.generatorRef.name: TrafficGenerator "lab" does not exist`}},
		"no generator":      {[]string{strings.Replace(profile, "generatorRef: {name: lab}", "duration: 1s", 1), stream}, []string{"spec: set exactly one of generatorRef and generator"}},
		"not granted": {[]string{strings.Replace(profile, "{name: lab}", "{name: lab, namespace: other}", 1), stream, strings.Replace(lab, "name: lab", "name: lab, namespace: other", 1)},
			[]string{"spec.generatorRef: TrafficGenerator lab in namespace other (c, document 1) does not allow namespace default: see its spec.allowedNamespaces"}},
		"too much":      {[]string{strings.Replace(profile, "traffic:", "rate: 5Gbps\n  traffic:", 1), stream, lab}, []string{"TrafficProfile smoke: spec.rate: "}},
		"a generator's": {[]string{strings.Replace(lab, "1Gbps}", "1Zbps}", 1)}, []string{`a, document 1: TrafficGenerator lab: spec.ports[0].lineRate: "1Zbps"`}},
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
		"a stream":    strings.Replace(stream, "size: 128", "size: big", 1),
		"a generator": strings.Replace(lab, "1Gbps}", "5}", 1) + "---\n" + strings.Replace(lab, "name: lab", "name: other", 1),
		"a Secret":    replay + "---\napiVersion: v1\nkind: Secret\nmetadata: {name: captures}\ndata: {web: '*'}\n",
	} {
		var r manifest.Reader
		r.Read("a", []byte(profile+"---\n"+wrong))
		if name == "a generator" {
			r.Read("b", []byte(stream))
		}
		set, problems := r.Done()
		if more := (Files{Set: set, LineRate: DefaultLineRate}).Check(); len(problems) != 1 || len(more) > 0 {
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
		"of none":           {[]string{stream}, "", "there is no TrafficProfile in the files"},
		"of two":            {[]string{profile, other}, "", "there are 2 TrafficProfiles in the files: choose one with --profile, of smoke, other"},
		"another":           {[]string{profile, other}, "third", `there is no TrafficProfile "third" in the files; there is smoke, other`},
		"in two namespaces": {[]string{profile, strings.Replace(profile, "name: smoke", "name: smoke, namespace: b", 1)}, "smoke", "in several namespaces"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := files(t, c.files...).Profile(c.choice)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestStandInsHaveThePortsThatProfilesName(t *testing.T) {
	p := &spatev1.TrafficProfile{Spec: spatev1.TrafficProfileSpec{
		GeneratorRef: &spatev1.GeneratorReference{Name: "lab", Namespace: "shared"},
		Traffic: []spatev1.TrafficEntry{{TransmitPort: "a"}, {TransmitPort: "b", ReceivePort: "c"}, {TransmitPort: "a"}, {TransmitPort: "d"},
			{TemplateRef: &spatev1.LocalReference{Name: "http"}, TransmitPort: "f"}, {TemplateRef: &spatev1.LocalReference{Name: "http"}, ReceivePort: "g"}},
		Reflect: []spatev1.ReflectPort{{Port: "d"}},
		Receive: []spatev1.ReceivePort{{Port: "e"}},
	}}
	g := StandIn(p, "25Gbps")
	var got []string
	for _, port := range g.Spec.Ports {
		kind := "network"
		if port.Attachment.Null != nil {
			kind = "null"
		}
		got = append(got, string(port.Name)+" "+kind+" "+string(port.LineRate))
	}
	want := []string{"a null 25Gbps", "d network 25Gbps", "b network 25Gbps", "c network 25Gbps", "f network 25Gbps", "g network 25Gbps", "e network 25Gbps"}
	if !slices.Equal(got, want) || g.Name != "lab" || g.Namespace != "shared" {
		t.Errorf("got %v of %s/%s", got, g.Namespace, g.Name)
	}
}
