// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"testing"
	"time"
)

var measured = Result{
	Tx: 1000, Rx: 988, Lost: 12, LossRatio: 0.012, TxPps: 100, Duration: 10 * time.Second,
	Streams: map[string]Stream{
		"imix-64":  {Tx: 700, Rx: 695, Lost: 5, Latency: map[string]any{"count": int64(695), "p99": 31 * time.Microsecond, "mean": 12 * time.Microsecond}},
		"imix-594": {Tx: 300, Rx: 293, Lost: 7},
	},
	Receivers: map[string]Receiver{"tap": {Packets: 5, InterArrival: map[string]any{"mean": 10 * time.Nanosecond}}},
	Flows:     Side{Established: 300, Failed: 2, Cps: 30},
	Records:   Records{Written: 500, Dropped: 3},
	Templates: map[string]map[string]Side{
		"http": {Client: {Established: 200, Failed: 2, ConnectTime: map[string]any{"p99": 700 * time.Nanosecond}}, Server: {Established: 199}},
		"web":  {Server: {Established: 100}},
	},
	Groups: map[string]Group{"sites": {Client: {Established: 200, ConnectTime: map[string]any{"mean": 500 * time.Nanosecond}}, Server: {Established: 299}}},
}

func TestEvaluate(t *testing.T) {
	type outcome struct {
		passed, failed bool
		message        string
	}
	for expression, want := range map[string]outcome{
		`result.lost == 0`:                     {false, false, `result.lost == 0 does not hold: result.lost is 12`},
		`result.lossRatio < 0.02`:              {true, false, `result.lossRatio < 0.02 holds: result.lossRatio is 0.012`},
		`result.streams["imix-64"].rx > 0`:     {true, false, `result.streams["imix-64"].rx > 0 holds: result.streams["imix-64"].rx is 695`},
		`result.txPps >= 100.0 && result.tx>1`: {true, false, `result.txPps >= 100.0 && result.tx>1 holds: result.txPps is 100, result.tx is 1000`},
		`result.duration >= duration("10s")`:   {true, false, `result.duration >= duration("10s") holds: result.duration is 10s`},
		`result.streams.all(s, result.streams[s].lost < 6)`: {false, false,
			`result.streams.all(s, result.streams[s].lost < 6) does not hold: result.streams is 2 streams`},
		`result.streams.all(name, s, s.rx > 0)`: {true, false, `result.streams.all(name, s, s.rx > 0) holds: result.streams is 2 streams`},
		`result.streams["imix-64"].latency.p99 < duration("100us")`: {true, false,
			`result.streams["imix-64"].latency.p99 < duration("100us") holds: result.streams["imix-64"].latency.p99 is 31us`},
		`result.streams["imix-594"].latency.p99 < duration("1ns")`: {false, true,
			`result.streams["imix-594"].latency.p99 < duration("1ns") cannot be evaluated: no such key: p99 (no such time was measured: the stream or template does not measure it, nothing of it arrived, or the clocks are not known to agree)`},
		`result.receivers["tap"].packets == 5 && result.receivers["tap"].interArrival.mean < duration("11ns")`: {true, false,
			`result.receivers["tap"].packets == 5 && result.receivers["tap"].interArrival.mean < duration("11ns") holds: result.receivers["tap"].packets is 5, result.receivers["tap"].interArrival.mean is 10ns`},
		`result.flows.cps > 1.0 && result.flows.failed == 0`: {false, false,
			`result.flows.cps > 1.0 && result.flows.failed == 0 does not hold: result.flows.cps is 30, result.flows.failed is 2`},
		`result.templates["http"].client.connectTime.p99 < duration("1us")`: {true, false,
			`result.templates["http"].client.connectTime.p99 < duration("1us") holds: result.templates["http"].client.connectTime.p99 is 700ns`},
		`result.templates.all(name, t, t.server.failed == 0)`: {true, false, `result.templates.all(name, t, t.server.failed == 0) holds: result.templates is 2 templates`},
		`result.streams["imix-64"].latency.count == 695 && result.streams["imix-64"].latency.p99 > result.streams["imix-64"].latency.mean`: {true, false,
			`result.streams["imix-64"].latency.count == 695 && result.streams["imix-64"].latency.p99 > result.streams["imix-64"].latency.mean holds: ` +
				`result.streams["imix-64"].latency.count is 695, result.streams["imix-64"].latency.p99 is 31us, result.streams["imix-64"].latency.mean is 12us`},
		`result.records.dropped + result.records.filesNotWritten == 0`: {false, false,
			`result.records.dropped + result.records.filesNotWritten == 0 does not hold: result.records.dropped is 3, result.records.filesNotWritten is 0`},
		`result.groups["sites"].server.established == 299`: {true, false, `result.groups["sites"].server.established == 299 holds: result.groups["sites"].server.established is 299`},
		`result.groups.all(name, g, g.client.connectTime.mean < duration("501ns"))`: {true, false,
			`result.groups.all(name, g, g.client.connectTime.mean < duration("501ns")) holds: result.groups is 1 groups`},
		`result.templates["web"].client.failed == 0`: {false, true, `result.templates["web"].client.failed == 0 cannot be evaluated: no such key: client`},
		`result.streams["x"].rx > 0`:                 {false, true, `result.streams["x"].rx > 0 cannot be evaluated: no such key: x`},
	} {
		threshold, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		got := threshold.Evaluate(measured)
		if (outcome{got.Passed, got.Failed, got.Message}) != want || !strings.HasSuffix(got.Message, got.Values) || got.Failed != (got.Values == "") {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

// A trial has the fields of a result, under a name of its own.
func TestTrialsAreEvaluatedByTheirOwnName(t *testing.T) {
	threshold, err := CompileTrial(`trial.streams["imix-64"].latency.p99 < duration("10us") && trial.lost == 12`)
	if err != nil {
		t.Fatal(err)
	}
	if got := threshold.Evaluate(measured); got.Passed || got.Failed || got.Values != `trial.streams["imix-64"].latency.p99 is 31us, trial.lost is 12` && got.Values != `trial.streams["imix-64"].latency.p99 is 31us` {
		t.Errorf("%+v", got)
	}
	for expression, want := range map[string]string{
		`result.lost == 0`: "undeclared reference to 'result'",
		`trial.lots == 0`:  "undefined field 'lots'",
		`trial.lost`:       `as in "trial.outOfOrder == 0"`,
	} {
		if _, err := CompileTrial(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expression, err, want)
		}
	}
	if _, err := Compile(`trial.lost == 0`); err == nil || !strings.Contains(err.Error(), "undeclared reference to 'trial'") {
		t.Errorf("a threshold of a profile reads a trial: %v", err)
	}
	subjects := Subjects{Streams: map[string]Measures{"flow": {Arrival: true, Order: true}}}
	for expression, want := range map[string]string{
		`trial.streams["flow"].latency.p99 < duration("5ns")`: "latency is not measured of stream flow: set measure.latency",
		`trial.flows.failed == 0`:                             "trial.flows is not measured",
		`trial.streams["voice"].lost == 0`:                    "streams of the profile are flow",
		`trial.streams["flow"].outOfOrder == 0`:               "",
	} {
		compiled, err := CompileTrial(expression)
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Check(subjects); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expression, err, want)
		}
	}
	if !threshold.ReadsLatency("imix-64") || threshold.ReadsLatency("imix-594") {
		t.Error("which stream's latency is read is not found")
	}
}

func TestCompileNamesWhatIsWrong(t *testing.T) {
	for expression, want := range map[string]string{
		`result.lots == 0`:                        "undefined field 'lots': result has clients, duplicates, duration, flows, foreign, groups, late, lossRatio, lost,",
		`result.templates["a"].client.fails == 0`: "undefined field 'fails': result.templates[\"a\"].client has aborted, attempted, ",
		`result.groups["a"].client.fails == 0`:    "undefined field 'fails'",
		`result.lost`:                             "must be true or false",
		`result.lost == `:                         "column 16",
		`result.lost == "a"`:                      "no matching overload",
		`results.lost == 0`:                       "undeclared reference to 'results'",
		`result.lossRatio == 0`:                   "write 0.0, not 0",
		`result.lossRatio < 1`:                    "",
	} {
		_, err := Compile(expression)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", expression, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", expression, err, want)
		}
	}
}

func TestCheckFindsUnknownStreams(t *testing.T) {
	all := Measures{Arrival: true, Order: true, Latency: true}
	threshold, err := Compile(`result.streams["imix-65"].lost * 10 / result.tx == 0`)
	if err != nil {
		t.Fatal(err)
	}
	if err := threshold.Check(Subjects{Streams: map[string]Measures{"imix-64": all}}); err == nil || !strings.Contains(err.Error(), "imix-65") {
		t.Errorf("got %v", err)
	}
	if err := threshold.Check(Subjects{Streams: map[string]Measures{"imix-65": all}}); err != nil {
		t.Errorf("division by a counter that is still zero is no error: %v", err)
	}
	for expression, wrong := range map[string]bool{
		`result.streams["a"].latency.p99 < duration("1ns")`:                    false,
		`result.streams["a"].latency.p98 < duration("1ns")`:                    true,
		`result.receivers["tap"].jitter.max < duration("1ns")`:                 false,
		`result.receivers["west"].packets > 0`:                                 true,
		`result.receivers["tap"].latency.median == 1`:                          true,
		`result.templates["http"].client.failed == 0`:                          false,
		`result.templates["http"].client.connectTime.p99 < duration("1ns")`:    false,
		`result.templates["http"].client.connectTime.jitter < duration("1ns")`: true,
		`result.streams["a"].latency.p99 < 1`:                                  true,
		`result.streams["a"].latency.count > 1`:                                false,
		`result.streams["a"].latency.count < duration("1s")`:                   true,
		`result.templates["http"].client.roundTrip.p98 < duration("1ns")`:      true,
		`result.templates["http"].server.failed == 0`:                          true,
		`result.templates["web"].client.failed == 0`:                           true,
		`result.templates.all(n, t, t.client.failed == 0) && result.tx > 0`:    false,
		`result.templates["http"].client.counters["answered"] > 0`:             false,
		`result.templates["http"].client.counters.missed == 0`:                 true,
		`result.groups["sites"].client.connectTime.max < duration("1ns")`:      false,
		`result.groups["sites"].client.connectTime.p99 < duration("1ns")`:      true,
		`result.groups["sites"].server.failed == 0`:                            true,
		`result.groups["http"].client.failed == 0`:                             true,
	} {
		threshold, err := Compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		if err := threshold.Check(Subjects{Streams: map[string]Measures{"a": all}, Receivers: []string{"tap"}, Templates: map[string]Sides{"http": {Client: {Counters: []string{"answered"}}}}, Groups: map[string]Sides{"sites": {Client: {}}}}); (err != nil) != wrong {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

// A counter that nothing increments is always 0: a threshold on it would check nothing.
func TestCheckFindsWhatIsNotMeasured(t *testing.T) {
	subjects := Subjects{Streams: map[string]Measures{"sent": {}, "marked": {Arrival: true}, "flow": {Arrival: true, Order: true}, "timed": {Arrival: true, Order: true, Latency: true},
		"tagged": {Arrival: true, Order: true, Tags: []string{"untagged", "other", "5", "100/7"}}}}
	only := func(name string) Subjects {
		return Subjects{Streams: map[string]Measures{name: subjects.Streams[name]}, Templates: map[string]Sides{"http": {Client: {}}}}
	}
	for _, c := range []struct {
		subjects   Subjects
		expression string
		want       string
	}{
		{subjects, `result.lost == 0 && result.duplicates == 0 && result.tx > 0 && result.late == 0`, ""},
		{subjects, `result.streams["marked"].lost == 0 && result.streams["flow"].outOfOrder == 0 && result.streams["timed"].latency.p99 < duration("5ns")`, ""},
		{subjects, `result.streams.all(name, s, s.lost == 0)`, ""},
		{subjects, `result.streams["sent"].tx > 0`, ""},
		{subjects, `result.streams["sent"].lost == 0`, "lost is not measured of stream sent: set measure.flow or measure.mark"},
		{subjects, `result.streams.sent.rx == 0`, "rx is not measured of"},
		{subjects, `result.streams["marked"].duplicates == 0`, "duplicates is not measured of stream marked: set measure.flow"},
		{subjects, `result.streams["flow"].latency.p99 < duration("5ns")`, "latency is not measured of stream flow: set measure.latency"},
		{subjects, `result.streams["tagged"].byTag["100/7"].missing == 0 && result.streams["tagged"].byTag["other"].packets == 0`, ""},
		{subjects, `result.streams["tagged"].byTag.all(tag, result.streams["tagged"].byTag[tag].duplicates == 0)`, ""},
		{subjects, `result.streams["tagged"].byTag["6"].packets == 0`, "no such key: 6: streams of the profile are"},
		{subjects, `result.streams["flow"].byTag["5"].packets > 0`, "byTag is not measured of stream flow: set measure.byTag"},
		{subjects, `result.flows.failed == 0`, "no entry of spec.traffic is an application"},
		{only("sent"), `result.flows.failed == 0`, ""},
		{only("sent"), `result.tx > 0 && result.lossRatio < 0.1`, "lossRatio is not measured of the profile's streams"},
		{only("sent"), `result.streams.all(name, s, s.lost == 0)`, "lost is not measured of the profile's streams"},
		{only("marked"), `result.outOfOrder == 0`, "outOfOrder is not measured of the profile's streams"},
		{Subjects{Receivers: []string{"tap"}}, `result.rx == 0`, "rx is not measured of the profile's streams"},
	} {
		threshold, err := Compile(c.expression)
		if err != nil {
			t.Fatal(err)
		}
		if err := threshold.Check(c.subjects); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.expression, err, c.want)
		}
	}
}

// Times that nothing measures are refused before the run. The message has the remedy if the expression names the
// stream, template or group.
func TestCheckFindsTimesThatAreNotMeasured(t *testing.T) {
	silent := Program{Unmeasured: map[string]string{ConnectTime: "UDP has no handshake", RoundTrip: "set spec.latency"}}
	timed := Program{Unmeasured: map[string]string{ConnectTime: "UDP has no handshake"}}
	subjects := Subjects{
		Templates: map[string]Sides{"web": {Client: {}, Server: {}}, "dns": {Client: silent}, "voice": {Client: timed, Server: silent}},
		Groups:    map[string]Sides{"sites": {Client: {}}, "names": {Client: silent}},
	}
	udp := Subjects{Templates: map[string]Sides{"dns": {Client: silent}, "ntp": {Client: silent}}}
	for _, c := range []struct {
		subjects   Subjects
		expression string
		want       string
	}{
		{subjects, `result.templates["web"].client.roundTrip.p99 < duration("5ns") && result.templates["web"].server.connectTime.p99 < duration("5ns")`, ""},
		{subjects, `result.templates["voice"].client.roundTrip.p99 < duration("5ns") && result.groups["sites"].client.roundTrip.mean < duration("5ns")`, ""},
		{subjects, `result.templates.all(name, t, t.client.failed == 0)`, ""},
		{subjects, `result.templates.all(name, t, name != "web" || t.client.roundTrip.p99 < duration("5ns"))`, ""},
		{subjects, `result.templates["dns"].client.roundTrip.p99 < duration("5ns")`, "roundTrip is not measured of the client of template dns: set spec.latency"},
		{subjects, `result.flows.established > 0 && result.templates.dns["client"].roundTrip["p99"] < duration("5ns")`, "roundTrip is not measured of the client of template dns: set spec.latency"},
		{subjects, `result.templates["voice"].client.connectTime.p99 < duration("5ns")`, "connectTime is not measured of the client of template voice: UDP has no handshake"},
		{subjects, `result.templates["voice"].server.roundTrip.p99 < duration("5ns")`, "roundTrip is not measured of the server of template voice"},
		{subjects, `result.groups["names"].client.roundTrip.mean < duration("5ns")`, "roundTrip is not measured of the client of group names: set spec.latency"},
		{subjects, `result.templates.all(name, t, t.client.roundTrip.p99 < duration("5ns"))`, "dns (client without connectTime, roundTrip)"},
		{udp, `result.templates.all(name, t, t.client.failed > 0 && t.client.roundTrip.p99 < duration("5ns"))`, "roundTrip is not measured of the client of any template: set spec.latency"},
		{subjects, `result.templates["web"].real.roundTrip.p99 < duration("5ns")`, "no such key: real"},
	} {
		threshold, err := Compile(c.expression)
		if err != nil {
			t.Fatal(err)
		}
		if err := threshold.Check(c.subjects); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.expression, err, c.want)
		}
	}
}
