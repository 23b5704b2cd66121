// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/runstest"
)

func generatorOf(namespace, name string, profile types.UID) client.Object {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if yes := true; profile != "" {
		g.OwnerReferences = []metav1.OwnerReference{{APIVersion: "spate.dev/v1alpha1", Kind: "TrafficProfile", Name: name, UID: profile, Controller: &yes}}
	}
	return g
}

func TestTheGeneratorOfADefinitionIsItsOwnTheOneItNamesOrTheOnlyOne(t *testing.T) {
	ref := func(name, namespace string) func(*spatev1.TrafficProfileSpec) {
		return func(s *spatev1.TrafficProfileSpec) {
			s.GeneratorRef = &spatev1.GeneratorReference{Name: spatev1.ObjectName(name), Namespace: namespace}
		}
	}
	own := func(s *spatev1.TrafficProfileSpec) { s.Generator = &spatev1.TrafficGeneratorSpec{} }
	neither := func(*spatev1.TrafficProfileSpec) {}
	for name, c := range map[string]struct {
		spec      func(*spatev1.TrafficProfileSpec)
		there     []client.Object
		want, key string
		problem   string
	}{
		"named":                         {ref("lab", ""), []client.Object{generatorOf("n", "lab", ""), generatorOf("n", "other", "")}, "n/lab", "n/lab", ""},
		"named elsewhere":               {ref("lab", "shared"), []client.Object{generatorOf("n", "lab", ""), generatorOf("shared", "lab", "")}, "shared/lab", "shared/lab", ""},
		"named, another profile's":      {ref("lab", ""), []client.Object{generatorOf("n", "lab", "q-uid")}, "n/lab", "n/lab", ""},
		"named, and not there":          {ref("lab", ""), nil, "", "n/lab", ""},
		"its own":                       {own, []client.Object{generatorOf("n", "p", "p-uid")}, "n/p", "n/p", ""},
		"its own, not there yet":        {own, nil, "", "n/p", ""},
		"its own, but somebody else's":  {own, []client.Object{generatorOf("n", "p", "")}, "", "n/p", `InvalidSpec: spec.generator: TrafficGenerator "p" exists and is not owned by this profile`},
		"its own, of an earlier":        {own, []client.Object{generatorOf("n", "p", "earlier-uid")}, "", "n/p", `InvalidSpec: spec.generator: TrafficGenerator "p"`},
		"the only one":                  {neither, []client.Object{generatorOf("n", "lab", ""), generatorOf("other", "lab", "")}, "n/lab", "n/*", ""},
		"the only one beside profiles'": {neither, []client.Object{generatorOf("n", "lab", ""), generatorOf("n", "q", "q-uid")}, "n/lab", "n/*", ""},
		"profiles' alone":               {neither, []client.Object{generatorOf("n", "q", "q-uid")}, "", "n/*", "ReferenceNotFound: spec.generatorRef: is required: namespace n has no TrafficGenerator"},
		"one of two":                    {neither, []client.Object{generatorOf("n", "a", ""), generatorOf("n", "b", "")}, "", "n/*", "InvalidSpec: spec.generatorRef: is required: namespace n has 2 TrafficGenerators (a, b)"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &spatev1.TrafficProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "p-uid"}}
			c.spec(&p.Spec)
			r := &Resolver{Client: runstest.Builder(t).WithObjects(c.there...).Build()}
			g, problems, err := r.GeneratorOf(t.Context(), p)
			got := ""
			if g != nil {
				got = client.ObjectKeyFromObject(g).String()
			}
			if err != nil || got != c.want || GeneratorKey(p).String() != c.key {
				t.Errorf("%q at %s, %v", got, GeneratorKey(p), err)
			}
			if (len(problems) > 0) != (c.problem != "") || len(problems) > 0 && !strings.HasPrefix(problems.Error(), c.problem) {
				t.Errorf("%v, want %s", problems, c.problem)
			}
		})
	}
}

func TestOneRunIsAdmittedToAGeneratorAtATime(t *testing.T) {
	r := (&Resolver{}).Init()
	lab, other := client.ObjectKey{Namespace: "n", Name: "lab"}, client.ObjectKey{Namespace: "n", Name: "other"}
	leave, ok := r.Enter(lab)
	if !ok {
		t.Fatal("nobody is there")
	}
	if _, ok := r.Enter(lab); ok {
		t.Error("two are admitted at a time")
	}
	if leave, ok := r.Enter(other); !ok {
		t.Error("another generator waits")
	} else {
		leave()
	}
	leave()
	if _, ok := r.Enter(lab); !ok {
		t.Error("it is still reserved")
	}
}

func TestAGeneratorWithinAProfileHasNoSecretsAndNoForeignNetworks(t *testing.T) {
	g := &spatev1.TrafficGeneratorSpec{}
	g.Volumes = []spatev1.GeneratorVolume{{Name: "a"}, {Name: "b", Secret: &spatev1.SecretVolume{}}}
	g.Ports = []spatev1.GeneratorPort{
		{Name: "own", Attachment: spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Namespace: "n"}}}},
		{Name: "foreign", Attachment: spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Namespace: "other"}}}},
		{Name: "device", Attachment: spatev1.PortAttachment{SRIOV: &spatev1.SRIOVAttachment{NetworkReference: spatev1.NetworkReference{Namespace: "other"}}}},
	}
	const secret, network = "spec.generator.volumes[1].secret", "spec.generator.ports[1].attachment.kernel.namespace spec.generator.ports[2].attachment.sriov.namespace"
	for _, c := range []struct {
		allowed InlineAllowed
		refused string
	}{
		{InlineAllowed{}, secret + " " + network}, {InlineAllowed{SecretVolumes: true}, network}, {InlineAllowed{ForeignNetworks: true}, secret}, {InlineAllowed{true, true}, ""},
	} {
		var paths []string
		for _, p := range c.allowed.Refuse(g, "n") {
			paths = append(paths, p.Path)
			if p.Reason != spatev1.ReasonNotAllowed {
				t.Errorf("%+v", p)
			}
		}
		if got := strings.Join(paths, " "); got != c.refused {
			t.Errorf("%+v: refused %q, want %q", c.allowed, got, c.refused)
		}
	}
}
