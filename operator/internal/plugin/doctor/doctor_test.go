// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/output"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/preflight"
)

func text(value string) *enginev1.TextFact {
	return &enginev1.TextFact{Fact: &enginev1.TextFact_Value{Value: value}}
}

func numbers(values ...uint32) *enginev1.NumbersFact {
	return &enginev1.NumbersFact{Fact: &enginev1.NumbersFact_Value{Value: &enginev1.Numbers{Numbers: values}}}
}

// lab returns a generator with one pod, as the operator judges it, whose virtual function is on the other NUMA node in a slot that has too
// few lanes, and whose second worker has another container on its core.
func lab() *spatev1.TrafficGenerator {
	cpu := func(number, sibling uint32) *enginev1.WorkerCpu {
		return &enginev1.WorkerCpu{Cpu: number, NumaNode: numbers(1), Siblings: numbers(sibling), Governor: text("performance")}
	}
	workers := []uint32{0, 1}
	info := &enginev1.GetInfoResponse{
		Workers: 2, HugepageBytes: 128 << 20, TimeSource: "tsc 2.90 GHz (invariant)",
		Ports: []*enginev1.PortInfo{{
			Name: "east", Kind: enginev1.PortKind_PORT_KIND_PCI, LinkUp: true, LineRateBps: 25e9, Mtu: 9000, TxWorkers: workers, RxWorkers: workers, MaxRxQueues: 16, MaxTxQueues: 16,
		}},
		Machine: &enginev1.Machine{
			WorkerCpus: []*enginev1.WorkerCpu{cpu(6, 70), cpu(7, 71)}, ControlCpus: []uint32{5}, AllowedCpus: []uint32{5, 6, 7, 70},
			IsolatedCpus: numbers(6, 7), NohzFullCpus: numbers(6, 7), NumaNodes: numbers(0, 1), PacketMemoryNodes: numbers(1), ClockSource: text("tsc"),
			IpcLock: &enginev1.BoolFact{Fact: &enginev1.BoolFact_Value{Value: true}},
			PciDevices: []*enginev1.PciDevice{{
				Port: "east", Address: "0000:3b:02.1", NumaNode: numbers(0), KernelDriver: text("vfio-pci"),
				Iommu: &enginev1.TextFact{Fact: &enginev1.TextFact_Unknown{Unknown: "/sys/kernel/iommu_groups/12/type: permission denied"}},
				Link: &enginev1.PcieLinkFact{Fact: &enginev1.PcieLinkFact_Value{Value: &enginev1.PcieLink{
					Function: "0000:3b:00.0", CurrentWidth: 8, CurrentGtps: 16, MaxWidth: 16, MaxGtps: 16,
				}}},
			}},
		},
	}
	g := &spatev1.TrafficGenerator{ObjectMeta: metav1.ObjectMeta{Namespace: "tests", Name: "lab"}, Spec: spatev1.TrafficGeneratorSpec{Replicas: 1}}
	g.Status.Pods = []spatev1.GeneratorPodStatus{{Name: "lab-0", Node: "worker-1", Ready: true, Preflight: preflight.Check(&g.Spec, info)}}
	judge(g)
	return g
}

// judge sets the condition, as the operator does.
func judge(g *spatev1.TrafficGenerator) {
	status, reason, message := preflight.Summary(g)
	g.Status.Conditions = []metav1.Condition{{Type: spatev1.ConditionMachineReady, Status: status, Reason: reason, Message: message}}
}

func TestChecksAreATableWithRemedies(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, lab()); err != nil {
		t.Fatalf("warnings make the exit code 1: %v", err)
	}
	want := `Generator lab: MachineReady=False (PreflightFindings)

Pod lab-0 on node worker-1: checks 15, findings 3
CHECK                   SUBJECT        STATE    OBSERVED                                                                              REMEDY
DeviceOnOtherNUMANode   east           Warning  device 0000:3b:02.1 on node 0, CPUs 6-7 on node 1                                     let the kubelet take CPUs and devices of a pod from one NUMA node (topologyManagerPolicy: single-numa-node), or attach a network with devices of node 1
PCIeLinkDegraded        east           Warning  x8 at 16 GT/s; the device can do x16 at 16 GT/s (its physical function 0000:3b:00.0)  put the card into a slot with x16 at 16 GT/s, reseat it, and look at the slot's settings in the machine's firmware (bifurcation, link speed)
CPUSharedWithSibling    CPU 7          Warning  the other thread of the core is for other containers                                  let the kubelet give whole cores to pods (cpuManagerPolicyOptions: full-pcpus-only) and set spec.threadsPerCore of the generator to 1, or turn SMT off on the node (kernel argument nosmt)
NoIOMMU                 east           Unknown  /sys/kernel/iommu_groups/12/type: permission denied                                   -
LinkDown                east           Ok       the link is up                                                                        -
LineRateUnknown         east           Ok       25Gbps                                                                                -
MTUBelow1500            east           Ok       the MTU is 9000                                                                       -
FunctionNotTrusted      east           Ok       the device takes MAC address and promiscuous mode                                     -
QueuesFewerThanWorkers  east           Ok       2 receive and 2 transmit queues for 2 workers; the device has 16 and 16               -
PagesOnOtherNUMANode    packet memory  Ok       pages on node 1, CPUs 6-7 on node 1                                                   -
MemlockLimited          engine         Ok       no limit: it has the capability IPC_LOCK                                              -
CPUSharedWithSibling    CPU 6          Ok       nothing uses the other thread of the core                                             -
CPUNotIsolated          CPUs 6-7       Ok       isolated: isolcpus, nohz_full                                                         -
GovernorNotPerformance  CPUs 6-7       Ok       governor performance                                                                  -
ClockSourceNotTSC       node           Ok       clock source tsc                                                                      -
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	page, err := os.ReadFile("../../../../docs/preflight.md")
	if err != nil || !strings.Contains(string(page), out.String()) {
		t.Errorf("docs/preflight.md shows another output (%v)", err)
	}
}

func TestTheExitCodeIsOneWhereAnEngineCannotWorkOrHasNotReported(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*spatev1.TrafficGenerator)
		output string // part of it
		err    string
	}{
		"no link": {func(g *spatev1.TrafficGenerator) { g.Status.Pods[0].Preflight[0].State = spatev1.PreflightError }, "Error", "checks with errors: 1"},
		"a pod that is being started": {func(g *spatev1.TrafficGenerator) {
			g.Status.Pods = append(g.Status.Pods, spatev1.GeneratorPodStatus{Name: "lab-1", Message: "pod lab-1 waits for a node"})
		}, "\nPod lab-1 has not reported its machine: pod lab-1 waits for a node\n", "pods that have not reported their machines: lab-1"},
		"no pods": {func(g *spatev1.TrafficGenerator) {
			g.Status.Pods = nil
			judge(g)
			g.Status.Conditions = append(g.Status.Conditions, metav1.Condition{Type: spatev1.ConditionReady, Status: metav1.ConditionFalse, Reason: spatev1.ReasonSuspended, Message: "spec.suspend is true"})
		}, "Generator lab: MachineReady=Unknown (NoEngines)\nSuspended: spec.suspend is true\n", "generator lab has no pods"},
		"an operator of an earlier version": {func(g *spatev1.TrafficGenerator) {
			g.Status.Conditions, g.Status.Pods[0].Preflight = nil, nil
		}, "the operator has not judged its machines\n\nPod lab-0 on node worker-1 has not reported its machine: its engine has not answered\n", "pods that have not reported their machines: lab-0"},
	} {
		t.Run(name, func(t *testing.T) {
			g := lab()
			c.change(g)
			var out bytes.Buffer
			err := Write(&out, g)
			if err == nil || err.Error() != c.err || !strings.Contains(out.String(), c.output) {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
}

func TestChecksAreJSONForPrograms(t *testing.T) {
	var out bytes.Buffer
	if err := formed(output.JSON).Write(&out, shown(lab())); err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "lab" || got.Namespace != "tests" || got.Condition.Reason != spatev1.ReasonPreflightFindings || got.Pods[0].Node != "worker-1" || len(got.Pods[0].Checks) != 15 {
		t.Errorf("%s", out.String())
	}
	if _, _, err := plugintest.Run("", []string{"doctor", "lab", "-o", "html"}, NewCommand()); err == nil || !strings.Contains(err.Error(), "-o html: must be one of table") {
		t.Errorf("got %v", err)
	}
}

// formed is the flag -o with a value.
func formed(form string) *output.Flag {
	var f output.Flag
	f.Choose(form)
	return &f
}

func TestChecksAreRowsWithPodAndNode(t *testing.T) {
	g := lab()
	g.Status.Pods = append(g.Status.Pods, spatev1.GeneratorPodStatus{Name: "lab-1", Node: "worker-2"})
	var table, wide bytes.Buffer
	if err := errors.Join(formed(output.CSV).Write(&table, shown(g)), formed(output.Wide).Write(&wide, shown(g))); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil || len(rows) != 17 || strings.Join(rows[0], " ") != "generator pod node check subject state observed remedy" {
		t.Fatalf("%d rows %q: %v", len(rows), rows, err)
	}
	if first, last := rows[1], rows[16]; strings.Join(first[:6], " ") != "lab lab-0 worker-1 DeviceOnOtherNUMANode east Warning" || strings.Join(last, " ") != "lab lab-1 worker-2   Unknown its engine has not answered " {
		t.Errorf("%q %q", first, last)
	}
	if !strings.Contains(wide.String(), "REMEDY") || !strings.Contains(wide.String(), "lab-0  worker-1\n") {
		t.Errorf("%s", wide.String())
	}
}
