// SPDX-License-Identifier: Apache-2.0

// Package admission answers: can a definition be run, and may it start on its generator now? Profiles report the first; runs need both.
// The resolver also chooses what a run needs besides its definition: its tag, its marks and its pods.
package admission

// This file answers: what does a definition refer to, and can it be resolved into a plan?

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/marks"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/stream"
	"spate.dev/operator/internal/runs/storage"
)

// Resolver resolves definitions and admits runs. The controllers of profiles and runs share it.
type Resolver struct {
	Client client.Client
	// Live reads from the API server what is needed rarely: labels of namespaces, ConfigMaps and Secrets.
	Live   client.Reader
	Memory *storage.Memory
	// Compiler checks a plan with the engine's code before a run is admitted.
	Compiler engine.Compiler
	// Bound limits the bytes of plans.
	Bound plan.Bound
	// Large admits one large plan at a time into memory, including those of runs that are being prepared.
	Large *turn.Lane

	tags   tags
	places turn.Places // of definitions that are being resolved
	slow   turn.Places // of those in namespaces with plans that took long to check

	mu       sync.Mutex
	checked  map[types.UID]check       // result of the check of each definition's plan
	late     map[string]time.Time      // when a plan took long to check, by namespace
	admitted map[client.ObjectKey]bool // generators to which a run is being admitted
	chosen   map[types.UID]marks.Marks // marks of runs that are being admitted
}

const (
	// Workers is the number of definitions that are resolved at a time; each namespace has a part of them, because a
	// check may take long.
	Workers      = 8
	perNamespace = 2
	// maxSlow is the number of places for all namespaces whose plans took long to check, so that workers are left for
	// the others.
	maxSlow = Workers / 2
	// Pause is the time after which a definition that waits for a place or for its turn is resolved again.
	Pause = 200 * time.Millisecond
	// WaitsForTurn describes such a definition in a condition.
	WaitsForTurn = "waits for its turn to be resolved: at most one large plan, and few plans that take long to check, are resolved at a time"
)

// Init makes the resolver ready for use.
func (r *Resolver) Init() *Resolver {
	r.checked, r.late = map[types.UID]check{}, map[string]time.Time{}
	r.admitted, r.chosen = map[client.ObjectKey]bool{}, map[types.UID]marks.Marks{}
	r.places.Each, r.slow.Each, r.slow.Max = perNamespace, 1, maxSlow
	return r
}

// Forget drops a deleted definition.
func (r *Resolver) Forget(key types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.checked, key)
}

// Subject is what is to be resolved.
type Subject struct {
	// Definition is a profile, or that of a run with its overrides (plan.Effective).
	Definition *spatev1.TrafficProfile
	// Run is the one that the definition is of; nil for that of a profile.
	Run *spatev1.TrafficRun
	// Key identifies the object that the definition is of: the result of its check is cached by it.
	Key types.UID
	// Check the plan with the engine's code.
	Check bool
}

// Resolution is the result of resolving a definition.
type Resolution struct {
	r          *Resolver
	definition *spatev1.TrafficProfile
	run        *spatev1.TrafficRun // nil for the definition of a profile
	key        types.UID

	// Generator it runs on; nil if there is none.
	Generator *spatev1.TrafficGenerator
	// Resolved is nil if there are problems.
	Resolved *plan.Resolved
	Problems problem.Problems
	// Retry is the time until a failed check is repeated; 0 if it did not fail.
	Retry time.Duration

	readsData bool                                          // streams or templates name ConfigMaps or Secrets
	secrets   map[spatev1.ObjectName]spatev1.SecretSnapshot // those that were read, without keys
	read      []string                                      // versions of the ConfigMaps and Secrets that were read
	slow      bool                                          // it has a place for plans that take long to check
}

// Resolve resolves a definition into a plan, or finds every problem. ok is false if it has to wait for a place, or,
// with a large plan, for its turn: the caller repeats it after a Pause. A large plan is in memory until the caller
// calls leave.
func (r *Resolver) Resolve(ctx context.Context, subject Subject) (resolution *Resolution, leave func(), ok bool, err error) {
	s := &Resolution{r: r, definition: subject.Definition, run: subject.Run, key: subject.Key}
	free, ok := s.place()
	if !ok {
		return nil, nil, false, nil
	}
	defer free()
	in, err := s.named(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	leave = func() {}
	if plan.Estimate(s.definition, in.Streams, in.Templates) > storage.Large {
		if leave, ok = r.Large.Enter(s.definition.Namespace, s.key); !ok {
			return nil, nil, false, nil
		}
	}
	if ok, err = s.resolveFrom(ctx, in, subject.Check); err != nil || !ok {
		leave()
		return nil, nil, false, err
	}
	return s, leave, true, nil
}

// named reads the generator, the streams and the templates that the definition names.
func (s *Resolution) named(ctx context.Context) (plan.Input, error) {
	in := plan.Input{
		Profile: s.definition, Run: s.run, Bound: s.r.Bound, Streams: map[string]*spatev1.StatelessStream{}, Templates: map[string]*spatev1.ASTFTemplate{},
		Clients: map[string]*spatev1.ClientGroup{},
	}
	var err error
	if s.Generator, s.Problems, err = s.r.GeneratorOf(ctx, s.definition); err != nil {
		return in, err
	}
	in.Generator = s.Generator
	for i := range s.definition.Spec.Traffic {
		e := &s.definition.Spec.Traffic[i]
		if ref := stream.Ref(e); ref != nil && in.Streams[string(ref.Name)] == nil {
			stream := &spatev1.StatelessStream{}
			if found, err := s.get(ctx, ref.Name, stream); err != nil {
				return in, err
			} else if found {
				in.Streams[stream.Name] = stream
			}
		}
		if ref := application.Ref(e); ref != nil && in.Templates[string(ref.Name)] == nil {
			template := &spatev1.ASTFTemplate{}
			if found, err := s.get(ctx, ref.Name, template); err != nil {
				return in, err
			} else if found {
				in.Templates[template.Name] = template
			}
		}
		if selector := stream.Selector(e); selector != nil {
			selected, err := Selected(ctx, s.r.Client, s.definition.Namespace, selector)
			if err != nil {
				return in, err
			}
			maps.Copy(in.Streams, selected)
		}
	}
	for i := range s.definition.Spec.Clients {
		if name := s.definition.Spec.Clients[i].GroupRef.Name; in.Clients[string(name)] == nil {
			group := &spatev1.ClientGroup{}
			if found, err := s.get(ctx, name, group); err != nil {
				return in, err
			} else if found {
				in.Clients[group.Name] = group
			}
		}
	}
	return in, nil
}

// Selected returns the streams of a namespace that a selector selects, by name. They are those of the cache: not to be
// changed.
func Selected(ctx context.Context, c client.Reader, namespace string, selector *spatev1.StreamSelector) (map[string]*spatev1.StatelessStream, error) {
	all := map[string]*spatev1.StatelessStream{}
	if len(selector.MatchLabels) == 0 {
		return all, nil // plan.Resolve reports it
	}
	var list spatev1.StatelessStreamList
	if err := c.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels(selector.MatchLabels), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all, nil
}

func (s *Resolution) get(ctx context.Context, name spatev1.ObjectName, into client.Object) (bool, error) {
	err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.definition.Namespace, Name: string(name)}, into)
	return err == nil, client.IgnoreNotFound(err)
}

// resolveFrom returns false if the plan must be checked in another place.
func (s *Resolution) resolveFrom(ctx context.Context, in plan.Input, check bool) (ok bool, err error) {
	if err := s.data(ctx, &in); err != nil || len(s.Problems) > 0 {
		return err == nil, err
	}
	granted, err := s.granted(ctx)
	if err != nil {
		return false, err
	}
	if !granted {
		s.Problems = append(s.Problems, problem.Problem{
			Reason: spatev1.ReasonReferenceNotAllowed, Path: "spec.generatorRef",
			Message: fmt.Sprintf("TrafficGenerator %s does not grant its use to namespace %s; add it to the generator's spec.allowedNamespaces",
				client.ObjectKeyFromObject(s.Generator), s.definition.Namespace),
		})
	}
	resolved, problems := plan.Resolve(in)
	if s.Problems = append(s.Problems, problems...); len(s.Problems) > 0 {
		return true, nil
	}
	if s.Resolved = resolved; !check {
		return true, nil
	}
	return s.check(ctx, s.versions(in)), nil
}

// place reserves one of the workers' places. Namespaces with a plan that took long to check share few of them.
func (s *Resolution) place() (leave func(), ok bool) {
	s.r.mu.Lock()
	s.slow = time.Since(s.r.late[s.definition.Namespace]) < lateLasts
	s.r.mu.Unlock()
	if s.slow {
		return s.r.slow.Take(s.definition.Namespace)
	}
	return s.r.places.Take(s.definition.Namespace)
}

// versions identifies the versions of all objects from which a plan is made.
func (s *Resolution) versions(in plan.Input) string {
	all := []string{plan.DefinitionDigest(s.definition)}
	add := func(o client.Object) { all = append(all, fmt.Sprintf("%s %d", o.GetUID(), o.GetGeneration())) }
	if g := in.Generator; g != nil {
		add(g)
		for _, pod := range g.Status.Pods {
			for _, port := range pod.Ports {
				all = append(all, fmt.Sprintf("%s %s %s", pod.Name, port.Name, port.LineRate))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(in.Streams)) {
		add(in.Streams[name])
	}
	for _, name := range slices.Sorted(maps.Keys(in.Templates)) {
		add(in.Templates[name])
	}
	for _, name := range slices.Sorted(maps.Keys(in.Clients)) {
		add(in.Clients[name])
	}
	for i := range s.definition.Spec.Traffic { // labels are no part of a generation
		if e := &s.definition.Spec.Traffic[i]; stream.Selector(e) != nil {
			all = append(all, fmt.Sprintf("%+v", plan.Selection(e.Name, stream.Selector(e), in.Streams)))
		}
	}
	slices.Sort(s.read)
	sum := sha256.Sum256([]byte(strings.Join(append(all, s.read...), "\n")))
	return hex.EncodeToString(sum[:])
}
