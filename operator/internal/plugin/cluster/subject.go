// SPDX-License-Identifier: Apache-2.0

package cluster

// This file answers: which objects does an argument name?

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// Kinds of objects that arguments name.
const (
	RunKind       = "TrafficRun"
	ProfileKind   = "TrafficProfile"
	GeneratorKind = "TrafficGenerator"
	SearchKind    = "TrafficSearch"
)

// prefixes are what kubectl calls the kinds in KIND/NAME, without the plural.
var prefixes = map[string][]string{
	RunKind: {"run", "tr", "trafficrun"}, ProfileKind: {"profile", "tp", "trafficprofile"},
	GeneratorKind: {"generator", "tg", "trafficgenerator"}, SearchKind: {"search", "ts", "trafficsearch"},
}

// Argument is NAME, which is of any of a command's kinds, or KIND/NAME.
type Argument struct {
	Name string
	// kinds of the command, in the order in which they are tried, or only the one that the argument has.
	kinds     []string
	qualified bool
}

// ParseArgument splits an argument. The command takes objects of these kinds; of several with one name the first is meant.
func ParseArgument(text string, kinds ...string) (Argument, error) {
	prefix, name, qualified := strings.Cut(text, "/")
	if !qualified {
		return Argument{Name: text, kinds: kinds}, nil
	}
	var known []string
	for _, kind := range kinds {
		if slices.Contains(prefixes[kind], strings.ToLower(prefix)) && name != "" {
			return Argument{Name: name, kinds: []string{kind}, qualified: true}, nil
		}
		known = append(known, prefixes[kind][0]+"/NAME")
	}
	return Argument{}, fmt.Errorf("%s: must be a name, or one of %s", text, strings.Join(known, ", "))
}

// Has reports whether the argument may be the name of an object of a kind.
func (a Argument) Has(kind string) bool { return slices.Contains(a.kinds, kind) }

// Is reports whether the argument names an object. A name alone names objects of all kinds.
func (a Argument) Is(kind, name string) bool { return a.Name == name && (!a.qualified || a.Has(kind)) }

// Covers reports whether a run has the name, executes the profile of that name, or belongs to the search of that name.
func (a Argument) Covers(run *spatev1.TrafficRun) bool {
	owner := metav1.GetControllerOf(run)
	return a.Is(RunKind, run.Name) || a.Is(ProfileKind, ProfileOf(run)) || owner != nil && owner.Kind == SearchKind && a.Is(SearchKind, owner.Name)
}

// MissingError says that a namespace has no object that an argument names.
type MissingError struct {
	Argument
	namespace string
}

func (e MissingError) Error() string {
	kinds := e.kinds[len(e.kinds)-1]
	if others := e.kinds[:len(e.kinds)-1]; len(others) > 0 {
		kinds = strings.Join(others, ", ") + " or " + kinds
	}
	return fmt.Sprintf("there is no %s %q in namespace %s", kinds, e.Name, e.namespace)
}

// Missing returns a MissingError of the argument.
func (a Argument) Missing(namespace string) error { return MissingError{a, namespace} }

// Subject is what an argument names: a run, a profile or a generator.
type Subject struct {
	Kind, Namespace, Name string
	// Run of the name, or the latest of the profile. Nil for a generator, and for a profile that has no run.
	Run *spatev1.TrafficRun
	// Generator of the name; nil for a run and for a profile.
	Generator *spatev1.TrafficGenerator
}

// Find returns what an argument names: a run, else a profile, else a generator. A profile that was deleted is known by its runs. The error
// is a MissingError if there is none.
func Find(ctx context.Context, reader kube.Reader, namespace, argument string) (*Subject, error) {
	of, err := ParseArgument(argument, RunKind, ProfileKind, GeneratorKind)
	if err != nil {
		return nil, err
	}
	if of.Has(RunKind) && !of.Has(ProfileKind) {
		of.kinds = append(of.kinds, ProfileKind) // a run may be named by its profile
	}
	key := kube.ObjectKey{Namespace: namespace, Name: of.Name}
	for _, kind := range of.kinds {
		s := &Subject{Kind: kind, Namespace: namespace, Name: of.Name}
		var err error
		switch kind {
		case RunKind:
			s.Run = &spatev1.TrafficRun{}
			err = reader.Get(ctx, key, s.Run)
		case ProfileKind:
			if s.Run, err = latestRun(ctx, reader, namespace, of.Name); s.Run == nil && err == nil {
				err = reader.Get(ctx, key, &spatev1.TrafficProfile{})
			}
		case GeneratorKind:
			s.Generator = &spatev1.TrafficGenerator{}
			err = reader.Get(ctx, key, s.Generator)
		}
		if kube.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil {
			return s, nil
		}
	}
	return nil, of.Missing(namespace)
}

// Latest reads the run again, or the latest run that the profile has by now; nil if there is none.
func (s *Subject) Latest(ctx context.Context, reader kube.Reader) (*spatev1.TrafficRun, error) {
	if s.Kind == ProfileKind {
		return latestRun(ctx, reader, s.Namespace, s.Name)
	}
	run := &spatev1.TrafficRun{}
	if err := reader.Get(ctx, kube.ObjectKey{Namespace: s.Namespace, Name: s.Name}, run); err != nil {
		return nil, kube.IgnoreNotFound(err)
	}
	return run, nil
}

// NoRunError says that there is neither a run of a name nor one of a profile of that name.
type NoRunError struct{ name, namespace string }

func (e NoRunError) Error() string {
	return fmt.Sprintf("there is no TrafficRun %q in namespace %s, and no run of a TrafficProfile %q", e.name, e.namespace, e.name)
}

// FindRun returns the run of a name, or the latest run of a profile of that name.
func FindRun(ctx context.Context, reader kube.Reader, namespace, name string) (*spatev1.TrafficRun, error) {
	run := &spatev1.TrafficRun{}
	missing := reader.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: name}, run)
	if missing == nil || kube.IgnoreNotFound(missing) != nil {
		return run, missing
	}
	latest, err := latestRun(ctx, reader, namespace, name)
	if latest == nil && err == nil {
		err = NoRunError{name: name, namespace: namespace}
	}
	return latest, err
}

// latestRun returns the latest run of a profile; nil if it has none.
func latestRun(ctx context.Context, reader kube.Reader, namespace, profile string) (*spatev1.TrafficRun, error) {
	var runs spatev1.TrafficRunList
	if err := reader.List(ctx, &runs, kube.InNamespace(namespace)); err != nil {
		return nil, err
	}
	ofProfile := slices.DeleteFunc(runs.Items, func(r spatev1.TrafficRun) bool { return ProfileOf(&r) != profile })
	if len(ofProfile) == 0 {
		return nil, nil
	}
	latest := slices.MaxFunc(ofProfile, func(a, b spatev1.TrafficRun) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return &latest, nil
}

// ProfileOf returns the name of the profile that a run executes: its own if the run has an inline profile.
func ProfileOf(run *spatev1.TrafficRun) string {
	if ref := run.Spec.ProfileRef; ref != nil {
		return string(ref.Name)
	}
	return run.Name
}
