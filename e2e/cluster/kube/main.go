// SPDX-License-Identifier: Apache-2.0

// Which program of a Kubernetes node is this? One binary contains all of them: the name by which it is called selects
// the program, through a symbolic link (`kubelet -> kube`) or its first argument (`kube kubelet`). So there is one link
// step and one file on disk instead of seven.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	// The metrics of client-go and of the version, and the JSON log format, register themselves.
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// programs returns the command of each program except etcd, which has its own main function.
var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	if !known(name) && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = os.Args[0]
	}
	switch {
	case name == "etcd":
		etcdmain.Main(os.Args)
	case known(name):
		os.Exit(cli.Run(programs[name]()))
	default:
		fmt.Fprintf(os.Stderr, "usage: kube PROGRAM [ARGUMENT...]\nPROGRAM is one of: %s\n", strings.Join(names(), ", "))
		os.Exit(2)
	}
}

func known(name string) bool {
	_, ok := programs[name]
	return ok || name == "etcd"
}

func names() []string {
	all := []string{"etcd"}
	for name := range programs {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
