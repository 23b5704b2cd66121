// SPDX-License-Identifier: Apache-2.0

// What in the files can be run, and which of it is meant?

package offline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/problem"
)

// Definition is what can be run: a profile, or what a run executes.
type Definition struct {
	manifest.Origin
	// Object is the kind and name of what was read, such as `TrafficRun smoke-1`.
	Object string
	// Profile that is run.
	Profile *spatev1.TrafficProfile

	// run that executes the profile; nil where the profile itself is meant.
	run *spatev1.TrafficRun
}

// own gives problems of the profile by the fields of what was read.
func (d Definition) own(found problem.Problems) problem.Problems {
	if d.run == nil {
		return found
	}
	return plan.OfRun(found, d.run)
}

// name of the run, and of a profile's.
func (d Definition) name() string {
	if d.run == nil {
		return d.Profile.Name
	}
	return d.run.Name
}

// Plan for all engines together, with the bytes of Secrets in the files.
func (d Definition) Plan(resolved *plan.Resolved) *enginev1.Plan {
	return resolved.PlanWithData(plan.Identity{RunID: d.name(), Run: d.name(), Tag: 1, Profile: d.Profile.Name, Namespace: d.Profile.Namespace})
}

// Programs are the templates of the definition that have presets, with the programs that these stand for. Those that are described inline
// are named after the profile and their entry.
func (f Files) Programs(d Definition) []*spatev1.ASTFTemplate {
	var all []*spatev1.ASTFTemplate
	add := func(name string, spec *spatev1.ASTFTemplateSpec) {
		known := func(t *spatev1.ASTFTemplate) bool { return t.Name == name }
		if written := application.WrittenOut(spec); written != nil && !slices.ContainsFunc(all, known) {
			template := &spatev1.ASTFTemplate{Spec: *written}
			template.SetGroupVersionKind(spatev1.GroupVersion.WithKind("ASTFTemplate"))
			template.Name, template.Namespace = name, d.Profile.Namespace
			all = append(all, template)
		}
	}
	for i := range d.Profile.Spec.Traffic {
		e := &d.Profile.Spec.Traffic[i]
		if ref := application.Ref(e); ref != nil {
			for _, t := range f.Templates {
				if t.Value.Name == string(ref.Name) && t.Value.Namespace == d.Profile.Namespace {
					add(t.Value.Name, &t.Value.Spec)
				}
			}
		} else if e.Application != nil && e.Application.Inline != nil {
			add(d.Profile.Name+"-"+string(e.Name), e.Application.Inline)
		}
	}
	return all
}

// Definitions are all profiles, and then all runs whose profiles are known; the problems are those of the others.
func (f Files) Definitions() ([]Definition, []manifest.Problem) {
	var all []Definition
	var problems []manifest.Problem
	for _, p := range f.Profiles {
		all = append(all, f.profile(p))
	}
	for _, r := range f.Runs {
		d, found := f.run(r)
		problems = append(problems, found...)
		if d != nil {
			all = append(all, *d)
		}
	}
	return all, problems
}

func (f Files) profile(p manifest.Object[*spatev1.TrafficProfile]) Definition {
	return Definition{Origin: p.Origin, Object: "TrafficProfile " + p.Value.Name, Profile: p.Value}
}

// run gives what a run executes; nil where that is not known, which is a problem unless the profile is in the files and has problems of its own.
func (f Files) run(r manifest.Object[*spatev1.TrafficRun]) (*Definition, []manifest.Problem) {
	run := r.Value.DeepCopy()
	d := &Definition{Origin: r.Origin, Object: "TrafficRun " + cmp.Or(run.Name, run.GenerateName), run: run}
	run.Name = cmp.Or(run.Name, strings.TrimSuffix(run.GenerateName, "-"))
	problem := func(field, format string, args ...any) []manifest.Problem {
		return []manifest.Problem{{Origin: r.Origin, Object: d.Object, Field: field, Message: fmt.Sprintf(format, args...)}}
	}
	ref := run.Spec.ProfileRef
	if ref == nil { // then it describes one: the reader refuses a run of neither
		d.Profile = plan.Effective(run, nil)
		return d, nil
	}
	at := slices.IndexFunc(f.Profiles, func(p manifest.Object[*spatev1.TrafficProfile]) bool {
		return p.Value.Name == string(ref.Name) && p.Value.Namespace == run.Namespace
	})
	switch {
	case at >= 0:
		d.Profile = plan.Effective(run, f.Profiles[at].Value)
		return d, nil
	case f.Unread("TrafficProfile", run.Namespace, string(ref.Name)):
		return nil, nil
	}
	return nil, problem("spec.profileRef.name", "TrafficProfile %q does not exist in namespace %s: apply it, or correct the name", ref.Name, run.Namespace)
}

// Choose finds a run by its name, or a profile by its name. Without names it is the only profile; without profiles, the only run.
func (f Files) Choose(profile, run string) (Definition, error) {
	if run != "" || profile == "" && len(f.Profiles) == 0 && len(f.Runs) > 0 {
		one, err := choose(f.Runs, run, "TrafficRun", "--run", func(r *spatev1.TrafficRun) string { return cmp.Or(r.Name, r.GenerateName) })
		if err != nil {
			return Definition{}, err
		}
		d, problems := f.run(one)
		if d == nil {
			return Definition{}, errors.New(problems[0].Error()) // files with unread objects are not chosen from
		}
		return *d, nil
	}
	one, err := choose(f.Profiles, profile, "TrafficProfile", "--profile", func(p *spatev1.TrafficProfile) string { return p.Name })
	if err != nil {
		return Definition{}, err
	}
	return f.profile(one), nil
}

// choose finds an object by its name; the only one there is when the name is empty.
func choose[T any](all []manifest.Object[T], name, kind, flag string, nameOf func(T) string) (none manifest.Object[T], _ error) {
	var names []string
	var found []manifest.Object[T]
	for _, one := range all {
		names = append(names, nameOf(one.Value))
		if name == "" || nameOf(one.Value) == name {
			found = append(found, one)
		}
	}
	switch {
	case len(all) == 0:
		return none, fmt.Errorf("there is no %s in the files", kind)
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return none, fmt.Errorf("there is no %s %q in the files; there is %s", kind, name, strings.Join(names, ", "))
	case name == "":
		return none, fmt.Errorf("there are %d %ss in the files: choose one with %s, of %s", len(found), kind, flag, strings.Join(names, ", "))
	}
	return none, fmt.Errorf("there are %d %ss %q in the files, in several namespaces; give the files of one", len(found), kind, name)
}
