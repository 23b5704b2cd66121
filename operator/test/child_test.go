// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// children has the starts of processes, for one thread that stays. Linux sends a death signal when the thread that started the process
// ends, not the process of that thread, and the threads of inOwnNetwork end.
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

// startChild starts a process that is killed when this one ends, however it ends.
func startChild(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	children <- func() { started <- command.Start() }
	return <-started
}

// A child started on a thread that ended was killed with it: the operator, once, in the middle of all tests.
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
