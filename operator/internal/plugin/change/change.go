// SPDX-License-Identifier: Apache-2.0

// Package change answers: how does a user change a run while it is active: its rate, a pause, its end?
package change

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/spf13/cobra"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/quantity"
	"spate.dev/operator/internal/plugin/cluster"
)

const ofRun = "RUN may be the name of a TrafficProfile: its latest run is used then. The profile itself is not changed."

// NewRateCommand returns `rate`.
func NewRateCommand() *cobra.Command {
	var flags cluster.Flags
	c := &cobra.Command{
		Use:   "rate RUN RATE",
		Short: "Change the rate of an active run",
		Long: `Changes the rate of a run while it is active. RATE is a factor on the entries' own rates (2x), a total of all ports (1Mpps, 10Gbps,
80%), a total of each port (1Mpps/port), or a change of what the run sends now (+10%, -1Mpps, +2Gbps). ` + ofRun,
		Example: `  kubectl spate rate imix 2x
  kubectl spate rate imix-8b18d-1 +10%
  kubectl spate rate imix -1Mpps`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: flags.Complete(1, cluster.Runs, cluster.Profiles),
		RunE: func(c *cobra.Command, args []string) error {
			return onRun(c.Context(), &flags, args[0], func(ctx context.Context, client kube.Client, run *spatev1.TrafficRun) error {
				return SetRate(ctx, c.OutOrStdout(), client, run, args[1])
			})
		},
	}
	flags.Add(c)
	return c
}

// newSwitchCommand returns a command that sets a field of an active run.
func newSwitchCommand(use, short, long, done string, set func(*spatev1.TrafficRunSpec)) *cobra.Command {
	var flags cluster.Flags
	c := &cobra.Command{
		Use: use + " RUN", Short: short, Long: long + " " + ofRun, Example: "  kubectl spate " + use + " imix",
		Args: cobra.ExactArgs(1), ValidArgsFunction: flags.Complete(1, cluster.Runs, cluster.Profiles),
		RunE: func(c *cobra.Command, args []string) error {
			return onRun(c.Context(), &flags, args[0], func(ctx context.Context, client kube.Client, run *spatev1.TrafficRun) error {
				if err := patchRun(ctx, client, run, set); err != nil {
					return err
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "run %s %s\n", run.Name, done)
				return err
			})
		},
	}
	flags.Add(c)
	return c
}

// NewPauseCommand returns `pause`.
func NewPauseCommand() *cobra.Command {
	return newSwitchCommand("pause", "Pause an active run", "Stops a run from sending, until it is resumed. Its duration includes the pause.", "is paused",
		func(s *spatev1.TrafficRunSpec) { s.Paused = true })
}

// NewResumeCommand returns `resume`.
func NewResumeCommand() *cobra.Command {
	return newSwitchCommand("resume", "Resume a paused run", "Makes a paused run send again.", "is resumed",
		func(s *spatev1.TrafficRunSpec) { s.Paused = false })
}

// NewStopCommand returns `stop`.
func NewStopCommand() *cobra.Command {
	return newSwitchCommand("stop", "End a run before its time", "Ends a run before its time. Its result is kept; a run with a duration is not valid then. It cannot be undone.",
		"is being stopped", stop)
}

func stop(s *spatev1.TrafficRunSpec) { s.Stop = true }

// Stop ends a run before its time.
func Stop(ctx context.Context, client kube.Client, run *spatev1.TrafficRun) error {
	return patchRun(ctx, client, run, stop)
}

// onRun finds a run that has not ended.
func onRun(ctx context.Context, flags *cluster.Flags, name string, do func(context.Context, kube.Client, *spatev1.TrafficRun) error) error {
	connection, err := flags.Connect()
	if err != nil {
		return err
	}
	run, err := cluster.FindRun(ctx, connection.Client, connection.Namespace, name)
	if err != nil {
		return err
	}
	if run.Status.Phase == spatev1.RunComplete {
		return fmt.Errorf("run %s has ended", run.Name)
	}
	return do(ctx, connection.Client, run)
}

func patchRun(ctx context.Context, client kube.Client, run *spatev1.TrafficRun, set func(*spatev1.TrafficRunSpec)) error {
	before := run.DeepCopy()
	set(&run.Spec)
	return client.Patch(ctx, run, kube.MergeFrom(before))
}

// SetRate changes the rate of a run to what `kubectl spate rate` takes, and reports the new one.
func SetRate(ctx context.Context, w io.Writer, client kube.Client, run *spatev1.TrafficRun, text string) error {
	rate := spatev1.ScaledRate(text)
	if strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-") {
		var err error
		if rate, err = changedRate(run, text); err != nil {
			return fmt.Errorf("RATE %s: %w", text, err)
		}
	}
	if _, err := quantity.ParseScaledRate(rate); err != nil {
		return fmt.Errorf("RATE %s: %w", text, err)
	}
	if err := patchRun(ctx, client, run, func(s *spatev1.TrafficRunSpec) { s.Overrides.Rate = rate }); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "run %s: rate set to %s\n", run.Name, rate)
	return err
}

// decimals of a rate factor, which the API has as a decimal number.
const decimals = 12

// changedRate applies a change, such as +10% or -1Mpps, to what a run sends now.
func changedRate(run *spatev1.TrafficRun, text string) (spatev1.ScaledRate, error) {
	resolved := run.Status.Resolved
	if resolved == nil || run.Status.RateFactor == "" {
		return "", fmt.Errorf("run %s has no rate yet: it waits for its generator", run.Name)
	}
	factor, err := quantity.ParseFactor(run.Status.RateFactor)
	if err != nil {
		return "", err
	}
	change, err := quantity.ParseRate(spatev1.Rate(text[1:]))
	if err != nil {
		return "", fmt.Errorf("a change must be + or - and a share such as 10%% or a rate such as 1Mpps or 2Gbps: %w", err)
	}
	part := new(big.Rat).Quo(change.Value, big.NewRat(100, 1))
	if change.Unit != quantity.LinePercent {
		total := new(big.Rat)
		for _, e := range resolved.Entries {
			own, err := quantity.ParseRate(e.Rate)
			if err != nil || own.Unit != change.Unit {
				return "", fmt.Errorf("entry %s has the rate %q, to which the change cannot be added; write a share such as +10%%, or a factor such as 2x", e.Name, e.Rate+spatev1.Rate(e.ConnectionRate))
			}
			total.Add(total, own.Value)
		}
		if total.Mul(total, factor).Sign() == 0 {
			return "", fmt.Errorf("run %s sends no streams", run.Name)
		}
		part.Quo(change.Value, total)
	}
	if text[0] == '-' {
		part.Neg(part)
	}
	factor.Mul(factor, part.Add(part, big.NewRat(1, 1)))
	if factor.Sign() <= 0 {
		return "", fmt.Errorf("the rate of run %s would not be more than 0; use kubectl spate pause", run.Name)
	}
	return spatev1.ScaledRate(strings.TrimSuffix(strings.TrimRight(factor.FloatString(decimals), "0"), ".") + "x"), nil
}
