// SPDX-License-Identifier: Apache-2.0

package tunnel

// This file answers: how does a reader connect to the operator?

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"

	spatev1 "spate.dev/api/v1alpha1"
)

// reconnect is the delay before a broken connection is restored.
var reconnect = backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second}

// maxAnswer is more than an engine puts into one response.
const maxAnswer = 16 << 20

// Dialer connects to the operator through the API server.
type Dialer struct {
	Config   *rest.Config
	Endpoint spatev1.LiveEndpoint
	// Certificate has the reader's key.
	Certificate tls.Certificate

	mu     sync.Mutex
	failed error
}

// Client returns a connection for calls, which the caller closes. It does not wait for the operator; calls do. A broken connection is
// restored.
func (d *Dialer) Client() (*grpc.ClientConn, error) {
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM([]byte(d.Endpoint.TrustBundle)) {
		return nil, errors.New("status.endpoint.trustBundle has no certificate")
	}
	return grpc.NewClient("passthrough:///"+d.Endpoint.ServerName,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return d.dial(ctx) }),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
			MinVersion: tls.VersionTLS13, ServerName: d.Endpoint.ServerName, RootCAs: trusted, Certificates: []tls.Certificate{d.Certificate},
		})),
		grpc.WithNoProxy(), // the WebSocket goes through the HTTP proxy, if there is one
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 20 * time.Second}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
}

// Failed returns why the last attempt to reach the operator failed; nil if it did not.
func (d *Dialer) Failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

func (d *Dialer) dial(ctx context.Context) (net.Conn, error) {
	conn, err := d.open(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failed = err
	return conn, err
}

func (d *Dialer) open(ctx context.Context) (net.Conn, error) {
	clients, err := kubernetes.NewForConfig(d.Config)
	if err != nil {
		return nil, err
	}
	transport, holder, err := websocket.RoundTripperFor(d.Config)
	if err != nil {
		return nil, err
	}
	url := clients.CoreV1().RESTClient().Get().Namespace(d.Endpoint.Namespace).Resource("services").
		Name(d.Endpoint.Service + ":" + d.Endpoint.Port).SubResource("proxy").Suffix(Path).URL()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url.String(), nil)
	if err != nil {
		return nil, err
	}
	socket, err := websocket.Negotiate(transport, holder, request, protocol)
	if refused := (&httpstream.UpgradeFailureError{}); errors.As(err, &refused) {
		return nil, refused.Cause // it has the API server's reason
	}
	if err != nil {
		return nil, err
	}
	return portforward.NewTunnelingConnection("operator", socket), nil
}
