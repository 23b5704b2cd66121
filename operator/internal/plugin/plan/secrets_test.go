// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/base64"
	"strings"
	"testing"

	"spate.dev/operator/internal/plugin/plugintest"
)

func TestAPlanShowsBytesOfSecretsOnlyWhenAsked(t *testing.T) {
	const word = "correct horse battery"
	files := plugintest.Smoke + "---\n" + `apiVersion: spate.dev/v1alpha1
kind: ASTFTemplate
metadata: {name: web}
spec:
  destinationPort: 80
  connectionRate: 1cps
  pools:
    clients: [{name: c, start: 198.18.0.1, end: 198.18.0.9}]
    servers: [{name: s, start: 198.19.0.1, end: 198.19.0.9}]
  source: {programs: {transport: TCP, client: [{send: {content: {from: {secretKeyRef: {name: login, key: k}}}}}]}}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {k: ` + word + `}
`
	files = strings.Replace(files, "stream: {ref: {name: udp}}", "application: {templateRef: {name: web}}", 1)
	encoded := base64.StdEncoding.EncodeToString([]byte(word))
	for _, c := range []struct {
		flags []string
		shown bool
	}{{nil, false}, {[]string{"--secrets"}, true}} {
		output, stderr, err := spate(files, append([]string{"plan", "-"}, c.flags...)...)
		if err != nil || strings.Contains(output, encoded) != c.shown || !strings.Contains(output, `"bytes": "21"`) {
			t.Errorf("%v: %v %s\n%s", c.flags, err, stderr, output)
		}
		if strings.Contains(stderr, word) {
			t.Errorf("%s", stderr)
		}
	}
}
