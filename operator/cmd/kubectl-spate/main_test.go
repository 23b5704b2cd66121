// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/plugin/plugintest"
)

// asPlugin is the variable by which the program of the tests is the plugin.
const asPlugin = "SPATE_TEST_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		main()
	}
	os.Exit(m.Run())
}

// Libraries that draw on a terminal may query it, or set its modes, as soon as a program starts: of all commands only top draws.
func TestACommandInATerminalWritesItsOwnTextOnly(t *testing.T) {
	t.Parallel()
	for arguments, begins := range map[string]string{"version": "kubectl spate ", "top --help": "Shows what engines count"} {
		command := pluginAsProcess(t, strings.Fields(arguments)...)
		command.Env = append(command.Env, "TERM=xterm-256color", "CI=")
		terminal, err := pty.Start(command)
		if err != nil {
			t.Fatal(err)
		}
		written, _ := io.ReadAll(terminal) // it fails at the end of the program
		if err := errors.Join(command.Wait(), terminal.Close()); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(string(written), begins) || strings.Contains(string(written), "\x1b") {
			t.Errorf("%s: %q", arguments, written)
		}
	}
}

// pluginAsProcess returns a command that is the plugin.
func pluginAsProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = append(os.Environ(), asPlugin+"=1")
	return command
}

func TestPresetsGoThroughAPipe(t *testing.T) {
	t.Parallel()
	for _, preset := range []string{"imix", "rfc2544"} {
		profile, err := pluginAsProcess(t, "new", "--preset", preset).Output()
		if err != nil {
			t.Fatalf("%s: %v", preset, err)
		}
		validated, planned := pluginAsProcess(t, "validate", "-f", "-", "--engine", "/bin/true"), pluginAsProcess(t, "plan", "-", "--engine", "/bin/true")
		validated.Stdin, planned.Stdin = bytes.NewReader(profile), bytes.NewReader(profile)
		if output, err := validated.CombinedOutput(); err != nil || !strings.HasPrefix(string(output), "no problem found (TrafficProfiles: 1, ") {
			t.Errorf("%s: validate: %v %s", preset, err, output)
		}
		if plan, err := planned.Output(); err != nil || !json.Valid(plan) {
			t.Errorf("%s: plan: %v %s", preset, err, plan)
		}
	}
}

func TestFilesAreThoseThatKubectlTakes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755), os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("smoke.yaml", plugintest.Smoke)
	write("streams/udp.yaml", plugintest.UDP)
	write("kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [smoke.yaml, streams/udp.yaml]\n")
	const both, one = "no problem found (TrafficProfiles: 1, TrafficRuns: 0, TrafficSearches: 0, StatelessStreams: 1,", "spec.traffic[0].stream.ref.name: StatelessStream \"udp\" does not exist"
	for arguments, want := range map[string]string{
		"smoke.yaml streams/udp.yaml":       both,
		"-f smoke.yaml -f streams/udp.yaml": both,
		"-R -f .":                           both,
		"-k .":                              both,
		"-f .":                              one, // without the folder within
	} {
		code := 0
		if want == one {
			code = 1
		}
		command := pluginAsProcess(t, append([]string{"validate", "--engine", "/bin/true"}, strings.Fields(arguments)...)...)
		command.Dir = folder
		if output, _ := command.Output(); command.ProcessState.ExitCode() != code || !strings.Contains(string(output), want) {
			t.Errorf("%s: %d %s", arguments, command.ProcessState.ExitCode(), output)
		}
	}
}

func TestAClusterThatThereIsNotIsNamedWithTheRemedy(t *testing.T) {
	t.Parallel()
	// An API server without Spate.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api":
			_ = json.NewEncoder(w).Encode(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
			return
		case "/apis":
			_ = json.NewEncoder(w).Encode(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}})
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	}))
	t.Cleanup(server.Close)
	const absent = `in version "spate.dev/v1alpha1": Spate is not installed in this cluster; install it, or choose another one by --context`
	for arguments, want := range map[string]struct {
		code int
		said string
	}{
		"status --server " + server.URL:                   {1, absent},
		"run - --server " + server.URL:                    {3, absent},
		"capture lab -p east -w - --server " + server.URL: {1, absent},
		"status": {1, "error: no cluster is configured: set KUBECONFIG or --kubeconfig to a kubeconfig, or --server to an API server"},
	} {
		command := pluginAsProcess(t, strings.Fields(arguments)...)
		command.Env = append(command.Env, "KUBECONFIG="+filepath.Join(t.TempDir(), "none"), "KUBERNETES_SERVICE_HOST=")
		command.Stdin = strings.NewReader(plugintest.Smoke)
		said, _ := command.CombinedOutput()
		if code := command.ProcessState.ExitCode(); code != want.code || !strings.Contains(string(said), want.said) {
			t.Errorf("%s: %d %s", arguments, code, said)
		}
	}
}

func TestExitCodesAreTheEnginesOnlyWhereItReportedItsError(t *testing.T) {
	engine := exec.Command("sh", "-c", "exit 3").Run()
	for err, want := range map[error]int{nil: 0, exit.With(exit.NotRun, errors.New("busy")): 3, engine: 3, fmt.Errorf("the profile cannot be loaded: %w", engine): 1, errors.New("no file"): 1} {
		if got := code(err); got != want {
			t.Errorf("%v: exits with %d, not %d", err, got, want)
		}
	}
}

func TestARateWithAMinusIsNoFlag(t *testing.T) {
	for given, want := range map[string]string{
		"rate imix -10% -n lab": "rate imix -n lab -- -10%",
		"rate imix +10%":        "rate imix +10%",
		"rate imix -- -1Mpps":   "rate imix -- -1Mpps",
		"result imix -o json":   "result imix -o json",
	} {
		if got := strings.Join(unflagged(strings.Fields(given)), " "); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

func TestTheLinkedVersionIsPrinted(t *testing.T) {
	t.Cleanup(func() { version = "" })
	version = "v1.2.3"
	if output, _, err := plugintest.Execute(newRootCommand(), "", "version"); err != nil || !strings.HasPrefix(output, "kubectl spate v1.2.3, contract ") {
		t.Errorf("got %q, %v", output, err)
	}
}

func TestExitCodes(t *testing.T) {
	if code(nil) != 0 || code(files.ErrProblems) != 1 || code(&exec.Error{Name: "x", Err: exec.ErrNotFound}) != 1 {
		t.Error("0 where all is well, 1 otherwise")
	}
}

func TestTheExitCodeOfTheEngineIsThatOfTheCommand(t *testing.T) {
	both := plugintest.Smoke + "---\n" + plugintest.UDP
	if _, _, err := plugintest.Execute(newRootCommand(), both, "simulate", "-", "--pcap", "o", "--limit", "5", "--engine", plugintest.Echoing(t, "3")); code(err) != 3 {
		t.Errorf("got %v: the exit code of the engine is passed on", err)
	}
}
