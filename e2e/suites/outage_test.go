// SPDX-License-Identifier: Apache-2.0

// Are the outages of a stream and of both sides of a template as long as the router was dark?

package suites

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	spate "spate.dev/api/v1alpha1"
)

// jiffy is the greatest error of the kernel's clock for a blackout: it counts it in ticks, of which there are 100 to 1000 a second.
const jiffy = 10 * time.Millisecond

// departures captures the packets that leave the router over a link and match a filter (pcap-filter(7)). The returned function ends that, and
// returns when they left, by the router's clock.
func departures(t *testing.T, link, filter string) func() []time.Time {
	t.Helper()
	return passages(t, link, "out", filter)
}

// arrivals is the same of packets that arrive at the router.
func arrivals(t *testing.T, link, filter string) func() []time.Time {
	t.Helper()
	return passages(t, link, "in", filter)
}

func passages(t *testing.T, link, direction, filter string) func() []time.Time {
	t.Helper()
	file := filepath.Join(t.TempDir(), "link.pcap")
	cmd := inRouter(context.Background(), "tcpdump", "--interface="+link, "--direction="+direction, "-Z", "root", "--snapshot-length=64", "--buffer-size=16384", "-w", file, filter)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after a failure
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	said := bufio.NewReader(stderr)
	if line, err := said.ReadString('\n'); err != nil || !strings.Contains(line, "listening on "+link) {
		t.Fatalf("tcpdump: %q, %v", line, err)
	}
	return func() (times []time.Time) {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		for line, err := said.ReadString('\n'); err == nil; line, err = said.ReadString('\n') {
			if strings.HasSuffix(line, " packets dropped by kernel\n") && !strings.HasPrefix(line, "0 ") {
				t.Errorf("tcpdump: %s", line)
			}
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("tcpdump: %v", err)
		}
		out, err := exec.CommandContext(t.Context(), "tcpdump", "-r", file, "-n", "-q", "-tt").Output()
		if err != nil {
			t.Fatalf("tcpdump: %v", err)
		}
		for line := range strings.Lines(string(out)) {
			stamp, _, _ := strings.Cut(line, " ")
			seconds, fraction, _ := strings.Cut(stamp, ".")
			s, err := strconv.ParseInt(seconds, 10, 64)
			us, other := strconv.ParseInt(fraction, 10, 64)
			if err != nil || other != nil || len(fraction) != 6 {
				t.Fatalf("tcpdump: %q", line)
			}
			times = append(times, time.Unix(s, us*1000))
		}
		return times
	}
}

// longestGap returns the longest time between two successive instants up to an end, and when it began.
func longestGap(times []time.Time, end time.Time) (longest time.Duration, at time.Time) {
	for i := 1; i < len(times) && times[i].Before(end); i++ {
		if gap := times[i].Sub(times[i-1]); gap > longest {
			longest, at = gap, times[i-1]
		}
	}
	return longest, at
}

// blackout is a time in which the router drops everything: it begins between two instants, and lasts for a time by the kernel's clock.
type blackout struct {
	after, before time.Time
	lasts         time.Duration
}

// agreesWith fails unless an outage is a gap between packets that left the router: as long, and started at the same instant, within a tolerance.
func agreesWith(t *testing.T, what string, o *spate.Outage, gap time.Duration, at time.Time, tolerance time.Duration) {
	t.Helper()
	if o == nil || o.At == nil || o.AtLeast != nil {
		t.Errorf("%s: %+v, want one that is exact", what, o)
		return
	}
	longer, later := time.Duration(o.Longest)-gap, o.At.Sub(at)
	t.Logf("%s: %s, longer by %s and later by %s than behind the router", what, o.Longest, longer, later)
	if longer.Abs() > tolerance || later.Abs() > tolerance {
		t.Errorf("%s: an outage of %s from %s on; behind the router %s from %s on; want both within %s", what, o.Longest, o.At, gap, at, tolerance)
	}
}

// TestOutagesAreAsLongAsTheRouterIsDark has the router drop everything twice in a run of the demo's web site and of the stream beside it.
func TestOutagesAreAsLongAsTheRouterIsDark(t *testing.T) {
	ns := lab(t)
	t.Cleanup(func() { router(t, "forward") })
	seeds := 1
	if long() {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 0))
			// From 200 ms to 2 s, and so different that noise does not change which is the longer one.
			longer := 600 + 20*random.IntN(71)
			shorter := 200 + 20*random.IntN((longer-200)/20-10)
			order := []int{longer, shorter}
			random.Shuffle(2, func(i, j int) { order[i], order[j] = order[j], order[i] })
			dark(t, ns, fmt.Sprint("dark-", seed), order)
		})
	}
}

// dark runs the web site while the router is dark for some times in milliseconds, and compares the outages with the longest of them.
func dark(t *testing.T, ns, name string, order []int) {
	router(t, "forward")
	mustApply(t, ns, strings.NewReplacer("metadata: {name: http}", "metadata: {name: "+name+"}", "duration: 8s", "duration: 6s").Replace(demo(t, "http.yaml")))
	p := profileNamed(ns, name)
	phase(t, 30*time.Second, p, spate.ProfileRunning)
	toServers, toClients, ofStream := departures(t, "dut-west", "tcp dst port 80"), departures(t, "dut-east", "tcp src port 80"), departures(t, "dut-west", "udp dst port 5001")
	run := currentRun(t, p)
	begins := run.Status.TrafficStartTime.Time
	time.Sleep(time.Until(begins.Add(500 * time.Millisecond)))
	var longest blackout
	for _, ms := range order {
		b := blackout{after: time.Now(), lasts: time.Duration(ms) * time.Millisecond}
		router(t, "blackout", strconv.Itoa(ms))
		b.before = time.Now()
		if b.lasts > longest.lasts {
			longest = b
		}
		time.Sleep(b.lasts + 700*time.Millisecond)
	}
	run = complete(t, 30*time.Second, p)
	probe := streamOf(t, run, "probe")
	if probe.Latency == nil {
		t.Fatal("the probe has no latency")
	}
	end := begins.Add(6 * time.Second)
	streamGap, streamAt := longestGap(ofStream(), end)
	// The engine reads an arrival late by what it was away from its queues, since the machine took its CPU away: that is a part of the delay of the
	// probe's packets, or, as the same loop sends, of what made their gap behind the router longer than the blackout.
	away := time.Duration(probe.Latency.Max) + max(streamGap-longest.lasts, 0)
	starting := longest.before.Sub(longest.after)
	t.Logf("dark for %v ms; the longest began within %s; the engine was away from its queues for up to %s", order, starting, away)
	sides := templateOf(t, run, "http")
	serversGap, serversAt := longestGap(toServers(), end)
	clientsGap, clientsAt := longestGap(toClients(), end)
	for _, c := range []struct {
		what    string
		outage  *spate.Outage
		gap     time.Duration
		at      time.Time
		between time.Duration // packets of the stream, or new connections
	}{
		{"stream", probe.Outage, streamGap, streamAt, time.Second / 500},
		{"servers", sides.Server.Outage, serversGap, serversAt, time.Second / 300}, {"clients", sides.Client.Outage, clientsGap, clientsAt, time.Second / 300},
	} {
		// What left the router shows that it was dark for this time: its clock runs from before the rule is in force.
		if least := longest.lasts - starting - jiffy; c.gap < least || c.at.Before(longest.after.Add(-2*c.between-away)) || c.at.After(longest.before) {
			t.Errorf("%s: the longest gap behind the router is %s from %s on, want at least %s, and that it began from %s to %s", c.what, c.gap, c.at, least, longest.after, longest.before)
		}
		agreesWith(t, c.what, c.outage, c.gap, c.at, c.between+away)
	}
}
