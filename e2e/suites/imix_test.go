// SPDX-License-Identifier: Apache-2.0

// The demo's two profiles, as tests: exact counts through a router that forwards, and through one that drops.

package suites

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

func demo(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "e2e/demo", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lab creates the demo's generator in a namespace, with its ports on the router's links.
func lab(t *testing.T) string {
	t.Helper()
	needsRig(t, theRouter)
	ns := namespace(t)
	mustApply(t, ns, demo(t, "network.yaml"))
	mustApply(t, ns, demo(t, "generator.yaml"))
	condition(t, 60*time.Second, generatorNamed(ns, "lab"), spate.ConditionReady, metav1.ConditionTrue)
	return ns
}

func TestIMIXThroughARouter(t *testing.T) {
	needsRig(t, thePrometheus)
	ns := lab(t)

	t.Run("the idle engine is small beside its hugepages", func(t *testing.T) {
		resident, huge := engineMemory(t)
		const limit = 150 << 10
		if resident == 0 || resident >= limit || huge == 0 {
			t.Errorf("resident %d KiB beside %d KiB of hugepages; want below 150 MiB beside 128 MiB", resident, huge)
		}
		t.Logf("resident %d MiB beside %d MiB of hugepages", resident>>10, huge>>10)
	})

	t.Run("forwarding: passed, and result, counters and Prometheus agree exactly", func(t *testing.T) {
		mustApply(t, ns, demo(t, "imix.yaml"))
		imix := profileNamed(ns, "imix")
		run := complete(t, 60*time.Second, imix)
		expect(t, condition(t, 10*time.Second, imix, spate.ConditionPassed, metav1.ConditionTrue), spate.ReasonThresholdsMet)
		want := map[string]int64{"imix-64": 140_000, "imix-594": 80_000, "imix-1518": 20_000}
		for name, s := range run.Status.Result.Streams {
			if s.Tx != want[name] || s.Rx != s.Tx || s.Lost != 0 {
				t.Errorf("stream %s: tx %d, rx %d, lost %d; want %d sent and received", name, s.Tx, s.Rx, s.Lost, want[name])
			}
		}
		if len(run.Status.Result.Streams) != len(want) {
			t.Errorf("result of %d streams, want %d", len(run.Status.Result.Streams), len(want))
		}
		agree(t, run)
		t.Run("Prometheus has each latency in native and classic histograms", func(t *testing.T) { histogramsAgree(t, run) })
		t.Run("every query of the dashboards has data", func(t *testing.T) { queriesHaveData(t, run, ofStreams) })
	})

	t.Run("dropping: failed with the numbers, loss is the router's count", func(t *testing.T) {
		router(t, "drop")
		t.Cleanup(func() { router(t, "forward") })
		mustApply(t, ns, demo(t, "imix-drop.yaml"))
		dropping := profileNamed(ns, "imix-drop")
		run := complete(t, 60*time.Second, dropping)
		dropped := router(t, "dropped")
		failed(t, dropping, "no-loss", dropped)
		if lost := strconv.FormatInt(run.Status.Result.Lost, 10); lost != dropped || dropped == "0" {
			t.Errorf("lost %s, the router dropped %s", lost, dropped)
		}
		for name, s := range run.Status.Result.Streams {
			if name != "imix-594" && s.Lost != 0 {
				t.Errorf("stream %s lost %d; only imix-594 is dropped", name, s.Lost)
			}
		}
		agree(t, run)
	})

	t.Run("the generator's final counters are scraped before its pods go", func(t *testing.T) {
		// Everything was scraped above, so deletion must not wait until its limit.
		start := time.Now()
		lab := generatorNamed(ns, "lab")
		if err := kube.Delete(t.Context(), lab, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			t.Fatal(err)
		}
		until(t, 20*time.Second, "lab is gone", func(ctx context.Context) (bool, string) {
			pods, err := enginePods(ctx, ns, "lab")
			return get(ctx, lab) != nil && len(pods) == 0, fmt.Sprint(len(pods), " pods ", err)
		})
		t.Logf("gone after %s", time.Since(start).Round(100*time.Millisecond))
	})
}

// engineMemory returns the one engine's resident memory and its hugepages in KiB, as the kernel counts them (proc(5)).
func engineMemory(t *testing.T) (resident, huge int) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	engines := 0
	for _, name := range names {
		if comm, err := os.ReadFile(name); err != nil || strings.TrimSpace(string(comm)) != "spate-engine" {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
		if err != nil {
			t.Fatal(err)
		}
		engines++
		for line := range strings.Lines(string(status)) {
			for field, value := range map[string]*int{"VmRSS:": &resident, "HugetlbPages:": &huge} {
				if rest, ok := strings.CutPrefix(line, field); ok {
					if _, err := fmt.Sscan(rest, value); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	if engines != 1 {
		t.Fatalf("%d engines run on the node, want the one under test", engines)
	}
	return resident, huge
}
