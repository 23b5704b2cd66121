// SPDX-License-Identifier: Apache-2.0

// Package records answers: which connections of a run end now?
package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/live"
)

// awaitInterval is the interval at which a run that has not started is polled, or looked for.
const awaitInterval = 500 * time.Millisecond

// NewCommand returns `records`.
func NewCommand() *cobra.Command {
	var flags cluster.Flags
	var only string
	c := &cobra.Command{
		Use:   "records RUN",
		Short: "Print records of a run's connections as they end",
		Long: `Prints records of a run's connections as they end, from now until the run has ended: JSON Lines, an object for each end of each connection
with the pod and the columns of docs/reference/records.md. Times are in nanoseconds since the epoch; what is not known is null. It waits for a
run that has not started. RUN may be the name of a TrafficProfile: its latest run is used then. If it has none, the command waits for the first.

The run's profile must have spec.records; {} is enough. A reader that is slower than the run misses records: their number is printed at the end on standard error, by pod.

It takes the ClusterRole spate-records-reader in the run's namespace, bound by a RoleBinding; no right to pods.`,
		Example: `  kubectl spate records web
  kubectl spate records web -n tests | jq -c 'select(.end_reason != "closed") | [.pod, .local_address, .end_reason]'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: flags.Complete(1, cluster.Runs, cluster.Profiles),
		RunE: func(c *cobra.Command, args []string) error {
			connection, err := flags.Connect()
			if err != nil {
				return err
			}
			run, err := awaited(c.Context(), connection.Client, connection.Namespace, args[0], c.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := awaitStart(c.Context(), connection.Client, run, c.ErrOrStderr()); err != nil {
				return err
			}
			pods, err := podsOf(run, only)
			if err != nil {
				return err
			}
			return records(c.Context(), connection, run, pods, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags.Add(c)
	c.Flags().StringVar(&only, "pod", "", "an engine pod of the run; all of them when absent")
	flags.CompleteFlag(c, "pod", cluster.RunKind, cluster.Pods)
	return c
}

// podsOf returns a run's engine pods, or the only one that is selected.
func podsOf(run *spatev1.TrafficRun, only string) ([]string, error) {
	var pods []string
	if run.Status.Resolved == nil {
		return nil, fmt.Errorf("run %s has no engine pods yet: it waits for its generator", run.Name)
	}
	for _, pod := range run.Status.Resolved.Generator.Pods {
		pods = append(pods, pod.Name)
	}
	switch {
	case only == "":
		return pods, nil
	case !slices.Contains(pods, only):
		return nil, fmt.Errorf("--pod %s: must be one of %s, which execute run %s", only, strings.Join(pods, ", "), run.Name)
	}
	return []string{only}, nil
}

// awaited returns the run of a name or of a profile. If the profile has no run, it waits for the first.
func awaited(ctx context.Context, reader kube.Reader, namespace, name string, progress io.Writer) (*spatev1.TrafficRun, error) {
	for waits := false; ; waits = true {
		run, err := cluster.FindRun(ctx, reader, namespace, name)
		if none := (cluster.NoRunError{}); !errors.As(err, &none) {
			return run, err
		}
		if reader.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: name}, &spatev1.TrafficProfile{}) != nil {
			return nil, err
		}
		if !waits {
			fmt.Fprintf(progress, "profile %s has no run: waiting for one; kubectl get tp %s -n %s shows why there is none\n", name, name, namespace)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(awaitInterval):
		}
	}
}

// awaitStart waits until engines know a run, and updates it; a run that has ended is an error.
func awaitStart(ctx context.Context, reader kube.Reader, run *spatev1.TrafficRun, progress io.Writer) error {
	for waits := false; ; waits = true {
		switch run.Status.Phase {
		case spatev1.RunComplete:
			return hasEnded(run)
		case spatev1.RunWarmingUp, spatev1.RunRunning, spatev1.RunDraining:
			return nil
		}
		if !waits {
			fmt.Fprintf(progress, "run %s has not started: waiting for it\n", run.Name)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("run %s has not started", run.Name)
		case <-time.After(awaitInterval):
		}
		if err := reader.Get(ctx, kube.ObjectKeyFromObject(run), run); err != nil {
			return err
		}
	}
}

func hasEnded(run *spatev1.TrafficRun) error {
	if run.Status.Result == nil || run.Status.Result.Records == nil {
		return fmt.Errorf("run %s has ended, and connections were not recorded; give its profile %s spec.records: {} and run it again", run.Name, cluster.ProfileOf(run))
	}
	var files []string
	live := true
	for _, pod := range run.Status.Result.Records.Pods {
		live = live && pod.File == ""
		if pod.Problem == "" {
			files = append(files, pod.File)
		}
	}
	if live {
		return fmt.Errorf("run %s has ended, and its records were available only while it was active; run it again, or give its profile %s spec.records.volume, which keeps them",
			run.Name, cluster.ProfileOf(run))
	}
	return fmt.Errorf("run %s has ended, and records are streamed only while it is active; files with them on the generator's volume: %s; see kubectl spate result %s",
		run.Name, cmp.Or(strings.Join(files, ", "), "none"), run.Name)
}

// records prints a run's records by pod until the run ends or the context does.
func records(ctx context.Context, connection *cluster.Connection, run *spatev1.TrafficRun, pods []string, to, progress io.Writer) error {
	object := &spatev1.TrafficRecordsReader{Spec: spatev1.TrafficRecordsReaderSpec{RunRef: spatev1.LocalReference{Name: spatev1.ObjectName(run.Name)}}}
	r, err := live.Open(ctx, connection, object, "spate-records-reader", progress)
	if err != nil {
		return err
	}
	defer r.Close()
	ctx, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	printed := make([]recordsPrinter, len(pods))
	failed := make([]error, len(pods))
	lock := &sync.Mutex{}
	for i, pod := range pods {
		printed[i] = recordsPrinter{pod: pod, lock: lock, to: to, progress: progress}
		request := &livev1.WatchRecordsRequest{Namespace: object.Namespace, Name: object.Name, Pod: pod}
		all.Go(func() {
			failed[i] = live.Follow(ctx, r, progress, func(ctx context.Context) (grpc.ServerStreamingClient[livev1.WatchRecordsResponse], error) {
				printed[i].missed.Opened()
				return r.Calls.WatchRecords(ctx, request)
			}, func(answer *livev1.WatchRecordsResponse) error { return printed[i].print(answer.Engine) })
			if live.IsEnough(failed[i]) {
				failed[i] = nil
				end()
			}
		})
	}
	all.Wait()
	for i := range printed {
		fmt.Fprintf(progress, "%s: %d records, %d missed\n", printed[i].pod, printed[i].records, printed[i].missed.All)
	}
	return errors.Join(failed...)
}
