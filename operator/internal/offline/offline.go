// SPDX-License-Identifier: Apache-2.0

// Package offline plans what stands in files, without a cluster: as the operator would if they were applied.
package offline

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/plan"
)

// Files are the objects of some files, to be planned.
type Files struct {
	*manifest.Set
	// LineRate of the ports of generators that stand in for absent ones (see StandIn).
	LineRate spatev1.BitRate
}

// Profile finds a profile by its name; the only one there is when the name is empty.
func (f Files) Profile(name string) (manifest.Object[*spatev1.TrafficProfile], error) {
	var names []string
	var found []manifest.Object[*spatev1.TrafficProfile]
	for _, p := range f.Profiles {
		names = append(names, p.Value.Name)
		if name == "" || p.Value.Name == name {
			found = append(found, p)
		}
	}
	switch {
	case len(f.Profiles) == 0:
		return manifest.Object[*spatev1.TrafficProfile]{}, fmt.Errorf("there is no TrafficProfile in the files")
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return manifest.Object[*spatev1.TrafficProfile]{}, fmt.Errorf("there is no TrafficProfile %q in the files; there is %s", name, strings.Join(names, ", "))
	case name == "":
		return manifest.Object[*spatev1.TrafficProfile]{}, fmt.Errorf("there are %d TrafficProfiles in the files: choose one with --profile, of %s", len(found), strings.Join(names, ", "))
	default:
		return manifest.Object[*spatev1.TrafficProfile]{}, fmt.Errorf("there are %d TrafficProfiles %q in the files, in several namespaces; give the files of one", len(found), name)
	}
}

// Resolve makes a profile into what can be run, or tells every problem.
func (f Files) Resolve(profile manifest.Object[*spatev1.TrafficProfile]) (*plan.Resolved, []manifest.Problem) {
	resolved, found, problems := f.resolve(profile)
	problems = append(problems, told(profile.Origin, "TrafficProfile "+profile.Value.Name, found)...)
	if len(problems) > 0 {
		return nil, problems
	}
	return resolved, nil
}

// resolve gives the problems that only files have apart.
func (f Files) resolve(profile manifest.Object[*spatev1.TrafficProfile]) (*plan.Resolved, plan.Problems, []manifest.Problem) {
	in := plan.Input{Profile: profile.Value, Streams: map[string]*spatev1.StatelessStream{}, Templates: map[string]*spatev1.ASTFTemplate{}}
	for _, s := range f.Streams {
		if s.Value.Namespace == profile.Value.Namespace {
			in.Streams[s.Value.Name] = s.Value
		}
	}
	for _, t := range f.Templates {
		if t.Value.Namespace == profile.Value.Namespace {
			in.Templates[t.Value.Name] = t.Value
		}
	}
	generator, problems := f.generator(profile)
	in.Generator = generator
	in.Data = f.data(profile.Value.Namespace)
	resolved, found := plan.Resolve(in)
	return resolved, found, problems
}

// generator finds what a profile refers to, or makes a stand-in where there is no generator at all.
func (f Files) generator(profile manifest.Object[*spatev1.TrafficProfile]) (*spatev1.TrafficGenerator, []manifest.Problem) {
	ref := profile.Value.Spec.GeneratorRef
	if ref == nil {
		return nil, nil // its own, or told when it is resolved
	}
	if len(f.Generators) == 0 {
		return StandIn(profile.Value, f.LineRate), nil
	}
	namespace := ref.Namespace
	if namespace == "" {
		namespace = profile.Value.Namespace
	}
	for _, g := range f.Generators {
		if g.Value.Name != string(ref.Name) || g.Value.Namespace != namespace {
			continue
		}
		if grant := g.Value.Spec.AllowedNamespaces.From; namespace != profile.Value.Namespace && (grant == "" || grant == spatev1.NamespacesSame) {
			return g.Value, []manifest.Problem{{
				Origin: profile.Origin, Object: "TrafficProfile " + profile.Value.Name, Field: "spec.generatorRef",
				Message: fmt.Sprintf("TrafficGenerator %s in namespace %s (%s) does not allow namespace %s: see its spec.allowedNamespaces",
					ref.Name, namespace, g.Origin, profile.Value.Namespace),
			}}
		}
		return g.Value, nil
	}
	return nil, nil
}

// told are a plan's problems of an object.
func told(at manifest.Origin, object string, found plan.Problems) []manifest.Problem {
	all := make([]manifest.Problem, len(found))
	for i, problem := range found {
		all[i] = manifest.Problem{Origin: at, Object: object, Field: problem.Path, Message: problem.Message}
	}
	return all
}

// data of the ConfigMaps and Secrets of a namespace.
func (f Files) data(namespace string) map[spatev1.DataReference][]byte {
	all := map[spatev1.DataReference][]byte{}
	for _, c := range f.ConfigMaps {
		if c.Value.Namespace == namespace {
			name := spatev1.ObjectName(c.Value.Name)
			for key, text := range c.Value.Data {
				all[spatev1.DataReference{Kind: spatev1.DataConfigMap, Name: name, Key: key}] = []byte(text)
			}
			for key, bytes := range c.Value.BinaryData {
				all[spatev1.DataReference{Kind: spatev1.DataConfigMap, Name: name, Key: key}] = bytes
			}
		}
	}
	for _, s := range f.Secrets {
		if s.Value.Namespace == namespace {
			secret(all, s.Value)
		}
	}
	return all
}

// secret adds a Secret's keys; stringData has the last word, as in the cluster.
func secret(all map[spatev1.DataReference][]byte, s *corev1.Secret) {
	for key, bytes := range s.Data {
		all[spatev1.DataReference{Kind: spatev1.DataSecret, Name: spatev1.ObjectName(s.Name), Key: key}] = bytes
	}
	for key, text := range s.StringData {
		all[spatev1.DataReference{Kind: spatev1.DataSecret, Name: spatev1.ObjectName(s.Name), Key: key}] = []byte(text)
	}
}

// Check tells all that is wrong with the objects, each by itself and the profiles with what they refer to.
func (f Files) Check() []manifest.Problem {
	var problems []manifest.Problem
	wrong := map[string]bool{} // objects whose own problems are told
	add := func(at manifest.Origin, object string, found plan.Problems) {
		problems = append(problems, told(at, object, found)...)
		wrong[object] = wrong[object] || len(found) > 0
	}
	for _, g := range f.Generators {
		add(g.Origin, "TrafficGenerator "+g.Value.Name, plan.CheckGenerator(&g.Value.Spec))
	}
	for _, s := range f.Streams {
		_, found := plan.CheckStream(&s.Value.Spec)
		add(s.Origin, "StatelessStream "+s.Value.Name, found)
	}
	for _, t := range f.Templates {
		add(t.Origin, "ASTFTemplate "+t.Value.Name, plan.CheckTemplate(&t.Value.Spec))
	}
	for _, p := range f.Profiles {
		_, found, more := f.resolve(p)
		found = slices.DeleteFunc(found, func(problem plan.Problem) bool { return wrong[problem.Within] || f.unread(p.Value, problem) })
		add(p.Origin, "TrafficProfile "+p.Value.Name, found)
		problems = append(problems, more...)
	}
	return problems
}

// Warnings tells what is worth knowing of profiles that can be run.
func (f Files) Warnings() []manifest.Problem {
	var all []manifest.Problem
	for _, p := range f.Profiles {
		if resolved, problems := f.Resolve(p); len(problems) == 0 {
			all = append(all, told(p.Origin, "TrafficProfile "+p.Value.Name, resolved.Warnings)...)
		}
	}
	return all
}

// unread tells whether a problem is that something does not exist which is there, and whose own problems are told.
func (f Files) unread(profile *spatev1.TrafficProfile, problem plan.Problem) bool {
	if problem.Reason != spatev1.ReasonReferenceNotFound {
		return false
	}
	for _, kind := range []string{"ASTFTemplate", "StatelessStream", "TrafficGenerator", "ConfigMap", "Secret"} {
		_, named, found := strings.Cut(problem.Message, kind+" \"")
		if !found {
			continue
		}
		name, _, _ := strings.Cut(named, `"`)
		namespace := profile.Namespace
		if ref := profile.Spec.GeneratorRef; kind == "TrafficGenerator" && ref != nil && ref.Namespace != "" {
			namespace = ref.Namespace
		}
		if f.Unread(kind, namespace, name) {
			return true
		}
	}
	return false
}
