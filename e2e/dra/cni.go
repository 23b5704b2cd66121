// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: what does the driver do as a plugin of the CNI chain (CNI specification 1.0.0)?

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const cniVersion = "1.0.0"

// plugin moves the prepared links of a pod. Pods without any pass through it unchanged.
type plugin struct {
	links    ipLinks
	prepared prepared
}

// run carries out a command of the container runtime. Its output is the result of the plugins before it.
func (p plugin) run(command string, variable func(string) string, in io.Reader, out io.Writer) error {
	var config struct {
		Previous json.RawMessage `json:"prevResult"`
	}
	if err := json.NewDecoder(in).Decode(&config); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	pod, namespace := podOf(variable("CNI_ARGS")), variable("CNI_NETNS")
	switch command {
	case "VERSION":
		_, err := fmt.Fprintf(out, `{"cniVersion": %q, "supportedVersions": ["0.4.0", %q]}`+"\n", cniVersion, cniVersion)
		return err
	case "ADD":
		if err := p.attach(pod, namespace); err != nil {
			return err
		}
		if config.Previous == nil {
			return fmt.Errorf("the configuration has no prevResult: put this plugin behind the pod network's")
		}
		_, err := out.Write(config.Previous)
		return err
	case "DEL":
		return p.detach(pod, namespace)
	case "CHECK", "GC", "STATUS":
		return nil
	}
	return fmt.Errorf("CNI_COMMAND %s is not known", command)
}

// podOf returns the UID of the pod, which containerd and Multus hand over.
func podOf(args string) types.UID {
	for arg := range strings.SplitSeq(args, ";") {
		if uid, ok := strings.CutPrefix(arg, "K8S_POD_UID="); ok {
			return types.UID(uid)
		}
	}
	return ""
}

func (p plugin) attach(pod types.UID, namespace string) error {
	return p.prepared.change(func(pods map[types.UID][]preparedLink) error {
		links := pods[pod]
		for i := range links {
			link := &links[i]
			if link.Attached {
				continue // this was requested before
			}
			var err error
			if link.MAC, err = p.links.mac(link.Name); err != nil {
				return err
			}
			if err := p.links.attach(link.Name, namespace); err != nil {
				return err
			}
			link.Attached = true
		}
		return nil
	})
}

func (p plugin) detach(pod types.UID, namespace string) error {
	return p.prepared.change(func(pods map[types.UID][]preparedLink) error {
		links := pods[pod]
		for i := range links {
			link := &links[i]
			if _, err := os.Stat(namespace); link.Attached && namespace != "" && err == nil {
				if err := p.links.detach(link.Name, namespace); err != nil {
					return err
				}
			}
			link.Attached = false
		}
		return nil
	})
}
