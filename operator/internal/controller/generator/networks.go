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
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/ports"
	"spate.dev/operator/internal/podspec"
)

var attachmentKind = schema.GroupVersionKind{Group: "k8s.cni.cncf.io", Version: "v1", Kind: "NetworkAttachmentDefinition"}

// resourceAnnotation on a NetworkAttachmentDefinition names a device plugin's resource.
const resourceAnnotation = "k8s.v1.cni.cncf.io/resourceName"

// attachments gets the ports' networks. A missing network, and one of another kind than the attachment, is reported before any pod is created.
func (r *Reconciler) attachments(ctx context.Context, g *spatev1.TrafficGenerator) (podspec.Attachments, *problem, error) {
	found := podspec.Attachments{Resources: map[string]string{}}
	for _, n := range ports.Networks(&g.Spec, field.NewPath("spec")) {
		definition := &unstructured.Unstructured{}
		definition.SetGroupVersionKind(attachmentKind)
		key := client.ObjectKey{Namespace: n.NamespaceIn(g.Namespace), Name: string(n.Network)}
		switch err := r.Client.Get(ctx, key, definition); {
		case meta.IsNoMatchError(err):
			return found, &problem{spatev1.ReasonNetworkNotFound, n.At.String() + ": the cluster has no NetworkAttachmentDefinitions; install Multus"}, nil
		case apierrors.IsNotFound(err):
			return found, &problem{spatev1.ReasonNetworkNotFound, fmt.Sprintf("%s: NetworkAttachmentDefinition %q does not exist in namespace %s", n.At, n.Network, key.Namespace)}, nil
		case err != nil:
			return found, nil, fmt.Errorf("%s: %w", n.At, err)
		}
		resource := definition.GetAnnotations()[resourceAnnotation]
		if mismatch := kindMismatch(&n, resource); mismatch != "" {
			return found, &problem{spatev1.ReasonNetworkMismatch, fmt.Sprintf("%s: NetworkAttachmentDefinition %s %s", n.At, key, mismatch)}, nil
		}
		found.Resources[n.Interface] = resource
	}
	return found, nil, nil
}

// kindMismatch says why a network is not what the attachment is for; empty if it is. resource is the device plugin's, which the network's
// NetworkAttachmentDefinition names.
func kindMismatch(n *ports.Network, resource string) string {
	switch {
	case n.Device && resource == "":
		return "has no annotation " + resourceAnnotation + ", so it gives the pod no PCI device; annotate it with the device plugin's resource, or attach the port by kernel instead of sriov"
	case n.Device && len(validation.IsQualifiedName(resource)) > 0:
		return fmt.Sprintf("has the annotation %s: %q, which is no name of a resource, such as vendor.example/vf; correct it", resourceAnnotation, resource)
	case !n.Device && resource != "":
		return fmt.Sprintf("gives the pod a device of %s (annotation %s), which would stay unused; attach the port by sriov instead of kernel, or leave the annotation out", resource, resourceAnnotation)
	}
	return ""
}
