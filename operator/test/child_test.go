// SPDX-License-Identifier: Apache-2.0

package test

// How do tests start processes that end with them?

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// children runs functions on one operating system thread that never ends. Processes are started there, because Linux sends a parent-death
// signal when the thread that started the child ends (prctl(2), PR_SET_PDEATHSIG), and the threads of inOwnNetwork end.
var children = func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return starts
}()

// inOwnProcesses gives an engine a PID namespace of its own, as a container has: it is process 1. DPDK's af_packet computes the packet fanout
// group of a port as the exclusive or of process ID and interface index, and the kernel refuses a group that another process of the same network
// namespace has: with one process ID for all engines, groups are as distinct as interfaces. It takes root, as ports on interfaces do.
func inOwnProcesses(engine *exec.Cmd) *exec.Cmd {
	if os.Geteuid() == 0 {
		engine.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	}
	return engine
}

// startChild starts a process that is killed when this one ends, however it ends.
func startChild(command *exec.Cmd) error {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	children <- func() { started <- command.Start() }
	return <-started
}

// A child is killed with the thread that started it: inOwnNetwork ended the operator in the middle of all tests.
func TestAChildSurvivesTheThreadOfItsCaller(t *testing.T) {
	child := exec.Command("sleep", "60")
	ended := make(chan struct{})
	must(t, inOwnNetwork(func() error { return startChild(child) }))
	go func() {
		_ = child.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		t.Errorf("%v", child.ProcessState)
	case <-time.After(time.Second):
		_ = child.Process.Kill()
		<-ended
	}
}
