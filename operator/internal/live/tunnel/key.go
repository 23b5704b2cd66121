// SPDX-License-Identifier: Apache-2.0

package tunnel

// This file answers: which key identifies a reader?

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"math/big"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
)

// KeyOf returns the value that a reader's object has in spec.readerKey.
func KeyOf(certificate *x509.Certificate) spatev1.ReaderKey {
	digest := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
	return spatev1.ReaderKey(hex.EncodeToString(digest[:]))
}

// NewKey returns a new key with a self-signed certificate: only the key is checked.
func NewKey() (tls.Certificate, spatev1.ReaderKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "reader"}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: certificate}, KeyOf(certificate), nil
}
