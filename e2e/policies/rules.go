// SPDX-License-Identifier: Apache-2.0

// Package policies does what a CNI that enforces NetworkPolicies does for ingress: it makes nftables rules of them. The CNI of the
// project's own cluster enforces none.
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

// Rules returns the nftables commands for a pod's network namespace: its policies apply to connections that come in on `device`, its
// primary interface. They replace those of before. No policy selects the pod: everything may come in, and the text is empty.
func Rules(s State, pod *corev1.Pod, device string) (string, error) {
	var allowed []string
	isolated := false
	for i := range s.Policies {
		policy := &s.Policies[i]
		selects, err := selects(policy, pod)
		if err != nil {
			return "", fmt.Errorf("NetworkPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
		}
		if !selects {
			continue
		}
		isolated = true
		for _, rule := range policy.Spec.Ingress {
			lines, err := s.ingress(policy.Namespace, pod, rule)
			if err != nil {
				return "", fmt.Errorf("NetworkPolicy %s/%s: %w", policy.Namespace, policy.Name, err)
			}
			allowed = append(allowed, lines...)
		}
	}
	if !isolated {
		return "", nil
	}
	lines := []string{
		"table inet " + Table + " {}",
		"delete table inet " + Table,
		"table inet " + Table + " {",
		"  chain ingress {",
		"    type filter hook input priority filter; policy accept",
		fmt.Sprintf("    iifname != %q accept", device),
		"    ct state established,related accept",
		"    meta l4proto ipv6-icmp accept", // neighbor discovery
	}
	for _, addresses := range sources(s.NodeAddresses) {
		lines = append(lines, "    "+addresses+" accept")
	}
	for _, rule := range allowed {
		lines = append(lines, "    "+rule)
	}
	return strings.Join(append(lines, "    drop", "  }", "}"), "\n") + "\n", nil
}

// selects reports whether the ingress rules of a policy are for a pod.
func selects(policy *networkingv1.NetworkPolicy, pod *corev1.Pod) (bool, error) {
	if policy.Namespace != pod.Namespace || pod.Spec.HostNetwork {
		return false, nil
	}
	if types := policy.Spec.PolicyTypes; slices.Contains(types, networkingv1.PolicyTypeEgress) || len(policy.Spec.Egress) > 0 {
		return false, errors.New("egress is not implemented here")
	}
	return matches(&policy.Spec.PodSelector, pod.Labels)
}

func matches(selector *metav1.LabelSelector, of map[string]string) (bool, error) {
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && compiled.Matches(labels.Set(of)), err
}

// ingress returns a rule for each kind of source and port that may connect.
func (s State) ingress(namespace string, pod *corev1.Pod, rule networkingv1.NetworkPolicyIngressRule) ([]string, error) {
	from := []string{""}
	if len(rule.From) > 0 {
		from = nil
		var pods []netip.Addr
		for _, peer := range rule.From {
			if peer.IPBlock != nil {
				text, err := block(peer.IPBlock)
				if err != nil {
					return nil, err
				}
				from = append(from, text)
				continue
			}
			addresses, err := s.peers(namespace, peer)
			if err != nil {
				return nil, err
			}
			pods = append(pods, addresses...)
		}
		from = append(from, sources(pods)...)
	}
	ports := []string{""}
	if len(rule.Ports) > 0 {
		ports = nil
		for _, port := range rule.Ports {
			text, err := destination(pod, port)
			if err != nil {
				return nil, err
			}
			if text != "" {
				ports = append(ports, text)
			}
		}
	}
	var rules []string
	for _, source := range from {
		for _, port := range ports {
			rules = append(rules, strings.Join(strings.Fields(source+" "+port+" accept"), " "))
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

// sources returns a match for each family of addresses; none for no addresses.
func sources(addresses []netip.Addr) []string {
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
			families = append(families, fmt.Sprintf("%s saddr { %s }", family.name, strings.Join(set, ", ")))
		}
	}
	return families
}

func block(of *networkingv1.IPBlock) (string, error) {
	prefix, err := netip.ParsePrefix(of.CIDR)
	if err != nil {
		return "", err
	}
	family := "ip"
	if prefix.Addr().Is6() {
		family = "ip6"
	}
	matches := []string{fmt.Sprintf("%s saddr %s", family, prefix.Masked())}
	for _, except := range of.Except {
		without, err := netip.ParsePrefix(except)
		if err != nil {
			return "", err
		}
		matches = append(matches, fmt.Sprintf("%s saddr != %s", family, without.Masked()))
	}
	return strings.Join(matches, " "), nil
}

// destination returns a match for a port; empty if the pod has no port of that name, so that nothing may connect by it.
func destination(pod *corev1.Pod, port networkingv1.NetworkPolicyPort) (string, error) {
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
