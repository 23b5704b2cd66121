// SPDX-License-Identifier: Apache-2.0

// Package peak reads how much memory processes have had at most, for tests.
package peak

import (
	"fmt"
	"os"
	"strings"
)

// Memory returns the peak resident memory of a process in bytes (proc_pid_status(5), VmHWM).
func Memory(pid int) (bytes int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	if _, err := fmt.Sscanf(rest, "%d kB", &bytes); err != nil {
		return 0, fmt.Errorf("VmHWM of process %d: %w", pid, err)
	}
	return bytes << 10, nil
}
