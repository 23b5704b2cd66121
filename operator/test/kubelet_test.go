// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: how does an engine pod become a process, without a kubelet?

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const engineLabel = "app.kubernetes.io/name"

// engineBinary is the real engine; tests that need it are skipped, loudly, where it was not built.
func engineBinary() string {
	if path := os.Getenv("SPATE_ENGINE"); path != "" {
		return path
	}
	target := os.Getenv("CARGO_TARGET_DIR")
	if target == "" {
		target = "../../engine/target"
	}
	newest, at := "", time.Time{}
	for _, profile := range []string{"release", "debug"} {
		path := filepath.Join(target, profile, "spate-engine")
		if info, err := os.Stat(path); err == nil && info.ModTime().After(at) {
			newest, at = path, info.ModTime()
		}
	}
	return newest
}

func needsEngine(t *testing.T) {
	t.Helper()
	if engineBinary() == "" {
		t.Skip("NO ENGINE: build it (make engine), or set SPATE_ENGINE to its path")
	}
}

func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "127.0.0.1:0"
	}
	defer l.Close()
	return l.Addr().String()
}

// kubelet runs the pods of engines as processes. A namespace in `idle` has none: there a test plays the node itself.
type kubelet struct {
	kube client.WithWatch
	dir  string

	mu        sync.Mutex
	processes map[types.UID]*process
	last      int
	idle      map[string]bool
	unscraped map[string]bool
	unmounted map[string]bool
	adapted   map[string]func(index int, args []string) []string
	scraped   time.Time
	wg        sync.WaitGroup
}

type process struct {
	command *exec.Cmd
	log     *tail
	done    chan struct{}
	ip      string // the pod's
	own     string // where the engine takes calls, behind the link
	calls   *link  // from the pod's address to the engine's own
	tls     string
	kills   string // a file of its cgroup that counts kills for memory; empty if it has none of its own

	namespace string
}

func startKubelet(ctx context.Context, kube client.WithWatch, dir string) (*kubelet, error) {
	k := &kubelet{kube: kube, dir: dir, processes: map[types.UID]*process{}, idle: map[string]bool{}, unscraped: map[string]bool{}, unmounted: map[string]bool{}, adapted: map[string]func(int, []string) []string{}, last: 10}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	k.wg.Go(func() {
		for ctx.Err() == nil {
			k.sync(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	})
	return k, nil
}

func (k *kubelet) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.processes {
		p.end()
	}
}

// end kills an engine and waits until it has ended.
func (p *process) end() {
	_ = p.command.Process.Kill()
	<-p.done
	p.calls.close()
}

// leave makes the kubelet keep away from a namespace.
func (k *kubelet) leave(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.idle[namespace] = true
}

func (k *kubelet) sync(ctx context.Context) {
	var pods corev1.PodList
	if err := k.kube.List(ctx, &pods, client.MatchingLabels{engineLabel: "spate-engine"}); err != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	there := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		there[pod.UID] = true
		if !k.idle[pod.Namespace] {
			k.syncPod(ctx, pod)
		}
	}
	k.scrape()
	for uid, p := range k.processes {
		if !there[uid] { // deleted with force
			p.end()
			delete(k.processes, uid)
		}
	}
}

// scrape reads the metrics of all engines once a second, as Prometheus would.
func (k *kubelet) scrape() {
	if time.Since(k.scraped) < time.Second {
		return
	}
	k.scraped = time.Now()
	scraper := http.Client{Timeout: time.Second}
	for _, p := range k.processes {
		if !k.unscraped[p.namespace] {
			go func() {
				if response, err := scraper.Get("http://" + p.ip + ":7471/metrics"); err == nil {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			}()
		}
	}
}

// leaveUnscraped stops all reads of metrics in a namespace.
func (k *kubelet) leaveUnscraped(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unscraped[namespace] = true
}

// leaveMounts brings changed Secrets into the pods of a namespace no more; a node's kubelet takes up to two minutes for it.
func (k *kubelet) leaveMounts(namespace string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unmounted[namespace] = true
}

func (k *kubelet) syncPod(ctx context.Context, pod *corev1.Pod) {
	p := k.processes[pod.UID]
	switch {
	case pod.DeletionTimestamp != nil:
		if p != nil {
			_ = p.command.Process.Signal(syscall.SIGTERM)
			select {
			case <-p.done:
			default:
				if time.Since(pod.DeletionTimestamp.Time) < 0 { // the grace period ends at the timestamp
					return
				}
			}
			p.end()
			delete(k.processes, pod.UID)
		}
		_ = k.kube.Delete(ctx, pod, client.GracePeriodSeconds(0))
	case p == nil && pod.Status.Phase == corev1.PodPending:
		if err := k.run(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
			fmt.Fprintln(os.Stderr, "kubelet:", pod.Name, err)
		}
	case p != nil:
		if !k.unmounted[pod.Namespace] {
			k.refresh(ctx, pod, p)
		}
		select {
		case <-p.done:
			if pod.Status.Phase == corev1.PodRunning {
				k.ended(ctx, pod, p)
			}
		default:
		}
	}
}

// run binds a pod and starts its engine with the arguments of its container, on an address of its own.
func (k *kubelet) run(ctx context.Context, pod *corev1.Pod) error {
	if engineBinary() == "" {
		return nil
	}
	dir := filepath.Join(k.dir, string(pod.UID))
	p := &process{log: &tail{}, done: make(chan struct{}), tls: filepath.Join(dir, "tls"), namespace: pod.Namespace}
	if err := k.mount(ctx, pod, p.tls); err != nil {
		return err // its Secret is not there yet
	}
	if pod.Spec.NodeName == "" {
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "test-node"}}
		if err := k.kube.SubResource("binding").Create(ctx, pod, binding); err != nil {
			return err
		}
	}
	k.last++
	host := fmt.Sprintf("%d.%d", k.last/250, 1+k.last%250)
	p.ip, p.own = fmt.Sprintf("127.%d.%s", 1+2*part, host), fmt.Sprintf("127.%d.%s:7470", 2+2*part, host)
	args := k.argumentsOf(pod)
	replaced := make([]string, len(args))
	for i, a := range args {
		a = strings.ReplaceAll(a, "0.0.0.0:7470", p.own)
		a = strings.ReplaceAll(a, "0.0.0.0:", p.ip+":")
		a = strings.ReplaceAll(a, "/etc/spate/tls", p.tls)
		replaced[i] = strings.ReplaceAll(a, "/etc/spate/pod", dir)
	}
	p.command = inOwnProcesses(exec.Command(engineBinary(), replaced...))
	p.command.Stdout, p.command.Stderr = p.log, p.log
	var err error
	if p.calls, err = newLink(p.ip+":7470", p.own); err != nil {
		return err
	}
	if err := startChild(p.command); err != nil {
		p.calls.close()
		return err
	}
	// An engine has CPUs of its own in a cluster. Here it comes first, if that is allowed: its threads, made later, are as it is.
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, p.command.Process.Pid, -10)
	go func() {
		_ = p.command.Wait()
		close(p.done)
	}()
	k.processes[pod.UID] = p
	return setPod(ctx, k.kube, client.ObjectKeyFromObject(pod), func(s *corev1.PodStatus) {
		s.Phase, s.PodIP, s.PodIPs = corev1.PodRunning, p.ip, []corev1.PodIP{{IP: p.ip}}
		s.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "engine", Ready: true, Started: ptr.To(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
	})
}

// mount writes the pod's Secret and information to files.
func (k *kubelet) mount(ctx context.Context, pod *corev1.Pod, dir string) error {
	name := ""
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			name = v.Secret.SecretName
		}
	}
	secret := &corev1.Secret{}
	if err := k.kube.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, secret); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var errs []error
	for file, data := range secret.Data {
		path := filepath.Join(dir, file)
		if have, err := os.ReadFile(path); err == nil && string(have) == string(data) {
			continue
		}
		errs = append(errs, os.WriteFile(path+".new", data, 0o600), os.Rename(path+".new", path))
	}
	return errors.Join(errors.Join(errs...), inform(pod, filepath.Dir(dir)))
}

// inform writes what a pod reads of itself to files: annotations by the downward API.
func inform(pod *corev1.Pod, dir string) error {
	var errs []error
	for _, v := range pod.Spec.Volumes {
		if v.DownwardAPI == nil {
			continue
		}
		for _, item := range v.DownwardAPI.Items {
			_, quoted, _ := strings.Cut(item.FieldRef.FieldPath, "metadata.annotations['")
			path := filepath.Join(dir, item.Path)
			errs = append(errs, os.WriteFile(path+".new", []byte(pod.Annotations[strings.TrimSuffix(quoted, "']")]), 0o600), os.Rename(path+".new", path))
		}
	}
	return errors.Join(errs...)
}

func (k *kubelet) refresh(ctx context.Context, pod *corev1.Pod, p *process) {
	_ = k.mount(ctx, pod, p.tls)
}

func (k *kubelet) ended(ctx context.Context, pod *corev1.Pod, p *process) {
	reason := "Error"
	if p.outOfMemory() {
		reason = "OOMKilled"
	}
	_ = setPod(ctx, k.kube, client.ObjectKeyFromObject(pod), func(s *corev1.PodStatus) {
		s.Phase = corev1.PodFailed
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "engine", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exitCode(p.command.ProcessState), Reason: reason, Message: p.log.lines(3),
			StartedAt: s.ContainerStatuses[0].State.Running.StartedAt, FinishedAt: metav1.Now(),
		}}}}
	})
}

// exitCode of a container whose first process ended like this, as container runtimes have it.
func exitCode(state *os.ProcessState) int32 {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(state.ExitCode())
}

// logOf returns the last lines of the log of a pod's engine.
func (k *kubelet) logOf(uid types.UID) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p := k.processes[uid]; p != nil {
		return p.log.lines(20)
	}
	return ""
}

// setPod changes a pod's status as its node would.
func setPod(ctx context.Context, kube client.Client, key client.ObjectKey, change func(*corev1.PodStatus)) error {
	for {
		pod := &corev1.Pod{}
		if err := kube.Get(ctx, key, pod); err != nil {
			return err
		}
		change(&pod.Status)
		if err := kube.Status().Update(ctx, pod); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// crash ends a pod's engine as a fault does.
func (k *kubelet) crash(uid types.UID) { k.signal(uid, syscall.SIGKILL) }

// signal sends one to a pod's engine.
func (k *kubelet) signal(uid types.UID, what syscall.Signal) {
	if p := k.process(uid); p != nil {
		_ = p.command.Process.Signal(what)
	}
}

// cut sets what becomes of calls to a pod's engine.
func (k *kubelet) cut(t *testing.T, uid types.UID, state linkState) {
	t.Helper()
	must(t, k.process(uid).calls.set(state))
}

func (k *kubelet) process(uid types.UID) *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.processes[uid]
}
