// SPDX-License-Identifier: Apache-2.0

// Package policies does what a CNI that enforces NetworkPolicies does: it makes nftables rules of them. The CNI of the project's own
// cluster enforces none.
package policies

// This file answers: which rules do the NetworkPolicies of a cluster mean for a pod?

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Table is the name of the nftables table of a pod's rules, of the family inet.
const Table = "policies"

// State is what rules depend on.
type State struct {
	Policies   []networkingv1.NetworkPolicy
	Pods       []corev1.Pod
	Namespaces []corev1.Namespace
	// NodeAddresses are those of the pods' own node. CNIs let it connect to its pods whatever policies say: the kubelet probes them.
	NodeAddresses []netip.Addr
}

// direction is one in which policies restrict connections, as nftables has it: a pod's rules are in its own network namespace.
type direction struct {
	kind networkingv1.PolicyType
	// chain is named for the kind and its hook. device and address match a packet's interface and the address of its other end.
	chain, hook, device, address string
}

var directions = []direction{
	{networkingv1.PolicyTypeIngress, "ingress", "input", "iifname", "saddr"},
	{networkingv1.PolicyTypeEgress, "egress", "output", "oifname", "daddr"},
}

// rule is one of a policy: of the peers, all when empty, and the ports, all when empty.
type rule struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

// rules returns those of a policy in a direction, and whether it restricts that at all.
func (d direction) rules(spec *networkingv1.NetworkPolicySpec) (all []rule, restricts bool) {
	types := spec.PolicyTypes
	if d.kind == networkingv1.PolicyTypeIngress {
		for _, r := range spec.Ingress {
			all = append(all, rule{r.From, r.Ports})
		}
		return all, len(types) == 0 || slices.Contains(types, d.kind)
	}
	for _, r := range spec.Egress {
		all = append(all, rule{r.To, r.Ports})
	}
	return all, len(types) == 0 && len(all) > 0 || slices.Contains(types, d.kind)
}

// Rules returns the nftables commands for a pod's network namespace: its policies apply to connections that come in, or go out, on `device`, its
// primary interface. They replace those of before. No policy selects the pod: every connection is allowed, and the text is empty. The
// destinations of connections are those that the pod's programs have: a Service's address, before it is translated to that of a pod.
func Rules(s State, pod *corev1.Pod, device string) (string, error) {
	var lines []string
	for _, d := range directions {
		chain, err := s.chain(d, pod, device)
		if err != nil {
			return "", err
		}
		lines = append(lines, chain...)
	}
	if len(lines) == 0 {
		return "", nil
	}
	lines = slices.Concat([]string{"table inet " + Table + " {}", "delete table inet " + Table, "table inet " + Table + " {"}, lines, []string{"}"})
	return strings.Join(lines, "\n") + "\n", nil
}

// chain returns the chain of a direction; nothing if no policy restricts it.
func (s State) chain(d direction, pod *corev1.Pod, device string) ([]string, error) {
	lines := []string{
		"  chain " + d.chain + " {",
		"    type filter hook " + d.hook + " priority filter; policy accept",
		fmt.Sprintf("    %s != %q accept", d.device, device),
		"    ct state established,related accept",
		"    meta l4proto ipv6-icmp accept", // neighbor discovery
	}
	if d.kind == networkingv1.PolicyTypeIngress {
		for _, addresses := range d.addresses(s.NodeAddresses) {
			lines = append(lines, "    "+addresses+" accept")
		}
	}
	isolated := false
	for i := range s.Policies {
		policy := &s.Policies[i]
		allowed, restricted, err := s.allowed(d, policy, pod)
		if err != nil {
			return nil, fmt.Errorf("NetworkPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
		}
		isolated = isolated || restricted
		for _, rule := range allowed {
			lines = append(lines, "    "+rule)
		}
	}
	if !isolated {
		return nil, nil
	}
	return append(lines, "    drop", "  }"), nil
}

// allowed returns what a policy allows a pod in a direction, and whether it restricts that at all.
func (s State) allowed(d direction, policy *networkingv1.NetworkPolicy, pod *corev1.Pod) (all []string, restricts bool, err error) {
	rules, restricts := d.rules(&policy.Spec)
	if !restricts || policy.Namespace != pod.Namespace || pod.Spec.HostNetwork {
		return nil, false, nil
	}
	if selected, err := matches(&policy.Spec.PodSelector, pod.Labels); err != nil || !selected {
		return nil, false, err
	}
	for _, r := range rules {
		lines, err := s.allow(d, policy.Namespace, pod, r)
		if err != nil {
			return nil, false, err
		}
		all = append(all, lines...)
	}
	return all, true, nil
}

func matches(selector *metav1.LabelSelector, of map[string]string) (bool, error) {
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && compiled.Matches(labels.Set(of)), err
}

// allow returns a match for each kind of peer and port that connections are allowed with.
func (s State) allow(d direction, namespace string, pod *corev1.Pod, r rule) ([]string, error) {
	peers := []string{""}
	if len(r.peers) > 0 {
		peers = nil
		var pods []netip.Addr
		for _, peer := range r.peers {
			if peer.IPBlock != nil {
				text, err := d.block(peer.IPBlock)
				if err != nil {
					return nil, err
				}
				peers = append(peers, text)
				continue
			}
			addresses, err := s.peers(namespace, peer)
			if err != nil {
				return nil, err
			}
			pods = append(pods, addresses...)
		}
		peers = append(peers, d.addresses(pods)...)
	}
	ports := []string{""}
	if len(r.ports) > 0 {
		ports = nil
		for _, port := range r.ports {
			text, err := d.port(pod, port)
			if err != nil {
				return nil, err
			}
			if text != "" {
				ports = append(ports, text)
			}
		}
	}
	var rules []string
	for _, peer := range peers {
		for _, port := range ports {
			rules = append(rules, strings.Join(strings.Fields(peer+" "+port+" accept"), " "))
		}
	}
	return rules, nil
}

// peers returns the addresses of the pods that a peer stands for: without a selector of namespaces those of the policy's own.
func (s State) peers(namespace string, peer networkingv1.NetworkPolicyPeer) ([]netip.Addr, error) {
	of := map[string]bool{namespace: true}
	if peer.NamespaceSelector != nil {
		clear(of)
		for i := range s.Namespaces {
			selected, err := matches(peer.NamespaceSelector, s.Namespaces[i].Labels)
			if err != nil {
				return nil, err
			}
			of[s.Namespaces[i].Name] = selected
		}
	}
	var addresses []netip.Addr
	for i := range s.Pods {
		pod := &s.Pods[i]
		// A pod on the network of its node has the node's address, which selectors do not stand for.
		if !of[pod.Namespace] || pod.Spec.HostNetwork || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if peer.PodSelector != nil {
			selected, err := matches(peer.PodSelector, pod.Labels)
			if err != nil {
				return nil, err
			}
			if !selected {
				continue
			}
		}
		for _, ip := range pod.Status.PodIPs {
			address, err := netip.ParseAddr(ip.IP)
			if err != nil {
				return nil, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			addresses = append(addresses, address)
		}
	}
	return addresses, nil
}

// addresses returns a match for each family of the other ends' addresses; none for no addresses.
func (d direction) addresses(addresses []netip.Addr) []string {
	var families []string
	for _, family := range []struct {
		name string
		is   func(netip.Addr) bool
	}{{"ip", netip.Addr.Is4}, {"ip6", netip.Addr.Is6}} {
		var set []string
		for _, address := range addresses {
			if family.is(address.Unmap()) {
				set = append(set, address.Unmap().String())
			}
		}
		slices.Sort(set)
		if set = slices.Compact(set); len(set) > 0 {
			families = append(families, fmt.Sprintf("%s %s { %s }", family.name, d.address, strings.Join(set, ", ")))
		}
	}
	return families
}

// block returns a match for the addresses of a block.
func (d direction) block(of *networkingv1.IPBlock) (string, error) {
	prefix, err := netip.ParsePrefix(of.CIDR)
	if err != nil {
		return "", err
	}
	family := "ip"
	if prefix.Addr().Is6() {
		family = "ip6"
	}
	matches := []string{fmt.Sprintf("%s %s %s", family, d.address, prefix.Masked())}
	for _, except := range of.Except {
		without, err := netip.ParsePrefix(except)
		if err != nil {
			return "", err
		}
		matches = append(matches, fmt.Sprintf("%s %s != %s", family, d.address, without.Masked()))
	}
	return strings.Join(matches, " "), nil
}

// port returns a match for a port of the end that is connected to; empty if the pod has no port of that name, so that nothing may connect by it.
func (d direction) port(pod *corev1.Pod, port networkingv1.NetworkPolicyPort) (string, error) {
	protocol := corev1.ProtocolTCP
	if port.Protocol != nil {
		protocol = *port.Protocol
	}
	name := strings.ToLower(string(protocol))
	switch {
	case port.Port == nil && port.EndPort != nil:
		return "", errors.New("endPort without port")
	case port.Port == nil:
		return "meta l4proto " + name, nil
	case port.Port.Type == intstr.Int && port.EndPort != nil:
		return fmt.Sprintf("%s dport %d-%d", name, port.Port.IntVal, *port.EndPort), nil
	case port.Port.Type == intstr.Int:
		return fmt.Sprintf("%s dport %d", name, port.Port.IntVal), nil
	case d.kind == networkingv1.PolicyTypeEgress:
		return "", errors.New("egress to ports by name is not supported: give their numbers")
	}
	for _, container := range pod.Spec.Containers {
		for _, named := range container.Ports {
			if named.Name == port.Port.StrVal && (named.Protocol == protocol || named.Protocol == "" && protocol == corev1.ProtocolTCP) {
				return fmt.Sprintf("%s dport %d", name, named.ContainerPort), nil
			}
		}
	}
	return "", nil
}
