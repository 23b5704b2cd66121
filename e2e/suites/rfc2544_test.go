// SPDX-License-Identifier: Apache-2.0

// Are the tables of RFC 2544 those of a router that polices each frame size at a known rate?

package suites

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// needsTime skips a test that takes minutes, unless it was asked for (make e2e-searches).
func needsTime(t *testing.T) {
	t.Helper()
	if os.Getenv("SPATE_LONG") == "" {
		t.Skip("it takes minutes: make e2e-searches")
	}
}

// policers are the rates, in packets a second, at which the router forwards each frame size, and policedBurst how many more at a time.
var policers = []struct {
	size string
	rate float64
}{{"64", 12000}, {"128", 11000}, {"256", 10000}, {"512", 9000}, {"1024", 8000}, {"1280", 7000}, {"1518", 6000}}

const (
	policedBurst = 500
	tableLoad    = 40000 // greatest, in packets a second
	trialSeconds = 2
)

func TestTheTablesOfRFC2544(t *testing.T) {
	needsTime(t)
	ns := lab(t)
	for _, p := range policers {
		router(t, "police", p.size, strconv.Itoa(int(p.rate)), strconv.Itoa(policedBurst))
	}
	t.Cleanup(func() { router(t, "forward") })
	mustApply(t, ns, sampleText(t, "search-rfc2544.yaml",
		"  runPolicy: Manual  # the search creates its runs\n", "  runPolicy: Manual"+behind,
		"  load: {min: 1kpps, max: 100%/port}\n", "  load: {min: 1kpps, max: 40kpps}\n  trial: {settle: 0s, drain: 200ms, pause: 200ms}\n",
		", {imix: Simple}", "", "{name: ndr, standard: RFC2544}", "{name: ndr, lossRatio: 0%, finalTrialDuration: 2s, width: 1%}",
		"latency: {of: ndr, atPercent: [100]}", "latency: {of: ndr, atPercent: [90], duration: 1s, repeats: 1}",
		"frameLoss: {}", "frameLoss: {duration: 2s}", "backToBack: {}", "backToBack: {longest: 100ms, repeats: 3}", "budget: {time: 24h}", "budget: {time: 20m}"))
	search := &spate.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "rfc2544"}}
	condition(t, 20*time.Minute, search, spate.ConditionComplete, metav1.ConditionTrue)
	text, err := script("build/out/kubectl-spate", "search", "report", "rfc2544", "-n", ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text)
	near := func(what string, got, want, tolerance float64) {
		t.Helper()
		if math.Abs(got-want) > tolerance*want {
			t.Errorf("%s: %v, want %v +- %v %%", what, got, want, tolerance*100)
		}
	}
	number := func(text string) float64 {
		value, _ := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
		return value
	}
	for i, p := range policers {
		v := search.Status.Variants[i]
		passes := p.rate + policedBurst/trialSeconds
		if v.Name != p.size || len(v.Result.Goals) == 0 {
			t.Errorf("%+v", v)
			continue
		}
		goal := v.Result.Goals[0]
		near(p.size+" lower", number(goal.Lower), passes, 0.02)
		near(p.size+" upper", number(goal.Upper), passes, 0.02)
		if len(v.Result.FrameLoss) > 0 {
			near(p.size+" frame loss at the greatest load", number(v.Result.FrameLoss[0].LossRatio), 1-passes/tableLoad, 0.01)
		} else {
			t.Errorf("%s has no frame loss", p.size)
		}
		// The policer forwards at its rate while the burst lasts: n - n / load * rate = burst.
		burst := policedBurst / (1 - p.rate/tableLoad)
		if b := v.Result.BackToBack; b == nil {
			t.Errorf("%s has no burst", p.size)
		} else {
			near(p.size+" back to back", number(b.Frames), burst, 0.03) // a burst of 17 ms is a little shorter if the CPU is taken away meanwhile
			near(p.size+" corrected buffer time", time.Duration(b.CorrectedBufferTime).Seconds(), burst/tableLoad*(1-passes/tableLoad), 0.05)
		}
		for _, l := range v.Result.Latency {
			if l.Typical > l.WorstCase {
				t.Errorf("%s: typical latency %s, worst case %s", p.size, time.Duration(l.Typical), time.Duration(l.WorstCase))
			}
		}
	}
}

// boundsOf waits for the end of a search of one variant, and returns those of its first goal.
func boundsOf(t *testing.T, ns, name string, limit time.Duration) (lower, upper float64) {
	t.Helper()
	search := &spate.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	condition(t, limit, search, spate.ConditionComplete, metav1.ConditionTrue)
	if len(search.Status.Variants) != 1 || len(search.Status.Variants[0].Result.Goals) == 0 {
		t.Fatalf("%+v", search.Status)
	}
	goal := search.Status.Variants[0].Result.Goals[0]
	t.Logf("%+v", goal)
	lower, _ = strconv.ParseFloat(goal.Lower, 64)
	upper, _ = strconv.ParseFloat(goal.Upper, 64)
	return lower, upper
}

func TestASearchFindsTheConnectionsARouterAdmits(t *testing.T) {
	needsTime(t)
	ns := lab(t)
	t.Cleanup(func() { router(t, "forward") })

	router(t, "admit", "300", "5")
	mustApply(t, ns, sampleText(t, "search-cps.yaml",
		"  runPolicy: Manual  # the search creates its runs\n", "  runPolicy: Manual"+behind,
		"  trial: {rampUp: 30s}\n", "  trial: {settle: 0s, drain: 500ms, pause: 500ms}\n", "min: 100cps, max: 100kcps", "min: 100cps, max: 1kcps",
		"standard: RFC9411, initialTrialDuration: 10s, require: ['trial.flows.retransmitted == 0']", "lossRatio: 1%, finalTrialDuration: 4s, width: 1%", "budget: {time: 3h}", "budget: {time: 3m}"))
	if lower, upper := boundsOf(t, ns, "cps", 4*time.Minute); lower > 300*1.03 || upper < 300*0.97 {
		t.Errorf("%v to %v connections a second, the router admits 300", lower, upper)
	}

	router(t, "hold", "1000")
	mustApply(t, ns, sampleText(t, "search-connections.yaml",
		"  runPolicy: Manual  # the search creates its runs\n", "  runPolicy: Manual"+behind,
		"min: 100conn, max: 60kconn, ramp: 30s", "min: 500conn, max: 2kconn, ramp: 2s", "pause: 5m", "settle: 0s, pause: 7s",
		"lossRatio: 0.001%, initialTrialDuration: 10s, finalTrialDuration: 60s", "lossRatio: 0%, initialTrialDuration: 1s, finalTrialDuration: 1s, width: 1%", "budget: {time: 6h}", "budget: {time: 4m}"))
	if lower, upper := boundsOf(t, ns, "connections", 5*time.Minute); lower > 1000*1.01 || upper < 1000*0.99 {
		t.Errorf("%v to %v connections, the router holds 1000", lower, upper)
	}
}
