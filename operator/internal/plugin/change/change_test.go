// SPDX-License-Identifier: Apache-2.0

package change

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/plugintest"
)

func TestARateIsChangedByWhatARunSendsNow(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for text, c := range map[string]struct {
		entries []spatev1.EntrySnapshot
		factor  string
		want    string // the rate, or part of the error
	}{
		"2x":         {nil, "", "2x"},
		"1Mpps/port": {nil, "", "1Mpps/port"},
		"much":       {nil, "", "RATE much: must be a factor such as 2x"},
		"+10%":       {nil, "3/2", "1.65x"},
		"-50%":       {nil, "3", "1.5x"},
		"-100%":      {nil, "3", "would not be more than 0"},
		"+1kpps":     {[]spatev1.EntrySnapshot{{Name: "a", Rate: "1kpps"}, {Name: "b", Rate: "3kpps"}}, "2", "2.25x"},
		"-2kpps":     {[]spatev1.EntrySnapshot{{Name: "a", Rate: "6kpps"}}, "1/3", "would not be more than 0"},
		"+1Gbps":     {[]spatev1.EntrySnapshot{{Name: "a", Rate: "1kpps"}}, "1", `entry a has the rate "1kpps"`},
		"+1x":        {nil, "1", "a change must be + or -"},
		"+5%":        {nil, "", "has no rate yet"},
	} {
		run := plugintest.RunNamed("web-1", "web", time.Unix(0, 0))
		run.Status.Phase, run.Status.RateFactor = spatev1.RunRunning, c.factor
		if c.factor != "" {
			run.Status.Resolved = &spatev1.ResolvedRun{Entries: c.entries}
		}
		client := fake.NewClientBuilder().WithScheme(scheme).WithObjects(run).Build()
		var out bytes.Buffer
		err := SetRate(t.Context(), &out, client, run.DeepCopy(), text)
		there := &spatev1.TrafficRun{}
		if getErr := client.Get(t.Context(), kube.ObjectKeyFromObject(run), there); getErr != nil {
			t.Fatal(getErr)
		}
		switch {
		case err != nil && !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %s", text, err, c.want)
		case err == nil && (string(there.Spec.Overrides.Rate) != c.want || !strings.Contains(out.String(), "rate set to "+c.want)):
			t.Errorf("%s: %s, want %s", text, there.Spec.Overrides.Rate, c.want)
		}
	}
}
