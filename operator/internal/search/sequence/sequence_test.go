// SPDX-License-Identifier: Apache-2.0

package sequence

import (
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/search"
	"spate.dev/operator/internal/search/dut"
)

func testsOf(t *testing.T, text string) *spatev1.SearchTests {
	t.Helper()
	tests := &spatev1.SearchTests{}
	if err := yaml.UnmarshalStrict([]byte(text), tests); err != nil {
		t.Fatal(err)
	}
	return tests
}

const all = `
load: {min: 1kpps, max: 40kpps}
trial: {settle: 0s, drain: 200ms, pause: 100ms}
throughput: {goals: [{name: ndr, lossRatio: 0%, finalTrialDuration: 2s, initialTrialDuration: 2s, width: 1%}]}
latency: {atPercent: [100, 50], duration: 1s, repeats: 2}
frameLoss: {step: 10%, duration: 1s}
backToBack: {longest: 1s, repeats: 3}
budget: {time: 1h}
`

var loads = Loads{Min: 1000, Max: 40000}

// execute does a whole search with a device.
func execute(t *testing.T, tests *spatev1.SearchTests, device dut.Device) ([]spatev1.TrialRecord, spatev1.SearchResult) {
	t.Helper()
	var records []spatev1.TrialRecord
	for {
		step, result, err := Next(tests, loads, records)
		if err != nil {
			t.Fatal(err)
		}
		if step == nil {
			return records, result
		}
		records = append(records, recorded(device, step, len(records)+1))
	}
}

func recorded(device dut.Device, step *Step, number int) spatev1.TrialRecord {
	trial := device.Measure(number, step.Input)
	record := spatev1.TrialRecord{
		TrialInput: spatev1.TrialInput{
			Number: int32(number), Test: step.Test, Load: Text(step.Load), Duration: timeOf(step.Duration), Packets: step.Packets,
		},
		Intended: trial.Intended, Sent: trial.Sent, Received: trial.Received(), LossRatio: Ratio(trial.LossRatio()),
		Elapsed: timeOf(step.Duration) + spatev1.MeasuredTime(300*time.Millisecond),
	}
	if step.Test == spatev1.TestLatency {
		ns := spatev1.MeasuredTime(number) * 1000
		record.Latency = &spatev1.Latency{Count: 1, Min: ns, Mean: 2 * ns, P50: 3 * ns, P999: 10 * ns}
	}
	return record
}

func TestTestsFollowEachOtherAndFindWhatTheDeviceDoes(t *testing.T) {
	tests := testsOf(t, all)
	records, result := execute(t, tests, dut.Device{Capacity: 10000, Buffer: 500})
	goal := result.Goals[0]
	lower, _ := strconv.ParseFloat(goal.Lower, 64)
	upper, _ := strconv.ParseFloat(goal.Upper, 64)
	// A trial of 2 s passes 10,000 pps and the buffer.
	if !goal.Regular || lower > 10250 || upper < 10250 || (upper-lower)/upper > 0.01 || result.Reason != string(search.Found) {
		t.Errorf("%+v of %+v", goal, result)
	}
	if len(result.Latency) != 2 || result.Latency[0].Percent != 100 || result.Latency[1].Percent != 50 || result.Latency[1].Load != Text(lower/2) {
		t.Errorf("latency %+v", result.Latency)
	}
	// Each is the mean of two trials with consecutive numbers n and n+1: (n + n+1) / 2 us and its multiples.
	if l := result.Latency[0]; l.Mean != l.Typical*2/3 || l.WorstCase != l.Typical*10/3 || l.DelayVariation != l.Typical*9/3 {
		t.Errorf("latency %+v", l)
	}
	// At the maximum 40,000 packets in 1 s, of which 10,500 pass.
	if loss := result.FrameLoss; loss[0].Percent != "100" || loss[0].LossRatio != "0.7375" || loss[len(loss)-1].LossRatio != "0" || loss[len(loss)-2].LossRatio != "0" {
		t.Errorf("frame loss %+v", loss)
	}
	// A burst of b packets takes b/40,000 s, in which b/4 are forwarded: b = 500 + b/4.
	frames, _ := strconv.ParseFloat(result.BackToBack.Frames, 64)
	if math.Abs(frames-667) > 1 {
		t.Errorf("back to back %+v", result.BackToBack)
	}
	if got := time.Duration(result.BackToBack.CorrectedBufferTime); got < 12200*time.Microsecond || got > 12700*time.Microsecond {
		t.Errorf("corrected buffer time %v", got)
	}
	order := []spatev1.SearchTestName{}
	for _, r := range records {
		if len(order) == 0 || order[len(order)-1] != r.Test {
			order = append(order, r.Test)
		}
	}
	if want := []spatev1.SearchTestName{spatev1.TestThroughput, spatev1.TestLatency, spatev1.TestFrameLoss, spatev1.TestBackToBack}; !reflect.DeepEqual(order, want) {
		t.Errorf("%v", order)
	}
}

func TestTheRecordsAloneDetermineTheNextTrial(t *testing.T) {
	tests, device := testsOf(t, all), dut.Device{Capacity: 10000, Buffer: 500, Every: 7, Loses: 1}
	records, result := execute(t, tests, device)
	for n := range records {
		step, sofar, err := Next(tests, loads, records[:n])
		if err != nil || step == nil || Text(step.Load) != records[n].Load || timeOf(step.Duration) != records[n].Duration || step.Test != records[n].Test {
			t.Fatalf("after %d: %+v, %v, want %+v", n, step, err, records[n].TrialInput)
		}
		if n > 0 && len(sofar.Goals) != 1 {
			t.Errorf("after %d trials it says nothing of the goal: %+v", n, sofar)
		}
	}
	if _, again, err := Next(tests, loads, records); err != nil || !reflect.DeepEqual(again, result) {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestRecordsOfAnotherSearchAreRefused(t *testing.T) {
	tests := testsOf(t, all)
	records, _ := execute(t, tests, dut.Device{Capacity: 10000})
	for name, change := range map[string]func([]spatev1.TrialRecord) []spatev1.TrialRecord{
		"another load":    func(r []spatev1.TrialRecord) []spatev1.TrialRecord { r[2].Load = "1234"; return r },
		"another test":    func(r []spatev1.TrialRecord) []spatev1.TrialRecord { r[1].Test = spatev1.TestFrameLoss; return r },
		"one too many":    func(r []spatev1.TrialRecord) []spatev1.TrialRecord { return append(r, r[len(r)-1]) },
		"no load":         func(r []spatev1.TrialRecord) []spatev1.TrialRecord { r[0].Load = ""; return r },
		"another length":  func(r []spatev1.TrialRecord) []spatev1.TrialRecord { r[0].Duration += 1000; return r },
		"negative counts": func(r []spatev1.TrialRecord) []spatev1.TrialRecord { r[0].Sent = -1; return r },
	} {
		if _, _, err := Next(tests, loads, change(append([]spatev1.TrialRecord{}, records...))); !errors.Is(err, search.ErrRecordsContradict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestABudgetEndsASearchWithWhatIsKnown(t *testing.T) {
	tests := testsOf(t, strings.Replace(all, "time: 1h", "time: 5s", 1))
	records, result := execute(t, tests, dut.Device{Capacity: 10000})
	if len(records) != 2 || result.Reason != string(search.BudgetExhausted) || result.Goals[0].Regular || len(result.FrameLoss) > 0 {
		t.Errorf("%d trials, %+v", len(records), result)
	}
	tests = testsOf(t, strings.Replace(all, "time: 1h", "time: 1h, trials: 12", 1))
	if records, result = execute(t, tests, dut.Device{Capacity: 10000}); len(records) != 12 || result.Reason != string(search.BudgetExhausted) {
		t.Errorf("%d trials, %+v", len(records), result)
	}
}

func TestAGeneratorThatIsTheLimitIsNamed(t *testing.T) {
	_, result := execute(t, testsOf(t, all), dut.Device{Capacity: 30000, Generator: 20000})
	if goal := result.Goals[0]; goal.Reason != string(search.GeneratorLimited) || goal.Regular || result.Reason != string(search.GeneratorLimited) {
		t.Errorf("%+v", result)
	}
}

func TestWithoutAThroughputThereIsNoLatencyAndNoBurst(t *testing.T) {
	_, result := execute(t, testsOf(t, all), dut.Device{Capacity: 100})
	if result.Goals[0].Reason != string(search.MinLoadFails) || result.Latency != nil || result.BackToBack != nil || len(result.FrameLoss) != 10 {
		t.Errorf("%+v", result)
	}
}

func TestTestsThatCannotBeDoneAreRefusedBeforeTheFirstTrial(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(all, "step: 10%", "step: 20%", 1):                            "frameLoss.step",
		strings.Replace(all, "longest: 1s", "longest: 1us", 1):                       "backToBack.longest",
		strings.Replace(all, "time: 1h", "time: 1s", 1):                              "budget.time",
		strings.Replace(all, "width: 1%", "width: 0%", 1):                            "goals[ndr].width",
		strings.Replace(all, "width: 1%", "width: 1%, precedingTargets: 17", 1):      "goals[ndr].precedingTargets",
		strings.Replace(all, "ndr, lossRatio: 0%", "ndr, lossRatio: 100%", 1):        "goals[ndr].lossRatio",
		strings.Replace(all, "throughput: {", "throughput: {method: Bisection, ", 1): "",
	} {
		err := Check(testsOf(t, text), loads)
		if got := ""; err != nil {
			if got = err.Error(); want == "" || !strings.Contains(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		} else if want != "" {
			t.Errorf("nothing is wrong, want %q", want)
		}
	}
}

func TestFramesHaveAtMostOneDecimalPlace(t *testing.T) {
	for _, c := range []struct {
		frames float64
		want   string
	}{{2129. / 3, "709.7"}, {667, "667"}, {666.5, "666.5"}, {666.96, "667"}, {1e7 + 1./3, "10000000.3"}, {0, "0"}} {
		if got := Frames(c.frames); got != c.want {
			t.Errorf("%v: %s, want %s", c.frames, got, c.want)
		}
	}
}
