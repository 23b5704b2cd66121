// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"spate.dev/operator/internal/plan/problem"
)

// checker checks parts of objects, and adds what is wrong with them to its problems.
type checker struct{ *problem.Problems }
