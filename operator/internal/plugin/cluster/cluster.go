// SPDX-License-Identifier: Apache-2.0

// Package cluster answers: which cluster and namespace does a command use, and which object does a name select? The flags are kubectl's.
package cluster

import (
	"errors"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// Flags are kubectl's flags that select a cluster and a namespace.
type Flags struct {
	kubeconfig string
	overrides  clientcmd.ConfigOverrides
}

// Add adds the flags to a command.
func (f *Flags) Add(c *cobra.Command) {
	c.Flags().StringVarP(&f.overrides.Context.Namespace, "namespace", "n", "", "namespace of the object; that of the context when absent")
	c.Flags().StringVar(&f.overrides.CurrentContext, "context", "", "context of the kubeconfig; the current one when absent")
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "path of the kubeconfig")
	_ = c.RegisterFlagCompletionFunc("namespace", f.completeNamespace) // fails for a flag that does not exist only
}

// Connection is a connection to the cluster that kubectl would use, and the namespace of the objects.
type Connection struct {
	Config    *rest.Config
	Client    kube.Client
	Namespace string
}

// Namespace returns the namespace of the objects. No cluster is needed for it.
func (f *Flags) Namespace() (string, error) {
	namespace, _, err := f.config().Namespace()
	return namespace, err
}

func (f *Flags) config() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.overrides)
}

// Connect returns a client of the cluster that the flags and the kubeconfig select.
func (f *Flags) Connect() (*Connection, error) {
	config := f.config()
	namespace, _, err := config.Namespace()
	if err != nil {
		return nil, err
	}
	rest, err := config.ClientConfig()
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(spatev1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	client, err := kube.New(rest, kube.Options{Scheme: scheme})
	return &Connection{Config: rest, Client: client, Namespace: namespace}, err
}
