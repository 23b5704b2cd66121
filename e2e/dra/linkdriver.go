// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: what does the driver of links do for the kubelet and the API server?

import (
	"context"
	"fmt"
	"log"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceapply "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/utils/ptr"
)

// linkDriver hands out links of a node.
type linkDriver struct {
	node, prefix string
	kube         kubernetes.Interface
	links        ipLinks
	prepared     prepared
}

// devices are the links of the node, and those that pods have.
func (d *linkDriver) devices() ([]resourcev1.Device, error) {
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
	var devices []resourcev1.Device
	for _, name := range slices.Compact(names) {
		devices = append(devices, resourcev1.Device{Name: name, Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"ifName": {StringValue: ptr.To(name)},
		}})
	}
	return devices, err
}

// PrepareResourceClaims notes the links that the claims' pods get.
func (d *linkDriver) PrepareResourceClaims(_ context.Context, claims []*resourcev1.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		log.Printf("prepare %s/%s: %v, %v", claim.Namespace, claim.Name, devices, err)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *linkDriver) prepare(claim *resourcev1.ResourceClaim) (devices []kubeletplugin.Device, err error) {
	if len(claim.Status.ReservedFor) != 1 {
		return nil, fmt.Errorf("a link is for one pod, and the claim is reserved for %d", len(claim.Status.ReservedFor))
	}
	pod := claim.Status.ReservedFor[0].UID
	err = d.prepared.change(func(pods map[types.UID][]preparedLink) error {
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.Driver != linkDriverName {
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
				continue // this was requested before
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
func (d *linkDriver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
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
func (d *linkDriver) HandleError(_ context.Context, err error, message string) {
	log.Println(message, err)
}

// report writes the interfaces of attached links into the status of their claims (KEP-4817).
func (d *linkDriver) report(ctx context.Context) error {
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
			status.WithDevices(resourceapply.AllocatedDeviceStatus().WithDriver(linkDriverName).WithPool(d.node).WithDevice(link.Name).
				WithNetworkData(resourceapply.NetworkDeviceData().WithInterfaceName(link.Name).WithHardwareAddress(link.MAC)))
		}
		claim := resourceapply.ResourceClaim(links[0].Claim, links[0].Namespace).WithStatus(status)
		if _, err := d.kube.ResourceV1().ResourceClaims(links[0].Namespace).ApplyStatus(ctx, claim, metav1.ApplyOptions{FieldManager: linkDriverName, Force: true}); err != nil {
			return err
		}
		if err := d.markReported(uid); err != nil {
			return err
		}
	}
	return nil
}

func (d *linkDriver) markReported(claim types.UID) error {
	return d.prepared.change(func(pods map[types.UID][]preparedLink) error {
		for _, links := range pods {
			for i := range links {
				links[i].Reported = links[i].Reported || links[i].ClaimUID == claim && links[i].Attached
			}
		}
		return nil
	})
}
