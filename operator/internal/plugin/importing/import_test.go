// SPDX-License-Identifier: Apache-2.0

package importing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"spate.dev/operator/internal/plugin/plan"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/plugin/validate"
)

// oneStream is a TRex stream, as TRex's client sends it.
const oneStream = `[{"flags": 0, "action_count": 0, "enabled": true, "self_start": true, "start_paused": false, "isg": 0.0, "core_id": -1,
"mode": {"type": "continuous", "rate": {"type": "pps", "value": 10}}, "vm": {"instructions": []}, "flow_stats": {"enabled": false},
"packet": {"binary": "AgAAAAABAgAAAAACCABFAAAuAAEAAEAR7pbGEgABxhMAAQQAAAcAGgAAVVVVVVVVVVVVVVVVVVVVVVVV", "meta": ""}}]`

// spate runs a command line with standard input.
func spate(input string, args ...string) (output, stderr string, err error) {
	return plugintest.Run(input, args, NewCommand(), validate.NewCommand(), plan.NewCommand())
}

func TestImportOfWhatNobodyKnowsIsRefused(t *testing.T) {
	if _, _, err := spate("", "import", "ixia"); err == nil || !strings.Contains(err.Error(), `unknown command "ixia"`) {
		t.Errorf("%v", err)
	}
	if out, _, err := spate("", "import"); err != nil || !strings.Contains(out, "trex") {
		t.Errorf("%v: %s", err, out)
	}
}

// importing runs `import trex`.
func importing(input string, args ...string) (out, messages string, err error) {
	var stdout, stderr bytes.Buffer
	command := NewCommand()
	command.SetArgs(append([]string{"trex"}, args...))
	command.SetIn(strings.NewReader(input))
	command.SetOut(&stdout)
	command.SetErr(&stderr)
	command.SilenceErrors, command.SilenceUsage = true, true
	err = command.Execute()
	return stdout.String(), stderr.String(), err
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImportWritesResources(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "My_Profile.json"), oneStream)
	out, messages, err := importing("", file, "-n", "lab")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plugintest.Kinds(t, out), []string{"StatelessStream lab/my-profile-1", "TrafficProfile lab/my-profile"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.HasPrefix(messages, "note: 1 of 1 streams go to the MAC address") {
		t.Errorf("messages %q", messages)
	}
}

func TestImportReadsStandardInput(t *testing.T) {
	byFlag, _, err := importing(oneStream, "-f", "-", "--name", "x", "--generator", "g", "--port", "east", "--destination-mac", "02:00:00:00:00:01")
	if err != nil {
		t.Fatal(err)
	}
	out, messages, err := importing(oneStream, "-", "--name", "x", "--generator", "g", "--port", "east", "--destination-mac", "02:00:00:00:00:01")
	if err != nil || messages != "" {
		t.Fatal(err, messages)
	}
	if byFlag != out {
		t.Errorf("by -f:\n%s", byFlag)
	}
	for _, want := range []string{"generatorRef:\n    name: g\n", "transmitPort: east\n", "fromPort:\n    - Source\n", "name: x-1\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestImportWritesAFileForEachResource(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "folder")
	if out, _, err := importing(oneStream, "-", "--name", "x", "-o", folder); err != nil || out != "" {
		t.Fatal(err, out)
	}
	for _, name := range []string{"statelessstream-x-1.yaml", "trafficprofile-x.yaml"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestImportTellsWhatKubectlApplyDoesNotTake(t *testing.T) {
	profile := func(size int) string {
		return fmt.Sprintf(`{"buf_list": [{"size": %d}], "program_list": [{"commands": [{"name": "tx", "buf_index": 0}]}, {"commands": [{"name": "rx", "min_bytes": %d}]}],
			"ip_gen_dist_list": [{"ip_start": "16.0.0.1", "ip_end": "16.0.0.9", "distribution": "seq", "dir": "c"}, {"ip_start": "48.0.0.1", "ip_end": "48.0.0.9", "distribution": "seq", "dir": "s"}],
			"templates": [{"client_template": {"program_index": 0, "ip_gen": {"dist_client": {"index": 0}, "dist_server": {"index": 1}}, "port": 80, "cps": 1},
			"server_template": {"program_index": 1, "assoc": [{"port": 80}]}}]}`, size, size)
	}
	for size, want := range map[int]string{180_000: "", 200_000: "note: use `kubectl apply --server-side`: objects of more than 256 KiB are too long for kubectl apply without it: configmap x-payloads-1\n"} {
		if _, messages, err := importing(profile(size), "-", "--name", "x"); err != nil || messages != want {
			t.Errorf("%d bytes: stderr %q, %v", size, messages, err)
		}
	}
}

// tagsInJSON are tags of tagged packet groups as TRex's tpg_enable takes them.
const tagsInJSON = `[{"type": "Dot1Q", "value": {"vlan": 4}}, {"type": "Dot1Q", "value": {"vlan": 5}}, {"type": "QinQ", "value": {"vlans": [1, 5]}}]`

// taggedGroup is oneStream as a tagged packet group.
var taggedGroup = strings.Replace(oneStream, `"flow_stats": {"enabled": false}`,
	`"flow_stats": {"enabled": true, "stream_id": 7, "rule_type": "tpg", "vxlan": false, "ieee_1588": false}`, 1)

// plannedTags returns the tags by which the plan of what was imported counts its one stream, as [outer first last].
func plannedTags(t *testing.T, manifests string) string {
	t.Helper()
	var planned struct {
		Streams []struct {
			Measure struct {
				ByTag struct {
					Ranges []struct{ OuterVLAN, FirstVLAN, LastVLAN int }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(plannedOf(t, manifests)), &planned); err != nil || len(planned.Streams) != 1 {
		t.Fatal(err, planned)
	}
	return fmt.Sprint(planned.Streams[0].Measure.ByTag.Ranges)
}

func TestTaggedPacketGroupsAreCountedByTheTagsOfAFile(t *testing.T) {
	folder := t.TempDir()
	tags := write(t, filepath.Join(folder, "tags.json"), tagsInJSON)
	out, messages, err := importing(taggedGroup, "-", "--name", "x", "--tags", tags, "--destination-mac", "02:00:00:00:00:01")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := plannedTags(t, out), "[{0 4 5} {1 5 5}]"; got != want || strings.Contains(messages, "VLANs 1 to") {
		t.Errorf("counted by %s, want %s; notes %q", got, want, messages)
	}
	wrong := write(t, filepath.Join(folder, "wrong.json"), `[{"type": "Dot1Q", "value": {"vlan": 4095}}]`)
	for file, want := range map[string]string{wrong: "--tags " + wrong + ": ", filepath.Join(folder, "none.json"): "no such file"} {
		if out, _, err := importing(taggedGroup, "-", "--name", "x", "--tags", file); err == nil || out != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: says %v without %q", file, err, want)
		}
	}
}

func TestImportTellsWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		input string
		args  []string
		want  string
	}{
		"nothing named":     {oneStream, nil, "no file: name a FILE, or - for standard input"},
		"two files":         {oneStream, []string{"x.json", "-f", "y.json"}, "one file is read at a time: name one, as FILE or by -f, not also x.json"},
		"no name":           {oneStream, []string{"-"}, "--name is needed"},
		"no file":           {"", []string{"/nowhere/x.json"}, "no such file"},
		"no JSON":           {"hello", []string{"-", "--name", "x"}, "import -:\nthis is no list of TRex streams in JSON"},
		"wrong address":     {oneStream, []string{"-", "--name", "x", "--source-mac", "02:00"}, `--source-mac "02:00": must be a MAC address`},
		"tunables of JSON":  {oneStream, []string{"-", "--name", "x", "-t", "size=64"}, "--tunables and --direction go with profiles in Python"},
		"wrong direction":   {oneStream, []string{"x.py", "--direction", "2"}, "--direction 2: must be 0 or 1"},
		"no Python":         {"", []string{"x.py", "--python", "no-such-python"}, "there is no no-such-python to load it with"},
		"what is not known": {strings.Replace(oneStream, `"isg"`, `"colour": 1, "isg"`, 1), []string{"-", "--name", "x"}, "stream 1: $[0].colour: is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := importing(c.input, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("says %v\nwithout %s", err, c.want)
			}
			if out != "" {
				t.Errorf("writes %q", out)
			}
		})
	}
}
