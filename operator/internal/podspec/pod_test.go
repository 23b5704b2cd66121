// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
)

func generator() *spatev1.TrafficGenerator {
	return &spatev1.TrafficGenerator{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "g"},
		Spec: spatev1.TrafficGeneratorSpec{
			Replicas: 1, Workers: 1, CPUPolicy: spatev1.CPUExclusive, ControlCPU: spatev1.ControlDedicated, PollMode: spatev1.PollAuto,
			PacketMemory: spatev1.PacketMemory{Backing: spatev1.BackingHugepages2Mi, Size: "128Mi"},
			Ports: []spatev1.GeneratorPort{
				{Name: "east", Attachment: spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Network: "net-a"}}}},
				{Name: "west", LineRate: "10Gbps", Attachment: spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: spatev1.NetworkReference{Network: "net-b", Namespace: "nets"}}}},
				{Name: "loop", Attachment: spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}},
			},
		},
	}
}

// devices makes the generator's networks those of virtual functions.
func devices(g *spatev1.TrafficGenerator) (*spatev1.TrafficGenerator, Attachments) {
	resources := map[string]string{}
	for i := range g.Spec.Ports {
		port := &g.Spec.Ports[i]
		if to := port.Attachment.Kernel; to != nil {
			port.Attachment = spatev1.PortAttachment{SRIOV: &spatev1.SRIOVAttachment{NetworkReference: to.NetworkReference, Driver: spatev1.DriverUserspace}}
			resources[string(port.Name)] = "vendor.example/vf"
		}
	}
	return g, Attachments{Resources: resources}
}

func TestExclusivePodIsGuaranteedWithWholeCPUs(t *testing.T) {
	g := generator()
	for control, want := range map[spatev1.ControlCPU]string{spatev1.ControlDedicated: "2", spatev1.ControlShared: "1"} {
		g.Spec.ControlCPU = control
		r := Template{Generator: g}.Pod(0, 0).Spec.Containers[0].Resources
		if cpu := r.Limits[corev1.ResourceCPU]; cpu.String() != want {
			t.Errorf("controlCPU %s: %s CPUs, want %s", control, cpu.String(), want)
		}
		for name, limit := range r.Limits {
			if request := r.Requests[name]; request.Cmp(limit) != 0 {
				t.Errorf("%s: request %s differs from limit %s", name, request.String(), limit.String())
			}
		}
		if huge := r.Limits["hugepages-2Mi"]; huge.String() != "128Mi" {
			t.Errorf("hugepages-2Mi: %s", huge.String())
		}
	}
}

func TestThreadsPerCoreRoundsCPUsUpToCores(t *testing.T) {
	for _, c := range []struct {
		threads *int32
		workers int32
		control spatev1.ControlCPU
		want    string
		idle    bool
	}{
		{nil, 2, spatev1.ControlDedicated, "3", false},
		{ptr.To[int32](2), 2, spatev1.ControlDedicated, "4", false},
		{ptr.To[int32](2), 2, spatev1.ControlShared, "2", false},
		{ptr.To[int32](1), 2, spatev1.ControlDedicated, "6", true},
		{ptr.To[int32](1), 1, spatev1.ControlShared, "2", true},
	} {
		g := generator()
		g.Spec.ThreadsPerCore, g.Spec.Workers, g.Spec.ControlCPU = c.threads, c.workers, c.control
		container := Template{Generator: g}.Pod(0, 0).Spec.Containers[0]
		cpus := container.Resources.Limits[corev1.ResourceCPU]
		if idle := strings.Contains(strings.Join(container.Args, " "), "--threads-per-core 1"); cpus.String() != c.want || idle != c.idle {
			t.Errorf("%+v: %s CPUs, %v", c, cpus.String(), container.Args)
		}
	}
}

func TestSharedPodWithoutHugepagesRunsAnywhere(t *testing.T) {
	g := generator()
	g.Spec.CPUPolicy, g.Spec.PacketMemory.Backing = spatev1.CPUShared, spatev1.BackingStandard
	c := Template{Generator: g}.Pod(0, 0).Spec.Containers[0]
	if mode := c.Args[slices.Index(c.Args, "--poll-mode")+1]; mode != "adaptive" {
		t.Errorf("workers that share CPUs poll: %s", mode)
	}
	r := c.Resources
	if _, limited := r.Limits[corev1.ResourceCPU]; limited {
		t.Error("CPU is limited")
	}
	for name := range r.Limits {
		if strings.HasPrefix(string(name), "hugepages") {
			t.Errorf("asks for %s", name)
		}
	}
	if shared := Shared(&g.Spec, nil); len(shared) != 4 {
		t.Errorf("got %q", shared)
	}
}

func TestPodsHaveTheMemoryThatTheGeneratorAsksFor(t *testing.T) {
	for name, c := range map[string]struct {
		workers int32
		memory  spatev1.MemorySize
		backing spatev1.MemoryBacking
		want    string
	}{
		"by workers":            {1, "", spatev1.BackingHugepages2Mi, "288Mi"},
		"by more workers":       {4, "", spatev1.BackingHugepages2Mi, "384Mi"},
		"as asked for":          {4, "6Gi", spatev1.BackingHugepages2Mi, "6Gi"},
		"with packet buffers":   {1, "", spatev1.BackingStandard, "416Mi"},
		"and with both of them": {4, "1000Mi", spatev1.BackingStandard, "1128Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			g := generator()
			g.Spec.Workers, g.Spec.Memory, g.Spec.PacketMemory.Backing = c.workers, c.memory, c.backing
			r := Template{Generator: g}.Pod(0, 0).Spec.Containers[0].Resources
			limit, request := r.Limits[corev1.ResourceMemory], r.Requests[corev1.ResourceMemory]
			if limit.String() != c.want || request.String() != c.want {
				t.Errorf("limit %s, request %s, want %s", limit.String(), request.String(), c.want)
			}
		})
	}
}

func TestPodsAreReplacedForOtherMemory(t *testing.T) {
	g := generator()
	before, _ := Template{Generator: g}.Digest(0)
	g.Spec.Memory = "288Mi" // the default
	if same, _ := (Template{Generator: g}).Digest(0); same != before {
		t.Errorf("the same memory: digest %s, was %s", same, before)
	}
	g.Spec.Memory = "1Gi"
	if other, _ := (Template{Generator: g}).Digest(0); other == before {
		t.Errorf("other memory: digest %s still", other)
	}
}

func TestPortsAreAttachedByTheirNames(t *testing.T) {
	pod := Template{Generator: generator()}.Pod(0, 0)
	want := `[{"name":"net-a","namespace":"lab","interface":"east"},{"name":"net-b","namespace":"nets","interface":"west"}]`
	if got := pod.Annotations[NetworksAnnotation]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	args := strings.Join(pod.Spec.Containers[0].Args, " ")
	for _, part := range []string{"--port east=kernel:east", "--port loop=loopback", "--line-rate west=10G", "--memory 128M", "--hugepages 2M"} {
		if !strings.Contains(args, part) {
			t.Errorf("no %q in %s", part, args)
		}
	}
}

func TestOffloadsArePassedOn(t *testing.T) {
	g := generator()
	g.Spec.Ports[0].Offloads, g.Spec.Ports[1].Offloads = spatev1.OffloadsNone, spatev1.OffloadsAuto
	args := strings.Join(Template{Generator: g}.Pod(0, 0).Spec.Containers[0].Args, " ")
	if !strings.Contains(args, "--port east=kernel:east,offloads=none ") || strings.Count(args, "offloads") != 1 {
		t.Errorf("args %s", args)
	}
}

func TestWorkerGroupsArePassedOn(t *testing.T) {
	g := generator()
	args := func() string { return strings.Join(Template{Generator: g}.Pod(0, 0).Spec.Containers[0].Args, " ") }
	if strings.Contains(args(), "--worker-group") {
		t.Errorf("without groups: args %s", args())
	}
	g.Spec.Workers = 3
	g.Spec.WorkerGroups = []spatev1.WorkerGroup{
		{Name: "a", Ports: []spatev1.PortName{"east", "loop"}, Workers: 2},
		{Name: "b", Ports: []spatev1.PortName{"west"}, Workers: 1},
	}
	if !strings.Contains(args(), " --worker-group east,loop=2 --worker-group west=1 --workers 3 ") {
		t.Errorf("args %s", args())
	}
	if cpus := CPUs(&g.Spec); cpus != 4 {
		t.Errorf("%d CPUs, want those of three workers and control", cpus)
	}
}

func TestPortsThatAcceptAnyMACSaySo(t *testing.T) {
	g := generator()
	g.Spec.Ports[0].Offloads, g.Spec.Ports[0].AcceptAnyMAC = spatev1.OffloadsNone, true
	args := strings.Join(Template{Generator: g}.Pod(0, 0).Spec.Containers[0].Args, " ")
	if !strings.Contains(args, "--port east=kernel:east,offloads=none,accept=any ") || strings.Count(args, "accept=") != 1 {
		t.Errorf("args %s", args)
	}
}

func TestReceiveTimestampsOfTheDeviceArePassedOn(t *testing.T) {
	g := generator()
	g.Spec.Ports[0].ReceiveTimestamps, g.Spec.Ports[1].ReceiveTimestamps = spatev1.TimestampsDevice, spatev1.TimestampsCPU
	args := strings.Join(Template{Generator: g}.Pod(0, 0).Spec.Containers[0].Args, " ")
	if !strings.Contains(args, "--port east=kernel:east,timestamps=device ") || strings.Count(args, "timestamps=") != 1 {
		t.Errorf("args %s", args)
	}
}

func TestEachPodHasAMACOfItsOwn(t *testing.T) {
	g := generator()
	g.Spec.Ports[0].MAC = "02:00:00:00:00:FF"
	for index, want := range []string{"02:00:00:00:00:ff", "02:00:00:00:01:00"} {
		args := strings.Join(Template{Generator: g}.Pod(index, 0).Spec.Containers[0].Args, " ")
		if !strings.Contains(args, "--port east=kernel:east,mac="+want+" ") || strings.Count(args, "mac=") != 1 {
			t.Errorf("args %s", args)
		}
	}
}

func TestVirtualFunctionsAreRequestedAndNeedNoNetworkCapabilities(t *testing.T) {
	g, attachments := devices(generator())
	pod := Template{Generator: g, Attachments: attachments}.Pod(0, 0)
	if networks := pod.Annotations[NetworksAnnotation]; !strings.Contains(networks, `{"name":"net-b","namespace":"nets","interface":"west"}`) {
		t.Errorf("networks %s", networks)
	}
	c := pod.Spec.Containers[0]
	if args := strings.Join(c.Args, " "); !strings.Contains(args, "--port east=attached:east,resource=vendor.example/vf") {
		t.Errorf("args %s", args)
	}
	if q := c.Resources.Limits["vendor.example/vf"]; q.Value() != 2 {
		t.Errorf("%s virtual functions, want 2", q.String())
	}
	if slices.Contains(c.SecurityContext.Capabilities.Add, "NET_RAW") {
		t.Error("NET_RAW without a kernel interface")
	}
	c = Template{Generator: generator()}.Pod(0, 0).Spec.Containers[0]
	if !slices.Contains(c.SecurityContext.Capabilities.Add, "NET_RAW") || !slices.Contains(c.SecurityContext.Capabilities.Drop, "ALL") {
		t.Errorf("capabilities %+v", c.SecurityContext.Capabilities)
	}
}

func TestBifurcatedDevicesNeedNetworkCapabilities(t *testing.T) {
	g, resources := devices(generator())
	g.Spec.Ports[0].Attachment.SRIOV.Driver = spatev1.DriverBifurcated
	c := Template{Generator: g, Attachments: resources}.Pod(0, 0).Spec.Containers[0]
	for _, capability := range []corev1.Capability{"NET_RAW", "NET_ADMIN", "IPC_LOCK"} {
		if !slices.Contains(c.SecurityContext.Capabilities.Add, capability) {
			t.Errorf("no %s among %v", capability, c.SecurityContext.Capabilities.Add)
		}
	}
	if args := strings.Join(c.Args, " "); !strings.Contains(args, "--port east=attached:east,resource=vendor.example/vf") {
		t.Errorf("args %s", args)
	}
	g.Spec.Ports[0].Attachment.SRIOV.Driver = spatev1.DriverUserspace
	if c := (Template{Generator: g, Attachments: resources}).Pod(0, 0).Spec.Containers[0]; slices.Contains(c.SecurityContext.Capabilities.Add, "NET_ADMIN") {
		t.Error("NET_ADMIN for a device of the engine's own")
	}
}

func TestWhatIsSharedSpoilsMeasurements(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*spatev1.TrafficGeneratorSpec)
		reasons []string
	}{
		"devices": {func(*spatev1.TrafficGeneratorSpec) {}, nil},
		"a kernel interface": {func(s *spatev1.TrafficGeneratorSpec) {
			s.Ports[1].Attachment = spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{}}
		}, []string{"port west: its packets pass through the kernel"}},
		"a shared control thread": {func(s *spatev1.TrafficGeneratorSpec) { s.ControlCPU = spatev1.ControlShared }, []string{"controlCPU Shared"}},
		"shared CPUs": {func(s *spatev1.TrafficGeneratorSpec) {
			s.CPUPolicy, s.ControlCPU = spatev1.CPUShared, spatev1.ControlShared
		}, []string{"cpuPolicy Shared"}},
		"ordinary memory": {func(s *spatev1.TrafficGeneratorSpec) { s.PacketMemory.Backing = spatev1.BackingStandard }, []string{"packetMemory.backing Standard"}},
	} {
		g, _ := devices(generator())
		c.change(&g.Spec)
		reasons := Shared(&g.Spec, nil)
		good := len(reasons) == len(c.reasons)
		for i := range min(len(reasons), len(c.reasons)) {
			good = good && strings.HasPrefix(reasons[i], c.reasons[i])
		}
		if !good {
			t.Errorf("%s: %q", name, reasons)
		}
	}
}

func TestEachReplicaHasAddressesOfItsOwn(t *testing.T) {
	g := generator()
	g.Spec.Ports[0].Addresses = []spatev1.InterfaceAddress{"198.18.0.1/24", "2001:2::1/64"}
	var digests []string
	for replica, want := range [][]string{{"east=198.18.0.1/24", "east=2001:2::1/64"}, {"east=198.18.0.2/24", "east=2001:2::2/64"}, {"east=198.18.0.3/24", "east=2001:2::3/64"}} {
		g.Spec.Replicas = int32(replica + 1)
		template := Template{Generator: g}
		args := template.Pod(replica, 0).Spec.Containers[0].Args
		for _, address := range want {
			if !slices.Contains(args, address) {
				t.Errorf("no %s in %v", address, args)
			}
		}
		digest, err := template.Digest(0)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if len(slices.Compact(digests)) != 1 {
		t.Errorf("more replicas replace pods: %v", digests)
	}
}

func TestPortsHavePlacesOnTheirLinksAndVolumesAreMounted(t *testing.T) {
	g := generator()
	east := &g.Spec.Ports[0]
	east.Addresses, east.Gateway, east.Gateway6 = []spatev1.InterfaceAddress{"198.18.0.1/24", "2001:2::1/64"}, "198.18.0.254", "fe80::1"
	east.MulticastGroups = []spatev1.MulticastGroup{{Address: "239.1.1.1"}, {Address: "ff3e::1", Sources: []spatev1.IPAddress{"2001:2::9", "2001:2::8"}}}
	east.VLAN, east.Punt = ptr.To[int32](100), &spatev1.PortPunt{Filter: "tcp port 179", Interface: "bgp"}
	g.Spec.Volumes = []spatev1.GeneratorVolume{
		{Name: "big", PersistentVolumeClaim: &spatev1.ClaimVolume{ClaimName: "claim"}}, {Name: "small", ConfigMap: &spatev1.LocalReference{Name: "map"}},
		{Name: "keys", Secret: &spatev1.SecretVolume{SecretName: "secret"}},
		{Name: "results", PersistentVolumeClaim: &spatev1.ClaimVolume{ClaimName: "records"}, Writable: true},
	}
	g, attachments := devices(g)
	pod := Template{Generator: g, Attachments: attachments}.Pod(0, 0)
	c := pod.Spec.Containers[0]
	for _, want := range [][2]string{
		{"--address", "east=198.18.0.1/24"}, {"--address", "east=2001:2::1/64"}, {"--gateway", "east=198.18.0.254"}, {"--gateway", "east=fe80::1"},
		{"--group", "east=239.1.1.1"}, {"--group", "east=ff3e::1,2001:2::9,2001:2::8"}, {"--vlan", "east=100"}, {"--punt", "east=bgp:tcp port 179"},
	} {
		at := slices.Index(c.Args, want[1])
		if at < 1 || c.Args[at-1] != want[0] {
			t.Errorf("no %v in %v", want, c.Args)
		}
	}
	if !slices.Contains(c.SecurityContext.Capabilities.Add, "NET_ADMIN") {
		t.Error("the interface of a punt cannot be made without NET_ADMIN")
	}
	mounted := map[string]corev1.VolumeMount{}
	for _, m := range c.VolumeMounts {
		mounted[m.Name] = m
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			m, readOnly := mounted[v.Name], v.PersistentVolumeClaim.ReadOnly
			big := m.MountPath == "/var/lib/spate/volumes/big" && m.ReadOnly && readOnly && v.PersistentVolumeClaim.ClaimName == "claim"
			results := m.MountPath == "/var/lib/spate/volumes/results" && !m.ReadOnly && !readOnly && v.PersistentVolumeClaim.ClaimName == "records"
			if big == results {
				t.Errorf("%+v %+v", v, m)
			}
		case v.ConfigMap != nil:
			if m := mounted[v.Name]; m.MountPath != "/var/lib/spate/volumes/small" || v.ConfigMap.Name != "map" {
				t.Errorf("%+v %+v", v, m)
			}
		case v.Secret != nil:
			if m := mounted[v.Name]; v.Secret.SecretName == "secret" && (m.MountPath != "/var/lib/spate/volumes/keys" || !m.ReadOnly) {
				t.Errorf("%+v %+v", v, m)
			}
		}
	}
	if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "secret" }) {
		t.Errorf("no volume of the Secret in %+v", pod.Spec.Volumes)
	}
}

func TestPacketMemoryIsOfPagesOrOfStandardMemory(t *testing.T) {
	for name, c := range map[string]struct {
		memory    spatev1.PacketMemory
		resource  corev1.ResourceName
		amount    string
		arguments string
	}{
		"by default":                 {spatev1.PacketMemory{}, "hugepages-2Mi", "128Mi", "--memory 128M --hugepages 2M"},
		"a size":                     {spatev1.PacketMemory{Size: "1Gi", Backing: spatev1.BackingHugepages2Mi}, "hugepages-2Mi", "1Gi", "--memory 1024M --hugepages 2M"},
		"pages of 1 GiB, by default": {spatev1.PacketMemory{Backing: spatev1.BackingHugepages1Gi}, "hugepages-1Gi", "1Gi", "--memory 1024M --hugepages 1G"},
		"pages of 1 GiB":             {spatev1.PacketMemory{Size: "4Gi", Backing: spatev1.BackingHugepages1Gi}, "hugepages-1Gi", "4Gi", "--memory 4096M --hugepages 1G"},
		"standard memory":            {spatev1.PacketMemory{Size: "64Mi", Backing: spatev1.BackingStandard}, corev1.ResourceMemory, "352Mi", "--memory 64M --hugepages none"},
		"half a MiB more":            {spatev1.PacketMemory{Size: "1536Ki", Backing: spatev1.BackingStandard}, corev1.ResourceMemory, "296448Ki", "--memory 2M --hugepages none"},
	} {
		g := generator()
		g.Spec.PacketMemory = c.memory
		container := Template{Generator: g}.Pod(0, 0).Spec.Containers[0]
		if amount := container.Resources.Limits[c.resource]; amount.String() != c.amount {
			t.Errorf("%s: %s of %s, want %s", name, amount.String(), c.resource, c.amount)
		}
		if args := strings.Join(container.Args, " "); !strings.Contains(args, c.arguments) {
			t.Errorf("%s: no %q in %s", name, c.arguments, args)
		}
	}
}

func TestPodTemplatesAddToPods(t *testing.T) {
	g := generator()
	g.Spec.PodTemplate = &spatev1.EnginePodTemplate{
		Metadata: spatev1.EnginePodMetadata{
			Labels:      map[string]string{"team": "a", LabelGenerator: "another", LabelIndex: "7"},
			Annotations: map[string]string{"note": "b", "irq-load-balancing.crio.io": "disable", NetworksAnnotation: "none"},
		},
		Spec: spatev1.EnginePodSpec{
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, PriorityClassName: "high", RuntimeClassName: ptr.To("kata"), SchedulerName: "numa",
			NodeSelector: map[string]string{"nic": "100g"}, Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}},
			Tolerations: []corev1.Toleration{{Key: "lab"}}, TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}},
		},
	}
	pod := Template{Generator: g}.Pod(1, 0)
	if pod.Labels["team"] != "a" || pod.Labels[LabelGenerator] != "g" || pod.Labels[LabelIndex] != "1" {
		t.Errorf("labels %v", pod.Labels)
	}
	if pod.Annotations["note"] != "b" || pod.Annotations["irq-load-balancing.crio.io"] != "disable" || !strings.Contains(pod.Annotations[NetworksAnnotation], "net-a") {
		t.Errorf("annotations %v", pod.Annotations)
	}
	s := pod.Spec
	if s.ImagePullSecrets[0].Name != "registry" || s.PriorityClassName != "high" || *s.RuntimeClassName != "kata" || s.SchedulerName != "numa" ||
		s.NodeSelector["nic"] != "100g" || s.Affinity.PodAntiAffinity == nil || s.Tolerations[0].Key != "lab" || s.TopologySpreadConstraints[0].TopologyKey != "zone" {
		t.Errorf("spec %+v", s)
	}
}

// On a node of another architecture an engine ends at once.
func TestPodsRequireNodesThatCanExecuteTheirImage(t *testing.T) {
	g := generator()
	template := Template{Generator: g, Architecture: "amd64"}
	want := func(name string, labels map[string]string) {
		t.Helper()
		if got := template.Pod(0, 0).Spec.NodeSelector; !maps.Equal(got, labels) {
			t.Errorf("%s: %v, want %v", name, got, labels)
		}
	}
	want("by itself", map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"})
	template.Architecture = ""
	want("with images for several architectures", map[string]string{"kubernetes.io/os": "linux"})
	template.Architecture = "amd64"
	g.Spec.PodTemplate = &spatev1.EnginePodTemplate{Spec: spatev1.EnginePodSpec{NodeSelector: map[string]string{"nic": "100g"}}}
	want("beside labels of the user", map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "nic": "100g"})
	g.Spec.PodTemplate.Spec.NodeSelector["kubernetes.io/arch"] = "arm64"
	want("with an image of the user's for another architecture", map[string]string{"kubernetes.io/arch": "arm64", "kubernetes.io/os": "linux", "nic": "100g"})
	if len(g.Spec.PodTemplate.Spec.NodeSelector) != 2 {
		t.Error("the generator's own template was changed")
	}
}

func TestOnlyPuntsGetTheDeviceThatMakesInterfaces(t *testing.T) {
	for _, punts := range []bool{false, true} {
		g, virtual := devices(generator())
		if punts {
			g.Spec.Ports[1].Punt = &spatev1.PortPunt{Filter: "arp or tcp port 179", Interface: "bgp"}
		}
		pod := Template{Generator: g, Attachments: virtual}.Pod(0, 0)
		c := pod.Spec.Containers[0]
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/dev/net/tun" && !m.ReadOnly })
		fromHost := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.HostPath != nil && v.HostPath.Path == "/dev/net/tun" && *v.HostPath.Type == corev1.HostPathCharDev
		})
		may := slices.Contains(c.SecurityContext.Capabilities.Add, "NET_ADMIN")
		if mounted != punts || fromHost != punts || may != punts {
			t.Errorf("punt %v: device mounted %v, of the host %v, NET_ADMIN %v", punts, mounted, fromHost, may)
		}
	}
}

func TestTheSocketOfRecordsIsWhereThePodMayWriteAlsoWithoutAClaim(t *testing.T) {
	pod := Template{Generator: generator()}.Pod(0, 0)
	if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil }) {
		t.Errorf("nobody asked for a claim: %v", pod.Spec.Volumes)
	}
	c := pod.Spec.Containers[0]
	at := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "SPATE_RECORDS_SOCKET" })
	if at < 0 {
		t.Fatalf("no socket in %v", c.Env)
	}
	file, isUnix := strings.CutPrefix(c.Env[at].Value, "unix:")
	if !isUnix || !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return !m.ReadOnly && m.MountPath == path.Dir(file) }) {
		t.Errorf("%s is on none of %v", c.Env[at].Value, c.VolumeMounts)
	}
}

func TestDigestTellsWhetherPodsMustBeReplaced(t *testing.T) {
	digest := func(change func(*Template)) string {
		template := Template{Generator: generator(), Image: "engine:1"}
		change(&template)
		d, err := template.Digest(0)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	same := digest(func(*Template) {})
	if digest(func(t *Template) { t.Generator.Spec.Limits = &spatev1.Limits{MaxRate: "1Mpps"} }) != same {
		t.Error("a limit replaces pods")
	}
	for what, change := range map[string]func(*Template){
		"an image": func(t *Template) { t.Image = "engine:2" },
		"a label": func(t *Template) {
			t.Generator.Spec.PodTemplate = &spatev1.EnginePodTemplate{Metadata: spatev1.EnginePodMetadata{Labels: map[string]string{"a": "b"}}}
		},
		"an annotation": func(t *Template) {
			t.Generator.Spec.PodTemplate = &spatev1.EnginePodTemplate{Metadata: spatev1.EnginePodMetadata{Annotations: map[string]string{"a": "b"}}}
		},
		"a scheduler": func(t *Template) {
			t.Generator.Spec.PodTemplate = &spatev1.EnginePodTemplate{Spec: spatev1.EnginePodSpec{SchedulerName: "numa"}}
		},
		"a backing":        func(t *Template) { t.Generator.Spec.PacketMemory.Backing = spatev1.BackingStandard },
		"a size of memory": func(t *Template) { t.Generator.Spec.PacketMemory.Size = "256Mi" },
		"worker groups": func(t *Template) {
			t.Generator.Spec.WorkerGroups = []spatev1.WorkerGroup{{Name: "a", Ports: []spatev1.PortName{"east", "west", "loop"}, Workers: 1}}
		},
	} {
		if digest(change) == same {
			t.Errorf("%s does not replace pods", what)
		}
	}
}

func TestAHungWorkerFailsReadinessAndLiveness(t *testing.T) {
	c := Template{Generator: generator()}.Pod(0, 0).Spec.Containers[0]
	for probe, want := range map[*corev1.Probe]string{c.StartupProbe: "/healthz", c.ReadinessProbe: "/readyz", c.LivenessProbe: "/healthz"} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != want {
			t.Errorf("%+v, want GET %s", probe, want)
		}
	}
}

// A group's template replaces what it sets, and what it does not set stays.
func TestPodsOfAGroupHaveItsLabelAndItsScheduling(t *testing.T) {
	g := generator()
	g.Spec.PodTemplate = &spatev1.EnginePodTemplate{
		Metadata: spatev1.EnginePodMetadata{Labels: map[string]string{"team": "net", "place": "any"}, Annotations: map[string]string{"example.org/a": "1"}},
		Spec:     spatev1.EnginePodSpec{NodeSelector: map[string]string{"zone": "a", "disk": "fast"}, PriorityClassName: "high"},
	}
	plain, err := Template{Generator: g}.Digest(0)
	if err != nil {
		t.Fatal(err)
	}
	g.Spec.Replicas, g.Spec.PodGroups = 3, []spatev1.PodGroup{
		{Name: "near", Replicas: 1},
		{Name: "far", Replicas: 2, NodeSelector: map[string]string{"zone": "b"}, Tolerations: []corev1.Toleration{{Key: "far", Operator: corev1.TolerationOpExists}}},
	}
	template := Template{Generator: g}
	digests := make([]string, 4)
	for index := range digests {
		if digests[index], err = template.Digest(index); err != nil {
			t.Fatal(err)
		}
	}
	near, far := template.Pod(0, 0), template.Pod(2, 0)
	if near.Labels[LabelPodGroup] != "near" || near.Labels["place"] != "any" || near.Spec.NodeSelector["zone"] != "a" || len(near.Spec.Tolerations) != 0 {
		t.Errorf("near: %v, %v", near.Labels, near.Spec)
	}
	if far.Labels[LabelPodGroup] != "far" || far.Labels["place"] != "any" || far.Labels["team"] != "net" || far.Annotations["example.org/a"] != "1" {
		t.Errorf("far: %v, %v", far.Labels, far.Annotations)
	}
	if len(far.Spec.NodeSelector) != 3 || far.Spec.NodeSelector["zone"] != "b" || far.Spec.PriorityClassName != "high" || len(far.Spec.Tolerations) != 1 {
		t.Errorf("far: %v", far.Spec)
	}
	if g.Spec.PodTemplate.Spec.NodeSelector["zone"] != "a" {
		t.Error("the generator's own template was changed")
	}
	// A pod beyond the last is one of the last group's, until it is deleted.
	if digests[0] == digests[1] || digests[1] != digests[2] || digests[2] != digests[3] || digests[0] == plain {
		t.Errorf("digests %v, and %s without groups", digests, plain)
	}
	g.Spec.PodGroups[0].Replicas, g.Spec.Replicas = 2, 4
	if moved, _ := template.Digest(1); moved != digests[0] {
		t.Error("a pod that comes to another group is to be replaced")
	}
	if stays, _ := template.Digest(3); stays != digests[2] {
		t.Error("a pod that stays in its group is kept")
	}
}
