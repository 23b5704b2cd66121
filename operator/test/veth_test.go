// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what do engines that are no pods send to each other over?

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
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
	// DPDK's af_packet joins the packet fanout group (process id XOR interface index) mod 65536, and the kernel refuses a group that another
	// process has in the same network namespace. Process ids of engines that start together differ in their low bits: these indices in the high one.
	index := 4096 + (uint32(os.Getpid())*32+uint32(link))%24576
	number := func(index uint32) string { return strconv.FormatUint(uint64(index), 10) }
	if out, err := exec.Command("ip", "link", "add", near, "index", number(index), "type", "veth",
		"peer", "name", far, "index", number(index|0x8000)).CombinedOutput(); err != nil {
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
