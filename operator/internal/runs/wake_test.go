// SPDX-License-Identifier: Apache-2.0

package runs_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs"
)

// The counters of an active run are written up to once a second.
func TestCountersOfARunWakeNobody(t *testing.T) {
	valid := func(status metav1.ConditionStatus, message string) func(*spatev1.TrafficRun) {
		return func(r *spatev1.TrafficRun) {
			r.Status.Conditions = []metav1.Condition{{Type: spatev1.ConditionValid, Status: status, Reason: "R", Message: message}}
		}
	}
	for name, c := range map[string]struct {
		before, after func(*spatev1.TrafficRun)
		asked, steps  bool
	}{
		"counters":                  {nil, func(r *spatev1.TrafficRun) { r.Status.Result = &spatev1.RunResult{RxMissed: 1} }, false, false},
		"progress":                  {nil, func(r *spatev1.TrafficRun) { r.Status.Progress = &spatev1.RunProgress{TxRate: "1pps"} }, false, false},
		"a number in a message":     {valid(metav1.ConditionUnknown, "1"), valid(metav1.ConditionUnknown, "2"), false, false},
		"a condition":               {valid(metav1.ConditionUnknown, ""), valid(metav1.ConditionFalse, ""), false, true},
		"a phase":                   {nil, func(r *spatev1.TrafficRun) { r.Status.Phase = spatev1.RunDraining }, false, true},
		"a verdict":                 {nil, func(r *spatev1.TrafficRun) { r.Status.Verdict = &spatev1.Verdict{} }, false, true},
		"the generator it is for":   {waitsFor("n/g"), waitsFor("n/h"), false, true},
		"a spec":                    {nil, func(r *spatev1.TrafficRun) { r.Generation = 2 }, true, true},
		"a deletion":                {nil, func(r *spatev1.TrafficRun) { now := metav1.Now(); r.DeletionTimestamp = &now }, true, true},
		"the same as it was before": {nil, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := run("r", 0), run("r", 0)
			if c.before != nil {
				c.before(before)
			}
			if c.after != nil {
				c.after(after)
			}
			change := event.UpdateEvent{ObjectOld: before, ObjectNew: after}
			if asked, steps := runs.SpecChanged().Update(change), runs.Steps().Update(change); asked != c.asked || steps != c.steps {
				t.Errorf("asked %v, want %v; steps %v, want %v", asked, c.asked, steps, c.steps)
			}
		})
	}
}

// A profile reports the place of its run.
func TestTheMovesOfALineWakeTheProfilesOfItsRuns(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func(*spatev1.TrafficRun)
		moves         bool
	}{
		"another place":          {inLine("n/g", "behind 2 runs"), inLine("n/g", "behind 1 run"), true},
		"the same place":         {inLine("n/g", "behind 2 runs"), inLine("n/g", "behind 2 runs"), false},
		"a phase":                {inLine("n/g", "first"), func(r *spatev1.TrafficRun) { r.Status.Phase = spatev1.RunPreparing }, true},
		"a message of no waiter": {nil, func(r *spatev1.TrafficRun) { r.Status.Progress = &spatev1.RunProgress{TxRate: "1pps"} }, false},
	} {
		before, after := run("r", 0), run("r", 0)
		if c.before != nil {
			c.before(before)
		}
		c.after(after)
		if moves := runs.Moves().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); moves != c.moves {
			t.Errorf("%s: %v", name, moves)
		}
	}
	if !runs.Moves().Create(event.CreateEvent{Object: run("r", 0)}) || !runs.Moves().Delete(event.DeleteEvent{Object: run("r", 0)}) {
		t.Error("a new or a deleted run wakes no profile")
	}
}

func TestWhatAGeneratorCanDoWakesThoseWhoUseIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*spatev1.TrafficGenerator)
		wakes  bool
	}{
		"ready": {func(g *spatev1.TrafficGenerator) {
			g.Status.Conditions = []metav1.Condition{{Type: spatev1.ConditionReady}}
		}, true},
		"a pod":          {func(g *spatev1.TrafficGenerator) { g.Status.Pods = []spatev1.GeneratorPodStatus{{Name: "g-0"}} }, true},
		"a spec":         {func(g *spatev1.TrafficGenerator) { g.Generation++ }, true},
		"a label":        {func(g *spatev1.TrafficGenerator) { g.Labels = map[string]string{"a": "b"} }, false},
		"a status's age": {func(g *spatev1.TrafficGenerator) { g.Status.ObservedGeneration++ }, false},
	} {
		before := &spatev1.TrafficGenerator{}
		after := before.DeepCopy()
		c.change(after)
		if wakes := runs.Capable().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); wakes != c.wakes {
			t.Errorf("%s: %v", name, wakes)
		}
	}
}

func TestAPodWakesItsRunsWhenItEnds(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		wakes  bool
	}{
		"its phase":    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"its deletion": {func(p *corev1.Pod) { p.DeletionTimestamp = &now }, true},
		"its address":  {func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" }, false},
		"a condition":  {func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, false},
	} {
		before := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		after := before.DeepCopy()
		c.change(after)
		if wakes := runs.Ends().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); wakes != c.wakes {
			t.Errorf("%s: %v", name, wakes)
		}
	}
	if !runs.Ends().Delete(event.DeleteEvent{Object: &corev1.Pod{}}) {
		t.Error("a pod that is gone wakes nobody")
	}
}
