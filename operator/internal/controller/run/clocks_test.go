// SPDX-License-Identifier: Apache-2.0

package run

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/clock"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
)

// clockAt is a clock that is ahead of the operator's by so much, to a bound.
func clockAt(ahead, bound, at int64) engine.Clock {
	return engine.Clock{Offset: clock.Offset{Least: ahead - bound, Greatest: ahead + bound, At: at}, Tolerance: 50_000, Drift: 110_000}
}

// Of three engines, the first starts at 1000 s by its clock: that is the run's start. All stamps must be by that, whichever operator
// measured the clocks.
func TestTimeStampsOfAllEnginesAreByTheFirstOnesClock(t *testing.T) {
	const second = int64(time.Second)
	began := time.Unix(1_800_000_000, 5000)
	at := metav1.NewMicroTime(began)
	s := &scope{run: &spatev1.TrafficRun{}}
	s.run.Status.TrafficStartTime = &at
	startedAt := 1000 * second
	own := s.ownReference(startedAt)
	if own.BoundNs != 0 || own.DriftPpb != 0 || own.OffsetNs+startedAt != began.UnixNano() {
		t.Errorf("%v", own)
	}
	for _, operator := range []int64{0, 7 * second} { // another one's clock
		now := 500*second + operator
		first, other := clockAt(500*second-operator, 2000, now-second), clockAt(-300*second-operator, 3000, now)
		reference := s.reference(first, other, startedAt)
		// Now the first's clock shows 1000 s, and the other's 200 s.
		if reference.OffsetNs+200*second != began.UnixNano() || reference.MeasuredAtNs != 200*second {
			t.Errorf("%v", reference)
		}
		// The first's was measured a second ago.
		if reference.BoundNs != 2000+110_000+3000 || reference.DriftPpb != 100_001 {
			t.Errorf("%v", reference)
		}
		if shown := other.Monotonic(now); shown != 200*second || other.Reference(shown) != now {
			t.Errorf("%d shows %d", now, shown)
		}
	}
}

func TestDelaysBetweenPodsAreReportedIfTheClocksAreKnownWellEnough(t *testing.T) {
	resultWith := func(bound uint64, expression string) spatev1.RunResult {
		latency := &enginev1.LatencyStats{
			Count: 10, SumNs: 5_000_000, MinNs: 1, MaxNs: 900_000, JitterNs: 7, JitterMaxNs: 9, FromOtherEngines: 4,
			Quantiles: []*enginev1.Quantile{{PartsPerMillion: 500_000, Ns: 500_000}},
		}
		streams := []*enginev1.StreamStats{{Name: "a", Measured: &enginev1.StreamCounters{Latency: latency}}}
		run := &spatev1.TrafficRun{}
		run.Status.Resolved = &spatev1.ResolvedRun{}
		if expression != "" {
			run.Status.Resolved.Thresholds = []spatev1.Threshold{{Name: "t", Expression: expression}}
		}
		stats := []*enginev1.WatchStatsResponse{
			{Run: &enginev1.RunInfo{}, Streams: streams},
			{Run: &enginev1.RunInfo{ReferenceBoundNs: bound - 10_000}},
			{Run: &enginev1.RunInfo{ReferenceBoundNs: 10_000}},
		}
		result := resultOf(stats, &storage.Facts{}, run)
		if result.ClockBound != spatev1.MeasuredTime(bound) || result.Streams["a"].Latency.ClockBound != result.ClockBound {
			t.Errorf("the clocks agree to %s, want %d ns", result.ClockBound, bound)
		}
		return result
	}
	reads := `result.streams["a"].latency.p50 < duration("1ms")`
	for name, c := range map[string]struct {
		bound      uint64
		expression string
		reported   bool
	}{
		"a tenth":                       {50_000, "", true},
		"more":                          {50_001, "", false},
		"more, and a threshold":         {200_000, reads, true},
		"more, and one of another":      {200_000, `result.streams["b"].latency.p50 < duration("1ms")`, false},
		"more, and one of any":          {200_000, `result.streams.all(name, s, s.latency.p50 < duration("1ms"))`, true},
		"more, and one that reads less": {200_000, `result.streams["a"].tx > 0 && result.lost == 0`, false},
	} {
		l := resultWith(c.bound, c.expression).Streams["a"].Latency
		switch {
		case c.reported && (l.Count != 10 || l.P50 != 500_000 || l.OneWayUnknown || l.Message != ""):
			t.Errorf("%s: %+v", name, l)
		case !c.reported && (l.Count != 0 || l.Max != 0 || !l.OneWayUnknown || l.Jitter != 7 || !strings.Contains(l.Message, "more than a tenth of the median delay, 500us")):
			t.Errorf("%s: %+v", name, l)
		}
	}
	result := resultWith(200_000, reads)
	judged := thresholds([]spatev1.Threshold{{Name: "t", Expression: reads}, {Name: "u", Expression: "result.lost == 0"}}, result, compared{}, nil)
	if !judged[0].Met || !strings.HasSuffix(judged[0].Message, "(delays between pods are exact to 200us, by which their clocks may differ)") || strings.Contains(judged[1].Message, "clocks") {
		t.Errorf("%+v", judged)
	}
}

// Packets that a device stamps are exact to its clock's error within a pod, and between pods to that and the error of the pods' clocks.
func TestTheErrorOfADevicesClockIsInTheBoundOfDelays(t *testing.T) {
	const reads = `result.streams["a"].latency.p50 < duration("1ms")`
	resultWith := func(fromOthers uint64, devices ...uint64) spatev1.RunResult {
		var stats []*enginev1.WatchStatsResponse
		for _, bound := range devices {
			latency := &enginev1.LatencyStats{
				Count: 10, SumNs: 5_000_000, MinNs: 1, MaxNs: 900_000, FromOtherEngines: fromOthers, DeviceBoundNs: bound,
				Quantiles: []*enginev1.Quantile{{PartsPerMillion: 500_000, Ns: 500_000}},
			}
			streams := []*enginev1.StreamStats{{Name: "a", Measured: &enginev1.StreamCounters{Latency: latency}}}
			stats = append(stats, &enginev1.WatchStatsResponse{Run: &enginev1.RunInfo{ReferenceBoundNs: 10_000}, Streams: streams})
		}
		run := &spatev1.TrafficRun{}
		run.Status.Resolved = &spatev1.ResolvedRun{}
		return resultOf(stats, &storage.Facts{}, run)
	}
	judged := func(r spatev1.RunResult) string {
		return thresholds([]spatev1.Threshold{{Name: "t", Expression: reads}}, r, compared{}, nil)[0].Message
	}
	one := resultWith(0, 400)
	if l := one.Streams["a"].Latency; one.ClockBound != 0 || l.ClockBound != 400 || l.OneWayUnknown || l.P50 != 500_000 {
		t.Errorf("bound %s, %+v", one.ClockBound, l)
	}
	if got := judged(one); !strings.HasSuffix(got, "(delays are exact to 400ns, by which the clock of the receiving device may be off)") {
		t.Error(got)
	}
	both := resultWith(5, 400, 700)
	if l := both.Streams["a"].Latency; both.ClockBound != 20_000 || l.ClockBound != 20_700 || l.OneWayUnknown {
		t.Errorf("bound %s, %+v", both.ClockBound, l)
	}
	if got := judged(both); !strings.HasSuffix(got, "(delays between pods are exact to 20.7us, by which their clocks may differ)") {
		t.Error(got)
	}
	if l := resultWith(0, 0).Streams["a"].Latency; l.ClockBound != 0 {
		t.Errorf("stamped by the CPU: %+v", l)
	}
}

// The packets of a lost pod were stamped by a clock of which nothing more is known.
func TestDelaysAreNotReportedWithoutTheBoundOfALostPodsClock(t *testing.T) {
	latency := &enginev1.LatencyStats{Count: 10, MinNs: 1, MaxNs: 9, JitterMaxNs: 9, FromOtherEngines: 4, Quantiles: []*enginev1.Quantile{{PartsPerMillion: 500_000, Ns: 1e9}}}
	stats := []*enginev1.WatchStatsResponse{
		{Run: &enginev1.RunInfo{}, Streams: []*enginev1.StreamStats{{Name: "a", Measured: &enginev1.StreamCounters{Latency: latency}}}}, nil,
	}
	run := &spatev1.TrafficRun{}
	run.Status.Resolved = &spatev1.ResolvedRun{Generator: spatev1.GeneratorSnapshot{Pods: make([]spatev1.PodSnapshot, 2)}}
	lost := resultOf(stats, &storage.Facts{}, run)
	if l := lost.Streams["a"].Latency; lost.ClockBound != 0 || !l.OneWayUnknown || l.Count != 0 || l.JitterMax != 9 || !strings.HasPrefix(l.Message, "a pod of the run was lost") {
		t.Errorf("%+v", l)
	}
	stated := resultOf(stats, &storage.Facts{ClockBound: time.Microsecond}, run)
	if l := stated.Streams["a"].Latency; stated.ClockBound != 1000 || l.Count != 10 || l.ClockBound != 1000 {
		t.Errorf("%+v", l)
	}
}

func TestWallClocksThatDifferByMoreThanStatedAreRefused(t *testing.T) {
	s := &scope{run: &spatev1.TrafficRun{}}
	s.run.Status.Resolved = &spatev1.ResolvedRun{Generator: spatev1.GeneratorSnapshot{Name: "lab", Pods: []spatev1.PodSnapshot{{Name: "lab-0"}, {Name: "lab-1"}, {Name: "lab-2"}}}}
	at := engine.Now()
	holds := []engineState{{clock: clockAt(5_000_000, 100_000, at)}, {clock: clockAt(5_150_000, 20_000, at)}, {clock: clockAt(4_800_000, 30_000, at)}}
	if no := s.clocksContradict(holds, 0); no != nil {
		t.Error(no)
	}
	// lab-1 is ahead of lab-2 by 300 to 400 us.
	if no := s.clocksContradict(holds, 300*time.Microsecond); no != nil {
		t.Error(no)
	}
	no := s.clocksContradict(holds, 299*time.Microsecond)
	if no == nil || no.reason != spatev1.ReasonStartFailed || !strings.Contains(no.message, "pod lab-1 is at least 300µs ahead of that of pod lab-2, and spec.clockBound of TrafficGenerator lab is 299µs") {
		t.Errorf("%v", no)
	}
}
