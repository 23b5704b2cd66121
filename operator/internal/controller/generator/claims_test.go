// SPDX-License-Identifier: Apache-2.0

package generator

import (
	"reflect"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

func exactly(name string, count int64) resourcev1.DeviceRequest {
	return resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}}
}

func TestPortsAndRequestsOfAClaimMatchOrBothAreListed(t *testing.T) {
	all := resourcev1.DeviceRequest{Name: "nic", Exactly: &resourcev1.ExactDeviceRequest{AllocationMode: resourcev1.DeviceAllocationModeAll}}
	first := resourcev1.DeviceRequest{Name: "nic", FirstAvailable: []resourcev1.DeviceSubRequest{{Name: "fast", Count: 2}, {Name: "slow", Count: 1}}}
	for name, c := range map[string]struct {
		names    []string // of the ports' requests
		requests []resourcev1.DeviceRequest
		want     map[string][]int
		words    []string
	}{
		"the only request":           {[]string{"", ""}, []resourcev1.DeviceRequest{exactly("nic", 2)}, map[string][]int{"nic": {0, 1}}, nil},
		"a request each":             {[]string{"b", "a"}, []resourcev1.DeviceRequest{exactly("a", 1), exactly("b", 1)}, map[string][]int{"b": {0}, "a": {1}}, nil},
		"a request of nobody":        {[]string{"nic"}, []resourcev1.DeviceRequest{exactly("nic", 1), exactly("rdma", 3)}, map[string][]int{"nic": {0}}, nil},
		"all there are":              {[]string{"", ""}, []resourcev1.DeviceRequest{all}, map[string][]int{"nic": {0, 1}}, nil},
		"too few":                    {[]string{"", ""}, []resourcev1.DeviceRequest{exactly("nic", 1)}, nil, []string{"ports p0, p1 need 2 devices of request nic, and it asks for 1", "requests[0].exactly.count to 2"}},
		"too many":                   {[]string{""}, []resourcev1.DeviceRequest{exactly("nic", 2)}, nil, []string{"port p0 needs 1 device of request nic, and it asks for 2"}},
		"too few in an alternative":  {[]string{"", ""}, []resourcev1.DeviceRequest{first}, nil, []string{"asks for 1", "requests[0].firstAvailable[1].count to 2"}},
		"no name, and two to choose": {[]string{""}, []resourcev1.DeviceRequest{exactly("a", 1), exactly("b", 1)}, nil, []string{"port p0 names no request", "a, b", "set spec.ports[0].attachment.resourceClaim.request"}},
		"another name":               {[]string{"a", "c"}, []resourcev1.DeviceRequest{exactly("a", 1), exactly("b", 1)}, nil, []string{"port p1 needs a device of request c", "a, b", "correct spec.ports[1]"}},
	} {
		spec := &spatev1.TrafficGeneratorSpec{}
		for i, request := range c.names {
			spec.Ports = append(spec.Ports, spatev1.GeneratorPort{
				Name: spatev1.PortName([]string{"p0", "p1"}[i]), Attachment: spatev1.PortAttachment{ResourceClaim: &spatev1.ResourceClaimAttachment{ResourceClaimTemplateName: "t", Request: request}},
			})
		}
		ports, mismatch := portsByRequest(spec, podspec.Claims(spec)[0], c.requests)
		if !reflect.DeepEqual(ports, c.want) || (mismatch == "") != (c.words == nil) {
			t.Errorf("%s: %v, %q", name, ports, mismatch)
		}
		for _, words := range c.words {
			if !strings.Contains(mismatch, words) {
				t.Errorf("%s: no %q in %q", name, words, mismatch)
			}
		}
	}
}

func TestOnlyNamesThatCanBeOpenedAreReported(t *testing.T) {
	for name, ok := range map[string]bool{"net1": true, "enp1s0f0v3": true, "eth1.100": true, "a,b": false, "a/b": false, "..": false, "interface-of-16b": false, "a b": false} {
		if interfaceName.MatchString(name) != ok {
			t.Errorf("interface %q", name)
		}
	}
	for address, ok := range map[string]bool{"0000:3b:02.1": true, "10000:01:00.0": true, "3b:02.1": false, "0000:3b:02.8": false, "../../x": false} {
		if pciAddress.MatchString(address) != ok {
			t.Errorf("PCI address %q", address)
		}
	}
}
