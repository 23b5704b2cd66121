// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spate.dev/operator/internal/plugin/enginebinary"
	"spate.dev/operator/internal/plugin/plugintest"
)

// spate runs a command line with standard input.
func spate(input string, args ...string) (output, told string, err error) {
	return plugintest.Run(input, args, NewCommand())
}

func TestSimulateRunsTheEngine(t *testing.T) {
	both := plugintest.Smoke + "---\n" + plugintest.UDP
	path := plugintest.Echoing(t, "0")
	for name, find := range map[string]func(t *testing.T) []string{
		"by flag":     func(*testing.T) []string { return []string{"--engine", path} },
		"by variable": func(t *testing.T) []string { t.Setenv(enginebinary.Variable, path); return nil },
		"by path": func(t *testing.T) []string {
			t.Setenv(enginebinary.Variable, "")
			t.Setenv("PATH", filepath.Dir(path)+":"+os.Getenv("PATH"))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			output, told, err := spate(both, append([]string{"simulate", "-", "--pcap", "out.pcap", "--worker-limit", "50", "--workers", "2"}, find(t)...)...)
			if want := "simulate --plan - --pcap out.pcap --workers 2 --worker-limit 50\n1\n"; err != nil || output != want {
				t.Errorf("got %q, %q, %v, want %q", output, told, err, want)
			}
		})
	}
}

func TestSimulateNamesTheStages(t *testing.T) {
	staged := plugintest.Smoke + "  stages: [{name: ramp, duration: 1s, ramp: 1s, rate: 1x}, {name: soak, duration: 2s, rate: 2x}]\n"
	output, told, err := spate(staged+"---\n"+plugintest.UDP, "simulate", "-", "--pcap", "out.pcap", "--engine", plugintest.Echoing(t, "0"))
	if want := "simulate --plan - --pcap out.pcap --workers 1 --stage-name ramp --stage-name soak\n1\n"; err != nil || output != want {
		t.Errorf("got %q, %q, %v, want %q", output, told, err, want)
	}
}

func TestSimulateTellsWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(enginebinary.Variable, "")
	both := plugintest.Smoke + "---\n" + plugintest.UDP
	_, _, err := spate(both, "simulate", "-", "--pcap", "o", "--limit", "5")
	if err == nil || !strings.Contains(err.Error(), "build it with `make engine`") {
		t.Errorf("got %v", err)
	}
	_, _, err = spate(both, "simulate", "-", "--pcap", "o", "--limit", "5", "--engine", "/nowhere/engine")
	if err == nil || !strings.Contains(err.Error(), "--engine names the engine's program: ") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	t.Setenv(enginebinary.Variable, "/nowhere/engine")
	if _, _, err = spate(both, "simulate", "-", "--pcap", "o"); err == nil || !strings.Contains(err.Error(), enginebinary.Variable+" names") {
		t.Errorf("got %v", err)
	}
	path := plugintest.Echoing(t, "0")
	if _, _, err = spate(both, "simulate", "-", "--pcap", "o", "--engine", path); err == nil || !strings.Contains(err.Error(), "say with --limit or --worker-limit") {
		t.Errorf("got %v", err)
	}
	if _, _, err = spate(both, "simulate", "-", "--engine", path); err == nil || !strings.Contains(err.Error(), `"pcap" not set`) {
		t.Errorf("got %v", err)
	}
}

// TestSimulateWritesWhatTheEngineSends needs the engine.
func TestSimulateWritesWhatTheEngineSends(t *testing.T) {
	if os.Getenv(enginebinary.Variable) == "" {
		t.Skip(enginebinary.Variable + " is not set; run `make operator-test`")
	}
	pcap := filepath.Join(t.TempDir(), "out.pcap")
	_, told, err := spate(plugintest.Smoke+"---\n"+plugintest.UDP, "simulate", "-", "--pcap", pcap, "--limit", "7")
	if err != nil {
		t.Fatal(err, told)
	}
	// A header of 24 bytes, and one of 16 before each frame of 124 bytes (128 with FCS).
	if file, err := os.Stat(pcap); err != nil || file.Size() != 24+7*(16+124) {
		t.Errorf("got %v %v", file, err)
	}
}
