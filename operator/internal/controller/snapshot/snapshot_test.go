// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"bytes"
	"compress/gzip"
	"maps"
	"testing"

	"spate.dev/operator/internal/engine/enginev1"
)

func pack(plan []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(plan); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

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

func TestStreamsWithOneMarkAreHeardAsTheFirst(t *testing.T) {
	stream := func(name, group string, measure *enginev1.Measure) *enginev1.Stream {
		return &enginev1.Stream{Name: name, Group: group, Measure: measure}
	}
	ipv4 := func(n uint32) *enginev1.Measure {
		return &enginev1.Measure{Mark: &enginev1.Mark{Field: &enginev1.Mark_Ipv4Identification{Ipv4Identification: n}}}
	}
	ipv6 := &enginev1.Measure{Mark: &enginev1.Mark{Field: &enginev1.Mark_Ipv6FlowLabel{Ipv6FlowLabel: 7}}}
	got := heardAs([]*enginev1.Stream{
		stream("a", "", &enginev1.Measure{Flow: true}), stream("b", "", ipv4(7)), stream("c-0", "c", ipv4(9)), stream("c-1", "c", ipv4(9)),
		stream("d", "", ipv4(7)), stream("e", "", ipv6), stream("f-0", "f", ipv4(9)), stream("g", "", nil),
	})
	if want := map[string]string{"d": "b", "f": "c"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
