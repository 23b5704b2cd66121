// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/operator/api/v1alpha1"
	"spate.dev/operator/internal/controller/snapshot"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
)

func TestRefusalsNameWhatWasWritten(t *testing.T) {
	bytes, _, err := plan.Encode(&enginev1.Plan{
		Streams:  []*enginev1.Stream{{Name: "a"}, {Name: "b"}},
		Stateful: &enginev1.Stateful{Templates: []*enginev1.Template{{Name: "web", Server: &enginev1.Program{Instructions: []*enginev1.Instruction{{}, {}, {}}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &scope{run: &spatev1.TrafficRun{Spec: spatev1.TrafficRunSpec{Entries: []spatev1.EntrySnapshot{{Name: "a"}, {Name: "web", Template: "http"}}}}}
	pod := &corev1.Pod{}
	pod.Name = "p"
	for name, c := range map[string]struct {
		bytes []byte
		err   *engine.Error
		want  string
	}{
		"fields": {bytes, &engine.Error{Code: codes.InvalidArgument, Message: "2 fields", Violations: []engine.Violation{
			{Field: "stateful.templates[0].server.instructions[2].wait_for_peer_close", Description: "x"}, {Field: "streams[1].rx_port", Description: "like streams[0]"},
		}}, `entry web: ASTFTemplate "http": spec.source.programs.server[2].waitForPeerClose: x; entry b: receivePort: like stream a`},
		"none":       {bytes, &engine.Error{Code: codes.ResourceExhausted, Message: "no memory for stateful.most_flows"}, "no memory for spec.mostConnections"},
		"not a plan": {[]byte{0xff}, &engine.Error{Code: codes.InvalidArgument, Message: "streams[0]"}, "streams[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.explain(pod, c.bytes, c.err).Error(); got != "pod p: the engine refuses the plan: "+c.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

func TestARunThatCouldNotBePreparedSaysWhatTriesAgain(t *testing.T) {
	long := metav1.NewTime(time.Now().Add(-2 * prepareLimit))
	for reason, err := range map[string]error{
		spatev1.ReasonPrepareFailed: &refusal{spatev1.ReasonPrepareFailed, "pod p: the engine refuses the plan: x"},
		spatev1.ReasonSnapshotLost:  &snapshot.LostError{Message: "gone"},
		"":                          errors.New("no answer"),
	} {
		s := &scope{r: &Reconciler{Memory: &snapshot.Memory{}}, run: &spatev1.TrafficRun{}}
		s.run.Status.StartTime = &long
		if _, err := s.refused(t.Context(), []error{err}); err != nil {
			t.Fatal(err)
		}
		told := s.run.Status.Verdict.Reasons[0]
		if told.Reason != cmp.Or(reason, spatev1.ReasonPrepareFailed) || !strings.HasSuffix(told.Message, "; once that is mended, a new spec.runID of the profile tries again") {
			t.Errorf("got %+v", told)
		}
	}
}

// Nothing of the plan is read meanwhile: there is no client.
func TestALargePlanWaitsUntilNoOtherIsInMemory(t *testing.T) {
	large := &turn.Lane{}
	leave, _ := large.Enter("other", "profile")
	s := &scope{r: &Reconciler{Memory: &snapshot.Memory{}, Large: large}, run: &spatev1.TrafficRun{}}
	s.run.Namespace, s.run.UID, s.run.Spec.Snapshot.Bytes = "n", "run", snapshot.Large+1
	for range 2 {
		if again, err := s.hand(t.Context(), []held{{}}, ""); again != turnPause || err != nil || s.run.Status.Phase != "" {
			t.Errorf("again in %s, %v, %s", again, err, s.run.Status.Phase)
		}
	}
	leave()
	if _, ok := large.Enter("other", "profile"); ok {
		t.Error("the other has two turns in a row")
	}
	if _, ok := large.Enter("n", "run"); !ok {
		t.Error("it is the run's turn")
	}
}
