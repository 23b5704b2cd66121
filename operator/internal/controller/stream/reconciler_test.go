// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
)

const template = `
destinationPort: 80
connectionRate: 1cps
pools:
  clients: [{name: c, start: 16.0.0.1, end: 16.0.0.9}]
  servers: [{name: s, start: 48.0.0.1, end: 48.0.0.9}]
source:
  programs: {transport: TCP, client: [{send: {content: {text: GET}}}], server: [{receive: {bytes: 4}}]}
`

// refusing is an engine that refuses the server's first command, and counts its checks.
func refusing(t *testing.T) (c engine.Compiler, times func() int) {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "spate-engine")
	script := "#!/bin/sh\ncat > /dev/null\necho >> " + folder + `/asked
echo '{"errors": [{"field": "stateful.templates[0].server.instructions[0].receive.bytes", "description": "waits for 4 bytes"}]}'
exit 1
`
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return engine.Compiler{Binary: path}, func() int {
		text, _ := os.ReadFile(filepath.Join(folder, "asked"))
		return len(text)
	}
}

func TestReadyIsWhatAnEngineWouldRun(t *testing.T) {
	compiler, times := refusing(t)
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	object := &spatev1.ASTFTemplate{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "test", Generation: 1}}
	if err := yaml.UnmarshalStrict([]byte(template), &object.Spec); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(object).WithStatusSubresource(object).Build(), Compiler: compiler}
	judge := func() *metav1.Condition {
		t.Helper()
		key := client.ObjectKeyFromObject(object)
		if _, err := r.template(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		if err := r.Client.Get(t.Context(), key, object); err != nil {
			t.Fatal(err)
		}
		return meta.FindStatusCondition(object.Status.Conditions, spatev1.ConditionReady)
	}
	for range 2 { // checked once for a generation
		ready := judge()
		if ready == nil || ready.Status != metav1.ConditionFalse || times() != 1 ||
			!strings.Contains(ready.Message, "spec.source.programs.server[0].receive.bytes: the engine would refuse it: waits for 4 bytes") {
			t.Fatalf("asked %d times: %+v", times(), ready)
		}
	}
	object.Spec.Source.Programs.Client[0].Send.Content = spatev1.Content{From: &spatev1.DataSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Key: "b"},
	}}
	object.Generation = 2
	if err := r.Client.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if ready := judge(); ready.Status != metav1.ConditionTrue || times() != 1 || !strings.Contains(ready.Message, `key "b" of ConfigMap "a" is looked up with a profile`) {
		t.Errorf("asked %d times: %+v", times(), ready)
	}
	if err := os.WriteFile(compiler.Binary, []byte("#!/bin/sh\ncat > /dev/null\nexit 2\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	object.Spec, object.Generation = spatev1.ASTFTemplateSpec{}, 3
	if err := yaml.UnmarshalStrict([]byte(template), &object.Spec); err != nil {
		t.Fatal(err)
	}
	if err := r.Client.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it is checked again
		if ready := judge(); ready.Status != metav1.ConditionFalse || ready.Reason != spatev1.ReasonCheckFailed || !strings.Contains(ready.Message, "exit status 2") || !strings.Contains(ready.Message, "retrying in 1m0s") {
			t.Errorf("%+v", ready)
		}
	}
	if err := os.WriteFile(compiler.Binary, []byte("#!/bin/sh\ncat > /dev/null\necho '{}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if ready := judge(); ready.Status != metav1.ConditionTrue {
		t.Errorf("%+v", ready)
	}
}
