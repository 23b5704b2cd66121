// SPDX-License-Identifier: Apache-2.0

package engine

// This file answers: by which clock does the operator time calls?

import "golang.org/x/sys/unix"

// Now returns nanoseconds of CLOCK_MONOTONIC_RAW, which is neither set nor slewed.
func Now() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &now); err != nil {
		panic(err) // Linux has had it since 2.6.28
	}
	return now.Nano()
}
