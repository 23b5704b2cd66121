// SPDX-License-Identifier: Apache-2.0

// What would an engine refuse of what is right so far?

package offline

import (
	"context"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/plan"
)

// PlanOf a profile, for all engines together, with the bytes of Secrets in the files.
func PlanOf(profile *spatev1.TrafficProfile, resolved *plan.Resolved) *enginev1.Plan {
	return resolved.PlanWithData(plan.Identity{RunID: profile.Name, Tag: 1, Profile: profile.Name, Namespace: profile.Namespace})
}

// trying is an engine that looks at objects.
type trying struct {
	engine.Compiler
	files Files
	// wrong are objects of which a problem is known.
	wrong map[string]bool
	// looked are templates that a profile was tried with.
	looked map[string]bool
	Tried
}

// Tried is what an engine said of objects.
type Tried struct {
	Refused, Warned []manifest.Problem
	// Untried was not looked at, with why.
	Untried []manifest.Problem
}

// Try has an engine look at templates, each by itself, and at profiles, but for those that have a problem already.
func (f Files) Try(ctx context.Context, compiler engine.Compiler, known []manifest.Problem) (Tried, error) {
	t := trying{Compiler: compiler, files: f, wrong: map[string]bool{}, looked: map[string]bool{}}
	for _, problem := range known {
		t.wrong[problem.Object] = true
	}
	for _, template := range f.Templates {
		if err := t.template(ctx, template); err != nil {
			return Tried{}, err
		}
	}
	for _, profile := range f.Profiles {
		if err := t.profile(ctx, profile); err != nil {
			return Tried{}, err
		}
	}
	// A profile that runs a template tells all that the template by itself does.
	ofLooked := func(one manifest.Problem) bool { return t.looked[one.Object] }
	t.Untried = slices.DeleteFunc(t.Untried, ofLooked)
	t.Warned = slices.DeleteFunc(t.Warned, ofLooked)
	return t.Tried, nil
}

func objectOf(template string) string { return "ASTFTemplate " + template }

func (t *trying) template(ctx context.Context, template manifest.Object[*spatev1.ASTFTemplate]) error {
	object := objectOf(template.Value.Name)
	if t.wrong[object] {
		return nil
	}
	made, why := plan.Alone(template.Value, t.files.data(template.Value.Namespace))
	if made == nil {
		t.Untried = append(t.Untried, manifest.Problem{Origin: template.Origin, Object: object, Message: why})
		return nil
	}
	checked, err := t.Check(ctx, made)
	t.wrong[object] = len(checked.Refused) > 0
	t.note(template.Origin, object, plan.OriginOf(made, nil), checked, plan.Refusal.OfTemplate)
	return err
}

func (t *trying) profile(ctx context.Context, profile manifest.Object[*spatev1.TrafficProfile]) error {
	object := "TrafficProfile " + profile.Value.Name
	resolved, problems := t.files.Resolve(profile)
	ofWrong := func(e spatev1.TrafficEntry) bool {
		ref := plan.TemplateRef(&e)
		return ref != nil && t.wrong[objectOf(string(ref.Name))]
	}
	if t.wrong[object] || len(problems) > 0 || slices.ContainsFunc(profile.Value.Spec.Traffic, ofWrong) {
		return nil
	}
	made := PlanOf(profile.Value, resolved)
	if engine.OnVolume(made) {
		t.Untried = append(t.Untried, manifest.Problem{Origin: profile.Origin, Object: object, Message: "captures are on volumes, which only a generator's engines see"})
		return nil
	}
	for _, entry := range resolved.Entries {
		t.looked[objectOf(string(entry.Template))] = true
	}
	checked, err := t.Check(ctx, made)
	t.note(profile.Origin, object, plan.OriginOf(made, resolved.Entries), checked, func(r plan.Refusal) plan.Problem { return r.Problem(profile.Value) })
	return err
}

// note what an engine said of an object; a refusal is a problem of it.
func (t *trying) note(from manifest.Origin, object string, origin plan.Origin, checked engine.Checked, problem func(plan.Refusal) plan.Problem) {
	var found plan.Problems
	for _, violation := range checked.Refused {
		found = append(found, problem(origin.Refused(violation.Field, violation.Description)))
	}
	t.Refused = append(t.Refused, told(from, object, found)...)
	for _, violation := range checked.Warned {
		t.Warned = append(t.Warned, manifest.Problem{Origin: from, Object: object, Message: origin.Refused(violation.Field, violation.Description).Error()})
	}
}
