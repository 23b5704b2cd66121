// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocks "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestEndsOfCertificatesAreReported(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := clocks.NewFakePassiveClock(now)
	ends := map[string]time.Time{}
	s := &Store{
		Client: fake.NewClientBuilder().Build(), Namespace: "spate-system", Policy: DefaultPolicy(), Clock: clock,
		Issued: func(name string, end time.Time) { ends[name] = end },
	}
	name := ServerName("lab", "g")
	ensure := func() {
		t.Helper()
		want := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "g"}}
		if _, err := s.EnsureServer(t.Context(), want, name); err != nil {
			t.Fatal(err)
		}
	}
	ensure()
	ensure() // the authority is there
	if names := slices.Sorted(maps.Keys(ends)); !slices.Equal(names, []string{name, SecretName}) {
		t.Fatalf("%q", names)
	}
	policy := DefaultPolicy()
	if !ends[name].Equal(now.Add(policy.CertLifetime)) || !ends[SecretName].Equal(now.Add(policy.CALifetime)) {
		t.Errorf("%v", ends)
	}
	later := now.Add(policy.CertLifetime * 3 / 4)
	clock.SetTime(later)
	ensure()
	if !ends[name].Equal(later.Add(policy.CertLifetime)) {
		t.Errorf("the renewed certificate ends at %s", ends[name])
	}
}
