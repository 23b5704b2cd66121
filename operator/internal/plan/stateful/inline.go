// SPDX-License-Identifier: Apache-2.0

// Does a template that is described inline keep the rules of ASTFTemplates? Those of its programs are not in the CustomResourceDefinitions of
// profiles and runs: an API server admits there what it refuses of an ASTFTemplate.

package stateful

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/definition"
	"spate.dev/operator/internal/plan/problem"
)

// mostInlineCommands is the maximum number of commands of all inline templates of a profile, as many as four ASTFTemplates can have: to validate a
// command takes about 0.1 ms.
const mostInlineCommands = 4 * 2 * spatev1.MaxCommands

// inlineRules validates the inline templates of a profile.
type inlineRules struct {
	// commands of the templates so far.
	commands int
}

// broken returns what an API server would refuse of an inline template, if it were an ASTFTemplate, in its words.
func (r *inlineRules) broken(inline *spatev1.ASTFTemplateSpec, at *field.Path) (problems problem.Problems) {
	if inline == nil || inline.Source.Programs == nil {
		return nil // the API server has validated it
	}
	programs := inline.Source.Programs
	if r.commands += len(programs.Client) + len(programs.Server); r.commands > mostInlineCommands {
		problems.Add(spatev1.ReasonInvalidSpec, at.Child("source", "programs"),
			"with it inline templates have %d commands, and a profile may have %d; write an ASTFTemplate, and refer to it with templateRef", r.commands, mostInlineCommands)
		return problems
	}
	for _, fault := range definition.Template(inline) {
		problems = append(problems, problem.Problem{
			Reason: spatev1.ReasonInvalidSpec, Path: at.String() + strings.TrimPrefix(fault.Field, "spec"), Message: fault.Message,
		})
	}
	return problems
}
