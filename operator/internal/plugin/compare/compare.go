// SPDX-License-Identifier: Apache-2.0

// Package compare answers: by how much do the results of two runs differ, and is that too much?
package compare

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/archived"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/exit"
	"spate.dev/operator/internal/plugin/output"
)

// NewCommand returns `compare`.
func NewCommand() *cobra.Command {
	var flags cluster.Flags
	var from archived.Source
	var other *archived.Source
	var form output.Flag
	var failOn []string
	c := &cobra.Command{
		Use:   "compare [RUN] [OTHER]",
		Short: "Compare the results of two runs",
		Long: `Compares the results of two TrafficRuns: sums, streams, templates and delays, each with its change from the first run to the second. Either may be
the name of a TrafficProfile: its latest run is used then. A single run is compared with its baseline (spec.baselineRef), as that was when the run
started: it need not exist any more. Streams and templates of one run only are listed. Tables omit metrics that are 0 in both runs, but for
-o wide.

--from PLACE reads the first run from an archive, where it need not exist any more: the folder that the operator writes to (--archive-directory), or the bucket and
prefix (--archive-bucket), s3://BUCKET/PREFIX, with the credentials and the region that the AWS SDK finds. --other-from PLACE reads the second; with both no cluster
is needed. PLACE may be the folder of a single run: where both are, names may be omitted.

P and DIFFER are of rates and mean times whose samples both runs have, one a second: the probability, by Welch's t-test, of means that differ as much or more if the
runs were alike, and whether it is below 0.05 when corrected for the number of metrics (Holm). Samples that follow each other are alike, so fewer count: the effective
sample size. It tells runs apart, not causes: two runs of the same can differ by what changed between them, so repeat runs (kubectl spate search compare has
repeats). Counts and percentiles, and runs with stages, are not tested. -o wide has sample sizes and the 95 % confidence interval of the change.

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
  kubectl spate compare imix-release-7 imix-release-8 -n tests --from /mnt/archive --other-from /mnt/archive -o wide
  kubectl spate compare before after --fail-on 'streams.*.rxPps<-1%' -o json | jq '.differences[] | select(.relativePercent > 1)'`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: flags.Complete(2, cluster.Runs, cluster.Profiles),
		RunE: func(c *cobra.Command, args []string) error {
			if err := form.Check(); err != nil {
				return exit.With(exit.Invalid, err)
			}
			conditions, err := parseAll(failOn)
			if err != nil {
				return exit.With(exit.Invalid, err)
			}
			first, second, err := both(c.Context(), &flags, places{&from, other}, args)
			if err != nil {
				return exit.With(exit.NotRun, err)
			}
			d := compare(first.run, second.run)
			d.test(first, second)
			judged := d.judge(conditions)
			return errors.Join(form.Write(c.OutOrStdout(), d.shown()), judged)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exit.With(exit.Invalid, err) })
	flags.Add(c)
	from.Add(c, "folder or s3://BUCKET/PREFIX of an archive, or of a run in one, to read the first run from instead of the cluster")
	other = from.AddOther(c, "other-from", "the same for the second run")
	c.Flags().StringArrayVar(&failOn, "fail-on", nil, "METRIC>AMOUNT or METRIC<AMOUNT: exit with 1 if the change from the first run to the second is beyond the amount, such as latency.p99>5%")
	form.Add(c)
	return c
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
	// Test is the name of the test of differences that have statistics, and NotTested why none has.
	Test      string `json:"test,omitempty"`
	NotTested string `json:"notTested,omitempty"`
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
	headings := []string{"METRIC", "FIRST", "SECOND", "CHANGE", "RELATIVE"}
	if d.Test != "" {
		headings = append(headings, testHeadings(wide)...)
	}
	fmt.Fprintf(out, "\n%s\n", strings.Join(headings, "\t"))
	for i := range d.Differences {
		diff := &d.Differences[i]
		if diff.isZero() && !wide {
			continue
		}
		cells := diff.cells()
		if d.Test != "" {
			cells = append(cells, diff.statistics.cells(diff.unit, wide)...)
		}
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	out.Flush() // an error is reported by the last call
	switch {
	case d.Test != "":
		fmt.Fprintf(w, "\nP: %s. DIFFER: at the level of %g, corrected for %d metrics. Runs of the same differ, too: repeat them.\n", d.Test, level, d.tested())
	case d.NotTested != "":
		fmt.Fprintf(w, "\nWhether differences are more than chance is not known: %s.\n", d.NotTested)
	}
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
