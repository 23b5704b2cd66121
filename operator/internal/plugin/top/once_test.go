// SPDX-License-Identifier: Apache-2.0

package top

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"k8s.io/apimachinery/pkg/runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/plugin/result"
)

func TestTablesArePrintedForScripts(t *testing.T) {
	m := scene(actions{})
	var all, streams bytes.Buffer
	if err := m.print(&all, -1); err != nil {
		t.Fatal(err)
	}
	same(t, "once.txt", all.String())
	if err := m.print(&streams, 1); err != nil || strings.Contains(streams.String(), "PORT") || !strings.Contains(streams.String(), "\nSTREAM ") {
		t.Errorf("%v\n%s", err, streams.String())
	}
	var document bytes.Buffer
	if err := result.WriteDocument(&document, "json", m.document(-1)); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Runs    []struct{ Name, Phase string }
		Streams []struct {
			Stream       string
			TxPackets    float64  `json:"txPacketsPerSecond"`
			LostPPM      *float64 `json:"lostPPM"`
			LatencyP99Ns *float64 `json:"latencyP99Ns"`
		}
		Ports, Templates, Latency, Workers []map[string]any
	}
	if err := json.Unmarshal(document.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Runs) != 1 || read.Runs[0].Phase != "Running" || len(read.Ports) != 2 || len(read.Templates) != 2 || len(read.Latency) != 3 || len(read.Workers) != 2 || len(read.Streams) != 2 {
		t.Fatalf("%+v", read)
	}
	if flood, imix := read.Streams[0], read.Streams[1]; flood.LostPPM != nil || flood.LatencyP99Ns != nil || flood.TxPackets != 500_000 || *imix.LostPPM != 12 || *imix.LatencyP99Ns != 31_500 {
		t.Errorf("%+v", read.Streams)
	}
}

func TestReadingOnceEndsWhenAllRatesAreKnown(t *testing.T) {
	readable, run := imix("a"), imix("b")
	run.Status.Phase = spatev1.RunPreparing
	of := source{"a", "lab-0"}
	shown := runsMsg{runs: []spatev1.TrafficRun{readable, run}}
	for name, c := range map[string]struct {
		messages []tea.Msg
		want     string // part of the error
	}{
		"two readings":            {[]tea.Msg{shown, tickMsg{}, statsMsg{of, stats(1, nil)}, tickMsg{}, statsMsg{of, stats(2, nil)}, tickMsg{}}, ""},
		"nothing to read":         {[]tea.Msg{runsMsg{runs: []spatev1.TrafficRun{run}}, tickMsg{}}, ""},
		"no run":                  {[]tea.Msg{runsMsg{}, tickMsg{}}, ""},
		"runs cannot be read":     {[]tea.Msg{runsMsg{err: cause("forbidden")}}, "forbidden"},
		"counters cannot be read": {[]tea.Msg{shown, noteMsg{"bind the ClusterRole", true}}, "bind the ClusterRole"},
		"it lasts too long":       {[]tea.Msg{shown, noteMsg{text: "waiting: for pods"}, tickMsg{}}, "not all counters were read in 30s: waiting: for pods"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			messages := make(chan tea.Msg, len(c.messages))
			for _, message := range c.messages {
				messages <- message
			}
			err := newModel("", actions{}).collect(ctx, messages, nil)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || len(messages) > 0 {
				t.Errorf("%v, want %q; %d messages are left", err, c.want, len(messages))
			}
		})
	}
}

func TestPodsThatAreRead(t *testing.T) {
	run := imix("a")
	for _, name := range []string{"lab-1", "lab-2"} {
		run.Status.Resolved.Generator.Pods = append(run.Status.Resolved.Generator.Pods, spatev1.PodSnapshot{Name: name})
	}
	run.Status.LostPods = []spatev1.LostPod{{Name: "lab-1"}}
	for wanted, want := range map[string]string{"": "lab-0 lab-2", "lab-2 lab-7": "lab-2", "lab-1": ""} {
		if got := strings.Join(wantedPods(&run, strings.Fields(wanted)), " "); got != want {
			t.Errorf("%q: %q, want %q", wanted, got, want)
		}
	}
}

type cause string

func (c cause) Error() string { return string(c) }

func TestANameSelectsRuns(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	named := func(o kube.Object, name string) kube.Object {
		o.SetNamespace("tests")
		o.SetName(name)
		return o
	}
	first, second, other := imix("imix-1"), imix("imix-2"), imix("web-1")
	first.Status.Phase, first.CreationTimestamp.Time = spatev1.RunComplete, noon.Add(-time.Hour)
	other.Spec.ProfileRef.Name, other.Status.Resolved.Generator.Name = "web", "spare"
	client := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&first, &second, &other, named(&spatev1.TrafficGenerator{}, "lab"), named(&spatev1.TrafficGenerator{}, "idle"),
		named(&spatev1.TrafficProfile{}, "new")).Build()
	for name, c := range map[string]struct{ subject, runs, err string }{
		"":       {"namespace tests", "imix-2 web-1", ""},
		"imix-1": {"run imix-1", "imix-1", ""},
		"imix":   {"profile imix", "imix-2", ""},
		"new":    {"profile new", "", ""},
		"lab":    {"generator lab", "imix-2", ""},
		"idle":   {"generator idle", "", ""},
		"none":   {"", "", `there is no TrafficRun, TrafficProfile or TrafficGenerator "none" in namespace tests`},
	} {
		subject, selected, err := find(t.Context(), client, "tests", name)
		if err != nil {
			if err.Error() != c.err {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		found, err := selected(t.Context())
		var names []string
		for i := range found {
			names = append(names, found[i].Name)
		}
		if got := strings.Join(names, " "); err != nil || subject != c.subject || got != c.runs {
			t.Errorf("%s: %s: %s, %v", name, subject, got, err)
		}
	}
}

func TestRunsThatHaveEndedAreNotShown(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	one, two, three := imix("a"), imix("b"), imix("c")
	client := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&one, &two, &three).Build()
	_, selected, err := find(t.Context(), client, "tests", "")
	if err != nil {
		t.Fatal(err)
	}
	shown := func(want ...string) {
		t.Helper()
		found, err := selected(t.Context())
		var names []string
		for i := range found {
			names = append(names, found[i].Name)
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%v, want %v, %v", names, want, err)
		}
	}
	shown("a", "b", "c")
	if err := client.Delete(t.Context(), &one); err != nil {
		t.Fatal(err)
	}
	two.Status.Phase = spatev1.RunComplete
	if err := client.Update(t.Context(), &two); err != nil {
		t.Fatal(err)
	}
	shown("c")
}

func TestTheCommandRefusesWhatItCannotShow(t *testing.T) {
	for arguments, want := range map[string]string{
		"top":                      "standard output is no terminal: --once prints the tables",
		"top --once --view queues": `--view "queues": must be one of ports, streams, templates, latency, workers`,
		"top -o json":              "--output: takes --once",
		"top --once -o csv":        "-o csv: must be json, yaml, or absent",
	} {
		if _, _, err := plugintest.Run("", strings.Fields(arguments), NewCommand()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", arguments, err, want)
		}
	}
}
