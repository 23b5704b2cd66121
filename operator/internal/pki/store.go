// SPDX-License-Identifier: Apache-2.0

package pki

// This file answers: how are the authority and its certificates stored in the cluster's Secrets?

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretName is the name of the authority's Secret, in the operator's namespace.
const SecretName = "spate-ca"

// Store keeps the authority in its Secret. It writes only when a change is due.
type Store struct {
	Client    client.Client
	Namespace string
	Labels    map[string]string
	Policy    Policy
	Clock     clock.PassiveClock
	// Restored, if set, is called with the Secret that was created again after its deletion.
	Restored func(*corev1.Secret)
	// Issued, if set, is called with the names of the authority's certificate and of engines', and when they end. Those of the operator are
	// only in memory, and are issued again at a handshake if that is due.
	Issued func(name string, end time.Time)

	mu sync.Mutex
	// The operator's own certificates, kept in memory only: for calling engines, and for serving readers.
	client, live map[string][]byte
	last         map[string][]byte // the last known data of the authority's Secret: what engines trust if the Secret is deleted
}

// Authority returns the current authority. It creates or renews it if that is due.
func (s *Store) Authority(ctx context.Context) (*Authority, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.Namespace, Name: SecretName}
	err := s.Client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return s.missing(ctx)
	}
	if err != nil {
		return nil, err
	}
	a, err := ParseAuthority(s.Policy, secret.Data)
	if err != nil {
		return nil, fmt.Errorf("the Secret %s is damaged (delete it, and the operator creates a new one): %w", key, err)
	}
	changed, err := a.Advance(s.Clock.Now())
	if err == nil && changed {
		if secret.Data, err = a.Data(); err == nil {
			err = s.Client.Update(ctx, secret)
		}
	}
	if err != nil {
		return nil, err
	}
	if s.Issued != nil {
		s.Issued(SecretName, a.signer.cert.NotAfter)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = secret.Data
	return a, nil
}

// missing creates the authority's Secret. The first time it has a new authority. After a deletion it has the authority
// that all engines trust, with a successor that takes over when they trust it, too: a deletion renews the authority and
// disconnects no engine.
func (s *Store) missing(ctx context.Context) (*Authority, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.successor()
	if err != nil {
		return nil, err
	}
	data, err := a.Data()
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: SecretName, Labels: maps.Clone(s.Labels)},
		Type:       corev1.SecretTypeTLS,
		Data:       data,
	}
	err = s.Client.Create(ctx, secret)
	switch {
	case apierrors.IsAlreadyExists(err) && s.last != nil: // the cache is behind
		return ParseAuthority(s.Policy, s.last)
	case err != nil:
		return nil, err
	case s.last != nil && s.Restored != nil:
		s.Restored(secret)
	}
	s.last = data
	return a, nil
}

// successor returns the last authority with a successor; a new authority if there was none.
func (s *Store) successor() (*Authority, error) {
	now := s.Clock.Now()
	if s.last == nil {
		return NewAuthority(s.Policy, now)
	}
	a, err := ParseAuthority(s.Policy, s.last)
	if err != nil {
		return nil, err
	}
	if _, err := a.Advance(now); err != nil {
		return nil, err
	}
	return a, a.succeed(now)
}

// Credentials are what a connection to an engine needs. The version changes with the trust bundle; the client
// certificate is fetched at every handshake.
type Credentials struct {
	TLS     *tls.Config
	Version [sha256.Size]byte
}

// Credentials returns those for calling the engines with the server name.
func (s *Store) Credentials(ctx context.Context, serverName string) (Credentials, error) {
	a, err := s.Authority(ctx)
	if err != nil {
		return Credentials{}, err
	}
	pool := x509.NewCertPool()
	for _, c := range a.trusted {
		pool.AddCert(c)
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		RootCAs:    pool,
		Time:       s.Clock.Now,
		GetClientCertificate: func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return s.clientCertificate(info.Context())
		},
	}
	return Credentials{TLS: config, Version: sha256.Sum256(a.Bundle())}, nil
}

func (s *Store) clientCertificate(ctx context.Context) (*tls.Certificate, error) {
	return s.certificate(ctx, &s.client, (*Authority).Client)
}

// certificate returns the cached certificate, issued again if that is due.
func (s *Store) certificate(ctx context.Context, kept *map[string][]byte, issue func(*Authority, map[string][]byte, time.Time) (map[string][]byte, time.Time, error)) (*tls.Certificate, error) {
	a, err := s.Authority(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if *kept, _, err = issue(a, *kept, s.Clock.Now()); err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair((*kept)[Certificate], (*kept)[PrivateKey])
	return &cert, err
}

// LiveServer returns the TLS configuration for serving readers. It accepts any client certificate: a reader is
// authorized by its key.
func (s *Store) LiveServer() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAnyClientCert,
		Time:       s.Clock.Now,
		GetCertificate: func(info *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.liveCertificate(info.Context())
		},
	}
}

func (s *Store) liveCertificate(ctx context.Context) (*tls.Certificate, error) {
	return s.certificate(ctx, &s.live, func(a *Authority, have map[string][]byte, now time.Time) (map[string][]byte, time.Time, error) {
		return a.Server(LiveName, have, now)
	})
}

// EnsureServer keeps a Secret with a server certificate for the name. The object given names the Secret and has its
// labels and owner. EnsureServer returns the time at which to call it again.
func (s *Store) EnsureServer(ctx context.Context, want *corev1.Secret, serverName string) (time.Time, error) {
	a, err := s.Authority(ctx)
	if err != nil {
		return time.Time{}, err
	}
	have := &corev1.Secret{}
	err = s.Client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if client.IgnoreNotFound(err) != nil {
		return time.Time{}, err
	}
	missing := apierrors.IsNotFound(err)
	data, again, err := a.Server(serverName, have.Data, s.Clock.Now())
	if err != nil {
		return time.Time{}, err
	}
	if next := a.NextEvent(); next.Before(again) {
		again = next
	}
	switch {
	case missing:
		want.Type, want.Data = corev1.SecretTypeTLS, data
		err = s.Client.Create(ctx, want)
	case !maps.EqualFunc(have.Data, data, bytes.Equal):
		have.Data = data
		err = s.Client.Update(ctx, have)
	}
	if err != nil || s.Issued == nil {
		return again, err
	}
	certificates, err := parseCertificates(data[Certificate])
	if len(certificates) > 0 {
		s.Issued(serverName, certificates[0].NotAfter)
	}
	return again, err
}
