// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"fmt"
	"math/big"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/origin"
)

// labelledStreams returns streams by name, with the label set=NAME.
func labelledStreams(set string, streams map[string]*spatev1.StatelessStreamSpec) map[string]*spatev1.StatelessStream {
	all := map[string]*spatev1.StatelessStream{}
	for name, s := range streams {
		all[name] = &spatev1.StatelessStream{Spec: *s}
		all[name].Name, all[name].Namespace, all[name].Labels = name, "test", map[string]string{"set": set, "team": "lab"}
	}
	return all
}

// selecting returns an entry from east to west that selects the streams with the label set=NAME.
func selecting(name, set string, change ...func(*spatev1.StreamEntry)) spatev1.TrafficEntry {
	e := entryOf(name, "east", "west", nil)
	e.Stream.Selector = &spatev1.StreamSelector{MatchLabels: map[string]string{"set": set}}
	for _, c := range change {
		c(e.Stream)
	}
	return e
}

func TestASelectorStandsForItsStreamsInTheOrderOfTheirNames(t *testing.T) {
	streams := labelledStreams("b", map[string]*spatev1.StatelessStreamSpec{
		"b2": streamOf("20pps", 128), "b1": streamOf("10pps", 64), "b3": streamOf("30pps", 256, copies(2, spatev1.CopyVariation{Field: "udp.destinationPort"})),
	})
	streams["other"] = labelledStreams("c", map[string]*spatev1.StatelessStreamSpec{"other": streamOf("1pps", 64)})["other"]
	in := Input{Profile: profile(entryOf("first", "east", "west", streamOf("1pps", 64)), selecting("many", "b"), entryOf("last", "west", "east", streamOf("2pps", 64))), Generator: generator(), Streams: streams}
	in.Profile.Spec.Thresholds = []spatev1.Threshold{{Name: "one", Expression: `result.streams["b3"].lost == 0 && result.streams["first"].tx > 0`}}
	before := *streams["b2"].DeepCopy()
	resolved := mustResolve(t, in)
	var got []string
	for _, s := range resolved.Plan(Identity{}).Streams {
		got = append(got, fmt.Sprintf("%s %s %d %s %d", s.Name, s.Group, s.Id, rateText(s.GetContinuous().Rate), len(s.Packet.Frame)))
		if s.TxPort == s.RxPort || !s.Measure.Flow {
			t.Errorf("%v", s)
		}
	}
	want := []string{"first  0 1pps 60", "b1  1 10pps 60", "b2  2 20pps 124", "b3-0 b3 3 30pps 252", "b3-1 b3 4 30pps 252", "last  5 2pps 60"}
	for i := range want {
		if want[i] = strings.TrimSpace(want[i]); i >= len(got) || strings.Fields(got[i])[0] != strings.Fields(want[i])[0] || !strings.HasSuffix(got[i], want[i][strings.LastIndex(want[i], " "):]) {
			t.Errorf("got %q\nwant %q", got, want)
			break
		}
	}
	if resolved.Load.Packets.Cmp(big.NewRat(1+10+20+60+2, 1)) != 0 {
		t.Errorf("load %s", resolved.Load.Packets)
	}
	entries := []spatev1.EntrySnapshot{{Name: "first", Rate: "1pps", StreamRate: "1pps"}, {Name: "many", Selected: 3}, {Name: "last", Rate: "2pps", StreamRate: "2pps"}}
	if !slices.Equal(resolved.Entries, entries) {
		t.Errorf("entries %+v", resolved.Entries)
	}
	if s := resolved.Selections; len(s) != 1 || s[0].Entry != "many" || s[0].Count != 3 || len(s[0].Digest) != 64 || len(resolved.Definitions) != 0 {
		t.Errorf("selections %+v, definitions %v", s, resolved.Definitions)
	}
	if !reflect.DeepEqual(before, *streams["b2"]) {
		t.Error("a stream of the cache was changed")
	}
	if all := origin.Selected(resolved.Plan(Identity{}).Streams, resolved.Entries); len(all) != 1 || !slices.Equal(all["many"], []string{"b1", "b2", "b3"}) {
		t.Errorf("selected %v", all)
	}
	// What an engine refuses is reported by the entry and the object.
	refused := origin.Of(resolved.Plan(Identity{}), resolved.Entries, resolved.Clients).Refused("streams[4].program", "is odd").Problem(in.Profile)
	if want := `spec.traffic[1].stream.selector: StatelessStream "b3": spec.fields: the engine would refuse it: is odd`; refused.Error() != want {
		t.Errorf("got  %s\nwant %s", refused.Error(), want)
	}
}

func TestTheDigestOfASelectionFollowsItsStreams(t *testing.T) {
	streams := labelledStreams("b", map[string]*spatev1.StatelessStreamSpec{"b1": streamOf("10pps", 64), "b2": streamOf("10pps", 64)})
	selector := selecting("many", "b").Stream.Selector
	was := Selection("many", selector, streams)
	for name, change := range map[string]func(){
		"changed":    func() { streams["b1"].Generation++ },
		"made again": func() { streams["b1"].UID = "other" },
		"unlabelled": func() { streams["b1"].Labels = nil },
	} {
		streams["b1"] = labelledStreams("b", map[string]*spatev1.StatelessStreamSpec{"b1": streamOf("10pps", 64)})["b1"]
		if Selection("many", selector, streams) != was {
			t.Fatal("not the same of the same streams")
		}
		if change(); Selection("many", selector, streams) == was {
			t.Errorf("%s: the same digest", name)
		}
	}
}

func TestFieldsOfTheEntryApplyToEachSelectedStream(t *testing.T) {
	streams := labelledStreams("b", map[string]*spatev1.StatelessStreamSpec{"b1": streamOf("10pps", 64), "b2": streamOf("20pps", 64)})
	e := selecting("many", "b", func(s *spatev1.StreamEntry) { s.Rate, s.Size = "5pps", ptr.To[int32](512) })
	e.Paused = true
	p := profile(e)
	p.Spec.Rate = "3x"
	resolved := mustResolve(t, Input{Profile: p, Generator: generator(), Streams: streams})
	for _, s := range resolved.Plan(Identity{}).Streams {
		if r := s.GetContinuous().Rate.GetPacketsPerSecond(); r.Numerator != 15*r.Denominator || len(s.Packet.Frame) != 508 || !s.Paused {
			t.Errorf("%s: %v, %d bytes, paused %v", s.Name, r, len(s.Packet.Frame), s.Paused)
		}
	}
	if e := resolved.Entries; len(e) != 1 || e[0] != (spatev1.EntrySnapshot{Name: "many", Rate: "5pps", Paused: true, Selected: 2}) {
		t.Errorf("%+v", e)
	}
}

func TestPortsOfATwoPortGeneratorAreThoseOfEachSelectedStream(t *testing.T) {
	streams := labelledStreams("b", map[string]*spatev1.StatelessStreamSpec{"b1": streamOf("10pps", 64), "b2": streamOf("20pps", 64, unmeasured)})
	e := selecting("many", "b")
	e.TransmitPort, e.ReceivePort = "", ""
	made := mustResolve(t, Input{Profile: profile(e), Generator: withPorts(2), Streams: streams}).Plan(Identity{}).Streams
	if len(made) != 2 || made[0].RxPort == "" || made[1].RxPort != "" || made[1].TxPort == "" {
		t.Errorf("%v", made)
	}
}

func TestRatesOfSelectedStreamsChangeTogether(t *testing.T) {
	streams := labelledStreams("b", map[string]*spatev1.StatelessStreamSpec{"b1": streamOf("10pps", 64), "b2": streamOf("20pps", 64)})
	p := profile(selecting("many", "b"), entryOf("one", "east", "west", streamOf("1pps", 64)))
	resolved := mustResolve(t, Input{Profile: p, Generator: generator(), Streams: streams})
	if changes := EntryStates(resolved.Entries, p); len(changes) != 0 {
		t.Errorf("unchanged: %v", changes)
	}
	p.Spec.Traffic[0].Stream.Rate = "7pps"
	changes := EntryStates(resolved.Entries, p)
	if want := []spatev1.EntryChange{{Name: "many", Rate: "7pps"}}; !slices.Equal(changes, want) {
		t.Fatalf("%v", changes)
	}
	made := resolved.Plan(Identity{})
	live, err := Adjust(made, resolved.Factor, "2x", changes, origin.Selected(made.Streams, resolved.Entries), generator())
	if err != nil || live.Load.Packets.Cmp(big.NewRat(2*(7+7+1), 1)) != 0 {
		t.Errorf("load %s, %v", live.Load.Packets, err)
	}
	if r := live.Rates["many"].GetPacketsPerSecond(); len(live.Rates) != 1 || r.GetNumerator() != 14*r.GetDenominator() {
		t.Errorf("rates %v", live.Rates)
	}
	// The plan has no own rates beside an entry's, so that a run that was made with one cannot return to them.
	with := p.DeepCopy()
	with.Spec.Traffic[0].Stream.Rate = "8pps"
	without := p.DeepCopy()
	without.Spec.Traffic[0].Stream.Rate = ""
	if ProfileDigest(p) != ProfileDigest(with) || ProfileDigest(p) == ProfileDigest(without) {
		t.Error("another rate must not start a run, and none must")
	}
}

func TestSelectorsTellWhatIsWrong(t *testing.T) {
	two := labelledStreams("b", map[string]*spatev1.StatelessStreamSpec{"b1": streamOf("10pps", 64), "b2": streamOf("20pps", 64)})
	named := func(names ...string) map[string]*spatev1.StatelessStream {
		specs := map[string]*spatev1.StatelessStreamSpec{}
		for _, name := range names {
			specs[name] = streamOf("1pps", 64)
		}
		return labelledStreams("b", specs)
	}
	astray := labelledStreams("b", map[string]*spatev1.StatelessStreamSpec{"b1": streamOf("", 64, burst(0, "1kpps"))})
	var tooMany []string
	for i := range mostStreams + 1 {
		tooMany = append(tooMany, fmt.Sprintf("s%d", i))
	}
	var marked = map[string]*spatev1.StatelessStreamSpec{}
	for i := range mostMarks + 1 {
		marked[fmt.Sprintf("s%d", i)] = streamOf("1pps", 64, func(s *spatev1.StatelessStreamSpec) {
			s.Measure = spatev1.Measure{Mark: &spatev1.Mark{IPv4Identification: ptr.To(spatev1.IPv4MarkValue(spatev1.MarkAuto))}}
		})
	}
	for name, c := range map[string]struct {
		streams map[string]*spatev1.StatelessStream
		entries []spatev1.TrafficEntry
		reason  string
		want    string
	}{
		"none":       {two, []spatev1.TrafficEntry{selecting("many", "x")}, spatev1.ReasonReferenceNotFound, "spec.traffic[0].stream.selector: no StatelessStream in namespace test has the labels set=x"},
		"no labels":  {two, []spatev1.TrafficEntry{selecting("many", "b", func(e *spatev1.StreamEntry) { e.Selector.MatchLabels = nil })}, spatev1.ReasonInvalidSpec, "spec.traffic[0].stream.selector.matchLabels: is required"},
		"no label":   {two, []spatev1.TrafficEntry{selecting("many", "not a value")}, spatev1.ReasonInvalidSpec, "spec.traffic[0].stream.selector.matchLabels: "},
		"not enough": {two, []spatev1.TrafficEntry{selecting("many", "b", func(e *spatev1.StreamEntry) { e.Selector.Count = ptr.To[int32](3) })}, spatev1.ReasonReferenceNotFound, "spec.traffic[0].stream.selector.count: 2 StatelessStreams in namespace test have the labels set=b, and count is 3: apply those that are missing, or correct count"},
		"two sources": {two, []spatev1.TrafficEntry{selecting("many", "b", func(e *spatev1.StreamEntry) { e.Ref = &spatev1.LocalReference{Name: "b1"} })}, spatev1.ReasonInvalidSpec,
			"spec.traffic[0].stream: set exactly one of ref, inline and selector"},
		"a chain":        {two, []spatev1.TrafficEntry{selecting("many", "b", func(e *spatev1.StreamEntry) { e.Next = &spatev1.NextEntry{Entry: "many"} })}, spatev1.ReasonInvalidSpec, "spec.traffic[0].stream.next: a chain is one of entries, and the selector stands for 2 streams"},
		"waits":          {two, []spatev1.TrafficEntry{selecting("many", "b", func(e *spatev1.StreamEntry) { e.Start = spatev1.StartWaiting })}, spatev1.ReasonInvalidSpec, "spec.traffic[0].stream.start: a chain is one of entries"},
		"to a selected":  {two, []spatev1.TrafficEntry{selecting("many", "b"), chained("a", streamOf("", 64, burst(5, "1kpps")), false, "b1", 0)}, spatev1.ReasonInvalidSpec, `spec.traffic[1].stream.next.entry: "b1" is no entry of the profile`},
		"an entry's":     {two, []spatev1.TrafficEntry{selecting("many", "b"), entryOf("b2", "east", "west", streamOf("1pps", 64))}, spatev1.ReasonInvalidSpec, `spec.traffic[0].stream.selector: StatelessStream "b2" is selected, and spec.traffic[1] has its name: results need different ones`},
		"its own":        {named("many"), []spatev1.TrafficEntry{selecting("many", "b")}, spatev1.ReasonInvalidSpec, `StatelessStream "many" is selected, and spec.traffic[0] has its name`},
		"twice":          {two, []spatev1.TrafficEntry{selecting("many", "b"), selecting("again", "b")}, spatev1.ReasonInvalidSpec, `spec.traffic[1].stream.selector: StatelessStream "b1" is selected by spec.traffic[0] too`},
		"an odd name":    {named("b.1"), []spatev1.TrafficEntry{selecting("many", "b")}, spatev1.ReasonInvalidSpec, `StatelessStream "b.1" is selected, and its name cannot be one in results: name it with at most 63 lower-case letters, digits and '-'`},
		"a long name":    {named(strings.Repeat("b", 64)), []spatev1.TrafficEntry{selecting("many", "b")}, spatev1.ReasonInvalidSpec, "its name cannot be one in results"},
		"a wrong stream": {astray, []spatev1.TrafficEntry{selecting("many", "b")}, spatev1.ReasonInvalidSpec, `spec.traffic[0].stream.selector: StatelessStream "b1": spec.transmit.burst.packets: 0: must be at least 1`},
		"not measured": {labelledStreams("b", map[string]*spatev1.StatelessStreamSpec{"b1": streamOf("1pps", 64, unmeasured)}), []spatev1.TrafficEntry{selecting("many", "b")}, spatev1.ReasonInvalidSpec,
			`spec.traffic[0].receivePort: StatelessStream "b1": nothing of the stream is measured at west`},
		"too many":       {named(tooMany...), []spatev1.TrafficEntry{selecting("many", "b")}, spatev1.ReasonInvalidSpec, "spec.traffic[0].stream.selector: with it 65537 StatelessStreams are selected; at most 65536 streams can run at once: select fewer, or divide them over several profiles"},
		"too many marks": {labelledStreams("b", marked), []spatev1.TrafficEntry{selecting("many", "b")}, spatev1.ReasonInvalidSpec, "spec.traffic[0]: more than 512 streams have a measure.mark of their own: measure the others by measure.flow"},
	} {
		t.Run(name, func(t *testing.T) {
			p := profile(c.entries...)
			p.Spec.Thresholds = []spatev1.Threshold{{Name: "late", Expression: `result.streams["b1"].lost == 0`}}
			if !strings.Contains(name, "none") && !strings.Contains(name, "not enough") {
				p.Spec.Thresholds = nil
			}
			_, problems := Resolve(Input{Profile: p, Generator: generator(), Streams: c.streams})
			if problems.Reason() != c.reason || !strings.Contains(problems.Message(), c.want) {
				t.Errorf("got %s: %.2000s\nwant %s: %s", problems.Reason(), problems.Message(), c.reason, c.want)
			}
			if len(problems) > 2*mostReported {
				t.Errorf("%d problems", len(problems))
			}
		})
	}
}

// The time and the memory are printed; that the plan is complete and small is asserted.
func Test65536DistinctStreams(t *testing.T) {
	specs := map[string]*spatev1.StatelessStreamSpec{}
	for i := range mostStreams {
		specs[fmt.Sprintf("a-stream-of-many-with-a-long-name-%05d", i)] = streamOf("1pps", int32(64+i%1400), func(s *spatev1.StatelessStreamSpec) {
			s.Packet.Headers[1].IPv4.Source = spatev1.IPv4Address(fmt.Sprintf("198.18.%d.%d", i>>8, i&255))
		})
	}
	streams := labelledStreams("b", specs)
	p := profile(selecting("many", "b", func(e *spatev1.StreamEntry) { e.Selector.Count = ptr.To[int32](mostStreams) }))
	last := fmt.Sprintf("a-stream-of-many-with-a-long-name-%05d", mostStreams-1)
	p.Spec.Thresholds = []spatev1.Threshold{
		{Name: "last", Expression: fmt.Sprintf(`result.streams[%q].lost == 0`, last)},
		{Name: "each", Expression: `result.streams.all(name, result.streams[name].lost == 0 && result.streams[name].rx >= 0)`},
	}
	var start, end runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&start)
	began := time.Now()
	resolved := mustResolve(t, Input{Profile: p, Generator: generator(), Streams: streams, Bound: BoundOf(1 << 30)})
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&end)
	var written bytes.Buffer
	began = time.Now()
	if err := resolved.Write(&written, Identity{RunID: "r", Tag: 1}); err != nil {
		t.Fatal(err)
	}
	wrote := time.Since(began)
	outline, err := ReadOutline(bytes.NewReader(written.Bytes()))
	if err != nil || len(outline.Streams) != mostStreams || outline.Streams[mostStreams-1].Id != mostStreams-1 || outline.Streams[mostStreams-1].Name != last {
		t.Fatalf("%d streams, %v", len(outline.Streams), err)
	}
	t.Logf("65536 streams: resolved in %s, in %d MiB that stay; plan of %d MiB written in %s, an outline of %d MiB", took.Round(time.Millisecond),
		(int64(end.HeapAlloc)-int64(start.HeapAlloc))>>20, written.Len()>>20, wrote.Round(time.Millisecond), proto.Size(outline)>>20)
	if len(resolved.Entries) != 1 || resolved.Entries[0].Selected != mostStreams || len(resolved.Selections) != 1 || len(resolved.Definitions) != 0 {
		t.Errorf("the status would have %d entries, %d selections, %d definitions", len(resolved.Entries), len(resolved.Selections), len(resolved.Definitions))
	}
	if names := origin.Selected(outline.Streams, resolved.Entries)["many"]; len(names) != mostStreams || names[mostStreams-1] != last {
		t.Errorf("%d names", len(names))
	}
}
