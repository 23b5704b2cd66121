// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// must runs a command, or fails.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// pair makes two links that are wired to each other, and a network namespace.
func pair(t *testing.T) (near, far, namespace string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NO LINKS: run as root, where the test can make links and network namespaces")
	}
	id := os.Getpid() % 100000
	near, far, name := fmt.Sprintf("drat%da", id), fmt.Sprintf("drat%db", id), fmt.Sprintf("drat%d", id)
	must(t, "ip", "netns", "add", name)
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", name).Run() })
	must(t, "ip", "link", "add", near, "type", "veth", "peer", "name", far)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", near).Run() })
	return near, far, "/run/netns/" + name
}

func TestLinksOfAPodMoveIntoItAndBack(t *testing.T) {
	near, far, namespace := pair(t)
	var links ipLinks
	mac, err := links.mac(near)
	if err != nil {
		t.Fatal(err)
	}
	state := prepared{dir: t.TempDir()}
	if err := state.change(func(pods map[types.UID][]preparedLink) error {
		pods["pod-1"] = []preparedLink{{Name: near, ClaimUID: "claim-1"}, {Name: far, ClaimUID: "claim-1"}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	const previous = `{"cniVersion":"1.0.0","interfaces":[{"name":"eth0"}]}`
	call := func(command, pod string) string {
		t.Helper()
		var out bytes.Buffer
		variables := map[string]string{"CNI_ARGS": "IgnoreUnknown=1;K8S_POD_NAME=p;K8S_POD_UID=" + pod, "CNI_NETNS": namespace}
		in := strings.NewReader(`{"cniVersion": "1.0.0", "name": "multus", "type": "dra-links", "prevResult": ` + previous + `}`)
		if err := (plugin{prepared: state}).run(command, func(name string) string { return variables[name] }, in, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}

	if out := call("ADD", "another-pod"); out != previous || !links.here(near) || !links.here(far) {
		t.Errorf("a pod without links: %s", out)
	}
	for range 2 { // a runtime may ask again
		if out := call("ADD", "pod-1"); out != previous {
			t.Errorf("the result is %s", out)
		}
	}
	if links.here(near) || links.here(far) {
		t.Error("the links have stayed")
	}
	if shown := must(t, "ip", "-n", strings.TrimPrefix(namespace, "/run/netns/"), "link", "show", "dev", near); !strings.Contains(shown, ",UP") || !strings.Contains(shown, mac) {
		t.Errorf("in the pod: %s, want %s", shown, mac)
	}
	pods, err := state.read()
	if err != nil || !pods["pod-1"][0].Attached || pods["pod-1"][0].MAC != mac {
		t.Errorf("%+v, %v", pods, err)
	}

	call("DEL", "pod-1")
	call("DEL", "pod-1")
	if !links.here(near) || !links.here(far) {
		t.Error("the links are not back")
	}
}

func TestTheLastPodOfAFileLeavesNone(t *testing.T) {
	state := prepared{dir: t.TempDir()}
	for _, links := range [][]preparedLink{{{Name: "a"}}, nil} {
		if err := state.change(func(pods map[types.UID][]preparedLink) error { pods["pod-1"] = links; return nil }); err != nil {
			t.Fatal(err)
		}
		if pods, err := state.read(); err != nil || len(pods) != len(links) {
			t.Errorf("%+v, %v", pods, err)
		}
	}
}
