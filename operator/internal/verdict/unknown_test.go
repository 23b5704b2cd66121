// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
	"testing"
)

func TestWhatIsCountedBetweenEnginesIsUnknownWithoutOne(t *testing.T) {
	for expression, want := range map[string][]string{
		// What each engine does by itself.
		"result.tx > 100 && result.late == 0 && result.txPps > 1.0":      nil,
		"result.flows.failed == 0 && result.flows.established > 5":       nil,
		`result.templates["web"].client.roundTrip.p99 < duration("5ms")`: nil,
		`result.receivers["tap"].packets > 0`:                            nil,
		`result.streams["voice"].latency.p99 < duration("100us")`:        nil,
		"result.duplicates == 0 && result.outOfOrder == 0":               nil,
		`{"lost": result.tx}.lost == 5`:                                  nil,
		// What one sends and another receives, however it is named.
		`result.streams["voice"].outage.longest < duration("50ms")`:        {"outage"},
		`result.templates["web"].client.outage.longest < duration("50ms")`: {"outage"},
		"result.lost == 0":                                                     {"lost"},
		"result.lossRatio < 0.1 || result.tx > 0":                              {"lossRatio"},
		"result.rx == result.tx":                                               {"rx"},
		"result.rxBytes > 0 && result.rxPps > 0.0 && result.rxBps > 0.0":       {"rxBytes", "rxPps", "rxBps"},
		`result.streams["voice"].lost == 0`:                                    {"lost"},
		"result.streams.voice.rx > 0":                                          {"rx"},
		"result.streams.all(name, result.streams[name].lost == 0)":             {"lost"},
		"result.streams.all(name, stream, stream.lossRatio == 0.0)":            {"lossRatio"},
		"[result].exists(r, r.lost == 0)":                                      {"lost"},
		"(result.tx > 0 ? result : result).lost == 0":                          {"lost"},
		"dyn(result).lost == 0":                                                {"lost"},
		`result.streams.transformMap(k, v, dyn(v)).all(k, v, v.lost == 0)`:     {"lost"},
		`result.lost == 0 && result.lost < 5 && result.streams["a"].lost == 0`: {"lost"},
	} {
		compiled, err := Compile(expression)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got := compiled.Unknown(); !slices.Equal(got, want) {
			t.Errorf("%s: unknown is %v, want %v", expression, got, want)
		}
	}
}
