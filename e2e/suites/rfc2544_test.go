// SPDX-License-Identifier: Apache-2.0

// Are the tables of RFC 2544 those of a router that polices each frame size at a known rate?

package suites

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// long is true if tests that take minutes were asked for.
func long() bool { return os.Getenv("SPATE_LONG") != "" }

// needsTime skips a test that takes minutes, unless it was asked for (make e2e-searches).
func needsTime(t *testing.T) {
	t.Helper()
	if !long() {
		t.Skip("it takes minutes: make e2e-searches")
	}
}

// policers are the rates, in packets a second, at which the router forwards packets of each size, and policedBurst how many more at a time.
var policers = map[int]float64{64: 12000, 128: 11000, 256: 10000, 512: 9000, 594: 6000, 1024: 8000, 1280: 7000, 1518: 6000}

const (
	policedBurst = 500
	tableLoad    = 40000 // greatest, in packets a second
	trialSeconds = 2
)

// policedVariant is a variant of the search: the share of each size in its packets.
type policedVariant struct {
	name   string
	shares map[int]float64
}

// policedVariants are those of the sample. Every twelve packets of a Simple IMIX have seven, four and one of its sizes.
var policedVariants = []policedVariant{
	{"64", map[int]float64{64: 1}}, {"128", map[int]float64{128: 1}}, {"256", map[int]float64{256: 1}}, {"512", map[int]float64{512: 1}},
	{"1024", map[int]float64{1024: 1}}, {"1280", map[int]float64{1280: 1}}, {"1518", map[int]float64{1518: 1}},
	{"imix-simple", map[int]float64{64: 7. / 12, 594: 4. / 12, 1518: 1. / 12}},
}

// forwarded is how many packets a second the router forwards of a load in a trial: of each size its share of the load, at most the rate of the
// size's policer, and the burst spread over the trial.
func (v policedVariant) forwarded(load float64) (sum float64) {
	for size, share := range v.shares {
		sum += min(load*share, policers[size]+policedBurst/trialSeconds)
	}
	return sum
}

// throughput is the load at which the first policer is at its limit: of the mix that of 594 bytes, at (6000 + 250) / (4/12) packets a second.
func (v policedVariant) throughput() float64 {
	least := math.Inf(1)
	for size, share := range v.shares {
		least = min(least, (policers[size]+policedBurst/trialSeconds)/share)
	}
	return least
}

// burst is the longest burst at the greatest load that the router forwards: n packets, of which each size has n * share, take n / tableLoad seconds,
// in which its policer forwards n / tableLoad * rate of them; the others are the burst. Of the mix the policer of 64 bytes is the first.
func (v policedVariant) burst() float64 {
	least := math.Inf(1)
	for size, share := range v.shares {
		if excess := share - policers[size]/tableLoad; excess > 0 {
			least = min(least, policedBurst/excess)
		}
	}
	return least
}

// near reports whether a number is that which was expected, with a relative tolerance.
func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*math.Abs(want) }

func between(got, least, most float64) bool { return got >= least && got <= most }

// number reads a number of a report, with its unit if that is a percentage; not a number if it is none, which is near no other.
func number(text string) float64 {
	value, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	if err != nil {
		return math.NaN()
	}
	return value
}

// lasts reads a duration of a report in seconds.
func lasts(text string) float64 {
	value, err := time.ParseDuration(text)
	if err != nil {
		return math.NaN()
	}
	return value.Seconds()
}

// measuredCells are, by the title of a table and the heading of a column, which numbers of a report are measured. A cell that is within the bounds of
// what the router's policers make of it is compared as `<heading>` with the golden file, any other as it is. before are the cells to its left.
var measuredCells = map[string]map[string]func(v policedVariant, cell string, before []string) bool{
	"Throughput": {
		// Bounds are 1 % apart. If the CPU is taken away for longer than a policer's burst lasts, it forwards less: both may be lower, and not higher.
		"LOWER": func(v policedVariant, cell string, _ []string) bool {
			return between(number(cell), 0.96*v.throughput(), 1.02*v.throughput())
		},
		"UPPER": func(v policedVariant, cell string, _ []string) bool {
			return between(number(cell), 0.97*v.throughput(), 1.02*v.throughput())
		},
		"THROUGHPUT": func(_ policedVariant, cell string, before []string) bool { return cell == before[2] }, // no loss at the lower bound
		"OF MAX": func(_ policedVariant, cell string, before []string) bool {
			return near(number(cell), number(before[2])/tableLoad*100, 0.001)
		},
		// A bound that a later trial of the same load contradicts is regular: the machine takes the CPU away now and then.
		"RESULT": func(_ policedVariant, cell string, _ []string) bool { return cell == "Found" || cell == "Unstable" },
	},
	"Latency": {
		"LOAD": func(v policedVariant, cell string, _ []string) bool {
			return between(number(cell), 0.9*0.96*v.throughput(), 0.9*1.02*v.throughput())
		},
		"MEAN":    func(_ policedVariant, cell string, _ []string) bool { return lasts(cell) > 0 && lasts(cell) < 1 },
		"TYPICAL": func(_ policedVariant, cell string, _ []string) bool { return lasts(cell) > 0 && lasts(cell) < 1 },
		"WORST CASE": func(_ policedVariant, cell string, before []string) bool {
			return lasts(cell) >= lasts(before[4]) && lasts(cell) < 1
		},
		"PDV": func(_ policedVariant, cell string, before []string) bool {
			return lasts(cell) >= 0 && lasts(cell) <= lasts(before[5])
		},
	},
	"Frame loss": {
		// Of what was offered, and none where none is expected. If the CPU is taken away for longer than the burst of a policer lasts, which is 42 to
		// 83 ms, it forwards less. That all losses are counted is compared with the router's counter.
		"LOSS RATIO": func(v policedVariant, cell string, before []string) bool {
			load := number(before[2])
			want := 1 - v.forwarded(load)/load
			return want > 1e-9 && between(number(cell), want-0.01, want+0.1)
		},
	},
	"Back-to-back frames": {
		// A burst of some 20 ms is a little shorter if what is late arrives at once, and longer if the CPU is taken away meanwhile.
		"BURST": func(v policedVariant, cell string, _ []string) bool {
			_, decimals, _ := strings.Cut(cell, ".")
			return between(number(cell), 0.97*v.burst(), 1.15*v.burst()) && len(decimals) <= 1
		},
		"BUFFER TIME": func(_ policedVariant, cell string, before []string) bool {
			return near(lasts(cell), number(before[1])/tableLoad, 0.001)
		},
		"CORRECTED": func(v policedVariant, cell string, before []string) bool { // RFC 9004 section 6.4
			return near(lasts(cell), lasts(before[2])*(1-v.throughput()/tableLoad), 0.05)
		},
	},
}

// withPlaceholders replaces measured numbers of a report that are within their bounds. The cells of a table must begin below its headings; they are
// written two spaces apart, since the width of a column follows its longest number.
func withPlaceholders(t *testing.T, report string) string {
	t.Helper()
	lines := strings.Split(report, "\n")
	// The number of trials depends on what they find.
	lines[0] = regexp.MustCompile(`, [0-9]+ trials in [0-9hms]+$`).ReplaceAllString(lines[0], ", <trials> trials in <time>")
	var title string
	var starts []int
	var headings []string
	for i, line := range lines {
		switch {
		case line == "":
			title, starts = "", nil
		case i+1 < len(lines) && strings.HasPrefix(lines[i+1], "FRAMES "):
			title, _, _ = strings.Cut(line, " (")
		case strings.HasPrefix(line, "FRAMES "):
			starts, headings = columns(line)
			lines[i] = strings.Join(headings, "  ")
		case starts != nil:
			cells := cellsAt(line, starts)
			if cells == nil {
				t.Errorf("cells are not below their headings: %q", line)
				continue
			}
			v := slices.IndexFunc(policedVariants, func(v policedVariant) bool { return v.name == cells[0] })
			written := slices.Clone(cells)
			for n, heading := range headings {
				if within := measuredCells[title][heading]; v >= 0 && within != nil && within(policedVariants[v], cells[n], cells[:n]) {
					written[n] = "<" + strings.ToLower(heading) + ">"
				}
			}
			lines[i] = strings.Join(written, "  ")
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// columns returns where the headings of a line begin, which are two or more spaces apart.
func columns(line string) (starts []int, headings []string) {
	for _, at := range regexp.MustCompile(`[^ ]+( [^ ]+)*`).FindAllStringIndex(line, -1) {
		starts, headings = append(starts, at[0]), append(headings, line[at[0]:at[1]])
	}
	return starts, headings
}

// cellsAt returns the cells of a line, of which each begins at a column and ends two spaces before the next; nil if one does not.
func cellsAt(line string, starts []int) (cells []string) {
	runes := []rune(line)
	for n, start := range starts {
		end := len(runes)
		if n+1 < len(starts) {
			end = starts[n+1]
		}
		if start >= len(runes) || end > len(runes) || runes[start] == ' ' || n+1 < len(starts) && string(runes[end-2:end]) != "  " {
			return nil
		}
		cells = append(cells, strings.TrimRight(string(runes[start:end]), " "))
	}
	return cells
}

// golden compares a text with a file of testdata, byte by byte. SPATE_GOLDEN=renew writes the file instead.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join(root, "e2e/suites/testdata", file)
	if os.Getenv("SPATE_GOLDEN") == "renew" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: SPATE_GOLDEN=renew writes it", err)
	}
	theirs, ours := strings.Split(string(want), "\n"), strings.Split(got, "\n")
	for i := range max(len(theirs), len(ours)) {
		if i >= len(theirs) || i >= len(ours) || theirs[i] != ours[i] {
			line := func(lines []string) string {
				if i < len(lines) {
					return lines[i]
				}
				return "(no such line)"
			}
			t.Errorf("%s, line %d (SPATE_GOLDEN=renew writes it again)\nwant %s\n got %s", file, i+1, line(theirs), line(ours))
		}
	}
}

func TestTheTablesOfRFC2544(t *testing.T) {
	needsTime(t)
	ns := lab(t)
	t.Cleanup(func() { router(t, "forward") })
	for size, rate := range policers {
		router(t, "police", strconv.Itoa(size), strconv.Itoa(int(rate)), strconv.Itoa(policedBurst))
	}
	mustApply(t, ns, sampleText(t, "search-rfc2544.yaml",
		"  runPolicy: Manual  # the search creates its runs\n", "  runPolicy: Manual"+behind,
		"  load: {min: 1kpps, max: 100%/port}\n", "  load: {min: 1kpps, max: 40kpps}\n  trial: {settle: 0s, drain: 200ms, pause: 200ms}\n",
		"{name: ndr, standard: RFC2544}", "{name: ndr, lossRatio: 0%, finalTrialDuration: 2s, width: 1%}",
		"latency: {of: ndr, atPercent: [100]}", "latency: {of: ndr, atPercent: [90], duration: 1s, repeats: 1}",
		"frameLoss: {}", "frameLoss: {duration: 2s}", "backToBack: {}", "backToBack: {longest: 100ms, repeats: 3}", "budget: {time: 24h}", "budget: {time: 20m}"))
	search := &spate.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "rfc2544"}}
	condition(t, 30*time.Minute, search, spate.ConditionComplete, metav1.ConditionTrue)
	dropped, lost := router(t, "dropped"), int64(0)
	for _, v := range search.Status.Variants {
		run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: v.Run}}
		if err := get(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		for _, trial := range run.Status.Search.Trials {
			lost += trial.Sent - trial.Received
		}
	}
	if strconv.FormatInt(lost, 10) != dropped {
		t.Errorf("lost %d, the router dropped %s", lost, dropped)
	}
	text, err := script("build/out/kubectl-spate", "search", "report", "rfc2544", "-n", ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + text)
	golden(t, "rfc2544.txt", withPlaceholders(t, text))
}

func TestPlaceholdersOfAReportAreWithinBounds(t *testing.T) {
	const report = `Search rfc2544 of profile benchmark: Complete (Passed), 8/8 variants done, 21 trials in 1m3s

Throughput (RFC 2544 section 26.1, RFC 9971)
FRAMES       GOAL  LOWER      UPPER      THROUGHPUT  OF MAX  RESULT
64           ndr   12250.000  12300.000  12250.000   30.62%  Found
imix-simple  ndr   18600.000  19200.000  18600.001   46.50%  MinLoadFails (irregular)

Latency (RFC 2544 section 26.2, RFC 8219 section 7)
FRAMES  LOAD       OF THROUGHPUT  MEAN    TYPICAL  WORST CASE  PDV
64      11025.000  90%            12.5µs  11µs     2ms         1.9ms
`
	const want = `Search rfc2544 of profile benchmark: Complete (Passed), 8/8 variants done, <trials> trials in <time>

Throughput (RFC 2544 section 26.1, RFC 9971)
FRAMES  GOAL  LOWER  UPPER  THROUGHPUT  OF MAX  RESULT
64  ndr  <lower>  <upper>  <throughput>  <of max>  <result>
imix-simple  ndr  <lower>  19200.000  18600.001  <of max>  MinLoadFails (irregular)

Latency (RFC 2544 section 26.2, RFC 8219 section 7)
FRAMES  LOAD  OF THROUGHPUT  MEAN  TYPICAL  WORST CASE  PDV
64  <load>  90%  <mean>  <typical>  <worst case>  <pdv>
`
	if got := withPlaceholders(t, strings.TrimSuffix(report, "\n")); got != want {
		t.Errorf("got\n%s", got)
	}
	for _, line := range []string{"64 ndr", "64      ndr   12250.000 12300.000", ""} {
		starts, _ := columns("FRAMES  GOAL  LOWER      UPPER")
		if cells := cellsAt(line, starts); cells != nil {
			t.Errorf("%q: %q", line, cells)
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
	if !goal.Regular {
		t.Errorf("%s is irregular: %s", goal.Name, goal.Reason)
	}
	lower, _ = strconv.ParseFloat(goal.Lower, 64)
	upper, _ = strconv.ParseFloat(goal.Upper, 64)
	return lower, upper
}

func TestASearchFindsTheConnectionsAndTransactionsARouterAdmits(t *testing.T) {
	needsTime(t)
	ns := lab(t)
	t.Cleanup(func() { router(t, "forward") })

	for _, c := range []struct {
		router       []string
		name, unit   string
		limit        time.Duration
		truth, error float64
		differs      []string
	}{
		{
			[]string{"admit", "300", "5"}, "cps", "connections a second", 4 * time.Minute, 300, 0.03,
			[]string{
				"  trial: {rampUp: 30s}\n", "  trial: {settle: 0s, drain: 500ms, pause: 500ms}\n", "min: 100cps, max: 100kcps", "min: 100cps, max: 1kcps",
				"standard: RFC9411, initialTrialDuration: 10s, require: ['trial.flows.retransmitted == 0']", "lossRatio: 1%, finalTrialDuration: 4s, width: 1%", "budget: {time: 3h}", "budget: {time: 3m}",
			},
		},
		{
			[]string{"answer", "600", "20"}, "transactions", "transactions a second", 4 * time.Minute, 600, 0.03,
			[]string{
				"  trial: {rampUp: 30s}\n", "  trial: {settle: 0s, rampUp: 1s, drain: 500ms, pause: 500ms}\n", "min: 100tps, max: 100ktps", "min: 200tps, max: 2ktps",
				"standard: RFC9411, initialTrialDuration: 10s", "lossRatio: 0%, finalTrialDuration: 4s, width: 1%", "budget: {time: 3h}", "budget: {time: 3m}",
			},
		},
		{
			[]string{"hold", "1000"}, "connections", "open connections", 5 * time.Minute, 1000, 0.01,
			[]string{
				"min: 100conn, max: 30kconn, ramp: 30s", "min: 500conn, max: 2kconn, ramp: 2s", "pause: 5m", "settle: 0s, pause: 7s",
				"lossRatio: 0.001%, initialTrialDuration: 10s, finalTrialDuration: 60s", "lossRatio: 0%, initialTrialDuration: 1s, finalTrialDuration: 1s, width: 1%", "budget: {time: 6h}", "budget: {time: 4m}",
			},
		},
	} {
		router(t, c.router...)
		mustApply(t, ns, sampleText(t, "search-"+c.name+".yaml", append(c.differs, "  runPolicy: Manual  # the search creates its runs\n", "  runPolicy: Manual"+behind)...))
		if lower, upper := boundsOf(t, ns, c.name, c.limit); lower > c.truth*(1+c.error) || upper < c.truth*(1-c.error) {
			t.Errorf("%v to %v %s, the router lets %v pass", lower, upper, c.unit, c.truth)
		}
	}
}
