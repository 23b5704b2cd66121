// SPDX-License-Identifier: Apache-2.0

package test

// What takes one namespace's profiles long holds up no other's.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/test/drill"
)

// slowEngine tries plans as the engine does, those with the mark after 40 s.
func slowEngine(t *testing.T, mark string) string {
	t.Helper()
	path := filepath.Join(cluster.dir, "slow-engine")
	script := fmt.Sprintf(`#!/bin/bash
if [ "$1" = compile ]; then
  plan=$(mktemp -p %q)
  cat >"$plan"
  if grep -q %q "$plan"; then rm "$plan"; exec sleep 40; fi
  %q "$@" <"$plan"; code=$?
  rm "$plan"
  exit "$code"
fi
exec %q "$@"
`, cluster.dir, mark, engineBinary(), engineBinary())
	must(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

// slowProfile is one whose plan takes long to be tried, edited as often.
func slowProfile(name string, edits int) string {
	return strings.ReplaceAll(loopbackProfile(name, fmt.Sprintf("  runID: r%d\n", edits)), "name: small,", "name: slowpoke,")
}

// However many namespaces have such profiles, workers are left for others.
func TestSlowProfilesOfManyNamespacesHoldUpNoOther(t *testing.T) {
	ns := ready(t, "")
	restartOperator(t, "--engine-binary="+slowEngine(t, "slowpoke"), "--plan-check-limit=20s")
	t.Cleanup(func() { restartOperator(t) })
	var editors sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); editors.Wait() })
	for range 6 {
		slow := bareNamespace(t)
		mustApply(t, slow, loopbackGenerator+"---"+loopbackStream)
		editors.Go(func() {
			for edits := 0; ctx.Err() == nil; edits++ {
				for _, name := range []string{"slow-0", "slow-1", "slow-2"} {
					if err := apply(ctx, slow, slowProfile(name, edits)); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
				time.Sleep(500 * time.Millisecond)
			}
		})
	}
	for i := range 3 {
		time.Sleep(3 * time.Second) // their plans are being tried
		start, p := time.Now(), profileNamed(ns, fmt.Sprint("quick-", i))
		mustApply(t, ns, loopbackProfile(p.Name, lenient+"  duration: 500ms"))
		until(t, runLimit, "the other namespace's run is made", func() (bool, string) {
			err := get(p)
			return err == nil && p.Status.CurrentRun != nil, fmt.Sprint(err)
		})
		took := time.Since(start)
		t.Logf("run %d was created after %s; 18 profiles in 6 other namespaces are edited every 500 ms, and each check of their plans times out after 20 s", i, took.Round(10*time.Millisecond))
		if took > 15*time.Second {
			t.Errorf("it was held up: %s", took)
		}
		complete(t, runLimit, p)
	}
}

func TestDrillSlowProfile(t *testing.T) {
	drill.Long(t)
	d := newDrill(t, "a namespace edits three profiles in a loop whose plans cannot be tried in time", 5*time.Minute)
	ns := ready(t, "") // another's: it needs an engine
	restartOperator(t, "--engine-binary="+slowEngine(t, "slowpoke"), "--plan-check-limit=5s")
	t.Cleanup(func() { restartOperator(t) })
	slow := bareNamespace(t)
	mustApply(t, slow, loopbackGenerator+"---"+loopbackStream)
	edits := 0
	var editor sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() { stop(); editor.Wait() })
	editor.Go(func() {
		for ; ctx.Err() == nil; edits++ {
			for _, name := range []string{"slow-0", "slow-1", "slow-2"} {
				if err := apply(ctx, slow, slowProfile(name, edits)); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	time.Sleep(3 * time.Second) // its plans are being tried
	start := time.Now()
	mustApply(t, ns, loopbackProfile("quick", lenient+"  duration: 1s"))
	p := profileNamed(ns, "quick")
	until(t, runLimit, "the other namespace's run is made", func() (bool, string) {
		err := get(p)
		return err == nil && p.Status.CurrentRun != nil, fmt.Sprint(err)
	})
	took := time.Since(start)
	complete(t, runLimit, p)
	stop()
	editor.Wait()
	d.Strike()
	t.Logf("run made after %s beside three profiles that are edited %d times, and whose plans take 5 s to be given up", took.Round(10*time.Millisecond), edits)
	if took > 4*time.Second {
		t.Errorf("it was held up: %s", took)
	}
	d.Kept("a profile of another namespace had its run after %s", took.Round(10*time.Millisecond))
	// Now that they are not edited any more, it is reported that they could not be tried.
	expect(t, 2*runLimit, profileNamed(slow, "slow-0"), spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonCheckFailed,
		"spec.traffic: spate-engine could not try the plan within 5s", "the next check is at")
	d.Detected(2 * runLimit)
	d.ReportsText("TrafficProfile Ready=False " + spatev1.ReasonCheckFailed)
}
