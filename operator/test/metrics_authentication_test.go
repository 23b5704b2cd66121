// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: who reads the operator's metrics with --metrics-authentication?

import (
	"crypto/tls"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reviews lets the operator ask the API server, and one account read metrics, as the chart does (metrics.authentication).
const reviews = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: spate-metrics-authentication}
rules:
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: spate-metrics-authentication}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: spate-metrics-authentication}
subjects: [{kind: ServiceAccount, name: spate-operator, namespace: spate-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: spate-metrics-reader}
rules:
- {nonResourceURLs: [/metrics], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: spate-metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: spate-metrics-reader}
subjects: [{kind: ServiceAccount, name: scraper, namespace: NAMESPACE}]
`

func TestOnlyATokenWithTheRightReadsMetricsThatTakeOne(t *testing.T) {
	ns := namespace(t)
	mustApply(t, "", strings.ReplaceAll(reviews, "NAMESPACE", ns))
	token := func(name string) string {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		must(t, cluster.kube.Create(t.Context(), account))
		request := &authenticationv1.TokenRequest{}
		must(t, cluster.kube.SubResource("token").Create(t.Context(), account, request))
		return request.Status.Token
	}
	// This operator is not the leader: that of the tests is.
	second, err := launchOperator("--metrics-authentication")
	must(t, err)
	t.Cleanup(second.stop)
	reader := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	answer := func(token string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+second.metrics+"/metrics", http.NoBody)
		must(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := reader.Do(request)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		must(t, err)
		if response.StatusCode == http.StatusOK && !strings.Contains(string(text), "leader_election_master_status") {
			return "no metrics: " + string(text)
		}
		return strconv.Itoa(response.StatusCode)
	}
	scraper := token("scraper")
	until(t, leadLimit, "a reader with the right has an answer", func() (bool, string) {
		got := answer(scraper)
		return got == "200", got
	})
	// Of a token that is none, the API server says so as an error, and controller-runtime answers with 500 to errors.
	for name, c := range map[string]struct{ token, want string }{
		"without a token": {"", "401"}, "with another token": {"abc", "500"}, "without the right": {token("nobody"), "403"},
	} {
		if got := answer(c.token); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	response, err := http.Get("http://" + second.metrics + "/metrics")
	must(t, err)
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		t.Error("metrics are served in plain HTTP, too")
	}
}
