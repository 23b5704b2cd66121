// SPDX-License-Identifier: Apache-2.0

// Package simulate answers: which packets would a profile or a run send, and when?
package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plugin/enginebinary"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/plugin/selection"
)

// simulation is the command line of `spate-engine simulate`.
type simulation struct {
	pcap               string
	limit, workerLimit uint64
	workers            uint32
	// stages names those of the profile.
	stages []string
}

// arguments returns those of the engine, which reads the plan from its standard input.
func (s simulation) arguments() []string {
	all := []string{"simulate", "--plan", "-", "--pcap", s.pcap, "--workers", strconv.FormatUint(uint64(s.workers), 10)}
	if s.limit > 0 {
		all = append(all, "--limit", strconv.FormatUint(s.limit, 10))
	}
	if s.workerLimit > 0 {
		all = append(all, "--worker-limit", strconv.FormatUint(s.workerLimit, 10))
	}
	for _, name := range s.stages {
		all = append(all, "--stage-name", name)
	}
	return all
}

// NewCommand returns `simulate`.
func NewCommand() *cobra.Command {
	var flags selection.Flags
	var engine string
	var s simulation
	c := &cobra.Command{
		Use:   "simulate (FILE | -f FILE | -k FOLDER)... --pcap OUT",
		Short: "Write the packets that a profile or a run would send to a capture",
		Long: `Writes the packets that a profile, or a run with its overrides, would send to a capture, at the times at which they would leave, in nanoseconds from
the start of the run. It is computed by the engine's own code with a virtual clock, without devices and privileges. Of a profile with stages it prints
what is sent in each.

` + files.About,
		Example: `  kubectl spate simulate profile.yaml streams.yaml --pcap out.pcap --limit 1000
  kubectl spate simulate profile.yaml --pcap out.pcap --worker-limit 50 --workers 2 --engine ./spate-engine`,
		Args: flags.Args,
		RunE: func(c *cobra.Command, names []string) error {
			path, err := enginebinary.Find(engine)
			if err != nil {
				return err
			}
			p, err := flags.Resolve(c, names)
			if err != nil {
				return err
			}
			if s.limit == 0 && s.workerLimit == 0 && p.Plan.Timing.GetDurationNs() == 0 {
				return errors.New("no duration is set: set the number of packets to write with --limit or --worker-limit")
			}
			for _, stage := range p.Definition.Profile.Spec.Stages {
				s.stages = append(s.stages, string(stage.Name))
			}
			text, err := plan.Text(p.Plan)
			if err != nil {
				return err
			}
			run := exec.CommandContext(c.Context(), path, s.arguments()...)
			var complaints bytes.Buffer
			run.Stdin, run.Stdout, run.Stderr = bytes.NewReader(text), c.OutOrStdout(), &complaints
			err = run.Run()
			for line := range strings.Lines(complaints.String()) {
				fmt.Fprintln(c.ErrOrStderr(), p.Origin.Line(strings.TrimSuffix(line, "\n")))
			}
			return err
		},
	}
	flags.Add(c)
	c.Flags().StringVar(&s.pcap, "pcap", "", "file to write (required)")
	c.Flags().Uint64Var(&s.limit, "limit", 0, "packets to write at most; 0 is all of the profile's duration")
	c.Flags().Uint64Var(&s.workerLimit, "worker-limit", 0, "packets of each worker to write at most; 0 is all of the profile's duration")
	c.Flags().Uint32Var(&s.workers, "workers", 1, "workers that share the streams, 1 to 256")
	enginebinary.AddFlag(c, &engine)
	if err := c.MarkFlagRequired("pcap"); err != nil {
		panic(err) // the flag exists
	}
	c.MarkFlagsMutuallyExclusive("limit", "worker-limit")
	return c
}
