// SPDX-License-Identifier: Apache-2.0

// Package status answers: what runs now, what waits and why, and which generators and searches are there?
package status

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/progress"
	"spate.dev/operator/internal/runs"
)

// NewCommand returns `status`.
func NewCommand() *cobra.Command {
	var where cluster.Flags
	var form output.Flag
	var everywhere bool
	c := &cobra.Command{
		Use:   "status [GENERATOR | PROFILE ...]",
		Short: "Show what runs, what waits and why, generators and searches",
		Long: `Shows in one screen the active runs with their rates and loss so far; what waits, and the reason that the operator gives; generators with their
pods and ports that are ready; and searches that have not ended. With names: only these generators and profiles, and the runs and searches of them.
Loss is in the measured phase, packets in flight counted as lost. -o wide adds the stage, the rate of connections, the rate factor and the time left of runs, and of
generators the engine's version and whether machines and measurements are free of findings. -o csv has a row for each object: the column row is run, waiting, generator or search.`,
		Example: `  kubectl spate status
  kubectl spate status lab -n tests -o wide
  kubectl spate status -A -o json | jq '.waiting[] | {name, reason}'`,
		ValidArgsFunction: where.Complete(math.MaxInt, cluster.Generators, cluster.Profiles),
		RunE: func(c *cobra.Command, names []string) error {
			if err := form.Check(); err != nil {
				return err
			}
			if everywhere && len(names) > 0 {
				return errors.New("names are those of objects of one namespace: omit the names, or -A")
			}
			connection, err := where.Connect()
			if err != nil {
				return err
			}
			namespace := connection.Namespace
			if everywhere {
				namespace = ""
			}
			all, err := read(c.Context(), connection.Client, namespace)
			if err == nil {
				err = all.keep(names)
			}
			if err != nil {
				return err
			}
			return form.Write(c.OutOrStdout(), all.overview(time.Now()).shown(everywhere))
		},
	}
	where.Add(c)
	c.Flags().BoolVarP(&everywhere, "all-namespaces", "A", false, "of all namespaces")
	form.Add(c)
	return c
}

// objects of a namespace, or of all.
type objects struct {
	runs       []spatev1.TrafficRun
	profiles   []spatev1.TrafficProfile
	generators []spatev1.TrafficGenerator
	searches   []spatev1.TrafficSearch
}

func read(ctx context.Context, reader kube.Reader, namespace string) (*objects, error) {
	var (
		runList    spatev1.TrafficRunList
		profiles   spatev1.TrafficProfileList
		generators spatev1.TrafficGeneratorList
		searches   spatev1.TrafficSearchList
	)
	for _, list := range []kube.ObjectList{&runList, &profiles, &generators, &searches} {
		if err := reader.List(ctx, list, kube.InNamespace(namespace)); err != nil {
			return nil, err
		}
	}
	return &objects{runList.Items, profiles.Items, generators.Items, searches.Items}, nil
}

// keep keeps the generators and profiles of these names, and the runs and searches of them. Without names everything is kept.
func (o *objects) keep(names []string) error {
	if len(names) == 0 {
		return nil
	}
	isNamed := func(name string) bool { return slices.Contains(names, name) }
	for _, name := range names {
		if !slices.ContainsFunc(o.profiles, func(p spatev1.TrafficProfile) bool { return p.Name == name }) &&
			!slices.ContainsFunc(o.generators, func(g spatev1.TrafficGenerator) bool { return g.Name == name }) {
			return fmt.Errorf("there is no TrafficGenerator and no TrafficProfile %q in this namespace", name)
		}
	}
	// The generator of what is named stays, too: it is part of what a profile waits for.
	used := map[string]bool{}
	o.profiles = slices.DeleteFunc(o.profiles, func(p spatev1.TrafficProfile) bool {
		if isNamed(p.Name) {
			used[p.Status.Generator] = true
			return false
		}
		return !isNamed(nameOf(p.Status.Generator))
	})
	o.runs = slices.DeleteFunc(o.runs, func(r spatev1.TrafficRun) bool {
		generator := runs.GeneratorOf(&r)
		if isNamed(cluster.ProfileOf(&r)) {
			used[generator] = true
			return false
		}
		return !isNamed(nameOf(generator))
	})
	o.generators = slices.DeleteFunc(o.generators, func(g spatev1.TrafficGenerator) bool { return !isNamed(g.Name) && !used[g.Namespace+"/"+g.Name] })
	o.searches = slices.DeleteFunc(o.searches, func(s spatev1.TrafficSearch) bool {
		return !slices.ContainsFunc(o.profiles, func(p spatev1.TrafficProfile) bool { return p.Name == string(s.Spec.ProfileRef.Name) })
	})
	return nil
}

// nameOf an object that is given as `namespace/name`.
func nameOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// overview is what is shown.
type overview struct {
	Runs       []activeRun `json:"runs"`
	Waiting    []waiting   `json:"waiting"`
	Generators []generator `json:"generators"`
	Searches   []search    `json:"searches"`
}

// activeRun is a run that uses its generator.
type activeRun struct {
	Namespace string                `json:"namespace"`
	Name      string                `json:"name"`
	Profile   string                `json:"profile"`
	Generator string                `json:"generator"`
	Phase     spatev1.RunPhase      `json:"phase"`
	Paused    bool                  `json:"paused,omitempty"`
	Elapsed   string                `json:"elapsed,omitempty"`
	Factor    string                `json:"rateFactor,omitempty"`
	Progress  *spatev1.RunProgress  `json:"progress,omitempty"`
	LostPods  []spatev1.LostPod     `json:"lostPods,omitempty"`
	Entries   []spatev1.EntryChange `json:"entries,omitempty"`
}

// waiting is an object that is not ready, and why.
type waiting struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Reason    string `json:"reason"`
	Message   string `json:"message,omitempty"`
}

// generator is a generator's pods and ports.
type generator struct {
	Namespace     string   `json:"namespace"`
	Name          string   `json:"name"`
	ReadyPods     int32    `json:"readyPods"`
	Pods          int32    `json:"pods"`
	ReadyPorts    int      `json:"readyPorts"`
	Ports         int      `json:"ports"`
	Down          []string `json:"portsDown,omitempty"`
	Runs          []string `json:"runs,omitempty"`
	Ready         string   `json:"ready"`
	Reason        string   `json:"reason,omitempty"`
	Measurement   string   `json:"measurementReady"`
	Machine       string   `json:"machineReady"`
	EngineVersion string   `json:"engineVersion,omitempty"`
}

// search is a search that has not ended.
type search struct {
	Namespace string              `json:"namespace"`
	Name      string              `json:"name"`
	Profile   string              `json:"profile"`
	Phase     spatev1.SearchPhase `json:"phase"`
	Progress  string              `json:"progress,omitempty"`
}

// overview returns what is shown of the objects: runs by age, other objects by name.
func (o *objects) overview(now time.Time) *overview {
	all := &overview{Runs: []activeRun{}, Waiting: []waiting{}, Generators: []generator{}, Searches: []search{}}
	slices.SortStableFunc(o.runs, func(a, b spatev1.TrafficRun) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	executed := map[kube.ObjectKey]bool{} // profiles with an active run, which has their reason
	for i := range o.runs {
		r := &o.runs[i]
		if !runs.Active(r) {
			continue
		}
		if ref := r.Spec.ProfileRef; ref != nil {
			executed[kube.ObjectKey{Namespace: r.Namespace, Name: string(ref.Name)}] = true
		}
		if r.Status.Resolved == nil {
			if !all.wait(r, "TrafficRun", r.Status.Conditions) {
				all.Waiting = append(all.Waiting, waiting{r.Namespace, "TrafficRun", r.Name, spatev1.ReasonProgressing, "the operator has not reconciled it yet"})
			}
			continue
		}
		all.Runs = append(all.Runs, activeRun{
			Namespace: r.Namespace, Name: r.Name, Profile: cluster.ProfileOf(r), Generator: runs.GeneratorOf(r), Phase: r.Status.Phase, Paused: r.Status.Paused,
			Elapsed: progress.Elapsed(r, now), Factor: r.Status.RateFactor, Progress: r.Status.Progress, LostPods: r.Status.LostPods, Entries: r.Status.Entries,
		})
	}
	for i := range o.profiles {
		if p := &o.profiles[i]; !executed[kube.ObjectKeyFromObject(p)] {
			all.wait(p, "TrafficProfile", p.Status.Conditions)
		}
	}
	for i := range o.generators {
		g := &o.generators[i]
		all.wait(g, "TrafficGenerator", g.Status.Conditions)
		all.Generators = append(all.Generators, generatorOf(g))
	}
	for i := range o.searches {
		s := &o.searches[i]
		if s.Status.Phase == spatev1.SearchComplete {
			continue
		}
		if s.Status.Phase != spatev1.SearchSearching {
			all.wait(s, "TrafficSearch", s.Status.Conditions)
		}
		all.Searches = append(all.Searches, search{s.Namespace, s.Name, string(s.Spec.ProfileRef.Name), s.Status.Phase, s.Status.Progress})
	}
	return all
}

// wait adds an object whose condition Ready is not True. What a user has suspended waits for nothing.
func (o *overview) wait(object kube.Object, kind string, conditions []metav1.Condition) (waits bool) {
	reason, message := progress.Waiting(conditions)
	if reason == "" || reason == spatev1.ReasonSuspended {
		return false
	}
	o.Waiting = append(o.Waiting, waiting{object.GetNamespace(), kind, object.GetName(), reason, message})
	return true
}

func generatorOf(g *spatev1.TrafficGenerator) generator {
	status := &g.Status
	is := func(kind string) string {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
			return string(c.Status)
		}
		return string(metav1.ConditionUnknown)
	}
	reason, _ := progress.Waiting(status.Conditions)
	all := generator{
		Namespace: g.Namespace, Name: g.Name, ReadyPods: status.ReadyReplicas, Pods: g.Spec.Replicas, Ports: int(g.Spec.Replicas) * len(g.Spec.Ports), Runs: status.Runs,
		Ready: is(spatev1.ConditionReady), Reason: reason, Measurement: is(spatev1.ConditionMeasurementReady), Machine: is(spatev1.ConditionMachineReady), EngineVersion: status.EngineVersion,
	}
	for _, pod := range status.Pods {
		for _, port := range pod.Ports {
			if port.LinkUp {
				all.ReadyPorts++
			} else {
				all.Down = append(all.Down, pod.Name+"/"+port.Name)
			}
		}
	}
	return all
}
