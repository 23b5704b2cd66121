// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: which links has the node, and how does one get into a pod's network namespace and back?

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ipLinks are the links of this process' network namespace, by ip(8).
type ipLinks struct{}

// names returns the links whose names begin with a prefix.
func (ipLinks) names(prefix string) ([]string, error) {
	entries, err := os.ReadDir("/sys/class/net")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// here reports whether a link is in this network namespace.
func (ipLinks) here(name string) bool {
	_, err := os.Stat(filepath.Join("/sys/class/net", name))
	return err == nil
}

// mac returns the address of a link.
func (ipLinks) mac(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/sys/class/net", name, "address"))
	return strings.TrimSpace(string(text)), err
}

// attach moves a link into a network namespace, by its path, and sets it up there.
func (ipLinks) attach(name, namespace string) error {
	if err := run("ip", "link", "set", "dev", name, "netns", namespace); err != nil {
		return err
	}
	return run("nsenter", "--net="+namespace, "ip", "link", "set", "dev", name, "up")
}

// detach moves a link back.
func (ipLinks) detach(name, namespace string) error {
	own := fmt.Sprintf("/proc/%d/ns/net", os.Getpid())
	if err := run("nsenter", "--net="+namespace, "ip", "link", "set", "dev", name, "netns", own); err != nil {
		return err
	}
	return run("ip", "link", "set", "dev", name, "up")
}

func run(program string, args ...string) error {
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
