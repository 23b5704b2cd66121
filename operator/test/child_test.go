// SPDX-License-Identifier: Apache-2.0

package test

// How do tests start processes that end with them?

import (
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

// startChild starts a process that is killed when this one ends, however it ends.
func startChild(command *exec.Cmd) error {
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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
