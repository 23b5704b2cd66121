// SPDX-License-Identifier: Apache-2.0

package walkthroughs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/offline"
)

// blocks finds the YAML of a page.
var blocks = regexp.MustCompile("(?ms)^ *```yaml\n(.*?)^ *```$")

// ours finds an object of Spate.
var ours = regexp.MustCompile("(?m)^apiVersion: spate.dev/")

// Whole objects in the documents are valid, but for references to objects that are not on the page; all other YAML can be read.
func TestExamplesInDocumentsAreValid(t *testing.T) {
	var pages []string
	for folder, fewest := range map[string]int{"docs": 20, "docs/tutorials": 7} {
		some, err := filepath.Glob(filepath.Join(root, folder, "*.md"))
		if err != nil || len(some) < fewest {
			t.Fatal(some, err)
		}
		pages = append(pages, some...)
	}
	pages = append(pages, root+"/README.md")
	lab, err := os.ReadFile(filepath.Join(root, "config/samples/trafficgenerator.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blocks.FindAllStringSubmatch(string(text), -1) {
			if !ours.MatchString(block[1]) {
				var value any
				for _, document := range strings.Split(block[1], "\n---\n") {
					if err := yaml.Unmarshal([]byte(document), &value); err != nil {
						t.Errorf("%s: %v in\n%s", filepath.Base(page), err, document)
					}
				}
				continue
			}
			objects++
			var r manifest.Reader
			r.Read(filepath.Base(page), []byte(block[1]))
			if strings.Contains(block[1], "generatorRef: {name: lab}") && !strings.Contains(block[1], "kind: TrafficGenerator") { // docs/samples.md
				r.Read("trafficgenerator.yaml", lab)
			}
			set, problems := r.Done()
			problems = append(problems, offline.Files{Set: set, LineRate: offline.DefaultLineRate}.Check()...)
			for _, problem := range problems {
				if !strings.Contains(problem.Message, " does not exist in namespace ") && !strings.Contains(problem.Message, "has no TrafficGenerator") {
					t.Errorf("%s in\n%s", problem.Error(), block[1])
				}
			}
		}
	}
	if objects < 10 {
		t.Errorf("%d examples have objects", objects)
	}
}
