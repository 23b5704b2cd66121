// SPDX-License-Identifier: Apache-2.0

// Which TCP and IP settings does a side have?

package application

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/problem"
)

// longestMinRTO is the maximum of minRTO: an upper bound of retransmission timeouts may be 60 s (RFC 6298 section
// 2.5).
const longestMinRTO = time.Minute

// tunables returns the settings of one side; nil if none are set.
func (p checker) tunables(s *spatev1.SideTunables, at *field.Path) *enginev1.Tunables {
	if s.TOS == nil && s.TTL == nil && s.TCP == nil {
		return nil
	}
	made := &enginev1.Tunables{
		Tos: p.Setting(s.TOS, 0, 255, at.Child("tos")),
		Ttl: p.Setting(s.TTL, 1, 255, at.Child("ttl")),
	}
	if s.TCP != nil {
		p.tcpTunables(s.TCP, made, at.Child("tcp"))
	}
	return made
}

// CheckTunables reports what is wrong with the settings of one side.
func CheckTunables(s *spatev1.SideTunables, at *field.Path) (problems problem.Problems) {
	checker{&problems}.tunables(s, at)
	return problems
}

// TunablesFor returns a side's settings: the template's own, or else the profile's. Both were checked before.
func TunablesFor(profile, own *spatev1.SideTunables) *enginev1.Tunables {
	merged := profile.DeepCopy()
	bytes, err := json.Marshal(own)
	if err == nil {
		err = json.Unmarshal(bytes, merged) // the template's settings replace the profile's one by one
	}
	if err != nil {
		panic(fmt.Sprintf("tunables are plain fields: %v", err))
	}
	return checker{&problem.Problems{}}.tunables(merged, nil)
}

// LongestDelayedAck is the maximum delay of an acknowledgement that engines accept (RFC 9293 section 3.8.6.3).
const LongestDelayedAck = 500 * time.Millisecond

func (p checker) tcpTunables(t *spatev1.TCPTunables, made *enginev1.Tunables, at *field.Path) {
	const leastBuffer, mostBuffer = 1024, 1 << 30
	made.Mss = p.Setting(t.MSS, 88, 9176, at.Child("mss"))
	made.InitialWindow = p.Setting(t.InitialWindow, 1, 64, at.Child("initialWindow"))
	made.ReceiveBuffer = p.Setting(t.ReceiveBuffer, leastBuffer, mostBuffer, at.Child("receiveBuffer"))
	made.SendBuffer = p.Setting(t.SendBuffer, leastBuffer, mostBuffer, at.Child("sendBuffer"))
	made.DuplicateAckThreshold = p.Setting(t.DuplicateAckThreshold, 1, 100, at.Child("duplicateAckThreshold"))
	if t.DelayedAck != "" {
		wait := p.Duration(t.DelayedAck, at.Child("delayedAck"))
		if wait > uint64(LongestDelayedAck) {
			p.Add(spatev1.ReasonInvalidSpec, at.Child("delayedAck"), "%s: must be at most %v (RFC 9293)", t.DelayedAck, LongestDelayedAck)
		}
		made.DelayedAckNs = &wait
	}
	if made.MinimumRtoNs = p.SomeTime(t.MinRTO, at.Child("minRTO")); made.MinimumRtoNs > uint64(longestMinRTO) {
		p.Add(spatev1.ReasonInvalidSpec, at.Child("minRTO"), "%s: must be at most %v (RFC 6298)", t.MinRTO, longestMinRTO)
	}
	made.ConnectTimeoutNs = p.SomeTime(t.ConnectTimeout, at.Child("connectTimeout"))
	made.KeepaliveIdleNs = p.Duration(t.KeepaliveIdle, at.Child("keepaliveIdle")) // 0 is never, the same as absent
	made.KeepaliveIntervalNs = p.SomeTime(t.KeepaliveInterval, at.Child("keepaliveInterval"))
	made.TimeWaitNs = p.SomeTime(t.TimeWait, at.Child("timeWait"))
	off := func(option *bool) bool { return option != nil && !*option }
	on := func(option *bool) bool { return option != nil && *option }
	made.NoDelay, made.Ecn, made.Blackhole = on(t.NoDelay), on(t.ECN), on(t.Blackhole)
	made.NoTimestamps, made.NoSack, made.NoWindowScale = off(t.Timestamps), off(t.SACK), off(t.WindowScale)
	switch t.CongestionControl {
	case "":
	case spatev1.CongestionCubic:
		made.CongestionControl = enginev1.CongestionControl_CONGESTION_CONTROL_CUBIC
	case spatev1.CongestionNewReno:
		made.CongestionControl = enginev1.CongestionControl_CONGESTION_CONTROL_NEW_RENO
	default:
		p.Add(spatev1.ReasonInvalidSpec, at.Child("congestionControl"), "%q: must be Cubic or NewReno", t.CongestionControl)
	}
}
