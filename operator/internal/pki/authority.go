// SPDX-License-Identifier: Apache-2.0

// Package pki issues and rotates the certificates of the control channel between the operator and its engines.
//
// There is one certificate authority, stored in a Secret. It signs a server certificate for each generator and the
// operator's client certificate. Nothing needs a restart: engines read their files again when they change, and the
// operator fetches its certificate at every handshake.
package pki

// This file answers: what is the authority, and how does a successor replace it?

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// backdate is how far in the past a certificate's validity starts, so that a node whose clock is behind accepts it.
const backdate = 5 * time.Minute

// Policy is the lifetimes of certificates.
type Policy struct {
	// CALifetime is the validity of a certificate authority. Its successor is created when two thirds have passed.
	CALifetime time.Duration
	// CertLifetime is the validity of server and client certificates. They are renewed when two thirds have passed.
	CertLifetime time.Duration
	// Propagation is how long a new authority is only trusted before it signs, so that every engine has it in its
	// bundle by then. The kubelet takes up to about two minutes to update a mounted Secret.
	Propagation time.Duration
}

// DefaultPolicy renews certificates every two months.
func DefaultPolicy() Policy {
	return Policy{CALifetime: 10 * 365 * 24 * time.Hour, CertLifetime: 90 * 24 * time.Hour, Propagation: 10 * time.Minute}
}

// Validate refuses lifetimes with which a renewal would come too late.
func (p Policy) Validate() error {
	switch {
	case p.CertLifetime < time.Second:
		return fmt.Errorf("certificate lifetime %s: must be at least 1s", p.CertLifetime)
	case p.Propagation < 0:
		return fmt.Errorf("propagation time %s: must not be negative", p.Propagation)
	case p.CALifetime < 3*(p.CertLifetime+p.Propagation):
		return fmt.Errorf("CA lifetime %s: must be at least three times the certificate lifetime and the propagation time together (%s)",
			p.CALifetime, 3*(p.CertLifetime+p.Propagation))
	}
	return nil
}

// Keys of the authority's Secret. The other Secrets have TrustBundle, Certificate and PrivateKey, too.
const (
	TrustBundle = "ca.crt"
	Certificate = "tls.crt"
	PrivateKey  = "tls.key"

	nextCertificate = "next.crt"
	nextPrivateKey  = "next.key"
)

// Authority is a certificate authority with, at times, its successor.
type Authority struct {
	policy  Policy
	signer  pair
	next    *pair
	trusted []*x509.Certificate
}

type pair struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// NewAuthority creates an authority.
func NewAuthority(policy Policy, now time.Time) (*Authority, error) {
	signer, err := newCA(policy, now)
	if err != nil {
		return nil, err
	}
	return &Authority{policy: policy, signer: signer, trusted: []*x509.Certificate{signer.cert}}, nil
}

// ParseAuthority decodes an authority from its Secret's data.
func ParseAuthority(policy Policy, data map[string][]byte) (*Authority, error) {
	signer, err := parsePair(data[Certificate], data[PrivateKey])
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", Certificate, PrivateKey, err)
	}
	a := &Authority{policy: policy, signer: signer}
	if a.trusted, err = parseCertificates(data[TrustBundle]); err != nil {
		return nil, fmt.Errorf("%s: %w", TrustBundle, err)
	}
	if len(data[nextCertificate]) > 0 {
		next, err := parsePair(data[nextCertificate], data[nextPrivateKey])
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", nextCertificate, nextPrivateKey, err)
		}
		a.next = &next
	}
	return a, nil
}

// Advance does what is due at this time and reports whether anything changed: it creates a successor that is trusted,
// has the successor take over after the propagation time, and drops expired certificates from the bundle.
func (a *Authority) Advance(now time.Time) (changed bool, err error) {
	if a.next != nil && !now.Before(a.takeover()) {
		a.signer, a.next, changed = *a.next, nil, true
	}
	if !now.Before(a.signer.cert.NotAfter) {
		// The authority was not renewed in time: the operator was away for years. Start with a new authority.
		fresh, err := NewAuthority(a.policy, now)
		if err != nil {
			return false, err
		}
		*a = *fresh
		return true, nil
	}
	if a.next == nil && !now.Before(renewAt(a.signer.cert)) {
		if err := a.succeed(now); err != nil {
			return false, err
		}
		changed = true
	}
	kept := a.trusted[:0:0]
	for _, c := range a.trusted {
		if now.Before(c.NotAfter) {
			kept = append(kept, c)
		}
	}
	if len(kept) != len(a.trusted) {
		a.trusted, changed = kept, true
	}
	return changed, nil
}

// succeed creates a successor that is trusted and does not sign yet, unless there is one.
func (a *Authority) succeed(now time.Time) error {
	if a.next != nil {
		return nil
	}
	next, err := newCA(a.policy, now)
	if err != nil {
		return err
	}
	a.next = &next
	a.trusted = append(a.trusted, next.cert)
	return nil
}

// NextEvent returns the time at which Advance will have something to do.
func (a *Authority) NextEvent() time.Time {
	next := renewAt(a.signer.cert)
	if a.next != nil {
		next = a.takeover()
	}
	for _, c := range a.trusted {
		if c.NotAfter.Before(next) {
			next = c.NotAfter
		}
	}
	return next
}

func (a *Authority) takeover() time.Time {
	return a.next.cert.NotBefore.Add(backdate + a.policy.Propagation)
}

// Bundle returns the trusted certificates as PEM.
func (a *Authority) Bundle() []byte {
	var out bytes.Buffer
	for _, c := range a.trusted {
		out.Write(encodeCertificate(c))
	}
	return out.Bytes()
}

// Data returns the data of the authority's Secret.
func (a *Authority) Data() (map[string][]byte, error) {
	key, err := encodeKey(a.signer.key)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{TrustBundle: a.Bundle(), Certificate: encodeCertificate(a.signer.cert), PrivateKey: key}
	if a.next != nil {
		if data[nextPrivateKey], err = encodeKey(a.next.key); err != nil {
			return nil, err
		}
		data[nextCertificate] = encodeCertificate(a.next.cert)
	}
	return data, nil
}

func newCA(policy Policy, now time.Time) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		// The serial in the name keeps an authority and its successor apart when chains are built.
		Subject:               pkix.Name{CommonName: fmt.Sprintf("spate CA %x", serial.Bytes()[:4])},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(policy.CALifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return pair{}, err
	}
	cert, err := x509.ParseCertificate(der)
	return pair{cert: cert, key: key}, err
}

// renewAt returns when two thirds of a certificate's life, without the backdating, have passed.
func renewAt(c *x509.Certificate) time.Time {
	from := c.NotBefore.Add(backdate)
	return from.Add(c.NotAfter.Sub(from) * 2 / 3)
}

func newSerial() (*big.Int, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return nil, err
	}
	b[0] = b[0]&0x7f | 0x40 // positive, and always of full length
	return new(big.Int).SetBytes(b), nil
}

func parsePair(certPEM, keyPEM []byte) (pair, error) {
	certs, err := parseCertificates(certPEM)
	if err != nil {
		return pair{}, err
	}
	if len(certs) == 0 {
		return pair{}, errors.New("no certificate")
	}
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return pair{}, errors.New("no PEM private key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return pair{}, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return pair{}, fmt.Errorf("a %T is not an ECDSA key", parsed)
	}
	if !key.PublicKey.Equal(certs[0].PublicKey) {
		return pair{}, errors.New("the private key does not belong to the certificate")
	}
	return pair{cert: certs[0], key: key}, nil
}

func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return certs, nil
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
}

func encodeCertificate(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
