// SPDX-License-Identifier: Apache-2.0

// Is a plan too large to be made? Its size is computed while it is resolved, before the plan takes memory.

package plan

import (
	"math"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/stateful"
	"spate.dev/operator/internal/plan/stream"
)

const (
	// mostBytes is the maximum number of bytes of a plan that an engine accepts.
	mostBytes = 256 << 20
	// streamBytes and payloadBytes are the least that each takes in a plan beside its bytes.
	streamBytes  = 200
	payloadBytes = 8
	// selectedBytes is what the operator has of a selected stream beside the plan, as a share of the plan (memoryPerByte):
	// its object, and what is resolved of it.
	selectedBytes = 1 << 10
	// commandBytes and listedBytes are approximately what a command of a program and a value of a field take in a plan
	// that is not encoded.
	commandBytes = 100
	listedBytes  = 8
	// listedRouteBytes is approximately what a prefix of a list takes in a plan that is not encoded.
	listedRouteBytes = 40
	// ownMemory is what the operator takes beside plans.
	ownMemory = 128 << 20
	// memoryPerByte is the memory for a byte of a plan: twice in the operator, which reads and writes it, and twice in
	// spate-engine, which checks it.
	memoryPerByte = 4
)

// Bound is a limit on the bytes of a plan.
type Bound struct {
	// Bytes is the maximum; 0 for no limit.
	Bytes int64
	// Memory of the operator from which Bytes was derived; 0 if it was not.
	Memory int64
}

// BoundOf returns the bound for an operator with this memory in bytes, including spate-engine, which checks plans: a
// quarter of what the operator leaves, and at most what engines accept. 0 is memory without a limit.
func BoundOf(memory int64) Bound {
	if memory <= 0 {
		return Bound{Bytes: mostBytes}
	}
	bytes := max((memory-ownMemory)/memoryPerByte, 1<<20)
	if bytes >= mostBytes {
		return Bound{Bytes: mostBytes}
	}
	return Bound{Bytes: bytes, Memory: memory}
}

// Exceeded returns the problem of a field with which a plan has too many bytes.
func (b Bound) Exceeded(at *field.Path, bytes int64) (problems problem.Problems) {
	const mebi = 1 << 20
	if b.Memory > 0 {
		problems.Add(spatev1.ReasonNotAllowed, at, "with it the plan has %d MiB, and the operator, which has %d MiB of memory, makes plans of at most %d MiB; use fewer copies, "+
			"shorter packets or less data, or give the operator more memory (a plan takes four times its size, beside 128 MiB)", bytes/mebi, b.Memory/mebi, b.Bytes/mebi)
		return problems
	}
	problems.Add(spatev1.ReasonInvalidSpec, at, "with it the plan has %d MiB, and engines take at most %d MiB; use fewer copies, shorter packets or less data", bytes/mebi, b.Bytes/mebi)
	return problems
}

// Estimate returns the approximate maximum size of a profile's plan, from its references only: a ConfigMap or Secret
// counts with its maximum size.
func Estimate(profile *spatev1.TrafficProfile, streams map[string]*spatev1.StatelessStream, templates map[string]*spatev1.ASTFTemplate) int64 {
	objects := map[spatev1.DataReference]bool{}
	for _, ref := range DataReferences(profile, streams, templates) {
		objects[spatev1.DataReference{Kind: ref.Kind, Name: ref.Name}] = true
	}
	total := int64(len(objects)) << 20
	for _, template := range templates {
		total += contentsBytes(application.Expand(&template.Spec).Source.Programs)
	}
	if routing := profile.Spec.Routing; routing != nil {
		for i := range routing.Advertise {
			total += streamBytes + listedRouteBytes*int64(len(routing.Advertise[i].Prefixes.List))
		}
	}
	profile = expand(profile, streams).TrafficProfile
	for i := range profile.Spec.Traffic {
		entry := &profile.Spec.Traffic[i]
		if source, _ := stream.Source(entry, streams); source != nil {
			total += estimateStream(source)
		}
		template, name := application.Source(entry, templates)
		if template == nil {
			continue
		}
		total += streamBytes
		if name == "" {
			total += contentsBytes(template.Source.Programs)
		} else {
			template = application.Expand(template)
		}
		if programs := template.Source.Programs; programs != nil {
			total += commandBytes * int64(len(programs.Client)+len(programs.Server))
		}
	}
	return total
}

const (
	// unsizedBytes is the approximate size of a frame whose description has neither a size nor a payload.
	unsizedBytes = 256
	// fieldBytes is the approximate size of a field that varies, beside the values of a list.
	fieldBytes = 100
)

func estimateStream(source *spatev1.StatelessStreamSpec) int64 {
	each, count := int64(streamBytes+unsizedBytes), int64(1)
	switch described := source.Packet; {
	case described == nil: // a replay, whose capture is among the objects or on a volume
		if stream.Directed(source) { // each of two streams has it
			each += streamBytes + 1<<20
		}
	case described.Size != nil:
		each = streamBytes + int64(*described.Size)
	case described.Sizes != nil || described.IMIX != "" || described.Payload != nil || len(described.Bytes) > 0:
		each = streamBytes + packet.MaxFrameBytes
	}
	for i := range source.Fields {
		each += fieldBytes + (listedBytes+2)*int64(len(source.Fields[i].Values))
	}
	if source.Copies != nil {
		count = int64(source.Copies.Count)
	}
	return count * each
}

// contentsBytes returns the number of bytes that are written in a template's programs.
func contentsBytes(programs *spatev1.Programs) (total int64) {
	if programs == nil {
		return 0
	}
	for _, side := range [][]spatev1.Command{programs.Client, programs.Server} {
		for i := range side {
			content := side[i].SendMessage
			if side[i].Send != nil {
				content = &side[i].Send.Content
			}
			if content != nil {
				total += int64(len(content.Text) + len(content.Hex)/2 + len(content.Base64))
			}
		}
	}
	return total
}

// weight is the size of what was resolved so far.
type weight struct {
	bound   Bound
	bytes   int64
	streams int
	// weighed are the templates whose payloads are included.
	weighed  map[string]bool
	exceeded bool
}

// add adds bytes of a field, and reports whether the sum is within the bound.
func (w *weight) add(bytes int64, at *field.Path, problems *problem.Problems) bool {
	w.bytes += min(bytes, math.MaxInt64-w.bytes)
	if w.bound.Bytes > 0 && w.bytes > w.bound.Bytes {
		*problems = append(*problems, w.bound.Exceeded(at, w.bytes)...)
		w.exceeded = true
	}
	return !w.exceeded
}

// stream adds an entry's stream, with all its copies.
func (w *weight) stream(e *entry, problems *problem.Problems) bool {
	if e.stream == nil {
		return true
	}
	count := e.stream.Count()
	if w.streams += count; w.streams > mostStreams {
		problems.Add(spatev1.ReasonInvalidSpec, e.at, "with their copies there are %d streams so far; at most %d can run at once: use fewer copies or streams, or divide them over several profiles", w.streams, mostStreams)
		w.exceeded = true
		return false
	}
	each := streamBytes + programBytes(e.stream.Program)
	each += e.stream.PacketBytes()
	if replay := e.stream.Transmit.Replay; replay != nil {
		each += int64(len(replay.GetPcap())) + int64(replay.GetData().GetBytes())
	}
	all := each * int64(count)
	if e.by != nil {
		all += selectedBytes
	}
	return w.add(all, e.at, problems)
}

// programBytes returns the size of a program, which each copy of a stream has.
func programBytes(program *enginev1.FieldProgram) int64 {
	bytes := int64(proto.Size(program))
	for _, v := range program.GetVariables() {
		bytes += listedBytes * int64(len(v.GetList().GetValues()))
	}
	return bytes
}

// template adds an entry's template: its capture and its programs, and its payloads once for all entries that run the
// template.
func (w *weight) template(e *stateful.Entry, problems *problem.Problems) bool {
	if e.Template == nil {
		return true
	}
	bytes := streamBytes + int64(proto.Size(e.Template.Made)) + int64(e.Template.Made.GetCapture().GetData().GetBytes())
	for _, side := range []*application.Program{e.Template.Client, e.Template.Server} {
		if side != nil {
			bytes += commandBytes*int64(len(side.Program.Instructions)) + int64(proto.Size(side.Program))
		}
	}
	if !w.weighed[e.Key] {
		if w.weighed == nil {
			w.weighed = map[string]bool{}
		}
		w.weighed[e.Key] = true
		for _, side := range []*application.Program{e.Template.Client, e.Template.Server} {
			if side != nil {
				bytes += payloadsBytes(side.Payloads)
			}
		}
	}
	return w.add(bytes, e.At, problems)
}

func payloadsBytes(payloads []*enginev1.Payload) (bytes int64) {
	for _, p := range payloads {
		bytes += payloadBytes + int64(len(p.GetBytes())) + int64(p.GetData().GetBytes())
		for _, f := range p.Fields {
			for _, value := range f.GetList().GetValues() {
				bytes += int64(len(value))
			}
		}
	}
	return bytes
}
