// SPDX-License-Identifier: Apache-2.0

// How is a plan written and read that is too large to have in memory several times? Encoded messages that follow each other are merged, so
// a plan is written as one message after the other, each with one stream, payload or template.

package plan

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"spate.dev/operator/internal/engine/enginev1"
)

// Write writes the encoded plan of a run, the same for the same plan. The bytes of Secrets are left out (see EncodeData).
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

// WriteWithData is Write with the bytes of Secrets: for engines, never to be kept.
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

// writer writes messages one after the other until one cannot be written.
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

// streamsField is the number of Plan.streams.
const streamsField protowire.Number = 6

// DecodeOutline reads an encoded plan but for the bytes of frames: all have their length, and are zero.
func DecodeOutline(encoded []byte) (*enginev1.Plan, error) {
	outline := &enginev1.Plan{}
	var zeros []byte
	for len(encoded) > 0 {
		number, kind, length := protowire.ConsumeTag(encoded)
		if length < 0 {
			return nil, fmt.Errorf("decode a plan: %w", protowire.ParseError(length))
		}
		value := protowire.ConsumeFieldValue(number, kind, encoded[length:])
		if value < 0 {
			return nil, fmt.Errorf("decode a plan: %w", protowire.ParseError(value))
		}
		one := &enginev1.Plan{}
		field := encoded[:length+value]
		if number == streamsField {
			if err := proto.Unmarshal(field, one); err != nil {
				return nil, fmt.Errorf("decode a plan: %w", err)
			}
			for _, s := range one.Streams {
				if frame := len(s.GetPacket().GetFrame()); frame > 0 {
					if frame > len(zeros) {
						zeros = make([]byte, frame)
					}
					s.Packet.Frame = zeros[:frame:frame]
				}
			}
			outline.Streams = append(outline.Streams, one.Streams...)
		} else if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(field, outline); err != nil {
			return nil, fmt.Errorf("decode a plan: %w", err)
		}
		encoded = encoded[length+value:]
	}
	return outline, nil
}
