// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/plan"
)

const smallProfile = `
generator: {replicas: 1, workers: 1, ports: [{name: loop, lineRate: 10Gbps, attachment: {loopback: {}}}]}
traffic:
- name: one
  transmitPort: loop
  stream:
    packet: {headers: [{ethernet: {destination: "02:00:00:00:00:01"}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {udp: {sourcePort: 1, destinationPort: 2}}], size: 128}
    transmit: {continuous: {rate: 1pps}}
`

func TestAPlanThatCannotBeTriedInTimeIsAProblemAndTriedAgain(t *testing.T) {
	p := &spatev1.TrafficProfile{}
	p.Name, p.Namespace, p.UID = "p", "n", "u"
	if err := yaml.UnmarshalStrict([]byte(smallProfile), &p.Spec); err != nil {
		t.Fatal(err)
	}
	binary, times := filepath.Join(t.TempDir(), "spate-engine"), filepath.Join(t.TempDir(), "times")
	write := func(script string) {
		t.Helper()
		if err := os.WriteFile(binary, []byte("#!/bin/sh\necho >>"+times+"\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("exec sleep 60\n")
	r := &Reconciler{Compiler: engine.Compiler{Binary: binary, Limit: 300 * time.Millisecond}, tried: map[types.UID]tried{}, late: map[string]time.Time{}}
	try := func(inputs string) *scope {
		t.Helper()
		resolved, problems := plan.Resolve(plan.Input{Profile: p})
		if len(problems) > 0 {
			t.Fatal(problems.Message())
		}
		s := &scope{r: r, profile: p, resolved: resolved}
		if !s.try(t.Context(), inputs) {
			t.Error("it waits for another place")
		}
		return s
	}
	asked := func() int {
		text, _ := os.ReadFile(times)
		return len(text)
	}
	for range 2 { // the second asks nobody
		s := try("a")
		d := s.problem()
		if s.resolved != nil || d.reason != spatev1.ReasonCheckFailed || d.stalled || d.again <= 0 || d.again > firstPause || asked() != 1 ||
			!strings.Contains(d.message, "spec.traffic: spate-engine could not try the plan within 300ms; use fewer") {
			t.Errorf("asked %d times: %+v", asked(), d)
		}
	}
	due := r.tried["u"]
	due.again = time.Now()
	r.tried["u"] = due
	if s := try("a"); asked() != 2 || s.untried <= firstPause {
		t.Errorf("asked %d times, and again in %s", asked(), s.untried)
	}
	// An edit is tried no sooner than the first pause, and makes the later ones no shorter.
	if s := try("edited"); asked() != 2 || s.resolved != nil || s.untried <= 0 || s.untried > firstPause {
		t.Errorf("asked %d times, and again in %s", asked(), s.untried)
	}
	due = r.tried["u"]
	due.again = time.Now().Add(due.pause - firstPause)
	r.tried["u"] = due
	if try("edited again"); asked() != 3 || r.tried["u"].pause != 4*firstPause {
		t.Errorf("asked %d times, and again after %s", asked(), r.tried["u"].pause)
	}
	due = r.tried["u"]
	due.again = time.Now().Add(due.pause - firstPause)
	r.tried["u"] = due
	write("cat >/dev/null; echo '{}'\n")
	for range 2 {
		if s := try("b"); s.resolved == nil || len(s.problems) > 0 || asked() != 4 {
			t.Errorf("asked %d times: %v", asked(), s.problems)
		}
	}
}

// Plans that take long have half of the workers together, whatever the number of namespaces that have such, and the first of each is
// given up soon.
func TestPlansThatTakeLongLeaveWorkersForOthers(t *testing.T) {
	r := &Reconciler{late: map[string]time.Time{}}
	r.places.Each, r.slow.Each, r.slow.Most = perNamespace, 1, mostSlow
	of := func(namespace string) *scope {
		p := &spatev1.TrafficProfile{}
		p.Namespace = namespace
		return &scope{r: r, profile: p}
	}
	taken := 0
	for i := range 2 * workers {
		s := of(fmt.Sprint("slow-", i))
		s.tookLong()
		for range 2 {
			if _, ok := s.place(); ok {
				taken++
			}
		}
	}
	if taken != mostSlow {
		t.Errorf("they have %d of %d places", taken, workers)
	}
	if s := of("quick"); s.slow {
		t.Error("another namespace's is taken for one of them")
	} else if _, ok := s.place(); !ok {
		t.Error("another namespace's has no place")
	}
	r.late["slow-0"] = time.Now().Add(-lateLasts)
	if _, ok := of("slow-0").place(); !ok {
		t.Error("it is never forgotten")
	}
}

func TestALargeProfileWaitsUntilNoOtherPlanIsInMemory(t *testing.T) {
	p := &spatev1.TrafficProfile{}
	p.Name, p.Namespace, p.UID = "p", "n", "u"
	if err := yaml.UnmarshalStrict([]byte(smallProfile), &p.Spec); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Compiler: engine.Compiler{}, tried: map[types.UID]tried{}, Large: &turn.Lane{}}
	resolve := func() (func(), bool) {
		t.Helper()
		leave, ok, err := (&scope{r: r, profile: p}).resolve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return leave, ok
	}
	leaveRun, _ := r.Large.Enter("other", "run")
	if _, ok := resolve(); !ok {
		t.Error("a small one waits")
	}
	p.Spec.Traffic[0].Stream.Copies = &spatev1.StreamCopies{Count: 20000}
	if _, ok := resolve(); ok {
		t.Error("a large one does not wait")
	}
	leaveRun()
	leave, ok := resolve()
	if !ok {
		t.Fatal("it is its turn")
	}
	if _, ok := r.Large.Enter("other", "run"); ok {
		t.Error("a run does not wait")
	}
	leave()
}
