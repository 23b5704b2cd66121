// SPDX-License-Identifier: Apache-2.0

// Which bytes does a template send?

package application

import (
	"encoding/hex"
	"math"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/data"
)

// payload converts a content to the plan's payload; nil if it cannot be determined. Data that was not looked up results
// in an empty one.
func (p checker) payload(c *spatev1.Content, at *field.Path, data data.Data) *enginev1.Payload {
	if !p.ExactlyOne(at, "text, hex, base64, size and from", c.Text != "", c.Hex != "", len(c.Base64) > 0, c.Size != nil, c.From != nil) {
		return nil
	}
	payload := &enginev1.Payload{}
	if c.Size != nil {
		p.AtLeastOne(*c.Size, at.Child("size"))
		payload.Content = &enginev1.Payload_Size{Size: uint64(*c.Size)}
		payload.Fields = p.payloadFields(c.Fields, at.Child("fields"), uint64(*c.Size))
		return payload
	}
	bytes, known := p.contentBytes(c, at, data)
	if bytes == nil && known {
		return nil
	}
	length := uint64(len(bytes))
	if !known {
		length = math.MaxInt64
	}
	payload.Content = &enginev1.Payload_Bytes{Bytes: bytes}
	if ref := data.Ref(c.From, bytes); ref != nil {
		payload.Content = &enginev1.Payload_Data{Data: ref}
	}
	payload.Fields = p.payloadFields(c.Fields, at.Child("fields"), length)
	return payload
}

// contentBytes returns the bytes of a content; nil, and known, if they are wrong.
func (p checker) contentBytes(c *spatev1.Content, at *field.Path, contents data.Data) (bytes []byte, known bool) {
	switch {
	case c.Text != "":
		return []byte(c.Text), true
	case c.Hex != "":
		return p.hexDigits(c.Hex, at.Child("hex")), true
	case len(c.Base64) > 0:
		return c.Base64, true
	case contents.Bytes == nil:
		return nil, false
	}
	bytes, found := contents.Bytes[c.From.Reference()]
	if !found {
		p.Add(spatev1.ReasonReferenceNotFound, at.Child("from"), "%s does not exist: apply it, or correct name and key", data.NameOf(c.From.Reference()))
		return nil, true
	}
	if len(bytes) == 0 {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("from"), "%s is empty: store at least one byte there, or remove the command", data.NameOf(c.From.Reference()))
		return nil, true
	}
	return bytes, true
}

func (p checker) hexDigits(text string, at *field.Path) []byte {
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) == 0 {
		p.Add(spatev1.ReasonInvalidSpec, at, "%q: must be hex digits, two a byte", text)
		return nil
	}
	return bytes
}

// payloadFields returns the fields of a content with a length in bytes.
func (p checker) payloadFields(fields []spatev1.PayloadField, at *field.Path, length uint64) []*enginev1.PayloadField {
	var all []*enginev1.PayloadField
	for i := range fields {
		f, at := &fields[i], at.Index(i)
		made := &enginev1.PayloadField{Offset: uint64(f.Offset)}
		width := uint64(0)
		if !p.ExactlyOne(at, "list and counter", f.List != nil, f.Counter != nil) {
			continue
		}
		if f.List != nil {
			values := p.payloadList(f.List, at.Child("list"))
			if len(values) == 0 {
				continue
			}
			made.Values = &enginev1.PayloadField_List{List: &enginev1.PayloadList{Values: values}}
			width = uint64(len(values[0]))
		} else {
			counter := p.payloadCounter(f.Counter, at.Child("counter"))
			made.Values = &enginev1.PayloadField_Counter{Counter: counter}
			width = uint64(counter.Width)
		}
		if f.Offset < 0 || uint64(f.Offset) > length || length-uint64(f.Offset) < width {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("offset"), "%d bytes at %d do not lie within the %d bytes of the content", width, f.Offset, length)
		}
		all = append(all, made)
	}
	return all
}

func (p checker) payloadList(l *spatev1.PayloadList, at *field.Path) [][]byte {
	if !p.ExactlyOne(at, "text and hex", len(l.Text) > 0, len(l.Hex) > 0) {
		return nil
	}
	var values [][]byte
	child := at.Child("text")
	for _, text := range l.Text {
		values = append(values, []byte(text))
	}
	for i, digits := range l.Hex {
		child = at.Child("hex")
		values = append(values, p.hexDigits(digits, child.Index(i)))
	}
	for i, value := range values {
		if len(value) == 0 || len(value) != len(values[0]) {
			p.Add(spatev1.ReasonInvalidSpec, child.Index(i), "has %d bytes, and the first %d: all must be of one length, which is the field's: pad the shorter ones, such as with spaces", len(value), len(values[0]))
			return nil
		}
	}
	return values
}

// maxDigits is the maximum number of decimal digits of a 64-bit number.
const maxDigits = 20

func (p checker) payloadCounter(c *spatev1.PayloadCounter, at *field.Path) *enginev1.PayloadCounter {
	made := &enginev1.PayloadCounter{First: uint64(c.Start), Step: 1, Width: uint32(c.Width)}
	if c.Step != nil {
		p.AtLeastOne(*c.Step, at.Child("step"))
		made.Step = uint64(*c.Step)
	}
	if c.Start < 0 {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("start"), "%d: must not be negative", c.Start)
	}
	if c.Width < 1 || c.Width > maxDigits {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("width"), "%d: must be 1 to %d", c.Width, maxDigits)
		made.Width = 1
	}
	return made
}
