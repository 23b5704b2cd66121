// SPDX-License-Identifier: Apache-2.0

// Package cluster answers: which cluster and namespace does a command use, and which run does a name select? The flags are kubectl's.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// NoRunError says that there is neither a run of a name nor one of a profile of that name.
type NoRunError struct{ name, namespace string }

func (e NoRunError) Error() string {
	return fmt.Sprintf("there is no TrafficRun %q in namespace %s, and no run of a TrafficProfile %q", e.name, e.namespace, e.name)
}

// FindRun returns the run of a name, or the latest run of a profile of that name.
func FindRun(ctx context.Context, reader kube.Reader, namespace, name string) (*spatev1.TrafficRun, error) {
	run := &spatev1.TrafficRun{}
	missing := reader.Get(ctx, kube.ObjectKey{Namespace: namespace, Name: name}, run)
	if missing == nil || kube.IgnoreNotFound(missing) != nil {
		return run, missing
	}
	var runs spatev1.TrafficRunList
	if err := reader.List(ctx, &runs, kube.InNamespace(namespace)); err != nil {
		return nil, err
	}
	ofProfile := slices.DeleteFunc(runs.Items, func(r spatev1.TrafficRun) bool { return ProfileOf(&r) != name })
	if len(ofProfile) == 0 {
		return nil, NoRunError{name: name, namespace: namespace}
	}
	latest := slices.MaxFunc(ofProfile, func(a, b spatev1.TrafficRun) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return &latest, nil
}

// ProfileOf returns the name of the profile that a run executes: its own if the run has an inline profile.
func ProfileOf(run *spatev1.TrafficRun) string {
	if ref := run.Spec.ProfileRef; ref != nil {
		return string(ref.Name)
	}
	return run.Name
}
