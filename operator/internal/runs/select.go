// SPDX-License-Identifier: Apache-2.0

// Package runs has what the controllers share about TrafficRuns: which runs a generator or a profile has, which of them
// are active, who started them, and which of their changes matter to others.
package runs

// This file answers: which runs does a generator or a profile have, and which of them are active?

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// Indexes of runs in the cache.
const (
	byGenerator = "generator"
	byProfile   = "profile"
	byLine      = "line"
	byBaseline  = "baseline"
)

// Index registers the indexes that the selections below need.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &spatev1.TrafficRun{}, byGenerator, func(o client.Object) []string {
		return []string{GeneratorOf(o.(*spatev1.TrafficRun))}
	})
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &spatev1.TrafficRun{}, byLine, func(o client.Object) []string {
		if run := o.(*spatev1.TrafficRun); InLine(run) {
			return []string{GeneratorOf(run)}
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &spatev1.TrafficRun{}, byBaseline, func(o client.Object) []string {
		if run := o.(*spatev1.TrafficRun); run.Spec.BaselineRef != nil && run.Status.Resolved == nil && Active(run) {
			return []string{string(run.Spec.BaselineRef.Name)}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return indexer.IndexField(ctx, &spatev1.TrafficRun{}, byProfile, func(o client.Object) []string {
		if ref := o.(*spatev1.TrafficRun).Spec.ProfileRef; ref != nil {
			return []string{string(ref.Name)}
		}
		return nil
	})
}

// GeneratorOf returns a run's generator as `namespace/name`: the one it was admitted to, or the one it waits for.
func GeneratorOf(run *spatev1.TrafficRun) string {
	if r := run.Status.Resolved; r != nil {
		return r.Generator.Namespace + "/" + string(r.Generator.Name)
	}
	return run.Status.Generator
}

// GeneratorKey returns the key of a run's generator; known is false if the run has none yet.
func GeneratorKey(run *spatev1.TrafficRun) (key client.ObjectKey, known bool) {
	key.Namespace, key.Name, known = strings.Cut(GeneratorOf(run), "/")
	return key, known
}

// Active reports whether a run has not ended.
func Active(run *spatev1.TrafficRun) bool { return run.Status.Phase != spatev1.RunComplete }

// Admitted reports whether an active run has been admitted to its generator: it uses ports, marks and a share of the
// line rate.
func Admitted(run *spatev1.TrafficRun) bool { return Active(run) && run.Status.Resolved != nil }

// HasLost reports whether a run goes on without a pod that it was admitted to.
func HasLost(run *spatev1.TrafficRun, pod string) bool {
	return slices.ContainsFunc(run.Status.LostPods, func(l spatev1.LostPod) bool { return l.Name == pod })
}

// Ended reports whether an engine does nothing more for a run in this state.
func Ended(state enginev1.RunState) bool {
	return state == enginev1.RunState_RUN_STATE_COMPLETE || state == enginev1.RunState_RUN_STATE_STOPPED
}

// On returns all runs of a generator, including those that wait for it.
func On(ctx context.Context, c client.Reader, g *spatev1.TrafficGenerator) ([]spatev1.TrafficRun, error) {
	var list spatev1.TrafficRunList
	err := c.List(ctx, &list, client.MatchingFields{byGenerator: g.Namespace + "/" + g.Name})
	return list.Items, err
}

// ActiveOn returns the runs that have been admitted to a generator and have not ended.
func ActiveOn(ctx context.Context, c client.Reader, g *spatev1.TrafficGenerator) ([]spatev1.TrafficRun, error) {
	all, err := On(ctx, c, g)
	return slices.DeleteFunc(all, func(r spatev1.TrafficRun) bool { return !Admitted(&r) }), err
}

// OfProfile returns all runs of a profile, the oldest first: those it started, and those that users created for it.
func OfProfile(ctx context.Context, c client.Reader, p *spatev1.TrafficProfile) ([]spatev1.TrafficRun, error) {
	var list spatev1.TrafficRunList
	err := c.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{byProfile: p.Name})
	own := slices.DeleteFunc(list.Items, func(r spatev1.TrafficRun) bool { return !isOf(&r, p) })
	slices.SortFunc(own, byAge)
	return own, err
}

// AwaitingBaseline returns the runs that have not been admitted and are compared with a run.
func AwaitingBaseline(ctx context.Context, c client.Reader, baseline client.ObjectKey) ([]spatev1.TrafficRun, error) {
	var list spatev1.TrafficRunList
	err := c.List(ctx, &list, client.InNamespace(baseline.Namespace), client.MatchingFields{byBaseline: baseline.Name})
	return list.Items, err
}

// isOf reports whether a run is of this profile, not of an earlier one of the same name.
func isOf(run *spatev1.TrafficRun, p *spatev1.TrafficProfile) bool {
	if r := run.Status.Resolved; r != nil {
		return r.Profile.UID == p.UID
	}
	starter := Starter(run)
	return starter == nil || starter.UID == p.UID
}

// Names returns the runs' names with their namespaces, sorted.
func Names(runs []spatev1.TrafficRun) []string {
	var names []string
	for i := range runs {
		names = append(names, runs[i].Namespace+"/"+runs[i].Name)
	}
	slices.Sort(names)
	return names
}

// Number returns a run's number among its profile's runs, from the end of its name.
func Number(name string) int {
	number := 0
	for _, digit := range name[strings.LastIndexByte(name, '-')+1:] {
		if digit < '0' || digit > '9' {
			return 0
		}
		number = number*10 + int(digit-'0')
	}
	return number
}

// Without returns the runs except one.
func Without(runs []spatev1.TrafficRun, uid types.UID) []spatev1.TrafficRun {
	return slices.DeleteFunc(slices.Clone(runs), func(r spatev1.TrafficRun) bool { return r.UID == uid })
}

// uidDigits is the number of digits of a run's UID in its ID.
const uidDigits = 8

// ID returns a run's ID in engines: it differs for runs of the same name in other namespaces, or created later.
func ID(run *spatev1.TrafficRun) string {
	return run.Name + "-" + string(run.UID)[:min(uidDigits, len(run.UID))]
}

// NameOf returns the name of the run with an ID.
func NameOf(id string) string { return id[:max(len(id)-uidDigits-1, 0)] }
