// SPDX-License-Identifier: Apache-2.0

// Package engine calls engines; engine/proto has the contract.
package engine

// This file answers: which connection is used for an engine, and how long is it open?

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/metrics"
	"spate.dev/operator/internal/pki"
)

// CredentialSource returns the credentials for calling engines of a server name; pki.Store is one.
type CredentialSource interface {
	Credentials(ctx context.Context, serverName string) (pki.Credentials, error)
}

// Target is one engine.
type Target struct {
	// Address is host:port, or "unix:" and a path. A Unix socket is used without TLS.
	Address string
	// ServerName is the identity that the engine's certificate must have.
	ServerName string
}

func (t Target) local() bool { return strings.HasPrefix(t.Address, "unix:") }

// idleAfter is the time after which unused connections are closed.
const idleAfter = 5 * time.Minute

// Pool keeps one connection for each engine.
type Pool struct {
	source CredentialSource

	mu    sync.Mutex
	conns map[Target]*entry
}

type entry struct {
	conn    *grpc.ClientConn
	version [sha256.Size]byte
	used    time.Time
	clock   *tracker
}

// NewPool returns a pool whose connections use the source's credentials.
func NewPool(source CredentialSource) *Pool {
	return &Pool{source: source, conns: map[Target]*entry{}}
}

// Client returns a client of the engine. It does not wait for a connection; calls do, until their deadline.
func (p *Pool) Client(ctx context.Context, target Target) (*Client, error) {
	creds, version := insecure.NewCredentials(), [sha256.Size]byte{}
	if !target.local() {
		c, err := p.source.Credentials(ctx, target.ServerName)
		if err != nil {
			return nil, err
		}
		creds, version = credentials.NewTLS(c.TLS), c.Version
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeIdle()
	e := p.conns[target]
	if e == nil || e.version != version {
		known := &tracker{}
		if e != nil {
			_ = e.conn.Close() // a new trust bundle; active calls fail and are repeated
			known = e.clock
		}
		conn, err := dial(target, creds)
		if err != nil {
			return nil, err
		}
		e = &entry{conn: conn, version: version, clock: known}
		p.conns[target] = e
	}
	e.used = time.Now()
	return &Client{rpc: enginev1.NewEngineClient(e.conn), clock: e.clock}, nil
}

// Close closes all connections.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for target, e := range p.conns {
		_ = e.conn.Close()
		delete(p.conns, target)
	}
}

func (p *Pool) closeIdle() {
	for target, e := range p.conns {
		if time.Since(e.used) > idleAfter {
			_ = e.conn.Close()
			delete(p.conns, target)
		}
	}
}

func dial(target Target, creds credentials.TransportCredentials, options ...grpc.DialOption) (*grpc.ClientConn, error) {
	address := target.Address
	if !target.local() {
		address = "passthrough:///" + address // a pod's IP needs no resolver
	}
	return grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithNoProxy(),
		// A connection is kept for each engine, and its calls are small: the defaults are 32 KiB each way.
		grpc.WithReadBufferSize(4 << 10), grpc.WithWriteBufferSize(4 << 10),
		grpc.WithChainUnaryInterceptor(metrics.EngineCall),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)), // statistics of 20,000 streams
	}, options...)...)
}
