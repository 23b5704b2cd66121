// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: do engines have runs without an active TrafficRun, and how are those ended?

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/podspec"
	"spate.dev/operator/internal/runs"
)

// unscrapedLimit is how long the counters of a run that has ended, and whose TrafficRun no longer exists, wait for a last scrape.
const unscrapedLimit = 30 * time.Second

// orphan is a run on an engine whose TrafficRun has ended, no longer exists or goes on without the engine's pod: the engine was unreachable
// when the run was to be stopped.
type orphan struct {
	pod   *corev1.Pod
	state enginev1.RunState
	id    string
	// gone is true if the TrafficRun no longer exists, lost if it has lost the pod.
	gone, lost bool
	// doubt is why a TrafficRun that was not found may exist all the same: such a run is not stopped.
	doubt error
}

func (o orphan) message() string {
	why := "has ended"
	switch {
	case o.doubt != nil:
		why = fmt.Sprintf("may exist in a namespace that the operator cannot read (%s): create the operator's Role there, or, if it no longer exists, take it out of the watched namespaces",
			strings.ReplaceAll(o.doubt.Error(), "\n", "; "))
	case o.gone:
		why = "no longer exists"
	case o.lost:
		why = "goes on without this pod, which did not answer"
	}
	return fmt.Sprintf("pod %s: the engine still executes run %s, whose TrafficRun %s", o.pod.Name, o.id, why)
}

// engineReports are the answers of a generator's engines.
type engineReports struct {
	answers map[string]answer
	// orphaned are the runs that are being stopped.
	orphaned []problem
	// unscraped is true if ended runs wait for the last scrape of their counters.
	unscraped bool
	// devices are the problems with the devices of resource claims, by pod.
	devices map[string]*problem
}

// queryEngines queries the engines of all pods, and stops orphaned runs on them.
func (r *Reconciler) queryEngines(ctx context.Context, g *spatev1.TrafficGenerator, pods []*corev1.Pod) (engineReports, error) {
	answers := r.query(ctx, pods)
	orphans, err := r.orphans(ctx, g, pods, answers)
	if err != nil {
		return engineReports{}, err
	}
	orphaned, unscraped := r.dismiss(ctx, g, orphans, answers)
	return engineReports{answers: answers, orphaned: orphaned, unscraped: unscraped}, nil
}

// orphans finds the orphaned runs in the engines' answers. TrafficRuns are listed after the engines have answered: the cache has a run
// before any engine receives it.
func (r *Reconciler) orphans(ctx context.Context, g *spatev1.TrafficGenerator, pods []*corev1.Pod, answers map[string]answer) ([]orphan, error) {
	var found []orphan
	var known map[string]*spatev1.TrafficRun // by ID
	for _, pod := range pods {
		for _, run := range answers[pod.Name].info.GetRuns() {
			if known == nil {
				var err error
				if known, err = r.runsOn(ctx, g); err != nil {
					return nil, err
				}
			}
			of, has := known[run.RunId]
			lost := has && runs.HasLost(of, pod.Name)
			if !has || (lost || !runs.Active(of)) && !runs.Ended(run.State) {
				found = append(found, orphan{pod: pod, state: run.State, id: run.RunId, gone: !has, lost: lost})
			}
		}
	}
	there, doubts := map[string]bool{}, map[string]error{}
	for i := range found {
		o := &found[i]
		if _, asked := there[o.id]; o.gone && !asked {
			var err error
			if there[o.id], err = r.exists(ctx, g, o.id); err != nil && !apierrors.IsForbidden(err) {
				return nil, err
			}
			doubts[o.id] = err
		}
		o.doubt = doubts[o.id]
	}
	return slices.DeleteFunc(found, func(o orphan) bool { return o.gone && there[o.id] }), nil
}

// runsOn returns the runs of a generator that have been admitted, by ID.
func (r *Reconciler) runsOn(ctx context.Context, g *spatev1.TrafficGenerator) (map[string]*spatev1.TrafficRun, error) {
	all, err := runs.On(ctx, r.Client, g)
	byID := map[string]*spatev1.TrafficRun{}
	for i := range all {
		if resolved := all[i].Status.Resolved; resolved != nil {
			byID[resolved.RunID] = &all[i]
		}
	}
	return byID, err
}

// exists reports whether the API server has a run of that ID now, in any watched namespace: one that is not in the cache may have been started
// by another operator, which has just become the leader. The error is Forbidden if the run was not found, and may be in a namespace that cannot be
// listed. Whether such a namespace exists is not known, as the right to get it is in the same Role. It does not matter to a generator for its own
// namespace alone, on which no run of another may go on.
func (r *Reconciler) exists(ctx context.Context, g *spatev1.TrafficGenerator, id string) (bool, error) {
	namespaces := r.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	shared := slices.Contains([]spatev1.NamespaceSource{spatev1.NamespacesAll, spatev1.NamespacesSelector}, g.Spec.AllowedNamespaces.From)
	var forbidden []error
	for _, namespace := range namespaces {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(spatev1.GroupVersion.WithKind("TrafficRunList"))
		err := r.Live.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{metav1.ObjectNameField: runs.NameOf(id)})
		switch {
		case apierrors.IsForbidden(err):
			if shared || namespace == g.Namespace || namespace == metav1.NamespaceAll {
				forbidden = append(forbidden, err)
			}
		case err != nil:
			return false, err
		case slices.ContainsFunc(list.Items, func(run metav1.PartialObjectMetadata) bool {
			return runs.ID(&spatev1.TrafficRun{ObjectMeta: run.ObjectMeta}) == id
		}):
			return true, nil
		}
	}
	return false, errors.Join(forbidden...)
}

// dismiss stops the orphans, removes ended ones from their engines, and returns what the generator waits for: while an orphan may send,
// no other run can be measured. Ended orphans may wait for their last scrape.
func (r *Reconciler) dismiss(ctx context.Context, g *spatev1.TrafficGenerator, orphans []orphan, answers map[string]answer) (waiting []problem, unscraped bool) {
	seen := map[string]time.Time{}
	for _, o := range orphans {
		if o.doubt != nil {
			if !runs.Ended(o.state) {
				waiting = append(waiting, problem{spatev1.ReasonOrphanedRun, o.message()})
			}
			continue
		}
		c, err := r.Engines.Client(ctx, podspec.EngineOf(o.pod))
		switch {
		case err != nil:
		case runs.Ended(o.state):
			key := string(o.pod.UID) + "/" + o.id
			if seen[key] = r.orphanSince(g, key); answers[o.pod.Name].info.FinalCountersScraped || time.Since(seen[key]) > unscrapedLimit {
				if err = c.Remove(ctx, o.id); err == nil {
					delete(seen, key)
				}
			}
		case o.state == enginev1.RunState_RUN_STATE_PREPARED:
			err = c.Remove(ctx, o.id) // nothing was sent
		case o.state != enginev1.RunState_RUN_STATE_DRAINING:
			if _, err = c.Stop(ctx, o.id, "the run has no active TrafficRun"); err == nil {
				r.Events.Eventf(g, o.pod, corev1.EventTypeWarning, spatev1.ReasonOrphanedRun, "Stop", "%s: stopped", o.message())
			}
		}
		if !runs.Ended(o.state) || err != nil {
			t := problem{spatev1.ReasonOrphanedRun, o.message() + "; it is being stopped"}
			if err != nil {
				t.message = fmt.Sprintf("%s, and cannot be stopped: %v", o.message(), err)
			}
			waiting = append(waiting, t)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unscraped[g.UID] = seen
	return waiting, len(seen) > 0
}

// orphanSince is when a run that has ended was first found to have no TrafficRun.
func (r *Reconciler) orphanSince(g *spatev1.TrafficGenerator, key string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since, known := r.unscraped[g.UID][key]; known {
		return since
	}
	return time.Now()
}
