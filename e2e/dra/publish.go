// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: how does the cluster learn of a driver's devices?

import (
	"context"
	"log"
	"os"
	"path/filepath"
	"slices"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// driver hands out devices of a node.
type driver interface {
	kubeletplugin.DRAPlugin
	// devices are all of the node, those that pods have too.
	devices() ([]resourcev1.Device, error)
	// report brings what is known of devices that pods have into their claims.
	report(ctx context.Context) error
}

// publish serves the kubelet and keeps the ResourceSlices of a driver current until the context ends.
func publish(ctx context.Context, d driver, name, node string, kube kubernetes.Interface, interval time.Duration) error {
	if err := os.MkdirAll(filepath.Join(kubeletplugin.KubeletPluginsDir, name), 0o700); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(name), kubeletplugin.NodeName(node), kubeletplugin.KubeClient(kube))
	if err != nil {
		return err
	}
	defer helper.Stop()
	var published []string
	for first := true; ctx.Err() == nil; first = false {
		devices, err := d.devices()
		names := namesOf(devices)
		if err == nil && (first || !slices.Equal(names, published)) {
			log.Println("devices:", names)
			if err = helper.PublishResources(ctx, poolOf(node, devices)); err == nil {
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
		case <-time.After(interval):
		}
	}
	return nil
}

func namesOf(devices []resourcev1.Device) []string {
	names := make([]string, len(devices))
	for i := range devices {
		names[i] = devices[i].Name
	}
	return names
}

// poolOf is the node's pool of devices.
func poolOf(node string, devices []resourcev1.Device) resourceslice.DriverResources {
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{{Devices: devices}}}}}
}
