// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
)

// TestTheFirstTableTellsOfWhatTheCodeRefuses reads this checkout.
func TestTheFirstTableTellsOfWhatTheCodeRefuses(t *testing.T) {
	parts, err := read("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := checked(summary, parts); err != nil {
		t.Error(err)
	}
	const gone = "tunnels through the moon are not supported"
	if err := checked([]unsupported{{"moon", "far", gone}}, parts); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("a line about nothing in the code: got %v", err)
	}
	page := markdown(parts)
	for _, want := range []string{
		"| `ieee_1588` | `time stamps of IEEE 1588 are not supported; latency is measured without` |",
		"| `rx_mode` | `is not supported: what is sent ends the silence too` |",
		"### `operator/internal/importer/trex/flowstats.go`\n\nHow are the measurements of a TRex stream converted?",
		"it makes a topology of tunnels or clients, not a profile",
		"| `AddressPool` | `start and end must be of the same family` |",
		"| `startMAC` | `does not go with gtpu: gNBs have the port's MAC` |",
		"clients in tunnels of packets have no MACs, and local ends have the port's; leave it out",
		"both sides open the connection at the same time, which no program does",
		// Of each folder of the engine.
		"| `flows_per_second` | `missing; clients need a rate, or a template whose program opens them` |",
		"after names a variable that never wraps: give that one a limit",
		"an earlier checksum covers its field: put the innermost first",
		"| `the frame has … bytes without FCS; it must have … to …` |",
		"| `nothing leads to it; leave it out, or jump to it` |",
		"waits for … …, of which the … sends … before it ends or waits itself",
		"goes back to …, and nothing on the way takes time or is certain to end",
		"the weights add up to … without a common factor",
		"is too long for rates with this many digits",
		"| `this CPU, or the hypervisor before it, has no …; the engine needs x86-64-v3 ",
		"--connect: must be unix:PATH, a socket that the engine listens on",
		"must be unix:PATH; records are not served over TCP",
		"it is no IP packet; a session has only TCP or only UDP: filter it",
		"is in no subnet of the port's addresses",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is not in the page", want)
		}
	}
}

func TestRefusalsAreReadFromGo(t *testing.T) {
	got, err := goRefusals("a.go", []byte(`package p
func f() {
	p.add(Reason, at.Child("source", "pcap"), "cannot be "+"done: %q, %d%%", a, b)
	o.wrong("key", "%s is too long", text)
	p.notes.add("x", "is a note")
	return fmt.Errorf("no %w", err), errors.New("other thing"), big.New("not this")
}
var all = map[string]command{"go": {udp: true, refused: "nobody goes"}, "stay": {udp: true}}
`))
	want := []refusal{{"source.pcap", "cannot be done: %q, %d%%"}, {"key", "%s is too long"}, {"", "no %w"}, {"", "other thing"}, {"go", "nobody goes"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
	if text := shown(got[0].text); text != "cannot be done: …, …%" {
		t.Errorf("shown %q", text)
	}
	if _, err := goRefusals("a.go", []byte("package")); err == nil {
		t.Error("what is no Go is taken")
	}
}

func TestRefusalsAreReadFromRust(t *testing.T) {
	got := rustRefusals(`
	wrong.add(format!("{at}.last"), format!("{} of \"them\"; \
	    use (fewer)", n));
	wrong.add("id", "is taken");
	wrong.add(at.field("list.sizes").index(i).field("bytes"), format!("{} of them", n));
	wrong.add(StreamIndex(i).path()
	    .field(name), "is odd");
	wrong
	    .add(FieldPath::from("timing.stages").index(*i), "is late");
	wrong.add(at.join(&error.field()), error.to_string());
	return Err(
	    "nobody knows".to_owned());
	#[error("it has {0} bytes")]
	Err(error) => {}
	#[cfg(test)]
	mod tests;
	let size = text.ok_or("has no size")?;
	bail!("--to {port}: is no port");
	ensure!(len <= MOST, "{len} are too many");
	eprintln!("{done} are done");
	eprintln!("error: no {missing} here");
	#[cfg(test)]
	pub(crate) mod tests {
	wrong.add("x", "of a test");`)
	want := []refusal{{"{at}.last", `{} of "them"; use (fewer)`}, {"id", "is taken"}, {"{}.list.sizes[{}].bytes", "{} of them"}, {"streams[{}].{}", "is odd"},
		{"timing.stages[{}]", "is late"}, {"", "nobody knows"}, {"", "it has {0} bytes"}, {"", "has no size"},
		{"", "--to {port}: is no port"}, {"", "{len} are too many"}, {"", "no {missing} here"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestRulesAreReadFromTheTypesTheyAreOf(t *testing.T) {
	got := rules(`
// +kubebuilder:validation:XValidation:rule="a",fieldPath=".b.c",message="leave c out"
// +kubebuilder:validation:XValidation:rule="d",message="set \"one\""
type Pool struct {
	// +kubebuilder:validation:XValidation:rule="e",message="needs a zone"
	First Address ` + "`json:\"first\"`" + `
}
`)
	if want := []refusal{{"Pool.b.c", "leave c out"}, {"Pool", `set \"one\"`}, {"Pool.first", "needs a zone"}}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestPlainBadValuesAreOmitted(t *testing.T) {
	for text, want := range map[string]bool{
		"%d: must be %d to %d": true, "must be a list, not %s": true, "is missing": true, "%s": true, "%s: %w": true, "{} bytes; must be 6, or none": true, "%s is not one of %s": true,
		"missing": true, "is missing: it is not supported": false, "%q is not supported: use x": false, "a client must be alone": false,
	} {
		if plain(text) != want {
			t.Errorf("%q: plain is %v", text, !want)
		}
	}
}

func TestTheQuestionOfAFileIsItsFirstComment(t *testing.T) {
	for text, want := range map[string]string{
		"// SPDX-License-Identifier: x\n\n// What is\n// it?\n\npackage p\n": "What is it?",
		"// SPDX-License-Identifier: x\n//! What is\n//! it?\nuse x;\n":      "What is it?",
		"// SPDX-License-Identifier: x\n\npackage p\n// late\n":              "",
	} {
		if got := question(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
