// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package engine

// This file answers: by which clock does kubectl's plugin time calls where it is not on Linux?

import "time"

var began = time.Now()

// Now returns nanoseconds of Go's monotonic clock.
func Now() int64 { return int64(time.Since(began)) }
