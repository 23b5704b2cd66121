// SPDX-License-Identifier: Apache-2.0

// Package tunnel carries a TLS connection between a reader and the operator through the API server's proxy of a
// Service. The API server permits the connection; it can neither read nor change what passes. Both ends are here.
package tunnel

// This file answers: how do connections arrive at the operator?

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/portforward"
)

const (
	// Path of the tunnel's endpoint on the operator.
	Path = "/live"
	// protocol is the WebSocket's subprotocol (RFC 6455 section 1.9): a stream of bytes in binary messages.
	protocol = "v1.live.spate.dev"
	// maxMessage is more than a reader sends at once: its messages are TLS records of 16 KiB.
	maxMessage = 64 << 10
)

// Listener accepts the connections that arrive as WebSockets.
type Listener struct {
	address net.Addr
	arrived chan net.Conn
	closed  chan struct{}
	close   sync.Once

	mu    sync.Mutex
	limit int
	held  []*placed // the oldest first
}

// NewListener returns a listener of at most that many connections. One more closes the oldest that is not kept. The
// address is where the WebSockets are served.
func NewListener(address net.Addr, limit int) *Listener {
	return &Listener{address: address, arrived: make(chan net.Conn), closed: make(chan struct{}), limit: limit}
}

// ServeHTTP upgrades a request to a connection.
func (l *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !l.hasRoom() {
		full(w, l.limit)
		return
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{protocol}}
	socket, err := upgrader.Upgrade(w, r, nil)
	if err != nil { // Accept has responded
		return
	}
	socket.SetReadLimit(maxMessage)
	conn := &placed{Conn: portforward.NewTunnelingConnection("reader", socket), listener: l}
	if !l.place(conn) { // others took the room meanwhile
		_ = conn.Close()
		return
	}
	select {
	case l.arrived <- conn:
	case <-l.closed:
		_ = conn.Close()
	}
}

// hasRoom reports whether one more connection can be accepted, possibly in place of another.
func (l *Listener) hasRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) < l.limit || slices.ContainsFunc(l.held, (*placed).replaceable)
}

// place adds a connection. If there is no room, it replaces the oldest that is not kept.
func (l *Listener) place(conn *placed) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) >= l.limit {
		at := slices.IndexFunc(l.held, (*placed).replaceable)
		if at < 0 {
			return false
		}
		go l.held[at].Conn.Close() // removed from the list; its server closes it, too
		l.held = slices.Delete(l.held, at, at+1)
	}
	l.held = append(l.held, conn)
	return true
}

// Keep protects the connection from an address, whose reader was admitted, from being replaced until over is called.
func (l *Listener) Keep(from net.Addr) (over func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.held, func(p *placed) bool { return p.RemoteAddr().String() == from.String() })
	if at < 0 { // it has just ended
		return func() {}
	}
	conn := l.held[at]
	conn.kept++
	var once sync.Once
	return func() {
		once.Do(func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			conn.kept--
		})
	}
}

func (l *Listener) leave(conn *placed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = slices.DeleteFunc(l.held, func(other *placed) bool { return other == conn })
}

// full refuses as an API server does, so that the reader gets the reason.
func full(w http.ResponseWriter, limit int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	message := fmt.Sprintf("%d readers are connected to the operator, which is the maximum: end one (kubectl get trafficcaptures,trafficpings,trafficrecordsreaders,trafficstatsreaders -A)", limit)
	_ = json.NewEncoder(w).Encode(apierrors.NewServiceUnavailable(message).ErrStatus)
}

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.arrived:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close takes no more connections.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// Addr is where the WebSockets are served.
func (l *Listener) Addr() net.Addr { return l.address }

// placed is a connection that frees its place when it is closed.
type placed struct {
	net.Conn

	listener *Listener
	kept     int // guarded by the listener
}

func (p *placed) replaceable() bool { return p.kept == 0 }

func (p *placed) Close() error {
	p.listener.leave(p)
	return p.Conn.Close()
}
