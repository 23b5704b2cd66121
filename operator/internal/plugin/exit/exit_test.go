// SPDX-License-Identifier: Apache-2.0

package exit

import (
	"errors"
	"fmt"
	"testing"
)

func TestTheFirstCodeOfAnErrorIsKept(t *testing.T) {
	invalid := With(Invalid, errors.New("no threshold"))
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, Passed},
		{errors.New("no file"), Failed},
		{invalid, Invalid},
		{fmt.Errorf("profile imix: %w", invalid), Invalid},
		{With(NotRun, fmt.Errorf("profile imix: %w", invalid)), Invalid},
		{With(NotRun, nil), Passed},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}
