// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// manyStreams returns a result of as many streams as a run can have, of which one has lost a packet.
func manyStreams() (Result, Subjects) {
	result, subjects := Result{Streams: map[string]Stream{}}, Subjects{Streams: map[string]Measures{}}
	for i := range 65536 {
		name := fmt.Sprintf("s%05d", i)
		result.Streams[name] = Stream{Tx: 10, Rx: 10}
		subjects.Streams[name] = Measures{Arrival: true, Order: true, Latency: true}
	}
	result.Streams["s65000"] = Stream{Tx: 10, Rx: 9, Lost: 1}
	return result, subjects
}

func TestThresholdsCanReadAllOf65536Streams(t *testing.T) {
	result, subjects := manyStreams()
	for expression, want := range map[string]bool{
		`result.streams["s65000"].lost == 1`: true,
		`result.streams.all(name, result.streams[name].lost <= 1 && result.streams[name].tx == 10)`: true,
		`result.streams.all(name, result.streams[name].lost == 0)`:                                  false,
	} {
		threshold, err := Compile(expression)
		if err != nil {
			t.Fatal(err)
		}
		if err := threshold.Check(subjects); err != nil {
			t.Errorf("%s: %v", expression, err)
		}
		start := time.Now()
		outcome := threshold.Evaluate(result)
		t.Logf("%s: %s", expression, time.Since(start))
		if outcome.Failed || outcome.Passed != want {
			t.Errorf("%s: %+v", expression, outcome)
		}
	}
}

func TestAMessageNamesSomeOfManyStreams(t *testing.T) {
	_, subjects := manyStreams()
	threshold, err := Compile(`result.streams["other"].lost == 0`)
	if err != nil {
		t.Fatal(err)
	}
	err = threshold.Check(subjects)
	if err == nil || len(err.Error()) > 4096 || !strings.Contains(err.Error(), "s00049 and 65486 more") {
		t.Errorf("got %.3000v", err)
	}
}
