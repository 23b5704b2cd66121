// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

func TestWhatIsChangedIsRight(t *testing.T) {
	if problems := answer(right); len(problems) > 0 {
		t.Errorf("the right file: %v", problems)
	}
}

func TestMistakesAreAnsweredWithFieldReasonAndRemedy(t *testing.T) {
	count := 0
	for _, c := range chapters {
		for _, m := range c.mistakes {
			count++
			t.Run(m.title, func(t *testing.T) {
				t.Parallel()
				if strings.Count(right, m.at) != 1 {
					t.Fatalf("%q is %d times in the right file", m.at, strings.Count(right, m.at))
				}
				if problems := answer(m.corrected()); len(problems) > 0 {
					t.Errorf("what is written instead: %v", problems)
				}
				problems := answer(m.made())
				if len(problems) == 0 {
					t.Fatal("nothing is said of it")
				}
				if found := problems[0]; found.Field != m.field || m.remedy == "" || !strings.Contains(found.Error(), m.remedy) {
					t.Errorf("%s: %s\nwant %s: %s", found.Field, found.Error(), m.field, m.remedy)
				}
				for _, other := range problems[1:] {
					if !strings.Contains(other.Message, "some validation rules were not checked") {
						t.Errorf("another problem: %s", other.Error())
					}
				}
			})
		}
	}
	if count < 40 {
		t.Errorf("there are %d", count)
	}
}

// What is in docs is what is printed now: `make verify-generated` compares it too, which takes longer.
func TestThePageIsCurrent(t *testing.T) {
	written, err := os.ReadFile("../../../docs/reference/mistakes.md")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := page(); err != nil || text != string(written) {
		t.Errorf("docs/reference/mistakes.md is not current (%v): run `make generate`", err)
	}
}
