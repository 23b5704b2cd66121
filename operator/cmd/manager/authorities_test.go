// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// A process of its own has no authorities of the system.
func TestThereAreAuthoritiesWhereTheSystemHasNone(t *testing.T) {
	if os.Getenv("SSL_CERT_FILE") != os.DevNull {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		child.Env = append(os.Environ(), "SSL_CERT_FILE="+os.DevNull, "SSL_CERT_DIR="+t.TempDir())
		if output, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		return
	}
	if pool, err := x509.SystemCertPool(); err != nil || pool.Equal(x509.NewCertPool()) {
		t.Error("there are none: ", err)
	}
}
