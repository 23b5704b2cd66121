// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does each kind of run, by a person, by a schedule and by a change, survive an operator that is killed?

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/test/drill"
)

func TestDrillOperatorKilledWithEachKindOfRun(t *testing.T) {
	drill.Long(t)
	for _, phase := range []spatev1.RunPhase{spatev1.RunPending, spatev1.RunPreparing, spatev1.RunRunning, spatev1.RunDraining} {
		t.Run(string(phase), func(t *testing.T) {
			d := newDrill(t, fmt.Sprintf("operator killed with a created, a scheduled and a changed profile's run in %s", phase), 5*time.Minute)
			ns := ready(t, "")
			spec := tolerant + "  duration: 3s\n  drain: 5s\n"
			scheduled := func(cron string) string {
				return loopbackProfile("scheduled", spec+"  runPolicy: Schedule\n  schedule: {cron: '"+cron+"'}\n")
			}
			mustApply(t, ns, loopbackProfile("manual", spec+"  runPolicy: Manual"))
			pod := enginePods(t, ns)[0]
			if phase == spatev1.RunPreparing { // runs are admitted until the generator finds that its engine does not answer
				time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute - 1500*time.Millisecond)))
			}
			if phase == spatev1.RunPending || phase == spatev1.RunPreparing {
				freeze(t, &pod)
			}
			if phase == spatev1.RunPending {
				expect(t, time.Minute, generatorNamed(ns, "loop"), spatev1.ConditionReady, "False", spatev1.ReasonEngineUnreachable)
			}
			mustApply(t, ns, scheduled("* * * * *"))
			until(t, 75*time.Second, "the schedule starts a run", func() (bool, string) { return len(runsIn(t, ns)) > 0, "" })
			mustApply(t, ns, scheduled("0 0 1 1 *")+"---"+loopbackProfile("changed", spec))
			create(t, ns, "created-", "{profileRef: {name: manual}}")
			until(t, runLimit, "three runs are "+string(phase), func() (bool, string) {
				var phases []string
				for _, r := range runsIn(t, ns) {
					phases = append(phases, string(r.Status.Phase))
				}
				return strings.Join(phases, " ") == strings.TrimSpace(strings.Repeat(string(phase)+" ", 3)) || len(phases) == 3 && phase == spatev1.RunDraining && strings.Contains(strings.Join(phases, " "), "Draining"), strings.Join(phases, " ")
			})
			cluster.operator.kill()
			d.Strike()
			thaw(&pod)
			restartOperator(t)
			d.Detected(leadLimit)
			d.ReportsText("another operator holds the lease")
			until(t, 2*time.Minute, "all have ended", func() (bool, string) {
				all, ended := runsIn(t, ns), 0
				for _, r := range all {
					if r.Status.Phase == spatev1.RunComplete {
						ended++
					}
				}
				return ended == 3, strconv.Itoa(ended)
			})
			time.Sleep(2 * time.Second) // for one more that was not requested
			all := runsIn(t, ns)
			for _, r := range all {
				res := r.Status.Result
				if r.Status.Verdict.Outcome != spatev1.VerdictPassed || res == nil || res.Tx+res.TxDropped != 3000 || res.Rx != res.Tx {
					t.Errorf("run %s: %+v %+v", r.Name, r.Status.Verdict, res)
				}
			}
			if len(all) != 3 {
				t.Errorf("%d runs, want 3", len(all))
			}
			d.Kept("three runs, each once, with 3000 packets sent and received")
		})
	}
}
