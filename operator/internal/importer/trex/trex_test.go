// SPDX-License-Identifier: Apache-2.0

package trex

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plan"
)

// Packets of 66 bytes: Ethernet, IP, UDP or TCP, 24 bytes of payload behind UDP over IPv4.
var (
	udp4 = bytesOf("020000000001020000000002 0800 45000034000100004011ee90c6120001c6130001 04000007 00200000" + strings.Repeat("55", 24))
	tcp4 = bytesOf("020000000001020000000002 0800 45000034000100004006ee9bc6120001c6130001 04000007 00000000 00000000 5002 2000 0000 0000" + strings.Repeat("55", 12))
	udp6 = bytesOf("020000000001020000000002 86dd 60000000 000c 1140 20010db8000000000000000000000001 20010db8000000000000000000000002 04000007 000c 0000 55555555")
	icmp = bytesOf("020000000001020000000002 86dd 60000000 000c 3a40 20010db8000000000000000000000001 20010db8000000000000000000000002 8000 0000 0001 0001 55555555")
)

func bytesOf(text string) []byte {
	all, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		panic(err)
	}
	return all
}

// parts of a stream's JSON, by key.
type parts map[string]string

// streamJSON returns a stream with some keys changed; an empty value removes the key.
func streamJSON(changes parts) string {
	all := parts{
		"flags": "3", "action_count": "0", "enabled": "true", "self_start": "true", "start_paused": "false", "isg": "0.0", "core_id": "-1",
		"mode":       `{"type": "continuous", "rate": {"type": "pps", "value": 10}}`,
		"packet":     packetJSON(udp4),
		"vm":         `{"instructions": []}`,
		"flow_stats": `{"enabled": false}`,
	}
	maps.Copy(all, changes)
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if all[key] != "" {
			keys = append(keys, fmt.Sprintf("%q: %s", key, all[key]))
		}
	}
	return "{" + strings.Join(keys, ", ") + "}"
}

func packetJSON(frame []byte) string {
	return fmt.Sprintf(`{"binary": %q, "meta": ""}`, base64.StdEncoding.EncodeToString(frame))
}

func vmJSON(instructions ...string) string {
	return `{"instructions": [` + strings.Join(instructions, ", ") + `]}`
}

func list(streams ...string) []byte { return []byte("[" + strings.Join(streams, ", ") + "]") }

// imports converts what must be importable, and checks that a generator can run the profile.
func imports(t *testing.T, o Options, streams ...string) *Imported {
	t.Helper()
	got, err := Import("p", list(streams...), o)
	if err != nil {
		t.Fatal(err)
	}
	runs(t, got)
	return got
}

// runs returns a profile's plan, which a generator must be able to run.
func runs(t testing.TB, got *Imported) *plan.Resolved {
	t.Helper()
	generator := &spatev1.TrafficGenerator{}
	generator.Name = string(got.Profile.Spec.GeneratorRef.Name)
	generator.Spec.Replicas = 1
	seen := map[spatev1.PortName]bool{}
	for _, entry := range got.Profile.Spec.Traffic {
		if !seen[entry.TransmitPort] {
			seen[entry.TransmitPort] = true
			generator.Spec.Ports = append(generator.Spec.Ports, spatev1.GeneratorPort{
				Name: entry.TransmitPort, LineRate: "10Gbps", Attachment: spatev1.PortAttachment{Loopback: &spatev1.LoopbackAttachment{}}})
		}
	}
	streams := map[string]*spatev1.StatelessStream{}
	for _, stream := range got.Streams {
		streams[stream.Name] = stream
	}
	resolved, problems := plan.Resolve(plan.Input{Profile: got.Profile, Generator: generator, Streams: streams})
	if len(problems) > 0 {
		t.Fatalf("it cannot be run: %v", problems)
	}
	return resolved
}

// refused checks the error of an import that must fail.
func refused(t *testing.T, want string, streams ...string) {
	t.Helper()
	_, err := Import("p", list(streams...), Options{})
	if err == nil {
		t.Fatalf("is taken; want %q", want)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("says\n%v\nwithout\n%s", err, want)
	}
}
