// SPDX-License-Identifier: Apache-2.0

package pki

// This file answers: how do the authority and its certificates live in the cluster's Secrets?

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

// Store keeps the authority in its Secret. It writes only when something is due.
type Store struct {
	Client    client.Client
	Namespace string
	Labels    map[string]string
	Policy    Policy
	Clock     clock.PassiveClock

	mu     sync.Mutex
	issued map[string][]byte // the operator's client certificate, held in memory only
}

// Authority returns the authority as it must be now, making or renewing it if that is due.
func (s *Store) Authority(ctx context.Context) (*Authority, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.Namespace, Name: SecretName}
	err := s.Client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return s.create(ctx)
	}
	if err != nil {
		return nil, err
	}
	a, err := ParseAuthority(s.Policy, secret.Data)
	if err != nil {
		return nil, fmt.Errorf("the Secret %s is damaged (delete it to have a new one made): %w", key, err)
	}
	changed, err := a.Advance(s.Clock.Now())
	if err != nil || !changed {
		return a, err
	}
	if secret.Data, err = a.Data(); err != nil {
		return nil, err
	}
	return a, s.Client.Update(ctx, secret)
}

func (s *Store) create(ctx context.Context) (*Authority, error) {
	a, err := NewAuthority(s.Policy, s.Clock.Now())
	if err != nil {
		return nil, err
	}
	data, err := a.Data()
	if err != nil {
		return nil, err
	}
	return a, s.Client.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: SecretName, Labels: maps.Clone(s.Labels)},
		Type:       corev1.SecretTypeTLS,
		Data:       data,
	})
}

// Credentials are what a connection to an engine needs. The version changes with the trust bundle; the client
// certificate is asked for at every handshake.
type Credentials struct {
	TLS     *tls.Config
	Version [sha256.Size]byte
}

// Credentials returns those for calling the engines that hold the server name.
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
	a, err := s.Authority(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.issued, _, err = a.Client(s.issued, s.Clock.Now()); err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(s.issued[Certificate], s.issued[PrivateKey])
	return &cert, err
}

// EnsureServer keeps a Secret with a server certificate for the name. The object given names the Secret and carries
// the labels and the owner it is to have. It returns the instant to call again.
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
	return again, err
}
