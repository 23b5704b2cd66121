// SPDX-License-Identifier: Apache-2.0

// Package compare answers: by how much do the results of two runs differ, and is that too much?
package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/archived"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/result"
	"spate.dev/operator/internal/runs/storage"
)

// NewCommand returns `compare`.
func NewCommand() *cobra.Command {
	var flags cluster.Flags
	var source archived.Source
	var form output.Flag
	var failOn []string
	c := &cobra.Command{
		Use:   "compare [RUN] OTHER",
		Short: "Compare the results of two runs",
		Long: `Compares the results of two TrafficRuns: sums, streams, templates and delays, each with its change from the first run to the second. Either may be
the name of a TrafficProfile: its latest run is used then. A single run is compared with its baseline (spec.baselineRef), as that was when the run
started: it need not exist any more. Streams and templates of one run only are listed. Tables omit metrics that are 0 in both runs, but for
-o wide.

--from PLACE reads the first run from an archive, where it need not exist any more: the folder that the operator writes to (--archive-directory), or the bucket and
prefix (--archive-bucket), s3://BUCKET/PREFIX, with the credentials and the region that the AWS SDK finds.

--fail-on CONDITION, which may be repeated, makes the exit code 1 if the condition holds. A condition is a metric, > or <, and an amount:
  latency.p99>5%                       the metric has grown by more than 5 % of what the first run has
  rxPps<-1%                            it has fallen by more than 1 %
  lost>0, latency.max>10us             it has grown by more than a number, or a time (ns, us, ms, s)
  streams.voice.latency.p99>5%         that of a stream; streams.*.latency.p99 of each stream that both runs have
  templates.web.client.connectTime.p99>5%, templates.*.client.failed>0
Metrics are named as in the table. From 0, any growth is more than any percentage. latency is that of all streams: its count is their sum, its min the least, its mean
that of all packets, and all else the greatest of the streams. What is measured in one of the runs only cannot be judged, which is an error.

Exit codes: 0 no condition holds; 1 one does; 2 a condition is not valid or cannot be judged; 3 a result could not be read, or a run has none.`,
		Example: `  kubectl spate compare imix-1a2b3-1 imix-1a2b3-2
  kubectl spate compare imix-1a2b3-2 --fail-on 'lost>0'
  kubectl spate compare before after --fail-on 'latency.p99>5%' --fail-on 'lost>0'
  kubectl spate compare imix-release-7 imix --from /mnt/archive
  kubectl spate compare imix-release-7 imix --from s3://results/spate --endpoint https://s3.example.com:9000
  kubectl spate compare before after --fail-on 'streams.*.rxPps<-1%' -o json | jq '.differences[] | select(.relativePercent > 1)'`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: flags.Complete(2, cluster.Runs, cluster.Profiles),
		RunE: func(c *cobra.Command, args []string) error {
			if err := form.Check(); err != nil {
				return exit.With(exit.Invalid, err)
			}
			conditions, err := parseAll(failOn)
			if err != nil {
				return exit.With(exit.Invalid, err)
			}
			first, second, err := both(c.Context(), &flags, &source, args)
			if err != nil {
				return exit.With(exit.NotRun, err)
			}
			d := compare(first, second)
			judged := d.judge(conditions)
			return errors.Join(form.Write(c.OutOrStdout(), d.shown()), judged)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit.With(exit.Invalid, err) })
	flags.Add(c)
	source.Add(c, "folder or s3://BUCKET/PREFIX of an archive to read the first run from instead of the cluster")
	c.Flags().StringArrayVar(&failOn, "fail-on", nil, "METRIC>AMOUNT or METRIC<AMOUNT: exit with 1 if the change from the first run to the second is beyond the amount, such as latency.p99>5%")
	form.Add(c)
	return c
}

// both reads the runs that are compared.
func both(ctx context.Context, flags *cluster.Flags, source *archived.Source, args []string) (first, second *spatev1.TrafficRun, err error) {
	if source.IsSet() && len(args) == 1 {
		return nil, nil, errors.New("--from reads the first of two runs: name the other one, too")
	}
	connection, err := flags.Connect()
	if err != nil {
		return nil, nil, err
	}
	second, err = read(ctx, connection.Client, connection.Namespace, args[len(args)-1])
	var other error
	switch {
	case source.IsSet():
		first, _, other = source.Read(ctx, flags, args[:1])
		if other == nil && first.Status.Result == nil {
			other = fmt.Errorf("run %s has no result: nothing was measured", first.Name)
		}
	case len(args) == 2:
		first, other = read(ctx, connection.Client, connection.Namespace, args[0])
	case err == nil:
		first, err = baselineOf(ctx, connection.Client, second)
	}
	return first, second, errors.Join(other, err)
}

// read returns a run with its whole result.
func read(ctx context.Context, reader kube.Reader, namespace, name string) (*spatev1.TrafficRun, error) {
	run, err := cluster.FindRun(ctx, reader, namespace, name)
	if err != nil {
		return nil, err
	}
	if run.Status.Result == nil {
		return nil, fmt.Errorf("run %s has no result: nothing was measured yet", run.Name)
	}
	if err := result.Load(ctx, reader, run); err != nil {
		return nil, fmt.Errorf("run %s: %w", run.Name, err)
	}
	return run, nil
}

// baselineOf returns the baseline of a run, with the copy of its whole result.
func baselineOf(ctx context.Context, reader kube.Reader, run *spatev1.TrafficRun) (*spatev1.TrafficRun, error) {
	if run.Status.Resolved == nil || run.Status.Resolved.Baseline == nil {
		return nil, fmt.Errorf("run %s has no baseline: name the run to compare it with", run.Name)
	}
	kept, err := storage.LoadBaseline(ctx, reader, run)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.Name, err)
	}
	b, baseline := run.Status.Resolved.Baseline, &spatev1.TrafficRun{}
	baseline.Namespace, baseline.Name, baseline.UID = run.Namespace, string(b.Name), b.UID
	baseline.Spec.ProfileRef = &spatev1.LocalReference{Name: b.Profile}
	baseline.Status.Phase, baseline.Status.Verdict, baseline.Status.Result = spatev1.RunComplete, &spatev1.Verdict{Outcome: b.Outcome}, kept
	return baseline, nil
}

// document is a comparison for programs.
type document struct {
	First       compared     `json:"first"`
	Second      compared     `json:"second"`
	Differences []difference `json:"differences"`
	// OnlyInFirst and OnlyInSecond are streams and templates, such as `streams.voice`.
	OnlyInFirst  []string   `json:"onlyInFirst"`
	OnlyInSecond []string   `json:"onlyInSecond"`
	FailOn       []judgment `json:"failOn,omitempty"`
}

// compared is a run.
type compared struct {
	Name    string                 `json:"name"`
	Profile string                 `json:"profile"`
	Phase   spatev1.RunPhase       `json:"phase"`
	Outcome spatev1.VerdictOutcome `json:"outcome,omitempty"`
}

func comparedOf(run *spatev1.TrafficRun) compared {
	c := compared{Name: run.Name, Profile: cluster.ProfileOf(run), Phase: run.Status.Phase}
	if v := run.Status.Verdict; v != nil {
		c.Outcome = v.Outcome
	}
	return c
}

// shown is the comparison in every form.
func (d *document) shown() output.Shown {
	return output.Shown{Document: d, Lists: []output.List{{Name: "difference", Objects: d.Differences}}, Tables: d.write}
}

// write writes the comparison as tables: wide with metrics that are 0 in both runs.
func (d *document) write(w io.Writer, wide bool) error {
	for i, c := range []compared{d.First, d.Second} {
		outcome := string(c.Phase)
		if c.Outcome != "" {
			outcome = string(c.Outcome)
		}
		fmt.Fprintf(w, "%s: run %s of profile %s: %s\n", []string{"First", "Second"}[i], c.Name, c.Profile, outcome)
	}
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "\nMETRIC\tFIRST\tSECOND\tCHANGE\tRELATIVE")
	for i := range d.Differences {
		if diff := &d.Differences[i]; wide || !diff.isZero() {
			fmt.Fprintln(out, strings.Join(diff.cells(), "\t"))
		}
	}
	out.Flush() // an error is reported by the last call
	for _, only := range []struct {
		run   string
		names []string
	}{{d.First.Name, d.OnlyInFirst}, {d.Second.Name, d.OnlyInSecond}} {
		if len(only.names) > 0 {
			fmt.Fprintf(out, "\nOnly in run %s: %s\n", only.run, strings.Join(only.names, ", "))
		}
	}
	if len(d.FailOn) > 0 {
		fmt.Fprintln(out, "\nFAIL ON\tMETRIC\tHOLDS\tVALUES")
		for _, j := range d.FailOn {
			holds := "no"
			switch {
			case j.Problem != "":
				holds = "?"
			case j.Holds:
				holds = "YES"
			}
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", j.Condition, j.Metric, holds, j.Message+j.Problem)
		}
	}
	return out.Flush()
}
