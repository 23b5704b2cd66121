// SPDX-License-Identifier: Apache-2.0

// Package report answers: how is all that is known of a run one document, for people, for a pipeline's summary, or for other programs?
package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/archived"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/plugin/junit"
	"spate.dev/operator/internal/plugin/result"
	"spate.dev/operator/internal/plugin/run"
	"spate.dev/operator/internal/runs/storage"
)

// formats write a report.
var formats = map[string]func(io.Writer, *subject) error{
	"html": func(w io.Writer, s *subject) error { return writeHTML(w, documentOf(s)) },
	"md":   func(w io.Writer, s *subject) error { return writeMarkdown(w, documentOf(s)) },
	"csv":  writeCSV,
	"junit": func(w io.Writer, s *subject) error {
		return (&junit.Suites{Suites: []junit.Suite{run.SuiteOf(s.run)}}).Write(w)
	},
}

// names of the formats, as the help has them.
var names = []string{"html", "md", "junit", "csv"}

// NewCommand returns `report`.
func NewCommand() *cobra.Command {
	var flags cluster.Flags
	var source archived.Source
	var output, file string
	c := &cobra.Command{
		Use:   "report RUN",
		Short: "Write a report of a run: HTML, Markdown, JUnit or CSV",
		Long: `Writes a report of a TrafficRun: its verdict and thresholds, rates, losses and delays over time, streams, templates and flows, what the
generator added, the machines, the profile, and how to run it again. RUN may be the name of a TrafficProfile: its latest run is used then.

  html   one file with pictures that loads nothing from elsewhere; tables sort and can be searched
  md     verdict and tables, for the summary of a pipeline
  junit  a test case for each threshold and one for validity, as kubectl spate run --junit writes them
  csv    the samples of the run, and the results of its streams and templates; times are in nanoseconds

Values over time are the run's samples, which the operator stores in a ConfigMap beside it: reading them takes the right to get ConfigMaps.
Without them, as for a run of an older release, the report states that and has everything else. Facts about the generator are from its current status.

--from PLACE reads the run from an archive instead, where it outlives its object: PLACE is the folder that the operator writes to (--archive-directory), or the
bucket and prefix (--archive-bucket), s3://BUCKET/PREFIX, or the folder of a single run in one. RUN is the name of a run then, and may be omitted with the folder of
one. No cluster is needed. Credentials of a bucket are those that the AWS SDK finds, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; its region is AWS_REGION.

Exit codes: 0 if the report was written, whatever the verdict; 1 if it was not, or if a part of the result could not be read.`,
		Example: `  kubectl spate report imix-1a2b3-1 --output-file imix.html
  kubectl spate report imix -o md >> "$GITHUB_STEP_SUMMARY"
  kubectl spate report imix -n tests -o junit --output-file results.xml
  kubectl spate report imix-1a2b3-1 -n tests --from /mnt/archive --output-file imix.html
  kubectl spate report imix-1a2b3-1 -n tests --from s3://results/spate --endpoint https://s3.example.com:9000
  kubectl spate report imix -o csv | mlr --icsv --opprint filter '$row == "sample"'`,
		Args:              cobra.RangeArgs(0, 1),
		ValidArgsFunction: flags.Complete(1, cluster.Runs, cluster.Profiles),
		RunE: func(c *cobra.Command, args []string) error {
			write, known := formats[output]
			if !known {
				return fmt.Errorf("-o %s: must be %s", output, strings.Join(names, ", "))
			}
			s, incomplete, err := find(c.Context(), &flags, &source, args)
			if err != nil {
				return err
			}
			var text bytes.Buffer
			if err := write(&text, s); err != nil {
				return err
			}
			return errors.Join(files.Put(c.OutOrStdout(), file, text.Bytes()), incomplete)
		},
	}
	flags.Add(c)
	c.Flags().StringVarP(&output, "output", "o", names[0], strings.Join(names, ", "))
	source.Add(c, "folder or s3://BUCKET/PREFIX of an archive, or of a run in one, to read the run from instead of the cluster")
	c.Flags().StringVar(&file, "output-file", "", "file to write the report to; standard output when absent")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(slices.Clone(names), cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that does not exist only
	return c
}

// find reads the run of a command line, of the cluster or of an archive.
func find(ctx context.Context, flags *cluster.Flags, source *archived.Source, args []string) (s *subject, incomplete, err error) {
	if source.IsSet() {
		run, series, err := source.Read(ctx, flags, args)
		if err != nil {
			return nil, nil, err
		}
		s = &subject{run: run, at: time.Now(), samples: series, missing: []string{"The generator and the profile are not in an archive."}}
		if series == nil {
			s.noSamples = "There are no values over time: the archive has no samples of the run."
		}
		if run.Status.Result != nil && run.Status.Result.Details != nil {
			incomplete = fmt.Errorf("the archive has %s: the rest of the result was lost before", run.Status.Result.Details.Has())
			s.incomplete = incomplete.Error()
		}
		return s, incomplete, nil
	}
	if len(args) == 0 {
		return nil, nil, errors.New("name a RUN, or a TrafficProfile, of which the latest run is used")
	}
	connection, err := flags.Connect()
	if err != nil {
		return nil, nil, err
	}
	run, err := cluster.FindRun(ctx, connection.Client, connection.Namespace, args[0])
	if err != nil {
		return nil, nil, err
	}
	s, incomplete = gather(ctx, connection.Client, run)
	return s, incomplete, nil
}

// gather reads what a report is made of. What cannot be read is said in the report; that the result is not whole is an error, too.
func gather(ctx context.Context, reader kube.Reader, run *spatev1.TrafficRun) (*subject, error) {
	s := &subject{run: run, at: time.Now()}
	incomplete := result.Load(ctx, reader, run)
	if incomplete != nil {
		s.incomplete = incomplete.Error()
	}
	var err error
	switch s.samples, err = storage.LoadSamples(ctx, reader, run); {
	case err != nil:
		s.noSamples = "There are no values over time: the samples of the run cannot be read: " + err.Error()
	case s.samples == nil:
		s.noSamples = "There are no values over time: the run has no samples. Runs of older releases have none, nor have runs that did not send."
	}
	if resolved := run.Status.Resolved; resolved != nil {
		g := &spatev1.TrafficGenerator{}
		if err := reader.Get(ctx, kube.ObjectKey{Namespace: resolved.Generator.Namespace, Name: string(resolved.Generator.Name)}, g); err != nil {
			s.missing = append(s.missing, "The generator cannot be read: "+err.Error())
		} else {
			s.generator = g
		}
	}
	if ref := run.Spec.ProfileRef; ref != nil {
		p := &spatev1.TrafficProfile{}
		if err := reader.Get(ctx, kube.ObjectKey{Namespace: run.Namespace, Name: string(ref.Name)}, p); err != nil {
			s.missing = append(s.missing, "The profile cannot be read: "+err.Error())
		} else {
			s.profile = p
		}
	}
	return s, incomplete
}
