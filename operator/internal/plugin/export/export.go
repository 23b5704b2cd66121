// SPDX-License-Identifier: Apache-2.0

// Package export answers: how do the samples of a run come into a system that keeps metrics, without the operator?
package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	spatev1 "spate.dev/api/v1alpha1"
	samplesexport "spate.dev/operator/internal/export"
	"spate.dev/operator/internal/plugin/archived"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/files"
	"spate.dev/operator/internal/runs/samples"
	"spate.dev/operator/internal/runs/storage"
)

// openMetrics is the only format that is printed.
const openMetrics = "openmetrics"

// command has the flags.
type command struct {
	cluster                       cluster.Flags
	source                        archived.Source
	output, file                  string
	remoteWrite, otlp, httpConfig string
	labels                        string
	limit                         time.Duration
}

// NewCommand returns `export`.
func NewCommand() *cobra.Command {
	var f command
	c := &cobra.Command{
		Use:   "export RUN",
		Short: "Send the samples of a run to Prometheus or an OpenTelemetry collector, or print them",
		Long: `Sends the samples of a TrafficRun, its counters over time, with their own time stamps, or prints them as OpenMetrics text. RUN may be the name of a
TrafficProfile: its latest run is used then. Samples of a run that has not ended are those stored so far.

  --remote-write URL  by Prometheus' remote write 1.0, to Prometheus, Mimir, Thanos or VictoriaMetrics, such as http://prometheus:9090/api/v1/write
  --otlp URL          by OTLP over HTTP with protobuf, to a collector (http://collector:4318/v1/metrics), or to Prometheus
                      (http://prometheus:9090/api/v1/otlp/v1/metrics)

Without either they are printed: promtool tsdb create-blocks-from openmetrics makes blocks of them. Tokens, passwords, certificates and headers are in the
file of --http-config, which is that of Prometheus' HTTP clients (authorization, basic_auth, tls_config, http_headers, ...), and of promtool --http.config.file.
Prometheus takes samples that are older than an hour, or sent once more, only with storage.tsdb.out_of_order_time_window in its configuration.

Samples are in a ConfigMap beside the run: reading them takes the right to get ConfigMaps. --from PLACE reads the run from an archive instead, where it outlives its
object: PLACE is the folder that the operator writes to (--archive-directory), or the bucket and prefix (--archive-bucket), s3://BUCKET/PREFIX, or the folder of a
single run in one. No cluster is needed then. Credentials of a bucket are those that the AWS SDK finds, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or
AWS_PROFILE; its region is AWS_REGION.

Exit codes: 0 if all samples were accepted, or printed; 1 otherwise, also for a run without samples.`,
		Example: `  kubectl spate export imix-1a2b3-1 --remote-write http://prometheus.example:9090/api/v1/write
  kubectl spate export imix --otlp https://collector.example:4318/v1/metrics --http-config otlp.yaml --labels site=north,build=417
  kubectl spate export imix -o openmetrics --output-file imix.om && promtool tsdb create-blocks-from openmetrics imix.om data
  kubectl spate export imix-1a2b3-1 -n tests --from /mnt/archive --remote-write http://prometheus.example:9090/api/v1/write
  kubectl spate export imix-1a2b3-1 -n tests --from s3://results/spate --endpoint https://s3.example.com:9000 --output-file imix.om`,
		Args:              cobra.RangeArgs(0, 1),
		ValidArgsFunction: f.cluster.Complete(1, cluster.Runs, cluster.Profiles),
		RunE: func(c *cobra.Command, args []string) error {
			targets, labels, err := f.targets()
			if err != nil {
				return err
			}
			run, sampled, err := f.find(c.Context(), args)
			if err != nil {
				return err
			}
			if sampled == nil {
				return fmt.Errorf("run %s has no samples: it did not send, or is of an older release", run.Name)
			}
			if len(targets) == 0 {
				return f.print(c, run, sampled, labels)
			}
			ctx, cancel := context.WithTimeout(c.Context(), f.limit)
			defer cancel()
			for _, target := range targets {
				sent, err := target.Send(ctx, run, sampled)
				if err != nil {
					return fmt.Errorf("%d samples were accepted before: %w", sent, err)
				}
				fmt.Fprintf(c.OutOrStdout(), "%d samples of run %s were accepted (%s)\n", sent, run.Name, target.Protocol)
			}
			return nil
		},
	}
	f.cluster.Add(c)
	c.Flags().StringVar(&f.remoteWrite, "remote-write", "", "URL to send to by Prometheus' remote write")
	c.Flags().StringVar(&f.otlp, "otlp", "", "URL to send to by OTLP/HTTP")
	c.Flags().StringVar(&f.httpConfig, "http-config", "", "file with the HTTP client's configuration, as Prometheus has it")
	c.Flags().StringVar(&f.labels, "labels", "", "comma-separated list of labels (NAME=VALUE) that are added to all samples")
	c.Flags().DurationVar(&f.limit, "timeout", 2*time.Minute, "time limit for sending")
	c.Flags().StringVarP(&f.output, "output", "o", openMetrics, "format of what is printed: "+openMetrics)
	f.source.Add(c, "folder or s3://BUCKET/PREFIX of an archive, or of a run in one, to read the run from instead of the cluster")
	c.Flags().StringVar(&f.file, "output-file", "", "file to print to; standard output when absent")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{openMetrics}, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that does not exist only
	c.MarkFlagsMutuallyExclusive("output-file", "remote-write")
	c.MarkFlagsMutuallyExclusive("output-file", "otlp")
	return c
}

// targets returns where samples are sent, and the labels that are added.
func (f *command) targets() (targets []samplesexport.Target, labels map[string]string, err error) {
	if f.output != openMetrics {
		return nil, nil, fmt.Errorf("-o %s: must be %s", f.output, openMetrics)
	}
	if f.limit <= 0 {
		return nil, nil, fmt.Errorf("--timeout %s: must be more than 0", f.limit)
	}
	if labels, err = samplesexport.ParseLabels(f.labels); err != nil {
		return nil, nil, fmt.Errorf("--labels: %w", err)
	}
	for _, t := range []struct {
		protocol  samplesexport.Protocol
		flag, url string
	}{{samplesexport.RemoteWrite, "--remote-write", f.remoteWrite}, {samplesexport.OTLP, "--otlp", f.otlp}} {
		if t.url == "" {
			continue
		}
		target := samplesexport.Target{Protocol: t.protocol, URL: t.url, HTTPConfig: f.httpConfig, Labels: labels}
		if err := target.Check(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", t.flag, err)
		}
		targets = append(targets, target)
	}
	if len(targets) == 0 && f.httpConfig != "" {
		return nil, nil, errors.New("--http-config has no effect: name a URL by --remote-write or --otlp")
	}
	return targets, labels, nil
}

// find reads the run of a command line and its samples, of the cluster or of an archive.
func (f *command) find(ctx context.Context, args []string) (*spatev1.TrafficRun, *samples.Series, error) {
	if f.source.IsSet() {
		return f.source.Read(ctx, &f.cluster, args)
	}
	if len(args) == 0 {
		return nil, nil, errors.New("name a RUN, or a TrafficProfile, of which the latest run is used")
	}
	connection, err := f.cluster.Connect()
	if err != nil {
		return nil, nil, err
	}
	run, err := cluster.FindRun(ctx, connection.Client, connection.Namespace, args[0])
	if err != nil {
		return nil, nil, err
	}
	sampled, err := storage.LoadSamples(ctx, connection.Client, run)
	return run, sampled, err
}

func (f *command) print(c *cobra.Command, run *spatev1.TrafficRun, sampled *samples.Series, labels map[string]string) error {
	var text bytes.Buffer
	if err := samplesexport.WriteOpenMetrics(&text, samplesexport.Of(run, sampled, labels)); err != nil {
		return err
	}
	return files.Put(c.OutOrStdout(), f.file, text.Bytes())
}
