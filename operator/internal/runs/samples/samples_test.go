// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
)

// readingOf counts n packets, and as many flows, in each of some streams and templates.
func readingOf(at time.Duration, n int64, streams, templates int) Reading {
	r := &spatev1.RunResult{Streams: map[string]spatev1.StreamResult{}, Templates: map[string]spatev1.TemplateResult{}, RxMissed: n / 3}
	reading := Reading{At: at, Result: r, Delays: map[string]Times{}, ConnectTimes: map[string]Times{}}
	for i := range streams {
		c := spatev1.StreamCounters{Tx: n, TxBytes: 64 * n, Rx: n - n/7, RxBytes: 64 * (n - n/7), Lost: n / 7}
		name := fmt.Sprintf("s-%03d", i)
		r.Streams[name] = spatev1.StreamResult{StreamCounters: c, Latency: &spatev1.Latency{P50: 10, P99: 20, Max: spatev1.MeasuredTime(n)}}
		reading.Delays[name] = Times{Count: c.Rx, Sum: 12 * c.Rx}
		r.Tx, r.Rx, r.Lost, r.TxBytes, r.RxBytes = r.Tx+c.Tx, r.Rx+c.Rx, r.Lost+c.Lost, r.TxBytes+c.TxBytes, r.RxBytes+c.RxBytes
	}
	for i := range templates {
		side := &spatev1.TemplateSide{FlowCounters: spatev1.FlowCounters{Attempted: n, Established: n - 1, Open: n % 5}, ConnectTime: &spatev1.Latency{P99: 7}}
		name := fmt.Sprintf("t-%03d", i)
		r.Templates[name] = spatev1.TemplateResult{Client: side}
		reading.ConnectTimes[name] = Times{Count: n, Sum: 3 * n}
		if r.Flows == nil {
			r.Flows = &spatev1.FlowCounters{}
		}
		r.Flows.Attempted += n
	}
	return reading
}

// However many samples are dropped, what is left has the values that were read at its times, the last reading is among them, and so sums
// between any two are exact.
func TestDroppedSamplesLeaveSumsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		s, limit := New(), 2+random.IntN(40)
		read := map[int64]int64{}
		at, n := time.Duration(0), int64(0)
		for range random.IntN(1000) + 1 {
			at += time.Duration(random.IntN(3000)) * time.Millisecond
			n += random.Int64N(1 << 40)
			if !s.Due(at) {
				continue
			}
			s.Add(readingOf(at, n, 3, 0), limit)
			read[int64(at)] = n
		}
		at, n = at+1, n+1
		s.Add(readingOf(at, n, 3, 0), limit)
		read[int64(at)] = n
		if len(s.Times) > limit || s.Times[len(s.Times)-1] != int64(at) {
			t.Fatalf("%d samples at a limit of %d, the last at %d, not %d", len(s.Times), limit, s.Times[len(s.Times)-1], at)
		}
		for i, at := range s.Times {
			n, lost := read[at], read[at]/7
			if got := s.Total[Tx][i]; got != 3*n {
				t.Fatalf("%d packets in all at %d, not %d", got, at, 3*n)
			}
			if got, missed := s.Streams["s-001"][Lost][i], s.Total[RxMissed][i]; got != lost || missed != n/3 {
				t.Fatalf("%d lost and %d missed at %d, not %d and %d", got, missed, at, lost, n/3)
			}
		}
	}
}

func TestTheIntervalGrowsWithTheRun(t *testing.T) {
	s := New()
	const limit, seconds = 60, 100_000
	for i := range seconds {
		if at := time.Duration(i) * time.Second; s.Due(at) {
			s.Add(readingOf(at, int64(i), 1, 0), limit)
		}
	}
	if n := len(s.Times); n < limit/2 || n > limit || s.Interval < seconds/limit*time.Second || s.Interval > 4*seconds/limit*time.Second {
		t.Errorf("%d samples of %s after %d s", n, s.Interval, seconds)
	}
	for i := 1; i < len(s.Times); i++ {
		if gap := time.Duration(s.Times[i] - s.Times[i-1]); gap < s.Interval/2 || gap > 2*s.Interval {
			t.Fatalf("%s between samples %d and %d, with an interval of %s", gap, i-1, i, s.Interval)
		}
	}
}

func TestManyRunsKeepFewerSamplesEach(t *testing.T) {
	for active, want := range map[int]int{0: 600, 1: 600, 100: 600, 200: 300, 1000: 60, 5000: 60} {
		if got := Limit(active); got != want {
			t.Errorf("%d samples of each of %d runs, not %d", got, active, want)
		}
	}
}

func TestOfManyStreamsTheFirstAreSampled(t *testing.T) {
	s := New()
	s.Add(readingOf(0, 0, 20, 11), Most)
	s.Add(readingOf(time.Second, 100, 20, 11), Most)
	if len(s.Streams) != MostStreams || s.StreamsNotSampled != 12 || len(s.Templates) != MostTemplates || s.TemplatesNotSampled != 3 {
		t.Errorf("%d streams and %d not, %d templates and %d not", len(s.Streams), s.StreamsNotSampled, len(s.Templates), s.TemplatesNotSampled)
	}
	if s.Total[Tx][1] != 2000 || s.Streams["s-007"][Tx][1] != 100 || s.Streams["s-008"] != nil || s.Flows[Attempted][1] != 1100 || s.Templates["t-007"][ConnectSum][1] != 300 {
		t.Errorf("%+v", s)
	}
}

func TestAReadingAtTheSameTimeReplacesTheLast(t *testing.T) {
	s := New()
	for _, n := range []int64{0, 10, 11} {
		s.Add(readingOf(time.Duration(min(n, 10))*time.Second, n, 1, 0), Most)
	}
	if len(s.Times) != 2 || s.Total[Tx][1] != 11 || len(s.Total[Tx]) != 2 {
		t.Errorf("%v %v", s.Times, s.Total[Tx])
	}
}

func TestStoredSamplesAreReadAsTheyWere(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s := New()
	for i := range int64(Most) {
		s.Add(readingOf(time.Duration(i)*time.Second, random.Int64N(1<<62)-1<<61, 12, 12), Most)
	}
	packed, err := s.Encode()
	if err != nil || len(packed) > MostBytes {
		t.Fatalf("%d bytes, %v", len(packed), err)
	}
	read, err := Decode(packed)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read, s) {
		t.Error("they differ")
	}
	read.Add(readingOf(time.Duration(Most)*time.Second*2, 5, 12, 12), Most) // another operator goes on
	if last := len(read.Times) - 1; read.Total[Tx][last] != 60 {
		t.Errorf("%v", read.Total[Tx][last])
	}
	packed[len(packed)-5] ^= 1 // of the checksum
	if _, err := Decode(packed); err == nil {
		t.Error("damage is not noticed")
	}
}

// The longest runs on the operator's side: what is stored of the most streams and templates at ordinary rates.
func TestTheLargestSeriesFitsAnObject(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	s, n := New(), int64(0)
	for i := range Most {
		n += 14_880_952 + random.Int64N(1000)
		s.Add(readingOf(time.Duration(i)*time.Second, n, 100, 100), Most)
	}
	packed, err := s.Encode()
	if err != nil || len(s.Times) != Most || len(packed) > MostBytes/2 {
		t.Errorf("%d bytes of %d samples, %v", len(packed), len(s.Times), err)
	}
}

func FuzzDecode(f *testing.F) {
	s := New()
	s.Add(readingOf(0, 0, 1, 1), Most)
	s.Add(readingOf(time.Second, 9, 1, 1), Most)
	packed, err := s.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Fuzz(func(t *testing.T, packed []byte) {
		s, err := Decode(packed)
		if err != nil {
			return
		}
		s.Add(readingOf(1<<62, 5, 1, 1), Most) // what was read can be gone on with
		if _, err := s.Encode(); err != nil {
			t.Error(err)
		}
	})
}

func TestRatesAreDifferencesOverTime(t *testing.T) {
	t.Parallel()
	s := New()
	s.Times = []int64{0, 1e9, 3e9, 3_500_000_000, 4e9}
	got := s.Rates([]int64{0, 100, 300, 200, 260}, 8)
	if want := []float64{math.NaN(), 800, 800, math.NaN(), 960}; !slices.EqualFunc(got, want, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }) {
		t.Errorf("%v, not %v", got, want)
	}
	if got := Means([]int64{0, 5000, 5000, 9000}, []int64{0, 5, 5, 7}); !math.IsNaN(got[0]) || got[1] != 1e-6 || !math.IsNaN(got[2]) || got[3] != 2e-6 {
		t.Errorf("%v", got)
	}
}
