// SPDX-License-Identifier: Apache-2.0

// Package files answers: how does a command read the named files into objects?
package files

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/manifest"
	"spate.dev/operator/internal/offline"
	"spate.dev/operator/internal/plan/quantity"
)

// About is in the help of each command that reads files.
const About = `FILE is YAML or JSON, with one or more objects, as for kubectl apply: a file, a folder (its files that end with .yaml, .yml or .json;
with -R those of its subfolders, too), an http or https URL, or - for standard input. -f FILE is the same, and -k FOLDER builds a folder with
a kustomization. TrafficProfiles, TrafficRuns, StatelessStreams and ASTFTemplates are read, and TrafficGenerators, ConfigMaps and Secrets they refer to. Where no
TrafficGenerator is among the files, a plain one stands in for the one that the profile refers to: one engine with the ports that the
profile names, discard ports where it only sends, network ports where it expects packets or has clients or servers, and two network
ports where an entry names none. A profile that refers to no generator has the only one of its namespace among the files.`

// Flags are the flags for reading files.
type Flags struct {
	sources   Sources
	namespace string
	lineRate  string
}

// Add adds the flags to a command.
func (f *Flags) Add(c *cobra.Command) {
	f.sources.Add(c)
	c.Flags().StringVarP(&f.namespace, "namespace", "n", manifest.DefaultNamespace, "namespace of objects that name none")
	c.Flags().StringVar(&f.lineRate, "line-rate", string(offline.DefaultLineRate), "line rate of the ports of the generator that stands in for an absent one")
}

// Read returns all objects of the files, and the problems of single objects.
func (f *Flags) Read(c *cobra.Command, names []string) (offline.Files, []manifest.Problem, error) {
	if _, err := quantity.ParseBitRate(spatev1.BitRate(f.lineRate)); err != nil {
		return offline.Files{}, nil, fmt.Errorf("--line-rate %q: %w", f.lineRate, err)
	}
	set, problems, err := f.sources.into(&manifest.Reader{Namespace: f.namespace}, c, names)
	if err != nil {
		return offline.Files{}, nil, err
	}
	return offline.Files{Set: set, LineRate: spatev1.BitRate(f.lineRate)}, problems, nil
}

// Args accepts the arguments of a command that reads files.
func (f *Flags) Args(c *cobra.Command, names []string) error { return f.sources.Args(c, names) }

// ErrProblems follows the problems themselves.
var ErrProblems = errors.New("the files cannot be planned as they are")

// Tell writes problems, one per line.
func Tell(to io.Writer, problems []manifest.Problem) {
	for _, problem := range problems {
		fmt.Fprintln(to, problem.Error())
	}
}
