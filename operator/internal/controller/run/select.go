// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: which runs does a generator or a profile have, and which of them are under way?

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
	byGenerator = "spec.generator"
	byProfile   = "spec.profile.name"
)

// Index registers the indexes the selections below need.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &spatev1.TrafficRun{}, byGenerator, func(o client.Object) []string {
		g := o.(*spatev1.TrafficRun).Spec.Generator
		return []string{g.Namespace + "/" + string(g.Name)}
	})
	if err != nil {
		return err
	}
	return indexer.IndexField(ctx, &spatev1.TrafficRun{}, byProfile, func(o client.Object) []string {
		return []string{string(o.(*spatev1.TrafficRun).Spec.Profile.Name)}
	})
}

// Active tells whether a run holds its generator.
func Active(run *spatev1.TrafficRun) bool { return run.Status.Phase != spatev1.RunComplete }

// Ended tells whether an engine does nothing more for a run in this state.
func Ended(state enginev1.RunState) bool {
	return state == enginev1.RunState_RUN_STATE_COMPLETE || state == enginev1.RunState_RUN_STATE_STOPPED
}

// On gives all runs of a generator.
func On(ctx context.Context, c client.Reader, g *spatev1.TrafficGenerator) ([]spatev1.TrafficRun, error) {
	var list spatev1.TrafficRunList
	err := c.List(ctx, &list, client.MatchingFields{byGenerator: g.Namespace + "/" + g.Name})
	return list.Items, err
}

// ActiveOn gives the runs that hold a generator, by name.
func ActiveOn(ctx context.Context, c client.Reader, g *spatev1.TrafficGenerator) ([]spatev1.TrafficRun, error) {
	all, err := On(ctx, c, g)
	return slices.DeleteFunc(all, func(r spatev1.TrafficRun) bool { return !Active(&r) }), err
}

// OfProfile gives all runs of a profile, the oldest first.
func OfProfile(ctx context.Context, c client.Reader, p *spatev1.TrafficProfile) ([]spatev1.TrafficRun, error) {
	var list spatev1.TrafficRunList
	err := c.List(ctx, &list, client.InNamespace(p.Namespace), client.MatchingFields{byProfile: p.Name})
	own := slices.DeleteFunc(list.Items, func(r spatev1.TrafficRun) bool { return r.Spec.Profile.UID != p.UID })
	slices.SortFunc(own, func(a, b spatev1.TrafficRun) int { return Number(a.Name) - Number(b.Name) })
	return own, err
}

// Names of runs with their namespaces, sorted.
func Names(runs []spatev1.TrafficRun) []string {
	var names []string
	for i := range runs {
		names = append(names, runs[i].Namespace+"/"+runs[i].Name)
	}
	slices.Sort(names)
	return names
}

// Number of a run among its profile's: the end of its name.
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

// Without leaves one run out.
func Without(runs []spatev1.TrafficRun, uid types.UID) []spatev1.TrafficRun {
	return slices.DeleteFunc(slices.Clone(runs), func(r spatev1.TrafficRun) bool { return r.UID == uid })
}
