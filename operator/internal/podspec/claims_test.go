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

// claiming gives the generator's ports east, west and loop devices of templates.
func claiming(templates ...string) *spatev1.TrafficGenerator {
	g := generator()
	for i, template := range templates {
		g.Spec.Ports[i].Attachment = spatev1.PortAttachment{ResourceClaim: &spatev1.ResourceClaimAttachment{ResourceClaimTemplateName: spatev1.ObjectName(template)}}
	}
	return g
}

func TestPortsOfOneTemplateShareAClaim(t *testing.T) {
	g := claiming("nics", "other", "nics")
	want := []Claim{{"devices-0", "nics", []int{0, 2}}, {"devices-1", "other", []int{1}}}
	if claims := Claims(&g.Spec); !reflect.DeepEqual(claims, want) {
		t.Errorf("claims %+v, want %+v", claims, want)
	}
	pod := Template{Generator: g}.Pod(0, 0)
	for i, claim := range pod.Spec.ResourceClaims {
		if claim.Name != want[i].Name || *claim.ResourceClaimTemplateName != want[i].Template {
			t.Errorf("the pod has %+v", claim)
		}
	}
	engine := pod.Spec.Containers[0]
	if claims := engine.Resources.Claims; !reflect.DeepEqual(claims, []corev1.ResourceClaim{{Name: "devices-0"}, {Name: "devices-1"}}) {
		t.Errorf("the engine has %+v", claims)
	}
	args := strings.Join(engine.Args, " ")
	for _, words := range []string{"--port east=claimed ", "--port west=claimed ", "--port loop=claimed ", "--claimed-devices /etc/spate/pod/claimed-devices"} {
		if !strings.Contains(args, words) {
			t.Errorf("no %q in %s", words, args)
		}
	}
	for _, capability := range []corev1.Capability{"NET_RAW", "NET_ADMIN"} { // a device may be a kernel interface
		if !slices.Contains(engine.SecurityContext.Capabilities.Add, capability) {
			t.Errorf("no %s", capability)
		}
	}
	at := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.DownwardAPI != nil })
	if items := pod.Spec.Volumes[at].DownwardAPI.Items; len(items) != 2 || items[1].Path != "claimed-devices" || items[1].FieldRef.FieldPath != "metadata.annotations['spate.dev/claimed-devices']" {
		t.Errorf("the pod's information: %+v", items)
	}
}

func TestPodsWithoutClaimsKnowNothingOfThem(t *testing.T) {
	pod := Template{Generator: generator()}.Pod(0, 0)
	if engine := pod.Spec.Containers[0]; pod.Spec.ResourceClaims != nil || engine.Resources.Claims != nil || slices.Contains(engine.Args, "--claimed-devices") {
		t.Errorf("%+v", pod.Spec)
	}
}

func TestAClaimedDeviceIsForMeasurementUnlessTheKernelMovesItsPackets(t *testing.T) {
	g := claiming("nics")
	g.Spec.Ports = g.Spec.Ports[:1]
	for kind, want := range map[spatev1.PortKind]string{"": "no engine has opened", spatev1.PortKernel: "is a kernel interface", spatev1.PortPCI: ""} {
		var pods []spatev1.GeneratorPodStatus
		if kind != "" {
			pods = []spatev1.GeneratorPodStatus{{Ports: []spatev1.GeneratorPortStatus{{Name: "east", Kind: kind}}}}
		}
		if reasons := strings.Join(Shared(&g.Spec, pods), "; "); (reasons == "") != (want == "") || !strings.Contains(reasons, want) {
			t.Errorf("%s: %q, want %q", kind, reasons, want)
		}
	}
}
