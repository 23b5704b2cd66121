// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: who vouches for a release? Whoever has the key that its provenance and its checksums are signed by, in formats that openssl and
// cosign verify (docs/release.md). The same key signs the same bytes with the same signature.

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Names of signatures.
const (
	// checksumsSignature is that of the checksums' bytes: of ECDSA in ASN.1 (X9.62), or of Ed25519 (RFC 8032).
	checksumsSignature = checksumsName + ".sig"
	// checksumsBundle is the same signature as a Sigstore bundle, for cosign.
	checksumsBundle = checksumsName + ".sigstore.json"
	// provenanceBundle is the provenance as a signed DSSE envelope, in a Sigstore bundle.
	provenanceBundle = "provenance.sigstore.json"
)

var signatures = []string{checksumsSignature, checksumsBundle, provenanceBundle}

const (
	bundleType  = "application/vnd.dev.sigstore.bundle.v0.3+json"
	payloadType = "application/vnd.in-toto+json"
)

// Bundle is a Sigstore bundle of a signature by a key, without an entry in a log (https://docs.sigstore.dev/about/bundle/).
type Bundle struct {
	MediaType    string            `json:"mediaType"`
	Verification Verification      `json:"verificationMaterial"`
	Message      *MessageSignature `json:"messageSignature,omitempty"`
	Envelope     *Envelope         `json:"dsseEnvelope,omitempty"`
}

// Verification says which key a signature is of; who verifies it has the key from elsewhere.
type Verification struct {
	PublicKey struct {
		// Hint is the SHA-256 of the public key (SubjectPublicKeyInfo in DER), in base64.
		Hint string `json:"hint"`
	} `json:"publicKey"`
}

// MessageSignature is the signature of a file.
type MessageSignature struct {
	Digest struct {
		Algorithm string `json:"algorithm"`
		Digest    []byte `json:"digest"`
	} `json:"messageDigest"`
	Signature []byte `json:"signature"`
}

// Envelope is a signed statement: an envelope of DSSE 1.0 (https://github.com/secure-systems-lab/dsse).
type Envelope struct {
	Payload     []byte              `json:"payload"`
	PayloadType string              `json:"payloadType"`
	Signatures  []EnvelopeSignature `json:"signatures"`
}

// EnvelopeSignature is a signature of an envelope's pre-authentication encoding.
type EnvelopeSignature struct {
	Signature []byte `json:"sig"`
}

// encoding returns the bytes of an envelope that are signed: DSSE's pre-authentication encoding.
func (e *Envelope) encoding() []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(e.PayloadType), e.PayloadType, len(e.Payload), e.Payload)
}

// sign verifies a release, and adds the signatures to it.
func (r *Release) sign(out io.Writer) error {
	if r.Key == "" {
		return errors.New("sign: --key is needed")
	}
	key, err := readPrivateKey(r.Key)
	if err != nil {
		return err
	}
	for _, name := range signatures { // of another key, or of other files
		if err := os.Remove(filepath.Join(r.Folder, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := (&Release{Folder: r.Folder}).verify(io.Discard); err != nil {
		return fmt.Errorf("what would be signed is not right: %w", err)
	}
	fingerprint, err := fingerprintOf(key.Public())
	if err != nil {
		return err
	}
	checksums, err := os.ReadFile(filepath.Join(r.Folder, checksumsName))
	if err != nil {
		return err
	}
	statement, err := os.ReadFile(filepath.Join(r.Folder, provenanceName))
	if err != nil {
		return err
	}
	message := &MessageSignature{}
	message.Digest.Algorithm = "SHA2_256"
	digest := sha256.Sum256(checksums)
	message.Digest.Digest = digest[:]
	if message.Signature, err = signed(key, checksums); err != nil {
		return err
	}
	envelope := &Envelope{Payload: statement, PayloadType: payloadType}
	signature, err := signed(key, envelope.encoding())
	if err != nil {
		return err
	}
	envelope.Signatures = []EnvelopeSignature{{signature}}
	var by Verification
	by.PublicKey.Hint = base64.StdEncoding.EncodeToString(fingerprint)
	err = errors.Join(
		os.WriteFile(filepath.Join(r.Folder, checksumsSignature), message.Signature, 0o644),
		writeJSON(filepath.Join(r.Folder, checksumsBundle), Bundle{MediaType: bundleType, Verification: by, Message: message}),
		writeJSON(filepath.Join(r.Folder, provenanceBundle), Bundle{MediaType: bundleType, Verification: by, Envelope: envelope}))
	if err == nil {
		fmt.Fprintf(out, "release: signed by the key with SHA-256 %x\n", fingerprint)
	}
	return err
}

// verifySignatures checks the signatures by the key, and says what is not signed or was not verified.
func (r *Release) verifySignatures(out io.Writer) error {
	there := 0
	for _, name := range signatures {
		if _, err := os.Stat(filepath.Join(r.Folder, name)); err == nil {
			there++
		}
	}
	switch {
	case r.Key == "" && there == 0:
		fmt.Fprintln(out, "release: nothing is signed (to sign: make release-sign SIGN_KEY=FILE)")
		return nil
	case r.Key == "":
		fmt.Fprintln(out, "release: there are signatures, which were not verified: that takes the public key (KEY=FILE)")
		return nil
	}
	key, err := readPublicKey(r.Key)
	if err != nil {
		return err
	}
	fingerprint, err := fingerprintOf(key)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, name := range append([]string{checksumsName, provenanceName}, signatures...) {
		text, err := os.ReadFile(filepath.Join(r.Folder, name))
		if err != nil {
			return fmt.Errorf("not signed: %w", err)
		}
		files[name] = text
	}
	var checksums, provenance Bundle
	if err := errors.Join(unmarshal(checksumsBundle, files, &checksums), unmarshal(provenanceBundle, files, &provenance)); err != nil {
		return err
	}
	digest := sha256.Sum256(files[checksumsName])
	var problems []error
	if !verifies(key, files[checksumsName], files[checksumsSignature]) {
		problems = append(problems, fmt.Errorf("%s is no signature of %s by the key with SHA-256 %x", checksumsSignature, checksumsName, fingerprint))
	}
	if m := checksums.Message; m == nil || !bytes.Equal(m.Digest.Digest, digest[:]) || !verifies(key, files[checksumsName], m.Signature) {
		problems = append(problems, fmt.Errorf("%s is no signature of %s by the key with SHA-256 %x", checksumsBundle, checksumsName, fingerprint))
	}
	if e := provenance.Envelope; e == nil || len(e.Signatures) != 1 || !verifies(key, e.encoding(), e.Signatures[0].Signature) {
		problems = append(problems, fmt.Errorf("%s is not signed by the key with SHA-256 %x", provenanceBundle, fingerprint))
	} else if e.PayloadType != payloadType || !bytes.Equal(e.Payload, files[provenanceName]) {
		problems = append(problems, fmt.Errorf("%s signs something else than %s", provenanceBundle, provenanceName))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	fmt.Fprintf(out, "release: signed by the key with SHA-256 %x\n", fingerprint)
	return nil
}

func unmarshal(name string, files map[string][]byte, into any) error {
	if err := json.Unmarshal(files[name], into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// signed returns the signature of a message: ECDSA of its SHA-256, with the nonce of RFC 6979, or Ed25519 of itself.
func signed(key crypto.Signer, message []byte) ([]byte, error) {
	if key, ok := key.(ed25519.PrivateKey); ok {
		return ed25519.Sign(key, message), nil
	}
	digest := sha256.Sum256(message)
	return key.Sign(nil, digest[:], crypto.SHA256)
}

func verifies(key crypto.PublicKey, message, signature []byte) bool {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(key, message, signature)
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(message)
		return ecdsa.VerifyASN1(key, digest[:], signature)
	}
	return false
}

// readPrivateKey reads a key of ECDSA on P-256, or of Ed25519, in PEM without a password, as openssl writes it.
func readPrivateKey(path string) (crypto.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		switch block.Type {
		case "EC PARAMETERS":
			continue
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		default:
			return nil, fmt.Errorf("%s: %s is not taken: a private key of ECDSA on P-256 or of Ed25519 in PEM is, without a password", path, block.Type)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		signer, ok := key.(crypto.Signer)
		if !ok || !supported(signer.Public()) {
			return nil, fmt.Errorf("%s: a key of ECDSA on P-256 or of Ed25519 is needed, not %T", path, key)
		}
		return signer, nil
	}
	return nil, fmt.Errorf("%s is no private key in PEM", path)
}

func readPublicKey(path string) (crypto.PublicKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("%s is no public key in PEM (openssl pkey -in PRIVATE -pubout)", path)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !supported(key) {
		return nil, fmt.Errorf("%s: a key of ECDSA on P-256 or of Ed25519 is needed, not %T", path, key)
	}
	return key, nil
}

func supported(key crypto.PublicKey) bool {
	if key, ok := key.(*ecdsa.PublicKey); ok {
		return key.Curve == elliptic.P256()
	}
	_, ok := key.(ed25519.PublicKey)
	return ok
}

// fingerprintOf returns the SHA-256 of a public key's SubjectPublicKeyInfo.
func fingerprintOf(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der)
	return sum[:], nil
}
