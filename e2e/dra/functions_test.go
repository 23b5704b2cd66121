// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// machineWith makes the part of /sys that has two functions of one root complex, of which the kernel drives the second.
func machineWith(t *testing.T) (sys string) {
	t.Helper()
	sys = t.TempDir()
	for address, driver := range map[string]string{"0000:41:10.0": "vfio-pci", "0000:41:10.2": "igbvf"} {
		device := filepath.Join(sys, "devices/pci0000:40/0000:40:00.0", address)
		for link, target := range map[string]string{
			filepath.Join(sys, "bus/pci/devices", address): "../../../devices/pci0000:40/0000:40:00.0/" + address,
			filepath.Join(device, "driver"):                "../../../../bus/pci/drivers/" + driver,
			filepath.Join(device, "iommu_group"):           "../../../../kernel/iommu_groups/7",
		} {
			if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
		}
	}
	return sys
}

func TestFunctionsBoundToVFIOAreDevicesWithTheirAddresses(t *testing.T) {
	d := &functionDriver{addresses: []string{"0000:41:10.0", "0000:41:10.2", "0000:42:10.0"}, sys: machineWith(t)}
	devices, err := d.devices()
	if err != nil || len(devices) != 1 || devices[0].Name != "0000-41-10-0" {
		t.Fatalf("%+v, %v", devices, err)
	}
	for name, want := range map[resourcev1.QualifiedName]string{"resource.kubernetes.io/pciBusID": "0000:41:10.0", "resource.kubernetes.io/pcieRoot": "pci0000:40"} {
		if got := devices[0].Attributes[name].StringValue; got == nil || *got != want {
			t.Errorf("attribute %s is not %s: %+v", name, want, devices[0].Attributes)
		}
	}
}

func TestTheRuntimeIsGivenTheGroupsOfAClaimUntilItEnds(t *testing.T) {
	d := &functionDriver{addresses: []string{"0000:41:10.0"}, sys: machineWith(t), cdi: filepath.Join(t.TempDir(), "cdi")}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "uid-1"}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p"}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "vf", Driver: functionDriverName, Pool: "node", Device: "0000-41-10-0"},
		{Request: "gpu", Driver: "another", Pool: "node", Device: "gpu-0"},
	}}}
	for range 2 { // a kubelet may ask again
		results, err := d.PrepareResourceClaims(t.Context(), []*resourcev1.ResourceClaim{claim})
		result := results[types.UID("uid-1")]
		if err != nil || result.Err != nil || len(result.Devices) != 1 || result.Devices[0].CDIDeviceIDs[0] != "e2e.spate.dev/function=uid-1-0000-41-10-0" {
			t.Fatalf("%+v, %v", results, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(d.cdi, "functions.e2e.spate.dev-uid-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	var spec cdiSpec
	if err := json.Unmarshal(text, &spec); err != nil || spec.Kind != functionKind || len(spec.Devices) != 1 || spec.Devices[0].Edits.DeviceNodes[1].Path != "/dev/vfio/7" {
		t.Errorf("%s, %v", text, err)
	}

	claim.Status.Allocation.Devices.Results[0].Device = "0000-41-10-4"
	if results, err := d.PrepareResourceClaims(t.Context(), []*resourcev1.ResourceClaim{claim}); err != nil || results["uid-1"].Err == nil {
		t.Errorf("a function that is not there: %+v, %v", results, err)
	}
	for range 2 {
		if results, err := d.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: "uid-1"}}); err != nil || results["uid-1"] != nil {
			t.Errorf("%v, %v", results, err)
		}
	}
	if left, err := os.ReadDir(d.cdi); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
