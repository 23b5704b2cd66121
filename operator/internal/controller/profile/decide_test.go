// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestWhoHasWaitedLongLooksLessOften(t *testing.T) {
	ready := func(status metav1.ConditionStatus, age time.Duration) []metav1.Condition {
		return []metav1.Condition{{Type: spatev1.ConditionReady, Status: status, LastTransitionTime: metav1.NewTime(time.Now().Add(-age))}}
	}
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		want       time.Duration
	}{
		"new":                {nil, 5 * time.Second},
		"just now":           {ready(metav1.ConditionFalse, time.Second), 5 * time.Second},
		"two minutes":        {ready(metav1.ConditionFalse, 2*time.Minute), 30 * time.Second},
		"a day":              {ready(metav1.ConditionFalse, 24*time.Hour), time.Minute},
		"was ready till now": {ready(metav1.ConditionTrue, 24*time.Hour), 5 * time.Second},
	} {
		s := &scope{profile: &spatev1.TrafficProfile{Status: spatev1.TrafficProfileStatus{Conditions: c.conditions}}}
		if got := s.pollPause(); got < c.want || got > c.want+time.Second {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
