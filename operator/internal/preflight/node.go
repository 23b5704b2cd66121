// SPDX-License-Identifier: Apache-2.0

package preflight

// This file answers: do memory and clock of the node bear an exact measurement?

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// oneNode reports whether the machine is known to have one NUMA node.
func (f facts) oneNode() bool {
	all, err := numbers(f.machine.GetNumaNodes())
	return err == nil && len(all) == 1
}

// cpusByNode returns the CPUs of workers by NUMA node.
func (f facts) cpusByNode(workers []uint32) (map[uint32][]uint32, error) {
	by := map[uint32][]uint32{}
	for i, cpu := range f.machine.GetWorkerCpus() {
		if !slices.Contains(workers, uint32(i)) {
			continue
		}
		node, err := numbers(cpu.NumaNode)
		if err != nil {
			return nil, err
		}
		for _, n := range node {
			by[n] = append(by[n], cpu.Cpu)
		}
	}
	return by, nil
}

const packetMemory = "packet memory"

func pagesOnOtherNUMANode(f facts) []finding {
	if f.info.HugepageBytes == 0 { // MeasurementReady reports that
		return nil
	}
	if f.oneNode() {
		return []finding{ok(packetMemory, "the machine has one NUMA node")}
	}
	pages, err := numbers(f.machine.GetPacketMemoryNodes())
	if err != nil {
		return []finding{unknown(packetMemory, err.Error())}
	}
	if len(pages) == 0 {
		return []finding{unknown(packetMemory, "no huge pages are in /proc/self/numa_maps")}
	}
	var all []uint32
	for i := range f.machine.GetWorkerCpus() {
		all = append(all, uint32(i))
	}
	workers, err := f.cpusByNode(all)
	if err != nil {
		return []finding{unknown(packetMemory, err.Error())}
	}
	observed := fmt.Sprintf("pages on %s, %s", nodes(pages), byNode(workers))
	if len(f.spec.WorkerGroups) > 0 { // memory is on the nodes of all groups
		if slices.Equal(slices.Compact(slices.Sorted(slices.Values(pages))), sortedKeys(workers)) {
			return []finding{ok(packetMemory, observed)}
		}
		return []finding{warning(packetMemory, observed,
			"let the kubelet take huge pages of a pod from each NUMA node that its CPUs are on (memoryManagerPolicy: None, or Static with topologyManagerPolicy: best-effort), and have huge pages free on each")}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(slices.Concat(pages, sortedKeys(workers)))))) > 1 {
		return []finding{warning(packetMemory, observed,
			"let the kubelet take CPUs and huge pages of a pod from one NUMA node (topologyManagerPolicy: single-numa-node, memoryManagerPolicy: Static), or set spec.workers and spec.packetMemory to what one NUMA node has")}
	}
	return []finding{ok(packetMemory, observed)}
}

const engineSubject = "engine"

func memlockLimited(f facts) []finding {
	capable, capableErr := boolean(f.machine.GetIpcLock())
	limit, err := bytes(f.machine.GetMemlockBytes())
	switch {
	case capable:
		return []finding{ok(engineSubject, "no limit: it has the capability IPC_LOCK")}
	case err != nil:
		return []finding{unknown(engineSubject, err.Error())}
	case limit == math.MaxUint64:
		return []finding{ok(engineSubject, "no limit")}
	}
	observed := fmt.Sprintf("it may lock %s of memory, and packet memory has %s of huge pages", binary(limit), binary(f.info.HugepageBytes))
	switch {
	case limit >= f.info.HugepageBytes:
		return []finding{ok(engineSubject, observed)}
	case capableErr != nil:
		return []finding{unknown(engineSubject, capableErr.Error())}
	}
	return []finding{warning(engineSubject, observed,
		"let pods of the namespace have the capability IPC_LOCK, which an admission policy or the runtime has removed, or set LimitMEMLOCK=infinity for the node's container runtime (systemd)")}
}

// binary formats bytes as Kubernetes does, such as "128Mi".
func binary(bytes uint64) string {
	return resource.NewQuantity(int64(min(bytes, math.MaxInt64)), resource.BinarySI).String()
}

// counters are clock sources that are the CPU's own counter, which is read without leaving the process: of x86 and of Arm.
var counters = []string{"tsc", "arch_sys_counter"}

func clockSourceNotTSC(f facts) []finding {
	const subject = "node"
	source, err := text(f.machine.GetClockSource())
	switch {
	case err != nil:
		return []finding{unknown(subject, err.Error())}
	case slices.Contains(counters, source):
		return []finding{ok(subject, "clock source "+source)}
	}
	observed := "clock source " + source
	if strings.HasPrefix(f.info.TimeSource, "tsc") {
		observed += "; the engine reads the time stamp counter itself"
	}
	return []finding{warning(subject, observed,
		"let the kernel use the time stamp counter (kernel arguments clocksource=tsc tsc=reliable); where the kernel found it unstable look for the reason in its log; in a virtual machine let the hypervisor offer an invariant one")}
}
