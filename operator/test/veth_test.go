// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what do engines that are no pods send to each other over?

import (
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
)

// links counts them: each has a name of its own.
var links atomic.Int32

// veth makes two links that are wired to each other, and removes them.
func veth(t *testing.T) (near, far string) {
	t.Helper()
	link := links.Add(1)
	name := fmt.Sprintf("spate%d-%d", os.Getpid()%100000, link)
	near, far = name+"a", name+"b"
	if out, err := exec.Command("ip", "link", "add", near, "type", "veth", "peer", "name", far).CombinedOutput(); err != nil {
		t.Skipf("NO LINK: run as root, where the test can make a veth pair: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", near).Run() })
	for _, name := range []string{near, far} {
		for _, args := range [][]string{{"sysctl", "-qw", "net.ipv6.conf." + name + ".disable_ipv6=1"}, {"ip", "link", "set", name, "up"}} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v: %s", args, err, out)
			}
		}
	}
	return near, far
}
