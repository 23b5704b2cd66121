// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what is lost when the kernel kills an engine for its memory?

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
)

// confine puts a pod's engine into a cgroup that may take so much more memory, as a container is, and gives its folder.
func confine(t *testing.T, p *process, bytes int) string {
	t.Helper()
	root, limit, counter := "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.oom_control"
	if _, err := os.Stat(root); err != nil { // version 2
		root, limit, counter = "/sys/fs/cgroup", "memory.max", "memory.events"
		_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0o600)
	}
	folder := filepath.Join(root, fmt.Sprintf("spate-drill-%d", p.command.Process.Pid))
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Skipf("NO CGROUP: run as root with a writable memory cgroup, where the test can limit the operator's memory: %v", err)
	}
	t.Cleanup(func() {
		until(t, 10*time.Second, "the cgroup is empty", func() (bool, string) {
			err := os.Remove(folder)
			return err == nil, fmt.Sprint(err)
		})
	})
	must(t, os.WriteFile(filepath.Join(folder, limit), []byte(strconv.Itoa(bytes)), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "cgroup.procs"), []byte(strconv.Itoa(p.command.Process.Pid)), 0o600))
	p.kills = filepath.Join(folder, counter)
	return folder
}

// outOfMemory reports whether the kernel has killed a process of the engine's cgroup for its memory, as a container runtime does.
func (p *process) outOfMemory() bool {
	if p.kills == "" {
		return false
	}
	text, _ := os.ReadFile(p.kills)
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			return count != "0"
		}
	}
	return false
}

// Files of a tmpfs count as the memory of who writes them. The writer itself the kernel must not choose.
func TestDrillEngineOutOfMemory(t *testing.T) {
	t.Parallel()
	d := newDrill(t, "engine out of memory, killed by the kernel", 3*time.Minute)
	ns, p := underWay(t, "starved", "  duration: 60s")
	pod := enginePods(t, ns)[0]
	awaitCounters(t, p)
	folder := confine(t, cluster.kubelet.process(pod.UID), 32<<20)
	filler := filepath.Join("/dev/shm", filepath.Base(folder))
	t.Cleanup(func() { _ = os.Remove(filler) })
	d.Strike()
	_ = exec.CommandContext(t.Context(), "bash", "-c", fmt.Sprintf("echo $$ >%s/cgroup.procs; echo -1000 >/proc/self/oom_score_adj; exec dd if=/dev/zero of=%s bs=1M count=64",
		folder, filler)).Run() // it may be refused the last pages
	r := invalid(t, d, runLimit, p, spatev1.ReasonPodLost, pod.Name, "exit code 137 (OOMKilled")
	d.Detected(10 * time.Second)
	_ = os.Remove(filler)
	partial(t, d, r)
	heals(t, d, ns, p)
}
