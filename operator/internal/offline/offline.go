// SPDX-License-Identifier: Apache-2.0

// Package offline plans what stands in files, without a cluster: as the operator would if they were applied.
package offline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/stream"
)

// Files are the objects of some files, to be planned.
type Files struct {
	*manifest.Set
	// LineRate of the ports of generators that stand in for absent ones (see StandIn).
	LineRate spatev1.BitRate
}

// Resolve makes a definition into what can be run, or gives every problem.
func (f Files) Resolve(d Definition) (*plan.Resolved, []manifest.Problem) {
	resolved, found := f.resolve(d)
	if len(found) > 0 {
		return nil, reported(d.Origin, d.Object, d.own(found))
	}
	return resolved, nil
}

// resolve gives the problems of the profile.
func (f Files) resolve(d Definition) (*plan.Resolved, problem.Problems) {
	in := plan.Input{Profile: d.Profile, Run: d.run, Streams: map[string]*spatev1.StatelessStream{}, Templates: map[string]*spatev1.ASTFTemplate{}, Clients: map[string]*spatev1.ClientGroup{}}
	for _, s := range f.Streams {
		if s.Value.Namespace == d.Profile.Namespace {
			in.Streams[s.Value.Name] = s.Value
		}
	}
	for _, t := range f.Templates {
		if t.Value.Namespace == d.Profile.Namespace {
			in.Templates[t.Value.Name] = t.Value
		}
	}
	for _, g := range f.ClientGroups {
		if g.Value.Namespace == d.Profile.Namespace {
			in.Clients[g.Value.Name] = g.Value
		}
	}
	generator, problems := f.generator(d.Profile)
	in.Generator = generator
	in.Data = f.data(d.Profile.Namespace)
	resolved, found := plan.Resolve(in)
	if len(problems) > 0 { // instead of that there is none
		found = slices.DeleteFunc(found, func(p problem.Problem) bool { return p == plan.GeneratorRequired(d.Profile.Namespace, nil) })
	}
	return resolved, append(problems, found...)
}

// generator finds what a profile refers to, or makes a stand-in where there is no generator at all. A profile that refers to none has the
// only one of its namespace.
func (f Files) generator(profile *spatev1.TrafficProfile) (*spatev1.TrafficGenerator, problem.Problems) {
	ref := profile.Spec.GeneratorRef
	switch {
	case ref == nil && profile.Spec.Generator != nil:
		return nil, nil
	case ref == nil:
		return f.only(profile.Namespace)
	}
	namespace := cmp.Or(ref.Namespace, profile.Namespace)
	if len(f.Generators) == 0 && !f.Unread("TrafficGenerator", namespace, string(ref.Name)) { // one with a problem is not stood in for
		return StandIn(profile, f.LineRate), nil
	}
	for _, g := range f.Generators {
		if g.Value.Name != string(ref.Name) || g.Value.Namespace != namespace {
			continue
		}
		if grant := g.Value.Spec.AllowedNamespaces.From; namespace != profile.Namespace && (grant == "" || grant == spatev1.NamespacesSame) {
			return g.Value, problem.Problems{{
				Reason: spatev1.ReasonReferenceNotAllowed, Path: "spec.generatorRef",
				Message: fmt.Sprintf("TrafficGenerator %s in namespace %s (%s) does not allow namespace %s: see its spec.allowedNamespaces",
					ref.Name, namespace, g.Origin, profile.Namespace),
			}}
		}
		return g.Value, nil
	}
	return nil, nil
}

// only is the one generator of a namespace.
func (f Files) only(namespace string) (*spatev1.TrafficGenerator, problem.Problems) {
	var names []string
	var found *spatev1.TrafficGenerator
	for _, g := range f.Generators {
		if g.Value.Namespace == namespace {
			names, found = append(names, g.Value.Name), g.Value
		}
	}
	if len(names) == 1 {
		return found, nil
	}
	return nil, problem.Problems{plan.GeneratorRequired(namespace, names)}
}

// reported are a plan's problems as those of an object.
func reported(at manifest.Origin, object string, found problem.Problems) []manifest.Problem {
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

// Check gives the problems of all objects, each by itself, and of profiles and runs with what they refer to.
func (f Files) Check() []manifest.Problem {
	var problems []manifest.Problem
	wrong := map[string]bool{}                 // objects that have problems of their own
	ofProfile := map[string]problem.Problems{} // those of profiles, by namespace and name
	add := func(at manifest.Origin, object string, found problem.Problems) {
		problems = append(problems, reported(at, object, found)...)
		wrong[object] = wrong[object] || len(found) > 0
	}
	for _, g := range f.Generators {
		add(g.Origin, "TrafficGenerator "+g.Value.Name, plan.CheckGenerator(&g.Value.Spec))
	}
	for _, s := range f.Streams {
		_, found := stream.Check(&s.Value.Spec)
		add(s.Origin, "StatelessStream "+s.Value.Name, found)
	}
	for _, t := range f.Templates {
		add(t.Origin, "ASTFTemplate "+t.Value.Name, application.Check(&t.Value.Spec))
	}
	definitions, more := f.Definitions()
	for _, d := range definitions {
		_, found := f.resolve(d)
		found = slices.DeleteFunc(found, func(problem problem.Problem) bool { return wrong[problem.Within] || f.unread(d.Profile, problem) })
		if d.run != nil && d.run.Spec.ProfileRef != nil {
			found = without(found, ofProfile[key(d.Profile)])
		} else if d.run == nil {
			ofProfile[key(d.Profile)] = found
		}
		add(d.Origin, d.Object, d.own(found))
	}
	for _, s := range f.Searches {
		add(s.Origin, "TrafficSearch "+s.Value.Name, f.search(s))
	}
	return append(problems, more...)
}

// key of a profile among those of all namespaces.
func key(profile *spatev1.TrafficProfile) string { return profile.Namespace + "/" + profile.Name }

// without omits the problems of the profile that a run refers to.
func without(found, ofProfile problem.Problems) problem.Problems {
	return slices.DeleteFunc(found, func(problem problem.Problem) bool { return slices.Contains(ofProfile, problem) })
}

// Warnings gives what is worth knowing of definitions that can be run.
func (f Files) Warnings() []manifest.Problem {
	var all []manifest.Problem
	ofProfile := map[string]problem.Problems{}
	definitions, _ := f.Definitions()
	for _, d := range definitions {
		resolved, problems := f.resolve(d)
		if len(problems) > 0 {
			continue
		}
		found := resolved.Warnings
		if d.run == nil {
			ofProfile[key(d.Profile)] = found
		} else if d.run.Spec.ProfileRef != nil {
			found = without(slices.Clone(found), ofProfile[key(d.Profile)])
		}
		all = append(all, reported(d.Origin, d.Object, d.own(found))...)
	}
	return all
}

// unread reports whether a problem is that something does not exist which is in the files, and has problems of its own.
func (f Files) unread(profile *spatev1.TrafficProfile, problem problem.Problem) bool {
	if problem.Reason != spatev1.ReasonReferenceNotFound {
		return false
	}
	if problem == plan.GeneratorRequired(profile.Namespace, nil) {
		return f.AnyUnread("TrafficGenerator", profile.Namespace)
	}
	for _, kind := range []string{"ASTFTemplate", "StatelessStream", "ClientGroup", "TrafficGenerator", "ConfigMap", "Secret"} {
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
