// SPDX-License-Identifier: Apache-2.0

// Package top answers: what do ports, streams, templates and workers do now? It is a live terminal: a model of the screen, which messages and keys
// change, and a feed of messages from the cluster.
package top

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/change"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/counters"
	"spate.dev/operator/internal/plugin/output"
)

// flags say what is shown.
type flags struct {
	pods         []string
	view, filter string
	once         bool
	output       output.Flag
}

// interval from one reading of counters to the next.
const interval = time.Second

// NewCommand returns `top`.
func NewCommand() *cobra.Command {
	var where cluster.Flags
	var f flags
	c := &cobra.Command{
		Use:   "top [RUN | PROFILE | GENERATOR]",
		Short: "Show ports, streams, templates, latency and workers live",
		Long: `Shows what engines count while runs are active, every second: ports, streams, templates of applications, percentiles of times, and workers, each
with the history of its rate. With a name: of one run, of the latest run of a profile, or of the active runs of a generator in the namespace; without
one of all active runs of the namespace. Up to 8 pods are read; --pod chooses.

` + help + `

--once prints the tables when two readings have been taken, and ends; -o is for it. In CSV the column row is run, or the view. The display takes the ClusterRole spate-viewer in the runs' namespace, which is
part of the cluster's role view; to change runs takes spate-editor.`,
		Example: `  kubectl spate top
  kubectl spate top imix -n tests --view streams
  kubectl spate top lab --pod lab-0
  kubectl spate top imix --once
  kubectl spate top imix --once -o json | jq '.streams[] | {stream, lostPPM}'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: where.Complete(1, cluster.Runs, cluster.Profiles, cluster.Generators),
		RunE: func(c *cobra.Command, args []string) error {
			view, err := f.check(c.OutOrStdout())
			if err != nil {
				return err
			}
			connection, err := where.Connect()
			if err != nil {
				return err
			}
			subject, selected, err := counters.Find(c.Context(), connection.Client, connection.Namespace, strings.Join(args, ""))
			if err != nil {
				return err
			}
			m := newModel(subject, actionsOf(c.Context(), connection))
			m.view, m.filter = max(view, 0), f.filter
			source := &counters.Feed{Connection: connection, Find: selected, Pods: f.pods, Interval: interval}
			if f.once {
				return once(c.Context(), m, source, c.OutOrStdout(), &f.output, view)
			}
			return source.Show(c.Context(), m, c.OutOrStdout(), 0)
		},
	}
	where.Add(c)
	c.Flags().StringSliceVar(&f.pods, "pod", nil, "engine pods to read; the first 8 when absent")
	where.CompleteFlag(c, "pod", "", cluster.Pods)
	c.Flags().StringVar(&f.view, "view", "", "view to begin with, or the only one to print: ports, streams, templates, latency or workers")
	c.Flags().StringVar(&f.filter, "filter", "", "show rows with this text in their names")
	c.Flags().BoolVar(&f.once, "once", false, "print the tables once")
	f.output.Add(c)
	_ = c.RegisterFlagCompletionFunc("view", cobra.FixedCompletions(viewNames(), cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that does not exist only
	return c
}

func viewNames() (names []string) {
	for _, v := range views {
		names = append(names, strings.ToLower(v.name))
	}
	return names
}

// check returns the view that is chosen; -1 if none is.
func (f *flags) check(to io.Writer) (view int, err error) {
	view = -1
	for i, name := range viewNames() {
		if name == f.view {
			view = i
		}
	}
	file, isFile := to.(*os.File)
	switch {
	case f.view != "" && view < 0:
		return 0, fmt.Errorf("--view %q: must be one of %s", f.view, strings.Join(viewNames(), ", "))
	case f.output.Form() != output.Table && !f.once:
		return 0, errors.New("--output: takes --once")
	case !f.once && (!isFile || !term.IsTerminal(int(file.Fd()))):
		return 0, errors.New("standard output is not a terminal: --once prints the tables")
	}
	return view, f.output.Check()
}

// actionsOf change runs as `kubectl spate rate` and `stop` do.
func actionsOf(ctx context.Context, connection *cluster.Connection) actions {
	on := func(name string, do func(*spatev1.TrafficRun) error) error {
		run := &spatev1.TrafficRun{}
		if err := connection.Client.Get(ctx, kube.ObjectKey{Namespace: connection.Namespace, Name: name}, run); err != nil {
			return err
		}
		if run.Status.Phase == spatev1.RunComplete {
			return fmt.Errorf("run %s has ended", name)
		}
		return do(run)
	}
	return actions{
		setRate: func(name, rate string) (string, error) {
			var done bytes.Buffer
			err := on(name, func(run *spatev1.TrafficRun) error { return change.SetRate(ctx, &done, connection.Client, run, rate) })
			return done.String(), err
		},
		stop: func(name string) (string, error) {
			err := on(name, func(run *spatev1.TrafficRun) error { return change.Stop(ctx, connection.Client, run) })
			return fmt.Sprintf("run %s is being stopped", name), err
		},
	}
}
