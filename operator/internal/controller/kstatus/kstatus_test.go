// SPDX-License-Identifier: Apache-2.0

package kstatus

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestOnlyUnexpectedErrorsAreReturned(t *testing.T) {
	runs := schema.GroupResource{Group: "spate.dev", Resource: "trafficruns"}
	goes := apierrors.NewForbidden(runs, "r", errors.New("the namespace is being terminated"))
	goes.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		err      error
		want     reconcile.Result
		returned bool
	}{
		"none":                             {nil, reconcile.Result{RequeueAfter: time.Minute}, false},
		"the object has changed":           {apierrors.NewConflict(runs, "r", errors.New("the object has been modified")), reconcile.Result{RequeueAfter: retry}, false},
		"the object is there":              {apierrors.NewAlreadyExists(runs, "r"), reconcile.Result{RequeueAfter: retry}, false},
		"the namespace is being deleted":   {goes, reconcile.Result{}, false},
		"forbidden":                        {apierrors.NewForbidden(runs, "r", nil), reconcile.Result{}, true},
		"the API server cannot be reached": {errors.New("connection refused"), reconcile.Result{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Next(time.Minute, c.err)
			if got != c.want || (err != nil) != c.returned || Expected(c.err) != (c.err != nil && !c.returned) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

func TestWhoHasWaitedLongLooksLessOften(t *testing.T) {
	ready := func(status metav1.ConditionStatus, age time.Duration) []metav1.Condition {
		return []metav1.Condition{{Type: spatev1.ConditionReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Add(-age))}}
	}
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		want       time.Duration
	}{
		"new":                {nil, 5 * time.Second},
		"now":                {ready(metav1.ConditionFalse, 0), 5 * time.Second},
		"just now":           {ready(metav1.ConditionFalse, time.Second), 5 * time.Second},
		"two minutes":        {ready(metav1.ConditionFalse, 2*time.Minute), 30 * time.Second},
		"an hour":            {ready(metav1.ConditionFalse, time.Hour), time.Minute},
		"a day":              {ready(metav1.ConditionFalse, 24*time.Hour), time.Minute},
		"was ready till now": {ready(metav1.ConditionTrue, 24*time.Hour), 5 * time.Second},
	} {
		if got := PollPause(c.conditions); got < c.want || got > c.want+time.Second {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestTextsAreCutAtTheEndOfACharacter(t *testing.T) {
	text := strings.Repeat("\u00b5", 20)
	if got := Shortened(text, 7); got != "\u00b5\u00b5\u00b5..." || !utf8.ValidString(got) || Shortened(text, 40) != text {
		t.Errorf("%q", got)
	}
}
