// SPDX-License-Identifier: Apache-2.0

// refusals prints what Spate refuses, and why, as Markdown: extracted from the code that refuses it. Plain bad values
// are omitted. See `make generate`.
package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "use: refusals FOLDER (of the checkout)")
		os.Exit(2)
	}
	parts, err := read(os.Args[1])
	if err == nil {
		err = checked(summary, parts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "refusals:", err)
		os.Exit(1)
	}
	fmt.Print(markdown(parts))
}

// refusal is a reason, and the field it is about, if the code names it.
type refusal struct{ field, text string }

// file with refusals, and the question that it answers.
type file struct {
	name, question string
	refusals       []refusal
}

// part of the document.
type part struct {
	title string
	files []file
}

// sources of refusals in the code.
var sources = []struct {
	title   string
	folders []string
	read    func(root, folder string) ([]file, error)
}{
	{"On import of TRex's profiles", []string{"operator/internal/importer/trex"}, goFiles},
	{"On import of TRex's profiles in Python", []string{"operator/internal/plugin/importing"}, pythonFiles},
	{"By the API server", []string{"api/v1alpha1"}, apiFiles},
	{"By the operator, before a run", []string{"operator/internal/plan", "operator/internal/plan/problem", "operator/internal/plan/quantity",
		"operator/internal/plan/ports", "operator/internal/plan/data", "operator/internal/plan/capture", "operator/internal/plan/load",
		"operator/internal/plan/marks", "operator/internal/plan/origin", "operator/internal/plan/stream", "operator/internal/plan/limits",
		"operator/internal/plan/application", "operator/internal/plan/stateful", "operator/internal/packet", "operator/internal/verdict"}, goFiles},
	{"By the engine, of a plan", []string{"engine/engine/src/plan"}, rustFiles},
	{"By the engine, of packets: field programs, templates, checksums and rates", []string{"engine/stateless/src"}, rustFiles},
	{"By the engine, of applications: programs, payloads, pools, weights and times", []string{"engine/stateful/src"}, rustFiles},
	{"By the engine, of where a plan runs", []string{"engine/engine/src/control", "engine/engine/src/datapath"}, rustFiles},
	{"By the engine, of ports, addresses, filters, marks and files of records", []string{"engine/dpdk/src/device.rs", "engine/dpdk/src/error.rs", "engine/dpdk/src/tap.rs", "engine/dpdk/src/xdp.rs",
		"engine/neighbour/src", "engine/filter/src", "engine/net/src", "engine/records/src/lib.rs", "engine/records/src/reading.rs"}, rustFiles},
	{"Of captures, replayed or made into templates", []string{"engine/replay/src"}, rustFiles},
	{"By `spate-engine`, of its CPU and its command line", []string{"engine/engine/src/main.rs", "engine/engine/src/cli"}, rustFiles},
}

// read returns all refusals but plain bad values.
func read(root string) (parts []part, err error) {
	for _, source := range sources {
		one := part{title: source.title}
		for _, folder := range source.folders {
			files, err := source.read(root, folder)
			if err != nil {
				return nil, err
			}
			for _, f := range files {
				f.refusals = slices.DeleteFunc(f.refusals, func(r refusal) bool { return plain(r.text) })
				f.refusals = unique(f.refusals)
				if len(f.refusals) > 0 {
					one.files = append(one.files, f)
				}
			}
		}
		if len(one.files) == 0 {
			return nil, fmt.Errorf("nothing in %s refuses anything: did it move?", strings.Join(source.folders, ", "))
		}
		parts = append(parts, one)
	}
	return parts, nil
}

// unique removes repeated refusals.
func unique(all []refusal) (kept []refusal) {
	for _, r := range all {
		alike := func(o refusal) bool { return shown(o.field) == shown(r.field) && shown(o.text) == shown(r.text) }
		if !slices.ContainsFunc(kept, alike) {
			kept = append(kept, r)
		}
	}
	return kept
}

var (
	// bad matches refusals of bad values, which say what would be right, and errors that only wrap others.
	bad  = regexp.MustCompile(`^(?:…[a-z ]{0,20}[:;,]? ?)?(?:must (?:be|not be|have|lie|name|start)\b|is missing$|is not one of |is not a whole number)|^(?:run )?[…:;, ]*$|: …$`)
	verb = regexp.MustCompile(`%[-+#.0-9]*[a-zA-Z]|\{[^{}]*\}`)
)

// plain reports whether a text is about a bad value, or means nothing by itself, rather than about something that is
// not supported.
func plain(text string) bool {
	text = shown(text)
	return bad.MatchString(text) || !strings.Contains(text, " ")
}

// shown returns a text with … for its placeholders.
func shown(text string) string {
	text = verb.ReplaceAllString(strings.ReplaceAll(text, "%%", "%"), "…")
	return strings.Join(strings.Fields(text), " ")
}

// question returns the first comment after the license of a file.
func question(text string) string {
	var found []string
	for line := range strings.Lines(text) {
		comment, is := strings.CutPrefix(strings.TrimSpace(line), "//")
		comment = strings.TrimSpace(strings.TrimPrefix(comment, "!"))
		switch {
		case strings.HasPrefix(comment, "SPDX-") || !is && len(found) == 0 && strings.TrimSpace(line) == "":
		case !is || comment == "":
			if len(found) > 0 {
				return strings.Join(found, " ")
			}
		default:
			found = append(found, comment)
		}
		if !is && len(found) == 0 && strings.TrimSpace(line) != "" {
			return ""
		}
	}
	return strings.Join(found, " ")
}

// markdown renders the document.
func markdown(parts []part) string {
	var out strings.Builder
	out.WriteString(opening)
	out.WriteString("\n| What | Why, and what instead |\n| --- | --- |\n")
	for _, s := range summary {
		fmt.Fprintf(&out, "| %s | %s |\n", s.what, s.why)
	}
	for _, p := range parts {
		fmt.Fprintf(&out, "\n## %s\n", p.title)
		for _, f := range p.files {
			fmt.Fprintf(&out, "\n### `%s`\n\n", f.name)
			if f.question != "" {
				fmt.Fprintf(&out, "%s\n\n", f.question)
			}
			out.WriteString("| Of | It says |\n| --- | --- |\n")
			for _, r := range f.refusals {
				fmt.Fprintf(&out, "| %s | %s |\n", cell(shown(r.field)), cell(shown(r.text)))
			}
		}
	}
	return out.String()
}

// cell renders a table cell.
func cell(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(strings.ReplaceAll(text, "`", "'"), "|", `\|`) + "`"
}
