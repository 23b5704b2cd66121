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

func TestTextsAreCutAtTheEndOfACharacter(t *testing.T) {
	text := strings.Repeat("\u00b5", 20)
	if got := Shortened(text, 7); got != "\u00b5\u00b5\u00b5..." || !utf8.ValidString(got) || Shortened(text, 40) != text {
		t.Errorf("%q", got)
	}
}
