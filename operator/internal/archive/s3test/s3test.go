// SPDX-License-Identifier: Apache-2.0

// Package s3test answers: how has a test an S3 server? It is a process, Versity's gateway, which keeps objects as files of a folder.
package s3test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Bucket is the bucket that there is.
const Bucket = "results"

// Credentials of the server's only account.
const (
	AccessKey = "SPATETESTKEY"
	SecretKey = "spate-test-word"
)

// startLimit is the time within which a server answers. The machine may be busy.
const startLimit = 30 * time.Second

// Server is a server on a loopback address.
type Server struct {
	// Endpoint is its URL.
	Endpoint string
	// CAFile has the authority of a server with TLS, as PEM.
	CAFile string

	address, folder string
	flags           []string
	process         *exec.Cmd
	output          bytes.Buffer
}

// Start starts a server, with flags of versitygw, until the test ends.
func Start(t *testing.T, flags ...string) *Server {
	t.Helper()
	s := create(t, flags...)
	s.Endpoint = "http://" + s.address
	s.Restart(t)
	return s
}

// StartTLS starts a server with TLS, until the test ends.
func StartTLS(t *testing.T) *Server {
	t.Helper()
	s := create(t)
	s.Endpoint = "https://" + s.address
	pair := httptest.NewTLSServer(nil)
	defer pair.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	s.CAFile = filepath.Join(s.folder, "server.crt")
	keyFile := filepath.Join(s.folder, "server.key")
	write(t, s.CAFile, "CERTIFICATE", pair.Certificate().Raw)
	write(t, keyFile, "PRIVATE KEY", key)
	s.flags = []string{"--cert", s.CAFile, "--key", keyFile}
	s.Restart(t)
	return s
}

func write(t *testing.T, file, kind string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// create returns a server that is not started.
func create(t *testing.T, flags ...string) *Server {
	t.Helper()
	s := &Server{folder: t.TempDir(), flags: flags}
	for _, folder := range []string{"objects/" + Bucket, "attributes", "accounts"} {
		if err := os.MkdirAll(filepath.Join(s.folder, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	s.address = free.Addr().String()
	t.Cleanup(func() { s.Stop(t) })
	return s
}

// Restart starts the server again, at the same address and with the same objects.
func (s *Server) Restart(t *testing.T) {
	t.Helper()
	program := os.Getenv("S3_SERVER")
	if program == "" {
		t.Fatal("S3_SERVER, the path of versitygw, is not set: run `make operator-test`, which builds it")
	}
	args := append([]string{"--port", s.address, "--access", AccessKey, "--secret", SecretKey, "--iam-dir", filepath.Join(s.folder, "accounts"), "--quiet"}, s.flags...)
	s.process = exec.Command(program, append(args, "posix", "--sidecar", filepath.Join(s.folder, "attributes"), filepath.Join(s.folder, "objects"))...)
	s.output.Reset()
	s.process.Stdout, s.process.Stderr = &s.output, &s.output
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if connection, err := net.Dial("tcp", s.address); err == nil {
			connection.Close()
			return
		}
	}
	s.Stop(t)
	t.Fatalf("the S3 server does not answer: %s", s.output.String())
}

// Stop kills the server.
func (s *Server) Stop(t *testing.T) {
	t.Helper()
	if s.process == nil {
		return
	}
	if err := s.process.Process.Kill(); err != nil {
		t.Errorf("the S3 server has ended: %v: %s", err, s.output.String())
	}
	_ = s.process.Wait() // killed
	s.process = nil
}

// File returns the path of the file that has an object of the bucket.
func (s *Server) File(key string) string {
	return filepath.Join(s.folder, "objects", Bucket, filepath.FromSlash(key))
}

// Setenv sets the environment of this process, and of those that it starts, to these credentials and no other settings of the SDK.
func Setenv(t *testing.T, accessKey, secretKey string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": accessKey, "AWS_SECRET_ACCESS_KEY": secretKey, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "", "AWS_CA_BUNDLE": "",
		"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_WEB_IDENTITY_TOKEN_FILE": "", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
}
