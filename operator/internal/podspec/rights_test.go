// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestEnginesHaveTheRightsThatTheirPortsAndMemoryNeed(t *testing.T) {
	const lock, admin, none = "0 [IPC_LOCK]", "0 [IPC_LOCK NET_RAW NET_ADMIN]", "65532 []"
	kinds, attachments := eachKind()
	kinds["punted"] = kinds["a loopback"]
	kinds["huge pages"] = kinds["a loopback"]
	kinds["a claimed volume"] = kinds["a loopback"]
	for name, want := range map[string]string{
		"a function": lock, "a bifurcated function": admin, "a kernel interface": admin, "AF_XDP": "0 [IPC_LOCK NET_RAW NET_ADMIN BPF]", "a bond of functions": lock, "a bond of both": admin,
		"shared memory": "0 []", "a loopback": none, "nothing": none,
		"punted": "0 [NET_RAW NET_ADMIN]", "huge pages": "0 [IPC_LOCK SYS_NICE]", "a claimed volume": "0 []",
	} {
		g := generator()
		port := kinds[name]
		g.Spec.Ports = []spatev1.GeneratorPort{port}
		g.Spec.PacketMemory.Backing = spatev1.BackingStandard
		switch name {
		case "punted":
			g.Spec.Ports[0].Punt = &spatev1.PortPunt{}
		case "huge pages":
			g.Spec.PacketMemory.Backing = spatev1.BackingHugepages2Mi
		case "a claimed volume", "shared memory":
			g.Spec.Volumes = []spatev1.GeneratorVolume{{Name: "v", PersistentVolumeClaim: &spatev1.ClaimVolume{ClaimName: "v"}}}
		}
		pod := Template{Generator: g, Attachments: attachments}.Pod(0, 0).Spec
		c := pod.Containers[0].SecurityContext
		if got := fmt.Sprint(*c.RunAsUser, c.Capabilities.Add); got != want {
			t.Errorf("%s: user and capabilities %s, want %s", name, got, want)
		}
		if root := *c.RunAsUser == 0; root != (c.RunAsNonRoot == nil) || root != (pod.SecurityContext.FSGroup == nil) {
			t.Errorf("%s: %+v, %+v", name, c, pod.SecurityContext)
		}
	}
}
