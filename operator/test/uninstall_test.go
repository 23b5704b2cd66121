// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does the uninstall job act on the namespaces of its operator alone, do the rights suffice that it is shipped with, and do the commands
// that docs/install.md has instead of the job?

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// uninstalls runs the program of the job as the user of the job, on a server that has config/default, config/uninstall and two namespaces: first with the rights of
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
	for _, rights := range []string{"config/uninstall", "the component namespaced-uninstall"} {
		if rights != "config/uninstall" {
			kubectl(t, server, "apply", "-k", withComponents(t, "uninstall", "namespaced-uninstall"))
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
			left := append(finalizers(t, server, ns), kubectl(t, server, "get", "pods", "--namespace", ns, "--output=name")...)
			if !slices.Equal(left, want) {
				t.Errorf("with the rights of %s, %q is left in namespace %s, want %q", rights, left, ns, want)
			}
		}
		if replicas := kubectl(t, server, append([]string{"get", "--output=jsonpath={.spec.replicas}"}, deployment...)...); !slices.Equal(replicas, []string{"0"}) {
			t.Errorf("with the rights of %s, the operator has %q replicas", rights, replicas)
		}
	}
}

// finalizers returns those of the generator of a namespace.
func finalizers(t *testing.T, server *envtest.Environment, ns string) []string {
	t.Helper()
	return kubectl(t, server, "get", "trafficgenerator", "loop", "--namespace", ns, "--output=jsonpath={.metadata.finalizers[*]}")
}

// finalizersAreRemoved executes what docs/install.md has for a namespace that is stuck, and for an operator that was removed without its job, after
// uninstalls: in the namespace `lab`, then in `other`.
func finalizersAreRemoved(t *testing.T, server *envtest.Environment) {
	kubectl(t, server, "patch", "trafficgenerator", "loop", "--namespace", "lab", "--type=merge", `--patch={"metadata": {"finalizers": ["`+generator.Finalizer+`"]}}`)
	kubectl(t, server, "delete", "namespace", "lab", "--wait=false")
	execute(t, server, documented(t, "kubectl get tr,tp,tg --namespace lab"))
	if lab, other := finalizers(t, server, "lab"), finalizers(t, server, "other"); len(lab) > 0 || len(other) != 1 {
		t.Errorf("finalizers in the namespace that is deleted: %q, in another: %q", lab, other)
	}
	everywhere := documented(t, "kubectl get ts,tp,tr,tg --all-namespaces")
	execute(t, server, strings.ReplaceAll(everywhere, "--all-namespaces", "--namespace other")) // as the document has it for some namespaces
	if other := finalizers(t, server, "other"); len(other) > 0 {
		t.Errorf("finalizers that are left: %q", other)
	}
}

// documented returns the commands of docs/install.md with a text among them.
func documented(t *testing.T, text string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/install.md")
	must(t, err)
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(block[1], text) {
			return block[1]
		}
	}
	t.Fatalf("docs/install.md has no commands with %q", text)
	return ""
}

// execute runs commands in a shell that has kubectl for the server.
func execute(t *testing.T, server *envtest.Environment, commands string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(kubeconfig, server.KubeConfig, 0o600))
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	shell.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", commands, err, out)
	}
}
