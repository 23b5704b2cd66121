// SPDX-License-Identifier: Apache-2.0

// Package receive answers: what foreign traffic arrives, at which port and worker, and at which times?
package receive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/counters"
	"spate.dev/operator/internal/plugin/output"
)

// The operator serves counters at most, and at least, this often.
const minInterval, maxInterval = time.Second, time.Minute

// flags say what is shown, in which form, and how long.
type flags struct {
	pods                   []string
	by                     string
	output                 output.Flag
	once, watch, fromReset bool
	interval, duration     time.Duration
}

const (
	byPort   = "port"
	byWorker = "worker"
)

// NewCommand returns `receive`.
func NewCommand() *cobra.Command {
	var where cluster.Flags
	var f flags
	c := &cobra.Command{
		Use:   "receive RUN | PROFILE | GENERATOR",
		Short: "Show what foreign traffic arrives, by port and worker",
		Long: `Shows foreign traffic, which are packets that belong to no run: of a run, of the latest run of a profile, or of the active runs of a generator. Engines
measure it on the ports that the profile lists in spec.receive, while the run is active. On other ports only packets are counted, also while the
run is active: without an active run nothing is read.

In a terminal it is a live table until q is pressed: r resets the counts, b shows ports or workers. Elsewhere it prints the table once, or with --watch a
line for each port at every interval, until the run ends. -o json prints an object a line, -o yaml a document for each.

` + meaning + `

--reset, and r in the display, count from the next reading on. They compute differences, so they change nothing in the engine: thresholds, results
and other readers are not affected. IAT MIN, IAT MAX and the maxima of jitter and latency are unknown (-) after that until they are exceeded,
because engines report those of all packets.

It takes the ClusterRole spate-viewer in the runs' namespace, which is part of the cluster's role view.`,
		Example: `  kubectl spate receive tap
  kubectl spate receive tap --by worker -o wide --once
  kubectl spate receive tap --watch --interval 5s | tee received.txt
  kubectl spate receive lab --reset --duration 1m -o csv > received.csv
  kubectl spate receive tap --once -o json | jq '{port, packetsPerSecond, jitterMeanNs}'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: where.Complete(1, cluster.Runs, cluster.Profiles, cluster.Generators),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			connection, err := where.Connect()
			if err != nil {
				return err
			}
			subject, selected, err := counters.Find(c.Context(), connection.Client, connection.Namespace, args[0])
			if err != nil {
				return err
			}
			source := &counters.Feed{Connection: connection, Find: selected, Pods: f.pods, Interval: f.interval}
			return f.show(c.Context(), subject, source, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	where.Add(c)
	c.Flags().StringSliceVar(&f.pods, "pod", nil, "engine pods to read; the first 8 when absent")
	where.CompleteFlag(c, "pod", "", cluster.Pods)
	c.Flags().StringVar(&f.by, "by", byPort, "a row is a port, or a worker of a port: port or worker")
	c.Flags().BoolVar(&f.once, "once", false, "print once, after one interval; the default without a terminal")
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "go on until the run ends; the default in a terminal")
	c.Flags().BoolVar(&f.fromReset, "reset", false, "count from the first reading on, not from the run's start")
	c.Flags().DurationVar(&f.interval, "interval", time.Second, "time from one reading to the next, 1s to 1m")
	c.Flags().DurationVar(&f.duration, "duration", 0, "go on for this time; 0 is no limit")
	f.output.Add(c)
	c.MarkFlagsMutuallyExclusive("once", "watch")
	c.MarkFlagsMutuallyExclusive("once", "duration")
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{byPort, byWorker}, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that does not exist only
	return c
}

// meaning of the columns, in the help and in the documentation.
const meaning = `PPS, L1 BPS and L2 BPS are of the last interval. L1 is with preamble and gap of Ethernet, 20 bytes a packet; L2 is with the FCS.
PACKETS and all times are since the run's start, or since the reset. On ports without a receiver PACKETS is since the engine's start.
IAT is the mean inter-arrival time: from each packet to the next that the same worker receives. Packets that a worker reads together
have the same arrival time, so their inter-arrival time is 0. With N workers it is about N times that of the port.
JITTER is the mean difference between successive inter-arrival times, without its sign. It needs no time stamp of the sender, so it is
neither the jitter of RFC 3550 section 6.4.1 nor the delay variation of RFC 5481: it includes the variation of the sender's own gaps.
SEEN is the time since the last reading in which packets had arrived, to the interval.`

// check returns why flags are not valid.
func (f *flags) check() error {
	switch {
	case f.by != byPort && f.by != byWorker:
		return fmt.Errorf("--by %q: must be port or worker", f.by)
	case f.interval < minInterval || f.interval > maxInterval:
		return fmt.Errorf("--interval %s: must be from %s to %s", f.interval, minInterval, maxInterval)
	case f.duration < 0:
		return errors.New("--duration: must not be negative")
	}
	return f.output.Check()
}

// show prints once or repeatedly, or draws on a terminal.
func (f *flags) show(ctx context.Context, subject string, source *counters.Feed, to, notes io.Writer) error {
	file, isFile := to.(*os.File)
	isTerminal := isFile && term.IsTerminal(int(file.Fd()))
	isTable := f.output.IsTable()
	s := newState(subject, f)
	switch {
	case isTerminal && isTable && !f.once:
		return source.Show(ctx, newScreen(s), to, f.duration)
	case f.watch || f.duration > 0 || isTerminal && !f.once:
		return stream(ctx, s, source, to, notes)
	}
	return once(ctx, s, source, to, notes)
}
