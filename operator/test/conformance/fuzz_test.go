// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"testing"
)

// FuzzCompare reads hostile descriptions and packets. TRex's packet of a profile without freedom is only like itself.
func FuzzCompare(f *testing.F) {
	frame := udpFrame(64)
	for _, program := range []string{"", randomPort, randomAddress + ", " + ipChecksum} {
		f.Add([]byte(fmt.Sprintf(`[{"packet": {"binary": %q}, "vm": {"instructions": [%s]}}]`, base64.StdEncoding.EncodeToString(frame), program)), frame, frame)
	}
	f.Add([]byte(`[{"vm": {"instructions": [{"type": "fix_checksum_hw", "l2_len": 14, "l3_len": 60000, "l4_type": 13}, {"type": "trim_pkt_size", "name": "x"}]}}]`), frame, frame[:20])
	f.Fuzz(func(t *testing.T, description, want, got []byte) {
		profile, err := ReadProfile(description)
		if err != nil {
			return
		}
		exact := true
		for _, s := range profile.streams {
			exact = exact && s.exact()
		}
		if err := profile.compare(want, got); exact && (err == nil) != bytes.Equal(want, got) {
			t.Fatalf("%x is like %x: %v", got, want, err)
		}
	})
}
