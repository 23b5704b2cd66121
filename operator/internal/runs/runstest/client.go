// SPDX-License-Identifier: Apache-2.0

// Package runstest has a client for unit tests that needs no API server and selects runs as the cache does.
package runstest

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs"
)

// Builder returns a builder of clients that know the kinds, their status subresources, and the indexes of runs.
func Builder(t testing.TB) *fake.ClientBuilder {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, spatev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&spatev1.TrafficRun{}, &spatev1.TrafficProfile{}, &spatev1.TrafficGenerator{})
	if err := runs.Index(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	return builder
}

// indexer adds indexes to a client that is being built.
type indexer struct{ builder *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.builder.WithIndex(object, field, extract)
	return nil
}
