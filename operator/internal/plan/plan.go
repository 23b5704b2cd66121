// SPDX-License-Identifier: Apache-2.0

// How is a resolved profile encoded for engines, and how does its rate change while it runs?

package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/plan/marks"
)

// Identity identifies a run.
type Identity struct {
	// RunID identifies the run to engines; Run is the TrafficRun's name, for metrics and messages.
	RunID, Run string
	// Tag marks the run's packets. SecondTag marks those of every second trial of a run of trials; 0 of any other run.
	Tag, SecondTag uint16
	// Profile and Namespace label its metrics.
	Profile, Namespace string
	// Marks are the numbers for marks that are left open (see ChooseMarks); the zero value takes the lowest ones.
	Marks marks.Marks
}

// Plan returns the plan of a run, for all engines together (see ForEngine), with all its frames in memory. Write takes
// less memory.
func (r *Resolved) Plan(id Identity) *enginev1.Plan {
	p := r.Outline(id)
	p.Streams = slices.Clone(p.Streams)
	r.eachStream(func(at int, e *entry, copied int) {
		p.Streams[at] = e.copyOf(p.Streams[at], copied)
	})
	return p
}

// Outline is Plan without the bytes of each copy's frame: the copies of a stream have the frame of the first.
func (r *Resolved) Outline(id Identity) *enginev1.Plan {
	numbers := id.Marks
	if len(numbers.IPv4Identification)+len(numbers.IPv6FlowLabel) == 0 {
		numbers, _ = r.ChooseMarks(marks.Marks{}, 0) // there are always enough for one plan
	}
	var mark *enginev1.Mark
	r.eachStream(func(at int, e *entry, copied int) {
		if copied < e.stream.Results() {
			mark = numbers.Take(e.stream.Mark)
		}
		r.streams[at].Measure.Mark = mark
	})
	p := &enginev1.Plan{
		RunId: id.RunID, Run: id.Run, Profile: id.Profile, Namespace: id.Namespace, RunTag: uint32(id.Tag),
		Timing: r.timing, Streams: r.streams, Reflectors: r.reflectors, Receivers: r.receivers,
		LeaseNs: uint64(r.lease), LateAfterNs: uint64(r.lateAfter), Stateful: r.stateful,
		ClockBoundNs: uint64(r.clockBound), Routes: r.routes, RoutesReady: r.ready, Clients: planned(r.clients),
	}
	if id.SecondTag > 0 {
		p.Trials = &enginev1.Trials{SecondRunTag: uint32(id.SecondTag)}
	}
	return p
}

// eachStream calls visit for the streams of all entries, each with the number of the copy.
func (r *Resolved) eachStream(visit func(at int, e *entry, copied int)) {
	at := 0
	for i := range r.entries {
		for copied := range r.entries[i].stream.Count() {
			visit(at, &r.entries[i], copied)
			at++
		}
	}
}

// ForEngine returns the part for engine `index` of `count` only, to be appended to a run's encoded plan: encoded
// messages that follow each other are merged, so a large plan is neither decoded nor copied. records is the folder of
// the plan's Stateful.records, empty without files.
func ForEngine(runID, records string, index, count uint32) ([]byte, error) {
	own := &enginev1.Plan{Share: &enginev1.Share{Index: index, Count: count}}
	if records != "" {
		own.Stateful = &enginev1.Stateful{Records: &enginev1.Records{Path: recordsFile(records, runID, index)}}
	}
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("encode the share of engine %d of run %s: %w", index, runID, err)
	}
	return bytes, nil
}

// Encode returns a plan's bytes and their SHA-256. The same plan is always encoded the same.
func Encode(plan *enginev1.Plan) ([]byte, [sha256.Size]byte, error) {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(plan)
	if err != nil {
		return nil, [sha256.Size]byte{}, fmt.Errorf("encode the plan of run %s: %w", plan.GetRunId(), err)
	}
	return bytes, sha256.Sum256(bytes), nil
}

// Decode reads a plan's bytes.
func Decode(bytes []byte) (*enginev1.Plan, error) {
	plan := &enginev1.Plan{}
	if err := proto.Unmarshal(bytes, plan); err != nil {
		return nil, fmt.Errorf("decode a plan: %w", err)
	}
	return plan, nil
}

// Text returns a plan as indented JSON, as `spate-engine` reads it. The same plan has always the same text.
func Text(plan *enginev1.Plan) ([]byte, error) {
	text, err := protojson.Marshal(plan)
	if err != nil {
		return nil, fmt.Errorf("write the plan of run %s: %w", plan.GetRunId(), err)
	}
	var indented bytes.Buffer // protojson's spaces vary
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return nil, err
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

// Rescaled is a new rate of an active run.
type Rescaled struct {
	// Factor of the plan's rates, for the engines.
	Factor *big.Rat
	// OwnFactor is the factor of the entries' own rates, for the status.
	OwnFactor *big.Rat
	// Load at that rate.
	Load load.Load
}

// Rescale returns what spec.rate requires of a run that was planned with the factor `planned` of the entries' own
// rates.
func Rescale(plan *enginev1.Plan, planned *big.Rat, rate spatev1.ScaledRate, generator *spatev1.TrafficGenerator) (Rescaled, error) {
	traffic, err := load.Of(plan)
	if err != nil {
		return Rescaled{}, err
	}
	own := traffic.Scaled(new(big.Rat).Inv(planned))
	ownFactor, err := load.FactorOf(rate, own, load.FlowsOf(plan.GetStateful()).Rates(planned), generator)
	if err != nil {
		return Rescaled{}, fmt.Errorf("spec.rate %q: %w", rate, err)
	}
	factor := new(big.Rat).Quo(ownFactor, planned)
	return Rescaled{Factor: factor, OwnFactor: ownFactor, Load: traffic.Scaled(factor)}, nil
}

// ChooseMarks returns a number for every mark that the profile leaves open, in the order of its entries (see
// marks.Choose).
func (r *Resolved) ChooseMarks(taken marks.Marks, start uint32) (marks.Marks, error) {
	requests := make([]*marks.Request, 0, len(r.entries))
	for i := range r.entries {
		requests = append(requests, slices.Repeat([]*marks.Request{r.entries[i].stream.Mark}, r.entries[i].stream.Results())...)
	}
	return marks.Choose(requests, taken, start)
}
