// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestOwnLabelsAreRestoredAndOthersKept(t *testing.T) {
	want := map[string]string{"a": "1", "b": "2"}
	for name, c := range map[string]struct {
		have, after map[string]string
		changed     bool
	}{
		"none":    {nil, want, true},
		"all":     {map[string]string{"a": "1", "b": "2", "c": "3"}, map[string]string{"a": "1", "b": "2", "c": "3"}, false},
		"edited":  {map[string]string{"a": "1", "b": "x", "c": "3"}, map[string]string{"a": "1", "b": "2", "c": "3"}, true},
		"missing": {map[string]string{"b": "2"}, want, true},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: c.have}}
		if changed := relabel(secret, want); changed != c.changed || !maps.Equal(secret.Labels, c.after) {
			t.Errorf("%s: %v, %v", name, changed, secret.Labels)
		}
	}
}

// PodMonitors are not watched.
func TestAPodMonitorIsReadAgainAfterAWhile(t *testing.T) {
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{UID: "u", Generation: 2}}
	r := &Reconciler{monitors: map[types.UID]monitored{}}
	if r.monitored(g) {
		t.Error("it was read before it was")
	}
	r.setMonitored(g)
	if !r.monitored(g) {
		t.Error("it is read again at once")
	}
	last := r.monitors["u"]
	last.at = last.at.Add(-monitorInterval)
	if r.monitors["u"] = last; r.monitored(g) {
		t.Error("it is not read again")
	}
	r.setMonitored(g)
	if g.Generation++; r.monitored(g) {
		t.Error("it is not read again for another generation")
	}
}
