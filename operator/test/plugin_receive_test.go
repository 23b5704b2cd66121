// SPDX-License-Identifier: Apache-2.0

package test

// People watch foreign traffic with `kubectl spate receive`, by the rights of a viewer. The engines are simulated: at each receiver of a run a
// packet of 64 bytes arrives every millisecond.

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestForeignTrafficIsWatchedByAViewer(t *testing.T) {
	t.Parallel()
	reachable(t)
	ns := simulatedReady(t, startSimulatedNode(t), loopbackGenerator)
	viewer := userOf(t, ns, "spate-viewer")
	if done := executedWith(t, ns, viewer, "", "receive", "loop"); done.code != 1 || !strings.Contains(done.said, "no run of generator loop is active") {
		t.Errorf("%+v", done)
	}
	if done := executedWith(t, ns, viewer, "", "receive", "none"); done.code != 1 || !strings.Contains(done.said, `there is no TrafficRun, TrafficProfile or TrafficGenerator "none"`) {
		t.Errorf("%+v", done)
	}
	mustApply(t, ns, `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: tap}
spec:
  generatorRef: {name: loop}
  receive: [{name: tap, port: loop}]
`)
	p := profileNamed(ns, "tap")
	phase(t, runLimit, p, spatev1.ProfileRunning)
	run := p.Status.CurrentRun.Name

	t.Run("once, in a pipe", func(t *testing.T) {
		if done := executedWith(t, ns, viewer, "", "receive", "tap"); done.code != 0 ||
			!regexp.MustCompile(`^PORT +RECEIVER +PPS +L1 BPS +L2 BPS +PACKETS +IAT .*\nloop-0/loop +tap +(1\.0[01]k|99\d\.\d) +67\dk +51\dk +\d+ +1\.00ms +1\.00ms +1\.00ms +0ns +0ns\n$`).MatchString(done.output) {
			t.Errorf("%+v", done)
		}
		done := executedWith(t, ns, viewer, "", "receive", "generator/loop", "--by", "worker", "-o", "json")
		var row struct {
			Run, Port, Receiver, Worker string
			Rate                        float64 `json:"packetsPerSecond"`
			IAT                         float64 `json:"interArrivalMeanNs"`
			Jitter                      float64 `json:"jitterMeanNs"`
		}
		if err := json.Unmarshal([]byte(done.output), &row); err != nil || row.Run != run || row.Port != "loop" || row.Receiver != "tap" || row.Worker != "0" || row.Rate < 990 || row.Rate > 1010 || row.IAT != 1e6 || row.Jitter != 0 {
			t.Errorf("%v, %+v, %+v", err, row, done)
		}
	})
	t.Run("for a time, counted again", func(t *testing.T) {
		done := executedWith(t, ns, viewer, "", "receive", run, "--reset", "--duration", "8s", "-o", "csv")
		lines, err := csv.NewReader(strings.NewReader(done.output)).ReadAll()
		if err != nil || done.code != 0 || len(lines) < 3 {
			t.Fatalf("%v, %+v", err, done)
		}
		at := map[string]int{}
		for i, name := range lines[0] {
			at[name] = i
		}
		for _, line := range lines[1:] {
			packets, err := strconv.Atoi(line[at["packets"]])
			since, noStart := time.Parse(time.RFC3339Nano, line[at["since"]])
			read, noEnd := time.Parse(time.RFC3339Nano, line[at["time"]])
			due := int(read.Sub(since).Milliseconds()) // one each millisecond, however late it was read
			if errors.Join(err, noStart, noEnd) != nil || due < 990 || packets < due-1 || packets > due+1 || line[at["interArrivalMeanNs"]] != "1000000" || line[at["interArrivalMinNs"]] != "" {
				t.Errorf("%v, %d due: %q", err, due, line)
			}
		}
	})
	t.Run("in a terminal", func(t *testing.T) {
		s := inTerminal(t, 80, 24, plugin(t, ns, viewer, "receive", "tap"))
		s.shows(`spate receive: profile tap .* \d\d:\d\d:\d\d`)
		s.shows(`(?m)^loop-0/loop +tap +1\.00k +67\dk +\d+ +1\.00ms +1\.00ms +1\.00ms +0ns`)
		s.press("b")
		s.shows(`(?m)^loop-0/loop +tap +0 +1\.00k `)
		s.press("r")
		s.shows(`(?m)^loop-0/loop +tap +0 +1\.00k +(67\dk +)?\d+ +1\.00ms( +- +-)? +0ns`)
		s.press("q")
		if code, written := s.ends(); code != 0 || !strings.Contains(written, "\x1b[?1049l") {
			t.Errorf("exits with %d\n%q", code, written)
		}
		noneLeft(t, ns)
	})
	t.Run("until the run ends", func(t *testing.T) {
		command := plugin(t, ns, viewer, "receive", "tap", "--watch")
		said, printed := &tail{}, &tail{}
		command.Stderr, command.Stdout = said, printed
		must(t, command.Start())
		until(t, answerLimit, "lines", func() (bool, string) { return strings.Contains(printed.lines(10), "1.00k"), printed.lines(10) })
		must(t, cluster.kube.Delete(t.Context(), p))
		if err := command.Wait(); err != nil {
			t.Errorf("%v, %s", err, said.lines(10))
		}
		if !regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d +loop-0/loop +tap +1\.00k `).MatchString(printed.lines(10)) {
			t.Error(printed.lines(10))
		}
	})
}
