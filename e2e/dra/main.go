// SPDX-License-Identifier: Apache-2.0

// Command dra-links is a driver of Dynamic Resource Allocation that gives network links of a node to pods. It is a real driver, for tests of ports
// on resource claims: it registers with the kubelet, publishes the links in a ResourceSlice, and reports the interface of each in the status of
// its claim.
//
//	dra-links --node NAME --prefix PREFIX    runs beside the node's kubelet, in the node's namespaces
//	dra-links                                as the last plugin of a CNI configuration: moves the links of a pod into it and back
//
// A kubelet asks a driver to prepare devices before a pod has a network namespace. Drivers learn of that by NRI or by a hook of an OCI
// runtime (CDI), which containerd 1.6 (Debian 12) has neither of; a plugin of the CNI chain is called at the same time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	driverName = "links.e2e.spate.dev"
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
	flag.Parse()
	if *node == "" || *prefix == "" {
		return fmt.Errorf("--node and --prefix must be given")
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
	return (&driver{node: *node, prefix: *prefix, kube: kube, links: ipLinks{}, prepared: prepared{dir: stateDir}}).run(ctx)
}
