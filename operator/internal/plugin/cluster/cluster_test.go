// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/plugintest"
)

func TestNamesCompleteAnArgument(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	profile := &spatev1.TrafficProfile{}
	profile.Namespace, profile.Name = "tests", "web"
	elsewhere := plugintest.RunNamed("web-9", "web", time.Unix(0, 0))
	elsewhere.Namespace = "other"
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		profile, elsewhere, plugintest.RunNamed("web-2", "web", time.Unix(0, 0)), plugintest.RunNamed("web-1", "web", time.Unix(0, 0)), plugintest.RunNamed("web", "", time.Unix(0, 0)), plugintest.RunNamed("dns-1", "dns", time.Unix(0, 0)),
	).Build()
	if got := strings.Join(names(t.Context(), reader, "tests", []string{"web-2"}, "we", []Kind{Runs, Profiles}), " "); got != "web web-1" {
		t.Errorf("got %q", got)
	}
	if got := names(t.Context(), reader, "tests", nil, "", []Kind{Searches}); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

func TestARunIsFoundByItsNameOrItsProfiles(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	elsewhere := plugintest.RunNamed("web-1a2b3-9", "web", time.Unix(9000, 0))
	elsewhere.Namespace = "other"
	describing := plugintest.RunNamed("own", "", time.Unix(4000, 0))
	describing.Spec = spatev1.TrafficRunSpec{Profile: &spatev1.TrafficDefinition{}}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		plugintest.RunNamed("web-1a2b3-1", "web", time.Unix(1000, 0)), plugintest.RunNamed("web-1a2b3-2", "web", time.Unix(2000, 0)), plugintest.RunNamed("dns-1", "dns", time.Unix(3000, 0)), elsewhere, describing,
	).Build()
	for name, want := range map[string]string{"web-1a2b3-1": "web-1a2b3-1", "web": "web-1a2b3-2", "dns": "dns-1", "own": "own"} {
		if run, err := FindRun(t.Context(), reader, "tests", name); err != nil || run.Name != want {
			t.Errorf("%s: %v, %v", name, run, err)
		}
	}
	if _, err := FindRun(t.Context(), reader, "tests", "none"); err == nil || !strings.Contains(err.Error(), `no TrafficRun "none" in namespace tests`) {
		t.Errorf("got %v", err)
	}
}
