// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocks "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/podspec"
)

var began = time.Now().Truncate(time.Second)

func reconciler(t *testing.T, now time.Time, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&spatev1.TrafficCapture{}, &spatev1.TrafficPing{}, &spatev1.TrafficRecordsReader{}, &spatev1.TrafficStatsReader{}).Build()
	clock := clocks.NewFakePassiveClock(now)
	return &Reconciler{
		Client: c, Clock: clock, Certificates: &pki.Store{Client: c, Namespace: "spate-system", Policy: pki.DefaultPolicy(), Clock: clock},
		Endpoint: spatev1.LiveEndpoint{Namespace: "spate-system", Service: "spate-live", Port: "live", ServerName: pki.LiveName},
	}
}

func capture(change func(*spatev1.TrafficCapture)) *spatev1.TrafficCapture {
	c := &spatev1.TrafficCapture{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "c", CreationTimestamp: metav1.NewTime(began)}}
	c.Spec.GeneratorRef.Name, c.Spec.Ports = "lab", []spatev1.PortName{"east"}
	if change != nil {
		change(c)
	}
	return c
}

// lab is a generator with two running pods and one that is not.
func lab() []client.Object {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab"}}
	g.Spec.Ports = []spatev1.GeneratorPort{{Name: "east"}, {Name: "west"}}
	objects := []client.Object{g}
	for i, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodRunning, corev1.PodPending} {
		labels := podspec.Labels(g)
		labels[podspec.LabelIndex] = strconv.Itoa(2 - i)
		objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: fmt.Sprintf("lab-%d", 2-i), Labels: labels}, Status: corev1.PodStatus{Phase: phase}})
	}
	return objects
}

func TestACaptureIsAnsweredByWhereToReadOrWhatToMend(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*spatev1.TrafficCapture)
		others         []client.Object
		reason, reply  string
		pods           []string
		ready, waiting bool
	}{
		"all pods":       {nil, lab(), spatev1.ReasonAvailable, "the holder of spec.readerKey may read", []string{"lab-1", "lab-2"}, true, false},
		"one pod":        {func(c *spatev1.TrafficCapture) { c.Spec.Pods = []string{"lab-2"} }, lab(), spatev1.ReasonAvailable, "the holder of spec.readerKey may read", []string{"lab-2"}, true, false},
		"no generator":   {nil, nil, spatev1.ReasonReferenceNotFound, `spec.generatorRef: TrafficGenerator "lab" does not exist in namespace tests`, nil, false, false},
		"another port":   {func(c *spatev1.TrafficCapture) { c.Spec.Ports = []spatev1.PortName{"north"} }, lab(), spatev1.ReasonInvalidSpec, `spec.ports: "north" must be a port of TrafficGenerator lab: one of east, west`, nil, false, false},
		"another pod":    {func(c *spatev1.TrafficCapture) { c.Spec.Pods = []string{"lab-0"} }, lab(), spatev1.ReasonInvalidSpec, `spec.pods: "lab-0" must be a running pod of TrafficGenerator lab: one of lab-1, lab-2`, nil, false, false},
		"no pod as yet":  {nil, lab()[:1], spatev1.ReasonPodsPending, "TrafficGenerator lab has no running engine pod; see kubectl get tg lab -n tests", nil, false, true},
		"a pod not ours": {nil, append(lab()[:1], &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "x"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}), spatev1.ReasonPodsPending, "TrafficGenerator lab has no running engine pod; see kubectl get tg lab -n tests", nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			object := capture(c.change)
			r := reconciler(t, began.Add(time.Second), append(c.others, object)...)
			result, err := r.capture(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			ready := meta.FindStatusCondition(object.Status.Conditions, spatev1.ConditionReady)
			if ready == nil || ready.Reason != c.reason || ready.Message != c.reply || (ready.Status == metav1.ConditionTrue) != c.ready || fmt.Sprint(object.Status.Pods) != fmt.Sprint(c.pods) {
				t.Errorf("%+v, pods %v", ready, object.Status.Pods)
			}
			if e := object.Status.Endpoint; (e != nil) != c.ready || e != nil && (e.Service != "spate-live" || e.TrustBundle == "") {
				t.Errorf("%+v", e)
			}
			if want := unreadAfter - time.Second; c.waiting && result.RequeueAfter != awaitPods || !c.waiting && result.RequeueAfter != want {
				t.Errorf("again after %s", result.RequeueAfter)
			}
		})
	}
}

func eastPing(change func(*spatev1.TrafficPing)) *spatev1.TrafficPing {
	p := &spatev1.TrafficPing{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "p", CreationTimestamp: metav1.NewTime(began)}}
	p.Spec.GeneratorRef.Name, p.Spec.Port, p.Spec.Destination = "lab", "east", "198.18.0.254"
	if change != nil {
		change(p)
	}
	return p
}

func TestAPingIsRefusedByWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		ping    func(*spatev1.TrafficPing)
		limits  *spatev1.Limits
		message string
	}{
		"as it should be":          {nil, nil, ""},
		"allowed":                  {nil, &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"198.18.0.0/24"}}, ""},
		"another port":             {func(p *spatev1.TrafficPing) { p.Spec.Port = "north" }, nil, `spec.port: "north" must be a port of TrafficGenerator lab: one of east, west`},
		"no address of the port":   {func(p *spatev1.TrafficPing) { p.Spec.Port = "west" }, nil, `spec.port: "west" has no IPv4 address to ping 198.18.0.254 from: add one to spec.ports[].addresses of TrafficGenerator lab`},
		"no address of the family": {func(p *spatev1.TrafficPing) { p.Spec.Destination = "fd00::1" }, nil, `spec.port: "east" has no IPv6 address to ping fd00::1 from: add one to spec.ports[].addresses of TrafficGenerator lab`},
		"another destination":      {nil, &spatev1.Limits{AllowedDestinations: []spatev1.CIDR{"198.19.0.0/16"}}, "spec.destination: 198.18.0.254 is in none of limits.allowedDestinations [198.19.0.0/16] of TrafficGenerator lab"},
		"only TCP and UDP":         {nil, &spatev1.Limits{AllowedPorts: []spatev1.PortRange{"443"}}, "spec.destination: echo requests are neither TCP nor UDP, which are all that is allowed with limits.allowedPorts of TrafficGenerator lab"},
	} {
		t.Run(name, func(t *testing.T) {
			object, objects := eastPing(c.ping), lab()
			g := objects[0].(*spatev1.TrafficGenerator)
			g.Spec.Ports[0].Addresses, g.Spec.Limits = []spatev1.InterfaceAddress{"198.18.0.1/24"}, c.limits
			r := reconciler(t, began.Add(time.Second), append(objects, object)...)
			if _, err := r.ping(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}); err != nil {
				t.Fatal(err)
			}
			if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			ready := meta.FindStatusCondition(object.Status.Conditions, spatev1.ConditionReady)
			if c.message == "" && (ready.Status != metav1.ConditionTrue || len(object.Status.Pods) != 2) || c.message != "" && (ready.Reason != spatev1.ReasonInvalidSpec || ready.Message != c.message) {
				t.Errorf("%+v, pods %v", ready, object.Status.Pods)
			}
		})
	}
}

func TestWhatNobodyReadsIsDeleted(t *testing.T) {
	read := metav1.NewTime(began.Add(time.Hour))
	for name, c := range map[string]struct {
		at   time.Duration
		read *metav1.Time
		kept bool
	}{
		"new":         {unreadAfter - time.Second, nil, true},
		"never read":  {unreadAfter, nil, false},
		"read":        {time.Hour + unreadAfter - time.Second, &read, true},
		"read before": {time.Hour + unreadAfter, &read, false},
	} {
		object := capture(func(c2 *spatev1.TrafficCapture) { c2.Status.LastReadTime = c.read })
		reader := &spatev1.TrafficRecordsReader{ObjectMeta: object.ObjectMeta, Status: spatev1.LiveStatus{LastReadTime: c.read}}
		reader.Spec.RunRef.Name = "run"
		counters := &spatev1.TrafficStatsReader{ObjectMeta: object.ObjectMeta, Spec: spatev1.TrafficStatsReaderSpec{RunRef: reader.Spec.RunRef}, Status: reader.Status}
		ping := &spatev1.TrafficPing{ObjectMeta: object.ObjectMeta, Spec: eastPing(nil).Spec, Status: spatev1.LiveStatus{LastReadTime: c.read}}
		r := reconciler(t, began.Add(c.at), append(lab(), object, reader, counters, ping)...)
		request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)}
		for kind, reconcile := range map[client.Object]func() (ctrl.Result, error){
			object:   func() (ctrl.Result, error) { return r.capture(t.Context(), request) },
			reader:   func() (ctrl.Result, error) { return r.records(t.Context(), request) },
			counters: func() (ctrl.Result, error) { return r.stats(t.Context(), request) },
			ping:     func() (ctrl.Result, error) { return r.ping(t.Context(), request) },
		} {
			if _, err := reconcile(); err != nil {
				t.Fatal(err)
			}
			err := r.Client.Get(t.Context(), request.NamespacedName, kind)
			if (err == nil) != c.kept || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("%s: %T: %v", name, kind, err)
			}
		}
	}
}
