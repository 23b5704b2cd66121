// SPDX-License-Identifier: Apache-2.0

package importing

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spate.dev/operator/internal/plugin/plugintest"
)

// deriving is an engine that derives the same programs from any capture.
const deriving = `#!/bin/sh
cat > /dev/null
cat <<'END'
{"stateful": {"payloads": [{"bytes": "R0VU"}], "templates": [{"protocol": "TRANSPORT_PROTOCOL_UDP", "destinationPort": 53,
 "client": {"instructions": [{"sendMessage": {}}]}, "server": {"instructions": [{"receiveMessages": {"messages": "1"}}]}}]}}
END
`

func TestACaptureBecomesATemplate(t *testing.T) {
	program := filepath.Join(t.TempDir(), "spate-engine")
	if err := os.WriteFile(program, []byte(deriving), 0o700); err != nil {
		t.Fatal(err)
	}
	file := write(t, filepath.Join(t.TempDir(), "My_DNS.pcap"), "a capture")
	output, _, err := spate("", "import", "pcap", file, "--engine", program, "-n", "lab", "--rate", "2cps")
	if err != nil {
		t.Fatal(err)
	}
	if got := plugintest.Kinds(t, output); len(got) != 1 || got[0] != "ASTFTemplate lab/my-dns" || !strings.Contains(output, "connectionRate: 2cps") || !strings.Contains(output, "text: GET") {
		t.Errorf("got %v in\n%s", got, output)
	}
	folder := filepath.Join(t.TempDir(), "out")
	if _, _, err := spate("a capture", "import", "pcap", "-", "--name", "dns", "--engine", program, "-o", folder); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "astftemplate-dns.yaml")); err != nil {
		t.Error(err)
	}
	for want, args := range map[string][]string{
		"--name is needed with standard input": {"-"},
		"--engine names the engine's program":  {file, "--engine", "/nowhere/engine"},
		"no such file":                         {"/nowhere/a.pcap", "--engine", program},
		`clients "x": must be an address`:      {file, "--engine", program, "--clients", "x"},
	} {
		if _, _, err := spate("", append([]string{"import", "pcap"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAStatefulProfileOfTRexIsImported(t *testing.T) {
	const profile = `{"buf_list": ["R0VU"], "ip_gen_dist_list": [{"ip_start": "16.0.0.1", "ip_end": "16.0.0.9", "distribution": "seq", "dir": "c"},
 {"ip_start": "48.0.0.1", "ip_end": "48.0.0.9", "distribution": "seq", "dir": "s"}], "program_list": [{"commands": [{"name": "tx", "buf_index": 0}]}, {"commands": [{"name": "rx", "min_bytes": 3}]}],
 "templates": [{"client_template": {"program_index": 0, "ip_gen": {"dist_client": {"index": 0}, "dist_server": {"index": 1}}, "port": 80, "cps": 1}, "server_template": {"program_index": 1, "assoc": [{"port": 80}]}}]}`
	output, _, err := importing(profile, "-", "--name", "web", "--port", "east", "--receive-port", "west")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(plugintest.Kinds(t, output), ", "); got != "ASTFTemplate /web-1, TrafficProfile /web" {
		t.Errorf("got %s", got)
	}
	if _, stderr, err := spate(output, "validate", "-"); err != nil {
		t.Errorf("what is imported is not valid: %v\n%s", err, stderr)
	}
	planned, _, err := spate(output, "plan", "-")
	if err != nil || !strings.Contains(planned, `"clientPort": "east"`) || !strings.Contains(planned, `"serverPort": "west"`) {
		t.Errorf("got %v\n%s", err, planned)
	}
}
