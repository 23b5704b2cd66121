// SPDX-License-Identifier: Apache-2.0

// Can a stream be sent, and as which bytes at which rate?

package plan

import (
	"net"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/packet"
)

// Stream is a stream that can be sent.
type Stream struct {
	Packet *packet.Packet
	Rate   Quantity
	// Flow is true when received, lost, duplicated and reordered packets are measured.
	Flow bool
}

// CheckStream tells whether a StatelessStream by itself can be sent. Where it is sent from is not known yet, so a
// missing Ethernet destination is no problem here.
func CheckStream(spec *spatev1.StatelessStreamSpec) (*Stream, Problems) {
	return checkStream(spec, field.NewPath("spec"), packet.InternalDestination)
}

// CheckTemplate tells whether an ASTFTemplate can be run.
func CheckTemplate(*spatev1.ASTFTemplateSpec) Problems {
	var problems Problems
	problems.add(spatev1.ReasonNotSupported, field.NewPath("spec"),
		"the engine does not run templates yet; use a StatelessStream")
	return problems
}

func checkStream(spec *spatev1.StatelessStreamSpec, at *field.Path, nextHop net.HardwareAddr) (*Stream, Problems) {
	var problems Problems
	built, errs := packet.Build(spec.Packet, at.Child("packet"), packet.Options{Trailer: spec.Measure.Flow, NextHop: nextHop})
	problems.invalid(errs)
	problems = append(problems, checkFields(spec.Fields, at.Child("fields"), built)...)
	rate, rateProblems := transmitRate(&spec.Transmit, at.Child("transmit"))
	problems = append(problems, rateProblems...)
	if spec.Measure.Latency {
		problems.add(spatev1.ReasonNotSupported, at.Child("measure", "latency"),
			"the engine does not measure latency yet; leave it out (measure.flow counts loss, duplicates and reordering)")
	}
	if len(problems) > 0 {
		return nil, problems
	}
	return &Stream{Packet: built, Rate: rate, Flow: spec.Measure.Flow}, nil
}

// transmitRate reads the rate of a mode the engine has.
func transmitRate(transmit *spatev1.Transmit, at *field.Path) (Quantity, Problems) {
	var problems Problems
	set := 0
	for mode, present := range map[string]bool{
		"continuous": transmit.Continuous != nil, "burst": transmit.Burst != nil, "multiBurst": transmit.MultiBurst != nil,
	} {
		if !present {
			continue
		}
		set++
		if mode != "continuous" {
			problems.add(spatev1.ReasonNotSupported, at.Child(mode), "the engine does not send bursts yet; use continuous")
		}
	}
	if set != 1 {
		problems.add(spatev1.ReasonInvalidSpec, at, "set exactly one of continuous, burst and multiBurst")
	}
	if len(problems) > 0 {
		return Quantity{}, problems
	}
	rate, err := ParseRate(transmit.Continuous.Rate)
	if err != nil {
		problems.add(spatev1.ReasonInvalidSpec, at.Child("continuous", "rate"), "%q: %v", transmit.Continuous.Rate, err)
	}
	return rate, problems
}
