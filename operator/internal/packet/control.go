// SPDX-License-Identifier: Apache-2.0

// How do messages between the ends of a link become bytes: LACP and MAC control?

package packet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	lacpSubtype           = 1
	lacpParticipantLength = 20
	lacpCollectorLength   = 16

	opcodePause = 0x0001
	opcodePFC   = 0x0101
	priorities  = 8
)

var (
	pauseLayout = layout{{"opcode", 16}, {"pauseTime", 16}}
	pfcLayout   = layout{
		{"opcode", 16}, {"priorityEnableVector", 16}, {"time0", 16}, {"time1", 16}, {"time2", 16}, {"time3", 16}, {"time4", 16}, {"time5", 16},
		{"time6", 16}, {"time7", 16},
	}
)

// lacpStates are the flags of a state, from the lowest bit on.
var lacpStates = map[spatev1.LACPState]uint64{
	spatev1.LACPActivity: 1, spatev1.LACPTimeout: 2, spatev1.LACPAggregation: 4, spatev1.LACPSynchronization: 8,
	spatev1.LACPCollecting: 16, spatev1.LACPDistributing: 32, spatev1.LACPDefaulted: 64, spatev1.LACPExpired: 128,
}

func (s *stack) lacp(d *spatev1.LACPHeader, at *field.Path) *header {
	h := lay(LACP)
	h.closed = true
	h.set("subtype", lacpSubtype)
	h.set("version", s.optional(d.Version, 1, 255, at.Child("version")))
	s.participant(h, "actor", 1, &d.Actor, at.Child("actor"))
	s.participant(h, "partner", 2, d.Partner, at.Child("partner"))
	h.set("collectorType", 3)
	h.set("collectorLength", lacpCollectorLength)
	h.set("collectorMaxDelay", s.number(int64(d.CollectorMaxDelay), 65535, at.Child("collectorMaxDelay")))
	return h
}

// participant writes the actor's or the partner's information; one that is not known is of zeros.
func (s *stack) participant(h *header, name string, kind uint64, d *spatev1.LACPParticipant, at *field.Path) {
	h.set(name+"Type", kind)
	h.set(name+"Length", lacpParticipantLength)
	if d == nil {
		return
	}
	h.set(name+"SystemPriority", s.number(int64(d.SystemPriority), 65535, at.Child("systemPriority")))
	h.copy(name+"System", s.mac(d.System, at.Child("system")))
	h.set(name+"Key", s.number(int64(d.Key), 65535, at.Child("key")))
	h.set(name+"PortPriority", s.number(int64(d.PortPriority), 65535, at.Child("portPriority")))
	h.set(name+"Port", s.number(int64(d.Port), 65535, at.Child("port")))
	var state uint64
	for i, flag := range d.State {
		bit, known := lacpStates[flag]
		if !known {
			s.fail(field.NotSupported(at.Child("state").Index(i), flag, sorted(lacpStates)))
		}
		state |= bit
	}
	h.set(name+"State", state)
}

func (s *stack) macControl(d *spatev1.MACControlHeader, at *field.Path) *header {
	h := &header{kind: MACControl, fields: map[string]Location{}, closed: true}
	switch {
	case (d.PauseTime != nil) == (d.PriorityEnableVector != nil):
		s.fail(field.Invalid(at, "", "set exactly one of pauseTime and priorityEnableVector"))
		return lay(MACControl)
	case d.PauseTime != nil:
		h.extend(pauseLayout)
		h.set("opcode", s.optional(d.Opcode, opcodePause, 65535, at.Child("opcode")))
		h.set("pauseTime", s.number(int64(*d.PauseTime), 65535, at.Child("pauseTime")))
		if len(d.Times) > 0 {
			s.fail(field.Forbidden(at.Child("times"), "goes with priorityEnableVector"))
		}
		return h
	}
	h.extend(pfcLayout)
	h.set("opcode", s.optional(d.Opcode, opcodePFC, 65535, at.Child("opcode")))
	h.set("priorityEnableVector", s.number(int64(*d.PriorityEnableVector), 65535, at.Child("priorityEnableVector")))
	if len(d.Times) > priorities {
		s.fail(field.TooMany(at.Child("times"), len(d.Times), priorities))
		return h
	}
	for i, time := range d.Times {
		h.set(fmt.Sprintf("time%d", i), s.number(int64(time), 65535, at.Child("times").Index(i)))
	}
	return h
}
