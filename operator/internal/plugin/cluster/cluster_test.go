// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/plugintest"
)

func TestTheFlagsOfTheConnectionAreThoseOfKubectl(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`
apiVersion: v1
kind: Config
clusters: [{name: one, cluster: {server: "https://one.example"}}, {name: two, cluster: {server: "https://two.example"}}]
users: [{name: jo, user: {token: of-jo}}, {name: kim, user: {token: of-kim}}]
contexts: [{name: lab, context: {cluster: one, user: jo, namespace: tests}}, {name: site, context: {cluster: two, user: kim}}]
current-context: lab
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]func(c *rest.Config, namespace string) bool{
		"": func(c *rest.Config, ns string) bool {
			return c.Host == "https://one.example" && c.BearerToken == "of-jo" && ns == "tests"
		},
		"--context site": func(c *rest.Config, ns string) bool {
			return c.Host == "https://two.example" && c.BearerToken == "of-kim" && ns == "default"
		},
		"--cluster two --user kim -n lab": func(c *rest.Config, ns string) bool {
			return c.Host == "https://two.example" && c.BearerToken == "of-kim" && ns == "lab"
		},
		"--as ann --as-group one --as-group two --as-uid 7": func(c *rest.Config, _ string) bool {
			i := c.Impersonate
			return i.UserName == "ann" && i.UID == "7" && slices.Equal(i.Groups, []string{"one", "two"}) && c.BearerToken == "of-jo"
		},
		"--server https://three.example --token of-ann": func(c *rest.Config, _ string) bool {
			return c.Host == "https://three.example" && c.BearerToken == "of-ann"
		},
		"--insecure-skip-tls-verify": func(c *rest.Config, _ string) bool { return c.Insecure },
		"--tls-server-name name.example --certificate-authority " + kubeconfig: func(c *rest.Config, _ string) bool { // the file must exist
			return c.CAFile == kubeconfig && c.ServerName == "name.example"
		},
		"--request-timeout 7s": func(c *rest.Config, _ string) bool { return c.Timeout == 7*time.Second },
	} {
		var flags Flags
		c := &cobra.Command{}
		flags.Add(c)
		if err := c.ParseFlags(append(strings.Fields(line), "--kubeconfig", kubeconfig)); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		config, err := flags.config().ClientConfig()
		namespace, other := flags.Namespace()
		if err := errors.Join(err, other); err != nil || !want(config, namespace) {
			t.Errorf("%s: %v in namespace %s, %v", line, config, namespace, err)
		}
	}
}

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

func TestPartsOfWhatIsNamedCompleteAFlag(t *testing.T) {
	generator := &spatev1.TrafficGenerator{}
	generator.Spec.Ports = []spatev1.GeneratorPort{{Name: "west"}, {Name: "east"}, {Name: "eastern"}}
	generator.Status.Pods = []spatev1.GeneratorPodStatus{{Name: "lab-0"}}
	run := plugintest.RunNamed("web-1", "web", time.Unix(0, 0))
	run.Status.Resolved = &spatev1.ResolvedRun{Generator: spatev1.GeneratorSnapshot{Pods: []spatev1.PodSnapshot{{Name: "lab-1"}, {Name: "lab-0"}}}}
	for _, c := range []struct {
		parts  Parts
		of     *Subject
		prefix string
		want   string
	}{
		{Ports, &Subject{Generator: generator}, "", "east eastern west"},
		{Ports, &Subject{Generator: generator}, "ea", "east eastern"},
		{Ports, &Subject{Generator: generator}, "east,", "east,eastern east,west"},
		{Ports, &Subject{Generator: generator}, "east,w", "east,west"},
		{Ports, &Subject{Run: run}, "", ""},
		{Pods, &Subject{Generator: generator}, "", "lab-0"},
		{Pods, &Subject{Run: run}, "lab", "lab-0 lab-1"},
		{Pods, &Subject{Run: plugintest.RunNamed("new", "", time.Unix(0, 0))}, "", ""},
	} {
		if got := strings.Join(listed(c.parts(c.of), c.prefix), " "); got != c.want {
			t.Errorf("%q: %q, want %q", c.prefix, got, c.want)
		}
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

func TestAnArgumentNamesARunAProfileOrAGenerator(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	named := func(o kube.Object, name string) kube.Object {
		o.SetNamespace("tests")
		o.SetName(name)
		return o
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		plugintest.RunNamed("web-1", "web", time.Unix(1000, 0)), plugintest.RunNamed("web-2", "web", time.Unix(2000, 0)), plugintest.RunNamed("lab", "other", time.Unix(0, 0)),
		named(&spatev1.TrafficProfile{}, "new"), named(&spatev1.TrafficGenerator{}, "lab"), named(&spatev1.TrafficGenerator{}, "spare"),
	).Build()
	for argument, want := range map[string]struct{ kind, run, err string }{
		"web-1":         {RunKind, "web-1", ""},
		"web":           {ProfileKind, "web-2", ""}, // the profile was deleted
		"new":           {ProfileKind, "", ""},
		"lab":           {RunKind, "lab", ""},
		"generator/lab": {GeneratorKind, "", ""},
		"TG/spare":      {GeneratorKind, "", ""},
		"run/web":       {ProfileKind, "web-2", ""},
		"profile/web-1": {"", "", `there is no TrafficProfile "web-1" in namespace tests`},
		"none":          {"", "", `there is no TrafficRun, TrafficProfile or TrafficGenerator "none" in namespace tests`},
		"run/":          {"", "", "run/: must be a name, or one of run/NAME, profile/NAME, generator/NAME"},
		"search/web":    {"", "", "search/web: must be a name, or one of run/NAME, profile/NAME, generator/NAME"},
	} {
		s, err := Find(t.Context(), reader, "tests", argument)
		if err != nil {
			if err.Error() != want.err {
				t.Errorf("%s: %v", argument, err)
			}
			continue
		}
		run := ""
		if s.Run != nil {
			run = s.Run.Name
		}
		if s.Kind != want.kind || run != want.run || (s.Generator != nil) != (want.kind == GeneratorKind) {
			t.Errorf("%s: %+v", argument, s)
		}
		if s.Kind == GeneratorKind {
			continue
		}
		latest, err := s.Latest(t.Context(), reader)
		if err != nil || (latest == nil) != (run == "") || latest != nil && latest.Name != run {
			t.Errorf("%s: the latest run is %+v, %v", argument, latest, err)
		}
	}
	refused := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
		Get: func(context.Context, kube.WithWatch, kube.ObjectKey, kube.Object, ...kube.GetOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "trafficruns"}, "web", nil)
		},
	})
	if _, err := Find(t.Context(), refused, "tests", "web"); !apierrors.IsForbidden(err) {
		t.Errorf("what may not be read is not missing: %v", err)
	}
}
