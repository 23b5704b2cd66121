// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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
    inline:
      packet: {headers: [{ethernet: {destination: "02:00:00:00:00:01"}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {udp: {sourcePort: 1, destinationPort: 2}}], size: 128}
      transmit: {continuous: {rate: 1pps}}
`

func TestAPlanThatCannotBeCheckedInTimeIsAProblemAndCheckedAgain(t *testing.T) {
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
	r := (&Resolver{Compiler: engine.Compiler{Binary: binary, Limit: 2 * time.Second}}).Init()
	try := func(inputs string) *Resolution {
		t.Helper()
		resolved, problems := plan.Resolve(plan.Input{Profile: p})
		if len(problems) > 0 {
			t.Fatal(problems.Message())
		}
		s := &Resolution{r: r, definition: p, key: p.UID, Resolved: resolved}
		if !s.check(t.Context(), inputs) {
			t.Error("it waits for another place")
		}
		return s
	}
	asked := func() int {
		text, _ := os.ReadFile(times)
		return len(text)
	}
	for range 2 { // the second attempt runs no engine
		s := try("a")
		if s.Resolved != nil || s.Problems.Reason() != spatev1.ReasonCheckFailed || s.Retry <= 0 || s.Retry > firstPause || asked() != 1 ||
			!strings.Contains(s.Problems.Message(), "spec.traffic: spate-engine could not try the plan within 2s; use fewer") {
			t.Errorf("asked %d times, again in %s: %v", asked(), s.Retry, s.Problems)
		}
	}
	due := r.checked["u"]
	due.again = time.Now()
	r.checked["u"] = due
	if s := try("a"); asked() != 2 || s.Retry <= firstPause {
		t.Errorf("asked %d times, and again in %s", asked(), s.Retry)
	}
	// An edited plan is checked no sooner than after the first pause, and later pauses are not shorter for it.
	if s := try("edited"); asked() != 2 || s.Resolved != nil || s.Retry <= 0 || s.Retry > firstPause {
		t.Errorf("asked %d times, and again in %s", asked(), s.Retry)
	}
	due = r.checked["u"]
	due.again = time.Now().Add(due.pause - firstPause)
	r.checked["u"] = due
	if try("edited again"); asked() != 3 || r.checked["u"].pause != 4*firstPause {
		t.Errorf("asked %d times, and again after %s", asked(), r.checked["u"].pause)
	}
	due = r.checked["u"]
	due.again = time.Now().Add(due.pause - firstPause)
	r.checked["u"] = due
	write("cat >/dev/null; echo '{}'\n")
	for range 2 {
		if s := try("b"); s.Resolved == nil || len(s.Problems) > 0 || asked() != 4 {
			t.Errorf("asked %d times: %v", asked(), s.Problems)
		}
	}
}

// Plans that take long to check have half of the workers together, whatever the number of their namespaces, and the
// first check of each is stopped early.
func TestPlansThatTakeLongLeaveWorkersForOthers(t *testing.T) {
	r := (&Resolver{}).Init()
	of := func(namespace string) *Resolution {
		p := &spatev1.TrafficProfile{}
		p.Namespace = namespace
		return &Resolution{r: r, definition: p}
	}
	taken := 0
	for i := range 2 * Workers {
		s := of(fmt.Sprint("slow-", i))
		s.tookLong()
		for range 2 {
			if _, ok := s.place(); ok {
				taken++
			}
		}
	}
	if taken != maxSlow {
		t.Errorf("they have %d of %d places", taken, Workers)
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
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	r := (&Resolver{Client: fake.NewClientBuilder().WithScheme(scheme).Build(), Large: &turn.Lane{}}).Init()
	resolve := func() (func(), bool) {
		t.Helper()
		resolution, leave, ok, err := r.Resolve(t.Context(), Subject{Definition: p, Key: p.UID})
		if err != nil || ok && len(resolution.Problems) > 0 {
			t.Fatal(resolution, err)
		}
		return leave, ok
	}
	leaveRun, _ := r.Large.Enter("other", "run")
	if _, ok := resolve(); !ok {
		t.Error("a small one waits")
	}
	p.Spec.Traffic[0].Stream.Inline.Copies = &spatev1.StreamCopies{Count: 20000}
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
