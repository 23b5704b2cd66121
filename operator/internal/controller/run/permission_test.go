// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs/runstest"
	"spate.dev/operator/internal/runs/storage"
)

// fakeEngine executes any run, and answers SetLimits as the test specifies.
type fakeEngine struct {
	enginev1.UnimplementedEngineServer

	mu     sync.Mutex
	answer error
	limits []string
	// prepared is the encoded plan that it received.
	prepared []byte
	stopped  string // why
	holds    []*enginev1.RunInfo
	read     int // number of reads of its counters
}

func (e *fakeEngine) GetInfo(context.Context, *enginev1.GetInfoRequest) (*enginev1.GetInfoResponse, error) {
	return &enginev1.GetInfoResponse{Version: "0.9.1", NowNs: time.Now().UnixNano(), Runs: e.holds}, nil
}

func (*fakeEngine) ExchangeTimes(context.Context, *enginev1.ExchangeTimesRequest) (*enginev1.ExchangeTimesResponse, error) {
	now := engine.Now()
	return &enginev1.ExchangeTimesResponse{ReceiveNs: now, TransmitNs: now, ClockId: 1, TolerancePpb: 60_000}, nil
}

func (e *fakeEngine) SetLimits(_ context.Context, request *enginev1.SetLimitsRequest) (*enginev1.SetLimitsResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answer == nil {
		e.limits = append(e.limits, strconv.FormatUint(request.GetMaxRate().GetPacketsPerSecond().GetNumerator(), 10))
	}
	return &enginev1.SetLimitsResponse{}, e.answer
}

func (e *fakeEngine) answers(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = err
}

func (e *fakeEngine) Prepare(stream grpc.ClientStreamingServer[enginev1.PrepareRequest, enginev1.PrepareResponse]) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		request, err := stream.Recv()
		if err != nil {
			return stream.SendAndClose(&enginev1.PrepareResponse{})
		}
		e.prepared = append(e.prepared, request.GetChunk()...)
	}
}

func (e *fakeEngine) WatchStats(_ *enginev1.WatchStatsRequest, stream grpc.ServerStreamingServer[enginev1.WatchStatsResponse]) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read++
	run := &enginev1.RunInfo{State: enginev1.RunState_RUN_STATE_RUNNING}
	if e.stopped != "" {
		run.State, run.EndReason = enginev1.RunState_RUN_STATE_STOPPED, e.stopped
	}
	return stream.Send(&enginev1.WatchStatsResponse{Run: run})
}

func (e *fakeEngine) Stop(_ context.Context, request *enginev1.StopRequest) (*enginev1.StopResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = request.GetReason()
	return &enginev1.StopResponse{}, nil
}

// unlimited is the answer of an engine without support for limits.
var unlimited = status.Error(codes.Unimplemented, "Operation is not implemented or not supported")

// trust is a source of credentials for engines of the one generator.
type trust struct{ config *tls.Config }

func (c trust) Credentials(context.Context, string) (pki.Credentials, error) {
	return pki.Credentials{TLS: c.config, Version: [sha256.Size]byte{1}}, nil
}

// secured creates the credentials of engines and their client.
func secured(t *testing.T, name string) (server credentials.TransportCredentials, caller trust) {
	t.Helper()
	authority, err := pki.NewAuthority(pki.DefaultPolicy(), time.Now())
	must(t, err)
	pair := func(data map[string][]byte, _ time.Time, err error) (tls.Certificate, *x509.CertPool) {
		must(t, err)
		certificate, err := tls.X509KeyPair(data[pki.Certificate], data[pki.PrivateKey])
		must(t, err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(data[pki.TrustBundle])
		return certificate, roots
	}
	own, _ := pair(authority.Server(name, nil, time.Now()))
	callers, roots := pair(authority.Client(nil, time.Now()))
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}}),
		trust{&tls.Config{MinVersion: tls.VersionTLS13, ServerName: name, RootCAs: roots, Certificates: []tls.Certificate{callers}}}
}

// underWayOn is an active run of a stream of 1000 packets a second, on engines of a generator with limits.maxRate, as an operator that
// has just started finds it.
func underWayOn(t *testing.T, maxRate spatev1.AbsoluteRate, engines ...*fakeEngine) *scope {
	t.Helper()
	c := runstest.Builder(t).Build()

	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "lab", Generation: 1}}
	g.Spec.Limits = &spatev1.Limits{MaxRate: maxRate}
	profile := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "p"}}
	profile.Spec.Traffic = []spatev1.TrafficEntry{{Name: "a"}}
	started := metav1.NewMicroTime(time.Now())
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p-1", UID: "r"}}
	r.Spec.ProfileRef, r.Status.Resolved = &spatev1.LocalReference{Name: "p"}, &spatev1.ResolvedRun{Profile: spatev1.ProfileSnapshot{UID: "p"}}
	r.Status.Resolved.RunID, r.Status.Resolved.RateFactor, r.Status.Resolved.Generator.Namespace, r.Status.Resolved.Generator.Name = "p-1", "1", "n", "lab"
	r.Status.Resolved.Entries = []spatev1.EntrySnapshot{{Name: "a", Rate: "1kpps", StreamRate: "1kpps"}}
	r.Status.Phase, r.Status.TrafficStartTime, r.Status.RateFactor = spatev1.RunRunning, &started, "1"
	encoded, _, err := plan.Encode(&enginev1.Plan{Streams: []*enginev1.Stream{{
		Name: "a", TxPort: "p0",
		Packet:   &enginev1.Packet{Frame: make([]byte, 60)},
		Transmit: &enginev1.Stream_Continuous{Continuous: &enginev1.Continuous{Rate: &enginev1.Rate{Kind: &enginev1.Rate_PacketsPerSecond{PacketsPerSecond: &enginev1.Ratio{Numerator: 1000, Denominator: 1}}}}},
	}}})
	must(t, err)
	r.Status.Resolved.Snapshot, err = storage.Save(t.Context(), c, r, func(w io.Writer) error { _, err := w.Write(encoded); return err })
	must(t, err)

	credentials, caller := secured(t, pki.ServerName("n", "lab"))
	s := &scope{found: &findings{}, run: r, profile: profile, definition: profile, generator: g}
	for i, e := range engines {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		server := grpc.NewServer(grpc.Creds(credentials))
		enginev1.RegisterEngineServer(server, e)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("lab-%d", i), Labels: map[string]string{podspec.LabelGenerator: "lab"}}}
		pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: podspec.PortGRPC, ContainerPort: int32(listener.Addr().(*net.TCPAddr).Port)}}}}
		pod.Status.PodIP = "127.0.0.1"
		s.pods = append(s.pods, pod)
		r.Status.Resolved.Generator.Pods = append(r.Status.Resolved.Generator.Pods, spatev1.PodSnapshot{Name: pod.Name})
	}
	must(t, c.Create(t.Context(), g.DeepCopy()))
	must(t, c.Create(t.Context(), r.DeepCopy()))
	pool := engine.NewPool(caller)
	t.Cleanup(pool.Close)
	s.r = &Reconciler{
		Client: c, Events: events.NewFakeRecorder(20), Engines: pool, Memory: &storage.Memory{Reader: c, Live: c}, Large: &turn.Lane{},
		supervisor: newSupervisor(nil),
	}
	return s
}

// has sets the generator's limits.maxRate.
func (s *scope) has(maxRate spatev1.AbsoluteRate) {
	s.generator.Generation++
	s.generator.Spec.Limits = &spatev1.Limits{MaxRate: maxRate}
}

// eventsSince returns the run's events since the last call.
func (s *scope) eventsSince() []string {
	var all []string
	for {
		select {
		case event := <-s.r.Events.(*events.FakeRecorder).Events:
			all = append(all, event)
		default:
			return all
		}
	}
}

// followed reconciles the run twice: its statistics are read whatever the engines answer about the limit.
func followed(t *testing.T, s *scope) []string {
	t.Helper()
	for range 2 {
		s.run.Status.Result = nil
		s.found.sample = sample{}
		if again, err := s.underWay(t.Context()); err != nil || again <= 0 || s.run.Status.Result == nil || s.unreachable != "" {
			t.Errorf("the run is not followed: again in %s, %v, %q", again, err, s.unreachable)
		}
	}
	return s.eventsSince()
}

func expectEvents(t *testing.T, when string, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d events, want %d: %q", when, len(got), len(want), got)
		return
	}
	for i := range got {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("%s: %s\nwant %s", when, got[i], want[i])
		}
	}
}

func TestARunIsFollowedWhateverEnginesSayOfTheGreatestRate(t *testing.T) {
	e := &fakeEngine{}
	s := underWayOn(t, "2kpps", e)
	expectEvents(t, "as it was", followed(t, s))
	s.has("100000000000Gbps")
	expectEvents(t, "too high", followed(t, s),
		`Warning LimitNotKept spec.limits.maxRate of TrafficGenerator lab, "100000000000Gbps": as each engine's part, 100000000000000000000 is more than a number of 64 bits holds (18446744073709551615); use a lower one; the engines keep the previous limit`)
	s.has("3kpps")
	e.answers(status.Error(codes.Internal, "setting the limits failed: x"))
	expectEvents(t, "fails", followed(t, s),
		"Warning LimitNotKept pod lab-0: set limits.maxRate: setting the limits failed: x; retrying, and until then the engines keep the previous limit")
	e.answers(nil)
	expectEvents(t, "mended", followed(t, s), "Normal LimitChanged limits.maxRate of TrafficGenerator lab is 3kpps now: its engines throttle packets beyond it")
	s.has("4kpps")
	e.answers(status.Error(codes.Internal, "x"))
	followed(t, s)
	s.has("3kpps") // an engine of several may have lost it meanwhile
	e.answers(nil)
	expectEvents(t, "as before", followed(t, s))
	s.has("")
	expectEvents(t, "lifted", followed(t, s), "Normal LimitChanged limits.maxRate of TrafficGenerator lab is unset now: its engines throttle no more packets")
	if got := strings.Join(e.limits, " "); got != "2000 3000 3000 0" {
		t.Errorf("the engine was given %s", got)
	}
}

func TestOnlyEnginesThatKnowLimitsAreSaidToHoldBack(t *testing.T) {
	const notKept = ": this version of the engine does not support limits.maxRate of a generator; the run continues at its current rate"
	old, current := &fakeEngine{answer: unlimited}, &fakeEngine{}
	s := underWayOn(t, "", old, current)
	expectEvents(t, "no limit", followed(t, s))
	s.has("1kpps")
	expectEvents(t, "some know limits", followed(t, s), "Warning LimitNotKept pod lab-0"+notKept,
		"Normal LimitChanged limits.maxRate of TrafficGenerator lab is 1kpps now: of its engines, those of lab-1 throttle packets beyond it")
	current.answers(unlimited)
	s.has("2kpps")
	expectEvents(t, "none knows limits", followed(t, s), "Warning LimitNotKept pod lab-0"+notKept, "Warning LimitNotKept pod lab-1"+notKept)
}

func TestAnEngineThatKnowsNoLimitsIsRefusedAtOnceWhereThereIsOne(t *testing.T) {
	s := underWayOn(t, "1kpps", &fakeEngine{}, &fakeEngine{answer: unlimited})
	s.run.Status.Phase, s.run.Status.TrafficStartTime, s.run.Status.Entries = spatev1.RunPreparing, nil, nil
	if _, err := s.preparing(t.Context()); err != nil || s.run.Status.Phase != spatev1.RunComplete || s.unreachable != "" {
		t.Fatalf("%v, %+v, %q", err, s.run.Status, s.unreachable)
	}
	want := "pod lab-1: engine 0.9.1 is too old to enforce limits.maxRate of TrafficGenerator lab; use an engine image of the operator's release (spec.image of the generator)" + s.remedy()
	if reason := s.run.Status.Verdict.Reasons[0]; reason.Reason != spatev1.ReasonPrepareFailed || reason.Message != want {
		t.Errorf("%+v\nwant %s", reason, want)
	}
}

// Otherwise anyone who may delete a run's ConfigMaps could bypass new limits.
func TestARunWhosePlanIsGoneEndsWhenItsLimitsNarrow(t *testing.T) {
	then := &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"198.18.0.0/15"}, AllowedPorts: []spatev1.PortRange{"7", "80"}}
	for name, c := range map[string]struct {
		change func(*spatev1.Limits)
		ends   bool
	}{
		"a prefix less":          {func(l *spatev1.Limits) { l.AllowedDestinations[0] = "198.18.0.0/16" }, true},
		"a port less":            {func(l *spatev1.Limits) { l.AllowedPorts = l.AllowedPorts[:1] }, true},
		"a rate":                 {func(l *spatev1.Limits) { l.MaxRate = "500pps" }, true},
		"a prefix more":          {func(l *spatev1.Limits) { l.AllowedDestinations = append(l.AllowedDestinations, "fd00::/8") }, false},
		"no list of ports":       {func(l *spatev1.Limits) { l.AllowedPorts = nil }, false},
		"nothing that is judged": {func(*spatev1.Limits) {}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := &fakeEngine{}
			s := underWayOn(t, "", e)
			s.run.Status.Resolved.Generator.Limits = then
			s.generator.Spec.Limits = then.DeepCopy()
			followed(t, s) // the operator reads the plan's facts
			chunk := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: string(s.run.Status.Resolved.Snapshot.Chunks[0].Name)}}
			must(t, s.r.Client.Delete(t.Context(), chunk))
			s.generator.Generation++
			c.change(s.generator.Spec.Limits)
			for range 2 { // the result is cached
				end, err := s.mustEnd(t.Context())
				if s.end = end; err != nil {
					t.Fatal(err)
				}
			}
			if !c.ends {
				if s.end.message != "" {
					t.Errorf("it is to end: %+v", s.end)
				}
				return
			}
			if _, err := s.underWay(t.Context()); err != nil || s.run.Status.Phase != spatev1.RunComplete {
				t.Fatalf("%v, %+v", err, s.run.Status)
			}
			want := "ConfigMap p-1-plan-0 with the run's plan is gone, so the run was ended: its plan cannot be checked against the new spec.limits of TrafficGenerator lab" +
				" (create another run, or set a new spec.runID of the profile)"
			if reason := s.run.Status.Verdict.Reasons[0]; reason.Reason != spatev1.ReasonSnapshotLost || reason.Message != "stopped: "+want {
				t.Errorf("%+v\nwant %s", reason, want)
			}
			if e.stopped != want {
				t.Errorf("Stop carried the reason %q", e.stopped)
			}
		})
	}
}
