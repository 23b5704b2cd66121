// SPDX-License-Identifier: Apache-2.0

package api_test

// Does the glossary have every word that the API and the engine count and report by?

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

const repository = "../../../"

// matches gives the first group of each match of an expression in a file.
func matches(t *testing.T, file, expression string) []string {
	t.Helper()
	text, err := os.ReadFile(repository + file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1) {
		found = append(found, match[1])
	}
	if len(found) < 5 {
		t.Fatalf("%s: only %d matches of %s", file, len(found), expression)
	}
	return found
}

func TestTheGlossaryIsComplete(t *testing.T) {
	text, err := os.ReadFile(repository + "docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	glossary := string(text)
	for _, condition := range matches(t, "api/v1alpha1/conditions.go", `Condition\w+ = "(\w+)"`) {
		if !strings.Contains(glossary, "| **"+condition+"** |") {
			t.Errorf("no row of the condition %s", condition)
		}
	}
	for _, counter := range matches(t, "engine/stateful/src/counters.rs", `(?m)^    [A-Z]\w+ "([a-z_]+)"`) {
		if !strings.Contains(glossary, "`"+counter+"`") {
			t.Errorf("no row has the counter %s of templates", counter)
		}
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[spatev1.StreamCounters](), reflect.TypeFor[spatev1.FlowCounters](), reflect.TypeFor[spatev1.RecordCounters](),
		reflect.TypeFor[spatev1.RunResult](), reflect.TypeFor[spatev1.ReceiverResult](),
	} {
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && !strings.Contains(glossary, "`"+name+"`") && !strings.Contains(glossary, "."+name+"`") {
				t.Errorf("no row has the field %s of %s", name, of.Name())
			}
		}
	}
}

func TestTheGlossaryIsAlphabetical(t *testing.T) {
	words := matches(t, "docs/glossary.md", `(?m)^\| \*\*(.+?)\*\* \|`)
	for i, word := range words {
		words[i] = strings.ToLower(word)
	}
	if !slices.IsSorted(words) {
		for i := 1; i < len(words); i++ {
			if words[i] < words[i-1] {
				t.Errorf("%s comes after %s", words[i], words[i-1])
			}
		}
	}
	if len(slices.Compact(words)) != len(words) {
		t.Error("a word has two rows")
	}
}
