// SPDX-License-Identifier: Apache-2.0

package logs

// This file answers: which object does the argument name, and which pods have its logs?

import (
	"context"
	"fmt"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/podspec"
)

// afterEnd is how long after the end of a run engines may log about it.
const afterEnd = 5 * time.Second

// target is a run or a generator.
type target struct {
	title string
	// namespace of the engine pods.
	namespace string
	// from and until bound the lines of a run; zero where there is no bound.
	from, until time.Time
	// look reads which pods there are now.
	look func(context.Context) (present, error)
	// isOwn keeps the lines of engines that do not name another run; nil keeps all.
	isOwn func(text string) bool
	// words are those that a line about the target has: its name and its namespace.
	words []*regexp.Regexp
}

// present is what there is at one time.
type present struct {
	pods []string
	// routed are those of the pods that have a container for routing.
	routed []string
	// ended is true when no more is to come.
	ended bool
}

// runField is the field of an engine's line that has the ID of a run, in the log formats text and json.
var runField = regexp.MustCompile(`\brun(?:=|":)"?([^" ,}]+)`)

// isMentioned reports whether a line is about the target.
func (t *target) isMentioned(text string) bool {
	for _, word := range t.words {
		if !word.MatchString(text) {
			return false
		}
	}
	return true
}

// wordsOf match a name and a namespace as whole names, in JSON as in text.
func wordsOf(names ...string) (all []*regexp.Regexp) {
	for _, name := range names {
		all = append(all, regexp.MustCompile(`(^|[^A-Za-z0-9.-])`+regexp.QuoteMeta(name)+`($|[^A-Za-z0-9.-]|[.-]($|[^A-Za-z0-9]))`))
	}
	return all
}

// find returns the run of a name, or the latest of a profile, or else the generator.
func find(ctx context.Context, reader kube.Reader, namespace, argument string, note func(string, ...any)) (*target, error) {
	s, err := cluster.Find(ctx, reader, namespace, argument)
	if err != nil {
		return nil, err
	}
	if s.Generator != nil {
		return ofGenerator(reader, s.Generator), nil
	}
	if s.Name == argument {
		if _, err := cluster.Find(ctx, reader, namespace, "generator/"+argument); err == nil {
			note("%s is also the name of a TrafficGenerator: kubectl spate logs generator/%s", argument, argument)
		}
	}
	if s.Run == nil {
		return nil, fmt.Errorf("TrafficProfile %s has no run; see kubectl spate events %s", s.Name, s.Name)
	}
	return ofRun(reader, s.Run)
}

func ofRun(reader kube.Reader, run *spatev1.TrafficRun) (*target, error) {
	if run.Status.Resolved == nil {
		return nil, fmt.Errorf("run %s has no engine pods: it waits for its generator, or was refused; see kubectl spate events %s", run.Name, run.Name)
	}
	t := &target{title: "run " + run.Name, namespace: run.Status.Resolved.Generator.Namespace, from: run.CreationTimestamp.Time, words: wordsOf(run.Name, run.Namespace)}
	t.isOwn = func(text string) bool {
		named := runField.FindStringSubmatch(text)
		return named == nil || named[1] == run.Status.Resolved.RunID
	}
	if end := run.Status.CompletionTime; end != nil {
		t.until = end.Add(afterEnd)
	}
	t.look = func(ctx context.Context) (present, error) {
		now := &spatev1.TrafficRun{}
		if err := reader.Get(ctx, kube.ObjectKeyFromObject(run), now); err != nil {
			return present{}, err
		}
		p := present{ended: now.Status.Phase == spatev1.RunComplete}
		if now.Status.Resolved != nil {
			for _, pod := range now.Status.Resolved.Generator.Pods {
				p.pods = append(p.pods, pod.Name)
			}
		}
		routed, err := hasRouting(ctx, reader, kube.ObjectKey{Namespace: t.namespace, Name: string(run.Status.Resolved.Generator.Name)})
		if err == nil && routed {
			p.routed = p.pods
		}
		return p, err
	}
	return t, nil
}

// hasRouting reports whether the pods of a generator have a container for routing. One that may not be read, or was deleted, has none.
func hasRouting(ctx context.Context, reader kube.Reader, key kube.ObjectKey) (bool, error) {
	g := &spatev1.TrafficGenerator{}
	err := reader.Get(ctx, key, g)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil && ports.HasRouting(&g.Spec), err
}

// ofGenerator has the pods that exist; without the right to list pods, those that the generator reports.
func ofGenerator(reader kube.Reader, g *spatev1.TrafficGenerator) *target {
	t := &target{title: "generator " + g.Name, namespace: g.Namespace, words: wordsOf(g.Name, g.Namespace)}
	t.look = func(ctx context.Context) (p present, err error) {
		pods, err := cluster.EnginePods(ctx, reader, g.Namespace, g.Name)
		switch {
		case apierrors.IsForbidden(err):
			now := &spatev1.TrafficGenerator{}
			err = reader.Get(ctx, kube.ObjectKeyFromObject(g), now)
			for _, pod := range now.Status.Pods {
				p.pods = append(p.pods, pod.Name)
			}
			if ports.HasRouting(&now.Spec) {
				p.routed = p.pods
			}
		case err == nil:
			for i := range pods {
				p.pods = append(p.pods, pods[i].Name)
				if podspec.HasRouting(&pods[i]) {
					p.routed = append(p.routed, pods[i].Name)
				}
			}
		}
		return p, err
	}
	return t
}
