// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"testing"
	"time"
)

var before = Result{
	Tx: 900, Rx: 895, Lost: 5, LossRatio: 0.005, TxPps: 90, Duration: 8 * time.Second,
	Streams: map[string]Stream{"imix-64": {Tx: 600, Rx: 598, Lost: 2, Latency: map[string]any{"count": int64(598), "p99": 30 * time.Microsecond}}},
	Groups:  map[string]Group{"sites": {Client: {Established: 150}}},
}

func TestResultsAreComparedWithABaseline(t *testing.T) {
	for expression, want := range map[string]Outcome{
		`result.streams["imix-64"].latency.p99 <= baseline.streams["imix-64"].latency.p99 * 1.05`: {
			Passed: true, Values: `result.streams["imix-64"].latency.p99 is 31us, baseline.streams["imix-64"].latency.p99 is 30us`,
		},
		`result.streams["imix-64"].latency.p99 <= 1.01 * baseline.streams["imix-64"].latency.p99`: {
			Values: `result.streams["imix-64"].latency.p99 is 31us, baseline.streams["imix-64"].latency.p99 is 30us`,
		},
		`result.rx >= baseline.rx * 1.2`:                           {Values: "result.rx is 988, baseline.rx is 895"},
		`result.txPps >= baseline.txPps`:                           {Passed: true, Values: "result.txPps is 100, baseline.txPps is 90"},
		`baseline.streams.all(n, s, result.streams[n].tx >= s.tx)`: {Passed: true, Values: "baseline.streams is 1 streams, result.streams is 2 streams"},
		`result.groups["sites"].client.established > baseline.groups.sites.client.established`: {
			Passed: true, Values: `result.groups["sites"].client.established is 200, baseline.groups.sites.client.established is 150`,
		},
		`result.streams["imix-594"].rx >= baseline.streams["imix-594"].rx`: {
			Failed: true, Message: `result.streams["imix-594"].rx >= baseline.streams["imix-594"].rx cannot be evaluated: the baseline has no baseline.streams["imix-594"]: no such key: imix-594`,
		},
		`baseline.streams["imix-64"].latency.p50 > duration("1us")`: {
			Failed: true, Message: `baseline.streams["imix-64"].latency.p50 > duration("1us") cannot be evaluated: the baseline has no baseline.streams["imix-64"].latency.p50: no such key: p50 (no such time was measured: the stream or template does not measure it, nothing of it arrived, or the clocks are not known to agree)`,
		},
	} {
		threshold, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		got := threshold.EvaluateAgainst(before, measured)
		if !want.Failed {
			verb := " does not hold: "
			if want.Passed {
				verb = " holds: "
			}
			want.Message = expression + verb + want.Values
		}
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

func TestWhetherAnExpressionReadsABaseline(t *testing.T) {
	for expression, want := range map[string]bool{
		`result.lost <= baseline.lost`:                                  true,
		`baseline.streams.all(n, s, s.lost == 0)`:                       true,
		`result.lost == 0`:                                              false,
		`result.streams["baseline"].lost == 0`:                          false,
		`result.streams.baseline.lost == 0`:                             false,
		`result.streams.all(baseline, result.streams[baseline].tx > 0)`: false,
	} {
		threshold, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got := threshold.ReadsBaseline(); got != want {
			t.Errorf("%s: %v", expression, got)
		}
	}
	if _, err := CompileTrial(`trial.lost <= baseline.lost`); err == nil || !strings.Contains(err.Error(), "undeclared reference to 'baseline'") {
		t.Errorf("a requirement of a search reads a baseline: %v", err)
	}
	if _, err := Compile(`result.lost <= baseline.losses`); err == nil || !strings.Contains(err.Error(), "undefined field 'losses': baseline has clients, duplicates, ") {
		t.Errorf("%v", err)
	}
}

func TestABaselineIsCheckedWhenItIsKnown(t *testing.T) {
	subjects := Subjects{Streams: map[string]Measures{"imix-64": {Arrival: true, Order: true, Latency: true}, "imix-594": {Arrival: true}}}
	for expression, want := range map[string]struct{ early, late string }{
		`result.streams["imix-64"].lost <= baseline.streams["imix-64"].lost`:               {},
		`result.streams["imix-65"].lost <= baseline.streams["imix-64"].lost`:               {early: "no such key: imix-65: streams of the profile are imix-594, imix-64"},
		`result.streams["imix-594"].lost <= baseline.streams["imix-594"].lost`:             {late: `baseline.streams["imix-594"]: no such key: imix-594: streams of the baseline are imix-64; receivers are none`},
		`result.streams["imix-64"].latency.p99 < baseline.streams["imix-64"].latency.p999`: {late: "no such key: p999"},
		`result.streams["imix-64"].latency.p99 < baseline.streams["imix-64"].latency.p99`:  {},
		`result.streams["imix-594"].latency.p99 < baseline.streams["imix-64"].latency.p99`: {early: "latency is not measured of stream imix-594"},
		`result.tx / result.lost < baseline.tx / baseline.lost`:                            {},
		`baseline.flows.failed >= 0`: {}, // although this profile has no application
	} {
		threshold, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		same := func(err error, want string) bool {
			return (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want))
		}
		if err := threshold.Check(subjects); !same(err, want.early) {
			t.Errorf("%s: %v before the baseline is known, want %q", expression, err, want.early)
		}
		if err := threshold.CheckBaseline(subjects, &before); want.early == "" && !same(err, want.late) {
			t.Errorf("%s: %v, want %q", expression, err, want.late)
		}
	}
}

func TestALostEngineSaysNothingOfTheBaseline(t *testing.T) {
	threshold, err := Compile(`result.tx >= baseline.rx && baseline.streams["imix-64"].lost < 5`)
	if err != nil {
		t.Fatal(err)
	}
	if unknown := threshold.Unknown(); len(unknown) > 0 {
		t.Errorf("%q", unknown)
	}
	if threshold, err = Compile(`result.streams["imix-64"].tx > 0 && baseline.streams["imix-64"].latency.p99 < duration("1s")`); err != nil {
		t.Fatal(err)
	}
	if threshold.ReadsLatency("imix-64") {
		t.Error("a delay of the baseline is taken for one of the run")
	}
}

func TestTimesAndCountsAreScaled(t *testing.T) {
	for expression, want := range map[string]bool{
		`result.duration * 1.5 == duration("15s")`:                       true,
		`2 * result.duration == duration("20s")`:                         true,
		`result.duration / 4 == duration("2500ms")`:                      true,
		`result.duration / 0.5 == duration("20s")`:                       true,
		`result.duration / duration("4s") == 2.5`:                        true,
		`result.tx * 0.5 == 500.0`:                                       true,
		`1.5 * result.tx == 1500.0`:                                      true,
		`result.tx / 400.0 == 2.5`:                                       true,
		`2500.0 / result.tx == 2.5`:                                      true,
		`result.tx / 400 == 2 && 6u / 4u == 1u && 2u * 3u == 6u`:         true, // as in CEL
		`result.duration * 0.0 == duration("0s")`:                        true,
		`result.streams["imix-64"].latency.p99 * 1.1 > duration("34us")`: true,
	} {
		threshold, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got := threshold.Evaluate(measured); got.Failed || got.Passed != want {
			t.Errorf("%+v", got)
		}
	}
	for expression, want := range map[string]string{
		`result.duration / 0 > duration("1s")`:              "division by zero",
		`result.duration / duration("0s") > 1.0`:            "division by zero",
		`result.duration * 1e300 > duration("1s")`:          "duration overflow",
		`dyn(result.duration) * dyn("a") == duration("1s")`: "no such overload",
		`dyn("a") * result.tx == 1`:                         "no such overload",
		`dyn("a") / result.tx == 1`:                         "no such overload",
	} {
		threshold, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got := threshold.Evaluate(measured); !got.Failed || !strings.Contains(got.Message, want) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	if _, err := Compile(`result.duration * result.duration > duration("1s")`); err == nil || !strings.Contains(err.Error(), "no matching overload") {
		t.Errorf("%v", err)
	}
}
