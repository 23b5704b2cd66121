// SPDX-License-Identifier: Apache-2.0

package generator

// This file answers: what do the engines themselves report?

import (
	"context"
	"fmt"
	"math/big"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/clock"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/quantity"
	"spate.dev/operator/internal/podspec"
)

// answer is the outcome of a query to one engine.
type answer struct {
	info *enginev1.GetInfoResponse
	err  error
	// clock is how the engine's wall clock stands to the operator's; nil if that is not known.
	clock *clock.Offset
}

// exchanges of time stamps with an engine at each query.
const exchanges = 4

// query calls the engines of all started pods concurrently. Other pods, and those that are being deleted, have no answer.
func (r *Reconciler) query(ctx context.Context, pods []*corev1.Pod) map[string]answer {
	var (
		mu      sync.Mutex
		wg      sync.WaitGroup
		answers = map[string]answer{}
	)
	for _, pod := range pods {
		if !started(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		wg.Go(func() {
			var a answer
			c, err := r.Engines.Client(ctx, podspec.EngineOf(pod))
			if a.err = err; err == nil {
				a.info, a.err = c.Info(ctx)
			}
			if a.err == nil {
				if measured, err := c.Clock(ctx, exchanges); err == nil {
					wall := measured.Wall()
					a.clock = &wall
				}
			}
			mu.Lock()
			defer mu.Unlock()
			answers[pod.Name] = a
		})
	}
	wg.Wait()
	return answers
}

// engineProblem returns the problem that an engine's answer shows; nil if there is none.
func engineProblem(pod *corev1.Pod, a answer) *problem {
	if a.err != nil {
		return &problem{spatev1.ReasonEngineUnreachable, fmt.Sprintf("pod %s: the engine does not answer: %s", pod.Name, a.err)}
	}
	if !engine.Compatible(a.info) {
		return &problem{spatev1.ReasonVersionMismatch, fmt.Sprintf(
			"pod %s: engine %s has contract version 1.%d, the operator 1.%d; they may differ by one: use an engine image of the operator's release (spec.image of the generator)",
			pod.Name, a.info.Version, a.info.ContractMinor, engine.ContractMinor)}
	}
	if a.info.Problem != "" {
		return &problem{spatev1.ReasonEngineHangs, fmt.Sprintf("pod %s: %s; the kubelet ends the engine, then its pod is replaced", pod.Name, a.info.Problem)}
	}
	for _, port := range a.info.Ports {
		if port.RemovalRequested {
			return &problem{spatev1.ReasonDeviceRequested, fmt.Sprintf(
				"pod %s: node %s requests the device of port %s (%s) back, and waits until the pod ends: delete the pod, or set spec.suspend; if it was not meant, the node's virtual functions have to be created again",
				pod.Name, pod.Spec.NodeName, port.Name, port.Device)}
		}
		if !port.LinkUp {
			return &problem{spatev1.ReasonPortDown, fmt.Sprintf("pod %s: port %s (%s) has no link", pod.Name, port.Name, port.Device)}
		}
	}
	return nil
}

var portKinds = map[enginev1.PortKind]spatev1.PortKind{
	enginev1.PortKind_PORT_KIND_PCI:      spatev1.PortPCI,
	enginev1.PortKind_PORT_KIND_KERNEL:   spatev1.PortKernel,
	enginev1.PortKind_PORT_KIND_BOND:     spatev1.PortBond,
	enginev1.PortKind_PORT_KIND_MEMIF:    spatev1.PortMemif,
	enginev1.PortKind_PORT_KIND_LOOPBACK: spatev1.PortLoopback,
	enginev1.PortKind_PORT_KIND_NULL:     spatev1.PortDiscard,
}

var copyModes = map[enginev1.XdpCopyMode]spatev1.XDPCopyMode{
	enginev1.XdpCopyMode_XDP_COPY_MODE_ZERO_COPY: spatev1.XDPZeroCopy,
	enginev1.XdpCopyMode_XDP_COPY_MODE_COPY:      spatev1.XDPCopy,
}

// portsBefore returns what was reported of a pod's ports.
func portsBefore(before []spatev1.GeneratorPodStatus, pod string) []spatev1.GeneratorPortStatus {
	for _, status := range before {
		if status.Name == pod {
			return status.Ports
		}
	}
	return nil
}

// clockStatus returns what is reported of a clock: what was reported of the same pod before, while that is true.
func clockStatus(before []spatev1.GeneratorPodStatus, pod string, now *clock.Offset) *spatev1.PodClock {
	if now == nil {
		return nil
	}
	var reported *clock.Report
	for _, status := range before {
		if status.Name == pod && status.Clock != nil {
			reported = &clock.Report{Offset: time.Duration(status.Clock.Offset), Bound: time.Duration(status.Clock.Bound)}
		}
	}
	next := clock.ReportOf(reported, *now)
	return &spatev1.PodClock{Offset: spatev1.MeasuredTime(next.Offset), Bound: spatev1.MeasuredTime(next.Bound)}
}

var timestamps = map[enginev1.ReceiveTimestamps]spatev1.ReceiveTimestamps{
	enginev1.ReceiveTimestamps_RECEIVE_TIMESTAMPS_CPU:    spatev1.TimestampsCPU,
	enginev1.ReceiveTimestamps_RECEIVE_TIMESTAMPS_DEVICE: spatev1.TimestampsDevice,
}

// timestampBound returns what is reported of the error of a device's time stamps, after what was reported of the port before.
func timestampBound(before []spatev1.GeneratorPortStatus, p *enginev1.PortInfo) spatev1.MeasuredTime {
	if p.TimestampBoundNs == 0 {
		return 0
	}
	reported := spatev1.MeasuredTime(0)
	for i := range before {
		if before[i].Name == p.Name {
			reported = before[i].TimestampBound
		}
	}
	return spatev1.MeasuredTime(clock.BoundOf(time.Duration(reported), time.Duration(p.TimestampBoundNs)))
}

// portStatus returns what an engine reports of its ports, after what was reported of the same pod before.
func portStatus(before []spatev1.GeneratorPortStatus, info *enginev1.GetInfoResponse) []spatev1.GeneratorPortStatus {
	var ports []spatev1.GeneratorPortStatus
	for _, p := range info.GetPorts() {
		status := spatev1.GeneratorPortStatus{
			Name: p.Name, Kind: portKinds[p.Kind], Device: p.Device, Driver: p.Driver, MAC: p.Mac, LinkUp: p.LinkUp, MTU: int32(p.Mtu),
		}
		status.Addresses, status.Offloads, status.Refused = p.Addresses, p.Offloads, p.Refused
		status.ReceiveTimestamps, status.TimestampBound = timestamps[p.ReceiveTimestamps], timestampBound(before, p)
		if mode, ok := copyModes[p.XdpCopyMode]; ok {
			status.XDP = &spatev1.XDPStatus{CopyMode: mode}
		}
		status.Sessions = sessionStatus(before, p, time.Now())
		for _, g := range p.Gateways {
			status.Gateways = append(status.Gateways, spatev1.NeighborStatus{Address: g.Address, MAC: g.Mac, Message: g.Problem})
		}
		for _, m := range p.BondMembers {
			status.Bond = append(status.Bond, spatev1.BondMemberStatus{
				Device: m.Device, LinkUp: m.LinkUp, InUse: m.InUse, ActorState: m.ActorState, PartnerState: m.PartnerState,
				PartnerSystem: m.PartnerSystem, PartnerKey: int32(m.PartnerKey), PartnerPort: int32(m.PartnerPort), Aggregator: m.Aggregator,
			})
		}
		if p.LineRateBps > 0 {
			status.LineRate = quantity.FormatRate(new(big.Rat).SetInt(new(big.Int).SetUint64(p.LineRateBps)), "bps")
		}
		ports = append(ports, status)
	}
	return ports
}
