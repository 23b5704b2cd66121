// SPDX-License-Identifier: Apache-2.0

package trex

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
)

// tpg is the measuring of a stream that is a tagged packet group.
const tpg = `{"enabled": true, "stream_id": 1, "rule_type": "tpg", "vxlan": false, "ieee_1588": false}`

func TestTaggedPacketGroupsAreCountedByTag(t *testing.T) {
	got := imports(t, Options{ReceivePort: DefaultPort}, streamJSON(parts{"flow_stats": tpg}), streamJSON(parts{"flow_stats": strings.Replace(tpg, "1", "2", 1)}))
	for _, s := range got.Streams {
		measure := s.Spec.Measure
		if !measure.Flow || measure.Latency || measure.Mark != nil || measure.ByTag == nil || !s.Spec.Pinned {
			t.Fatalf("measured by %+v, pinned %v", measure, s.Spec.Pinned)
		}
		if len(measure.ByTag.VLANs) != 1 || measure.ByTag.VLANs[0].Start != 1 || *measure.ByTag.VLANs[0].End != 4094 || measure.ByTag.QinQ != nil {
			t.Errorf("counted by %+v", measure.ByTag)
		}
		// TRex writes its number into the payload alone.
		if string(s.Spec.Packet.Bytes) != string(udp4) {
			t.Errorf("the packet is %x", s.Spec.Packet.Bytes)
		}
	}
	if note := strings.Join(got.Notes, "\n"); !strings.Contains(note, "2 streams are tagged packet groups") || !strings.Contains(note, "VLANs 1 to 4094") {
		t.Errorf("notes %s", note)
	}
	planned := runs(t, got).Plan(plan.Identity{RunID: "r"})
	if by := planned.Streams[0].Measure.ByTag; len(by.GetRanges()) != 1 || by.Ranges[0].LastVlan != 4094 {
		t.Errorf("the plan counts by %v", by)
	}
}

func TestNamedTagsAreThoseOfAllGroups(t *testing.T) {
	tags, err := ParseTags([]byte(`[
		{"type": "QinQ", "value": {"vlans": [1, 100]}}, {"type": "Dot1Q", "value": {"vlan": 3}}, {"type": "Dot1Q", "value": {"vlan": 1}},
		{"type": "Dot1Q", "value": {"vlan": 2}}, {"type": "Dot1Q", "value": {"vlan": 9}}, {"type": "QinQ", "value": {"vlans": [1, 101]}}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	want := spatev1.MeasuredTags{
		VLANs: []spatev1.VLANRange{{Start: 1, End: ptr.To[int32](3)}, {Start: 9}},
		QinQ:  []spatev1.QinQRange{{Outer: 1, Inner: spatev1.VLANRange{Start: 100, End: ptr.To[int32](101)}}},
	}
	if !reflect.DeepEqual(*tags, want) {
		t.Errorf("got %+v, want %+v", *tags, want)
	}
	got := imports(t, Options{Tags: tags}, streamJSON(parts{"flow_stats": tpg}))
	if by := got.Streams[0].Spec.Measure.ByTag; by != tags || len(got.Notes) == 0 || strings.Contains(strings.Join(got.Notes, "\n"), "4094") {
		t.Errorf("counted by %+v, notes %q", by, got.Notes)
	}
}

func TestWrongTagsAreRefused(t *testing.T) {
	var scattered []string
	for vlan := 1; vlan < 1028; vlan += 4 {
		scattered = append(scattered, `{"type": "Dot1Q", "value": {"vlan": `+strconv.Itoa(vlan)+`}}`)
	}
	for text, want := range map[string]string{
		`{}`: "this is no list of tags",
		`[{"type": "Dot1Q", "value": {"vlan": 5}, "colour": 1}]`:                             "colour",
		`[{"type": "VxLAN", "value": {}}]`:                                                   "tag 1: must be of type Dot1Q with a vlan, or QinQ with two vlans",
		`[{"type": "QinQ", "value": {"vlans": [1]}}]`:                                        "tag 1: must be of type",
		`[{"type": "Dot1Q", "value": {"vlan": 4095}}]`:                                       "4095: must be 1 to 4094",
		`[{"type": "Dot1Q", "value": {}}]`:                                                   "0: must be 1 to 4094",
		`[{"type": "Dot1Q", "value": {"vlan": 5}}, {"type": "Dot1Q", "value": {"vlan": 5}}]`: "5 and 5 have tags in common",
		`[` + strings.Join(scattered, ",") + `]`:                                             "the tags are 257 ranges of successive VLANs: name at most 256",
	} {
		if _, err := ParseTags([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: says %v without %q", text, err, want)
		}
	}
}

func TestMoreGroupsThanAllTagsCanBeCountedForNeedTheirTags(t *testing.T) {
	var streams []string
	for id := range 65 {
		streams = append(streams, streamJSON(parts{"flow_stats": strings.Replace(tpg, "1", strconv.Itoa(id), 1)}))
	}
	refused(t, "65 streams cannot be counted by all 4094 VLANs, at most 64 can: name the tags of the tagged packet groups with --tags", streams...)
	tags := &spatev1.MeasuredTags{VLANs: []spatev1.VLANRange{{Start: 1}}}
	imports(t, Options{Tags: tags}, streams...)
	if got := imports(t, Options{Tags: tags}, streamJSON(nil)); !slices.Contains(got.Notes, "no stream is a tagged packet group: nothing is counted by the tags of --tags") {
		t.Errorf("notes %q", got.Notes)
	}
	if _, err := Import("p", astfJSON(request, answer), Options{Tags: tags}); err == nil || !strings.Contains(err.Error(), "leave --tags out") {
		t.Errorf("a stateful profile with tags: %v", err)
	}
}
