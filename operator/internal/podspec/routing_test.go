// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

// routers returns a generator with sessions on its second port, of which two have a password of one Secret.
func routers() *spatev1.TrafficGenerator {
	g := generator()
	from := func(name, key string) *spatev1.PasswordSource {
		source := &spatev1.PasswordSource{}
		source.SecretKeyRef.Name, source.SecretKeyRef.Key = name, key
		return source
	}
	g.Spec.Ports[1].Addresses = []spatev1.InterfaceAddress{"10.99.0.1/24"}
	g.Spec.Ports[1].Routing = &spatev1.PortRouting{
		BGP: []spatev1.BGPSession{
			{Name: "b", PasswordFrom: from("keys", "two")}, {Name: "a", PasswordFrom: from("keys", "one")}, {Name: "c", PasswordFrom: from("keys", "one")}, {Name: "d"},
		},
		OSPF: []spatev1.OSPFSession{{Name: "core", PasswordFrom: from("area", "key")}},
	}
	return g
}

func TestRoutingIsASidecarThatOnlySharesBIRDsFiles(t *testing.T) {
	g, attachments := devices(routers())
	pod := Template{Generator: g, Image: "engine", Attachments: attachments}.Pod(0, 0)
	if len(pod.Spec.InitContainers) != 1 || len(pod.Spec.Containers) != 1 {
		t.Fatalf("got %d init containers, %d containers", len(pod.Spec.InitContainers), len(pod.Spec.Containers))
	}
	c, engine := pod.Spec.InitContainers[0], pod.Spec.Containers[0]
	if c.Name != RoutingContainer || c.Image != "engine" || c.Command[0] != "/usr/sbin/bird" || c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Errorf("got %+v", c)
	}
	if want := []corev1.VolumeMount{{Name: "routing", MountPath: "/routing"}}; !reflect.DeepEqual(c.VolumeMounts, want) {
		t.Errorf("it has %v, and no password but in BIRD's own configuration", c.VolumeMounts)
	}
	if rights := c.SecurityContext.Capabilities; !slices.Equal(rights.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(rights.Add, []corev1.Capability{"NET_RAW", "NET_ADMIN", "NET_BIND_SERVICE"}) {
		t.Errorf("it has %+v", rights)
	}
	if !reflect.DeepEqual(c.Resources.Requests, c.Resources.Limits) || c.Resources.Limits.Cpu().MilliValue() != 500 || c.Resources.Limits.Memory().String() != "128Mi" {
		t.Errorf("the pod is not Guaranteed: %+v", c.Resources)
	}
	if args := strings.Join(engine.Args, " "); !strings.Contains(args, "--router west=router-1 --routing-dir /routing --routing-passwords /etc/spate/passwords") {
		t.Errorf("got %s", args)
	}
	if !slices.Contains(engine.SecurityContext.Capabilities.Add, "NET_ADMIN") || !slices.ContainsFunc(engine.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/dev/net/tun" }) {
		t.Error("the engine cannot make the interface")
	}
	for _, v := range pod.Spec.Volumes {
		switch v.Name {
		case "routing":
			if v.EmptyDir == nil || v.EmptyDir.Medium != corev1.StorageMediumMemory {
				t.Errorf("passwords would be written to a disk: %+v", v)
			}
		case "passwords":
			var names []string
			for _, source := range v.Projected.Sources {
				if source.Secret.Optional == nil || !*source.Secret.Optional {
					t.Errorf("the pod would not start without %s, and the engine reports it", source.Secret.Name)
				}
				for _, item := range source.Secret.Items {
					names = append(names, item.Path)
				}
			}
			if !slices.Equal(names, []string{"area/key", "keys/one", "keys/two"}) {
				t.Errorf("got %v", names)
			}
		}
	}
}

func TestTheMemoryOfRoutingIsThatOfTheGenerator(t *testing.T) {
	g, attachments := devices(routers())
	g.Spec.Routing, g.Spec.CPUPolicy = &spatev1.GeneratorRouting{Memory: "2Gi"}, spatev1.CPUShared
	pod := Template{Generator: g, Attachments: attachments}.Pod(0, 0)
	c, engine := pod.Spec.InitContainers[0], pod.Spec.Containers[0]
	if c.Resources.Limits.Memory().String() != "2Gi" || !c.Resources.Limits.Cpu().IsZero() || c.Resources.Requests.Cpu().MilliValue() != 50 {
		t.Errorf("got %+v", c.Resources)
	}
	// BIRD's configuration has a million routes with at most 60 bytes each.
	const million = 60 * 1_000_000
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == routingVolume })
	files := pod.Spec.Volumes[at].EmptyDir.SizeLimit.Value()
	g.Spec.Routing.Memory = "128Mi"
	least := Template{Generator: g, Attachments: attachments}.Pod(0, 0).Spec.Containers[0].Resources.Limits.Memory().Value()
	if more := engine.Resources.Limits.Memory().Value() - least; files < 3*million || more < 2*million || more > files {
		t.Errorf("a folder of %d bytes, and %d more of the engine's memory than with 128Mi", files, more)
	}
}

func TestAPodWithoutRoutingHasNothingOfIt(t *testing.T) {
	g, attachments := devices(generator())
	pod := Template{Generator: g, Attachments: attachments}.Pod(0, 0)
	if len(pod.Spec.InitContainers) != 0 || slices.Contains(pod.Spec.Containers[0].Args, "--routing-dir") {
		t.Errorf("got %+v", pod.Spec)
	}
	if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "routing" || v.Name == "passwords" }) {
		t.Errorf("got %+v", pod.Spec.Volumes)
	}
}
