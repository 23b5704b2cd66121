// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// openssl runs it, and returns what it prints.
func openssl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "openssl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("openssl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// keys makes a private and a public key of openssl's.
func keys(t *testing.T, arguments ...string) (private, public string) {
	t.Helper()
	folder := t.TempDir()
	private, public = filepath.Join(folder, "key.pem"), filepath.Join(folder, "key.pub")
	openssl(t, append(arguments, "-out", private)...)
	openssl(t, "pkey", "-in", private, "-pubout", "-out", public)
	return private, public
}

var (
	p256    = []string{"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"}
	ed      = []string{"genpkey", "-algorithm", "ED25519"}
	p256Old = []string{"ecparam", "-name", "prime256v1", "-genkey"} // with its parameters before it, as SEC 1 has it
)

// The commands of docs/release.md verify what is signed.
func TestASignedReleaseIsVerifiedByOpenSSL(t *testing.T) {
	for name, algorithm := range map[string][]string{"P-256": p256, "P-256 by ecparam": p256Old, "Ed25519": ed} {
		r := described(t)
		private, public := keys(t, algorithm...)
		r.Key = private
		must(t, r.sign(io.Discard))
		checksums, signature := filepath.Join(r.Folder, checksumsName), filepath.Join(r.Folder, checksumsSignature)
		var bundle Bundle
		must(t, readJSON(filepath.Join(r.Folder, provenanceBundle), &bundle))
		encoded := filepath.Join(t.TempDir(), "encoded")
		enveloped := filepath.Join(t.TempDir(), "sig")
		statement, err := os.ReadFile(filepath.Join(r.Folder, provenanceName))
		must(t, err)
		// As https://github.com/secure-systems-lab/dsse/blob/master/protocol.md has it.
		must(t, os.WriteFile(encoded, fmt.Appendf(nil, "DSSEv1 28 application/vnd.in-toto+json %d %s", len(statement), statement), 0o600))
		must(t, os.WriteFile(enveloped, bundle.Envelope.Signatures[0].Signature, 0o600))
		for file, by := range map[string]string{checksums: signature, encoded: enveloped} {
			if name == "Ed25519" {
				openssl(t, "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", public, "-sigfile", by, "-in", file)
			} else if out := openssl(t, "dgst", "-sha256", "-verify", public, "-signature", by, file); out != "Verified OK\n" {
				t.Errorf("%s: %s", name, out)
			}
		}
		var said strings.Builder
		must(t, (&Release{Folder: r.Folder, Key: public}).verify(&said))
		if !strings.HasPrefix(said.String(), "release: signed by the key with SHA-256 ") {
			t.Errorf("%s: it says %q", name, said.String())
		}
		said.Reset()
		must(t, (&Release{Folder: r.Folder}).verify(&said))
		if !strings.Contains(said.String(), "were not verified") {
			t.Errorf("%s: without a key it says %q", name, said.String())
		}
		// The same key makes the same signatures.
		before := read(t, r.Folder, signatures)
		must(t, r.sign(io.Discard))
		if !bytes.Equal(before, read(t, r.Folder, signatures)) {
			t.Errorf("%s: it is signed in another way the second time", name)
		}
	}
}

func read(t *testing.T, folder string, names []string) []byte {
	t.Helper()
	var all []byte
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, name))
		must(t, err)
		all = append(all, text...)
	}
	return all
}

func TestABundleIsWhatSigstoreReads(t *testing.T) {
	r := described(t)
	r.Key, _ = keys(t, p256...)
	must(t, r.sign(io.Discard))
	for name, wants := range map[string][]string{
		checksumsBundle: {
			`"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json"`, `"publicKey": {`, `"hint": "`, `"messageSignature": {`, `"algorithm": "SHA2_256"`, `"digest": "`, `"signature": "`,
		},
		provenanceBundle: {`"dsseEnvelope": {`, `"payload": "`, `"payloadType": "application/vnd.in-toto+json"`, `"sig": "`},
	} {
		text := string(read(t, r.Folder, []string{name}))
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s in\n%s", name, want, text)
			}
		}
	}
}

func TestWhatWasChangedAfterItWasSignedIsFound(t *testing.T) {
	private, public := keys(t, p256...)
	_, others := keys(t, p256...)
	signed := described(t)
	signed.Key = private
	must(t, signed.sign(io.Discard))
	for name, c := range map[string]struct {
		key    string
		change func(folder string) error
		want   []string
	}{
		"another key": {others, nil, []string{"SHA256SUMS.sig is no signature of SHA256SUMS", "SHA256SUMS.sigstore.json is no signature", "provenance.sigstore.json is not signed by the key"}},
		"checksums": {public, func(folder string) error {
			return os.WriteFile(filepath.Join(folder, checksumsName), []byte(strings.Repeat("0", 64)+"  x\n"), 0o600)
		}, []string{"SHA256SUMS.sig is no signature of SHA256SUMS", "SHA256SUMS.sigstore.json is no signature"}},
		"provenance": {public, func(folder string) error {
			text, err := os.ReadFile(filepath.Join(folder, provenanceName))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(folder, provenanceName), bytes.Replace(text, []byte("spate"), []byte("other"), 1), 0o600)
		}, []string{"provenance.sigstore.json signs something else than provenance.intoto.json"}},
		"no signature": {public, func(folder string) error { return os.Remove(filepath.Join(folder, checksumsSignature)) }, []string{"not signed: "}},
	} {
		r := Release{Folder: t.TempDir(), Key: c.key}
		must(t, os.CopyFS(r.Folder, os.DirFS(signed.Folder)))
		if c.change != nil {
			must(t, c.change(r.Folder))
		}
		err := r.verifySignatures(io.Discard)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

func TestKeysThatCannotBeUsedAreRefused(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "key")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	p384, p384Public := keys(t, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384")
	private, public := keys(t, p256...)
	encrypted := filepath.Join(t.TempDir(), "encrypted")
	openssl(t, "pkey", "-in", private, "-aes256", "-passout", "pass:x", "-out", encrypted)
	for path, want := range map[string]string{
		p384: "P-256 or of Ed25519 is needed", public: "PUBLIC KEY is not taken", encrypted: "ENCRYPTED PRIVATE KEY is not taken", write("x"): "is no private key in PEM",
	} {
		if _, err := readPrivateKey(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for path, want := range map[string]string{p384Public: "P-256 or of Ed25519 is needed", private: "is no public key in PEM"} {
		if _, err := readPublicKey(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestWhatIsNotRightIsNotSigned(t *testing.T) {
	r := described(t)
	r.Key, _ = keys(t, p256...)
	must(t, os.WriteFile(filepath.Join(r.Folder, definitionsName), []byte("kind: y\n"), 0o600))
	if err := r.sign(io.Discard); err == nil || !strings.Contains(err.Error(), "what would be signed is not right") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(r.Folder, checksumsSignature)); err == nil {
		t.Error("it is signed")
	}
}
