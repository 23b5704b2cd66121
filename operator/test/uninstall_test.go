// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does the uninstall job act on the namespaces of its operator alone, and do the rights suffice that it is shipped with?

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"spate.dev/operator/internal/controller/generator"
)

// enginePod is a pod of `loop`, on no node.
const enginePod = `
apiVersion: v1
kind: Pod
metadata: {name: loop-0, labels: {app.kubernetes.io/name: spate-engine, app.kubernetes.io/managed-by: spate-operator}}
spec: {containers: [{name: engine, image: engine:test}]}
`

// uninstalls runs the program of the job as the user of the job, on a server that has config/default and config/uninstall: first with the rights of
// these, then with those of the component `namespaced-uninstall`. The operator's Deployment is for the namespace `lab`, which that component has.
func uninstalls(t *testing.T, server *envtest.Environment) {
	program, err := buildOperator()
	must(t, err)
	user, err := server.AddUser(envtest.User{Name: "system:serviceaccount:" + operatorNamespace + ":spate-uninstall", Groups: []string{"system:serviceaccounts"}}, nil)
	must(t, err)
	config, err := user.KubeConfig()
	must(t, err)
	folder := t.TempDir()
	kubeconfig, objects := filepath.Join(folder, "kubeconfig"), filepath.Join(folder, "objects.yaml")
	must(t, os.WriteFile(kubeconfig, config, 0o600))
	held := strings.Replace(loopbackGenerator, "{name: loop}", "{name: loop, finalizers: ["+generator.Finalizer+"]}", 1)
	must(t, os.WriteFile(objects, []byte(held+"---"+enginePod), 0o600))

	deployment := []string{"deployment.apps/spate-operator", "--namespace", operatorNamespace}
	kubectl(t, server, append([]string{"patch", "--type=json", `--patch=[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--watch-namespaces=lab"}]`}, deployment...)...)
	for _, ns := range []string{"lab", "other"} {
		kubectl(t, server, "create", "namespace", ns)
	}
	for _, rights := range []string{"config/uninstall", "the component namespaced-uninstall"} {
		if rights != "config/uninstall" {
			kubectl(t, server, "apply", "-k", withComponent(t, "uninstall", "namespaced-uninstall"))
			kubectl(t, server, "delete", "clusterrolebinding", "spate-uninstall")
		}
		kubectl(t, server, append([]string{"scale", "--replicas=1"}, deployment...)...)
		for _, ns := range []string{"lab", "other"} {
			kubectl(t, server, "apply", "--namespace", ns, "--filename", objects)
		}
		command := exec.CommandContext(t.Context(), program, "uninstall", "--namespace="+operatorNamespace, "--deployment=spate-operator", "--timeout=5s")
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("with the rights of %s: %v: %s", rights, err, out)
		}
		for ns, want := range map[string][]string{"lab": nil, "other": {generator.Finalizer, "pod/loop-0"}} {
			left := kubectl(t, server, "get", "trafficgenerator", "loop", "--namespace", ns, "--output=jsonpath={.metadata.finalizers[*]}")
			left = append(left, kubectl(t, server, "get", "pods", "--namespace", ns, "--output=name")...)
			if !slices.Equal(left, want) {
				t.Errorf("with the rights of %s, %q is left in namespace %s, want %q", rights, left, ns, want)
			}
		}
		if replicas := kubectl(t, server, append([]string{"get", "--output=jsonpath={.spec.replicas}"}, deployment...)...); !slices.Equal(replicas, []string{"0"}) {
			t.Errorf("with the rights of %s, the operator has %q replicas", rights, replicas)
		}
	}
}
