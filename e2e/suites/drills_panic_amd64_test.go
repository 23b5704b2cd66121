// SPDX-License-Identifier: Apache-2.0

// How is a panic caused in a thread of a release build that has no defect? ptrace(2) makes the thread call the function
// that the compiler calls for an index out of bounds.

package suites

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"spate.dev/operator/test/drill"
)

func TestDrillWorkerPanics(t *testing.T) {
	needsRig(t, theNodesProcesses)
	d := drill.New(t, "a worker of an engine panics (release build)", 3*time.Minute)
	pod, p := underWay(t, "panicked", "  duration: 60s")
	engine := engineOf(t, pod)
	function := addressOf(t, engine, "core9panicking18panic_bounds_check")
	d.Strike()
	if err := panics(threadOf(t, engine, "worker-0"), function); err != nil {
		t.Fatal(err)
	}
	lost(t, d, p, 20*time.Second, pod.Name, "exit code 139")
	lastWords(t, d, pod, "exit code 139", "'worker-0'", "panicked at drill.rs:11:7", "index out of bounds: the len is 4 but the index is 5")
	heals(t, d, p)
}

// addressOf returns the address in a process of the function whose mangled name has this part.
func addressOf(t *testing.T, process, part string) uint64 {
	t.Helper()
	program, err := elf.Open(filepath.Join(process, "exe"))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	symbols, err := program.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return strings.Contains(s.Name, part) })
	if at < 0 {
		t.Fatalf("none of %d symbols has %s in its name", len(symbols), part)
	}
	maps, err := os.ReadFile(filepath.Join(process, "maps"))
	if err != nil {
		t.Fatal(err)
	}
	path, err := os.Readlink(filepath.Join(process, "exe"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		var first, last, offset uint64
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x", &first, &last, &rights, &offset); n == 4 && offset == 0 && strings.HasSuffix(strings.TrimSpace(line), path) {
			return first + symbols[at].Value
		}
	}
	t.Fatalf("%s is not mapped from its beginning", path)
	return 0
}

// panics makes a thread call core::panicking::panic_bounds_check(5, 4, location), which does not return.
func panics(thread int, function uint64) error {
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	if err := syscall.PtraceAttach(thread); err != nil {
		return fmt.Errorf("attach to thread %d: %w", thread, err)
	}
	defer func() { _ = syscall.PtraceDetach(thread) }()
	if _, err := syscall.Wait4(thread, nil, syscall.WALL, nil); err != nil {
		return fmt.Errorf("wait for thread %d: %w", thread, err)
	}
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(thread, &regs); err != nil {
		return fmt.Errorf("read registers: %w", err)
	}
	// The arguments are beyond what the interrupted function may use below its stack pointer (System V ABI, 3.2.2):
	// core::panic::Location, which is a string and two numbers, and the string. On entry to a function, the return
	// address is at the end of a block of 16 bytes.
	location := (regs.Rsp - 1024) &^ 15
	const file = "drill.rs"
	memory := binary.LittleEndian.AppendUint64(nil, location+24)
	memory = binary.LittleEndian.AppendUint64(memory, uint64(len(file)))
	memory = binary.LittleEndian.AppendUint32(memory, 11)
	memory = binary.LittleEndian.AppendUint32(memory, 7)
	memory = append(memory, file+"\x00"...)
	if _, err := syscall.PtracePokeData(thread, uintptr(location), memory); err != nil {
		return fmt.Errorf("write to the stack: %w", err)
	}
	regs.Rip, regs.Rdi, regs.Rsi, regs.Rdx = function, 5, 4, location
	regs.Rsp = location - 8
	regs.Orig_rax = ^uint64(0) // no system call is repeated
	if err := syscall.PtraceSetRegs(thread, &regs); err != nil {
		return fmt.Errorf("write registers: %w", err)
	}
	return nil
}
