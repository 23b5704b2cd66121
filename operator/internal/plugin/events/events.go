// SPDX-License-Identifier: Apache-2.0

// Package events answers: what has happened to Spate's objects, and to the pods of generators?
package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/output"
)

// kinds of objects that the argument names.
var kinds = []string{cluster.RunKind, cluster.ProfileKind, cluster.GeneratorKind, cluster.SearchKind}

// NewCommand returns `events`.
func NewCommand() *cobra.Command {
	var where cluster.Flags
	var form output.Flag
	var everywhere, follow bool
	c := &cobra.Command{
		Use:   "events [RUN | PROFILE | GENERATOR | SEARCH]",
		Short: "Show events of Spate's objects and of generators' pods",
		Long: `Shows the Kubernetes events of Spate's objects and of generators' pods in a namespace, in the order of their last occurrence. With a name: those
of the objects of that name; with a profile's or a search's, those of its runs, too; and those of the pods that execute these runs, or that are the
generator's. Objects that were deleted are found by their events, which the API server keeps for an hour by default. run/NAME,
profile/NAME, generator/NAME and search/NAME select one of several objects with the same name.

It takes the rights to list and watch events and to list pods in the namespace, which the cluster's ClusterRole view has.`,
		Example: `  kubectl spate events
  kubectl spate events imix --watch
  kubectl spate events lab -n tests -o wide
  kubectl spate events -A -o json | jq '.items[] | select(.type == "Warning") | .message'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: where.Complete(1, cluster.Runs, cluster.Profiles, cluster.Generators, cluster.Searches),
		RunE: func(c *cobra.Command, args []string) error {
			if err := form.Check(); err != nil {
				return err
			}
			if everywhere && len(args) > 0 {
				return errors.New("a name is that of an object of one namespace: omit the name, or -A")
			}
			connection, err := where.Connect()
			if err != nil {
				return err
			}
			s := &scope{reader: connection.Client, namespace: connection.Namespace, note: noteTo(c.ErrOrStderr())}
			if len(args) > 0 {
				of, err := cluster.ParseArgument(args[0], kinds...)
				if err != nil {
					return err
				}
				s.of = &of
			}
			if everywhere {
				s.namespace = ""
			}
			p := newPrinter(c.OutOrStdout(), &form, everywhere)
			version, err := show(c.Context(), s, p, follow)
			if err != nil || !follow {
				return err
			}
			watcher, err := kube.NewWithWatch(connection.Config, kube.Options{Scheme: connection.Client.Scheme()})
			if err != nil {
				return err
			}
			return watchFrom(c.Context(), watcher, s, p, version)
		},
	}
	where.Add(c)
	c.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "of all namespaces")
	c.Flags().BoolVarP(&follow, "watch", "w", false, "after that, print events as they occur, until interrupted")
	form.Add(c)
	return c
}

func noteTo(w io.Writer) func(string) {
	return func(text string) { fmt.Fprintln(w, "note:", text) }
}

// List returns the events of Spate's objects and of generators' pods in a namespace, or in all if that is empty, the oldest first. note is called with
// what could not be read that some of them may be missing without.
func List(ctx context.Context, reader kube.Reader, namespace string, note func(string)) (*corev1.EventList, error) {
	list, _, err := (&scope{reader: reader, namespace: namespace, note: note}).list(ctx)
	return list, err
}

// show prints the events that there are, and returns the version of the list.
func show(ctx context.Context, s *scope, p *printer, follow bool) (version string, err error) {
	list, found, err := s.list(ctx)
	if err != nil {
		return "", err
	}
	if !found {
		return "", fmt.Errorf("%w, and no event of one", s.of.Missing(s.namespace))
	}
	if follow {
		return list.ResourceVersion, p.follow(list.Items)
	}
	return list.ResourceVersion, p.all(list)
}

// watchFrom prints events that occur after a version of the list, until the context ends. When the API server ends a watch, or no longer has the
// version, it lists the events again.
func watchFrom(ctx context.Context, watcher kube.WithWatch, s *scope, p *printer, version string) error {
	for {
		err := once(ctx, watcher, s, p, version)
		if interrupted(ctx) {
			return nil
		}
		if err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
		list, _, err := s.list(ctx)
		if err != nil {
			return err
		}
		version = list.ResourceVersion
		if err := p.follow(list.Items); err != nil {
			return err
		}
	}
}

// interrupted reports whether the user has ended the command, which is no error.
func interrupted(ctx context.Context) bool { return ctx.Err() != nil }

// once prints events of one watch.
func once(ctx context.Context, watcher kube.WithWatch, s *scope, p *printer, version string) error {
	w, err := watcher.Watch(ctx, &corev1.EventList{}, &kube.ListOptions{Namespace: s.namespace, Raw: &metav1.ListOptions{ResourceVersion: version}})
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case change, more := <-w.ResultChan():
			if !more {
				return nil
			}
			if err := s.changed(ctx, p, change); err != nil {
				return err
			}
		}
	}
}

// changed prints an event that has occurred.
func (s *scope) changed(ctx context.Context, p *printer, change watch.Event) error {
	if change.Type == watch.Error {
		return apierrors.FromObject(change.Object)
	}
	event, ok := change.Object.(*corev1.Event)
	if !ok || change.Type != watch.Added && change.Type != watch.Modified {
		return nil
	}
	shown, err := s.shows(ctx, event)
	if err != nil || !shown {
		return err
	}
	return p.follow([]corev1.Event{*event})
}

// lastSeen is when an event occurred for the last time, or began to if it has a series.
func lastSeen(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

func firstSeen(e *corev1.Event) time.Time {
	switch {
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	case !e.FirstTimestamp.IsZero():
		return e.FirstTimestamp.Time
	}
	return e.CreationTimestamp.Time
}

// occurrences is how often it was seen.
func occurrences(e *corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return max(e.Count, 1)
}

func inOrder(all []corev1.Event) {
	slices.SortStableFunc(all, func(a, b corev1.Event) int {
		return cmp.Or(lastSeen(&a).Compare(lastSeen(&b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// seen keeps which version of an event was printed.
type seen map[types.UID]string

// isNew reports whether this version of the event was not printed, and notes that it is.
func (s seen) isNew(e *corev1.Event) bool {
	before, known := s[e.UID]
	s[e.UID] = e.ResourceVersion
	return !known || before != e.ResourceVersion
}
