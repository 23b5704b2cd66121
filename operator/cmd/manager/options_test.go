// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"strings"
	"testing"

	"spate.dev/operator/internal/podspec"
)

func TestTheNamespacesThatReadMetricsAreAList(t *testing.T) {
	for flag, want := range map[string][]string{"": nil, "monitoring": {"monitoring"}, "a,b": {"a", "b"}} {
		o, err := parse([]string{"--namespace=system", "--metrics-namespaces=" + flag})
		if err != nil {
			t.Errorf("%q: %v", flag, err)
			continue
		}
		if got, err := o.access(); err != nil || !reflect.DeepEqual(got, podspec.Access{OperatorNamespace: "system", MetricsNamespaces: want}) {
			t.Errorf("%q: %+v %v", flag, got, err)
		}
	}
	for _, flag := range []string{",", "a,", "Monitoring", "a b", "team=a"} {
		if _, err := parse([]string{"--metrics-namespaces=" + flag}); err == nil || !strings.Contains(err.Error(), "--metrics-namespaces") {
			t.Errorf("%q: %v", flag, err)
		}
	}
}
