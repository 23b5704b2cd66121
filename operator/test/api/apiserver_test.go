// SPDX-License-Identifier: Apache-2.0

// What does a real API server make of these types: what does it take, and what does it say of what it does not?

package api_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/test/refused"
)

const samples = "../../../config/samples"

// server starts a real API server with the CRDs.
func server(t *testing.T) *rest.Config {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set; run `make operator-test`")
	}
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"../../../crds"}, ErrorIfCRDPathMissing: true}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	return config
}

// strict is a client whose objects must have no unknown fields.
func strict(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return client.WithFieldValidation(c, metav1.FieldValidationStrict)
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(text), &object.Object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	object.SetNamespace("default")
	return object
}

func TestAPIServer(t *testing.T) {
	config := server(t)
	c, ctx := strict(t, config), context.Background()
	for good, changes := range refused.Changes {
		object := parse(t, good)
		t.Run(object.GetKind(), func(t *testing.T) {
			if err := c.Create(ctx, object, client.DryRunAll); err != nil {
				t.Fatalf("a good object is refused: %v", err)
			}
			for name, change := range changes {
				t.Run(name, func(t *testing.T) {
					err := c.Create(ctx, parse(t, change.Make(good)), client.DryRunAll)
					if change.Want == nil {
						if err != nil {
							t.Errorf("is refused: %v", err)
						}
						return
					}
					if err == nil {
						t.Fatal("is taken")
					}
					for _, want := range change.Want {
						if !strings.Contains(err.Error(), want) {
							t.Errorf("says %v\nwithout %s", err, want)
						}
					}
				})
			}
		})
	}
	t.Run("files are judged the same", func(t *testing.T) { filesAreJudgedTheSame(t, judgesOf(t, config)) })
	t.Run("inline templates are judged as templates", func(t *testing.T) { inlineTemplatesAreJudgedAsTemplates(t, judgesOf(t, config)) })
	t.Run("samples are taken", func(t *testing.T) { samplesAreTaken(ctx, t, c) })
	t.Run("defaults are as stated", func(t *testing.T) { defaultsAreAsStated(ctx, t, c) })
	t.Run("of a run only rate and pause can be changed", func(t *testing.T) { runsCannotBeChanged(ctx, t, c) })
	t.Run("large profiles are taken", func(t *testing.T) { largeProfilesAreTaken(ctx, t, c) })
}

func samplesAreTaken(ctx context.Context, t *testing.T, c client.Client) {
	for file, object := range sampled(t) {
		if err := c.Create(ctx, object, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// read decodes what the server gave.
func read(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	text, err := object.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func defaultsAreAsStated(ctx context.Context, t *testing.T, c client.Client) {
	profile := parse(t, `
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: bare}
spec:
  generator: {ports: [{name: a, attachment: {discard: {}}}]}
  traffic:
  - {name: a, transmitPort: a, stream: {ref: {name: a}}}
  - {name: b, transmitPort: a, stream: {inline: {transmit: {continuous: {rate: 1pps}}, packet: {headers: [{ethernet: {}}]}, fields: [{name: f, range: {start: 1, count: 2}}]}}}
  - {name: c, transmitPort: a, application: {inline: {source: {http: {}}, connectionRate: 1cps, pools: {servers: [{name: s, start: 48.0.0.1, count: 1}]}}}}
  - {name: d, transmitPort: a, application: {inline: {source: {dns: {}}, connectionRate: 1cps, pools: {servers: [{name: s, start: 48.0.0.1, count: 1}]}}}}
  - name: e
    transmitPort: a
    application:
      inline:
        source: {programs: {transport: TCP, client: [{label: l, send: {content: {text: x}}}, {jump: {to: l, variable: v}}]}}
        destinationPort: 80
        connectionRate: 1cps
        pools: {servers: [{name: s, start: 48.0.0.1, count: 1}]}
`)
	if err := c.Create(ctx, profile, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	var typed spatev1.TrafficProfile
	read(t, profile, &typed)
	spec := typed.Spec
	if spec.Warmup != "0s" || spec.Drain != "500ms" || spec.SuspendPolicy != "Keep" || spec.WhenBusy != "Queue" || spec.WhenPodLost != spatev1.PodLossAbort || spec.RunPolicy != spatev1.RunOnChange ||
		*spec.RunHistoryLimit != 5 || spec.GeneratorTolerance != (spatev1.GeneratorTolerance{Late: "0.1%", TxDropped: "0", RxMissed: "0"}) {
		t.Errorf("profile: %+v", spec)
	}
	g := spec.Generator
	if g.Replicas != 1 || g.Workers != 1 || g.CPUPolicy != "Exclusive" || g.ControlCPU != "Dedicated" || g.PollMode != "Auto" ||
		g.PacketMemory.Backing != spatev1.BackingHugepages2Mi || g.AllowedNamespaces.From != "Same" {
		t.Errorf("generator: %+v", g)
	}
	if start := spec.Traffic[0].Stream.Start; start != spatev1.StartAuto {
		t.Errorf("start: %s", start)
	}
	if f := spec.Traffic[1].Stream.Inline.Fields[0]; f.Order != spatev1.OrderForward || f.Scope != spatev1.ScopeStream || *f.Range.Step != 1 {
		t.Errorf("field: %+v", f)
	}
	// What plan.Expand takes for absent values is what the API server fills in.
	if h := spec.Traffic[2].Application.Inline.Source.HTTP; *h.ResponseBytes != 1024 || *h.RequestsPerConnection != 1 || h.Path != "/" || h.Host != "spate.test" || h.RequestBytes != nil || h.ThinkTime != "" {
		t.Errorf("http: %+v", h)
	}
	if d := spec.Traffic[3].Application.Inline.Source.DNS; d.Name != "www.spate.test" || *d.Answers != 1 || *d.QueriesPerFlow != 1 {
		t.Errorf("dns: %+v", d)
	}
	if p := spec.Traffic[4].Application.Inline.Source.Programs.Client; !*p[0].Send.WaitForAck || p[1].Jump.Comparison != spatev1.ComparisonNotEqual {
		t.Errorf("programs: %+v", p)
	}
	run := parse(t, refused.Describing)
	if err := c.Create(ctx, run, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	var typedRun spatev1.TrafficRun
	read(t, run, &typedRun)
	if p := typedRun.Spec.Profile; p.Warmup != "0s" || p.Drain != "500ms" || p.WhenBusy != "Queue" || p.GeneratorTolerance.Late != "0.1%" {
		t.Errorf("run: %+v", p)
	}
}

func runsCannotBeChanged(ctx context.Context, t *testing.T, c client.Client) {
	plain, _, _ := strings.Cut(refused.Run, "  overrides:")
	plain = strings.Replace(plain, "imix-1", "plain", 1)
	for _, good := range []string{refused.Run, plain, strings.Replace(refused.Describing, "generateName: once-", "name: once", 1)} {
		if err := c.Create(ctx, parse(t, good)); err != nil {
			t.Fatal(err)
		}
	}
	const another = "create another run"
	for _, change := range []struct {
		run   string
		path  []string
		value any
		want  string
	}{
		{"imix-1", []string{"spec", "overrides", "rate"}, "2x", ""},
		{"imix-1", []string{"spec", "paused"}, false, ""},
		{"imix-1", []string{"spec", "ttlSecondsAfterFinished"}, int64(5), ""},
		{"imix-1", []string{"spec", "overrides", "duration"}, "20s", another},
		{"imix-1", []string{"spec", "overrides", "warmup"}, nil, another},
		{"imix-1", []string{"spec", "overrides", "generatorRef", "name"}, "other", another},
		{"imix-1", []string{"spec", "overrides", "thresholds"}, nil, another},
		{"imix-1", []string{"spec", "overrides"}, nil, another},
		{"imix-1", []string{"spec", "profileRef", "name"}, "other", another},
		{"imix-1", []string{"spec", "baselineRef", "name"}, "other", another},
		{"imix-1", []string{"spec", "baselineRef"}, nil, another},
		{"plain", []string{"spec", "baselineRef"}, map[string]any{"name": "other"}, another},
		{"imix-1", []string{"spec", "overrides", "rate"}, nil, ""},
		{"plain", []string{"spec", "overrides"}, map[string]any{"rate": "2x"}, ""},
		{"plain", []string{"spec", "overrides"}, map[string]any{"rate": "2x", "duration": "5s"}, another},
		{"once", []string{"spec", "profile", "duration"}, "20s", another},
		{"once", []string{"spec", "paused"}, true, ""},
		{"once", []string{"spec", "overrides"}, map[string]any{"rate": "2x"}, ""},
		{"once", []string{"spec", "overrides"}, map[string]any{"thresholds": []any{}}, another},
	} {
		run := parse(t, plain)
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: change.run}, run); err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(run.Object, change.path...)
		if change.value != nil {
			if err := unstructured.SetNestedField(run.Object, change.value, change.path...); err != nil {
				t.Fatal(err)
			}
		}
		err := c.Update(ctx, run, client.DryRunAll)
		if (err == nil) != (change.want == "") || err != nil && !strings.Contains(err.Error(), change.want) {
			t.Errorf("%s: %s set to %v: got %v, want %q", change.run, strings.Join(change.path, "."), change.value, err, change.want)
		}
	}
}

// largeProfilesAreTaken sends as many entries as are allowed: the rules must stay within the server's budget at run time.
func largeProfilesAreTaken(ctx context.Context, t *testing.T, c client.Client) {
	profile := parse(t, refused.Profile)
	traffic, _, _ := unstructured.NestedSlice(profile.Object, "spec", "traffic")
	var many []any
	for i := range 512 {
		entry := runtime.DeepCopyJSON(traffic[0].(map[string]any))
		entry["name"] = "stream-" + string(rune('a'+i/26/26%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26))
		many = append(many, entry)
	}
	if err := unstructured.SetNestedSlice(profile.Object, many, "spec", "traffic"); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(ctx, profile, client.DryRunAll); err != nil {
		t.Error(err)
	}
}

func TestFieldValuesAreNumbersOrText(t *testing.T) {
	for text, want := range map[string]spatev1.FieldValue{`5`: "5", `"16.0.0.1"`: "16.0.0.1", `4294967296`: "4294967296", `"0x10"`: "0x10"} {
		var got spatev1.FieldValue
		if err := got.UnmarshalJSON([]byte(text)); err != nil || got != want {
			t.Errorf("%s: got %q %v", text, got, err)
		}
	}
	for _, text := range []string{`1.5`, `true`, `{}`, `null`} {
		var got spatev1.FieldValue
		if err := got.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is taken for %q", text, got)
		}
	}
}

// Of a path with several results a column shows the first only; a list as a whole it shows whole.
func TestColumnsShowAllOfAList(t *testing.T) {
	files, err := filepath.Glob("../../../crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "jsonPath:") && strings.Contains(line, "[*]") {
				t.Errorf("%s: %s", filepath.Base(file), strings.TrimSpace(line))
			}
		}
	}
}
