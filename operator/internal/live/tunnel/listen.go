// SPDX-License-Identifier: Apache-2.0

// Package tunnel carries a TLS connection between a reader and the operator through the API server's proxy of a Service. The API server
// says who may pass; what passes it cannot read or change. Both ends are here.
package tunnel

// This file answers: how do connections arrive at the operator?

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/portforward"
)

const (
	// Path of the tunnel at the operator.
	Path = "/live"
	// protocol is the WebSocket's subprotocol (RFC 6455 section 1.9): a stream of bytes in binary messages.
	protocol = "v1.live.spate.dev"
	// maxMessage is more than a reader sends at once: its messages are TLS records of 16 KiB.
	maxMessage = 64 << 10
)

// Listener gives the connections that arrive as WebSockets.
type Listener struct {
	address net.Addr
	arrived chan net.Conn
	places  chan struct{}
	closed  chan struct{}
	close   sync.Once
}

// NewListener takes that many connections at a time. The address is where the WebSockets are served.
func NewListener(address net.Addr, most int) *Listener {
	return &Listener{address: address, arrived: make(chan net.Conn), places: make(chan struct{}, most), closed: make(chan struct{})}
}

// ServeHTTP makes a connection of a WebSocket.
func (l *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case l.places <- struct{}{}:
	default:
		full(w, cap(l.places))
		return
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{protocol}}
	socket, err := upgrader.Upgrade(w, r, nil)
	if err != nil { // it has answered
		<-l.places
		return
	}
	socket.SetReadLimit(maxMessage)
	conn := &placed{Conn: portforward.NewTunnelingConnection("reader", socket), leave: func() { <-l.places }}
	select {
	case l.arrived <- conn:
	case <-l.closed:
		_ = conn.Close()
	}
}

// full refuses as an API server does, so that the reader gets the reason.
func full(w http.ResponseWriter, most int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	message := fmt.Sprintf("%d readers are connected to the operator, and no more can be: end one (kubectl get trafficcaptures,trafficrecordsreaders -A)", most)
	_ = json.NewEncoder(w).Encode(apierrors.NewServiceUnavailable(message).ErrStatus)
}

// Accept gives the next connection.
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

// placed is a connection that leaves its place when it is closed.
type placed struct {
	net.Conn
	once  sync.Once
	leave func()
}

func (p *placed) Close() error {
	defer p.once.Do(p.leave)
	return p.Conn.Close()
}
