// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/plan/stream"
)

// mixedInput has copies, a replay and a template.
func mixedInput(t *testing.T) Input {
	data := map[spatev1.DataReference][]byte{{Kind: spatev1.DataConfigMap, Name: "captures", Key: "web"}: recording(t, 3)}
	copied := streamOf("1pps", 200, copies(3, spatev1.CopyVariation{Field: "ipv4.source"}))
	p := profile(entryOf("copied", "east", "west", copied), entryOf("replayed", "east", "", replay()), entryOf("one", "east", "west", streamOf("1pps", 100)), running("web", "web", "east", "west"))
	return Input{Profile: p, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"web": templateOf(t, webTemplate)}, Data: data}
}

func TestAPlanIsWrittenInPartsAndReadAsOne(t *testing.T) {
	resolved := mustResolve(t, mixedInput(t))
	id := Identity{RunID: "r", Tag: 7, Profile: "p", Namespace: "n"}
	var written bytes.Buffer
	if err := resolved.Write(&written, id); err != nil {
		t.Fatal(err)
	}
	whole := resolved.Plan(id)
	read, err := Decode(written.Bytes())
	if err != nil || !proto.Equal(read, whole) {
		t.Fatalf("read %v, want %v: %v", read, whole, err)
	}
	if a, b := whole.Streams[0].Packet.Frame, whole.Streams[2].Packet.Frame; bytes.Equal(a, b) {
		t.Error("the copies do not differ")
	}
	outline, err := ReadOutline(&oneByte{written.Bytes()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range whole.Streams {
		if s.Packet != nil {
			s.Packet.Frame = make([]byte, len(s.Packet.Frame))
		}
		if r := s.GetReplay(); r != nil {
			r.Source = &enginev1.Replay_Data{Data: &enginev1.DataRef{Capture: &enginev1.CaptureSummary{Packets: 3, Bytes: 3 * 124, SpanNs: 200000}}}
		}
	}
	for _, p := range whole.Stateful.Payloads {
		if content, is := p.Content.(*enginev1.Payload_Bytes); is {
			p.Content = &enginev1.Payload_Size{Size: uint64(len(content.Bytes))}
		}
	}
	if !proto.Equal(outline, whole) {
		t.Errorf("the outline is %v, want %v", outline, whole)
	}
	if _, err := ReadOutline(bytes.NewReader(written.Bytes()[:written.Len()-3])); err == nil {
		t.Error("half a plan is read")
	}
}

// large returns a plan with captures, payloads and lists that take more than 1 MiB each.
func large(t *testing.T) *enginev1.Plan {
	rate := &enginev1.Rate{Kind: &enginev1.Rate_L2BitsPerSecond{L2BitsPerSecond: &enginev1.Ratio{Numerator: 8000, Denominator: 1}}}
	replay := &enginev1.Replay{Source: &enginev1.Replay_Pcap{Pcap: recording(t, 80000)}, Gap: &enginev1.Replay_Scale{Scale: &enginev1.Ratio{Numerator: 1, Denominator: 1}}}
	list := func(name string, values int) *enginev1.Variable {
		return &enginev1.Variable{Name: name, Kind: &enginev1.Variable_List{List: &enginev1.List{Values: slices.Repeat([]uint64{100, 300}, values/2)}}}
	}
	side := func() *enginev1.Program {
		return &enginev1.Program{Instructions: []*enginev1.Instruction{{Kind: &enginev1.Instruction_Send{Send: &enginev1.Send{Payload: 0}}}}}
	}
	return &enginev1.Plan{
		Streams: []*enginev1.Stream{
			{Name: "replayed", TxPort: "east", Transmit: &enginev1.Stream_Replay{Replay: replay}},
			{
				Name: "listed", TxPort: "east", Transmit: &enginev1.Stream_Continuous{Continuous: &enginev1.Continuous{Rate: rate}},
				Packet:  &enginev1.Packet{Frame: make([]byte, 1000), Sizes: &enginev1.Sizes{Kind: &enginev1.Sizes_Variable{Variable: "size"}}},
				Program: &enginev1.FieldProgram{Variables: []*enginev1.Variable{list("port", 2<<20), list("size", 2)}},
			},
		},
		Stateful: &enginev1.Stateful{
			Payloads: []*enginev1.Payload{{
				Content: &enginev1.Payload_Bytes{Bytes: make([]byte, 2<<20)},
				Fields:  []*enginev1.PayloadField{{Values: &enginev1.PayloadField_List{List: &enginev1.PayloadList{Values: [][]byte{make([]byte, 2<<20)}}}}},
			}},
			Templates: []*enginev1.Template{
				{Name: "web", ClientPort: "east", FlowsPerSecond: &enginev1.Ratio{Numerator: 5, Denominator: 1}, Client: side(), Server: side()},
				{Name: "call", ClientPort: "east", Capture: &enginev1.Capture{Source: &enginev1.Capture_Pcap{Pcap: recording(t, 20000)}}},
				{Name: "file", ClientPort: "east", Capture: &enginev1.Capture{Source: &enginev1.Capture_Path{Path: "/a"}}},
			},
		},
	}
}

func TestAnOutlineIsSmallAndHasTheLoadOfItsPlan(t *testing.T) {
	whole := large(t)
	encoded, _, err := Encode(whole)
	if err != nil || len(encoded) < 10<<20 {
		t.Fatalf("%d bytes, %v", len(encoded), err)
	}
	outline, err := ReadOutline(bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	if size := proto.Size(outline); size > 2000 {
		t.Errorf("of %d bytes the outline keeps %d", len(encoded), size)
	}
	want, err := load.Of(whole)
	if err != nil {
		t.Fatal(err)
	}
	got, err := load.Of(outline)
	if err != nil || got.Packets.Cmp(want.Packets) != 0 || got.L2Bits.Cmp(want.L2Bits) != 0 || got.L1Bits.Cmp(want.L1Bits) != 0 {
		t.Errorf("the outline's load is %v, the plan's %v: %v", got, want, err)
	}
	if path := outline.Stateful.Templates[2].GetCapture().GetPath(); outline.Stateful.Templates[1].Capture == nil || path != "/a" {
		t.Errorf("the templates' captures are gone: %v", outline.Stateful.Templates)
	}
	if secret := SecretBytes(outline); secret != 0 {
		t.Errorf("%d bytes are taken for those of Secrets", secret)
	}
}

func TestACaptureThatCannotBeReadIsReportedWithTheLoad(t *testing.T) {
	encoded, _, err := Encode(&enginev1.Plan{Streams: []*enginev1.Stream{{Name: "a", Transmit: &enginev1.Stream_Replay{Replay: &enginev1.Replay{Source: &enginev1.Replay_Pcap{Pcap: []byte("hello")}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	outline, err := ReadOutline(bytes.NewReader(encoded))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := load.Of(outline); err == nil || !strings.Contains(err.Error(), "is neither a pcap nor a pcapng file") {
		t.Errorf("%v", err)
	}
}

// oneByte is read byte by byte.
type oneByte struct{ rest []byte }

func (r *oneByte) Read(into []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(into[:1], r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func FuzzReadOutline(f *testing.F) {
	f.Add([]byte{0x32, 0x02, 0x2a, 0x00})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		whole, err := Decode(encoded)
		outline, outlineErr := ReadOutline(bytes.NewReader(encoded))
		if (err == nil) != (outlineErr == nil) {
			t.Fatalf("%v, %v", err, outlineErr)
		}
		if err == nil && len(whole.Streams) != len(outline.Streams) {
			t.Fatalf("%d streams of %d", len(outline.Streams), len(whole.Streams))
		}
	})
}

// listing varies a port with a list of that many values.
func listing(values int) func(*spatev1.StatelessStreamSpec) {
	all := make([]spatev1.FieldValue, values)
	for i := range all {
		all[i] = spatev1.FieldValue(strconv.Itoa(i))
	}
	return func(s *spatev1.StatelessStreamSpec) {
		s.Fields = []spatev1.PacketField{{Name: "p", Values: all, Writes: []spatev1.FieldWrite{{Field: "udp.sourcePort"}}}}
	}
}

func TestAPlanThatIsTooLargeIsRefusedByField(t *testing.T) {
	large := streamOf("0.5pps", 9000, copies(20000, spatev1.CopyVariation{Field: "ipv4.source"}))
	many := func(entries int) *spatev1.TrafficProfile {
		var all []spatev1.TrafficEntry
		for i := range entries {
			e := entryOf(string(rune('a'+i)), "east", "west", large)
			all = append(all, e)
		}
		return profile(all...)
	}
	listed := func(count int32) *spatev1.TrafficProfile {
		return profile(entryOf("a", "east", "west", streamOf("0.5pps", 100, copies(count, spatev1.CopyVariation{Field: "ipv4.source"}), listing(stream.MaxListed))))
	}
	web := templateOf(t, webTemplate)
	long := templateOf(t, webTemplate)
	for _, side := range []*[]spatev1.Command{&long.Spec.Source.Programs.Client, &long.Spec.Source.Programs.Server} {
		for len(*side) < spatev1.MaxCommands {
			*side = append(*side, spatev1.Command{Receive: &spatev1.ReceiveCommand{Bytes: 5}})
		}
	}
	wordy := templateOf(t, webTemplate)
	wordy.Spec.ConnectionRate = "1cps"
	wordy.Spec.Source.Programs.Client[0].Send.Content.Text = strings.Repeat("x", 1<<20)
	pairs := func(template *spatev1.ASTFTemplate, entries int) Input {
		var all []spatev1.TrafficEntry
		for i := range entries {
			all = append(all, running(fmt.Sprint("e", i), "web", "east", "west"))
		}
		return Input{Profile: profile(all...), Templates: map[string]*spatev1.ASTFTemplate{"web": template}}
	}
	pcap := map[spatev1.DataReference][]byte{{Kind: spatev1.DataConfigMap, Name: "captures", Key: "web"}: recording(t, 10000)}
	const mebi = 1 << 20
	for name, c := range map[string]struct {
		in    Input
		bound Bound
		path  string
	}{
		"what fits":              {in: Input{Profile: many(1)}, bound: BoundOf(1 << 30)},
		"an entry with copies":   {Input{Profile: many(1)}, BoundOf(256 * mebi), "spec.traffic[0]"},
		"the second of two":      {Input{Profile: many(2)}, BoundOf(1 << 30), "spec.traffic[1]"},
		"more streams than ever": {Input{Profile: many(9)}, Bound{}, "spec.traffic[3]"},
		"a capture":              {Input{Profile: profile(entryOf("r", "east", "", replay())), Data: pcap}, Bound{Bytes: mebi}, "spec.traffic[0]"},
		"a payload":              {pairs(web, 1), Bound{Bytes: 200}, "spec.traffic[0]"},
		"values of each copy":    {Input{Profile: listed(stream.MostCopies)}, BoundOf(1 << 30), "spec.traffic[0]"},
		"values of some copies":  {in: Input{Profile: listed(100)}, bound: BoundOf(1 << 30)},
		"commands of each entry": {pairs(long, 512), BoundOf(1 << 30), "spec.traffic[270]"},
		"commands of some":       {in: pairs(long, 50), bound: BoundOf(1 << 30)},
		"a payload of many":      {in: pairs(wordy, 50), bound: BoundOf(1 << 30)},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Generator, c.in.Bound = generator(), c.bound
			_, problems := Resolve(c.in)
			if c.path == "" && len(problems) > 0 || c.path != "" && (len(problems) != 1 || problems[0].Path != c.path) {
				t.Errorf("%s", problems.Message())
			}
		})
	}
}

func TestAnEstimateIsNoLessThanThePlan(t *testing.T) {
	large := streamOf("0.5pps", 9000, copies(2000, spatev1.CopyVariation{Field: "ipv4.source"}))
	for name, in := range map[string]Input{
		"of all kinds":       mixedInput(t),
		"many copies":        {Profile: profile(entryOf("a", "east", "west", large)), Generator: generator()},
		"a list in each":     {Profile: profile(entryOf("a", "east", "west", streamOf("0.5pps", 100, copies(500, spatev1.CopyVariation{Field: "ipv4.source"}), listing(2000)))), Generator: generator()},
		"a stream by itself": {Profile: profile(entryOf("a", "east", "west", streamOf("1pps", 100))), Generator: generator()},
	} {
		written := &bytes.Buffer{}
		if err := mustResolve(t, in).Write(written, Identity{RunID: "r", Tag: 1}); err != nil {
			t.Fatal(err)
		}
		estimate := Estimate(in.Profile, in.Streams, in.Templates)
		t.Logf("%s: %d bytes, estimated %d", name, written.Len(), estimate)
		if estimate < int64(written.Len())*9/10 || estimate > 4*int64(written.Len())+4<<20 {
			t.Errorf("%s: estimated %d bytes of %d", name, estimate, written.Len())
		}
	}
}

func TestTheBoundFollowsFromTheMemory(t *testing.T) {
	const mebi = 1 << 20
	for memory, want := range map[int64]int64{0: 256 * mebi, 64 * mebi: mebi, 256 * mebi: 32 * mebi, 1 << 30: 224 * mebi, 2 << 30: 256 * mebi, math.MaxInt64: 256 * mebi} {
		if got := BoundOf(memory); got.Bytes != want {
			t.Errorf("%d MiB of memory: %d bytes, want %d", memory/mebi, got.Bytes, want)
		}
	}
}
