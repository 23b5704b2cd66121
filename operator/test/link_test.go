// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: how is one program cut off from another, and healed?

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// linkState says what becomes of bytes on a link.
type linkState int

const (
	linkOpen    linkState = iota
	linkSilent            // nothing arrives, and no error is returned: a partition
	linkSlow              // answers take slowAnswer longer
	linkRefused           // connections end, and new ones are refused: the other end is down
)

// slowAnswer is long enough to see what a request has done before who made it knows.
const slowAnswer = 400 * time.Millisecond

// link forwards TCP connections from an address to another until it is cut. Bytes under way while it is silent arrive when it
// is open again, as TCP's retransmission would have it.
type link struct {
	target string

	mu       sync.Mutex
	changed  *sync.Cond
	state    linkState
	listener net.Listener
	address  string
	conns    map[net.Conn]bool
	closed   bool
}

// newLink forwards what comes to the address, with port 0 to a free one.
func newLink(address, target string) (*link, error) {
	l := &link{target: target, conns: map[net.Conn]bool{}}
	l.changed = sync.NewCond(&l.mu)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l, l.listen(address)
}

func (l *link) listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	l.listener, l.address = listener, listener.Addr().String()
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // it was refused or closed
			}
			go l.connect(near)
		}
	}()
	return nil
}

// set changes what becomes of bytes from now on.
func (l *link) set(state linkState) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.changed.Broadcast()
	l.state = state
	if state == linkRefused {
		l.hangUp()
		return nil
	}
	if l.listener == nil {
		return l.listen(l.address)
	}
	return nil
}

// hangUp ends all connections and takes no more.
func (l *link) hangUp() {
	if l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
	for conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}

func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.hangUp()
	l.changed.Broadcast()
}

// passes waits until bytes may go on; false if they never will.
func (l *link) passes(answers bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && l.state == linkSilent {
		l.changed.Wait()
	}
	if !l.closed && l.state == linkSlow && answers {
		l.mu.Unlock()
		time.Sleep(slowAnswer)
		l.mu.Lock()
	}
	return !l.closed
}

func (l *link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.state == linkRefused {
		return false
	}
	l.conns[conn] = true
	return true
}

func (l *link) drop(conn net.Conn) {
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

func (l *link) connect(near net.Conn) {
	defer l.drop(near)
	if !l.keep(near) || !l.passes(false) {
		return
	}
	far, err := net.DialTimeout("tcp", l.target, 5*time.Second)
	if err != nil {
		return
	}
	defer l.drop(far)
	if !l.keep(far) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.forward(far, near, false) })
	both.Go(func() { l.forward(near, far, true) })
	both.Wait()
}

// forward copies one direction until either side ends.
func (l *link) forward(to, from net.Conn, answers bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !l.passes(answers) {
				break
			}
			if _, failed := to.Write(buffer[:n]); failed != nil {
				break
			}
		}
		if errors.Is(err, io.EOF) && l.passes(answers) {
			if half, ok := to.(*net.TCPConn); ok && half.CloseWrite() == nil {
				return
			}
		}
		if err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
}
