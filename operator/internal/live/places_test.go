// SPDX-License-Identifier: Apache-2.0

package live

import (
	"strings"
	"testing"
)

func TestPlacesAreBoundedByNamespaceAndInAll(t *testing.T) {
	var p places
	var leave []func()
	take := func(namespace string, want string) {
		t.Helper()
		left, err := p.take(namespace)
		switch {
		case err == nil && want == "":
			leave = append(leave, left)
		case err == nil || want == "" || !strings.Contains(err.Error(), want):
			t.Fatalf("%s: %v, want %q", namespace, err, want)
		}
	}
	for range maxOfNamespace {
		take("a", "")
	}
	take("a", "in namespace a, which is the maximum")
	for range maxStreams - maxOfNamespace {
		take("b", "")
	}
	take("c", "from the operator, which is the maximum")
	leave[0]()
	leave[0]() // leaving twice frees one place
	take("c", "")
	take("a", "from the operator")
	for _, left := range leave {
		left()
	}
	if p.all != 0 || len(p.taken) != 0 {
		t.Errorf("%+v", &p)
	}
}
