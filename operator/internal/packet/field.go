// SPDX-License-Identifier: Apache-2.0

// Where in a frame is a header's field?

package packet

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Location is a field in a frame, in bits from the frame's start, the most significant bit of a byte first.
type Location struct {
	Bit, Bits int
}

// fieldsOf locates the fields of each kind from the header's start.
var fieldsOf = map[Kind]map[string]Location{
	Ethernet: {"destination": {0, 48}, "source": {48, 48}, "etherType": {96, 16}},
	VLAN:     {"priority": {0, 3}, "dropEligible": {3, 1}, "id": {4, 12}, "etherType": {16, 16}},
	IPv4: {
		"dscp": {8, 6}, "ecn": {14, 2}, "identification": {32, 16}, "dontFragment": {49, 1}, "ttl": {64, 8},
		"protocol": {72, 8}, "source": {96, 32}, "destination": {128, 32},
	},
	IPv6: {
		"trafficClass": {4, 8}, "flowLabel": {12, 20}, "nextHeader": {48, 8}, "hopLimit": {56, 8},
		"source": {64, 128}, "destination": {192, 128},
	},
	UDP: {"sourcePort": {0, 16}, "destinationPort": {16, 16}},
	TCP: {
		"sourcePort": {0, 16}, "destinationPort": {16, 16}, "sequence": {32, 32}, "acknowledgement": {64, 32},
		"flags": {104, 8}, "window": {112, 16}, "urgentPointer": {144, 16},
	},
}

var fieldName = regexp.MustCompile(`^([a-z0-9]+)(?:\[([0-9]{1,2})\])?\.([a-zA-Z]+)$`)

// Locate finds a field by name, such as "ipv4.source", or "vlan[1].id" in the second header of its kind.
func (p *Packet) Locate(name string) (Location, error) {
	parts := fieldName.FindStringSubmatch(name)
	if parts == nil {
		return Location{}, fmt.Errorf("must name a header's field, such as ipv4.source or vlan[1].id")
	}
	kind, field := Kind(parts[1]), parts[3]
	wanted := 0
	if parts[2] != "" {
		wanted, _ = strconv.Atoi(parts[2])
	}
	fields, known := fieldsOf[kind]
	if !known {
		return Location{}, fmt.Errorf("%s is no header; known are ethernet, vlan, ipv4, ipv6, udp and tcp", kind)
	}
	location, known := fields[field]
	if !known {
		return Location{}, fmt.Errorf("%s has no field %s; it has %s", kind, field, strings.Join(names(fields), ", "))
	}
	found := 0
	for _, h := range p.Headers {
		if h.Kind != kind {
			continue
		}
		if found == wanted {
			location.Bit += h.Offset * 8
			return location, nil
		}
		found++
	}
	return Location{}, fmt.Errorf("the packet has %d %s headers; the first is %s[0]", found, kind, kind)
}

func names(fields map[string]Location) []string {
	all := make([]string, 0, len(fields))
	for name := range fields {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
