// SPDX-License-Identifier: Apache-2.0

// Drills that need a real kubelet, scheduler or Helm: a fault, the time until it was detected, what the API reported
// and what was kept. The drills of operator/test need none of these. `make drills-cluster` prints one table of both.

package suites

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spate "spate.dev/api/v1alpha1"
	"spate.dev/operator/test/drill"
)

// underWay starts a run, waits until its status has packets, and returns its engine's pod.
func underWay(t *testing.T, name, spec string) (*corev1.Pod, *spate.TrafficProfile) {
	t.Helper()
	ns, p := running(t, name, spec)
	run := currentRun(t, p)
	until(t, 20*time.Second, "counters in the status of run "+run.Name, func(ctx context.Context) (bool, string) {
		err := get(ctx, run)
		return err == nil && run.Status.Result != nil && run.Status.Result.Tx > 0, fmt.Sprint(err)
	})
	pods, err := enginePods(t.Context(), ns, "loop")
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods, %v", len(pods), err)
	}
	return &pods[0], p
}

// lost waits for the end of a run that has lost its pod, and fails unless that is reported and the last counters are
// kept.
func lost(t *testing.T, d *drill.Drill, p *spate.TrafficProfile, within time.Duration, words ...string) {
	t.Helper()
	run := complete(t, within+30*time.Second, p)
	d.Detected(within)
	valid := invalid(t, p, spate.ReasonPodLost, words...)
	d.Reports("TrafficProfile", &valid)
	if run.Status.Verdict.Outcome != spate.VerdictInvalid || run.Status.Result == nil || run.Status.Result.Tx == 0 {
		t.Fatalf("%+v, %+v: want an invalid run whose last counters are kept", run.Status.Verdict, run.Status.Result)
	}
	d.Kept("counters of the last look: %d packets sent", run.Status.Result.Tx)
}

// heals waits until the generator is ready again, and fails unless a new run on it passes.
func heals(t *testing.T, d *drill.Drill, p *spate.TrafficProfile) {
	t.Helper()
	condition(t, 60*time.Second, generatorNamed(p.Namespace, "loop"), spate.ConditionReady, metav1.ConditionTrue)
	mustApply(t, p.Namespace, loopbackProfile(p.Name, "  duration: 1s\n  runID: again"))
	if run := complete(t, 30*time.Second, p); run.Status.Verdict.Outcome != spate.VerdictPassed {
		t.Errorf("the next run: %+v", run.Status.Verdict)
	}
	d.Kept("the generator: the next run passed")
}

// lastWords waits until the generator's status has the last output of a pod's engine.
func lastWords(t *testing.T, d *drill.Drill, pod *corev1.Pod, words ...string) {
	t.Helper()
	g := generatorNamed(pod.Namespace, "loop")
	until(t, 10*time.Second, "the engine's last words are in the generator's status", func(ctx context.Context) (bool, string) {
		err := get(ctx, g)
		said := slices.ContainsFunc(g.Status.Pods, func(s spate.GeneratorPodStatus) bool {
			missing := func(word string) bool { return !strings.Contains(s.Message, word) }
			return s.Name == pod.Name && !slices.ContainsFunc(words, missing)
		})
		return err == nil && said, fmt.Sprintf("%v %+v", err, g.Status.Pods)
	})
	d.ReportsText("the generator's status has the engine's last words")
}

// The address space of the engine (a release build, and the first process of its container) may not grow any more: it
// aborts while it receives a plan that needs more.
func TestDrillEngineAbortsInItsContainer(t *testing.T) {
	drill.Long(t)
	needsRig(t, theNodesProcesses)
	d := drill.New(t, "engine aborts in its container (release build, no memory to be had)", 3*time.Minute)
	pod, p := underWay(t, "aborted", "  duration: 60s")
	engine := engineOf(t, pod)
	// A process of the engine's user may limit it; root may where it has CAP_SYS_RESOURCE, which root in a container often has not (prlimit(2)).
	out, err := exec.CommandContext(t.Context(), "bash", "-c", fmt.Sprintf(
		`of() { awk -v name="$1:" '$1 == name {print $2}' %s/status; }
		setpriv --reuid "$(of Uid)" --regid "$(of Gid)" --clear-groups prlimit --pid %s --as=$(($(of VmSize) << 10))`, engine, filepath.Base(engine))).CombinedOutput()
	if err != nil {
		t.Fatalf("prlimit: %v %s", err, out)
	}
	large := strings.NewReplacer("name: small", "name: large", "measure: {flow: true}", "copies: {count: 5000, vary: [{field: udp.sourcePort}]}", "1kpps", "1pps").Replace(loopbackStream)
	d.Strike()
	mustApply(t, p.Namespace, large+"---"+strings.NewReplacer("name: small, ", "name: large, ", "ref: {name: small}", "ref: {name: large}", ", receivePort: loop", "").Replace(
		loopbackProfile("large", "  duration: 1s")))
	lost(t, d, p, 20*time.Second, pod.Name, "exit code 139")
	lastWords(t, d, pod, "exit code 139", "memory allocation of")
	if err := kube.Delete(t.Context(), profileNamed(p.Namespace, "large")); err != nil {
		t.Fatal(err)
	}
	heals(t, d, p)
}

// A worker hangs in a call that does not return, and all other threads of its engine continue: ptrace(2) stops one
// thread only. The kubelet detects it by the pod's probes.
func TestDrillWorkerHangs(t *testing.T) {
	drill.Long(t)
	needsRig(t, theNodesProcesses)
	d := drill.New(t, "a worker of an engine hangs", 4*time.Minute)
	pod, p := underWay(t, "hung", "  duration: 10m")
	g := generatorNamed(p.Namespace, "loop")
	stopThread(t, threadOf(t, engineOf(t, pod), "worker-0"))
	d.Strike()
	until(t, 30*time.Second, "the generator says that a worker hangs", func(ctx context.Context) (bool, string) {
		err := get(ctx, g)
		ready := meta.FindStatusCondition(g.Status.Conditions, spate.ConditionReady)
		if err != nil || ready == nil || ready.Reason != spate.ReasonEngineHangs {
			return false, fmt.Sprint(err, ready)
		}
		expect(t, *ready, spate.ReasonEngineHangs, pod.Name, "worker 0 has not passed its loop for 10 s")
		d.Reports("TrafficGenerator", ready)
		return true, ""
	})
	d.Detected(25 * time.Second)
	until(t, 20*time.Second, "the kubelet finds the pod not ready", func(ctx context.Context) (bool, string) {
		err := get(ctx, pod)
		return err == nil && !podReady(pod), fmt.Sprint(err, pod.Status.Conditions)
	})
	lost(t, d, p, 100*time.Second, pod.Name)
	heals(t, d, p)
}

func podReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// threadOf returns the ID of a process's thread of this name.
func threadOf(t *testing.T, process, name string) int {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(process, "task/*/comm"))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(names, func(path string) bool {
		comm, _ := os.ReadFile(path)
		return strings.TrimSpace(string(comm)) == name
	})
	if at < 0 {
		t.Fatalf("none of %d threads is %s", len(names), name)
	}
	thread, err := strconv.Atoi(filepath.Base(filepath.Dir(names[at])))
	if err != nil {
		t.Fatal(err)
	}
	return thread
}

// stopThread stops a thread until the test ends or its process is killed.
func stopThread(t *testing.T, thread int) {
	t.Helper()
	stopped, end, over := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread() // the tracer is a thread; the traced thread continues when it ends
		defer runtime.UnlockOSThread()
		err := syscall.PtraceAttach(thread)
		if err == nil {
			_, err = syscall.Wait4(thread, nil, syscall.WALL, nil)
		}
		stopped <- err
		for err == nil {
			select {
			case <-end:
				_ = syscall.PtraceDetach(thread)
				return
			case <-time.After(pollInterval):
				// A killed thread of the process exists until its tracer has waited for it.
				var status syscall.WaitStatus
				var changed int
				if changed, err = syscall.Wait4(thread, &status, syscall.WALL|syscall.WNOHANG, nil); changed == thread && (status.Signaled() || status.Exited()) {
					return
				}
			}
		}
	}()
	t.Cleanup(func() {
		close(end)
		<-over
	})
	if err := <-stopped; err != nil {
		t.Fatalf("stop thread %d: %v", thread, err)
	}
}

// engineOf returns the proc(5) folder of a pod's engine.
func engineOf(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		folder := filepath.Dir(name)
		comm, _ := os.ReadFile(name)
		cgroups, _ := os.ReadFile(filepath.Join(folder, "cgroup"))
		if strings.TrimSpace(string(comm)) == "spate-engine" && strings.Contains(strings.ReplaceAll(string(cgroups), "_", "-"), string(pod.UID)) {
			return folder
		}
	}
	t.Fatalf("none of %d processes is the engine of pod %s", len(names), pod.Name)
	return ""
}

// Only the engine's pod is drained: draining the node would evict its own pods, the operator's among them.
func TestDrillNodeIsDrained(t *testing.T) {
	needsRig(t, theOneNode)
	d := drill.New(t, "node is drained (cordon, and eviction of the engine's pod), then uncordoned", 4*time.Minute)
	pod, p := underWay(t, "drained", "  duration: 60s")
	t.Cleanup(func() { uncordon(t, pod.Spec.NodeName) })
	d.Strike()
	kubectl(t, "drain", pod.Spec.NodeName, "--pod-selector=spate.dev/generator=loop", "--force", "--delete-emptydir-data", "--ignore-daemonsets", "--timeout=60s")
	lost(t, d, p, 20*time.Second, pod.Name, "is being deleted")
	g := generatorNamed(p.Namespace, "loop")
	until(t, 30*time.Second, "the generator waits for the node", func(ctx context.Context) (bool, string) {
		err := get(ctx, g)
		ready := meta.FindStatusCondition(g.Status.Conditions, spate.ConditionReady)
		if err != nil || ready == nil || ready.Reason != spate.ReasonUnschedulable {
			return false, fmt.Sprint(err, ready)
		}
		d.Reports("TrafficGenerator", ready)
		return true, ""
	})
	uncordon(t, pod.Spec.NodeName)
	heals(t, d, p)
}

func uncordon(t *testing.T, node string) {
	t.Helper()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := kube.Patch(context.Background(), object, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":null}}`))); err != nil {
		t.Error(err)
	}
}

// installedAgain installs the chart after the test with the values that it has now, and returns the file that has them.
func installedAgain(t *testing.T) (values string) {
	t.Helper()
	values = filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte(run(t, "helm", "get", "values", "spate", "--namespace", operatorNamespace, "--output", "yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		run(t, "helm", "upgrade", "--install", "spate", filepath.Join(root, "charts/spate"), "--namespace", operatorNamespace, "--create-namespace", "--values", values, "--wait", "--timeout=120s")
	})
	return values
}

// nothingTerminates waits until no object waits for its deletion, and fails if something of the chart is left.
func nothingTerminates(t *testing.T, d *drill.Drill) {
	t.Helper()
	until(t, 10*time.Second, "nothing is Terminating", func(context.Context) (bool, string) {
		left := kubectl(t, "get", "namespaces,pods,secrets,configmaps", "--all-namespaces", "--output", `go-template={{range .items}}{{if .metadata.deletionTimestamp}}{{.kind}} {{.metadata.name}} {{end}}{{end}}`)
		return left == "", left
	})
	d.ReportsText("nothing is Terminating")
	if policies := kubectl(t, "get", "validatingadmissionpolicies,clusterroles", "--output=name"); strings.Contains(policies, "/spate-") {
		t.Errorf("left of the chart: %s", policies)
	}
}

// helm uninstall alone, during a run: the chart's job ends the run and keeps its result. Then the namespaces are deleted, which no finalizer may
// block although no operator is left.
func TestDrillUninstallInMidRun(t *testing.T) {
	drill.Long(t)
	needsRig(t, theInstallation)
	d := drill.New(t, "uninstalled in mid-run", 7*time.Minute)
	installedAgain(t)
	pod, p := underWay(t, "uninstalled-at-once", "")
	d.Strike()
	run(t, "helm", "uninstall", "spate", "--namespace", operatorNamespace, "--wait", "--timeout=240s")
	d.Detected(240 * time.Second)
	d.ReportsText("helm uninstall returns")
	ended := currentRun(t, p)
	if !ended.Spec.Stop || ended.Status.Phase != spate.RunComplete || ended.Status.Result == nil || len(ended.Finalizers) > 0 {
		t.Errorf("the run is %s with finalizers %q, to be stopped: %v, and result %+v", ended.Status.Phase, ended.Finalizers, ended.Spec.Stop, ended.Status.Result)
	}
	if pods, err := enginePods(t.Context(), pod.Namespace, "loop"); err != nil || len(pods) > 0 {
		t.Errorf("%d engine pods are left: %v", len(pods), err)
	}
	d.Kept("the API (crds.keep), all objects, and the result of the run")
	kubectl(t, "delete", "namespace", pod.Namespace, operatorNamespace, "--timeout=90s")
	d.ReportsText("the deletion of both namespaces returns")
	nothingTerminates(t, d)
}

// All objects are deleted first, during a run. Then the namespaces themselves are deleted, which no finalizer may block
// although no operator is left.
func TestDrillUninstallAfterAllObjects(t *testing.T) {
	drill.Long(t)
	needsRig(t, theInstallation)
	d := drill.New(t, "uninstalled in mid-run, all objects deleted first", 6*time.Minute)
	installedAgain(t)
	pod, _ := underWay(t, "uninstalled", "")
	d.Strike()
	kubectl(t, "delete", "tp,tr,tg", "--all", "--all-namespaces", "--timeout=100s")
	d.Detected(100 * time.Second)
	if left := kubectl(t, "get", "tp,tr,tg", "--all-namespaces", "--output=name"); left != "" {
		t.Errorf("left after they were deleted: %s", left)
	}
	d.ReportsText("kubectl delete tp,tr,tg returns: all are gone")
	run(t, "helm", "uninstall", "spate", "--namespace", operatorNamespace, "--wait", "--timeout=120s")
	kubectl(t, "delete", "namespace", pod.Namespace, operatorNamespace, "--timeout=90s")
	d.ReportsText("helm uninstall and the deletion of both namespaces return")
	nothingTerminates(t, d)
	d.Kept("the API (crds.keep), and streams and templates in it")
}

// mirrors reflects on both ports of a pod what the other sends, through a bridge of the node.
const mirrors = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: facing}
spec:
  config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "facing0"}'
---
apiVersion: spate.dev/v1alpha1
kind: TrafficGenerator
metadata: {name: mirrors}
spec:
  cpuPolicy: Shared
  packetMemory: {backing: Standard, size: 64Mi}
  ports:
  - {name: east, mac: "02:00:00:00:ea:57", attachment: {kernel: {network: facing}}}
  - {name: west, mac: "02:00:00:00:3e:57", attachment: {kernel: {network: facing}}}
---
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: mirrors}
spec:
  generatorRef: {name: mirrors}
  duration: 10s
  generatorTolerance: {late: 100%}
  reflect: [{port: east, swap: Addresses}, {port: west, swap: Addresses}]
  traffic:
  - name: ball
    transmitPort: east
    stream:
      inline:
        packet:
          headers:
          - ethernet: {destination: "02:00:00:00:3e:57"}
          - ipv4: {source: 198.18.0.1, destination: 198.19.0.1, ttl: 64}
          - udp: {sourcePort: 1000, destinationPort: 2000}
          size: 128
        transmit: {burst: {packets: 100, rate: 1kpps}}
`

// A kernel sends a few frames by itself on a new interface (neighbor discovery, group membership).
func TestDrillReflectLoop(t *testing.T) {
	const packets, hops, ofKernels = 100, 64, 60
	d := drill.New(t, "reflect loop: two reflectors face each other", 2*time.Minute)
	ns := namespace(t)
	mustApply(t, ns, mirrors)
	g, p := generatorNamed(ns, "mirrors"), profileNamed(ns, "mirrors")
	condition(t, 60*time.Second, g, spate.ConditionReady, metav1.ConditionTrue)
	if ports := g.Status.Pods[0].Ports; len(ports) != 2 || ports[0].MAC != "02:00:00:00:ea:57" || ports[1].MAC != "02:00:00:00:3e:57" {
		t.Errorf("%+v", ports)
	}
	phase(t, 30*time.Second, p, spate.ProfileRunning)
	d.Strike()
	r := currentRun(t, p)
	until(t, 20*time.Second, "each packet has reached the end of its TTL", func(ctx context.Context) (bool, string) {
		err := get(ctx, r)
		return err == nil && r.Status.Result != nil && r.Status.Result.NotReflected >= packets, fmt.Sprintf("%v %+v", err, r.Status.Result)
	})
	d.Detected(10 * time.Second)
	r = complete(t, 30*time.Second, p)
	result := r.Status.Result
	if r.Status.Verdict.Outcome != spate.VerdictPassed || result.Tx != packets || result.Foreign < packets*hops || result.Foreign > packets*hops+ofKernels || result.NotReflected > packets+ofKernels {
		t.Errorf("%+v %+v: want each packet to arrive %d times", r.Status.Verdict, result, hops)
	}
	d.ReportsText(fmt.Sprintf("result.notReflected: %d packets, at the end of their TTL of %d", result.NotReflected, hops))
	d.Kept("the link: no packet stays on it; the whole result: %d packets sent, %d arrivals", result.Tx, result.Foreign)
}

func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, "kubectl", args...)
}

// run runs a command and returns its trimmed output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, said.String())
	}
	return strings.TrimSpace(string(out))
}
