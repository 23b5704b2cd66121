// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: how does a pod get a PCI function that is bound to vfio-pci?

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

const (
	functionDriverName = "functions.e2e.spate.dev"
	// functionKind is the kind of the devices in the Container Device Interface (CDI): vendor and class.
	functionKind = "e2e.spate.dev/function"
	cdiVersion   = "0.5.0"
)

// functionDriver hands out PCI functions of a node. A claim's devices are a file of CDI, from which the container runtime gives the pod the
// files of their IOMMU groups.
type functionDriver struct {
	addresses []string
	// sys and cdi are the folders /sys and that of CDI files.
	sys, cdi string
}

// deviceName is the name of a function in a ResourceSlice: an address with the characters of a DNS label.
func deviceName(address string) string {
	return strings.NewReplacer(":", "-", ".", "-").Replace(address)
}

// devices are the functions that are bound to vfio-pci.
func (d *functionDriver) devices() ([]resourcev1.Device, error) {
	var devices []resourcev1.Device
	for _, address := range d.addresses {
		driver, err := os.Readlink(filepath.Join(d.sys, "bus/pci/devices", address, "driver"))
		if errors.Is(err, fs.ErrNotExist) || filepath.Base(driver) != "vfio-pci" {
			continue // not now
		} else if err != nil {
			return nil, err
		}
		bus, err := deviceattribute.GetPCIBusIDAttribute(address)
		if err != nil {
			return nil, err
		}
		root, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(address, deviceattribute.WithFSFromRoot(d.sys))
		if err != nil {
			return nil, err
		}
		devices = append(devices, resourcev1.Device{Name: deviceName(address), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			bus.Name: bus.Value, root.Name: root.Value,
		}})
	}
	return devices, nil
}

// report has nothing to do: the addresses are attributes.
func (d *functionDriver) report(context.Context) error { return nil }

// group returns the file of the IOMMU group of a function.
func (d *functionDriver) group(device string) (string, error) {
	for _, address := range d.addresses {
		if deviceName(address) == device {
			group, err := os.Readlink(filepath.Join(d.sys, "bus/pci/devices", address, "iommu_group"))
			return "/dev/vfio/" + filepath.Base(group), err
		}
	}
	return "", fmt.Errorf("the node has no function %s", device)
}

// cdiSpec is a file of CDI (specification 0.5.0).
type cdiSpec struct {
	Version string      `json:"cdiVersion"`
	Kind    string      `json:"kind"`
	Devices []cdiDevice `json:"devices"`
}

type cdiDevice struct {
	Name  string   `json:"name"`
	Edits cdiEdits `json:"containerEdits"`
}

type cdiEdits struct {
	DeviceNodes []cdiNode `json:"deviceNodes"`
}

type cdiNode struct {
	Path string `json:"path"`
}

// file is the CDI file of a claim.
func (d *functionDriver) file(claim types.UID) string {
	return filepath.Join(d.cdi, functionDriverName+"-"+string(claim)+".json")
}

// PrepareResourceClaims writes the CDI files of claims.
func (d *functionDriver) PrepareResourceClaims(_ context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		log.Printf("prepare %s/%s: %v, %v", claim.Namespace, claim.Name, devices, err)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *functionDriver) prepare(claim *resourcev1.ResourceClaim) (devices []kubeletplugin.Device, err error) {
	if len(claim.Status.ReservedFor) != 1 {
		return nil, fmt.Errorf("a function is for one pod, and the claim is reserved for %d", len(claim.Status.ReservedFor))
	}
	spec := cdiSpec{Version: cdiVersion, Kind: functionKind}
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != functionDriverName {
			continue
		}
		group, err := d.group(result.Device)
		if err != nil {
			return nil, err
		}
		name := string(claim.UID) + "-" + result.Device
		spec.Devices = append(spec.Devices, cdiDevice{Name: name, Edits: cdiEdits{DeviceNodes: []cdiNode{{Path: "/dev/vfio/vfio"}, {Path: group}}}})
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device, CDIDeviceIDs: []string{functionKind + "=" + name},
		})
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	// The container runtime reads every file that ends with .json.
	next := d.file(claim.UID) + ".next"
	return devices, errors.Join(os.MkdirAll(d.cdi, 0o755), os.WriteFile(next, text, 0o600), os.Rename(next, d.file(claim.UID)))
}

// UnprepareResourceClaims removes the CDI files of claims.
func (d *functionDriver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(d.file(claim.UID))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		results[claim.UID] = err
		log.Printf("unprepare %s: %v", claim, err)
	}
	return results, nil
}

// HandleError logs errors of publishing, which is tried again.
func (d *functionDriver) HandleError(_ context.Context, err error, message string) {
	log.Println(message, err)
}
