// SPDX-License-Identifier: Apache-2.0

package cluster

// This file answers: what can a user do about a cluster that there is not, or that has no Spate?

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"

	spatev1 "spate.dev/api/v1alpha1"
)

// errNoCluster replaces client-go's error, whose remedy is a variable that kubectl does not read.
var errNoCluster = errors.New("no cluster is configured: set KUBECONFIG or --kubeconfig to a kubeconfig, or --server to an API server")

// Explained adds the remedy to an error about kinds that the cluster does not have.
func Explained(err error) error {
	var absent *meta.NoKindMatchError
	if errors.As(err, &absent) && absent.GroupKind.Group == spatev1.GroupVersion.Group {
		return fmt.Errorf("%w: Spate is not installed in this cluster; install it, or choose another one by --context", err)
	}
	return err
}

// configured replaces an error about a kubeconfig that there is not.
func configured(err error) error {
	if clientcmd.IsEmptyConfig(err) {
		return errNoCluster
	}
	return err
}
