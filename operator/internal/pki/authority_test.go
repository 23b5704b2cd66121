// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

var testPolicy = Policy{CALifetime: 100 * time.Hour, CertLifetime: 9 * time.Hour, Propagation: time.Hour}

func newTestAuthority(t *testing.T, now time.Time) *Authority {
	t.Helper()
	a, err := NewAuthority(testPolicy, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// handshake connects with mTLS at the given time and returns the client's error.
func handshake(t *testing.T, server, client map[string][]byte, name string, now time.Time) error {
	t.Helper()
	config := func(data map[string][]byte) *tls.Config {
		cert, err := tls.X509KeyPair(data[Certificate], data[PrivateKey])
		if err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(data[TrustBundle])
		return &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool,
			ClientAuth: tls.RequireAndVerifyClientCert, ServerName: name, Time: func() time.Time { return now },
		}
	}
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	served := make(chan error, 1)
	go func() {
		err := tls.Server(far, config(server)).Handshake()
		_ = far.Close()
		served <- err
	}()
	conn := tls.Client(near, config(client))
	if err := conn.Handshake(); err != nil {
		return err
	}
	_, _ = conn.Read(make([]byte, 1)) // reads the server's alert or its close
	return <-served
}

func TestCertificateIsKeptUntilTwoThirdsOfItsLife(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	a := newTestAuthority(t, clock.Now())
	first, again, err := a.Server("g.ns.engine.spate.dev", nil, clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	if want := clock.Now().Add(6 * time.Hour); !again.Equal(want) {
		t.Errorf("renewal at %s, want %s", again, want)
	}
	clock.SetTime(again.Add(-time.Second))
	if same, _, _ := a.Server("g.ns.engine.spate.dev", first, clock.Now()); !bytes.Equal(same[Certificate], first[Certificate]) {
		t.Error("renewed too early")
	}
	clock.SetTime(again)
	if renewed, _, _ := a.Server("g.ns.engine.spate.dev", first, clock.Now()); bytes.Equal(renewed[Certificate], first[Certificate]) {
		t.Error("not renewed in time")
	}
}

func TestCertificateForAnotherNameOrUseIsReplaced(t *testing.T) {
	now := time.Now()
	a := newTestAuthority(t, now)
	server, _, err := a.Server("a.ns.engine.spate.dev", nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if other, _, _ := a.Server("b.ns.engine.spate.dev", server, now); bytes.Equal(other[Certificate], server[Certificate]) {
		t.Error("a certificate for another name was kept")
	}
	if client, _, _ := a.Client(server, now); bytes.Equal(client[Certificate], server[Certificate]) {
		t.Error("a server certificate was kept as a client's")
	}
	client, _, _ := a.Client(nil, now)
	if err := handshake(t, server, client, "a.ns.engine.spate.dev", now); err != nil {
		t.Error(err)
	}
	if err := handshake(t, server, client, "b.ns.engine.spate.dev", now); err == nil {
		t.Error("connected to a server with another name")
	}
	if err := handshake(t, server, server, "a.ns.engine.spate.dev", now); err == nil {
		t.Error("a server certificate passed for a client's")
	}
}

// The test steps through two generations of authorities. Owners renew certificates at the time Server returned, engines
// get their files one propagation time late: no handshake may fail at any time.
func TestRolloverNeverBreaksTheChannel(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	const name = "g.ns.engine.spate.dev"
	a := newTestAuthority(t, clock.Now())
	firstCA := a.signer.cert
	var server, client map[string][]byte
	type mounted struct {
		at   time.Time
		data map[string][]byte
	}
	var history []mounted
	step := testPolicy.Propagation / 4
	takeovers := 0
	for end := clock.Now().Add(250 * time.Hour); clock.Now().Before(end); clock.SetTime(clock.Now().Add(step)) {
		now := clock.Now()
		signer := a.signer.cert
		if _, err := a.Advance(now); err != nil {
			t.Fatal(err)
		}
		if !signer.Equal(a.signer.cert) {
			takeovers++
		}
		if !a.NextEvent().After(now) {
			t.Fatalf("%s: next event %s is not in the future", now, a.NextEvent())
		}
		// The authority is stored in a Secret between any two steps.
		data, err := a.Data()
		if err != nil {
			t.Fatal(err)
		}
		if a, err = ParseAuthority(testPolicy, data); err != nil {
			t.Fatal(err)
		}
		if server, _, err = a.Server(name, server, now); err != nil {
			t.Fatal(err)
		}
		if client, _, err = a.Client(client, now); err != nil {
			t.Fatal(err)
		}
		history = append(history, mounted{now, server})
		seen := server
		for _, h := range history {
			if !h.at.After(now.Add(-testPolicy.Propagation)) {
				seen = h.data
			}
		}
		if err := handshake(t, seen, client, name, now); err != nil {
			t.Fatalf("%s: %v", now, err)
		}
	}
	if takeovers != 3 {
		t.Errorf("%d takeovers in 250 h of authorities living 100 h, want 3", takeovers)
	}
	for _, c := range a.trusted {
		if c.Equal(firstCA) {
			t.Error("the first authority is still trusted after its expiry")
		}
	}
}

func TestExpiredAuthorityIsReplaced(t *testing.T) {
	now := time.Now()
	a := newTestAuthority(t, now)
	old := a.signer.cert
	changed, err := a.Advance(now.Add(testPolicy.CALifetime))
	if err != nil || !changed || a.signer.cert.Equal(old) || len(a.trusted) != 1 {
		t.Errorf("changed=%v err=%v trusted=%d", changed, err, len(a.trusted))
	}
}

func TestPolicyRefusesWhatCannotRotate(t *testing.T) {
	for name, p := range map[string]Policy{
		"no certificate lifetime": {CALifetime: time.Hour},
		"negative propagation":    {CALifetime: time.Hour, CertLifetime: time.Minute, Propagation: -1},
		"CA too short":            {CALifetime: time.Hour, CertLifetime: 30 * time.Minute},
	} {
		if p.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := DefaultPolicy().Validate(); err != nil {
		t.Error(err)
	}
}

func TestDamagedSecretIsNamed(t *testing.T) {
	now := time.Now()
	data, _ := newTestAuthority(t, now).Data()
	other, _ := newTestAuthority(t, now).Data()
	data[PrivateKey] = other[PrivateKey]
	if _, err := ParseAuthority(testPolicy, data); err == nil {
		t.Error("a key of another certificate was accepted")
	}
}
