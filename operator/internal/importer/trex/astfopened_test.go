// SPDX-License-Identifier: Apache-2.0

package trex

import (
	"fmt"
	"strings"
	"testing"

	"spate.dev/operator/internal/plan"
)

// openingJSON returns a profile whose first template's client opens connections of others, as TRex's example of a video stream does. The
// others have their group's name as first bytes, no rate, and name each other for the next connection.
func openingJSON(changes ...string) []byte {
	chunk := func(group int) string {
		return fmt.Sprintf(`{"client_template": {"program_index": %d, "ip_gen": {"dist_client": {"index": 0}, "dist_server": {"index": 1}}, "cluster": {}, "port": 80},
	    "server_template": {"program_index": 3, "assoc": [{"port": 80, "l7_map": {"offset": [0, 1]}}]}, "tg_id": %d}`, group, group)
	}
	fetch := func(buffer, other int) string {
		return fmt.Sprintf(`{"commands": [{"name": "set_tick_var", "id": 0}, {"name": "tx", "buf_index": %d}, {"name": "rx", "min_bytes": 4},
	    {"name": "jmp_dp", "id": 0, "offset": 2, "duration": 0.5}, {"name": "set_template", "tg_id": %d}]}`, buffer, other)
	}
	text := fmt.Sprintf(`{"buf_list": ["bG93", "aGlnaA==", "AP8AAQ=="], "ip_gen_dist_list": [
	  {"ip_start": "16.0.0.0", "ip_end": "16.0.0.255", "distribution": "seq", "dir": "c"},
	  {"ip_start": "48.0.0.0", "ip_end": "48.0.255.255", "distribution": "seq", "dir": "s"}],
	  "program_list": [
	  {"stream": false, "commands": [{"name": "keepalive", "msec": 64000}, {"name": "set_var", "id": 0, "val": 15}, {"name": "set_var", "id": 1, "val": 0},
	    {"name": "set_template", "tg_id": 1}, {"name": "set_tick_var", "id": 0},
	    {"name": "set_tick_var", "id": 1}, {"name": "exec_template"}, {"name": "add_var", "id": 1, "val": 1}, {"name": "add_var", "id": 0, "val": -1},
	    {"name": "add_tick_stats", "stats_id": 1, "var_id": 1},
	    {"name": "jmp_dp", "id": 0, "offset": 5, "duration": 4}, {"name": "jmp_cmp", "id": 1, "offset": 4, "cmp_op": "le", "cmp_val": 0},
	    {"name": "add_tick_var", "id": 0, "duration": 4}, {"name": "add_var", "id": 1, "val": -1}, {"name": "jmp_cmp", "offset": -4},
	    {"name": "jmp_cmp", "id": 0, "offset": -10, "cmp_op": "gt", "cmp_val": 0}]},
	  %s, %s, {"commands": [{"name": "rx", "min_bytes": 3}, {"name": "tx", "buf_index": 2}]}, {"stream": false, "commands": [{"name": "close_msg"}]}],
	  "templates": [{"client_template": {"program_index": 0, "ip_gen": {"dist_client": {"index": 0}, "dist_server": {"index": 1}}, "cluster": {}, "port": 80, "cps": 2},
	    "server_template": {"program_index": 4, "assoc": [{"port": 80}]}}, %s, %s], "tg_names": ["low", "high"]}`, fetch(0, 2), fetch(1, 1), chunk(1), chunk(2))
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(text, changes[i]) {
			panic(changes[i] + " is not in the profile")
		}
		text = strings.ReplaceAll(text, changes[i], changes[i+1])
	}
	return []byte(text)
}

func TestProgramsOpenConnectionsOfTheTemplateTheyNamed(t *testing.T) {
	got := importsASTF(t, openingJSON())
	isYAML(t, got.Templates[0].Spec.Source.Programs.Client, `
- keepalive: {timeout: 64s}
- set: {variable: var-0, value: 15}
- set: {variable: var-1, value: 0}
- nextTemplate: {template: p-low}
- setTime: {variable: tick-0}
- {label: step-6, setTime: {variable: tick-1}}
- openConnection: {}
- add: {variable: var-1, value: 1}
- add: {variable: var-0, value: -1}
- count: {counter: stats-1, since: tick-1}
- {label: step-11, loop: {to: step-16, since: tick-0, duration: 4s}}
- jump: {to: step-16, variable: var-1, comparison: LessOrEqual}
- add: {variable: tick-0, value: 4000000000}
- add: {variable: var-1, value: -1}
- delay: {min: 1us}
- jump: {to: step-11, variable: var-1, comparison: GreaterOrEqual, value: -9007199254740991}
- {label: step-16, jump: {to: step-6, variable: var-0, comparison: Greater}}
`)
	isYAML(t, got.Templates[1].Spec.Source.Programs.Client, `
- setTime: {variable: tick-0}
- send: {content: {text: low}}
- receive: {bytes: 4}
- loop: {to: step-6, since: tick-0, duration: 500ms}
- nextTemplate: {template: p-high}
- {label: step-6, close: {}}
`)
	for i, rate := range []string{"2cps", "", ""} {
		if spec := got.Templates[i].Spec; string(spec.ConnectionRate) != rate || spec.MaxFlows != nil {
			t.Errorf("%s has the rate %q, want %q", got.Templates[i].Name, spec.ConnectionRate, rate)
		}
	}
	made := runsTemplates(t, got).Plan(plan.Identity{RunID: "r"}).Stateful
	if made.Templates[0].FlowsPerSecond == nil || made.Templates[1].FlowsPerSecond != nil || made.Templates[2].FlowsPerSecond != nil {
		t.Errorf("rates of the plan: %v", made.Templates)
	}
	named := made.Templates[0].Client.Instructions[3]
	if named.GetNextTemplate() != 1 || made.Templates[1].Client.Instructions[4].GetNextTemplate() != 2 {
		t.Errorf("names %v, and in the end %v", named, made.Templates[1].Client.Instructions[4])
	}
	want := []string{"TRex adds ticks of 10 ms, here the counter adds ns", "TRex goes back at one instant; here 1 us passes each time"}
	for _, note := range want {
		if !strings.Contains(strings.Join(got.Notes, "; "), note) {
			t.Errorf("got %q without %q", got.Notes, note)
		}
	}
}

func TestOfAGroupOfSeveralTemplatesOneIsDrawnForEachConnection(t *testing.T) {
	got := importsASTF(t, openingJSON(`"tg_id": 2}], "tg_names"`, `"tg_id": 1}], "tg_names"`, `"name": "set_template", "tg_id": 2`, `"name": "set_template", "tg_id": 1`))
	low, other := got.Templates[1].Name, got.Templates[2].Name
	for i, at := range []int{3, 4, 4} {
		next := got.Templates[i].Spec.Source.Programs.Client[at].NextTemplate
		if next == nil || string(next.Template) != low || len(next.Alternatives) != 1 || string(next.Alternatives[0]) != other {
			t.Errorf("%s names %+v, want %s or %s", got.Templates[i].Name, next, low, other)
		}
	}
	made := runsTemplates(t, got).Plan(plan.Identity{RunID: "r"}).Stateful
	if named := made.Templates[0].Client.Instructions[3].GetNextTemplates().GetTemplates(); len(named) != 2 || named[0] != 1 || named[1] != 2 {
		t.Errorf("the plan names %v", named)
	}
}

func TestAnOpeningWithoutANameIsOmittedAndALimitToo(t *testing.T) {
	got := importsASTF(t, astfJSON(`{"name": "exec_template"}, `+request, answer))
	isYAML(t, got.Templates[0].Spec.Source.Programs.Client, `[{send: {content: {text: GET}}}]`)
	if len(got.Notes) == 0 || !strings.Contains(got.Notes[0], "no set_template names a template for it") {
		t.Errorf("got %q", got.Notes)
	}
	got = importsASTF(t, openingJSON(`"port": 80},`, `"port": 80, "limit": 5, "cont": true},`))
	for _, one := range got.Templates[1:] {
		if one.Spec.MaxFlows != nil || one.Spec.MaxConcurrentFlows != nil {
			t.Errorf("%s has limits", one.Name)
		}
	}
}

func TestWhatOpeningsMayNotSay(t *testing.T) {
	for name, c := range map[string]struct {
		changes []string
		want    string
	}{
		"a group of none": {[]string{`"tg_id": 2}], "tg_names"`, `"tg_id": 1}], "tg_names"`}, "2 is the group of no template"},
		"clients of its own": {[]string{`"program_index": 1, "ip_gen": {"dist_client": {"index": 0}`, `"program_index": 1, "ip_gen": {"dist_client": {"index": 2}`,
			`"distribution": "seq", "dir": "s"}],`, `"distribution": "seq", "dir": "s"}, {"ip_start": "17.0.0.0", "ip_end": "17.0.0.9", "distribution": "seq", "dir": "c"}],`},
			"template 2: $.templates[1].client_template.ip_gen: its connections are opened from the addresses of the clients that open them, as of template 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Import("p", openingJSON(c.changes...), Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
