// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"testing"
)

func TestPlansArePackedAndComeBack(t *testing.T) {
	plan := bytes.Repeat([]byte("the copies of a stream differ in a few bytes"), 10000)
	packed, err := pack(plan)
	if err != nil || len(packed) > len(plan)/50 {
		t.Fatalf("%d bytes of %d, %v", len(packed), len(plan), err)
	}
	if back, err := unpack(packed, true, int64(len(plan))); err != nil || !bytes.Equal(back, plan) {
		t.Errorf("%d bytes came back, %v", len(back), err)
	}
	if back, _ := unpack(plan, false, int64(len(plan))); !bytes.Equal(back, plan) {
		t.Error("a plan that was not packed stays as it is")
	}
	if back, err := unpack(packed, true, 10); err == nil && len(back) > 11 {
		t.Errorf("unpacks %d bytes where 10 were told", len(back))
	}
	for name, kept := range map[string][]byte{"cut": packed[:len(packed)/2], "other": []byte("hello"), "nothing": nil} {
		if _, err := unpack(kept, true, int64(len(plan))); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
