// SPDX-License-Identifier: Apache-2.0

// Package clients answers: which emulated clients does a run have, and how is each of them?
package clients

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/live"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/verdict"
)

// options are what the command's flags select.
type options struct {
	group, pod string
	states     []string
	limit      uint32
}

// NewCommand returns `clients`.
func NewCommand() *cobra.Command {
	var where cluster.Flags
	var form output.Flag
	var o options
	c := &cobra.Command{
		Use:   "clients RUN",
		Short: "List the emulated clients of an active run",
		Long: `Lists the emulated clients of a run (spec.clients of its profile) in the order of their numbers, as they are now: MAC, VLANs, addresses, DHCP server,
the rest of the lease, state, and why a client has failed. RUN may be the name of a TrafficProfile: its latest run is used then. Clients are there from when
the run is prepared until it has ended.

Fields that are not known are empty. --limit 0 lists all, which may be a million.`,
		Example: `  kubectl spate clients subscribers-1 --state Failed
  kubectl spate clients subscribers --limit 0 -o csv
  kubectl spate clients subscribers -o json | jq '.clients[] | select(.ipv4.address == "10.98.0.17")'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: where.Complete(1, cluster.Runs, cluster.Profiles),
		RunE: func(c *cobra.Command, args []string) error {
			if err := errors.Join(form.Check(), o.check()); err != nil {
				return err
			}
			connection, err := where.Connect()
			if err != nil {
				return err
			}
			run, err := cluster.FindRun(c.Context(), connection.Client, connection.Namespace, args[0])
			if err != nil {
				return err
			}
			pods, err := o.pods(run)
			if err != nil {
				return err
			}
			all, err := list(c.Context(), connection, run, pods, o, c.ErrOrStderr())
			if err != nil {
				return err
			}
			return form.Write(c.OutOrStdout(), shown(run, all))
		},
	}
	where.Add(c)
	form.Add(c)
	c.Flags().StringVar(&o.group, "clients", "", "an entry of the profile's clients; all of them when absent")
	c.Flags().StringSliceVar(&o.states, "state", nil, "only clients in one of these states: Idle, Discovering, Requesting, Rebinding, Renewing, Bound, Released, Failed")
	c.Flags().Uint32Var(&o.limit, "limit", 20, "clients at most; 0 for all")
	c.Flags().StringVar(&o.pod, "pod", "", "an engine pod of the run; all of them when absent")
	where.CompleteFlag(c, "pod", cluster.RunKind, cluster.Pods)
	return c
}

func (o *options) check() error {
	for _, state := range o.states {
		if !slices.Contains(verdict.ClientStates, state) {
			return fmt.Errorf("--state %s: must be one of %v", state, verdict.ClientStates)
		}
	}
	return nil
}

// pods returns those whose clients are listed.
func (o *options) pods(run *spatev1.TrafficRun) ([]string, error) {
	resolved := run.Status.Resolved
	if resolved == nil {
		return nil, fmt.Errorf("run %s has no engine pods yet: it waits for its generator", run.Name)
	}
	if len(resolved.Clients) == 0 {
		return nil, fmt.Errorf("run %s has no clients; set spec.clients of its profile %s", run.Name, cluster.ProfileOf(run))
	}
	if known := func(c spatev1.ClientsSnapshot) bool { return string(c.Name) == o.group }; o.group != "" && !slices.ContainsFunc(resolved.Clients, known) {
		return nil, fmt.Errorf("--clients %s: must be one of %v, the entries of run %s", o.group, names(resolved.Clients), run.Name)
	}
	var pods []string
	for _, pod := range resolved.Generator.Pods {
		if o.pod == "" || o.pod == pod.Name {
			pods = append(pods, pod.Name)
		}
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("--pod %s: is no pod that executes run %s", o.pod, run.Name)
	}
	return pods, nil
}

func names(clients []spatev1.ClientsSnapshot) (all []spatev1.EntryName) {
	for _, c := range clients {
		all = append(all, c.Name)
	}
	return all
}

// list reads the clients of all pods, in the order of the run's entries and of numbers.
func list(ctx context.Context, connection *cluster.Connection, run *spatev1.TrafficRun, pods []string, o options, progress io.Writer) ([]listed, error) {
	object := &spatev1.TrafficStatsReader{Spec: spatev1.TrafficStatsReaderSpec{RunRef: spatev1.LocalReference{Name: spatev1.ObjectName(run.Name)}}}
	r, err := live.Open(ctx, connection, object, "spate-viewer", progress)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	found, failed := make([][]listed, len(pods)), make([]error, len(pods))
	var all sync.WaitGroup
	for i, pod := range pods {
		request := &livev1.ListClientsRequest{Namespace: object.Namespace, Name: object.Name, Pod: pod, Clients: o.group, States: o.states, Limit: o.limit}
		all.Go(func() {
			failed[i] = live.Follow(ctx, r, progress, func(ctx context.Context) (grpc.ServerStreamingClient[livev1.ListClientsResponse], error) {
				found[i] = nil // from the beginning, if another replica has taken over
				return r.Calls.ListClients(ctx, request)
			}, func(answer *livev1.ListClientsResponse) error {
				for _, c := range answer.GetEngine().GetClients() {
					found[i] = append(found[i], listedOf(pod, c))
				}
				return nil
			})
		})
	}
	all.Wait()
	return sorted(slices.Concat(found...), names(run.Status.Resolved.Clients), o.limit), errors.Join(failed...)
}

// sorted returns the first clients of all pods, at most a limit unless that is 0.
func sorted(all []listed, order []spatev1.EntryName, limit uint32) []listed {
	slices.SortFunc(all, func(a, b listed) int {
		return cmp.Or(cmp.Compare(slices.Index(order, spatev1.EntryName(a.Clients)), slices.Index(order, spatev1.EntryName(b.Clients))), cmp.Compare(a.Number, b.Number))
	})
	if limit > 0 && len(all) > int(limit) {
		all = all[:limit]
	}
	return all
}
