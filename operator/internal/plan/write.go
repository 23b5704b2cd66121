// SPDX-License-Identifier: Apache-2.0

// How is a plan written and read that is too large to be in memory several times? Encoded messages that follow each
// other are merged, so a plan is written as a sequence of messages, each with one stream, payload or template.

package plan

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/capture"
)

// Write writes the encoded plan of a run. The same plan is always encoded the same. The bytes of Secrets are omitted
// (see EncodeData).
func (r *Resolved) Write(w io.Writer, id Identity) error {
	rest := r.Outline(id)
	streams := rest.Streams
	rest.Streams = nil
	whole := rest.Stateful
	if whole != nil {
		rest.Stateful = &enginev1.Stateful{}
		whole.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
			if name := field.Name(); name != "payloads" && name != "templates" {
				rest.Stateful.ProtoReflect().Set(field, value)
			}
			return true
		})
	}
	out := writer{to: w}
	out.write(rest)
	for _, payload := range whole.GetPayloads() {
		out.write(&enginev1.Plan{Stateful: &enginev1.Stateful{Payloads: []*enginev1.Payload{payload}}})
	}
	for _, template := range whole.GetTemplates() {
		out.write(&enginev1.Plan{Stateful: &enginev1.Stateful{Templates: []*enginev1.Template{template}}})
	}
	r.eachStream(func(at int, e *entry, copied int) {
		out.write(&enginev1.Plan{Streams: []*enginev1.Stream{e.copyOf(streams[at], copied)}})
	})
	if out.err != nil {
		return fmt.Errorf("write the plan of run %s: %w", id.RunID, out.err)
	}
	return nil
}

// WriteWithData is Write with the bytes of Secrets: for engines, never to be stored.
func (r *Resolved) WriteWithData(w io.Writer, id Identity) error {
	if err := r.Write(w, id); err != nil {
		return err
	}
	out := writer{to: w}
	for _, secret := range r.secretBytes {
		out.write(&enginev1.Plan{Data: [][]byte{secret}})
	}
	return out.err
}

// writer writes messages until one fails.
type writer struct {
	to   io.Writer
	room []byte
	err  error
}

func (w *writer) write(message *enginev1.Plan) {
	if w.err != nil {
		return
	}
	if w.room, w.err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(w.room[:0], message); w.err == nil {
		_, w.err = w.to.Write(w.room)
	}
}

// BrokenError says that the data is not an encoded plan.
type BrokenError struct{ why error }

func (e *BrokenError) Error() string { return fmt.Sprintf("decode a plan: %v", e.why) }

// Unwrap returns the cause.
func (e *BrokenError) Unwrap() error { return e.why }

// ReadOutline reads an encoded plan without what makes it large: frames are zeros of the right length, replays have a
// summary of their capture, payloads their size, templates no bytes of a capture, and variables no list of values,
// unless the values are sizes. At most one stream, payload or template is in memory beside the result. Errors of the
// reader are returned unchanged.
func ReadOutline(r io.Reader) (*enginev1.Plan, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	outline := &enginev1.Plan{}
	var zeros []byte
	var field bytes.Buffer
	for {
		field.Reset()
		err := readField(in, &field)
		if errors.Is(err, io.EOF) {
			return outline, nil
		}
		if err != nil {
			return nil, err
		}
		one := &enginev1.Plan{}
		if err := proto.Unmarshal(field.Bytes(), one); err != nil {
			return nil, &BrokenError{err}
		}
		for _, s := range one.Streams {
			if frame := len(s.GetPacket().GetFrame()); frame > 0 {
				if frame > len(zeros) {
					zeros = make([]byte, frame)
				}
				s.Packet.Frame = zeros[:frame:frame]
			}
			thinStream(s)
		}
		thinStateful(one.Stateful)
		outline.Streams = append(outline.Streams, one.Streams...) // not merged, which would copy the zeros
		one.Streams = nil
		proto.Merge(outline, one)
	}
}

// thinStream keeps what the stream's load is computed from of a replay's capture and of lists. A capture that cannot be
// read is kept, so that computing the load reports the cause.
func thinStream(s *enginev1.Stream) {
	if source, is := s.GetReplay().GetSource().(*enginev1.Replay_Pcap); is {
		if read, err := capture.Read(source.Pcap); err == nil {
			s.GetReplay().Source = &enginev1.Replay_Data{Data: &enginev1.DataRef{Capture: read.Summary(s.GetReplay().GetHalf())}}
		}
	}
	for _, v := range s.GetProgram().GetVariables() {
		if list := v.GetList(); list != nil && v.GetName() != s.GetPacket().GetSizes().GetVariable() {
			list.Values = nil
		}
	}
}

// thinStateful keeps the sizes of payloads, and that a template has a capture.
func thinStateful(s *enginev1.Stateful) {
	for _, p := range s.GetPayloads() {
		if content, is := p.GetContent().(*enginev1.Payload_Bytes); is {
			p.Content = &enginev1.Payload_Size{Size: uint64(len(content.Bytes))}
		}
		p.Fields = nil
	}
	for _, t := range s.GetTemplates() {
		if _, is := t.GetCapture().GetSource().(*enginev1.Capture_Pcap); is {
			t.Capture.Source = nil
		}
	}
}

// readField copies the next field of a message, with its tag; io.EOF if there is none. If the field is not
// length-delimited, it copies the rest: a plan has few other fields, and they are small.
func readField(in *bufio.Reader, into *bytes.Buffer) error {
	tag, err := readVarint(in, into)
	if err != nil {
		if errors.Is(err, io.EOF) && into.Len() > 0 {
			err = &BrokenError{io.ErrUnexpectedEOF}
		}
		return err
	}
	_, kind := protowire.DecodeTag(tag)
	switch kind {
	case protowire.VarintType:
		_, err = readVarint(in, into)
	case protowire.Fixed32Type:
		_, err = io.CopyN(into, in, 4)
	case protowire.Fixed64Type:
		_, err = io.CopyN(into, in, 8)
	case protowire.BytesType:
		var length uint64
		if length, err = readVarint(in, into); err == nil {
			_, err = io.CopyN(into, in, int64(min(length, math.MaxInt64)))
		}
	default:
		_, err = into.ReadFrom(in)
	}
	if errors.Is(err, io.EOF) {
		err = &BrokenError{io.ErrUnexpectedEOF}
	}
	return err
}

// readVarint reads a varint of 64 bits and copies its bytes; io.EOF if there is nothing left.
func readVarint(in *bufio.Reader, into *bytes.Buffer) (uint64, error) {
	start := into.Len()
	for {
		next, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		into.WriteByte(next)
		if next < 0x80 {
			break
		}
		if into.Len()-start > 10 {
			break // the decoder reports what is wrong
		}
	}
	value, length := protowire.ConsumeVarint(into.Bytes()[start:])
	if length < 0 {
		return 0, &BrokenError{protowire.ParseError(length)}
	}
	return value, nil
}
