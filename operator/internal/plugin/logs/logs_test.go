// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/podspec"
)

// start is when the run of the tests was created.
var start = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// at returns a line whose time is a number of milliseconds after the start.
func at(ms int, text string) string {
	return start.Add(time.Duration(ms)*time.Millisecond).Format(time.RFC3339Nano) + " " + text + "\n"
}

// server answers requests for logs, by pod.
func server(t *testing.T, logs map[string]http.HandlerFunc) (pods typedcorev1.PodsGetter, asked *requests) {
	t.Helper()
	asked = &requests{}
	s := httptest.NewServer(asked.recording(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.Path, "/") // /api/v1/namespaces/NAMESPACE/pods/POD/log
		if len(parts) != 8 || parts[7] != "log" || logs[parts[6]] == nil {
			http.NotFound(w, r)
			return
		}
		logs[parts[6]](w, r)
	}))
	t.Cleanup(s.Close)
	client, err := typedcorev1.NewForConfig(&rest.Config{Host: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client, asked
}

// requests are those that were made.
type requests struct {
	lock sync.Mutex
	all  []string
}

func (r *requests) recording(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, request *http.Request) {
		r.lock.Lock()
		r.all = append(r.all, request.URL.String())
		r.lock.Unlock()
		next(w, request)
	}
}

// has returns the requests that have a text.
func (r *requests) has(text string) (all []string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, url := range r.all {
		if strings.Contains(url, text) {
			all = append(all, url)
		}
	}
	return all
}

// text answers with a whole log.
func text(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Join(lines, ""))) }
}

// of is a target that has these pods.
func of(pods ...string) *target {
	return &target{title: "generator lab", namespace: "tests", words: wordsOf("lab", "tests"), look: func(context.Context) (present, error) { return present{pods: pods}, nil }}
}

func clientWith(t *testing.T, objects ...kube.Object) kube.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(spatev1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// unnoted fails the test for each note.
func unnoted(t *testing.T) func(string, ...any) {
	return func(format string, values ...any) { t.Errorf("note: "+format, values...) }
}

func TestLinesOfAllPodsAreMergedByTime(t *testing.T) {
	t.Parallel()
	pods, asked := server(t, map[string]http.HandlerFunc{
		"lab-0": text(at(0, "a"), at(3, "d"), at(3, "d again"), at(9, "f")),
		"lab-1": text(at(1, "b"), at(2, "c"), "no time\n", at(7, "e")),
		"lab-2": text(),
	})
	var out bytes.Buffer
	r := &reading{pods: pods, flags: flags{tail: 7, since: 90 * time.Second}, of: of("lab-0", "lab-1", "lab-2"), note: unnoted(t)}
	if err := r.print(t.Context(), nil, &out); err != nil {
		t.Fatal(err)
	}
	want := "[lab-0] " + at(0, "a") + "[lab-1] " + at(1, "b") + "[lab-1] " + at(2, "c") + "[lab-1] no time\n" + "[lab-0] " + at(3, "d") + "[lab-0] " + at(3, "d again") + "[lab-1] " + at(7, "e") + "[lab-0] " + at(9, "f")
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	for _, option := range []string{"container=engine", "timestamps=true", "tailLines=7", "sinceSeconds=90"} {
		if got := asked.has(option); len(got) != 3 {
			t.Errorf("%s: %q", option, got)
		}
	}
}

func TestLinesOfRoutersAreAmongThoseOfTheirEngines(t *testing.T) {
	t.Parallel()
	ofContainer := func(engine, routing string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			text(map[string]string{podspec.EngineContainer: engine, podspec.RoutingContainer: routing}[r.URL.Query().Get("container")])(w, r)
		}
	}
	pods, asked := server(t, map[string]http.HandlerFunc{
		"lab-0": ofContainer(at(1, "started"), at(0, "<INFO> Started")+at(3, "<RMT> dut: Received: Cease")),
		"lab-1": ofContainer(at(2, "started"), "no such container\n"),
	})
	both := of("lab-0", "lab-1")
	both.look = func(context.Context) (present, error) {
		return present{pods: []string{"lab-0", "lab-1"}, routed: []string{"lab-0"}}, nil
	}
	for container, want := range map[string]string{
		"":        "[lab-0/routing] " + at(0, "<INFO> Started") + "[lab-0] " + at(1, "started") + "[lab-1] " + at(2, "started") + "[lab-0/routing] " + at(3, "<RMT> dut: Received: Cease"),
		"engine":  "[lab-0] " + at(1, "started") + "[lab-1] " + at(2, "started"),
		"routing": "[lab-0/routing] " + at(0, "<INFO> Started") + "[lab-0/routing] " + at(3, "<RMT> dut: Received: Cease"),
	} {
		var out bytes.Buffer
		r := &reading{pods: pods, flags: flags{tail: -1, container: container}, of: both, note: unnoted(t)}
		if err := r.print(t.Context(), nil, &out); err != nil || out.String() != want {
			t.Errorf("--container %s: %v\n%s", container, err, out.String())
		}
	}
	if got := asked.has("/lab-1/log?container=routing"); len(got) != 0 {
		t.Errorf("asked %q", got)
	}
	r := &reading{pods: pods, flags: flags{tail: -1, container: "routing"}, of: of("lab-1"), note: unnoted(t)}
	if err := r.print(t.Context(), nil, io.Discard); err == nil || err.Error() != "generator lab has no container routing: no port of the generator has routing" {
		t.Error(err)
	}
}

func TestPodsHaveRoutersIfTheirGeneratorHasRouting(t *testing.T) {
	t.Parallel()
	run := plugintest.RunNamed("imix-1", "imix", start)
	run.Status.Resolved = &spatev1.ResolvedRun{Generator: spatev1.GeneratorSnapshot{Namespace: "tests", Name: "lab", Pods: []spatev1.PodSnapshot{{Name: "lab-0"}}}}
	lab := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab"}, Status: spatev1.TrafficGeneratorStatus{Pods: []spatev1.GeneratorPodStatus{{Name: "lab-0"}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab-0", Labels: podspec.Labels(lab)}}
	routed := lab.DeepCopy()
	routed.Spec.Ports = []spatev1.GeneratorPort{{Name: "east", Routing: &spatev1.PortRouting{RIP: []spatev1.RIPSession{{Name: "old"}}}}}
	withRouter := pod.DeepCopy()
	withRouter.Spec.InitContainers = []corev1.Container{{Name: podspec.RoutingContainer}}
	forbid := func(client kube.WithWatch) kube.WithWatch {
		return interceptor.NewClient(client, interceptor.Funcs{List: func(ctx context.Context, client kube.WithWatch, list kube.ObjectList, options ...kube.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
			}
			return client.List(ctx, list, options...)
		}})
	}
	for name, c := range map[string]struct {
		reader kube.WithWatch
		routed []string
	}{
		"with routing":            {clientWith(t, run, routed, withRouter), []string{"lab-0"}},
		"without":                 {clientWith(t, run, lab, pod), nil},
		"pods may not be listed":  {forbid(clientWith(t, run, routed, withRouter)), []string{"lab-0"}},
		"nor has it routing then": {forbid(clientWith(t, run, lab, pod)), nil},
	} {
		for _, argument := range []string{"run/imix-1", "generator/lab"} {
			found, err := find(t.Context(), c.reader, "tests", argument, unnoted(t))
			if err != nil {
				t.Fatal(err)
			}
			if now, err := found.look(t.Context()); err != nil || !slices.Equal(now.pods, []string{"lab-0"}) || !slices.Equal(now.routed, c.routed) {
				t.Errorf("%s, %s: %+v %v", name, argument, now, err)
			}
		}
	}
}

func TestLinesOfARunAreThoseOfItsTimeThatNameNoOtherRun(t *testing.T) {
	t.Parallel()
	mine, jsonMine := at(1000, `run starts run="imix-1-00c0ffee" at_ns=1`), at(2000, `{"message":"run stops","run":"imix-1-00c0ffee"}`)
	pods, asked := server(t, map[string]http.HandlerFunc{"lab-0": text(mine, at(1500, `run stops run="imix-1-00c0ffe" reason="x"`), jsonMine, at(11_000, "limits set"),
		at(12_000, `run starts run="imix-10-00c0ffee" at_ns=1`), at(13_000, `{"message":"run starts","run":"imix-2-0badcafe","at_ns":1}`), at(60_000, "later"))})
	want := "[lab-0] " + mine + "[lab-0] " + jsonMine + "[lab-0] " + at(11_000, "limits set")
	run := plugintest.RunNamed("imix-1", "imix", start)
	end := metav1.NewTime(start.Add(10 * time.Second))
	run.Status.Phase, run.Status.CompletionTime = spatev1.RunComplete, &end
	run.Status.Resolved = &spatev1.ResolvedRun{RunID: "imix-1-00c0ffee", Generator: spatev1.GeneratorSnapshot{Namespace: "shared", Name: "lab", Pods: []spatev1.PodSnapshot{{Name: "lab-0"}}}}
	found, err := find(t.Context(), clientWith(t, run), "tests", "imix", unnoted(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, follow := range []bool{false, true} { // a run that has ended is not waited for
		var out bytes.Buffer
		r := &reading{pods: pods, flags: flags{tail: -1, follow: follow}, of: found, note: unnoted(t), hold: time.Hour}
		if err := r.print(t.Context(), nil, &out); err != nil || out.String() != want {
			t.Errorf("follow %v: %v\n%s", follow, err, out.String())
		}
	}
	if got := asked.has("/namespaces/shared/pods/lab-0/log?container=engine&sinceTime=2026-11-27T12%3A00%3A00Z&timestamps=true"); len(got) != 2 {
		t.Errorf("asked %q", asked.all)
	}
}

// sharing returns a run on a generator that also executes other runs.
func sharing(t *testing.T) *target {
	t.Helper()
	run := plugintest.RunNamed("imix-1", "imix", start)
	run.Status.Resolved = &spatev1.ResolvedRun{RunID: "imix-1-00c0ffee", Generator: spatev1.GeneratorSnapshot{Namespace: "tests", Name: "lab", Pods: []spatev1.PodSnapshot{{Name: "lab-0"}}}}
	found, err := find(t.Context(), clientWith(t, run), "tests", "imix-1", unnoted(t))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// mine returns a line about that run, and others one about another run.
func mine(ms int, text string) string   { return at(ms, text+` run="imix-1-00c0ffee"`) }
func others(ms int, text string) string { return at(ms, text+` run="imix-2-0badcafe"`) }

func TestTheLastLinesOfARunAreCountedWithoutThoseOfOtherRuns(t *testing.T) {
	t.Parallel()
	lines := []string{mine(1, "a"), others(2, "x"), mine(3, "b"), mine(4, "c"), others(5, "y"), others(6, "z")}
	log := func(w http.ResponseWriter, r *http.Request) { // as the kubelet does it
		from := 0
		if tail, err := strconv.Atoi(r.URL.Query().Get("tailLines")); err == nil {
			from = max(len(lines)-tail, 0)
		}
		text(lines[from:]...)(w, r)
	}
	pods, asked := server(t, map[string]http.HandlerFunc{"lab-0": log})
	of := sharing(t)
	for tail, want := range map[int64][]string{0: {}, 1: {mine(4, "c")}, 2: {mine(3, "b"), mine(4, "c")}, 3: {mine(1, "a"), mine(3, "b"), mine(4, "c")}, 9: {mine(1, "a"), mine(3, "b"), mine(4, "c")}} {
		var out bytes.Buffer
		r := &reading{pods: pods, flags: flags{tail: tail}, of: of, note: unnoted(t)}
		if err := r.print(t.Context(), nil, &out); err != nil || strings.ReplaceAll(out.String(), "[lab-0] ", "") != strings.Join(want, "") {
			t.Errorf("the last %d: %v\n%s", tail, err, out.String())
		}
	}
	if got := asked.has("sinceTime=2026-11-27T12%3A00%3A00Z"); len(got) != 5 {
		t.Errorf("lines before the run are asked for: %q", asked.all)
	}
}

func TestTheLastLinesOfARunAreFollowedByThoseThatItLogsLater(t *testing.T) {
	t.Parallel()
	before := []string{mine(1, "a"), mine(2, "b"), others(3, "x")}
	pods, asked := server(t, map[string]http.HandlerFunc{"lab-0": func(w http.ResponseWriter, r *http.Request) {
		text(before...)(w, r)
		if r.URL.Query().Get("follow") == "true" {
			text(others(4, "y"), mine(5, "c"))(w, r)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	out, done := &sink{}, make(chan error)
	r := &reading{pods: pods, flags: flags{tail: 1, follow: true}, of: sharing(t), note: unnoted(t), hold: 20 * time.Millisecond}
	go func() { done <- r.print(ctx, nil, out) }()
	out.until(t, mine(5, "c"))
	cancel()
	if err := <-done; err != nil || out.all() != "[lab-0] "+mine(2, "b")+"[lab-0] "+mine(5, "c") {
		t.Errorf("%v\n%s", err, out.all())
	}
	if len(asked.has("follow=true")) != 1 || len(asked.all) != 2 {
		t.Errorf("asked %q", asked.all)
	}
}

// sink is written by one goroutine and read by another.
type sink struct {
	lock sync.Mutex
	text strings.Builder
}

func (s *sink) Write(text []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.text.Write(text)
}

func (s *sink) all() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.text.String()
}

func (s *sink) until(t *testing.T, want string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !strings.HasSuffix(s.all(), want); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %q in\n%s", want, s.all())
		}
	}
}

func TestLogsAreFollowedInOrderThroughABrokenConnection(t *testing.T) {
	t.Parallel()
	early, later := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	write := func(w http.ResponseWriter, lines ...string) {
		text(lines...)(w, nil)
		w.(http.Flusher).Flush()
	}
	var lock sync.Mutex
	connections := 0
	pods, asked := server(t, map[string]http.HandlerFunc{
		"lab-0": func(w http.ResponseWriter, r *http.Request) {
			lock.Lock()
			connections++
			first := connections == 1
			lock.Unlock()
			if first {
				write(w, at(5, "second"))
				close(early)
				<-later
				panic(http.ErrAbortHandler) // the connection breaks
			}
			write(w, at(5, "second"), at(8, "third"))
			<-r.Context().Done()
		},
		"lab-1": func(w http.ResponseWriter, r *http.Request) {
			<-early
			write(w, at(1, "first"))
			<-r.Context().Done() // silent from now on
		},
	})
	out := &sink{}
	r := &reading{pods: pods, flags: flags{tail: -1, follow: true}, of: of("lab-0", "lab-1"), note: unnoted(t), hold: 300 * time.Millisecond}
	done := make(chan error)
	go func() { done <- r.print(ctx, nil, out) }()
	out.until(t, "[lab-1] "+at(1, "first")+"[lab-0] "+at(5, "second"))
	close(later)
	out.until(t, "[lab-0] "+at(8, "third"))
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := strings.Count(out.all(), "second"); got != 1 {
		t.Errorf("a line is printed %d times\n%s", got, out.all())
	}
	if got := asked.has("lab-0/log"); len(got) != 2 || !strings.Contains(got[1], "sinceTime=2026-11-27T12%3A00%3A00Z") {
		t.Errorf("asked %q", got)
	}
}

func TestPodsThatAreCreatedAreFollowedUntilTheRunEnds(t *testing.T) {
	t.Parallel()
	pods, _ := server(t, map[string]http.HandlerFunc{
		"lab-0": text(at(1, "it broke")),
		"lab-0-retry1": func(w http.ResponseWriter, r *http.Request) {
			text(at(2, "it goes on"))(w, r)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	})
	looks := 0
	changing := &target{title: "run imix-1", namespace: "tests", look: func(context.Context) (present, error) {
		looks++
		switch looks {
		case 1:
			return present{pods: []string{"lab-0"}}, nil
		case 2:
			return present{}, errors.New("the API server is away")
		}
		return present{pods: []string{"lab-0", "lab-0-retry1"}, ended: looks > 3}, nil
	}}
	var out bytes.Buffer
	r := &reading{pods: pods, flags: flags{tail: -1, follow: true}, of: changing, note: unnoted(t), hold: 20 * time.Millisecond}
	if err := r.print(t.Context(), nil, &out); err != nil || out.String() != "[lab-0] "+at(1, "it broke")+"[lab-0-retry1] "+at(2, "it goes on") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestLinesOfTheOperatorAreThoseAboutTheTarget(t *testing.T) {
	t.Parallel()
	operator := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "spate-system", Name: "spate-operator-0", Labels: cluster.OperatorLabels()}}
	operator.Spec.Containers = []corev1.Container{{Name: "manager"}}
	about := `{"level":"error","msg":"retrying","TrafficGenerator":{"name":"lab","namespace":"tests"}}`
	pods, asked := server(t, map[string]http.HandlerFunc{
		"lab-0": text(at(1, "a")),
		"spate-operator-0": text(at(0, about), at(2, `{"name":"lab","namespace":"other"}`), at(3, `{"name":"lab-2","namespace":"tests"}`), at(4, "generator tests/lab: done"),
			at(5, "the label of collab in tests")),
	})
	connection := &cluster.Connection{Client: clientWith(t, operator)}
	var out bytes.Buffer
	r := &reading{pods: pods, flags: flags{tail: -1, operator: true, operatorNamespace: "spate-system"}, of: of("lab-0"), note: unnoted(t)}
	want := "[spate-operator-0] " + at(0, about) + "[lab-0] " + at(1, "a") + "[spate-operator-0] " + at(4, "generator tests/lab: done")
	if err := r.print(t.Context(), connection, &out); err != nil || out.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out.String(), want)
	}
	if got := asked.has("container=manager"); len(got) != 1 {
		t.Errorf("asked %q", asked.all)
	}

	// Without the right to the operator's pods, or without pods, that is said, and the engines' lines are printed.
	for want, client := range map[string]kube.WithWatch{
		"the operator's lines are omitted: pods is forbidden": interceptor.NewClient(clientWith(t), interceptor.Funcs{
			List: func(context.Context, kube.WithWatch, kube.ObjectList, ...kube.ListOption) error {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
			},
		}),
		"the operator's lines are omitted: it has no pods in namespace spate-system": clientWith(t),
	} {
		var notes []string
		out.Reset()
		r := &reading{
			pods: pods, flags: flags{tail: -1, operator: true, operatorNamespace: "spate-system"}, of: of("lab-0"),
			note: func(format string, values ...any) { notes = append(notes, fmt.Sprintf(format, values...)) },
		}
		err := r.print(t.Context(), &cluster.Connection{Client: client}, &out)
		if err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], want) || out.String() != "[lab-0] "+at(1, "a") {
			t.Errorf("%v %q\n%s", err, notes, out.String())
		}
	}
}

func TestALogThatCannotBeReadIsAnErrorAfterTheOthers(t *testing.T) {
	t.Parallel()
	forbidden := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		status := apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, "lab-1", nil).Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		_ = json.NewEncoder(w).Encode(status)
	}
	pods, _ := server(t, map[string]http.HandlerFunc{"lab-0": text(at(1, "a")), "lab-1": forbidden})
	var out bytes.Buffer
	r := &reading{pods: pods, flags: flags{tail: -1}, of: of("lab-0", "lab-1"), note: unnoted(t)}
	if err := r.print(t.Context(), nil, &out); err == nil || !strings.Contains(err.Error(), "pod lab-1: ") || !strings.Contains(err.Error(), "bind the ClusterRole view in namespace tests") || out.String() != "[lab-0] "+at(1, "a") {
		t.Errorf("%v\n%s", err, out.String())
	}
	r = &reading{pods: pods, flags: flags{tail: -1}, of: of(), note: unnoted(t)}
	if err := r.print(t.Context(), nil, &out); err == nil || err.Error() != "generator lab has no engine pods" {
		t.Error(err)
	}
}

func TestLogsAreOfTheObjectThatTheArgumentNames(t *testing.T) {
	t.Parallel()
	run := plugintest.RunNamed("imix-1", "imix", start)
	run.Status.Resolved = &spatev1.ResolvedRun{Generator: spatev1.GeneratorSnapshot{Namespace: "tests", Name: "lab", Pods: []spatev1.PodSnapshot{{Name: "lab-0"}}}}
	lab := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab"}, Status: spatev1.TrafficGeneratorStatus{Pods: []spatev1.GeneratorPodStatus{{Name: "lab-9"}}}}
	same := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "imix"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab-0", Labels: podspec.Labels(lab)}}
	profile := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "new"}}
	reader := clientWith(t, run, plugintest.RunNamed("fresh", "", start), lab, same, pod, profile)
	for argument, want := range map[string]struct {
		title, failure string
		pods           []string
		notes          int
	}{
		"imix-1":         {title: "run imix-1", pods: []string{"lab-0"}},
		"imix":           {title: "run imix-1", pods: []string{"lab-0"}, notes: 1},
		"tr/imix-1":      {title: "run imix-1", pods: []string{"lab-0"}},
		"profile/imix":   {title: "run imix-1", pods: []string{"lab-0"}},
		"generator/imix": {title: "generator imix"},
		"lab":            {title: "generator lab", pods: []string{"lab-0"}},
		"fresh":          {failure: "run fresh has no engine pods: it waits for its generator"},
		"new":            {failure: "TrafficProfile new has no run; see kubectl spate events new"},
		"run/imix":       {title: "run imix-1", pods: []string{"lab-0"}},
		"none":           {failure: `there is no TrafficRun, TrafficProfile or TrafficGenerator "none" in namespace tests`},
		"tg/none":        {failure: `there is no TrafficGenerator "none" in namespace tests`},
		"run/lab":        {failure: `there is no TrafficRun or TrafficProfile "lab"`},
		"pod/lab-0":      {failure: "pod/lab-0: must be a name, or one of run/NAME, profile/NAME, generator/NAME"},
	} {
		notes := 0
		found, err := find(t.Context(), reader, "tests", argument, func(string, ...any) { notes++ })
		if want.failure != "" {
			if err == nil || !strings.HasPrefix(err.Error(), want.failure) {
				t.Errorf("%s: %v", argument, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", argument, err)
			continue
		}
		if now, err := found.look(t.Context()); err != nil || found.title != want.title || !slices.Equal(now.pods, want.pods) || notes != want.notes {
			t.Errorf("%s: %s %+v %v, %d notes", argument, found.title, now, err, notes)
		}
	}
	forbidden := interceptor.NewClient(reader, interceptor.Funcs{
		List: func(ctx context.Context, client kube.WithWatch, list kube.ObjectList, options ...kube.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
			}
			return client.List(ctx, list, options...)
		},
	})
	if now, err := ofGenerator(forbidden, lab).look(t.Context()); err != nil || !slices.Equal(now.pods, []string{"lab-9"}) {
		t.Errorf("%v %v", now, err)
	}
}

func TestTheCommandReadsLogsByTheKubeconfig(t *testing.T) {
	t.Parallel()
	answers := map[string]any{
		"/api":                     metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
		"/apis":                    metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{groupOf("spate.dev", "v1alpha1")}},
		"/apis/spate.dev":          groupOf("spate.dev", "v1alpha1"),
		"/api/v1":                  resourcesOf("v1", "Pod", "pods"),
		"/apis/spate.dev/v1alpha1": resourcesOf("spate.dev/v1alpha1", "TrafficRun", "trafficruns", "TrafficProfile", "trafficprofiles", "TrafficGenerator", "trafficgenerators"),
		"/apis/spate.dev/v1alpha1/namespaces/tests/trafficruns": spatev1.TrafficRunList{TypeMeta: metav1.TypeMeta{APIVersion: "spate.dev/v1alpha1", Kind: "TrafficRunList"}},
		"/apis/spate.dev/v1alpha1/namespaces/tests/trafficgenerators/lab": spatev1.TrafficGenerator{
			TypeMeta: metav1.TypeMeta{APIVersion: "spate.dev/v1alpha1", Kind: "TrafficGenerator"}, ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab"},
		},
		"/api/v1/namespaces/tests/pods": corev1.PodList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab-1"}}, {ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab-0"}}},
		},
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/namespaces/tests/pods/lab-0/log":
			text(at(2, "later"))(w, r)
			return
		case "/api/v1/namespaces/tests/pods/lab-1/log":
			text(at(1, "earlier"))(w, r)
			return
		}
		answer, known := answers[r.URL.Path]
		if !known {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			answer = metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(s.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": %q}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}`, s.URL)
	if err := os.WriteFile(kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, string, error) {
		return plugintest.Run("", append([]string{"logs", "-n", "tests", "--kubeconfig", kubeconfig}, args...), NewCommand())
	}
	if out, messages, err := run("lab"); err != nil || messages != "" || out != "[lab-1] "+at(1, "earlier")+"[lab-0] "+at(2, "later") {
		t.Errorf("%v %s\n%s", err, messages, out)
	}
	if _, _, err := run("lab", "--tail", "-2"); err == nil {
		t.Error("--tail -2 is accepted")
	}
	if _, _, err := run("lab", "-c", "bird"); err == nil || err.Error() != "--container bird: must be engine or routing" {
		t.Error(err)
	}
}

func groupOf(name, version string) metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + version, Version: version}
	return metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
}

// resourcesOf describes resources by their kinds and plural names, in turn.
func resourcesOf(version string, names ...string) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: version}
	for pair := range slices.Chunk(names, 2) {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: pair[1], Kind: pair[0], Namespaced: true, Verbs: []string{"get", "list"}})
	}
	return list
}

func TestALineThatIsHeldIsReleasedWithThoseBeforeIt(t *testing.T) {
	t.Parallel()
	var written []string
	m := &merger{hold: time.Second, pending: map[string]int{}, write: func(l line) error {
		written = append(written, l.text)
		return nil
	}}
	for _, source := range []string{"a", "b", "c"} {
		m.take(change{line: line{source: source}, opened: true})
	}
	read := func(source, text string, ms, arrived int) {
		m.take(change{line: line{source: source, text: text, at: start.Add(time.Duration(ms) * time.Millisecond), arrived: start.Add(time.Duration(arrived) * time.Millisecond)}})
	}
	read("a", "2", 20, 0)
	read("b", "1", 10, 900)
	read("b", "3", 30, 900)
	for _, c := range []struct {
		after int
		want  string
	}{{500, ""}, {1000, "1 2"}, {1800, "1 2"}, {1900, "1 2 3"}} {
		if err := errors.Join(m.release(), m.expire(start.Add(time.Duration(c.after)*time.Millisecond))); err != nil || strings.Join(written, " ") != c.want {
			t.Errorf("after %d ms: %v %q, want %q", c.after, err, written, c.want)
		}
	}
	// Once each open log has a line, the earliest is not held.
	read("a", "5", 50, 2000)
	read("b", "4", 40, 2000)
	m.take(change{line: line{source: "c"}, ended: true})
	if err := m.release(); err != nil || strings.Join(written, " ") != "1 2 3 4" {
		t.Errorf("%v %q", err, written)
	}
}
