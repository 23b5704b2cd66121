// SPDX-License-Identifier: Apache-2.0

package capture

import "testing"

// FuzzRead reads arbitrary captures.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01\x00\x00\x00"))
	f.Add([]byte("\x0a\x0d\x0d\x0a\x1c\x00\x00\x00\x4d\x3c\x2b\x1a\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if read, err := Read(data); err == nil && (len(read.Frames) == 0 || MeanWire(read.Summary()).Sign() <= 0) {
			t.Fatalf("%d packets", len(read.Frames))
		}
	})
}
