// SPDX-License-Identifier: Apache-2.0

package preflight

// This file answers: does each worker have its CPU, its core and a steady frequency to itself?

import (
	"slices"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// byOutcome judges the CPU of each worker, and makes one finding of the CPUs with the same outcome.
func (f facts) byOutcome(judge func(*enginev1.WorkerCpu) finding) []finding {
	var outcomes []finding
	var members [][]uint32
	for _, cpu := range f.machine.GetWorkerCpus() {
		outcome := judge(cpu)
		at := slices.Index(outcomes, outcome)
		if at < 0 {
			at = len(outcomes)
			outcomes, members = append(outcomes, outcome), append(members, nil)
		}
		members[at] = append(members[at], cpu.Cpu)
	}
	for i := range outcomes {
		outcomes[i].subject = cpus(members[i])
	}
	return outcomes
}

// shared reports whether other work may run on the workers' CPUs, which MeasurementReady reports.
func (f facts) shared() bool { return f.spec.CPUPolicy == spatev1.CPUShared }

// uses are who may run on another thread of a worker's core, the worst first.
var uses = []struct{ who, remedy string }{
	{"another worker", "set spec.threadsPerCore of the generator to 1, or turn SMT off on the node (kernel argument nosmt): two workers on one core get about the work of one done"},
	{"other containers", "let the kubelet give whole cores to pods (cpuManagerPolicyOptions: full-pcpus-only) and set spec.threadsPerCore of the generator to 1, or turn SMT off on the node (kernel argument nosmt)"},
	{"the control thread", "set spec.threadsPerCore of the generator to 1, or turn SMT off on the node (kernel argument nosmt)"},
}

// siblingUse returns the use of a sibling: an index of uses, or len(uses) if it is not used.
func (f facts) siblingUse(sibling uint32) int {
	switch {
	case slices.ContainsFunc(f.machine.WorkerCpus, func(w *enginev1.WorkerCpu) bool { return w.Cpu == sibling }):
		return 0
	case !slices.Contains(f.machine.AllowedCpus, sibling):
		return 1
	case slices.Contains(f.machine.ControlCpus, sibling):
		return 2
	}
	return len(uses)
}

func cpuSharedWithSibling(f facts) []finding {
	if f.shared() {
		return nil
	}
	return f.byOutcome(func(cpu *enginev1.WorkerCpu) finding {
		siblings, err := numbers(cpu.Siblings)
		if err != nil {
			return unknown("", err.Error())
		}
		worst := len(uses)
		for _, sibling := range siblings {
			worst = min(worst, f.siblingUse(sibling))
		}
		switch {
		case len(siblings) == 0:
			return ok("", "the core has no other thread")
		case worst == len(uses):
			return ok("", "nothing uses the other thread of the core")
		}
		return warning("", "the other thread of the core is for "+uses[worst].who, uses[worst].remedy)
	})
}

func cpuNotIsolated(f facts) []finding {
	if f.shared() {
		return nil
	}
	isolated, isolatedErr := numbers(f.machine.GetIsolatedCpus())
	tickless, ticklessErr := numbers(f.machine.GetNohzFullCpus())
	return f.byOutcome(func(cpu *enginev1.WorkerCpu) finding {
		var kinds []string
		if slices.Contains(isolated, cpu.Cpu) {
			kinds = append(kinds, "isolcpus")
		}
		if slices.Contains(tickless, cpu.Cpu) {
			kinds = append(kinds, "nohz_full")
		}
		switch {
		case len(kinds) > 0:
			return ok("", "isolated: "+strings.Join(kinds, ", "))
		case isolatedErr != nil:
			return unknown("", isolatedErr.Error())
		case ticklessErr != nil:
			return unknown("", ticklessErr.Error())
		}
		return warning("", "neither isolcpus nor nohz_full has it",
			"boot the node with isolcpus=managed_irq,domain,LIST nohz_full=LIST rcu_nocbs=LIST, of the CPUs that the kubelet gives to pods exclusively (all but its reservedSystemCPUs)")
	})
}

func governorNotPerformance(f facts) []finding {
	return f.byOutcome(func(cpu *enginev1.WorkerCpu) finding {
		governor, err := text(cpu.Governor)
		switch {
		case err != nil:
			return unknown("", err.Error())
		case governor == "":
			return ok("", "the kernel does not scale the frequency")
		case governor == "performance":
			return ok("", "governor performance")
		}
		return warning("", "governor "+governor, "set the governor of the node's CPUs to performance (cpupower frequency-set --governor performance)")
	})
}
