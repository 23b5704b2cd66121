// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: which devices of its resource claims (Dynamic Resource Allocation) has a pod, and which port has which? The claims'
// templates are checked before a pod is created. What a driver reports of the devices is read while the pod starts, and brought to the
// engine by an annotation.

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceclaimtemplates;resourceclaims,verbs=get
// +kubebuilder:rbac:groups=resource.k8s.io,resources=resourceslices,verbs=list
// +kubebuilder:rbac:groups="",resources=pods,verbs=patch

const (
	// pciAttribute is the standard attribute with the PCI address of a device.
	pciAttribute = resourcev1.QualifiedName("resource.kubernetes.io/pciBusID")
	// reportPatience is how long an engine may run before it is reported that nothing is known of a device: drivers report after they have
	// handed it over.
	reportPatience = 5 * time.Second
	// reportLimit is how long an engine may run before its devices are no longer read: it has opened its ports by then, or it has ended
	// (it waits 90 s).
	reportLimit = 2 * time.Minute
)

// claimTemplates checks that the templates of resource claims exist and ask for one device for each port.
func (r *Reconciler) claimTemplates(ctx context.Context, g *spatev1.TrafficGenerator) (*problem, error) {
	for _, claim := range podspec.Claims(&g.Spec) {
		field := attachmentField(claim.Ports[0])
		template := &resourcev1.ResourceClaimTemplate{}
		switch err := r.Live.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: claim.Template}, template); {
		case meta.IsNoMatchError(err):
			return &problem{spatev1.ReasonClaimTemplateNotFound, field + ": the cluster has no ResourceClaimTemplates of resource.k8s.io/v1, which Kubernetes 1.34 and later have"}, nil
		case apierrors.IsNotFound(err):
			return &problem{spatev1.ReasonClaimTemplateNotFound, fmt.Sprintf("%s.resourceClaimTemplateName: ResourceClaimTemplate %q does not exist in namespace %s", field, claim.Template, g.Namespace)}, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		if _, mismatch := portsByRequest(&g.Spec, claim, template.Spec.Spec.Devices.Requests); mismatch != "" {
			return &problem{spatev1.ReasonDeviceMismatch, fmt.Sprintf("ResourceClaimTemplate %s: %s", claim.Template, mismatch)}, nil
		}
	}
	return nil, nil
}

func attachmentField(port int) string {
	return fmt.Sprintf("spec.ports[%d].attachment.resourceClaim", port)
}

// portsByRequest returns the ports that have devices of each request of a claim. The mismatch, if there is one, names the ports' side and the
// claim's.
func portsByRequest(spec *spatev1.TrafficGeneratorSpec, claim podspec.Claim, requests []resourcev1.DeviceRequest) (ports map[string][]int, mismatch string) {
	names := make([]string, len(requests))
	for i, request := range requests {
		names[i] = request.Name
	}
	ports = map[string][]int{}
	for _, i := range claim.Ports {
		name := spec.Ports[i].Attachment.ResourceClaim.Request
		switch {
		case name == "" && len(names) != 1:
			return nil, fmt.Sprintf("port %s names no request, and there are the requests %s: set %s.request to one of them", spec.Ports[i].Name, strings.Join(names, ", "), attachmentField(i))
		case name == "":
			name = names[0]
		case !slices.Contains(names, name):
			return nil, fmt.Sprintf("port %s needs a device of request %s, and there are the requests %s: correct %s.request", spec.Ports[i].Name, name, strings.Join(names, ", "), attachmentField(i))
		}
		ports[name] = append(ports[name], i)
	}
	for i := range requests {
		using := ports[requests[i].Name]
		if len(using) == 0 {
			continue
		}
		for _, asked := range counts(&requests[i]) {
			if asked.count != int64(len(using)) {
				return nil, fmt.Sprintf("%s, and it asks for %d: set spec.spec.devices.requests[%d].%s.count to %d, or attach as many ports", needs(spec, using, requests[i].Name), asked.count, i, asked.field, len(using))
			}
		}
	}
	return ports, ""
}

// deviceCount is how many devices a request asks for in one of its alternatives.
type deviceCount struct {
	field string
	count int64
}

// counts returns how many devices a request asks for; nothing where that is known only when they are allocated.
func counts(request *resourcev1.DeviceRequest) (all []deviceCount) {
	add := func(field string, mode resourcev1.DeviceAllocationMode, count int64) {
		if mode != resourcev1.DeviceAllocationModeAll {
			all = append(all, deviceCount{field, max(count, 1)})
		}
	}
	if request.Exactly != nil {
		add("exactly", request.Exactly.AllocationMode, request.Exactly.Count)
	}
	for i, alternative := range request.FirstAvailable {
		add(fmt.Sprintf("firstAvailable[%d]", i), alternative.AllocationMode, alternative.Count)
	}
	return all
}

// needs names ports and how many devices they need.
func needs(spec *spatev1.TrafficGeneratorSpec, ports []int, request string) string {
	if len(ports) == 1 {
		return fmt.Sprintf("port %s needs 1 device of request %s", spec.Ports[ports[0]].Name, request)
	}
	names := make([]string, len(ports))
	for i, port := range ports {
		names[i] = string(spec.Ports[port].Name)
	}
	return fmt.Sprintf("ports %s need %d devices of request %s", strings.Join(names, ", "), len(ports), request)
}

// reportDevices brings what is known of the devices of starting pods to their engines. It returns the problems by pod.
func (r *Reconciler) reportDevices(ctx context.Context, g *spatev1.TrafficGenerator, live []*corev1.Pod, answers map[string]answer) (map[string]*problem, error) {
	problems := map[string]*problem{}
	claims := podspec.Claims(&g.Spec)
	for _, pod := range live {
		if len(claims) == 0 || pod == nil || pod.Spec.NodeName == "" || ended(pod) || answers[pod.Name].info != nil || runningFor(pod) > reportLimit {
			continue // an engine that answers has opened its ports
		}
		found, err := r.devices(ctx, g, pod, claims)
		if err != nil {
			return nil, err
		}
		if err := r.annotate(ctx, pod, found.known); err != nil {
			return nil, err
		}
		if found.problem != "" && (found.final || runningFor(pod) > reportPatience) {
			problems[pod.Name] = &problem{spatev1.ReasonDeviceMismatch, fmt.Sprintf("pod %s: %s", pod.Name, found.problem)}
		}
	}
	return problems, nil
}

// runningFor returns for how long a pod's engine has been running.
func runningFor(pod *corev1.Pod) time.Duration {
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil {
			return time.Since(c.State.Running.StartedAt.Time)
		}
	}
	return 0
}

// annotate reports devices to a pod's engine. The UID keeps the report from another pod of the same name.
func (r *Reconciler) annotate(ctx context.Context, pod *corev1.Pod, known map[string]podspec.ClaimedDevice) error {
	if len(known) == 0 {
		return nil
	}
	report, err := json.Marshal(known)
	if err != nil {
		return err
	}
	if pod.Annotations[podspec.DevicesAnnotation] == string(report) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]string{podspec.DevicesAnnotation: string(report)}}})
	if err != nil {
		return err
	}
	err = r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsConflict(err) { // it was replaced
		err = nil
	}
	return client.IgnoreNotFound(err)
}

// allocated is what is known of the devices of a pod.
type allocated struct {
	// known devices by port.
	known map[string]podspec.ClaimedDevice
	// problem is what is missing or wrong, if anything.
	problem string
	// final problems do not end by waiting.
	final bool
}

// devices reads the claims of a pod, and the attributes of their devices.
func (r *Reconciler) devices(ctx context.Context, g *spatev1.TrafficGenerator, pod *corev1.Pod, claims []podspec.Claim) (allocated, error) {
	found := allocated{known: map[string]podspec.ClaimedDevice{}}
	published := slicesOf{live: r.Live, node: pod.Spec.NodeName, byDriver: map[string][]resourcev1.ResourceSlice{}}
	for _, claim := range claims {
		name := claimName(pod, claim.Name)
		if name == "" {
			continue // it has not been created yet
		}
		object := &resourcev1.ResourceClaim{}
		if err := r.Live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, object); apierrors.IsNotFound(err) {
			continue // with its pod
		} else if err != nil {
			return found, err
		}
		if object.Status.Allocation == nil {
			continue
		}
		if err := devicesOf(ctx, &g.Spec, published, claim, object, &found); err != nil {
			return found, err
		}
	}
	return found, nil
}

// claimName returns the name of the ResourceClaim that was created for a claim of a pod; empty if none was.
func claimName(pod *corev1.Pod, claim string) string {
	for _, status := range pod.Status.ResourceClaimStatuses {
		if status.Name == claim {
			return ptr.Deref(status.ResourceClaimName, "")
		}
	}
	return ""
}

// devicesOf adds the devices of one claim.
func devicesOf(ctx context.Context, spec *spatev1.TrafficGeneratorSpec, published slicesOf, claim podspec.Claim, object *resourcev1.ResourceClaim, found *allocated) error {
	byRequest, mismatch := portsByRequest(spec, claim, object.Spec.Devices.Requests)
	if mismatch != "" { // the template has changed since it was checked
		found.problem, found.final = fmt.Sprintf("ResourceClaim %s: %s", object.Name, mismatch), true
		return nil
	}
	for i := range object.Spec.Devices.Requests {
		request := object.Spec.Devices.Requests[i].Name
		ports, results := byRequest[request], resultsOf(object, request)
		if len(ports) == 0 {
			continue // no port names it
		}
		if len(results) != len(ports) {
			found.problem, found.final = fmt.Sprintf("ResourceClaim %s: %s, and it has %s: correct the request's allocationMode or count in ResourceClaimTemplate %s, or attach as many ports", object.Name, needs(spec, ports, request), list(results), claim.Template), true
			return nil
		}
		for i, port := range ports {
			name := string(spec.Ports[port].Name)
			device, problem, err := published.device(ctx, object, results[i])
			switch {
			case err != nil:
				return err
			case problem != "" && found.problem != "": // the first port's is reported
			case problem != "":
				found.problem = fmt.Sprintf("port %s: ResourceClaim %s has %s, %s", name, object.Name, list(results[i:i+1]), problem)
			default:
				found.known[name] = device
			}
		}
	}
	return nil
}

// resultsOf returns the devices that were allocated for a request, or for one of its alternatives.
func resultsOf(claim *resourcev1.ResourceClaim, request string) (results []resourcev1.DeviceRequestAllocationResult) {
	for _, result := range claim.Status.Allocation.Devices.Results {
		if name, _, _ := strings.Cut(result.Request, "/"); name == request {
			results = append(results, result)
		}
	}
	return results
}

// list names devices.
func list(results []resourcev1.DeviceRequestAllocationResult) string {
	names := make([]string, len(results))
	for i, result := range results {
		names[i] = fmt.Sprintf("%s of pool %s (driver %s)", result.Device, result.Pool, result.Driver)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

var (
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	// What kernels take beside these is of no use in a device argument of DPDK.
	interfaceName = regexp.MustCompile(`^[A-Za-z0-9_@-][A-Za-z0-9_@.-]{0,14}$`)
)

// slicesOf reads the ResourceSlices of a node, those of each driver once.
type slicesOf struct {
	live     client.Reader
	node     string
	byDriver map[string][]resourcev1.ResourceSlice
}

// device returns what the driver reports of a device, or the problem if that is not enough to open it.
func (s slicesOf) device(ctx context.Context, claim *resourcev1.ResourceClaim, result resourcev1.DeviceRequestAllocationResult) (device podspec.ClaimedDevice, problem string, err error) {
	for _, status := range claim.Status.Devices {
		if status.Driver == result.Driver && status.Pool == result.Pool && status.Device == result.Device && status.NetworkData != nil {
			device.Interface = status.NetworkData.InterfaceName
		}
	}
	if device.Interface != "" && (!interfaceName.MatchString(device.Interface) || device.Interface == "eth0" || device.Interface == "lo") {
		return device, fmt.Sprintf("and its interface in the pod is called %q: let the claim's configuration call it otherwise, by at most 15 letters, digits, '-', '_', '@' and '.', and neither eth0 nor lo", device.Interface), nil
	}
	attributes, err := s.attributes(ctx, result)
	if err != nil {
		return device, "", err
	}
	if address := attributes[pciAttribute].StringValue; address != nil && pciAddress.MatchString(*address) {
		device.PCI = *address
	}
	if device.Interface == "" && device.PCI == "" {
		names := make([]string, 0, len(attributes))
		for name := range attributes {
			names = append(names, string(name))
		}
		slices.Sort(names)
		has := "no attribute"
		if len(names) > 0 {
			has = "the attributes " + strings.Join(names, ", ")
		}
		return device, fmt.Sprintf("of which the driver reports neither an interface (status.devices[].networkData.interfaceName of the claim) nor attribute %s (of the ResourceSlice, which has %s): use a driver that reports one of them", pciAttribute, has), nil
	}
	return device, "", nil
}

// attributes returns those of a device, by the newest generation of its pool on the node.
func (s slicesOf) attributes(ctx context.Context, result resourcev1.DeviceRequestAllocationResult) (map[resourcev1.QualifiedName]resourcev1.DeviceAttribute, error) {
	all, err := s.ofDriver(ctx, result.Driver)
	var attributes map[resourcev1.QualifiedName]resourcev1.DeviceAttribute
	newest := int64(-1)
	for i := range all {
		slice := &all[i].Spec
		if slice.Pool.Name != result.Pool || slice.Pool.Generation <= newest {
			continue
		}
		for j := range slice.Devices {
			if slice.Devices[j].Name == result.Device {
				attributes, newest = slice.Devices[j].Attributes, slice.Pool.Generation
			}
		}
	}
	return attributes, err
}

func (s slicesOf) ofDriver(ctx context.Context, driver string) ([]resourcev1.ResourceSlice, error) {
	if known, read := s.byDriver[driver]; read {
		return known, nil
	}
	var list resourcev1.ResourceSliceList
	selector := client.MatchingFields{resourcev1.ResourceSliceSelectorDriver: driver, resourcev1.ResourceSliceSelectorNodeName: s.node}
	if err := s.live.List(ctx, &list, selector); err != nil {
		return nil, fmt.Errorf("ResourceSlices of driver %s: %w", driver, err)
	}
	s.byDriver[driver] = list.Items
	return list.Items, nil
}
