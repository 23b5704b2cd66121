// SPDX-License-Identifier: Apache-2.0

// What the plugin imports of another generator's profile runs in the cluster.

package suites

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spate "spate.dev/api/v1alpha1"
)

// taggedPacketGroup is a stream of TRex in JSON: a burst of 300 UDP packets in VLAN 5, which are a tagged packet group.
const taggedPacketGroup = `[{"flags": 0, "action_count": 0, "enabled": true, "self_start": true, "start_paused": false, "isg": 0.0, "core_id": -1,
"mode": {"type": "single_burst", "total_pkts": 300, "rate": {"type": "pps", "value": 300}}, "vm": {"instructions": []},
"flow_stats": {"enabled": true, "stream_id": 7, "rule_type": "tpg", "vxlan": false, "ieee_1588": false},
"packet": {"binary": "AgAAAAABAgAAAAACgQAABQgARQAATAABAABAEe54xhIAAcYTAAEEAQAMADgAAFVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVVQ==", "meta": ""}}]`

// tagsOfGroups are the tags that TRex's tpg_enable is given.
const tagsOfGroups = `[{"type": "Dot1Q", "value": {"vlan": 4}}, {"type": "Dot1Q", "value": {"vlan": 5}}, {"type": "QinQ", "value": {"vlans": [1, 5]}}]`

func TestAnImportedTaggedPacketGroupIsCountedByTheTagsOfItsFile(t *testing.T) {
	t.Parallel()
	ns := namespace(t)
	mustApply(t, ns, loopbackGenerator)
	folder := t.TempDir()
	stream, tags := filepath.Join(folder, "tpg.json"), filepath.Join(folder, "tags.json")
	for file, text := range map[string]string{stream: taggedPacketGroup, tags: tagsOfGroups} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	imports := exec.CommandContext(t.Context(), filepath.Join(root, "build/out/kubectl-spate"), "import", "trex", stream, "--tags", tags,
		"--generator", "loop", "--port", "loop", "--receive-port", "loop", "--destination-mac", "02:00:00:00:00:01")
	var stderr bytes.Buffer
	imports.Stderr = &stderr
	out, err := imports.Output()
	if err != nil {
		t.Fatal(err, stderr.String())
	}
	// A profile of TRex has no duration: TRex takes it from the command that starts it.
	imported := strings.Replace(string(out), "  generatorRef:\n", "  duration: 2s\n  generatorTolerance: {late: 100%}\n  generatorRef:\n", 1)
	condition(t, 90*time.Second, generatorNamed(ns, "loop"), spate.ConditionReady, metav1.ConditionTrue)
	mustApply(t, ns, imported)
	run := passed(t, ns, "tpg")
	exact(t, run, "stream-1", 300)
	byTag := streamOf(t, run, "stream-1").ByTag
	for tag, want := range map[string]int64{"4": 0, "5": 300, "1/5": 0, "other": 0, "untagged": 0} {
		if counted, found := byTag[tag]; !found || counted.Packets != want || counted.SequenceGaps != 0 {
			t.Errorf("tag %s: %+v, %v; want %d packets", tag, counted, found, want)
		}
	}
	if len(byTag) != 5 {
		t.Errorf("counted by %v, want the three tags of the file, other and untagged", byTag)
	}
}
