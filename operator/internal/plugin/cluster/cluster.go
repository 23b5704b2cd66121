// SPDX-License-Identifier: Apache-2.0

// Package cluster answers: which cluster and namespace does a command use, and which object does a name select? The flags are kubectl's.
package cluster

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// Names of the flags that are described in the help of each command. Of the others it has the names only: ConnectionFlags.
const (
	namespaceFlag  = clientcmd.FlagNamespace
	contextFlag    = clientcmd.FlagContext
	kubeconfigFlag = clientcmd.RecommendedConfigPathFlag
)

// ofConnection is the annotation of flags that are kubectl's for its connection, and are not described in the help.
const ofConnection = "spate.dev/of-connection"

// Add adds the flags to a command: all that kubectl has for the connection, with its meaning.
func (f *Flags) Add(c *cobra.Command) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.ProxyURL = clientcmd.FlagInfo{} // kubectl has it in the kubeconfig only
	names.ContextOverrideFlags.Namespace.Description = "namespace of the object; that of the context when absent"
	names.CurrentContext.Description = "context of the kubeconfig; the current one when absent"
	all := pflag.NewFlagSet("connection", pflag.ContinueOnError)
	clientcmd.BindOverrideFlags(&f.overrides, all, names)
	all.VisitAll(func(flag *pflag.Flag) {
		if flag.Name != namespaceFlag && flag.Name != contextFlag {
			_ = all.SetAnnotation(flag.Name, ofConnection, nil) // fails for a flag that does not exist only
		}
	})
	all.StringVar(&f.kubeconfig, kubeconfigFlag, "", "path of the kubeconfig")
	c.Flags().AddFlagSet(all)
	_ = c.RegisterFlagCompletionFunc(namespaceFlag, f.completeNamespace) // fails for a flag that does not exist only
}

// ConnectionFlags are the flags of a command that kubectl has for its connection and describes in `kubectl options`.
func ConnectionFlags(c *cobra.Command) (all []*pflag.Flag) {
	c.Flags().VisitAll(func(flag *pflag.Flag) {
		if _, is := flag.Annotations[ofConnection]; is {
			all = append(all, flag)
		}
	})
	return all
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
		return nil, configured(err)
	}
	rest, err := config.ClientConfig()
	if err != nil {
		return nil, configured(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(spatev1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	client, err := kube.New(rest, kube.Options{Scheme: scheme})
	return &Connection{Config: rest, Client: client, Namespace: namespace}, err
}
