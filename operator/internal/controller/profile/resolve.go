// SPDX-License-Identifier: Apache-2.0

package profile

// This file answers: what does a profile refer to, and can it be run?

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/snapshot"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/podspec"
)

// Indexes of profiles in the cache, by what they refer to.
const (
	byGenerator = "generator"
	byStream    = "stream"
	byTemplate  = "template"
)

func index(ctx context.Context, indexer client.FieldIndexer) error {
	for name, keys := range map[string]func(*spatev1.TrafficProfile) []string{
		byGenerator: func(p *spatev1.TrafficProfile) []string {
			key := generatorKey(p)
			return []string{key.Namespace + "/" + key.Name}
		},
		byStream: func(p *spatev1.TrafficProfile) (keys []string) {
			for i := range p.Spec.Traffic {
				if ref := plan.StreamRef(&p.Spec.Traffic[i]); ref != nil {
					keys = append(keys, p.Namespace+"/"+string(ref.Name))
				}
			}
			return keys
		},
		byTemplate: func(p *spatev1.TrafficProfile) (keys []string) {
			for i := range p.Spec.Traffic {
				if ref := plan.TemplateRef(&p.Spec.Traffic[i]); ref != nil {
					keys = append(keys, p.Namespace+"/"+string(ref.Name))
				}
			}
			return keys
		},
	} {
		extract := func(o client.Object) []string { return keys(o.(*spatev1.TrafficProfile)) }
		if err := indexer.IndexField(ctx, &spatev1.TrafficProfile{}, name, extract); err != nil {
			return err
		}
	}
	return nil
}

// generatorKey is where the profile's generator is: the one it names, or its own, which has its name.
func generatorKey(p *spatev1.TrafficProfile) client.ObjectKey {
	ref := p.Spec.GeneratorRef
	if ref == nil {
		return client.ObjectKeyFromObject(p)
	}
	if ref.Namespace == "" {
		return client.ObjectKey{Namespace: p.Namespace, Name: string(ref.Name)}
	}
	return client.ObjectKey{Namespace: ref.Namespace, Name: string(ref.Name)}
}

// keepGenerator finds the generator, and makes or updates it if it is the profile's own.
func (s *scope) keepGenerator(ctx context.Context) error {
	key := generatorKey(s.profile)
	s.profile.Status.Generator = key.String()
	g := &spatev1.TrafficGenerator{}
	err := s.r.Client.Get(ctx, key, g)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil {
		s.generator = g
	}
	if s.profile.Spec.Generator == nil {
		return nil
	}
	want := s.profile.Spec.Generator.DeepCopy()
	if s.profile.Spec.Suspend && s.profile.Spec.SuspendPolicy == spatev1.SuspendFree {
		want.Suspend = true
	}
	if s.problems = s.r.Inline.refuse(want, s.profile.Namespace); len(s.problems) > 0 || len(plan.CheckGenerator(want)) > 0 {
		return nil // the latter is told when the profile is resolved
	}
	if apierrors.IsNotFound(err) {
		g = &spatev1.TrafficGenerator{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{podspec.LabelManagedBy: podspec.ManagedBy}},
			Spec:       *want,
		}
		if err := controllerutil.SetControllerReference(s.profile, g, s.r.Client.Scheme()); err != nil {
			return err
		}
		return s.r.Client.Create(ctx, g)
	}
	if !metav1.IsControlledBy(g, s.profile) {
		s.generator = nil
		s.problems = plan.Problems{{
			Reason: spatev1.ReasonInvalidSpec, Path: "spec.generator",
			Message: fmt.Sprintf("a TrafficGenerator %q that is not this profile's exists already; rename the profile, or refer to it with generatorRef", key.Name),
		}}
		return nil
	}
	if equality.Semantic.DeepEqual(g.Spec, *want) {
		return nil
	}
	g.Spec = *want
	return s.r.Client.Update(ctx, g)
}

// resolve makes the profile into what can be run, or finds every problem. A plan that may be large has to wait for its turn: what it
// takes is in memory until the caller leaves.
func (s *scope) resolve(ctx context.Context) (leave func(), ok bool, err error) {
	in, err := s.named(ctx)
	if err != nil {
		return nil, false, err
	}
	leave = func() {}
	if plan.Estimate(s.profile, in.Streams, in.Templates) > snapshot.Large {
		if leave, ok = s.r.Large.Enter(s.profile.Namespace, s.profile.UID); !ok {
			return nil, false, nil
		}
	}
	if ok, err = s.resolveFrom(ctx, in); err != nil || !ok {
		leave()
		return nil, false, err
	}
	return leave, true, nil
}

// named finds the streams and templates that the profile names.
func (s *scope) named(ctx context.Context) (plan.Input, error) {
	in := plan.Input{
		Profile: s.profile, Generator: s.generator, Bound: s.r.Bound,
		Streams: map[string]*spatev1.StatelessStream{}, Templates: map[string]*spatev1.ASTFTemplate{},
	}
	for i := range s.profile.Spec.Traffic {
		e := &s.profile.Spec.Traffic[i]
		if ref := plan.StreamRef(e); ref != nil && in.Streams[string(ref.Name)] == nil {
			stream := &spatev1.StatelessStream{}
			if found, err := s.get(ctx, ref.Name, stream); err != nil {
				return in, err
			} else if found {
				in.Streams[stream.Name] = stream
			}
		}
		if ref := plan.TemplateRef(e); ref != nil && in.Templates[string(ref.Name)] == nil {
			template := &spatev1.ASTFTemplate{}
			if found, err := s.get(ctx, ref.Name, template); err != nil {
				return in, err
			} else if found {
				in.Templates[template.Name] = template
			}
		}
	}
	return in, nil
}

// resolveFrom tells whether that could be done now.
func (s *scope) resolveFrom(ctx context.Context, in plan.Input) (ok bool, err error) {
	if err := s.data(ctx, &in); err != nil || s.problems.Reason() == spatev1.ReasonNotAllowed {
		return err == nil, err
	}
	granted, err := s.granted(ctx)
	if err != nil {
		return false, err
	}
	if !granted {
		in.Generator = s.generator // its ports are still checked
		s.problems = append(s.problems, plan.Problem{
			Reason: spatev1.ReasonReferenceNotAllowed, Path: "spec.generatorRef",
			Message: fmt.Sprintf("TrafficGenerator %s does not grant its use to namespace %s; its spec.allowedNamespaces must", generatorKey(s.profile), s.profile.Namespace),
		})
	}
	resolved, problems := plan.Resolve(in)
	s.problems = append(s.problems, problems...)
	if len(s.problems) == 0 {
		s.resolved = resolved
		return s.try(ctx, s.versions(in)), nil
	}
	return true, nil
}

// place takes one of the workers' places for the profile. Those of namespaces with a plan that took long to be tried have few together.
func (s *scope) place() (leave func(), ok bool) {
	s.r.mu.Lock()
	s.slow = time.Since(s.r.late[s.profile.Namespace]) < lateLasts
	s.r.mu.Unlock()
	if s.slow {
		return s.r.slow.Take(s.profile.Namespace)
	}
	return s.r.places.Take(s.profile.Namespace)
}

// tookLong notes that a plan of the profile's namespace did.
func (s *scope) tookLong() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	maps.DeleteFunc(s.r.late, func(_ string, at time.Time) bool { return time.Since(at) >= lateLasts })
	s.r.late[s.profile.Namespace] = time.Now()
}

// versions names all that a plan is made of, each in its version.
func (s *scope) versions(in plan.Input) string {
	var all []string
	add := func(o client.Object) { all = append(all, fmt.Sprintf("%s %d", o.GetUID(), o.GetGeneration())) }
	add(s.profile)
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
	slices.Sort(s.read)
	return strings.Join(append(all, s.read...), "\n")
}

// data reads the ConfigMaps and Secrets that streams and templates name, each once. They are not watched: a run has what was there
// when it was made.
func (s *scope) data(ctx context.Context, in *plan.Input) error {
	in.Data = map[spatev1.DataReference][]byte{}
	read, size := map[spatev1.DataReference]map[string][]byte{}, int64(0)
	for _, ref := range plan.DataReferences(s.profile, in.Streams, in.Templates) {
		s.looked = true
		whole := spatev1.DataReference{Kind: ref.Kind, Name: ref.Name}
		keys, known := read[whole]
		if !known {
			var err error
			if keys, err = s.keys(ctx, whole); err != nil {
				return err
			}
			read[whole] = keys
			for _, bytes := range keys {
				size += int64(len(bytes))
			}
			if bound := s.r.Bound.Bytes; bound > 0 && size > bound {
				s.problems = append(s.problems, s.r.Bound.Exceeded(field.NewPath("spec", "traffic"), size)...)
				return nil
			}
		}
		if bytes, found := keys[ref.Key]; found {
			in.Data[ref] = bytes
		}
	}
	return nil
}

// keys of a ConfigMap or Secret; none if there is none, which is told when the profile is resolved.
func (s *scope) keys(ctx context.Context, of spatev1.DataReference) (map[string][]byte, error) {
	key := client.ObjectKey{Namespace: s.profile.Namespace, Name: string(of.Name)}
	if of.Kind == spatev1.DataSecret {
		secret := &corev1.Secret{}
		err := s.r.Live.Get(ctx, key, secret)
		if s.secrets == nil {
			s.secrets = map[spatev1.ObjectName]spatev1.SecretSnapshot{}
		}
		s.read = append(s.read, fmt.Sprintf("%s %s", secret.UID, secret.ResourceVersion))
		s.secrets[of.Name] = spatev1.SecretSnapshot{Name: of.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion}
		return secret.Data, client.IgnoreNotFound(err)
	}
	key.Name = string(of.Name)
	configMap := &corev1.ConfigMap{}
	err := s.r.Live.Get(ctx, key, configMap)
	s.read = append(s.read, fmt.Sprintf("%s %s", configMap.UID, configMap.ResourceVersion))
	all := map[string][]byte{}
	for key, text := range configMap.Data {
		all[key] = []byte(text)
	}
	maps.Copy(all, configMap.BinaryData)
	return all, client.IgnoreNotFound(err)
}

// tried is what became of trying a profile's plan.
type tried struct {
	inputs  string
	refused []engine.Violation
	// failed says why it could not be tried; it is tried again at an instant, later each time.
	failed string
	again  time.Time
	pause  time.Duration
}

const (
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
	// quickly is the time for a plan of a namespace whose plans did not take long so far; one that takes longer is tried again, in a
	// place for such plans.
	quickly = 3 * time.Second
	// lateLasts is how long a namespace has such places.
	lateLasts = 10 * time.Minute
)

// try has the engine's own code look at the plan, once for each plan that is to be run. One that cannot be tried is not run. It tells
// whether it could be tried in the place that the profile has.
func (s *scope) try(ctx context.Context, inputs string) (ok bool) {
	if !s.due() {
		return true
	}
	id := plan.Identity{RunID: s.profile.Name, Tag: 1, Profile: s.profile.Name, Namespace: s.profile.Namespace}
	p := s.resolved.Outline(id)
	s.r.mu.Lock()
	last := s.r.tried[s.profile.UID]
	s.r.mu.Unlock()
	if due, at := last.due(inputs); due && !time.Now().Before(at) {
		compiler := s.r.Compiler
		whole := cmp.Or(compiler.Limit, engine.DefaultLimit)
		if compiler.Limit = whole; !s.slow {
			compiler.Limit = min(whole, quickly)
		}
		checked, err := compiler.CheckWritten(ctx, p, func(w io.Writer) error { return s.resolved.WriteWithData(w, id) })
		if late := (*engine.LateError)(nil); errors.As(err, &late) {
			if s.tookLong(); compiler.Limit < whole {
				return false
			}
		}
		last = last.next(inputs, checked.Refused, err)
		if err != nil {
			log.FromContext(ctx).Error(err, "the plan could not be tried")
		}
		s.r.mu.Lock()
		s.r.tried[s.profile.UID] = last
		s.r.mu.Unlock()
	}
	if last.failed != "" {
		_, at := last.due(inputs)
		s.resolved, s.untried = nil, max(time.Until(at), time.Millisecond)
		s.problems = append(s.problems, plan.Problem{
			Reason: spatev1.ReasonCheckFailed, Path: "spec.traffic",
			Message: fmt.Sprintf("%s; use fewer or smaller entries, or give the operator more CPU or memory (--plan-check-limit is the time for it); it is tried again at %s",
				last.failed, at.UTC().Format(time.TimeOnly+"Z")),
		})
		return true
	}
	origin := plan.OriginOf(p, s.resolved.Entries)
	for _, violation := range last.refused {
		s.resolved = nil
		s.problems = append(s.problems, origin.Refused(violation.Field, violation.Description).Problem(s.profile))
	}
	return true
}

// due tells whether a plan is to be tried, and when: after a failure later each time, an edited one at the first pause again.
func (t tried) due(inputs string) (due bool, at time.Time) {
	switch {
	case t.failed == "":
		return t.inputs != inputs, time.Time{}
	case t.inputs != inputs:
		return true, t.again.Add(firstPause - t.pause)
	}
	return true, t.again
}

// next is what became of a further attempt.
func (t tried) next(inputs string, refused []engine.Violation, err error) tried {
	if err == nil {
		return tried{inputs: inputs, refused: refused}
	}
	pause := firstPause
	if t.failed != "" { // of an earlier version too: edits do not make it sooner
		pause = min(2*t.pause, longestPause)
	}
	return tried{inputs: inputs, failed: err.Error(), again: time.Now().Add(pause), pause: pause}
}

func (s *scope) get(ctx context.Context, name spatev1.ObjectName, into client.Object) (bool, error) {
	err := s.r.Client.Get(ctx, client.ObjectKey{Namespace: s.profile.Namespace, Name: string(name)}, into)
	return err == nil, client.IgnoreNotFound(err)
}

// granted tells whether the profile may use its generator, if there is one.
func (s *scope) granted(ctx context.Context) (bool, error) {
	g := s.generator
	if g == nil || g.Namespace == s.profile.Namespace {
		return true, nil
	}
	var labels map[string]string
	if g.Spec.AllowedNamespaces.From == spatev1.NamespacesSelector {
		namespace := &corev1.Namespace{}
		if err := s.r.Live.Get(ctx, client.ObjectKey{Name: s.profile.Namespace}, namespace); err != nil {
			return false, err
		}
		labels = namespace.Labels
	}
	return plan.Granted(g, s.profile.Namespace, labels)
}
