// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	clocks "k8s.io/utils/clock/testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/pki"
)

// proxied serves a listener at the path at which the API server's proxy has it.
func proxied(t *testing.T, listener http.Handler) *Dialer {
	t.Helper()
	const path = "/api/v1/namespaces/spate-system/services/spate-live:live/proxy"
	mux := http.NewServeMux()
	mux.Handle(path+"/", http.StripPrefix(path, listener))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &Dialer{Config: &rest.Config{Host: server.URL}, Endpoint: spatev1.LiveEndpoint{Namespace: "spate-system", Service: "spate-live", Port: "live", ServerName: pki.LiveName}}
}

func TestBytesPassBothWaysUntilAnEndCloses(t *testing.T) {
	listener := NewListener(&net.TCPAddr{}, 1)
	dialer := proxied(t, listener)
	near, err := dialer.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	sent := bytes.Repeat([]byte("0123456789"), 3000)
	go func() { _, _ = far.Write(sent); _ = far.Close() }()
	if got, err := io.ReadAll(near); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	_ = near.Close()
	// The place is free again, for exactly one connection.
	if near, err = dialer.dial(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	if far, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	defer listener.Keep(far.RemoteAddr())()
	if _, err := dialer.dial(t.Context()); err == nil || !strings.Contains(err.Error(), "1 readers are connected to the operator, which is the maximum") || dialer.Failed() == nil {
		t.Errorf("got %v", err)
	}
	_ = listener.Close()
	if _, err := listener.Accept(); err == nil {
		t.Error("a closed listener accepts")
	}
}

// Idle connections, on which nothing is read, keep no reader out.
func TestTheOldestConnectionThatIsNotKeptGivesWay(t *testing.T) {
	listener := NewListener(&net.TCPAddr{}, 3)
	dialer := proxied(t, listener)
	open := func() (ended chan struct{}, far net.Conn) {
		near, err := dialer.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if far, err = listener.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = near.Close() })
		ended = make(chan struct{})
		go func() {
			_, _ = near.Read(make([]byte, 1))
			close(ended)
		}()
		return ended, far
	}
	ends := func(one chan struct{}, within time.Duration) bool {
		select {
		case <-one:
			return true
		case <-time.After(within):
			return false
		}
	}
	reading, itsEnd := open()
	over := listener.Keep(itsEnd.RemoteAddr())
	idle, _ := open()
	young, _ := open()
	open()
	if !ends(idle, 10*time.Second) || ends(reading, 300*time.Millisecond) || ends(young, 300*time.Millisecond) {
		t.Error("not the oldest that is not kept has ended")
	}
	over()
	over()
	open()
	if !ends(reading, 10*time.Second) {
		t.Error("it is kept although nothing is read any more")
	}
}

func TestWhyTheAPIServerRefusesIsKept(t *testing.T) {
	dialer := proxied(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"services \"spate-live:live\" is forbidden","reason":"Forbidden","code":403}`)
	}))
	if _, err := dialer.dial(t.Context()); !apierrors.IsForbidden(err) || !apierrors.IsForbidden(dialer.Failed()) {
		t.Errorf("got %v", err)
	}
}

// connected returns both ends of a connection.
func connected(t *testing.T) (near, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if near, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// Both ends authenticate: the reader trusts the authority's certificate only, the operator gets the reader's key.
func TestBothEndsAreAuthenticated(t *testing.T) {
	policy := pki.DefaultPolicy()
	authority, err := pki.NewAuthority(policy, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.NewAuthority(policy, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := authority.Server(pki.LiveName, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.X509KeyPair(data[pki.Certificate], data[pki.PrivateKey])
	if err != nil {
		t.Fatal(err)
	}
	server := (&pki.Store{Clock: clocks.NewFakePassiveClock(time.Now())}).LiveServer()
	server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil }
	certificate, key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		bundle []byte
		shown  []tls.Certificate
		good   bool
	}{
		"both":               {authority.Bundle(), []tls.Certificate{certificate}, true},
		"another authority":  {other.Bundle(), []tls.Certificate{certificate}, false},
		"a reader without a": {authority.Bundle(), nil, false},
	} {
		near, far := connected(t)
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(c.bundle)
		shaken := make(chan error, 1)
		peer := tls.Server(far, server)
		go func() { shaken <- peer.HandshakeContext(t.Context()); _ = far.Close() }()
		client := tls.Client(near, &tls.Config{MinVersion: tls.VersionTLS13, ServerName: pki.LiveName, RootCAs: pool, Certificates: c.shown})
		err := client.HandshakeContext(t.Context())
		_ = near.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = client.Read(make([]byte, 1))
		_ = near.Close()
		if served := <-shaken; (err == nil && served == nil) != c.good {
			t.Errorf("%s: %v, %v", name, err, served)
		}
		if c.good && KeyOf(peer.ConnectionState().PeerCertificates[0]) != key {
			t.Errorf("%s: another key", name)
		}
	}
}
