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
