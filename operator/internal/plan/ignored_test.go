// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"

	spatev1 "spate.dev/api/v1alpha1"
)

// ignoring is a profile of an application with sources to ignore.
func ignoring(macs []spatev1.MACAddress, addresses []spatev1.AddressOrCIDR) *spatev1.TrafficProfile {
	p := profile(running("web", "http", "east", "west"))
	p.Spec.IgnoredSources = &spatev1.IgnoredSources{MACs: macs, Addresses: addresses}
	return p
}

func TestSourcesToIgnoreBecomePartOfAPlan(t *testing.T) {
	p := ignoring([]spatev1.MACAddress{"02:00:00:00:00:99", "0A:00:00:00:00:01"}, []spatev1.AddressOrCIDR{"198.18.0.254", "198.18.7.9/24", "2001:db8:7::1", "2001:db8::/32", "0.0.0.0/0"})
	got := planOf(t, Input{Profile: p, Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate)}})
	isJSON(t, got.IgnoredSources, `{"macs": ["AgAAAACZ", "CgAAAAAB"], "prefixes": [
	  {"address": "xhIA/g==", "length": 32}, {"address": "xhIHAA==", "length": 24},
	  {"address": "IAENuAAHAAAAAAAAAAAAAQ==", "length": 128}, {"address": "IAENuAAAAAAAAAAAAAAAAA==", "length": 32}, {"address": "AAAAAA==", "length": 0}]}`)
	p.Spec.IgnoredSources = nil
	if got := planOf(t, Input{Profile: p, Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate)}}); got.IgnoredSources != nil {
		t.Errorf("a profile without sources to ignore has %v", got.IgnoredSources)
	}
}

func TestSourcesThatCannotBeIgnoredAreReported(t *testing.T) {
	macs, addresses := make([]spatev1.MACAddress, 65), make([]spatev1.AddressOrCIDR, 65)
	for i := range macs {
		macs[i], addresses[i] = spatev1.MACAddress(fmt.Sprintf("02:00:00:00:00:%02x", i)), spatev1.AddressOrCIDR(fmt.Sprintf("198.18.0.%d", i))
	}
	streams := profile(entryOf("s", "east", "west", streamOf("1kpps", 64)))
	streams.Spec.IgnoredSources = &spatev1.IgnoredSources{MACs: macs[:1]}
	for name, c := range map[string]struct {
		profile *spatev1.TrafficProfile
		want    string
	}{
		"as many as there can be": {ignoring(macs[:64], addresses[:64]), ""},
		"too many MACs":           {ignoring(macs, nil), "spec.ignoredSources.macs: 65 items; must be at most 64"},
		"too many addresses":      {ignoring(nil, addresses), "spec.ignoredSources.addresses: 65 items; must be at most 64"},
		"a group's MAC":           {ignoring([]spatev1.MACAddress{macs[0], "01:00:5e:00:00:01"}, nil), `spec.ignoredSources.macs[1]: "01:00:5e:00:00:01": must be the MAC address of a station, such as 02:00:00:00:00:01`},
		"no MAC":                  {ignoring([]spatev1.MACAddress{"02:00:00:00:00:00:00:01"}, nil), `spec.ignoredSources.macs[0]: "02:00:00:00:00:00:00:01": must be the MAC address of a station, such as 02:00:00:00:00:01`},
		"no address":              {ignoring(nil, []spatev1.AddressOrCIDR{addresses[0], "fe80::1%eth0"}), `spec.ignoredSources.addresses[1]: "fe80::1%eth0": must be an address or a prefix, such as 198.18.0.1 or 2001:db8::/32`},
		"no prefix":               {ignoring(nil, []spatev1.AddressOrCIDR{"198.18.0.0/33"}), `spec.ignoredSources.addresses[0]: "198.18.0.0/33": must be an address or a prefix, such as 198.18.0.1 or 2001:db8::/32`},
		"no application":          {streams, "spec.ignoredSources: applies to applications, and traffic has none: add one, or leave it out"},
	} {
		in := Input{Profile: c.profile, Generator: generator(), Templates: map[string]*spatev1.ASTFTemplate{"http": templateOf(t, webTemplate)}}
		_, problems := Resolve(in)
		var found []string
		for _, problem := range problems {
			found = append(found, problem.Error())
		}
		if len(found) > 0 != (c.want != "") || c.want != "" && !slices.Contains(found, c.want) {
			t.Errorf("%s: got %q, want %q", name, found, c.want)
		}
	}
}
