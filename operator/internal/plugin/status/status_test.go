// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/plugintest"
)

var started = time.Unix(1000, 0)

func notReady(reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: spatev1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}}
}

func profile(name string, conditions []metav1.Condition) *spatev1.TrafficProfile {
	return &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: name}, Status: spatev1.TrafficProfileStatus{Conditions: conditions, Generator: "tests/lab"}}
}

func pods(name string, conditions []metav1.Condition, ports ...spatev1.GeneratorPortStatus) *spatev1.TrafficGenerator {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: name}}
	g.Spec.Replicas, g.Spec.Ports = 1, []spatev1.GeneratorPort{{Name: "east"}, {Name: "west"}}
	g.Status.Conditions = conditions
	if len(ports) > 0 {
		g.Status.Pods, g.Status.ReadyReplicas = []spatev1.GeneratorPodStatus{{Name: name + "-0", Ports: ports}}, 1
	}
	return g
}

// room is a namespace with a run that is active, one that waits, one that is new and one that has ended; with profiles, generators and searches.
func room(t *testing.T) kube.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	at := metav1.NewMicroTime(started)
	active := plugintest.RunNamed("imix-1", "imix", started)
	active.Status = spatev1.TrafficRunStatus{
		Phase: spatev1.RunRunning, TrafficStartTime: &at, RateFactor: "2",
		Resolved: &spatev1.ResolvedRun{Generator: spatev1.GeneratorSnapshot{Namespace: "tests", Name: "lab"}, Timing: spatev1.RunTiming{Duration: "1m"}},
		Progress: &spatev1.RunProgress{TxRate: "99.8kpps", RxRate: "99.7kpps", LossRatio: "0.001", TimeLeft: "48s", Stage: "soak (2/4)"},
	}
	waits := plugintest.RunNamed("web-1", "web", started.Add(time.Second))
	waits.Status = spatev1.TrafficRunStatus{Phase: spatev1.RunPending, Generator: "tests/lab", Conditions: notReady(spatev1.ReasonGeneratorBusy, "queued for TrafficGenerator lab")}
	fresh := plugintest.RunNamed("dns-1", "dns", started.Add(2*time.Second))
	ended := plugintest.RunNamed("imix-0", "imix", started.Add(-time.Hour))
	ended.Status.Phase = spatev1.RunComplete
	ready := []metav1.Condition{{Type: spatev1.ConditionReady, Status: metav1.ConditionTrue}}
	lab := pods("lab", ready, spatev1.GeneratorPortStatus{Name: "east", LinkUp: true}, spatev1.GeneratorPortStatus{Name: "west"})
	lab.Status.Runs, lab.Status.EngineVersion = []string{"tests/imix-1"}, "0.1.0"
	searching := &spatev1.TrafficSearch{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "router"}}
	searching.Spec.ProfileRef.Name, searching.Status.Phase, searching.Status.Progress = "imix", spatev1.SearchSearching, "64: trial 5 (Throughput), 1/7 variants done"
	searching.Status.Conditions = notReady(spatev1.ReasonProgressing, "")
	over := searching.DeepCopy()
	over.Name, over.Status.Phase = "before", spatev1.SearchComplete
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		active, waits, fresh, ended, searching, over, lab, pods("spare", notReady(spatev1.ReasonUnschedulable, "no node has hugepages")),
		profile("imix", notReady(spatev1.ReasonProgressing, "run imix-1 is active")), profile("off", notReady(spatev1.ReasonSuspended, "")), profile("web", notReady(spatev1.ReasonProgressing, "run web-1 is being prepared")),
		profile("wrong", notReady(spatev1.ReasonInvalidSpec, "spec.rate: too much")),
	).Build()
}

func shown(t *testing.T, names ...string) *overview {
	t.Helper()
	all, err := read(t.Context(), room(t), "tests")
	if err != nil {
		t.Fatal(err)
	}
	if err := all.keep(names); err != nil {
		t.Fatal(err)
	}
	return all.overview(started.Add(12 * time.Second))
}

func TestEverythingIsOnOneScreen(t *testing.T) {
	for _, c := range []struct {
		names            []string
		namespaces, wide bool
		want             string
	}{
		{want: `RUN     PROFILE  GENERATOR  PHASE    ELAPSED   TX        RX        LOSS
imix-1  imix     lab        Running  12s/1m0s  99.8kpps  99.7kpps  0.001

WAITS             NAME   REASON         MESSAGE
TrafficRun        web-1  GeneratorBusy  queued for TrafficGenerator lab
TrafficRun        dns-1  Progressing    the operator has not reconciled it yet
TrafficProfile    wrong  InvalidSpec    spec.rate: too much
TrafficGenerator  spare  Unschedulable  no node has hugepages

GENERATOR  READY  PODS  PORTS  RUNS    REASON
lab        True   1/1   1/2    imix-1  -
spare      False  0/1   0/2    -       Unschedulable

SEARCH  PROFILE  PHASE      PROGRESS
router  imix     Searching  64: trial 5 (Throughput), 1/7 variants done
`},
		{names: []string{"web"}, want: `WAITS       NAME   REASON         MESSAGE
TrafficRun  web-1  GeneratorBusy  queued for TrafficGenerator lab

GENERATOR  READY  PODS  PORTS  RUNS    REASON
lab        True   1/1   1/2    imix-1  -
`},
		{names: []string{"off"}, want: `No run is active, and nothing waits.

GENERATOR  READY  PODS  PORTS  RUNS    REASON
lab        True   1/1   1/2    imix-1  -
`},
		//nolint:dupword // two columns of the table are Unknown
		{names: []string{"imix"}, namespaces: true, wide: true, want: `NAMESPACE  RUN     PROFILE  GENERATOR  PHASE    ELAPSED   TX        RX        LOSS   CONNECTIONS  STAGE       LEFT  FACTOR
tests      imix-1  imix     lab        Running  12s/1m0s  99.8kpps  99.7kpps  0.001  -            soak (2/4)  48s   2

NAMESPACE  GENERATOR  READY  PODS  PORTS  RUNS    REASON  MEASUREMENT  MACHINE  PORTS DOWN  ENGINE
tests      lab        True   1/1   1/2    imix-1  -       Unknown      Unknown  lab-0/west  0.1.0

NAMESPACE  SEARCH  PROFILE  PHASE      PROGRESS
tests      router  imix     Searching  64: trial 5 (Throughput), 1/7 variants done
`},
	} {
		var out bytes.Buffer
		if err := shown(t, c.names...).write(&out, c.namespaces, c.wide); err != nil || out.String() != c.want {
			t.Errorf("%v: %v\n%s\nwant\n%s", c.names, err, out.String(), c.want)
		}
	}
}

func TestAnUnknownNameIsAnError(t *testing.T) {
	all, err := read(t.Context(), room(t), "tests")
	if err != nil {
		t.Fatal(err)
	}
	if err := all.keep([]string{"imix", "none"}); err == nil || err.Error() != `there is no TrafficGenerator and no TrafficProfile "none" in this namespace` {
		t.Errorf("got %v", err)
	}
}

func TestTheOverviewIsForProgramsToo(t *testing.T) {
	var out bytes.Buffer
	if err := output.WriteDocument(&out, output.JSON, shown(t)); err != nil {
		t.Fatal(err)
	}
	var read overview
	if err := json.Unmarshal(out.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if len(read.Runs) != 1 || read.Runs[0].Progress.TxRate != "99.8kpps" || len(read.Waiting) != 4 || read.Generators[0].Down[0] != "lab-0/west" || read.Searches[0].Name != "router" {
		t.Errorf("%s", out.String())
	}
	out.Reset()
	var form output.Flag
	form.Choose(output.CSV)
	if err := form.Write(&out, shown(t).shown(false)); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%v %v", rows, err)
	}
	cell := func(row []string, column string) string { return row[slices.Index(rows[0], column)] }
	kinds := map[string]int{}
	for _, row := range rows[1:] {
		kinds[cell(row, "row")]++
	}
	if kinds["run"] != 1 || kinds["waiting"] != 4 || kinds["generator"] != 2 || kinds["search"] != 1 || cell(rows[1], "name") != "imix-1" || cell(rows[1], "progress.txRate") != "99.8kpps" || cell(rows[1], "reason") != "" {
		t.Errorf("%q", rows)
	}
	out.Reset()
	if err := output.WriteDocument(&out, output.JSON, (&objects{}).overview(started)); err != nil || strings.Contains(out.String(), "null") {
		t.Errorf("%v, %s", err, out.String())
	}
}
