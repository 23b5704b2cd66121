// SPDX-License-Identifier: Apache-2.0

// Package live streams packets, records and counters to readers while a run produces them.
package live

// This file answers: where are readers served, and by which replica?

import (
	"context"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/live/tunnel"
	"spate.dev/operator/internal/pki"
)

const (
	// maxConnections of readers, including those that have not called anything yet. One more closes the oldest of the
	// latter.
	maxConnections = 64
	// handshakeLimit bounds the TLS handshake of a connection.
	handshakeLimit = 10 * time.Second
	// keepalive detects readers that are gone.
	keepaliveTime, keepaliveTimeout = 20 * time.Second, 20 * time.Second
	// idleLimit ends connections without calls.
	idleLimit = time.Minute
)

// Server streams from engines what readers are authorized for. Every replica of the operator serves: a server has no
// state that another replica needs.
type Server struct {
	livev1.UnimplementedLiveServer

	Client client.Client
	// Fresh reads objects from the API server, not the cache.
	Fresh        client.Reader
	Certificates *pki.Store
	// Address to listen on.
	Address string

	// places of readers of packets, replies and records; watchers has those of readers of counters, who are many more users.
	places, watchers places
	tunnels          *tunnel.Listener
}

// NeedLeaderElection is false: all replicas serve.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until the context ends.
func (s *Server) Start(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return err
	}
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	tunnels := tunnel.NewListener(listener.Addr(), maxConnections)
	s.tunnels = tunnels
	calls := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(s.Certificates.LiveServer())),
		grpc.ConnectionTimeout(handshakeLimit),
		grpc.MaxRecvMsgSize(64<<10),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleLimit, Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepaliveTime / 2, PermitWithoutStream: true}),
	)
	livev1.RegisterLiveServer(calls, s)
	mux := http.NewServeMux()
	mux.Handle("GET "+tunnel.Path, tunnels)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: handshakeLimit}

	ended := make(chan error, 2)
	var err error
	go func() { ended <- calls.Serve(tunnels) }()
	go func() { ended <- web.Serve(listener) }()
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	calls.Stop() // readers connect to another replica
	_ = web.Close()
	return err
}
