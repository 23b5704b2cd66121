// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: what does the driver do for the kubelet and the API server?

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"
)

const scanInterval = 200 * time.Millisecond

// driver hands out links of a node.
type driver struct {
	node, prefix string
	kube         kubernetes.Interface
	links        ipLinks
	prepared     prepared
}

// run serves the kubelet until the context ends.
func (d *driver) run(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(kubeletplugin.KubeletPluginsDir, driverName), 0o700); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(driverName), kubeletplugin.NodeName(d.node), kubeletplugin.KubeClient(d.kube))
	if err != nil {
		return err
	}
	defer helper.Stop()
	var published []string
	for first := true; ctx.Err() == nil; first = false {
		names, err := d.devices()
		if err == nil && (first || !slices.Equal(names, published)) {
			log.Println("devices:", names)
			if err = helper.PublishResources(ctx, d.resources(names)); err == nil {
				published = names
			}
		}
		if err == nil {
			err = d.report(ctx)
		}
		if err != nil {
			log.Println(err) // and again
		}
		select {
		case <-ctx.Done():
		case <-time.After(scanInterval):
		}
	}
	return nil
}

// devices are the links of the node, and those that pods have.
func (d *driver) devices() ([]string, error) {
	names, err := d.links.names(d.prefix)
	if err != nil {
		return nil, err
	}
	err = d.prepared.change(func(pods map[types.UID][]preparedLink) error {
		for _, links := range pods {
			for _, link := range links {
				names = append(names, link.Name)
			}
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

func (d *driver) resources(names []string) resourceslice.DriverResources {
	var devices []resourcev1.Device
	for _, name := range names {
		devices = append(devices, resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"ifName": {StringValue: ptr.To(name)},
		}})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.node: {Slices: []resourceslice.Slice{{Devices: devices}}}}}
}

// PrepareResourceClaims notes the links that the claims' pods get.
func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		log.Printf("prepare %s/%s: %v, %v", claim.Namespace, claim.Name, devices, err)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *driver) prepare(claim *resourcev1.ResourceClaim) (devices []kubeletplugin.Device, err error) {
	if len(claim.Status.ReservedFor) != 1 {
		return nil, fmt.Errorf("a link is for one pod, and the claim is reserved for %d", len(claim.Status.ReservedFor))
	}
	pod := claim.Status.ReservedFor[0].UID
	err = d.prepared.change(func(pods map[types.UID][]preparedLink) error {
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.Driver != driverName {
				continue
			}
			devices = append(devices, kubeletplugin.Device{Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device})
			known := false
			for owner, links := range pods {
				for _, link := range links {
					if link.Name == result.Device && link.ClaimUID != claim.UID {
						return fmt.Errorf("link %s is that of pod %s", link.Name, owner)
					}
					known = known || link.Name == result.Device
				}
			}
			if known {
				continue // this was asked before
			}
			if !d.links.here(result.Device) {
				return fmt.Errorf("the node has no link %s", result.Device)
			}
			pods[pod] = append(pods[pod], preparedLink{Name: result.Device, Request: result.Request, Namespace: claim.Namespace, Claim: claim.Name, ClaimUID: claim.UID})
		}
		return nil
	})
	return devices, err
}

// UnprepareResourceClaims forgets the links of claims. Those that pods still have are refused.
func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = d.prepared.change(func(pods map[types.UID][]preparedLink) error {
			for pod, links := range pods {
				for _, link := range links {
					if link.ClaimUID == claim.UID && link.Attached && !d.links.here(link.Name) {
						return fmt.Errorf("link %s is still in pod %s", link.Name, pod)
					}
				}
				pods[pod] = slices.DeleteFunc(links, func(link preparedLink) bool { return link.ClaimUID == claim.UID })
			}
			return nil
		})
		log.Printf("unprepare %s: %v", claim, results[claim.UID])
	}
	return results, nil
}

// HandleError logs errors of publishing, which is tried again.
func (d *driver) HandleError(_ context.Context, err error, message string) { log.Println(message, err) }

// report writes the interfaces of attached links into the status of their claims (KEP-4817).
func (d *driver) report(ctx context.Context) error {
	pods, err := d.prepared.read()
	if err != nil {
		return err
	}
	claims := map[types.UID][]preparedLink{}
	for _, links := range pods {
		for _, link := range links {
			if link.Attached && !link.Reported {
				claims[link.ClaimUID] = append(claims[link.ClaimUID], link)
			}
		}
	}
	for uid, links := range claims {
		status := resourceapply.ResourceClaimStatus()
		for _, link := range links {
			status.WithDevices(resourceapply.AllocatedDeviceStatus().WithDriver(driverName).WithPool(d.node).WithDevice(link.Name).
				WithNetworkData(resourceapply.NetworkDeviceData().WithInterfaceName(link.Name).WithHardwareAddress(link.MAC)))
		}
		claim := resourceapply.ResourceClaim(links[0].Claim, links[0].Namespace).WithStatus(status)
		if _, err := d.kube.ResourceV1().ResourceClaims(links[0].Namespace).ApplyStatus(ctx, claim, metav1.ApplyOptions{FieldManager: driverName, Force: true}); err != nil {
			return err
		}
		if err := d.markReported(uid); err != nil {
			return err
		}
	}
	return nil
}

func (d *driver) markReported(claim types.UID) error {
	return d.prepared.change(func(pods map[types.UID][]preparedLink) error {
		for _, links := range pods {
			for i := range links {
				links[i].Reported = links[i].Reported || links[i].ClaimUID == claim && links[i].Attached
			}
		}
		return nil
	})
}
