// SPDX-License-Identifier: Apache-2.0

package verdict

// This file answers: what does an expression use that cannot be known when the counters of an engine are lost?

import (
	"slices"

	"cel.dev/cel-go/common/ast"
)

// betweenEngines are fields of a result and of its streams that compare what one engine sent with what another received, or sum up what
// each received of all. Without one of the engines they are not known, not even as a bound: it may have received what the others sent, and they what
// it sent. All other fields are what the remaining engines did.
var betweenEngines = []string{"rx", "rxBytes", "rxPps", "rxBps", "lost", "lossRatio", outage, byTag}

// outage is a field of streams and of sides of templates: while one engine received nothing, another may have.
const outage = "outage"

// byTag is a field of streams.
const byTag = "byTag"

// Unknown returns the fields that the expression reads and that are not known without one of the engines. It does not depend on values: an
// expression that reads such a field only in some cases reads it. A baseline has lost no engine.
func (t *Threshold) Unknown() []string {
	var fields []string
	for _, e := range ast.MatchDescendants(ast.NavigateAST(t.compiled.NativeRep()), ast.KindMatcher(ast.SelectKind)) {
		if rootOf(e) == Baseline {
			continue
		}
		field, of := e.AsSelect().FieldName(), typeOf(e.Children()[0])
		// The type of a value of dyn is only known when it is evaluated.
		if slices.Contains(betweenEngines, field) && (of == "verdict.Result" || of == "verdict.Stream" || of == "verdict.Side" && field == outage || of == "dyn") && !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	return fields
}
