// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: does a user who describes headers of control protocols and of tunnels get them accepted, and sent?

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
)

func TestHeadersOfControlProtocolsAndTunnelsAreSent(t *testing.T) {
	needsEngine(t)
	text, err := os.ReadFile("../../config/samples/control-protocols.yaml")
	must(t, err)
	const duration = "  duration: 5s\n"
	if !strings.Contains(string(text), duration) {
		t.Fatal("the sample has another duration")
	}
	ns := namespace(t)
	mustApply(t, ns, strings.Replace(string(text), duration, "  duration: 2s\n"+lenient, 1))
	r := complete(t, readyLimit+runLimit, profileNamed(ns, "control-protocols"))
	if v := r.Status.Verdict; v.Outcome != spatev1.VerdictPassed {
		t.Fatalf("%+v", v)
	}
	for name, packets := range map[string]int64{
		"igmp-join": 200, "igmp-query": 2, "mld-join": 200, "lacp": 2, "pause": 20, "pfc": 20, "service-chain": 200, "subscribers": 200, "pseudowire": 200,
	} {
		if s := r.Status.Result.Streams[name]; s.Tx != packets || s.Rx != packets || s.Lost != 0 {
			t.Errorf("%s: %d sent, %d received, want %d", name, s.Tx, s.Rx, packets)
		}
	}
}

func TestHeadersOfControlProtocolsAreJudgedByThemselves(t *testing.T) {
	ns := bareNamespace(t)
	for name, c := range map[string]struct{ headers, summary, refused string }{
		"leave":      {"[{ethernet: {destination: \"01:00:5e:00:00:02\"}}, {ipv4: {source: 198.18.0.1, destination: 224.0.0.2}}, {igmp: {message: LeaveGroup, groupAddress: 239.1.1.1}}]", "ethernet/ipv4/igmp 198.18.0.1 > 224.0.0.2", ""},
		"done":       {"[{ethernet: {destination: \"33:33:00:00:00:02\"}}, {ipv6: {source: \"fe80::1\", destination: \"ff02::2\"}}, {icmpv6: {multicastListener: {message: Done, multicastAddress: \"ff0e::1\"}}}]", "ethernet/ipv6/icmpv6 fe80::1 > ff02::2", ""},
		"lacp":       {"[{ethernet: {destination: \"01:80:c2:00:00:02\"}}, {lacp: {actor: {system: \"02:00:00:00:00:01\"}}}]", "ethernet/lacp", ""},
		"pfc":        {"[{ethernet: {destination: \"01:80:c2:00:00:01\"}}, {macControl: {priorityEnableVector: 1, times: [1]}}]", "ethernet/macControl", ""},
		"nsh":        {"[{ethernet: {destination: \"02:00:00:00:00:01\"}}, {nsh: {servicePathIdentifier: 1}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {udp: {destinationPort: 7}}]", "ethernet/nsh/ipv4/udp 198.18.0.1:49152 > 198.19.0.1:7", ""},
		"l2tp":       {"[{ethernet: {destination: \"02:00:00:00:00:01\"}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {udp: {}}, {l2tp: {control: true, tunnelID: 1, avps: \"8008000000000006\"}}]", "ethernet/ipv4/udp/l2tp 198.18.0.1:49152 > 198.19.0.1:1701", ""},
		"l2tpv3":     {"[{ethernet: {destination: \"02:00:00:00:00:01\"}}, {ipv6: {source: \"2001:2::1\", destination: \"2001:2::2\"}}, {l2tpv3: {controlConnectionID: 1}}]", "ethernet/ipv6/l2tpv3 2001:2::1 > 2001:2::2", ""},
		"nobody":     {"[{ethernet: {destination: \"01:00:5e:00:00:02\"}}, {ipv4: {source: 198.18.0.1, destination: 224.0.0.2}}, {igmp: {message: LeaveGroup}}]", "", "spec.packet.headers[2].igmp.groupAddress"},
		"misplaced":  {"[{ethernet: {destination: \"02:00:00:00:00:01\"}}, {vlan: {id: 1}}, {macControl: {pauseTime: 1}}]", "", "must follow ethernet, not vlan"},
		"no-session": {"[{ethernet: {destination: \"02:00:00:00:00:01\"}}, {ipv4: {source: 198.18.0.1, destination: 198.19.0.1}}, {l2tpv3: {sessionID: 0}}]", "", "0 is a control message over IP: set controlConnectionID"},
	} {
		t.Run(name, func(t *testing.T) {
			mustApply(t, ns, "apiVersion: spate.dev/v1alpha1\nkind: StatelessStream\nmetadata: {name: "+name+"}\nspec:\n  packet: {headers: "+c.headers+"}\n  transmit: {continuous: {rate: 1pps}}\n")
			s := &spatev1.StatelessStream{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
			if c.refused != "" {
				expect(t, answerLimit, s, spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonInvalidSpec, c.refused)
				return
			}
			expect(t, answerLimit, s, spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
			if s.Status.Summary != c.summary {
				t.Errorf("summary %q, want %q", s.Status.Summary, c.summary)
			}
		})
	}
}
