// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/runs/storage"
)

func TestRefusalsNameWhatWasWritten(t *testing.T) {
	bytes, _, err := plan.Encode(&enginev1.Plan{
		Streams:  []*enginev1.Stream{{Name: "a"}, {Name: "b"}},
		Stateful: &enginev1.Stateful{Templates: []*enginev1.Template{{Name: "web", Server: &enginev1.Program{Instructions: []*enginev1.Instruction{{}, {}, {}}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &scope{run: admitted()}
	s.run.Status.Resolved.Entries = []spatev1.EntrySnapshot{{Name: "a"}, {Name: "web", Template: "http"}}
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
		"none":       {bytes, &engine.Error{Code: codes.ResourceExhausted, Message: "no memory for stateful.most_flows"}, "no memory for spec.maxFlowsPerEngine"},
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
		spatev1.ReasonSnapshotLost:  &storage.LostError{Message: "gone"},
		"":                          errors.New("no answer"),
	} {
		s := &scope{r: &Reconciler{Memory: &storage.Memory{}}, run: admitted()}
		s.run.Status.PrepareTime = &long
		if _, err := s.refused(t.Context(), []error{err}); err != nil {
			t.Fatal(err)
		}
		reported := s.run.Status.Verdict.Reasons[0]
		if reported.Reason != cmp.Or(reason, spatev1.ReasonPrepareFailed) || !strings.HasSuffix(reported.Message, "; fix this, then create another TrafficRun or set a new spec.runID of the TrafficProfile") {
			t.Errorf("got %+v", reported)
		}
	}
}

// The plan is not read meanwhile: there is no client.
func TestALargePlanWaitsUntilNoOtherIsInMemory(t *testing.T) {
	for name, bytes := range map[string]struct{ plan, secrets int64 }{"a plan": {storage.Large + 1, 0}, "Secrets": {0, storage.Large + 1}, "both": {storage.Large, 1}} {
		t.Run(name, func(t *testing.T) {
			large := &turn.Lane{}
			release, _ := large.Enter("other", "profile")
			s := &scope{r: &Reconciler{Memory: &storage.Memory{}, Large: large}, run: admitted()}
			s.run.Namespace, s.run.UID, s.run.Status.Resolved.Snapshot.Bytes = "n", "run", bytes.plan
			for range 2 {
				again, err := s.distribute(t.Context(), []engineState{{}}, &storage.Facts{SecretBytes: bytes.secrets})
				if again != turnPause || err != nil || s.run.Status.Phase != "" {
					t.Errorf("again in %s, %v, %s", again, err, s.run.Status.Phase)
				}
			}
			release()
			if _, ok := large.Enter("other", "profile"); ok {
				t.Error("the other has two turns in a row")
			}
			if _, ok := large.Enter("n", "run"); !ok {
				t.Error("it is the run's turn")
			}
		})
	}
}

// counting counts reads of Secrets.
type counting struct {
	client.Reader
	secrets atomic.Int32
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if _, is := into.(*corev1.Secret); is {
		c.secrets.Add(1)
	}
	return c.Reader.Get(ctx, key, into, opts...)
}

func TestSecretsAreReadOnceForAllEnginesInTheTurnOfALargePlan(t *testing.T) {
	engines := []*fakeEngine{{}, {}, {}}
	s := underWayOn(t, "", engines...)
	s.run.Status.Phase, s.run.Status.TrafficStartTime = spatev1.RunPreparing, nil
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "captures", UID: "u"}, Data: map[string][]byte{"web": make([]byte, storage.Large+1)}}
	must(t, s.r.Client.Create(t.Context(), secret))
	encoded, _, err := plan.Encode(&enginev1.Plan{Streams: []*enginev1.Stream{{Name: "a", TxPort: "p0", Transmit: &enginev1.Stream_Replay{Replay: &enginev1.Replay{
		Source: &enginev1.Replay_Data{Data: &enginev1.DataRef{Bytes: storage.Large + 1, Capture: &enginev1.CaptureSummary{Packets: 1, Bytes: 60}}},
	}}}}})
	must(t, err)
	s.run.Status.Resolved.Snapshot, err = storage.Save(t.Context(), s.r.Client, s.run, func(w io.Writer) error { _, err := w.Write(encoded); return err })
	must(t, err)
	s.run.Status.Resolved.Snapshot.Secrets = []spatev1.SecretSnapshot{{Name: "captures", Key: "web", UID: secret.UID, ResourceVersion: secret.ResourceVersion}}
	live := &counting{Reader: s.r.Client}
	s.r.Memory.Live = live

	release, _ := s.r.Large.Enter("other", "profile")
	if again, err := s.preparing(t.Context()); again != turnPause || err != nil || live.secrets.Load() != 0 {
		t.Errorf("beside another large plan: again in %s, %v, %d reads", again, err, live.secrets.Load())
	}
	release()
	if _, err := s.preparing(t.Context()); err != nil || s.unreachable != "" || live.secrets.Load() != 1 {
		t.Errorf("%v, %q, %d reads for three engines", err, s.unreachable, live.secrets.Load())
	}
	for i, e := range engines {
		if got, err := plan.Decode(e.prepared); err != nil || len(got.Data) != 1 || len(got.Data[0]) != storage.Large+1 || int(got.Share.GetIndex()) != i {
			t.Errorf("engine %d has other data: %v", i, err)
		}
	}
}

func TestWhoWasLateForAStartIsNamed(t *testing.T) {
	instant := time.Now()
	before := func(d time.Duration) time.Time { return instant.Add(-d) }
	for want, c := range map[string]struct{ requested, answered time.Time }{
		"the engines answered too slowly (in 700ms) to be started at one instant": {before(600 * time.Millisecond), before(-100 * time.Millisecond)},
		"the operator was 2s too late to start the engines at the set instant: the operator or the API server is overloaded": {
			before(minStartLead - 2*time.Second), before(minStartLead - 2100*time.Millisecond),
		},
	} {
		if got := missedStart(instant, c.requested, c.answered).Error(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestAStartThatTheOperatorMissedIsNotLaidToEngines(t *testing.T) {
	s := underWayOn(t, "", &fakeEngine{holds: []*enginev1.RunInfo{{RunId: "p-1"}}})
	long, instant := metav1.NewTime(time.Now().Add(-2*prepareLimit)), metav1.NewMicroTime(time.Now().Add(-time.Second))
	s.run.Status.Phase, s.run.Status.PrepareTime, s.run.Status.TrafficStartTime = spatev1.RunPreparing, &long, &instant
	if _, err := s.preparing(t.Context()); err != nil || s.run.Status.Verdict == nil {
		t.Fatalf("%v, %+v", err, s.run.Status)
	}
	if reason := s.run.Status.Verdict.Reasons[0]; reason.Reason != spatev1.ReasonPrepareFailed || !strings.Contains(reason.Message, "too late to start the engines") {
		t.Errorf("%+v", reason)
	}
}

func TestAStartIsSetFurtherAheadAfterOneThatWasMissed(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ queried, missed, want time.Duration }{
		{0, 0, 500 * ms},
		{10 * ms, 0, 540 * ms},
		{10 * ms, 500 * ms, 2540 * ms},
		{10 * ms, 18 * time.Second, 5500 * ms}, // by a failover
		{3 * time.Second, 0, 5500 * ms},
	} {
		if got := startLead(c.queried, c.missed); got != c.want {
			t.Errorf("engines answered in %s, missed by %s: %s ahead, want %s", c.queried, c.missed, got, c.want)
		}
	}
}

// Such as of a certificate that is being renewed.
func TestAStartIsRepeatedAfterAConflictUntilItsInstant(t *testing.T) {
	conflict := fmt.Errorf("pod g-0: %w", apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "spate-ca", errors.New("modified")))
	for ahead, ends := range map[time.Duration]bool{time.Minute: false, -time.Minute: true} {
		at := metav1.NewMicroTime(time.Now().Add(ahead))
		s := &scope{r: &Reconciler{}, run: admitted(), pods: make([]*corev1.Pod, 2)}
		s.run.Status.TrafficStartTime = &at
		if again, err := s.notStarted(t.Context(), errors.Join(nil, conflict), false); err != nil || (again == 0) != ends || (s.run.Status.Verdict != nil) != ends {
			t.Errorf("%s ahead: again in %s, %v, %+v", ahead, again, err, s.run.Status.Verdict)
		}
	}
}
