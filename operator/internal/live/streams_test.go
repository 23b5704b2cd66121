// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/live/tunnel"
)

// recordsCall is the server's side of a call of WatchRecords.
type recordsCall struct {
	grpc.ServerStream
	ctx context.Context
}

func (c recordsCall) Context() context.Context              { return c.ctx }
func (recordsCall) Send(*livev1.WatchRecordsResponse) error { return nil }

func TestARunThatCannotBeReadIsNotARunThatDoesNotExist(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := spatev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	certificate, key, err := tunnel.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	caller := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}}})
	runs := schema.GroupResource{Group: "spate.dev", Resource: "trafficruns"}
	ended := &spatev1.TrafficRun{}
	ended.Namespace, ended.Name, ended.Status.Phase = "tests", "web", spatev1.RunComplete
	for name, c := range map[string]struct {
		run  *spatev1.TrafficRun
		err  error
		want codes.Code
	}{
		"it does not exist":           {nil, nil, codes.NotFound},
		"it may not be read":          {nil, apierrors.NewForbidden(runs, "web", nil), codes.Unavailable},
		"the API server is not there": {nil, apierrors.NewServiceUnavailable("away"), codes.Unavailable},
		"it has ended":                {ended, nil, codes.FailedPrecondition},
	} {
		reader := &spatev1.TrafficRecordsReader{Spec: spatev1.TrafficRecordsReaderSpec{RunRef: spatev1.LocalReference{Name: "web"}, ReaderKey: key}}
		reader.Namespace, reader.Name = "tests", "kubectl-1"
		builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(reader).WithStatusSubresource(reader)
		if c.run != nil {
			builder = builder.WithObjects(c.run)
		}
		store := interceptor.NewClient(builder.Build(), interceptor.Funcs{
			Get: func(ctx context.Context, store client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if _, isRun := object.(*spatev1.TrafficRun); isRun && c.err != nil {
					return c.err
				}
				return store.Get(ctx, key, object, options...)
			},
		})
		err := (&Server{Client: store, Fresh: store}).WatchRecords(&livev1.WatchRecordsRequest{Namespace: "tests", Name: "kubectl-1", Pod: "lab-0"}, recordsCall{ctx: caller})
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
