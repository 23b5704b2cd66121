// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// pod has one address for each of ips.
func pod(namespace, name string, labels map[string]string, ips ...string) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{
			{Name: "grpc", ContainerPort: 7470}, {Name: "metrics", ContainerPort: 7471, Protocol: corev1.ProtocolTCP},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

func namespace(name string) corev1.Namespace {
	return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}
}

// policy is one in the namespace lab, with this spec.
func policy(t *testing.T, spec string) networkingv1.NetworkPolicy {
	t.Helper()
	p := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "p"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return p
}

var app = map[string]string{"app": "engine"}

// cluster has an engine in lab, and others that want to connect to it.
func cluster(policies ...networkingv1.NetworkPolicy) State {
	ended := pod("lab", "ended", nil, "10.0.0.9")
	ended.Status.Phase = corev1.PodSucceeded
	host := pod("system", "host", map[string]string{"app": "operator"}, "10.0.0.1")
	host.Spec.HostNetwork = true
	return State{
		Policies: policies,
		Pods: []corev1.Pod{
			pod("lab", "engine", app, "10.0.0.2"), pod("lab", "client", nil, "10.0.0.3", "fd00::3"), ended,
			pod("system", "operator", map[string]string{"app": "operator"}, "10.0.0.4"), pod("system", "other", nil, "10.0.0.5"), host,
			pod("monitoring", "prometheus", nil, "10.0.0.6"),
		},
		Namespaces:    []corev1.Namespace{namespace("lab"), namespace("system"), namespace("monitoring")},
		NodeAddresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")},
	}
}

// allowed returns what the rules of the engine let in besides what each pod must get.
func allowed(t *testing.T, s State) string {
	t.Helper()
	rules, err := Rules(s, &s.Pods[0], "eth0")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(rules, "    ip saddr { 10.0.0.1 } accept\n")
	rest, drops := strings.CutSuffix(rest, "    drop\n  }\n}\n")
	if !found || !drops {
		t.Fatalf("no base rules in\n%s", rules)
	}
	return strings.TrimSpace(strings.ReplaceAll(rest, "    ", ""))
}

func TestPeersAndPortsBecomeRules(t *testing.T) {
	for name, c := range map[string]struct{ ingress, want string }{
		"nothing":            {`[]`, ""},
		"everything":         {`[{}]`, "accept"},
		"a port, from all":   {`[{ports: [{port: 7471}]}]`, "tcp dport 7471 accept"},
		"a named port":       {`[{ports: [{port: metrics}]}]`, "tcp dport 7471 accept"},
		"an unknown port":    {`[{ports: [{port: no-such}]}]`, ""},
		"a range":            {`[{ports: [{protocol: UDP, port: 100, endPort: 200}]}]`, "udp dport 100-200 accept"},
		"a protocol":         {`[{ports: [{protocol: UDP}]}]`, "meta l4proto udp accept"},
		"pods of its own":    {`[{from: [{podSelector: {}}]}]`, "ip saddr { 10.0.0.2, 10.0.0.3 } accept\nip6 saddr { fd00::3 } accept"},
		"pods of a label":    {`[{from: [{podSelector: {matchLabels: {app: engine}}}]}]`, "ip saddr { 10.0.0.2 } accept"},
		"pods of no label":   {`[{from: [{podSelector: {matchLabels: {app: none}}}]}]`, ""},
		"a namespace":        {`[{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: system}}}]}]`, "ip saddr { 10.0.0.4, 10.0.0.5 } accept"},
		"some namespaces":    {`[{from: [{namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [monitoring, none]}]}}]}]`, "ip saddr { 10.0.0.6 } accept"},
		"all namespaces":     {`[{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: operator}}}]}]`, "ip saddr { 10.0.0.4 } accept"},
		"two kinds of peers": {`[{from: [{podSelector: {matchLabels: {app: engine}}}, {ipBlock: {cidr: 10.9.0.0/16, except: [10.9.1.0/24]}}], ports: [{port: 1}]}]`, "ip saddr 10.9.0.0/16 ip saddr != 10.9.1.0/24 tcp dport 1 accept\nip saddr { 10.0.0.2 } tcp dport 1 accept"},
	} {
		if got := allowed(t, cluster(policy(t, "{podSelector: {matchLabels: {app: engine}}, policyTypes: [Ingress], ingress: "+c.ingress+"}"))); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// What a policy allows an engine to connect to becomes a chain of its own, without what the node may; the engine's incoming connections stay as they
// are.
func TestEgressIsRestrictedByItself(t *testing.T) {
	const base = `table inet policies {}
delete table inet policies
table inet policies {
  chain egress {
    type filter hook output priority filter; policy accept
    oifname != "eth0" accept
    ct state established,related accept
    meta l4proto ipv6-icmp accept
`
	for name, c := range map[string]struct{ spec, want string }{
		"nothing":             {`{podSelector: {}, policyTypes: [Egress]}`, ""},
		"everything":          {`{podSelector: {}, policyTypes: [Egress], egress: [{}]}`, "    accept\n"},
		"a port":              {`{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{protocol: UDP, port: 53}, {port: 53}]}]}`, "    udp dport 53 accept\n    tcp dport 53 accept\n"},
		"pods of a namespace": {`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}], ports: [{port: 9090}]}]}`, "    ip daddr { 10.0.0.6 } tcp dport 9090 accept\n"},
		"a block":             {`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.9.0.0/16, except: [10.9.1.0/24]}}]}]}`, "    ip daddr 10.9.0.0/16 ip daddr != 10.9.1.0/24 accept\n"},
	} {
		s := cluster(policy(t, c.spec))
		rules, err := Rules(s, &s.Pods[0], "eth0")
		if want := base + c.want + "    drop\n  }\n}\n"; err != nil || rules != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, rules, want)
		}
	}
	s := cluster(policy(t, `{podSelector: {}, egress: [{ports: [{port: 1}]}]}`)) // of both types, as the API server sets them
	rules, err := Rules(s, &s.Pods[0], "eth0")
	if err != nil || !strings.Contains(rules, "hook input") || !strings.Contains(rules, "    meta l4proto ipv6-icmp accept\n    tcp dport 1 accept\n    drop\n") || strings.Count(rules, "dport") != 1 {
		t.Errorf("%v\n%s", err, rules)
	}
}

func TestPoliciesAddUpAndOthersAreNotFollowed(t *testing.T) {
	s := cluster(policy(t, `{podSelector: {}, ingress: [{ports: [{port: 1}]}]}`), policy(t, `{podSelector: {matchLabels: {app: engine}}, ingress: [{ports: [{port: 2}]}]}`))
	if got := allowed(t, s); got != "tcp dport 1 accept\ntcp dport 2 accept" {
		t.Error(got)
	}
	elsewhere := policy(t, `{podSelector: {}}`)
	elsewhere.Namespace = "system"
	s = cluster(elsewhere, policy(t, `{podSelector: {matchLabels: {app: none}}}`))
	if rules, err := Rules(s, &s.Pods[0], "eth0"); rules != "" || err != nil {
		t.Errorf("%v\n%s", err, rules)
	}
}

func TestWhatIsNotImplementedIsRefused(t *testing.T) {
	for _, spec := range []string{`{podSelector: {}, egress: [{ports: [{port: metrics}]}]}`, `{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: x}}]}]}`} {
		s := cluster(policy(t, spec))
		if rules, err := Rules(s, &s.Pods[0], "eth0"); err == nil || !strings.Contains(err.Error(), "NetworkPolicy lab/p") {
			t.Errorf("%s: %v\n%s", spec, err, rules)
		}
	}
}
