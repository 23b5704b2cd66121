// SPDX-License-Identifier: Apache-2.0

package ping

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

func reply(sequence uint64, took time.Duration, corrupt bool) *enginev1.PingResponse {
	return &enginev1.PingResponse{Sequence: sequence, Event: &enginev1.PingResponse_Reply{Reply: &enginev1.EchoReply{RoundTripNs: uint64(took), HopLimit: 63, Corrupt: corrupt}}}
}

func TestWhatBecomesOfRequestsIsPrinted(t *testing.T) {
	var out bytes.Buffer
	p := &printer{to: &out, spec: &spatev1.TrafficPingSpec{Port: "east", Destination: "198.18.0.254", Size: 56}}
	of := &statistics{pod: "lab-0"}
	for _, answer := range []*enginev1.PingResponse{
		{Event: &enginev1.PingResponse_Started{Started: &enginev1.PingStarted{Source: "198.18.0.1", NextHopMac: "02:00:00:00:00:02"}}},
		reply(0, 1000*time.Microsecond, false),
		{Sequence: 1, Event: &enginev1.PingResponse_NoReply{NoReply: &enginev1.NoReply{}}},
		reply(2, 3000*time.Microsecond, false),
		reply(3, 0, true),
		{Sequence: 4, Event: &enginev1.PingResponse_Error{Error: &enginev1.IcmpError{Source: "198.18.0.254", Type: 11}}},
	} {
		if err := p.print(of, answer); err != nil {
			t.Fatal(err)
		}
	}
	of.before = of.requests // the operator was replaced: the engine counts again
	if err := p.print(of, reply(0, 2000*time.Microsecond, false)); err != nil {
		t.Fatal(err)
	}
	if err := conclusion(p, []*statistics{of}, []error{nil}); err != nil {
		t.Error(err)
	}
	want := `PING 198.18.0.254 from 198.18.0.1 (port east) by 02:00:00:00:00:02: 56 bytes of data
from 198.18.0.254: seq=1 ttl=63 time=1.000 ms
no reply: seq=2
from 198.18.0.254: seq=3 ttl=63 time=3.000 ms
from 198.18.0.254: seq=4 ttl=63: the data is not what was sent
from 198.18.0.254: seq=5 time to live exceeded
from 198.18.0.254: seq=6 ttl=63 time=2.000 ms
6 requests, 3 replies, 33.33% lost, 1 corrupt; round trip min/mean/max/stddev 1.000 ms/2.000 ms/3.000 ms/0.816 ms
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

func TestSeveralPodsAreNamed(t *testing.T) {
	var out bytes.Buffer
	p := &printer{to: &out, spec: &spatev1.TrafficPingSpec{Destination: "fd00::1"}, several: true}
	pods := []*statistics{{pod: "lab-0"}, {pod: "lab-1"}}
	for n, took := range []time.Duration{time.Millisecond, 3 * time.Millisecond} {
		if err := p.print(pods[1], reply(uint64(n), took, false)); err != nil {
			t.Fatal(err)
		}
	}
	silent := errors.New("next hop fd00::1 did not answer")
	if err := conclusion(p, pods, []error{silent, nil}); !errors.Is(err, silent) {
		t.Errorf("a pod that cannot ping: %v", err)
	}
	want := "lab-1: from fd00::1: seq=1 ttl=63 time=1.000 ms\nlab-1: from fd00::1: seq=2 ttl=63 time=3.000 ms\nlab-0: 0 requests, 0 replies, 0% lost\n" +
		"lab-1: 2 requests, 2 replies, 0% lost; round trip min/mean/max/stddev 1.000 ms/2.000 ms/3.000 ms/1.000 ms\n"
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

func TestTheCommandFailsWithoutAReplyUnlessItsOutputIsClosed(t *testing.T) {
	p := &printer{to: &bytes.Buffer{}, spec: &spatev1.TrafficPingSpec{}}
	none := []*statistics{{requests: 3}}
	if err := conclusion(p, none, []error{nil}); !errors.Is(err, errNoReply) {
		t.Error(err)
	}
	if err := conclusion(p, none, []error{syscall.EPIPE}); err != nil {
		t.Error(err)
	}
}

func TestMessagesOfBothFamiliesAreExplained(t *testing.T) {
	for _, c := range []struct {
		kind, code uint32
		v6         bool
		want       string
	}{
		{3, 1, false, "host unreachable"}, {3, 1, true, "fragment reassembly time exceeded"}, {3, 0, true, "hop limit exceeded"},
		{11, 0, false, "time to live exceeded"}, {1, 0, true, "no route"}, {2, 0, true, "packet too big"}, {3, 99, false, "ICMP type 3, code 99"}, {4, 1, true, "ICMPv6 type 4, code 1"},
	} {
		if got := meaning(&enginev1.IcmpError{Type: c.kind, Code: c.code}, c.v6); got != c.want {
			t.Errorf("type %d, code %d, IPv6 %v: %q", c.kind, c.code, c.v6, got)
		}
	}
}

func TestFlagsOutOfTheirRangeAreNamed(t *testing.T) {
	for flag, want := range map[string]string{
		"--count=-1": "--count -1: must not be negative", "--interval=9ms": "--interval 9ms: must be 10ms to 1h", "--timeout=61s": "--timeout 1m1s: must be 1ms to 60s",
		"--size=15": "--size 15: must be 16 to 1232", "--hop-limit=256": "--hop-limit 256: must be 1 to 255",
	} {
		c := NewCommand()
		c.SetArgs([]string{"lab", "198.18.0.254", "--port", "east", flag})
		c.SetOut(&bytes.Buffer{})
		c.SetErr(&bytes.Buffer{})
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
