// SPDX-License-Identifier: Apache-2.0

// Command dra-links is a driver of Dynamic Resource Allocation that gives network links, or PCI functions, of a node to pods. It is a real driver,
// for tests of ports on resource claims: it registers with the kubelet and publishes the devices in a ResourceSlice.
//
//	dra-links --node NAME --prefix PREFIX          runs beside the node's kubelet, in the node's namespaces
//	dra-links                                      as the last plugin of a CNI configuration: moves the links of a pod into it and back
//	dra-links --node NAME --functions ADDRESS,...  runs beside the node's kubelet, and gives pods the functions that are bound to vfio-pci
//
// The interface of a link is reported in the status of its claim; the address of a function is an attribute. A kubelet asks a driver to
// prepare devices before a pod has a network namespace. Drivers of links learn of that by NRI or by a hook of an OCI runtime (CDI), which
// containerd 1.6 (Debian 12) has neither of; a plugin of the CNI chain is called at the same time. Functions take a container runtime with CDI.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	linkDriverName = "links.e2e.spate.dev"
	// stateDir has a file for each pod with prepared links. Like the node's /run, it ends with the node.
	stateDir = "/run/dra-links"
)

func main() {
	var err error
	if command := os.Getenv("CNI_COMMAND"); command != "" {
		err = plugin{links: ipLinks{}, prepared: prepared{dir: stateDir}}.run(command, os.Getenv, os.Stdin, os.Stdout)
		if err != nil {
			fmt.Printf(`{"cniVersion": %q, "code": 100, "msg": %q}`+"\n", cniVersion, err)
			os.Exit(1)
		}
		return
	}
	if err = serve(); err != nil {
		fmt.Fprintln(os.Stderr, "dra-links:", err)
		os.Exit(1)
	}
}

func serve() error {
	node := flag.String("node", "", "name of the node")
	prefix := flag.String("prefix", "", "links of the node whose names begin with this are devices")
	functions := flag.String("functions", "", "PCI addresses, separated by commas, of functions that are devices while they are bound to vfio-pci")
	flag.Parse()
	if *node == "" || (*prefix == "") == (*functions == "") {
		return fmt.Errorf("--node must be given, and one of --prefix and --functions")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if *functions != "" {
		// Functions come and go with the settings of their NIC only.
		return publish(ctx, &functionDriver{addresses: strings.Split(*functions, ","), sys: "/sys", cdi: "/run/cdi"}, functionDriverName, *node, kube, 5*time.Second)
	}
	links := &linkDriver{node: *node, prefix: *prefix, kube: kube, prepared: prepared{dir: stateDir}}
	return publish(ctx, links, linkDriverName, *node, kube, 200*time.Millisecond)
}
