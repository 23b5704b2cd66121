// SPDX-License-Identifier: Apache-2.0

// Package stream reports whether StatelessStreams and ASTFTemplates are valid, before a profile uses them.
package stream

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/controller/kstatus"
	"spate.dev/operator/internal/controller/turn"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/packet"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/application"
	"spate.dev/operator/internal/plan/origin"
	"spate.dev/operator/internal/plan/problem"
	"spate.dev/operator/internal/plan/stream"
)

// Reconciler checks streams and templates.
type Reconciler struct {
	Client client.Client
	// Compiler checks templates.
	Compiler engine.Compiler

	places turn.Places
}

// +kubebuilder:rbac:groups=spate.dev,resources=statelessstreams/status;astftemplates/status,verbs=patch

// SetupWithManager registers a reconciler for each of the two kinds.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	onSpec := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	err := ctrl.NewControllerManagedBy(mgr).For(&spatev1.StatelessStream{}, onSpec).Complete(reconcile.Func(r.stream))
	if err != nil {
		return err
	}
	r.places.Each = perNamespace
	return ctrl.NewControllerManagedBy(mgr).For(&spatev1.ASTFTemplate{}, onSpec).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.Func(r.template))
}

// workers is the number of templates checked at a time; a namespace has a part of them, since a check may take long.
const (
	workers      = 4
	perNamespace = 1
	// turnPause is the time after which a template that waits for its turn retries.
	turnPause = 200 * time.Millisecond
	// uncheckedPause is the time after which a template that could not be checked is checked again.
	uncheckedPause = time.Minute
)

func (r *Reconciler) stream(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s := &spatev1.StatelessStream{}
	if err := r.Client.Get(ctx, request.NamespacedName, s); err != nil || s.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := s.DeepCopy()
	s.Status.ObservedGeneration, s.Status.FrameSize, s.Status.Summary = s.Generation, 0, ""
	built, problems := stream.Check(&s.Spec)
	if built != nil {
		s.Status.FrameSize, s.Status.Summary = summary(built)
	}
	setReady(&s.Status.Conditions, s.Generation, problems, "the packet can be built")
	return kstatus.Next(0, kstatus.Patch(ctx, r.Client, s, before))
}

// summary describes a stream for its status.
func summary(s *stream.Stream) (size int32, text string) {
	if s.Packet == nil {
		return 0, "packets of a capture"
	}
	text = packet.Inspect(s.Packet.Frame).String()
	if n := len(s.Copies); n > 0 {
		text += fmt.Sprintf(", %d copies", n)
	}
	return int32(s.Packet.WireBytes()), text
}

func (r *Reconciler) template(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	t := &spatev1.ASTFTemplate{}
	if err := r.Client.Get(ctx, request.NamespacedName, t); err != nil || t.DeletionTimestamp != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	ready := meta.FindStatusCondition(t.Status.Conditions, spatev1.ConditionReady)
	if t.Status.ObservedGeneration == t.Generation && (ready == nil || ready.Reason != spatev1.ReasonCheckFailed) {
		return ctrl.Result{}, nil // checked before the operator was restarted
	}
	release, ok := r.places.Take(t.Namespace)
	if !ok {
		return ctrl.Result{RequeueAfter: turnPause}, nil
	}
	defer release()
	before := t.DeepCopy()
	t.Status.ObservedGeneration = t.Generation
	problems, good := application.Check(&t.Spec), "the template can be run"
	if len(problems) == 0 {
		var unchecked error
		if problems, good, unchecked = r.check(ctx, t); unchecked != nil {
			log.FromContext(ctx).Error(unchecked, "the template could not be checked")
			kstatus.Progressing(&t.Status.Conditions, t.Generation, spatev1.ReasonCheckFailed, fmt.Sprintf("%v; retrying in %s", unchecked, uncheckedPause))
			return kstatus.Next(uncheckedPause, kstatus.Patch(ctx, r.Client, t, before))
		}
	}
	setReady(&t.Status.Conditions, t.Generation, problems, good)
	return kstatus.Next(0, kstatus.Patch(ctx, r.Client, t, before))
}

// check checks a template by the engine's own code, without a profile.
func (r *Reconciler) check(ctx context.Context, t *spatev1.ASTFTemplate) (problems problem.Problems, good string, unchecked error) {
	made, why := plan.Alone(t, nil)
	if made == nil {
		return nil, "the template is valid on its own; " + why, nil
	}
	checked, err := r.Compiler.Check(ctx, made)
	if err != nil {
		return nil, "", err
	}
	from := origin.Of(made, nil, nil)
	for _, violation := range checked.Refused {
		problems = append(problems, from.Refused(violation.Field, violation.Description).OfTemplate())
	}
	return problems, "the template can be run", nil
}

func setReady(conditions *[]metav1.Condition, generation int64, problems problem.Problems, good string) {
	if len(problems) > 0 {
		kstatus.Stalled(conditions, generation, problems.Reason(), problems.Message())
		return
	}
	kstatus.Ready(conditions, generation, spatev1.ReasonAvailable, good)
}
