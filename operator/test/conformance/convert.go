// SPDX-License-Identifier: Apache-2.0

// Does a capture of a session become a template, or is it refused so that people find out why?

package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/importer/pcap"
)

// named refusals name a packet, or what there is too much of.
var named = regexp.MustCompile(`packet [0-9]+|at most [0-9]+`)

// Convert makes a capture into a template. Its refusal says why not; its error is one that does not say where.
func (r Runner) Convert(ctx context.Context, path string) (refusal string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	name := objectName(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	_, err = pcap.Import(ctx, engine.Compiler{Binary: r.Engine}, name, data, pcap.Options{})
	switch {
	case err == nil:
		return "", nil
	case named.MatchString(err.Error()):
		return err.Error(), nil
	}
	return "", fmt.Errorf("it is refused without the number of a packet: %w", err)
}
