// SPDX-License-Identifier: Apache-2.0

package events

// This file answers: of which objects are events shown?

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/podspec"
)

// object is one that events regard.
type object struct{ kind, namespace, name string }

// scope selects events.
type scope struct {
	reader kube.Reader
	// namespace is empty for all.
	namespace string
	// of names the objects; nil for all of Spate's.
	of *cluster.Argument
	// note is called with what could not be read.
	note func(string)

	// known are the objects whose events are shown, and those whose are not.
	known map[object]bool
	// noted are notes that were given.
	noted map[string]bool
}

// regarding is what an event is about; of Spate's group, ofSpate is true.
func regarding(e *corev1.Event) (of object, ofSpate bool) {
	group, _, _ := strings.Cut(e.InvolvedObject.APIVersion, "/")
	return object{e.InvolvedObject.Kind, e.InvolvedObject.Namespace, e.InvolvedObject.Name}, group == spatev1.GroupVersion.Group
}

// related is the pod that an event of Spate's objects also regards, such as one that was created.
func related(e *corev1.Event) (object, bool) {
	if e.Related == nil || e.Related.Kind != "Pod" {
		return object{}, false
	}
	return object{"Pod", e.Related.Namespace, e.Related.Name}, true
}

// list returns the events to show, in order. found is false if there is neither an event nor an object of the name.
func (s *scope) list(ctx context.Context) (list *corev1.EventList, found bool, err error) {
	list = &corev1.EventList{}
	if err := s.reader.List(ctx, list, kube.InNamespace(s.namespace)); err != nil {
		if apierrors.IsForbidden(err) {
			err = fmt.Errorf("%w; bind the ClusterRole view in the namespace", err)
		}
		return nil, false, err
	}
	if found, err = s.load(ctx); err != nil {
		return nil, false, err
	}
	for i := range list.Items { // pods that were deleted are known by events of Spate's objects only
		e := &list.Items[i]
		if of, ofSpate := regarding(e); ofSpate && s.isShown(of, true) {
			if pod, there := related(e); there {
				s.known[pod] = true
			}
		}
	}
	shown := list.Items[:0]
	for i := range list.Items {
		if of, ofSpate := regarding(&list.Items[i]); s.isShown(of, ofSpate) {
			shown = append(shown, list.Items[i])
		}
	}
	list.Items = shown
	inOrder(list.Items)
	return list, found || len(list.Items) > 0, nil
}

// isShown reports whether events of an object are shown, by what is known.
func (s *scope) isShown(of object, ofSpate bool) bool {
	return s.known[of] || ofSpate && (s.of == nil || s.of.Is(of.kind, of.name))
}

// shows reports whether an event is shown that has just occurred. Of an object that is not known, objects are read again.
func (s *scope) shows(ctx context.Context, e *corev1.Event) (bool, error) {
	of, ofSpate := regarding(e)
	if _, known := s.known[of]; !known && !s.isShown(of, ofSpate) && (ofSpate || of.kind == "Pod") {
		if _, err := s.load(ctx); err != nil {
			return false, err
		}
		if !s.known[of] {
			s.known[of] = false
		}
	}
	shown := s.isShown(of, ofSpate)
	if pod, there := related(e); there && shown && ofSpate {
		s.known[pod] = true
	}
	return shown, nil
}

// load reads which objects are shown; found reports whether there is one.
func (s *scope) load(ctx context.Context) (found bool, err error) {
	if s.known == nil {
		s.known = map[object]bool{}
	}
	var (
		generators spatev1.TrafficGeneratorList
		profiles   spatev1.TrafficProfileList
		runs       spatev1.TrafficRunList
		searches   spatev1.TrafficSearchList
	)
	for _, list := range []kube.ObjectList{&generators, &profiles, &runs, &searches} {
		if err := s.reader.List(ctx, list, kube.InNamespace(s.namespace)); err != nil {
			return false, err
		}
	}
	found = s.of == nil
	selected := map[kube.ObjectKey]bool{} // generators whose pods are shown
	for i := range generators.Items {
		g := &generators.Items[i]
		if s.of != nil && !s.of.Is(cluster.GeneratorKind, g.Name) {
			continue
		}
		found, selected[kube.ObjectKeyFromObject(g)] = true, true
		for _, pod := range g.Status.Pods {
			s.known[object{"Pod", g.Namespace, pod.Name}] = true
		}
	}
	for i := range profiles.Items {
		found = found || s.of.Is(cluster.ProfileKind, profiles.Items[i].Name)
	}
	for i := range searches.Items {
		found = found || s.of.Is(cluster.SearchKind, searches.Items[i].Name)
	}
	for i := range runs.Items {
		r := &runs.Items[i]
		if s.of != nil && !s.of.Covers(r) {
			continue
		}
		found, s.known[object{cluster.RunKind, r.Namespace, r.Name}] = true, true
		if r.Status.Resolved == nil {
			continue
		}
		on := r.Status.Resolved.Generator
		for _, pod := range on.Pods {
			s.known[object{"Pod", on.Namespace, pod.Name}] = true
		}
		if s.of != nil && s.namespace != on.Namespace {
			s.once(fmt.Sprintf("pods of run %s are in another namespace: kubectl spate events %s -n %s", r.Name, on.Name, on.Namespace))
		}
	}
	if len(selected) == 0 && s.of != nil {
		return found, nil
	}
	generator := ""
	if s.of != nil {
		generator = s.of.Name
	}
	pods, err := cluster.EnginePods(ctx, s.reader, s.namespace, generator)
	switch {
	case apierrors.IsForbidden(err):
		s.once(fmt.Sprintf("only pods that generators report are included: %v", err))
	case err != nil:
		return false, err
	}
	for i := range pods {
		if s.of == nil || selected[kube.ObjectKey{Namespace: pods[i].Namespace, Name: pods[i].Labels[podspec.LabelGenerator]}] {
			s.known[object{"Pod", pods[i].Namespace, pods[i].Name}] = true
		}
	}
	return found, nil
}

// once gives a note, if it was not given.
func (s *scope) once(text string) {
	if s.noted == nil {
		s.noted = map[string]bool{}
	}
	if !s.noted[text] {
		s.noted[text] = true
		s.note(text)
	}
}
