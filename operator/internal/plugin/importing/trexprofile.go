// SPDX-License-Identifier: Apache-2.0

// How is a TRex profile in Python converted to JSON? TRex's client loads it, with the user's Python.

package importing

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

//go:embed trexprofile.py
var trexProfileScript string

// trexProfile is the profile to load, and its arguments.
type trexProfile struct {
	File      string            `json:"file"`
	Direction int               `json:"direction"`
	Tunables  map[string]string `json:"tunables"`
	// Tags is true for a file that has the tags of tagged packet groups instead.
	Tags bool `json:"tags"`
}

// exitNoClient is the script's exit code where TRex's client is not installed.
const exitNoClient = 3

// load returns the profile as JSON: a list of streams, a stateful profile, or a list of tags.
func (p trexProfile) load(ctx context.Context, python string) ([]byte, error) {
	if p.Tunables == nil {
		p.Tunables = map[string]string{}
	}
	asked, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath(python)
	if err != nil {
		return nil, fmt.Errorf("%s is a TRex profile in Python, and there is no %s to load it with (%w): install Python 3, name its "+
			"interpreter with --python, or import the profile as JSON", p.File, python, err)
	}
	var out, messages bytes.Buffer
	run := exec.CommandContext(ctx, path, "-W", "ignore", "-c", trexProfileScript, string(asked))
	run.Stdout, run.Stderr = &out, &messages
	err = run.Run()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && ended.ExitCode() == exitNoClient:
		return nil, fmt.Errorf("%s is a TRex profile in Python, and %s has no TRex client to load it with: install it by `%s -m pip install "+
			"lbr-trex-client`, best in a virtual environment whose interpreter --python names", p.File, path, python)
	case err != nil:
		return nil, fmt.Errorf("TRex's client cannot load %s: %w\n%s", p.File, err, strings.TrimSpace(messages.String()))
	}
	return out.Bytes(), nil
}
