// SPDX-License-Identifier: Apache-2.0

package pki

// This file answers: which certificates does the authority issue, and how long is one valid?

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"time"
)

// OperatorName is the identity of the operator: engines accept calls from no other.
const OperatorName = "operator.spate.dev"

// LiveName is the identity of the operator for readers of packets and records.
const LiveName = "live.spate.dev"

// ServerName returns the identity of all engines of a generator.
func ServerName(namespace, generator string) string {
	return fmt.Sprintf("%s.%s.engine.spate.dev", generator, namespace)
}

// Server returns the Secret data with a server certificate for the name, and the time to call again. The data given is
// returned unchanged as long as it is good.
func (a *Authority) Server(name string, have map[string][]byte, now time.Time) (data map[string][]byte, again time.Time, err error) {
	return a.keep(name, x509.ExtKeyUsageServerAuth, have, now)
}

// Client does the same for the operator's client certificate.
func (a *Authority) Client(have map[string][]byte, now time.Time) (data map[string][]byte, again time.Time, err error) {
	return a.keep(OperatorName, x509.ExtKeyUsageClientAuth, have, now)
}

func (a *Authority) keep(name string, use x509.ExtKeyUsage, have map[string][]byte, now time.Time) (map[string][]byte, time.Time, error) {
	if until, ok := a.goodUntil(name, use, have, now); ok {
		if bytes.Equal(have[TrustBundle], a.Bundle()) {
			return have, until, nil
		}
		return map[string][]byte{TrustBundle: a.Bundle(), Certificate: have[Certificate], PrivateKey: have[PrivateKey]}, until, nil
	}
	issued, err := a.issue(name, use, now)
	if err != nil {
		return nil, time.Time{}, err
	}
	key, err := encodeKey(issued.key)
	if err != nil {
		return nil, time.Time{}, err
	}
	data := map[string][]byte{TrustBundle: a.Bundle(), Certificate: encodeCertificate(issued.cert), PrivateKey: key}
	return data, renewAt(issued.cert), nil
}

// goodUntil returns when the certificate in the data must be renewed; not ok if that is now.
func (a *Authority) goodUntil(name string, use x509.ExtKeyUsage, have map[string][]byte, now time.Time) (time.Time, bool) {
	p, err := parsePair(have[Certificate], have[PrivateKey])
	if err != nil || !now.Before(renewAt(p.cert)) {
		return time.Time{}, false
	}
	roots := x509.NewCertPool()
	for _, c := range a.trusted {
		roots.AddCert(c)
	}
	_, err = p.cert.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use}})
	return renewAt(p.cert), err == nil
}

func (a *Authority) issue(name string, use x509.ExtKeyUsage, now time.Time) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return pair{}, err
	}
	until := now.Add(a.policy.CertLifetime)
	if a.signer.cert.NotAfter.Before(until) {
		until = a.signer.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    now.Add(-backdate),
		NotAfter:     until,
		DNSNames:     []string{name},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{use},
	}
	if len(name) <= 64 { // the limit of a common name (X.520); the DNS name is what peers check
		template.Subject = pkix.Name{CommonName: name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.signer.cert, key.Public(), a.signer.key)
	if err != nil {
		return pair{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return pair{cert: cert, key: key}, err
}
