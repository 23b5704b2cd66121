// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: do the networks exist that the ports attach to, and which device resources do they need?

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

var attachmentKind = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// resourceAnnotation on a NetworkAttachmentDefinition names a device plugin's resource.
const resourceAnnotation = "k8s.v1.cni.cncf.io/resourceName"

// attachments gets the ports' networks. A missing network is reported before any pod is created.
func (r *Reconciler) attachments(ctx context.Context, g *spatev1.TrafficGenerator) (podspec.Attachments, *problem, error) {
	found := podspec.Attachments{Resources: map[string]string{}}
	for i, port := range g.Spec.Ports {
		n := port.Attachment.Network
		if n == nil {
			continue
		}
		field := fmt.Sprintf("spec.ports[%d].attachment.network", i)
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(attachmentKind)
		key := client.ObjectKey{Namespace: podspec.NetworkNamespace(g, n), Name: string(n.Name)}
		switch err := r.Client.Get(ctx, key, definition); {
		case meta.IsNoMatchError(err):
			return found, &problem{spatev1.ReasonNetworkNotFound, field + ": the cluster has no NetworkAttachmentDefinitions; install Multus"}, nil
		case apierrors.IsNotFound(err):
			return found, &problem{spatev1.ReasonNetworkNotFound, fmt.Sprintf("%s: NetworkAttachmentDefinition %q does not exist in namespace %s", field, n.Name, key.Namespace)}, nil
		case err != nil:
			return found, nil, fmt.Errorf("%s: %w", field, err)
		}
		if resource := definition.GetAnnotations()[resourceAnnotation]; resource != "" {
			found.Resources[string(port.Name)] = resource
		}
	}
	return found, nil, nil
}
