// SPDX-License-Identifier: Apache-2.0

package podspec

// This file answers: which pod runs an engine of a generator?

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan/data"
	"spate.dev/operator/internal/plan/ports"
)

const (
	// NetworksAnnotation requests networks from Multus; NetworkStatusAnnotation is where Multus reports them.
	NetworksAnnotation      = "k8s.v1.cni.cncf.io/networks"
	NetworkStatusAnnotation = "k8s.v1.cni.cncf.io/network-status"

	tlsDir     = "/etc/spate/tls"
	podInfoDir = "/etc/spate/pod"

	// recordsSocketVariable is the path of the socket on which the engine serves records of connections. It is on a
	// volume of the pod's own, because the root file system is read-only.
	recordsSocketVariable = "SPATE_RECORDS_SOCKET"
	recordsSocket         = "unix:/run/spate-records.sock"

	// terminationGrace is the time in seconds for an engine to stop its traffic and finish its drain.
	terminationGrace = 15
)

// Template is what the engine pods of a generator are built from.
type Template struct {
	Generator   *spatev1.TrafficGenerator
	Image       string
	PullPolicy  corev1.PullPolicy
	Attachments Attachments
	// Architecture of engine images, as nodes have it in the label kubernetes.io/arch; empty where images are of several.
	Architecture string
}

// Digest changes when the pod with an index must be replaced to match the generator's spec. It is the same for all pods of a group.
func (t Template) Digest(index int) (string, error) {
	own := t.own(index)
	labels := map[string]string{}
	if own != nil {
		labels = own.Metadata.Labels
	}
	parts := []any{t.pod(0, 0, own).Spec, t.annotations(own), labels}
	if group := ports.GroupAt(&t.Generator.Spec, index); group != nil {
		parts = append(parts, group.Name)
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// Pod builds the pod of a replica. The caller adds the label with the template's digest.
func (t Template) Pod(index, attempt int) *corev1.Pod {
	pod := t.pod(index, attempt, t.own(index))
	if group := ports.GroupAt(&t.Generator.Spec, index); group != nil {
		pod.Labels[LabelPodGroup] = string(group.Name)
	}
	return pod
}

// own returns what users set of the pod with an index: the generator's podTemplate with where the pod's group is to be; nil if there is
// none.
func (t Template) own(index int) *spatev1.EnginePodTemplate {
	all, group := t.Generator.Spec.PodTemplate, ports.GroupAt(&t.Generator.Spec, index)
	if group == nil || len(group.NodeSelector)+len(group.Tolerations) == 0 {
		return all
	}
	merged := &spatev1.EnginePodTemplate{}
	if all != nil {
		merged = all.DeepCopy()
	}
	merged.Spec.NodeSelector = union(merged.Spec.NodeSelector, maps.Clone(group.NodeSelector))
	merged.Spec.Tolerations = append(merged.Spec.Tolerations, group.Tolerations...)
	return merged
}

// union returns all entries of both maps; those of `over` win.
func union(base, over map[string]string) map[string]string {
	if base == nil {
		return over
	}
	maps.Copy(base, over)
	return base
}

func (t Template) pod(index, attempt int, own *spatev1.EnginePodTemplate) *corev1.Pod {
	g := t.Generator
	labels := map[string]string{}
	if own != nil {
		maps.Copy(labels, own.Metadata.Labels)
	}
	maps.Copy(labels, Labels(g))
	labels[LabelIndex] = strconv.Itoa(index)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   g.Namespace,
			Name:        PodName(g.Name, index, attempt),
			Labels:      labels,
			Annotations: t.annotations(own),
		},
		Spec: corev1.PodSpec{
			// A pod that ends is kept for inspection, and its replacement is counted.
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: ptr.To[int64](terminationGrace),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			SecurityContext:               t.podSecurityContext(),
			Containers:                    []corev1.Container{t.container(index)},
			Volumes:                       t.volumes(),
		},
	}
	addClaims(&pod.Spec, &g.Spec)
	t.addRouting(&pod.Spec)
	if own != nil {
		own := own.Spec.DeepCopy()
		pod.Spec.ImagePullSecrets, pod.Spec.PriorityClassName, pod.Spec.RuntimeClassName = own.ImagePullSecrets, own.PriorityClassName, own.RuntimeClassName
		pod.Spec.SchedulerName, pod.Spec.NodeSelector, pod.Spec.Affinity = own.SchedulerName, own.NodeSelector, own.Affinity
		pod.Spec.Tolerations, pod.Spec.TopologySpreadConstraints = own.Tolerations, own.TopologySpreadConstraints
	}
	pod.Spec.NodeSelector = union(t.platform(), pod.Spec.NodeSelector)
	return pod
}

// platform returns the labels of nodes that can execute the engine. On another node its container would end with `exec format error`. Users
// with an image for another architecture override the label.
func (t Template) platform() map[string]string {
	labels := map[string]string{corev1.LabelOSStable: "linux"}
	if t.Architecture != "" {
		labels[corev1.LabelArchStable] = t.Architecture
	}
	return labels
}

func (t Template) container(index int) corev1.Container {
	return corev1.Container{
		Name:            EngineContainer,
		Image:           t.Image,
		ImagePullPolicy: t.PullPolicy,
		Args:            t.args(index),
		Env:             []corev1.EnvVar{{Name: recordsSocketVariable, Value: recordsSocket}},
		Ports: []corev1.ContainerPort{
			{Name: PortGRPC, ContainerPort: grpcPort, Protocol: corev1.ProtocolTCP},
			{Name: PortMetrics, ContainerPort: metricsPort, Protocol: corev1.ProtocolTCP},
		},
		Resources:                t.resources(),
		SecurityContext:          t.securityContext(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		// The metrics listener starts when the ports are open. A control thread that hangs does not answer. A worker
		// that hangs fails the readiness and liveness probes: the pod is not ready within 10 s, and is ended within a
		// minute.
		StartupProbe:   probe("/healthz", 1, 120),
		ReadinessProbe: probe("/readyz", 5, 2),
		LivenessProbe:  probe("/healthz", 10, 6),
		VolumeMounts:   t.mounts(),
	}
}

// tunDevice creates the interfaces for punted packets and for routing protocols. On a node without it (the kernel module tun is not loaded) the
// pod does not start, and its events report that.
const (
	tunDevice = "/dev/net/tun"
	tunVolume = "tun"
)

func (t Template) mounts() []corev1.VolumeMount {
	mounts := []corev1.VolumeMount{
		{Name: "tls", MountPath: tlsDir, ReadOnly: true},
		{Name: "pod", MountPath: podInfoDir, ReadOnly: true},
		{Name: "run", MountPath: "/run"},
		{Name: "tmp", MountPath: "/tmp"},
	}
	for i, v := range t.Generator.Spec.Volumes {
		mounts = append(mounts, corev1.VolumeMount{Name: captures(i), MountPath: path.Join(data.VolumesDir, string(v.Name)), ReadOnly: !v.Writable})
	}
	if t.makesInterface() {
		mounts = append(mounts, corev1.VolumeMount{Name: tunVolume, MountPath: tunDevice})
	}
	return append(mounts, t.routingMounts()...)
}

// captures returns the pod's name of a volume with captures, by index: the volume's own name with a prefix may exceed
// the length of such a name.
func captures(index int) string { return "captures-" + strconv.Itoa(index) }

func probe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString(PortMetrics)}},
		PeriodSeconds:    period,
		FailureThreshold: failures,
		TimeoutSeconds:   3,
	}
}

func (t Template) args(index int) []string {
	s := &t.Generator.Spec
	args := []string{"serve"}
	for _, port := range s.Ports {
		device := t.Attachments.of(&port).device()
		if port.Offloads != "" && port.Offloads != spatev1.OffloadsAuto {
			device += ",offloads=" + strings.ToLower(string(port.Offloads))
		}
		if port.AcceptAnyMAC {
			device += ",accept=any"
		}
		if port.ReceiveTimestamps == spatev1.TimestampsDevice {
			device += ",timestamps=device"
		}
		if address, ok := ports.MACOf(port.MAC, index); ok {
			device += ",mac=" + address.String()
		}
		args = append(args, "--port", fmt.Sprintf("%s=%s", port.Name, device))
	}
	for _, port := range s.Ports {
		if port.LineRate != "" {
			args = append(args, "--line-rate", fmt.Sprintf("%s=%s", port.Name, strings.TrimSuffix(string(port.LineRate), "bps")))
		}
	}
	for _, port := range s.Ports {
		args = append(args, link(&port, index)...)
	}
	args = append(args, t.routers()...)
	for _, group := range s.WorkerGroups {
		names := make([]string, len(group.Ports))
		for i, name := range group.Ports {
			names[i] = string(name)
		}
		args = append(args, "--worker-group", fmt.Sprintf("%s=%d", strings.Join(names, ","), group.Workers))
	}
	if ptr.Deref(s.ThreadsPerCore, 0) == 1 {
		args = append(args, "--threads-per-core", "1")
	}
	return append(args,
		"--workers", strconv.Itoa(int(s.Workers)),
		"--memory", engineMemory(packetMemory(s)),
		"--hugepages", pageSizes[s.PacketMemory.Backing].engine,
		"--poll-mode", strings.ToLower(string(pollMode(s))),
		"--cpus", "auto",
		"--listen", fmt.Sprintf("0.0.0.0:%d", grpcPort),
		"--tls-dir", tlsDir,
		"--metrics", fmt.Sprintf("0.0.0.0:%d", metricsPort),
		"--network-status", podInfoDir+"/network-status",
	)
}

// link returns the arguments with a port's addresses and groups on its link, in the pod of a replica.
func link(port *spatev1.GeneratorPort, replica int) []string {
	var args []string
	for _, first := range port.Addresses {
		address := string(first)
		if prefix, err := netip.ParsePrefix(address); err == nil { // else the engine refuses it
			own, _ := ports.AddressOf(prefix, replica) // its existence was checked with the generator
			address = own.String()
		}
		args = append(args, "--address", fmt.Sprintf("%s=%s", port.Name, address))
	}
	if port.Gateway != "" {
		args = append(args, "--gateway", fmt.Sprintf("%s=%s", port.Name, port.Gateway))
	}
	if port.Gateway6 != "" {
		args = append(args, "--gateway", fmt.Sprintf("%s=%s", port.Name, port.Gateway6))
	}
	for _, group := range port.MulticastGroups {
		members := []string{string(group.Address)}
		for _, source := range group.Sources {
			members = append(members, string(source))
		}
		args = append(args, "--group", fmt.Sprintf("%s=%s", port.Name, strings.Join(members, ",")))
	}
	if port.VLAN != nil {
		args = append(args, "--vlan", fmt.Sprintf("%s=%d", port.Name, *port.VLAN))
	}
	if punt := port.Punt; punt != nil {
		args = append(args, "--punt", fmt.Sprintf("%s=%s:%s", port.Name, punt.Interface, punt.Filter))
	}
	return args
}

// pollMode returns the mode of workers. An engine does not see that others may run on its CPUs.
func pollMode(spec *spatev1.TrafficGeneratorSpec) spatev1.PollMode {
	if spec.PollMode == spatev1.PollAuto && spec.CPUPolicy == spatev1.CPUShared {
		return spatev1.PollAdaptive
	}
	return spec.PollMode
}

// pageSizes are the names of page sizes in Kubernetes and on the engine's command line, by packet memory backing.
var pageSizes = map[spatev1.MemoryBacking]struct{ kubernetes, engine string }{
	"":                          {"2Mi", "2M"},
	spatev1.BackingHugepages2Mi: {"2Mi", "2M"},
	spatev1.BackingHugepages1Gi: {"1Gi", "1G"},
	spatev1.BackingStandard:     {"", "none"},
}

// packetMemory returns a pod's packet memory: 128Mi by default, and one page where pages are larger.
func packetMemory(spec *spatev1.TrafficGeneratorSpec) resource.Quantity {
	switch {
	case spec.PacketMemory.Size != "":
		return resource.MustParse(string(spec.PacketMemory.Size)) // validated by the CRD
	case spec.PacketMemory.Backing == spatev1.BackingHugepages1Gi:
		return resource.MustParse("1Gi")
	}
	return resource.MustParse("128Mi")
}

// engineMemory formats an amount of memory for the engine's command line: in MiB, rounded up.
func engineMemory(size resource.Quantity) string {
	const mebi = 1 << 20
	return fmt.Sprintf("%dM", (size.Value()+mebi-1)/mebi)
}

// Memory of an engine beside its packet buffers: a base, which includes plans of thousands of streams, and an amount
// per worker with its default number of flows. A rule of TrafficGeneratorSpec has the same numbers.
const (
	baseMemory   = 256 << 20
	workerMemory = 32 << 20
)

// ordinaryMemory returns a pod's memory beside its packet buffers.
func ordinaryMemory(spec *spatev1.TrafficGeneratorSpec) resource.Quantity {
	if spec.Memory != "" {
		return resource.MustParse(string(spec.Memory))
	}
	return *resource.NewQuantity(baseMemory+int64(spec.Workers)*workerMemory, resource.BinarySI)
}

// CPUs returns the number of CPUs of a pod with the Exclusive policy: one for each worker, and one for control unless
// control shares the last worker's; of whole cores with two threads each if the generator is about threads per core.
func CPUs(spec *spatev1.TrafficGeneratorSpec) int64 {
	used := int64(spec.Workers)
	if spec.ControlCPU != spatev1.ControlShared {
		used++
	}
	switch threads := ptr.Deref(spec.ThreadsPerCore, 0); threads {
	case 1:
		return 2 * used
	case 2:
		return used + used%2
	}
	return used
}

func (t Template) resources() corev1.ResourceRequirements {
	s := &t.Generator.Spec
	memory := ordinaryMemory(s)
	buffers := packetMemory(s)
	limits := corev1.ResourceList{}
	if size := pageSizes[s.PacketMemory.Backing].kubernetes; size != "" {
		limits[corev1.ResourceName(corev1.ResourceHugePagesPrefix+size)] = buffers
	} else {
		memory.Add(buffers)
	}
	if ports.HasRouting(s) {
		memory.Add(routingFiles(s))
	}
	limits[corev1.ResourceMemory] = memory
	for _, network := range ports.Networks(s, nil) {
		name := t.Attachments.Resources[network.Interface]
		if !network.Device {
			continue
		}
		q := limits[corev1.ResourceName(name)]
		q.Add(*resource.NewQuantity(1, resource.DecimalSI))
		limits[corev1.ResourceName(name)] = q
	}
	requests := maps.Clone(limits)
	if s.CPUPolicy == spatev1.CPUShared {
		requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(sharedMilliCPU, resource.DecimalSI)
	} else { // requests equal limits in whole CPUs: Guaranteed, for which the static CPU manager assigns exclusive CPUs
		cpus := *resource.NewQuantity(CPUs(s), resource.DecimalSI)
		requests[corev1.ResourceCPU], limits[corev1.ResourceCPU] = cpus, cpus
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

// sharedMilliCPU is the CPU request of an engine that shares CPUs: enough weight to run on a busy node.
const sharedMilliCPU = 200

func (t Template) volumes() []corev1.Volume {
	tiny := resource.MustParse("16Mi")
	scratch := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: &tiny}}
	volumes := []corev1.Volume{
		{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: TLSSecretName(t.Generator.Name), DefaultMode: ptr.To[int32](0o400),
		}}},
		{Name: "pod", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "network-status",
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + NetworkStatusAnnotation + "']"},
			}},
		}}},
		{Name: "run", VolumeSource: scratch},
		{Name: "tmp", VolumeSource: scratch},
	}
	for i, v := range t.Generator.Spec.Volumes {
		volume := corev1.Volume{Name: captures(i)}
		switch {
		case v.PersistentVolumeClaim != nil:
			volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: string(v.PersistentVolumeClaim.ClaimName), ReadOnly: !v.Writable}
		case v.ConfigMap != nil:
			volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: string(v.ConfigMap.Name)}}
		case v.Secret != nil:
			volume.Secret = &corev1.SecretVolumeSource{SecretName: string(v.Secret.SecretName)}
		}
		volumes = append(volumes, volume)
	}
	if t.makesInterface() {
		device := corev1.HostPathCharDev
		volumes = append(volumes, corev1.Volume{Name: tunVolume, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: tunDevice, Type: &device},
		}})
	}
	return append(volumes, t.routingVolumes()...)
}

// networkSelection is an item of NetworksAnnotation (Network Plumbing Working Group, multi-network specification).
type networkSelection struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Interface string `json:"interface"`
}

func (t Template) annotations(own *spatev1.EnginePodTemplate) map[string]string {
	var networks []networkSelection
	for _, n := range ports.Networks(&t.Generator.Spec, nil) {
		networks = append(networks, networkSelection{Name: string(n.Network), Namespace: n.NamespaceIn(t.Generator.Namespace), Interface: n.Interface})
	}
	annotations := map[string]string{}
	if own != nil {
		maps.Copy(annotations, own.Metadata.Annotations)
	}
	if networks != nil {
		text, err := json.Marshal(networks)
		if err != nil {
			panic(err) // strings always marshal
		}
		annotations[NetworksAnnotation] = string(text)
	}
	return annotations
}

// Shared lists the shared resources that measurements depend on; empty if the generator shares none. Pods report how
// their engines opened the ports.
func Shared(spec *spatev1.TrafficGeneratorSpec, pods []spatev1.GeneratorPodStatus) (reasons []string) {
	if spec.CPUPolicy == spatev1.CPUShared {
		reasons = append(reasons, "cpuPolicy Shared: other work runs on the engine's CPUs")
	}
	if spec.CPUPolicy != spatev1.CPUShared && spec.ControlCPU == spatev1.ControlShared {
		reasons = append(reasons, "controlCPU Shared: the control thread takes time from the last worker")
	}
	if spec.PacketMemory.Backing == spatev1.BackingStandard {
		reasons = append(reasons, "packetMemory.backing Standard: packet buffers are in standard pages")
	}
	for i := range spec.Ports {
		if why := (Attachments{}).of(&spec.Ports[i]).shared(pods); why != "" {
			reasons = append(reasons, fmt.Sprintf("port %s: %s", spec.Ports[i].Name, why))
		}
	}
	return reasons
}
