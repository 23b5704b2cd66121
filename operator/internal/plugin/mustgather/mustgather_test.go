// SPDX-License-Identifier: Apache-2.0

package mustgather

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
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

// room is a cluster with a generator, its pod, a profile, a run and the operator; and with Secrets and credentials.
func room(t *testing.T) kube.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(spatev1.AddToScheme(scheme), corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	lab := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab", Annotations: map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": "hush-1", "example.com/api-token": "hush-2", "example.com/contact": "https://me:hush-3@example.com/x",
	}}}
	lab.Status.EngineVersion = "v1.2.3"
	lab.Status.Pods = []spatev1.GeneratorPodStatus{{Name: "lab-0", Node: "node-1", Preflight: []spatev1.PreflightCheck{{Check: "Governor", State: spatev1.PreflightWarning, Observed: "powersave", Remedy: "set performance"}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab-0", Labels: podspec.Labels(lab)}}
	pod.Spec = corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "engine", Env: []corev1.EnvVar{
		{Name: "LOGIN", Value: "hush-4"},
		{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "login"}, Key: "password"}}},
	}}}}
	pod.Spec.InitContainers = []corev1.Container{{Name: "routing"}}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "routing", RestartCount: 2}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine", Image: "engine:1", ImageID: "sha256:aa"}}
	profile := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "web"}}
	send := "GET / HTTP/1.1\r\nAuthorization: Basic hush-5\r\nHost: x\r\n\r\n"
	seed := int64(1<<62 + 1)
	profile.Spec.Traffic = []spatev1.TrafficEntry{{Name: "web", Application: &spatev1.ApplicationEntry{Inline: &spatev1.ASTFTemplateSpec{Seed: &seed, Source: spatev1.TemplateSource{
		Programs: &spatev1.Programs{Client: []spatev1.Command{{Send: &spatev1.SendCommand{Content: spatev1.Content{Text: send}}}}},
	}}}}}
	happened := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab.1"}, Reason: "Ready", Message: "token=hush-6 is refused"}
	happened.InvolvedObject = corev1.ObjectReference{APIVersion: spatev1.GroupVersion.String(), Kind: "TrafficGenerator", Namespace: "tests", Name: "lab"}
	elsewhere := plugintest.RunNamed("dns-1", "dns", time.Unix(0, 0))
	elsewhere.Namespace = "other"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Annotations: map[string]string{"hush": "hush-7"}, Labels: map[string]string{"kind": "metal"}}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.77"}}
	node.Status.NodeInfo = corev1.NodeSystemInfo{KernelVersion: "6.1.0", MachineID: "hush-8"}
	operator := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "spate-system", Name: "spate-operator-0", Labels: cluster.OperatorLabels()}}
	operator.Spec.Containers = []corev1.Container{{Name: "manager"}}
	operator.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "manager", RestartCount: 1, Image: "operator:1"}}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "spate-system", Name: "spate-operator", Labels: cluster.OperatorLabels()}}
	killed := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "spate-system", Name: "killed"}, Message: "OOMKilled"}
	killed.InvolvedObject = corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "spate-system", Name: "spate-operator-0"}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "login"}, StringData: map[string]string{"password": "hush-9"}}
	objects := []kube.Object{lab, pod, profile, plugintest.RunNamed("web-2", "web", time.Unix(0, 0)), plugintest.RunNamed("web-1", "web", time.Unix(0, 0)), happened, elsewhere, node, operator, deployment, killed, secret}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

// file of an archive.
type file struct{ name, text string }

// gathered returns the files of an archive.
func gathered(t *testing.T, client kube.Client, change func(*gathering)) (files []file, g *gathering) {
	t.Helper()
	logs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch query := r.URL.Query(); {
		case strings.HasSuffix(r.URL.Path, "/namespaces/tests/pods/lab-0/log") && query.Get("container") == "engine":
			fmt.Fprintf(w, "first line\n-----BEGIN EC PRIVATE KEY-----\nhush-10\n-----END EC PRIVATE KEY-----\n%slast line\n", strings.Repeat("filler filler\n", 1000))
		case strings.HasSuffix(r.URL.Path, "/namespaces/tests/pods/lab-0/log") && query.Get("container") == "routing":
			fmt.Fprintf(w, "BIRD, previous: %q\n", query.Get("previous"))
		case strings.HasSuffix(r.URL.Path, "/spate-operator-0/log"):
			fmt.Fprintf(w, "operator, previous: %q\n", query.Get("previous"))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(logs.Close)
	pods, err := typedcorev1.NewForConfig(&rest.Config{Host: logs.URL})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	g = &gathering{archive: newArchive(&out, "root", time.Unix(1000, 0)), client: client, pods: pods, namespace: "tests", operatorNamespace: "spate-system", logBytes: leastLogBytes, versions: []string{"plugin: v1"}}
	if change != nil {
		change(g)
	}
	g.all(t.Context())
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	for all := tar.NewReader(unpacked); ; {
		header, err := all.Next()
		if errors.Is(err, io.EOF) {
			return files, g
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(all)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file{strings.TrimPrefix(header.Name, "root/"), string(text)})
	}
}

func namesOf(files []file) (names []string) {
	for _, f := range files {
		names = append(names, f.name)
	}
	return names
}

func textOf(t *testing.T, files []file, name string) string {
	t.Helper()
	at := slices.IndexFunc(files, func(f file) bool { return f.name == name })
	if at < 0 {
		t.Fatalf("no %s among %q", name, namesOf(files))
	}
	return files[at].text
}

func TestAllIsGatheredInOneOrder(t *testing.T) {
	t.Parallel()
	files, g := gathered(t, room(t), nil)
	want := []string{
		"namespaces/tests/trafficgenerators/lab.yaml", "namespaces/tests/trafficprofiles/web.yaml", "namespaces/tests/trafficruns/web-1.yaml", "namespaces/tests/trafficruns/web-2.yaml",
		"namespaces/tests/events.yaml", "namespaces/tests/pods/lab-0.yaml", "namespaces/tests/pods/lab-0.log",
		"namespaces/tests/pods/lab-0.routing.log", "namespaces/tests/pods/lab-0.routing.previous.log", "namespaces/tests/doctor/lab.txt", "nodes/node-1.yaml",
		"operator/deployments/spate-operator.yaml", "operator/events.yaml", "operator/pods/spate-operator-0.yaml", "operator/pods/spate-operator-0.manager.log", "operator/pods/spate-operator-0.manager.previous.log",
		"versions.txt", "errors.txt", "README.md",
	}
	if got := namesOf(files); !slices.Equal(got, want) || g.count != len(want) || g.readable != len(kinds(g.client.Scheme())) || g.readable < 9 {
		t.Errorf("got %q (%d, %d kinds)\nwant %q", got, g.count, g.readable, want)
	}
	for name, wants := range map[string][]string{
		"namespaces/tests/trafficgenerators/lab.yaml":         {"kind: TrafficGenerator", "engineVersion: v1.2.3"},
		"namespaces/tests/trafficprofiles/web.yaml":           {"seed: 4611686018427387905"},
		"namespaces/tests/events.yaml":                        {"kind: EventList", "kind: Event\n", "reason: Ready"},
		"namespaces/tests/pods/lab-0.yaml":                    {"kind: Pod", "name: LOGIN\n", "key: password"},
		"namespaces/tests/pods/lab-0.log":                     {"first line\n", "last line\n", " bytes are omitted: --log-bytes]\n"},
		"namespaces/tests/pods/lab-0.routing.log":             {`BIRD, previous: ""`},
		"namespaces/tests/pods/lab-0.routing.previous.log":    {`BIRD, previous: "true"`},
		"namespaces/tests/doctor/lab.txt":                     {"Pod lab-0 on node node-1: checks 1, findings 1", "powersave"},
		"nodes/node-1.yaml":                                   {"kind: metal", "kernelVersion: 6.1.0"},
		"operator/events.yaml":                                {"OOMKilled"},
		"operator/pods/spate-operator-0.manager.log":          {`previous: ""`},
		"operator/pods/spate-operator-0.manager.previous.log": {`previous: "true"`},
		"versions.txt": {"plugin: v1\n", "engines of generator tests/lab: v1.2.3\n", "container engine of pod tests/lab-0: engine:1 sha256:aa\n", "operator:1"},
		"errors.txt":   {"nothing: all could be read\n"},
		"README.md":    {"of namespace tests", "- namespaces/tests/pods/lab-0.yaml: spec.containers[0].env[0].value\n", "- namespaces/tests/pods/lab-0.log: parts of the text\n", "metadata.annotations.example.com/api-token", "Secrets are not read"},
	} {
		text := textOf(t, files, name)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
	if again, _ := gathered(t, room(t), nil); !slices.Equal(again, files) {
		t.Error("the same cluster leads to another archive")
	}
	everywhere, _ := gathered(t, room(t), func(g *gathering) { g.namespace = "" })
	if got := namesOf(everywhere); !slices.Contains(got, "namespaces/other/trafficruns/dns-1.yaml") || !strings.Contains(textOf(t, everywhere, "README.md"), "of all namespaces") {
		t.Errorf("got %q", got)
	}
}

func TestNothingSecretLeavesTheCluster(t *testing.T) {
	t.Parallel()
	unread := func(what any) {
		if _, secret := what.(*corev1.Secret); secret {
			t.Error("a Secret is read")
		}
		if _, secrets := what.(*corev1.SecretList); secrets {
			t.Error("Secrets are read")
		}
	}
	client := interceptor.NewClient(room(t), interceptor.Funcs{
		Get: func(ctx context.Context, client kube.WithWatch, key kube.ObjectKey, object kube.Object, options ...kube.GetOption) error {
			unread(object)
			return client.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, client kube.WithWatch, list kube.ObjectList, options ...kube.ListOption) error {
			unread(list)
			return client.List(ctx, list, options...)
		},
	})
	files, g := gathered(t, client, func(g *gathering) { g.namespace = "" })
	for _, f := range files {
		if strings.Contains(f.text, "hush-") || strings.Contains(f.text, "192.0.2.77") {
			t.Errorf("%s:\n%s", f.name, f.text)
		}
	}
	for _, done := range g.done {
		if !strings.Contains(textOf(t, files, "README.md"), "- "+done+"\n") {
			t.Errorf("README.md does not have %q", done)
		}
	}
	if len(g.done) < 6 {
		t.Errorf("redacted is %q", g.done)
	}
}

func TestWhatIsForbiddenIsListedAndTheRestGathered(t *testing.T) {
	t.Parallel()
	refuse := func(what any) error {
		switch what.(type) {
		case *corev1.EventList, *corev1.PodList, *corev1.Node:
			return apierrors.NewForbidden(schema.GroupResource{Resource: strings.ToLower(fmt.Sprintf("%T", what))}, "", nil)
		}
		return nil
	}
	client := interceptor.NewClient(room(t), interceptor.Funcs{
		Get: func(ctx context.Context, client kube.WithWatch, key kube.ObjectKey, object kube.Object, options ...kube.GetOption) error {
			return errors.Join(refuse(object), client.Get(ctx, key, object, options...))
		},
		List: func(ctx context.Context, client kube.WithWatch, list kube.ObjectList, options ...kube.ListOption) error {
			if err := refuse(list); err != nil {
				return err
			}
			return client.List(ctx, list, options...)
		},
	})
	files, g := gathered(t, client, nil)
	want := []string{
		"namespaces/tests/trafficgenerators/lab.yaml", "namespaces/tests/trafficprofiles/web.yaml", "namespaces/tests/trafficruns/web-1.yaml", "namespaces/tests/trafficruns/web-2.yaml",
		"namespaces/tests/pods/lab-0.log", "namespaces/tests/doctor/lab.txt", "operator/deployments/spate-operator.yaml", "versions.txt", "errors.txt", "README.md",
	}
	if got := namesOf(files); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	missing := textOf(t, files, "errors.txt")
	for _, want := range []string{"events of namespace tests: ", "engine pods of namespace tests: ", "nodes/node-1.yaml: ", "the operator's pods in namespace spate-system: "} {
		if !strings.Contains("\n"+missing, "\n"+want) || !strings.Contains(missing, "is forbidden") {
			t.Errorf("no %q in\n%s", want, missing)
		}
	}
	if strings.Count(missing, "\n") != 4 || len(g.missing) != 4 {
		t.Errorf("errors.txt has\n%s", missing)
	}
}

func TestLogsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef\n", 20_000)
	for _, c := range []struct {
		text string
		want string
	}{
		{"", ""}, {long[:4096], long[:4096]}, {long[:4000], long[:4000]},
		{long, long[:1024] + fmt.Sprintf("\n[%d bytes are omitted: --log-bytes]\n", len(long)-4096) + long[len(long)-3072:]},
		{strings.Repeat("x", 9000) + "-----END RSA PRIVATE KEY-----\nend\n", strings.Repeat("x", 1024) + "\n[4938 bytes are omitted: --log-bytes]\n" + hidden + "\nend\n"},
	} {
		if got, err := bounded(strings.NewReader(c.text), 4096); err != nil || got != c.want {
			t.Errorf("%d bytes: %v, %d bytes, want %d", len(c.text), err, len(got), len(c.want))
		}
	}
	broken := io.MultiReader(strings.NewReader(long[:2000]), &failing{})
	if got, err := bounded(broken, 4096); err == nil || got != long[:2000] {
		t.Errorf("%v, %d bytes", err, len(got))
	}
}

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, errors.New("the connection broke") }

func TestTextsAreRedacted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"password=hunter2 user=me":                                           "password=REDACTED user=me",
		`{"apiKey": "abc", "name": "x"}`:                                     `{"apiKey": REDACTED, "name": "x"}`,
		"--access-key=AKIA123 --port east":                                   "--access-key=REDACTED --port east",
		"Authorization: Bearer abcdefghij\r\nHost: x":                        "Authorization: REDACTED\r\nHost: x",
		"sent a bearer abcdefgh.ijk token":                                   "sent a bearer REDACTED token",
		"Set-Cookie: a=b; Path=/\nX-API-Key: 7":                              "Set-Cookie: REDACTED\nX-API-Key: REDACTED",
		"get https://me:pw@example.com/a and http://x/y@2":                   "get https://REDACTED@example.com/a and http://x/y@2",
		"jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln end":                  "jwt REDACTED end",
		"-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\nafter": "-----BEGIN PRIVATE KEY-----REDACTED\nafter",
		`MountVolume failed: secret "lab-engine-tls" not found`:              `MountVolume failed: secret "lab-engine-tls" not found`,
		"port east is up":                                                    "port east is up",
	} {
		if got := redactText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	var r redactor
	object := map[string]any{"metadata": map[string]any{"managedFields": []any{}, "name": "x"}, "spec": map[string]any{
		"clientSecret": "x", "secretName": "kept", "passwordRef": map[string]any{"name": "kept"}, "token": "", "env": []any{map[string]any{"name": "A", "value": "x"}, map[string]any{"name": "B"}},
	}}
	r.object("f", object)
	if got := fmt.Sprint(object); got != "map[metadata:map[name:x] spec:map[clientSecret:REDACTED env:[map[name:A value:REDACTED] map[name:B]] passwordRef:map[name:kept] secretName:kept token:]]" {
		t.Error(got)
	}
	if slices.Sort(r.done); !slices.Equal(r.done, []string{"f: spec.clientSecret", "f: spec.env[0].value"}) {
		t.Errorf("noted %q", r.done)
	}
}
