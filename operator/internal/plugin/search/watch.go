// SPDX-License-Identifier: Apache-2.0

package search

// This file answers: which trials does a search do?

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
)

// look is the interval at which a search is read.
const look = time.Second

// newWatchCommand returns `search watch`.
func newWatchCommand() *cobra.Command {
	var flags cluster.Flags
	c := &cobra.Command{
		Use:   "watch SEARCH",
		Short: "Print the trials of a search as they end, then its report",
		Long: `Prints each trial of a TrafficSearch as it ends: its load, what was lost, and the bounds after it. Those that have ended before are printed first. At the
end of the search its report is printed; the exit code is 1 if its outcome is not Passed.`,
		Example:           `  kubectl spate search watch router`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: flags.Complete(1, cluster.Searches),
		RunE: func(c *cobra.Command, args []string) error {
			connection, err := flags.Connect()
			if err != nil {
				return err
			}
			return watch(c.Context(), c.OutOrStdout(), connection.Client, connection.Namespace, args[0])
		},
	}
	flags.Add(c)
	return c
}

func watch(ctx context.Context, w io.Writer, reader kube.Reader, namespace, name string) error {
	printed := map[string]int{} // trials by run
	asked := map[string]int32{} // the last trial that asked for a reset of the device, by run
	for {
		search, err := find(ctx, reader, namespace, name)
		if err != nil {
			return err
		}
		for _, v := range search.Status.Variants {
			for i, name := range runsOf(&v) {
				run := &spatev1.TrafficRun{}
				if err := reader.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: name}, run); kube.IgnoreNotFound(err) != nil {
					return err
				} else if err != nil || run.Status.Search == nil {
					continue
				}
				of := v.Name
				if search.Spec.Repeats != nil && *search.Spec.Repeats > 1 {
					of += fmt.Sprintf(" repeat %d", i+1)
				}
				for _, t := range run.Status.Search.Trials[min(printed[name], len(run.Status.Search.Trials)):] {
					printed[name]++
					fmt.Fprintln(w, trialLine(of, &t, run.Status.Search.Unit))
				}
				if t := run.Status.Search.Current; t != nil && t.ResetDevice && t.Number > asked[name] {
					asked[name] = t.Number
					fmt.Fprintf(w, "%s  trial %d (%s) began at %s and lasts %s: reset the device now\n", of, t.Number, t.Test, t.StartTime.UTC().Format(time.TimeOnly), t.Duration)
				}
			}
		}
		if search.Status.Phase == spatev1.SearchComplete {
			fmt.Fprintln(w)
			if err := writeTable(w, search); err != nil {
				return err
			}
			if o := search.Status.Outcome; o != spatev1.VerdictPassed {
				return fmt.Errorf("search %s: %s", name, o)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
}

// runsOf are the runs of a variant: of its repeats, and the latest.
func runsOf(v *spatev1.SearchVariant) (all []string) {
	for _, repeat := range v.Repeats {
		all = append(all, repeat.Run)
	}
	if !slices.Contains(all, v.Run) {
		all = append(all, v.Run)
	}
	return all
}

// trialLine is a trial in a line.
func trialLine(variant string, t *spatev1.TrialRecord, unit spatev1.LoadUnit) string {
	line := fmt.Sprintf("%s  trial %d (%s): %s %s for %s", variant, t.Number, t.Test, loadText(t.Load), cmp.Or(unit, spatev1.UnitPackets), t.Duration)
	if t.Packets > 0 {
		line += fmt.Sprintf(" (%d packets)", t.Packets)
	}
	line += fmt.Sprintf(": %d sent of %d, %d received, loss ratio %s", t.Sent, t.Intended, t.Received, t.LossRatio)
	if len(t.Unmet) > 0 {
		unmet := make([]string, len(t.Unmet))
		for i, u := range t.Unmet {
			unmet[i] = fmt.Sprintf("require[%d] of goal %s", u.Index, u.Goal)
		}
		line += "; not met: " + strings.Join(unmet, ", ")
	}
	if t.UnmetValues != "" {
		line += ": " + t.UnmetValues
	}
	if t.Invalid != "" {
		line += "; invalid: " + t.Invalid
	}
	return line
}
