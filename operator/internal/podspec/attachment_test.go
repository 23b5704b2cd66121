// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

func reference(name spatev1.ObjectName) spatev1.NetworkReference {
	return spatev1.NetworkReference{Network: name}
}

// eachKind are ports of all kinds, with the resources of their networks.
func eachKind() (map[string]spatev1.GeneratorPort, Attachments) {
	function := func(driver spatev1.NetworkDriver) *spatev1.SRIOVAttachment {
		return &spatev1.SRIOVAttachment{NetworkReference: reference("vf"), Driver: driver}
	}
	bond := func(members ...spatev1.BondMember) spatev1.PortAttachment {
		return spatev1.PortAttachment{Bond: &spatev1.BondAttachment{Members: members}}
	}
	port := func(to spatev1.PortAttachment) spatev1.GeneratorPort {
		return spatev1.GeneratorPort{Name: "east", Attachment: to}
	}
	return map[string]spatev1.GeneratorPort{
		"a function":            port(spatev1.PortAttachment{SRIOV: function(spatev1.DriverUserspace)}),
		"a bifurcated function": port(spatev1.PortAttachment{SRIOV: function(spatev1.DriverBifurcated)}),
		"a kernel interface":    port(spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{NetworkReference: reference("net")}}),
		"AF_XDP": port(spatev1.PortAttachment{Kernel: &spatev1.KernelAttachment{
			NetworkReference: reference("net"), SocketFamily: spatev1.FamilyAFXDP}}),
		"a bond of functions": port(bond(spatev1.BondMember{Name: "a", SRIOV: function(spatev1.DriverUserspace)},
			spatev1.BondMember{Name: "b", SRIOV: function(spatev1.DriverUserspace)})),
		"a bond of both": port(bond(spatev1.BondMember{Name: "a", SRIOV: function(spatev1.DriverUserspace)},
			spatev1.BondMember{Name: "k", Kernel: &spatev1.KernelAttachment{NetworkReference: reference("net")}})),
		"shared memory": port(spatev1.PortAttachment{Memif: &spatev1.MemifAttachment{Volume: "v", Socket: "vpp/e.sock", ID: 4, Role: spatev1.MemifClient}}),
		"a loopback":    port(spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}),
		"nothing":       port(spatev1.PortAttachment{Discard: &spatev1.DiscardAttachment{}}),
	}, Attachments{Resources: map[string]string{"east": "vendor.example/vf", "a": "vendor.example/vf", "b": "vendor.example/vf"}}
}

func TestPodsHaveWhatEachAttachmentNeedsAndNothingElse(t *testing.T) {
	ports, attachments := eachKind()
	for name, want := range map[string]struct {
		device    string
		networks  string
		functions int64
		mayAdmin  bool
		shared    bool
	}{
		"a function":            {"attached:east,resource=vendor.example/vf", `[{"name":"vf","namespace":"lab","interface":"east"}]`, 1, false, false},
		"a bifurcated function": {"attached:east,resource=vendor.example/vf", `[{"name":"vf","namespace":"lab","interface":"east"}]`, 1, true, false},
		"a kernel interface":    {"kernel:east", `[{"name":"net","namespace":"lab","interface":"east"}]`, 0, true, true},
		"AF_XDP":                {"xdp:east", `[{"name":"net","namespace":"lab","interface":"east"}]`, 0, true, true},
		"a bond of functions": {"bond,member=attached:a;resource=vendor.example/vf,member=attached:b;resource=vendor.example/vf",
			`[{"name":"vf","namespace":"lab","interface":"a"},{"name":"vf","namespace":"lab","interface":"b"}]`, 2, false, false},
		"a bond of both": {"bond,member=attached:a;resource=vendor.example/vf,member=kernel:k",
			`[{"name":"vf","namespace":"lab","interface":"a"},{"name":"net","namespace":"lab","interface":"k"}]`, 1, true, true},
		"shared memory": {"memif:/var/lib/spate/volumes/v/vpp/e.sock,id=4,role=client", "", 0, false, false},
		"a loopback":    {"loopback", "", 0, false, false},
		"nothing":       {"null", "", 0, false, false},
	} {
		g := generator()
		g.Spec.Ports = []spatev1.GeneratorPort{ports[name]}
		pod := Template{Generator: g, Attachments: attachments}.Pod(0, 0)
		c := pod.Spec.Containers[0]
		if got := c.Args[slices.Index(c.Args, "--port")+1]; got != "east="+want.device {
			t.Errorf("%s: --port %s", name, got)
		}
		if got := pod.Annotations[NetworksAnnotation]; got != want.networks {
			t.Errorf("%s: networks %s", name, got)
		}
		if got := c.Resources.Limits["vendor.example/vf"]; got.Value() != want.functions {
			t.Errorf("%s: %s functions", name, got.String())
		}
		added := c.SecurityContext.Capabilities.Add
		for _, capability := range []corev1.Capability{"NET_RAW", "NET_ADMIN"} {
			if slices.Contains(added, capability) != want.mayAdmin {
				t.Errorf("%s: capabilities %v", name, added)
			}
		}
		if slices.Contains(added, "BPF") != (name == "AF_XDP") {
			t.Errorf("%s: capabilities %v", name, added)
		}
		if got := Shared(&g.Spec, nil); (len(got) > 0) != want.shared {
			t.Errorf("%s: shared %q", name, got)
		}
		for _, v := range pod.Spec.Volumes {
			if v.HostPath != nil {
				t.Errorf("%s: %s of the node", name, v.HostPath.Path)
			}
		}
		if strings.Contains(strings.Join(c.Args, " "), "--port east= ") {
			t.Errorf("%s: no device in %v", name, c.Args)
		}
	}
}

func TestAnAFXDPPortIsForMeasurementWhereNothingIsCopied(t *testing.T) {
	ports, attachments := eachKind()
	port := ports["AF_XDP"]
	opened := func(modes ...spatev1.XDPCopyMode) (pods []spatev1.GeneratorPodStatus) {
		for _, mode := range modes {
			pods = append(pods, spatev1.GeneratorPodStatus{Ports: []spatev1.GeneratorPortStatus{
				{Name: "west"}, {Name: "east", XDP: &spatev1.XDPStatus{CopyMode: mode}}}})
		}
		return pods
	}
	for _, c := range []struct {
		pods []spatev1.GeneratorPodStatus
		want string
	}{
		{opened(), "no engine has opened"},
		{opened(spatev1.XDPZeroCopy, spatev1.XDPCopy), "the kernel copies"},
		{opened(spatev1.XDPZeroCopy, spatev1.XDPZeroCopy), ""},
	} {
		got := attachments.of(&port).shared(c.pods)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v: shared %q, want %q", c.pods, got, c.want)
		}
	}
}
