// SPDX-License-Identifier: Apache-2.0

package events

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/podspec"
)

// noon is when the tests look.
var noon = time.Unix(1_700_000_000, 0)

// event returns an event of an object, a number of seconds before noon.
func event(name, kind, object string, ago int, message string) *corev1.Event {
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: name, UID: types.UID(name)}, Type: corev1.EventTypeNormal, Reason: "Because", Message: message}
	e.InvolvedObject = corev1.ObjectReference{APIVersion: spatev1.GroupVersion.String(), Kind: kind, Namespace: "tests", Name: object}
	if kind == "Pod" || kind == "Deployment" {
		e.InvolvedObject.APIVersion = "v1"
	}
	e.EventTime = metav1.NewMicroTime(noon.Add(-time.Duration(ago) * time.Second))
	e.ReportingController, e.ReportingInstance = "spate-operator", "spate-operator-0"
	return e
}

// room is a namespace with two generators, runs of two profiles and one of a search, and events of them and of others.
func room(t *testing.T, more ...kube.Object) kube.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{spatev1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	lab, spare := &spatev1.TrafficGenerator{}, &spatev1.TrafficGenerator{}
	lab.Namespace, lab.Name, spare.Namespace, spare.Name = "tests", "lab", "tests", "spare"
	lab.Status.Pods = []spatev1.GeneratorPodStatus{{Name: "lab-0"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "spare-0", Labels: podspec.Labels(spare)}}
	run := plugintest.RunNamed("imix-1", "imix", noon)
	run.Status.Resolved = &spatev1.ResolvedRun{Generator: spatev1.GeneratorSnapshot{Namespace: "tests", Name: "lab", Pods: []spatev1.PodSnapshot{{Name: "lab-0"}}}}
	away := plugintest.RunNamed("web-1", "web", noon)
	away.Status.Resolved = &spatev1.ResolvedRun{Generator: spatev1.GeneratorSnapshot{Namespace: "shared", Name: "big", Pods: []spatev1.PodSnapshot{{Name: "big-0"}}}}
	trial := plugintest.RunNamed("router-64", "forwarding", noon)
	controller := true
	trial.OwnerReferences = []metav1.OwnerReference{{APIVersion: spatev1.GroupVersion.String(), Kind: "TrafficSearch", Name: "router", UID: "router", Controller: &controller}}
	profile := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "imix"}}
	search := &spatev1.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "router"}}

	started := event("e7", "TrafficRun", "imix-1", 10, "sends")
	repeated := event("e6", "Pod", "lab-0", 300, "probe\n failed")
	repeated.Type, repeated.Series = corev1.EventTypeWarning, &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(noon.Add(-20 * time.Second))}
	created := event("e1", "TrafficGenerator", "lab", 600, "created pod lab-1")
	created.Related = &corev1.ObjectReference{Kind: "Pod", Namespace: "tests", Name: "lab-1"}
	old := event("e2", "Pod", "lab-1", 590, "scheduled")
	old.EventTime, old.FirstTimestamp, old.LastTimestamp, old.Count = metav1.MicroTime{}, metav1.NewTime(noon.Add(-590*time.Second)), metav1.NewTime(noon.Add(-580*time.Second)), 2
	old.ReportingController, old.ReportingInstance, old.Source = "", "", corev1.EventSource{Component: "scheduler"}
	objects := []kube.Object{
		lab, spare, pod, run, away, trial, profile, search, started, repeated, created, old, event("e3", "Pod", "spare-0", 500, "pulled"), event("e4", "TrafficProfile", "imix", 30, "created run imix-1"),
		event("e5", "TrafficRun", "router-64", 25, "trial"), event("e8", "Pod", "nginx", 5, "of others"), event("e9", "Deployment", "web", 4, "of others"),
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, more...)...).Build()
}

// named is the argument of a command line; nil without one.
func named(t *testing.T, argument string) *cluster.Argument {
	t.Helper()
	if argument == "" {
		return nil
	}
	of, err := cluster.ParseArgument(argument, kinds...)
	if err != nil {
		t.Fatal(err)
	}
	return &of
}

func TestEventsOfSpatesObjectsAndPodsAreShownInOrder(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"":          {"e1", "e2", "e3", "e4", "e5", "e6", "e7"},
		"lab":       {"e1", "e2", "e6"},
		"spare":     {"e3"},
		"imix":      {"e4", "e6", "e7"},
		"imix-1":    {"e6", "e7"},
		"router":    {"e5"},
		"router-64": {"e5"},
		"web":       nil,
		// One of several objects with the name.
		"profile/imix":  {"e4", "e6", "e7"},
		"generator/lab": {"e1", "e2", "e6"},
		"tr/imix-1":     {"e6", "e7"},
		"search/router": {"e5"},
	} {
		var notes []string
		list, found, err := (&scope{reader: room(t), namespace: "tests", of: named(t, name), note: func(text string) { notes = append(notes, text) }}).list(t.Context())
		if err != nil || !found {
			t.Fatalf("%q: %v %v", name, found, err)
		}
		var got []string
		for i := range list.Items {
			got = append(got, list.Items[i].Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
		if away := name == "web"; away != (len(notes) == 1 && notes[0] == "pods of run web-1 are in another namespace: kubectl spate events big -n shared") {
			t.Errorf("%q: %q", name, notes)
		}
	}
	if list, found, err := (&scope{reader: room(t), namespace: "tests", of: named(t, "run/lab")}).list(t.Context()); found || err != nil || len(list.Items) > 0 {
		t.Errorf("no run is called lab: %v %v %v", list, found, err)
	}
	s := &scope{reader: room(t), namespace: "tests", of: named(t, "nonesuch")}
	if _, err := show(t.Context(), s, newPrinter(&bytes.Buffer{}, formed(""), false), false); err == nil || !strings.HasPrefix(err.Error(), `there is no TrafficRun, TrafficProfile, TrafficGenerator or TrafficSearch "nonesuch" in namespace tests`) {
		t.Error(err)
	}
}

// formed is the flag -o with a value.
func formed(form string) *output.Flag {
	var f output.Flag
	f.Choose(form)
	return &f
}

// shownOf returns what is printed of a name.
func shownOf(t *testing.T, form, name string, namespaces bool) string {
	t.Helper()
	var out bytes.Buffer
	p := newPrinter(&out, formed(form), namespaces)
	p.now = func() time.Time { return noon }
	if _, err := show(t.Context(), &scope{reader: room(t), namespace: "tests", of: named(t, name), note: func(string) {}}, p, false); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestColumnsAreThoseOfKubectl(t *testing.T) {
	t.Parallel()
	if got, want := shownOf(t, "", "lab", false), `LAST SEEN               TYPE      REASON    OBJECT                 MESSAGE
10m                     Normal    Because   TrafficGenerator/lab   created pod lab-1
9m40s (x2 over 9m50s)   Normal    Because   Pod/lab-1              scheduled
20s (x3 over 5m)        Warning   Because   Pod/lab-0              probe failed
`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := shownOf(t, "wide", "imix-1", true), `NAMESPACE   LAST SEEN          TYPE      REASON    OBJECT              SOURCE                             MESSAGE        FIRST SEEN   COUNT   NAME
tests       20s (x3 over 5m)   Warning   Because   Pod/lab-0           spate-operator, spate-operator-0   probe failed   5m           3       e6
tests       10s                Normal    Because   TrafficRun/imix-1   spate-operator, spate-operator-0   sends          10s          1       e7
`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := shownOf(t, "", "web", false); got != "No events.\n" {
		t.Errorf("got %q", got)
	}
	var list corev1.EventList
	if err := json.Unmarshal([]byte(shownOf(t, "json", "lab", false)), &list); err != nil || len(list.Items) != 3 || list.Kind != "EventList" || list.Items[0].Kind != "Event" {
		t.Errorf("%v %+v", err, list)
	}
	if got := shownOf(t, "yaml", "web", false); !strings.Contains(got, "items: []\n") {
		t.Error(got)
	}
	if got, want := shownOf(t, "csv", "imix-1", false), `namespace,lastSeen,firstSeen,count,type,reason,kind,name,source,message,event
tests,2023-11-14T22:13:00Z,2023-11-14T22:08:20Z,3,Warning,Because,Pod,lab-0,"spate-operator, spate-operator-0","probe
 failed",e6
tests,2023-11-14T22:13:10Z,2023-11-14T22:13:10Z,1,Normal,Because,TrafficRun,imix-1,"spate-operator, spate-operator-0",sends,e7
`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWithoutTheRightToPodsThoseOfGeneratorsAreKnown(t *testing.T) {
	t.Parallel()
	forbidden := func(ctx context.Context, reader kube.WithWatch, list kube.ObjectList, options ...kube.ListOption) error {
		if _, pods := list.(*corev1.PodList); pods {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
		}
		return reader.List(ctx, list, options...)
	}
	reader := interceptor.NewClient(room(t), interceptor.Funcs{List: forbidden})
	var notes []string
	list, err := List(t.Context(), reader, "tests", func(text string) { notes = append(notes, text) })
	if err != nil || len(list.Items) != 6 || len(notes) != 1 || !strings.Contains(notes[0], "only pods that generators report are included: ") {
		t.Errorf("%v %q\n%+v", err, notes, list)
	}
	refused := func(context.Context, kube.WithWatch, kube.ObjectList, ...kube.ListOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil)
	}
	if _, err := List(t.Context(), interceptor.NewClient(room(t), interceptor.Funcs{List: refused}), "tests", nil); err == nil || !strings.Contains(err.Error(), "bind the ClusterRole view") {
		t.Error(err)
	}
}

// screen is written by one goroutine and read by another.
type screen struct {
	lock sync.Mutex
	text strings.Builder
}

func (s *screen) Write(text []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.text.Write(text)
}

// until waits for the text, and returns all that is there.
func (s *screen) until(t *testing.T, want string) string {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		s.lock.Lock()
		all := s.text.String()
		s.lock.Unlock()
		if strings.Contains(all, want) {
			return all
		}
		if time.Now().After(end) {
			t.Fatalf("no %q in\n%s", want, all)
		}
	}
}

func TestEventsAreWatched(t *testing.T) {
	t.Parallel()
	reader := room(t)
	watched := make(chan struct{}, 9)
	watching := interceptor.NewClient(reader, interceptor.Funcs{
		Watch: func(ctx context.Context, client kube.WithWatch, list kube.ObjectList, options ...kube.ListOption) (w watch.Interface, err error) {
			w, err = client.Watch(ctx, list, options...)
			watched <- struct{}{}
			return w, err
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	out := &screen{}
	p := newPrinter(out, formed(""), false)
	p.now = func() time.Time { return noon }
	s := &scope{reader: reader, namespace: "tests", of: named(t, "imix"), note: func(string) {}}
	version, err := show(ctx, s, p, true)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- watchFrom(ctx, watching, s, p, version) }()
	<-watched
	// A run that the profile starts, and events of it, of one of another profile, and of others.
	objects := []kube.Object{
		plugintest.RunNamed("imix-2", "imix", noon), plugintest.RunNamed("dns-1", "dns", noon),
		event("f1", "Pod", "nginx", 3, "not shown"), event("f2", "TrafficRun", "dns-1", 3, "not shown"), event("f3", "TrafficRun", "imix-2", 2, "Pending"), event("f4", "TrafficProfile", "imix", 1, "created run imix-2"),
	}
	for _, o := range objects {
		if err := reader.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	all := out.until(t, "created run imix-2\n")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if strings.Contains(all, "not shown") || strings.Count(all, "LAST SEEN") != 1 || strings.Count(all, "\n") != 6 || !strings.Contains(all, "TrafficRun/imix-2") {
		t.Errorf("got\n%s", all)
	}
}

func TestEventsThatAreListedAgainArePrintedOnce(t *testing.T) {
	t.Parallel()
	reader, watches := room(t), 0
	ctx, cancel := context.WithCancel(t.Context())
	// The first watch is refused as too old, the second ends at once, and the third lasts.
	expiring := interceptor.NewClient(reader, interceptor.Funcs{
		Watch: func(ctx context.Context, client kube.WithWatch, list kube.ObjectList, options ...kube.ListOption) (watch.Interface, error) {
			watches++
			w, err := client.Watch(ctx, list, options...)
			switch watches {
			case 1:
				return nil, apierrors.NewResourceExpired("too old")
			case 2:
				w.Stop()
			case 3:
				cancel()
				w.Stop()
			}
			return w, err
		},
	})
	var out bytes.Buffer
	p := newPrinter(&out, formed("json"), false)
	s := &scope{reader: reader, namespace: "tests", of: named(t, "imix"), note: func(string) {}}
	version, err := show(ctx, s, p, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := watchFrom(ctx, expiring, s, p, version); err != nil || watches != 3 {
		t.Errorf("%d watches: %v", watches, err)
	}
	var names []string
	for decoder := json.NewDecoder(&out); decoder.More(); {
		var e corev1.Event
		if err := decoder.Decode(&e); err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Name)
	}
	if fmt.Sprint(names) != "[e4 e6 e7]" {
		t.Errorf("printed %q", names)
	}
}
