// SPDX-License-Identifier: Apache-2.0

// What would an engine refuse of what is right so far?

package offline

import (
	"context"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/origin"
	"spate.dev/operator/internal/plan/problem"
)

// trying is an engine that looks at objects.
type trying struct {
	engine.Compiler
	files Files
	// wrong are objects of which a problem is known.
	wrong map[string]bool
	// looked are templates that a profile or a run was tried with.
	looked map[string]bool
	Tried
}

// Tried is what an engine reports of objects.
type Tried struct {
	Refused, Warned []manifest.Problem
	// Untried was not looked at, with why.
	Untried []manifest.Problem
}

// Try has an engine look at templates, each by itself, and at profiles and runs, but for those that have a problem already.
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
	definitions, _ := f.Definitions()
	for _, d := range definitions {
		if err := t.definition(ctx, d); err != nil {
			return Tried{}, err
		}
	}
	// What runs a template reports all that the template by itself does.
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
	t.note(template.Origin, object, origin.Of(made, nil, nil), checked, origin.Refusal.OfTemplate)
	return err
}

func (t *trying) definition(ctx context.Context, d Definition) error {
	resolved, problems := t.files.Resolve(d)
	ofWrong := func(e spatev1.TrafficEntry) bool {
		ref := application.Ref(&e)
		return ref != nil && t.wrong[objectOf(string(ref.Name))]
	}
	ofWrongProfile := d.run != nil && d.run.Spec.ProfileRef != nil && t.wrong["TrafficProfile "+d.Profile.Name]
	if t.wrong[d.Object] || ofWrongProfile || len(problems) > 0 || slices.ContainsFunc(d.Profile.Spec.Traffic, ofWrong) {
		return nil
	}
	made := d.Plan(resolved)
	if engine.OnVolume(made) {
		t.Untried = append(t.Untried, manifest.Problem{Origin: d.Origin, Object: d.Object, Message: "captures are on volumes, which only a generator's engines see"})
		return nil
	}
	for _, entry := range resolved.Entries {
		t.looked[objectOf(string(entry.Template))] = true
	}
	checked, err := t.Check(ctx, made)
	t.wrong[d.Object] = len(checked.Refused) > 0
	t.note(d.Origin, d.Object, origin.Of(made, resolved.Entries, resolved.Clients), checked, func(r origin.Refusal) problem.Problem { return d.own(problem.Problems{r.Problem(d.Profile)})[0] })
	return err
}

// note adds what an engine reports of an object; a refusal is a problem of it.
func (t *trying) note(from manifest.Origin, object string, origin origin.Origin, checked engine.Checked, refused func(origin.Refusal) problem.Problem) {
	var found problem.Problems
	for _, violation := range checked.Refused {
		found = append(found, refused(origin.Refused(violation.Field, violation.Description)))
	}
	t.Refused = append(t.Refused, reported(from, object, found)...)
	for _, violation := range checked.Warned {
		warned := manifest.Problem{Origin: from, Object: object, Message: origin.Refused(violation.Field, violation.Description).Error()}
		if !slices.Contains(t.Warned, warned) { // both programs of a preset have one field
			t.Warned = append(t.Warned, warned)
		}
	}
}
