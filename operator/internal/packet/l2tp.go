// SPDX-License-Identifier: Apache-2.0

// How do L2TP headers become bytes, of version 2 (RFC 2661) and of version 3 (RFC 3931)?

package packet

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	l2tpVersion2 = 2
	l2tpVersion3 = 3
)

// l2tpFlags are the first 2 bytes over UDP of both versions, and of control messages of version 3 over IP.
var l2tpFlags = layout{
	{"control", 1}, {"lengthPresent", 1}, {"", 2}, {"sequencePresent", 1}, {"", 1}, {"offsetPresent", 1}, {"priority", 1}, {"", 4}, {"version", 4},
}

func (s *stack) l2tp(d *spatev1.L2TPHeader, next *spatev1.Header, at *field.Path) *header {
	h := lay(L2TP)
	h.set("version", l2tpVersion2)
	h.flag("control", d.Control)
	h.flag("priority", d.Priority)
	sequenced := d.Control || d.Ns != nil || d.Nr != nil
	switch {
	case d.Control && (d.OffsetSize != nil || d.Priority):
		s.fail(field.Invalid(at.Child("control"), d.Control, "a control message has neither offsetSize nor priority"))
	case d.Control && next != nil:
		s.fail(field.Invalid(at.Child("control"), d.Control, "no header follows a control message: leave the next header out, or control"))
	case !d.Control && d.AVPs != "":
		s.fail(field.Forbidden(at.Child("avps"), "goes with control: true"))
	case !d.Control && !d.LengthPresent && d.Length != nil:
		s.fail(field.Invalid(at.Child("length"), *d.Length, "goes with lengthPresent: true or control: true"))
	}
	if d.Control || d.LengthPresent {
		h.flag("lengthPresent", true)
		h.append("length", 16, 0)
		h.counted("length", s.given(d.Length, at.Child("length")), 0)
	}
	h.append("tunnelID", 16, s.number(int64(d.TunnelID), 65535, at.Child("tunnelID")))
	h.append("sessionID", 16, s.number(int64(d.SessionID), 65535, at.Child("sessionID")))
	if sequenced {
		h.flag("sequencePresent", true)
		s.l2tpSequence(h, d.Ns, d.Nr, at)
	}
	if d.OffsetSize != nil {
		h.flag("offsetPresent", true)
		size := s.number(int64(*d.OffsetSize), 255, at.Child("offsetSize"))
		h.append("offsetSize", 16, size)
		h.bytes = append(h.bytes, make([]byte, size)...)
	}
	if d.Control {
		h.closed = true
		h.bytes = append(h.bytes, s.hex(d.AVPs, at.Child("avps"))...)
	}
	return h
}

func (s *stack) l2tpSequence(h *header, ns, nr *int32, at *field.Path) {
	h.append("ns", 16, s.optional(ns, 0, 65535, at.Child("ns")))
	h.append("nr", 16, s.optional(nr, 0, 65535, at.Child("nr")))
}

func (s *stack) l2tpv3(d *spatev1.L2TPv3Header, next *spatev1.Header, at *field.Path) *header {
	h := &header{kind: L2TPv3, fields: map[string]Location{}}
	overUDP := len(s.headers) > 0 && s.headers[len(s.headers)-1].kind == UDP
	if (d.SessionID != nil) == (d.ControlConnectionID != nil) {
		s.fail(field.Invalid(at, "", "set exactly one of sessionID and controlConnectionID"))
		return lay(L2TPv3)
	}
	if d.SessionID != nil {
		s.l2tpv3Data(h, d, overUDP, at)
	} else {
		s.l2tpv3Control(h, d, overUDP, next, at)
	}
	return h
}

func (s *stack) l2tpv3Data(h *header, d *spatev1.L2TPv3Header, overUDP bool, at *field.Path) {
	for name, present := range map[string]bool{"length": d.Length != nil, "ns": d.Ns != nil, "nr": d.Nr != nil, "avps": d.AVPs != ""} {
		if present {
			s.fail(field.Forbidden(at.Child(name), "goes with controlConnectionID"))
		}
	}
	if overUDP {
		h.extend(l2tpFlags)
		h.set("version", l2tpVersion3)
		h.extend(layout{{"", 16}})
	}
	session := s.number(*d.SessionID, 1<<32-1, at.Child("sessionID"))
	if session == 0 && !overUDP {
		s.fail(field.Invalid(at.Child("sessionID"), session, "0 is a control message over IP: set controlConnectionID"))
	}
	h.append("sessionID", 32, session)
	if d.Cookie != "" {
		cookie := s.hex(d.Cookie, at.Child("cookie"))
		if len(cookie) != 4 && len(cookie) != 8 {
			s.fail(field.Invalid(at.Child("cookie"), d.Cookie, "must be 8 or 16 hex digits"))
		}
		h.appendBytes("cookie", cookie)
	}
	if d.L2SpecificSublayer || d.SequenceNumber != nil {
		h.extend(layout{{"", 1}, {"sequencePresent", 1}, {"", 6}, {"sequenceNumber", 24}})
		h.flag("sequencePresent", d.SequenceNumber != nil)
		h.set("sequenceNumber", s.optional(d.SequenceNumber, 0, 1<<24-1, at.Child("sequenceNumber")))
	}
}

func (s *stack) l2tpv3Control(h *header, d *spatev1.L2TPv3Header, overUDP bool, next *spatev1.Header, at *field.Path) {
	for name, present := range map[string]bool{
		"cookie": d.Cookie != "", "l2SpecificSublayer": d.L2SpecificSublayer, "sequenceNumber": d.SequenceNumber != nil,
	} {
		if present {
			s.fail(field.Forbidden(at.Child(name), "goes with sessionID"))
		}
	}
	if next != nil {
		s.fail(field.Invalid(at.Child("controlConnectionID"), *d.ControlConnectionID, "no header follows a control message: leave the next header out, or set sessionID"))
	}
	if !overUDP {
		h.extend(layout{{"", 32}}) // in the place of a session (RFC 3931 section 4.1.1.2)
	}
	start := len(h.bytes)
	h.extend(l2tpFlags)
	h.flag("control", true)
	h.flag("lengthPresent", true)
	h.flag("sequencePresent", true)
	h.set("version", l2tpVersion3)
	h.append("length", 16, 0)
	h.counted("length", s.given(d.Length, at.Child("length")), start)
	h.closed = true
	h.append("controlConnectionID", 32, s.number(*d.ControlConnectionID, 1<<32-1, at.Child("controlConnectionID")))
	s.l2tpSequence(h, d.Ns, d.Nr, at)
	h.bytes = append(h.bytes, s.hex(d.AVPs, at.Child("avps"))...)
}
