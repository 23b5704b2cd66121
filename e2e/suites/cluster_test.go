// SPDX-License-Identifier: Apache-2.0

// Access to the real cluster: tests apply objects as a user writes them, wait for them, and delete them.

package suites

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
)

const (
	operatorNamespace = "spate-system"
	testLabel         = "spate.dev/test" // on every namespace that a test creates
	pollInterval      = 100 * time.Millisecond
)

var (
	kube client.Client
	// root of the checkout, for the scripts of the device under test and of Prometheus.
	root string
)

func TestMain(m *testing.M) {
	code, err := setUp(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the suites need the demo's cluster (make e2e brings it):", err)
		os.Exit(1)
	}
	os.Exit(code)
}

func setUp(m *testing.M) (int, error) {
	root = os.Getenv("SPATE_ROOT")
	if root == "" {
		return 1, errors.New("SPATE_ROOT, the checkout's folder, is not set")
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), spate.AddToScheme(scheme)); err != nil {
		return 1, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return 1, err
	}
	config.QPS, config.Burst = 100, 200
	if kube, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	if !external {
		if _, err := script("e2e/dut/router", "up"); err != nil {
			return 1, err
		}
		if _, err := script("e2e/prometheus/start", "/run/prometheus"); err != nil {
			return 1, err
		}
	}
	code := m.Run()
	if err := namespacesGone(90 * time.Second); err != nil {
		fmt.Fprintln(os.Stderr, "left behind:", err)
		return 1, nil
	}
	return code, nil
}

// namespacesGone waits until every namespace of the tests is deleted: no finalizer in one may block that.
func namespacesGone(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for {
		var namespaces corev1.NamespaceList
		err := kube.List(ctx, &namespaces, client.HasLabels{testLabel})
		if err == nil && len(namespaces.Items) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			for _, ns := range namespaces.Items {
				err = errors.Join(err, fmt.Errorf("namespace %s after %s: %+v", ns.Name, limit, ns.Status.Conditions))
			}
			return err
		case <-time.After(pollInterval):
		}
	}
}

// script runs a program of the checkout and returns its trimmed output.
func script(path string, args ...string) (string, error) {
	cmd := exec.Command(filepath.Join(root, path), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", path, strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// runAll runs commands, of words without quotes, where the suites run: on the node.
func runAll(t *testing.T, commands ...string) {
	t.Helper()
	for _, command := range commands {
		words := strings.Fields(command)
		if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
}

// router drives the device under test.
func router(t *testing.T, command ...string) string {
	t.Helper()
	out, err := script("e2e/dut/router", command...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// namespace creates a namespace for one test and deletes it afterwards. It waits for the deletion of the pods, whose
// CPU and hugepages the next test needs, and not of the namespace, which takes 10 s more: TestMain waits for all
// namespaces.
func namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: map[string]string{testLabel: ""}}}
	if err := kube.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			explain(t, ns.Name)
		}
		if err := kube.Delete(context.Background(), ns); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
		until(t, 90*time.Second, "the pods of namespace "+ns.Name+" are gone", func(ctx context.Context) (bool, string) {
			var pods corev1.PodList
			err := kube.List(ctx, &pods, client.InNamespace(ns.Name))
			names := make([]string, 0, len(pods.Items))
			for _, pod := range pods.Items {
				names = append(names, pod.Name)
			}
			return err == nil && len(names) == 0, fmt.Sprint(names, err)
		})
	})
	return ns.Name
}

// explain prints what a user would look at after a failure.
func explain(t *testing.T, ns string) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "spate,pods,events", "-n", ns, "-o", "wide"},
		{"describe", "spate", "-n", ns},
		{"logs", "-n", ns, "-l", "app.kubernetes.io/name=spate-engine", "--tail=30", "--prefix"},
		{"logs", "-n", operatorNamespace, "-l", "app.kubernetes.io/name=spate-operator", "--tail=30"},
	} {
		out, _ := exec.Command("kubectl", args...).CombinedOutput()
		t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
	}
}

// apply creates or updates the objects of a manifest, as `kubectl apply` does, and returns the first error. An unknown
// field is one.
func apply(ctx context.Context, ns, manifest string) error {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue
		}
		object.SetNamespace(ns)
		err := client.WithFieldValidation(kube, metav1.FieldValidationStrict).Patch(ctx, &object, client.Apply, client.FieldOwner("e2e"), client.ForceOwnership) //nolint:staticcheck // unstructured objects have no apply configuration
		if err != nil {
			return err
		}
	}
}

// applyStrict applies with strict field validation, as kubectl does: an unknown field is an error.
func applyStrict(t *testing.T, ns, manifest string) error {
	t.Helper()
	return client.NewNamespacedClient(client.WithFieldValidation(kube, metav1.FieldValidationStrict), ns).Create(t.Context(), decode(t, manifest))
}

// decode returns the one object of a manifest.
func decode(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	var object unstructured.Unstructured
	if err := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096).Decode(&object); err != nil {
		t.Fatal(err)
	}
	return &object
}

func mustApply(t *testing.T, ns, manifest string) {
	t.Helper()
	if err := apply(t.Context(), ns, manifest); err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
}

// until polls until a condition holds; on timeout it fails with what was last seen.
func until(t *testing.T, limit time.Duration, what string, holds func(context.Context) (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	last := ""
	for {
		ok, seen := holds(ctx)
		if ok {
			return
		}
		if last == "" || ctx.Err() == nil { // what was interrupted has seen nothing
			last = seen
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not within %s; last seen: %s", what, limit, last)
		case <-time.After(pollInterval):
		}
	}
}

func conditionsOf(object client.Object) []metav1.Condition {
	switch o := object.(type) {
	case *spate.TrafficProfile:
		return o.Status.Conditions
	case *spate.TrafficGenerator:
		return o.Status.Conditions
	case *spate.StatelessStream:
		return o.Status.Conditions
	case *spate.TrafficSearch:
		return o.Status.Conditions
	case *spate.TrafficRun:
		return o.Status.Conditions
	case *spate.ASTFTemplate:
		return o.Status.Conditions
	}
	panic(fmt.Sprintf("%T has no conditions here", object))
}

func profileNamed(ns, name string) *spate.TrafficProfile {
	return &spate.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

func generatorNamed(ns, name string) *spate.TrafficGenerator {
	return &spate.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

func get(ctx context.Context, object client.Object) error {
	return kube.Get(ctx, client.ObjectKeyFromObject(object), object)
}

// condition waits until a condition of the object's current generation has a status, and returns it.
func condition(t *testing.T, limit time.Duration, object client.Object, conditionType string, status metav1.ConditionStatus) metav1.Condition {
	t.Helper()
	var found metav1.Condition
	what := fmt.Sprintf("%s: %s=%s", object.GetName(), conditionType, status)
	until(t, limit, what, func(ctx context.Context) (bool, string) {
		if err := get(ctx, object); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(conditionsOf(object), conditionType)
		if c == nil || c.Status != status || c.ObservedGeneration != object.GetGeneration() {
			return false, fmt.Sprintf("%+v", conditionsOf(object))
		}
		found = *c
		return true, ""
	})
	return found
}

// readyReason waits until a generator is not ready for a reason.
func readyReason(t *testing.T, limit time.Duration, g *spate.TrafficGenerator, reason string, words ...string) metav1.Condition {
	t.Helper()
	var c metav1.Condition
	until(t, limit, "reason "+reason, func(context.Context) (bool, string) {
		c = condition(t, limit, g, spate.ConditionReady, metav1.ConditionFalse)
		return c.Reason == reason, c.Reason + ": " + c.Message
	})
	expect(t, c, reason, words...)
	return c
}

// complete waits for a profile's run to end and returns the run.
func complete(t *testing.T, limit time.Duration, p *spate.TrafficProfile) *spate.TrafficRun {
	t.Helper()
	condition(t, limit, p, spate.ConditionComplete, metav1.ConditionTrue)
	return currentRun(t, p)
}

// currentRun returns the run that a profile's status names.
func currentRun(t *testing.T, p *spate.TrafficProfile) *spate.TrafficRun {
	t.Helper()
	if p.Status.CurrentRun == nil {
		t.Fatalf("%s has no current run", p.Name)
	}
	run := &spate.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Status.CurrentRun.Name}}
	if err := get(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	return run
}

// phase waits until a profile is in a phase.
func phase(t *testing.T, limit time.Duration, p *spate.TrafficProfile, want spate.ProfilePhase) {
	t.Helper()
	until(t, limit, p.Name+" is "+string(want), func(ctx context.Context) (bool, string) {
		if err := get(ctx, p); err != nil {
			return false, err.Error()
		}
		return p.Status.Phase == want, fmt.Sprintf("%s %+v", p.Status.Phase, p.Status.Conditions)
	})
}

// expect fails unless the condition has the reason and its message contains every word.
func expect(t *testing.T, c metav1.Condition, reason string, words ...string) {
	t.Helper()
	if reason != "" && c.Reason != reason {
		t.Errorf("%s=%s has reason %s, not %s: %s", c.Type, c.Status, c.Reason, reason, c.Message)
	}
	for _, word := range words {
		if !strings.Contains(c.Message, word) {
			t.Errorf("%s=%s (%s) does not name %q: %s", c.Type, c.Status, c.Reason, word, c.Message)
		}
	}
}

// invalid waits until a profile reports that its run's measurement is not valid, so that its verdict is unknown for the
// same reason, and returns the condition Valid.
func invalid(t *testing.T, p *spate.TrafficProfile, reason string, words ...string) metav1.Condition {
	t.Helper()
	valid := condition(t, 10*time.Second, p, spate.ConditionValid, metav1.ConditionFalse)
	expect(t, condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionUnknown), reason) // Unknown before the run's end, too
	expect(t, valid, reason, words...)
	return valid
}

// failed waits until a profile reports that its run's measurement is valid and that a threshold was missed.
func failed(t *testing.T, p *spate.TrafficProfile, words ...string) {
	t.Helper()
	expect(t, condition(t, 10*time.Second, p, spate.ConditionPassed, metav1.ConditionFalse), spate.ReasonThresholdMissed, words...)
	condition(t, 10*time.Second, p, spate.ConditionValid, metav1.ConditionTrue)
}

// enginePods lists a generator's pods.
func enginePods(ctx context.Context, ns, generator string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := kube.List(ctx, &pods, client.InNamespace(ns), client.MatchingLabels{"spate.dev/generator": generator})
	return pods.Items, err
}
