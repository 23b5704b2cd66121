// SPDX-License-Identifier: Apache-2.0

// What is not supported, in a user's words? Each line names a text of the code that refuses it, and must be removed
// with that text.

package main

import (
	"fmt"
	"strings"
)

const opening = `# What is not supported

What cannot be done is refused with the path of the field and the reason, and nothing is omitted silently. The first table has, in short, what people of other generators ask for; below it is
what the imports from TRex, the API server, the operator before a run, and the engine refuse, by where it is found in the code, with … for what is filled in.
This page is generated from the code (` + "`make generate`" + `), which fails where the first table lists a refusal that no longer exists. Not in it are

- values that are merely out of bounds or misspelled: what they must be is in the [API reference](../api.md);
- what a cluster's state refuses, such as a missing object or a name that is taken (reasons of [conditions](conditions.md));
- what fails on a machine, such as a file that cannot be read or a call of DPDK;
- options of ` + "`kubectl spate`" + `, and how those of the engine are written (` + "`spate-engine help COMMAND`" + `);
- texts that the code composes elsewhere than where it refuses: the generator does not find them.
`

// unsupported is a refused feature: says is the text of the code, with … for placeholders; empty where there is no field for it.
type unsupported struct{ what, why, says string }

var summary = []unsupported{
	{"TRex: dummy streams", "they take time and send nothing: add it to the start delay of the next", "a dummy stream, which takes time and sends nothing, is not supported"},
	{"TRex: topologies in Python (`get_topo`)", "write them as the pools' `gtpu`, `vxlan`, `gre`, `mpls`, `vlans` and `gateway`", "it makes a topology of tunnels or clients, not a profile"},
	{"TRex: time stamps of IEEE 1588", "latency is measured by the CPU's clock", "time stamps of IEEE 1588 are not supported"},
	{"TRex: marks in the inner packet of VXLAN", "marks are looked for in the outer header", "marks in the inner packet of a VXLAN are not supported"},
	{"TRex: masked writes of 8-byte variables", "what TRex does with them depends on `is_big_endian`", "has 8 bytes, of which TRex would use four"},
	{"TRex: more than 20 variables of a stream", "a stream has as many fields", "variables: a stream can have"},
	{"TRex: more than 508 streams that start each other", "each has an entry of its own in the profile, which has at most 512; other streams are selected by their labels, up to 65,536", "of the … streams start each other, each an entry of its own"},
	{"TRex: more than 512 templates", "they take turns in their addresses, which profiles do not share", "which take turns in their addresses and in being drawn"},
	{"TRex: packets of more than 9,230 bytes", "buffers of the engine have 9 KiB and headers", "packets of … bytes without FCS are too long"},
	{"TRex: `rx_mode` of `keepalive`", "the timer of silence is one for both directions", "what is sent ends the silence too"},
	{"TRex: distribution `normal`", "pools are sequential or shuffled", "normal is not supported; use seq or rand"},
	{"TRex: servers by a part of the addresses, by `assoc_id`, by several rules", "servers are found by address, port and first bytes", "that some of them are another template's is not supported"},
	{"TRex: bits in masks of `l7_map`", "first bytes are compared whole", "only whole bytes can be matched"},
	{"TRex: `blackhole: 1`, `do_ecn: 2`", "servers answer, or do not; ECN is on or off", "1, which leaves only SYN unanswered, is not supported"},
	{"TRex: keys that the import does not know", "to leave them out could change what is sent", "is not known to the import, and would be ignored"},
	{"More than 65,536 streams at once, copies counted", "their numbers have 16 bits", "at most … can run at once"},
	{"`next` across ports, and into or out of a replay of both directions", "a chain is one of one port", "a chain stays on one port"},
	{"A rate on the entry of a replay", "its times are the capture's", "a replay has no rate but that of its capture"},
	{"`minGap` beside the `directions` of a replay", "it would delay one direction and not the other: set `gap.fixed`", "does not go with directions, since it would delay one of them"},
	{"A number in `measure.mark` of both directions of a replay", "it would not tell them apart: set `auto`", "one number does not tell the directions of a replay apart"},
	{"IPv6 fields beyond one /64", "a field has 64 bits", "a range of IPv6 addresses stays within one /64"},
	{"Named fields in replayed packets", "what headers they have is not known: write to an offset", "the fields of replayed packets are not known"},
	{"Latency without flow statistics; marks beside them", "a packet has one trailer, or one mark", "mark counts packets without a trailer"},
	{"Flow statistics of IGMP, MLD, neighbor discovery and control messages of L2TP", "nothing follows them in an IP packet: count them by `measure.mark`", ""},
	{"Auxiliary data in records of IGMP and MLD; marker PDUs of LACP; other messages of MAC control", "no field describes them: write such packets as `bytes`", ""},
	{"What L2TPv3 carries in packets of `bytes`", "the bytes do not say what a session is of: limits judge the outer destination, and named fields end at the session", ""},
	{"Flow statistics on a discard port", "nothing is received there", "is a discard port and receives nothing"},
	{"Clients in more than two VLAN tags, and tags with a priority", "provider bridges have two; packets of streams have any", "has … tags; at most …"},
	{"VXLAN mirrored between two ports, and ARP within VXLAN", "both ports would have to know VTEPs of each other; give gateways static entries of the clients", "it is for clients and servers on one loopback port"},
	{"GRE with checksums or sequence numbers sent, and Ethernet in GRE", "neither changes what a device does with a packet; frames go into VXLAN", ""},
	{"MPLS labels of servers, and `gtpu`, `vxlan` or `gre` behind labels", "servers answer as they are reached; a pool has one kind of tunnel", "does not go with …"},
	{"VLANs and gateways of servers", "servers answer in the VLAN of their port to whoever sends, or as `mirrorVLANs` says", "vlans and gateway go with clients"},
	{"IPv4 and IPv6 in one template", "any client connects to any server: write a template for each", "write a template for each family"},
	{"First bytes behind byte 536", "they may come in another segment", "which every path takes in one packet"},
	{"Clients that overlap servers", "a client would connect to itself", "a client would connect to itself; use addresses apart"},
	{"Fewer clients than pods", "each pod begins connections of its own", "and each needs clients of its own"},
	{"A share of a mix for captures, loops, jumps by time and switched templates", "how long their connections are is not known", "jumps by a time"},
	{"Replays from a volume, and templates of real clients, under `allowedDestinations`", "where they go is not known", "where the packets of a capture on a volume go cannot be determined"},
	{"Cut, incomplete or several sessions in a capture that becomes a template", "the bytes of both sides must all be there", "a capture must have one session only"},
	{"IP fragments in such a capture", "they are not put together", "it is a fragment of a packet that is not known"},
	{"More than 32,768 commands in the inline templates of a profile", "the operator checks each by the rules of ASTFTemplates: write some of these, which the API server checks", "inline templates have … commands, and a profile may have …"},
	{"Steps of a program that nothing leads to", "what is never executed is a mistake", "nothing leads to it; leave it out, or jump to it"},
	{"Loops of a program that take no time", "a worker would never leave them: put a delay or a counter there", "nothing on the way takes time or is certain to end"},
	{"Waiting for bytes that the other side does not send", "the program would wait for ever", "of which the … sends … before it ends or waits itself"},
	{"Weights of pools that add up to more than 65,536", "pools take turns in a round of that length; use rounder weights", "the weights add up to … without a common factor"},
	{"Several queues of an AF_XDP port", "one socket serves one queue, and packets of other queues would go to the kernel's network stack: make it one (`ethtool -L`)", "receive queues, and the engine would see the packets of the first only"},
	{"AF_XDP frames of several buffers", "a frame must fit into a page: MTU 3,438 at most", "and a packet must fit into a page"},
	{"AF_XDP members of a bond", "members are opened by packet sockets", ""},
	{"Bonds but by LACP", "active-backup and the kernel's other modes are for the bond CNI plugin, attached by `kernel`", ""},
	{"Clients, or streams, of some entries of a profile on a group of pods and of others on all pods", "a pod begins the flows of all its clients in one row, and sends the streams of a port by one schedule", "name a group for all or for none"},
	{"Streams that are counted by a group of pods only", "whichever pod they arrive at counts them: leave receivePodGroup out", "packets of a stream are counted in whichever pod they arrive"},
	{"`kubectl scale` and autoscalers of a generator with podGroups", "it is not known which group is to change: change `replicas` of the group, and the sum", "with podGroups it must be the sum of their replicas"},
	{"memif sockets on paths of the node", "tenants could open any: use a persistentVolumeClaim", "no persistentVolumeClaim, and only on such a socket can be"},
	{"CPUs without AVX2", "the engine is built for x86-64-v3: Intel Haswell, AMD Excavator or later", "the engine needs x86-64-v3"},
	{"The engine's plain gRPC over TCP", "use TLS (`--tls-dir`), or a Unix socket", "plain gRPC is not served on TCP"},
	{"`spate-engine capture` and `records` over TCP", "they use a Unix socket on the engine's machine or in its pod; `kubectl spate` goes through the operator", "--connect: must be unix:PATH"},
	{"Both sides that open a connection at once", "no program does", "both sides open the connection at the same time"},
}

// checked returns an error unless the code still refuses every feature of the first table.
func checked(all []unsupported, parts []part) error {
	for _, one := range all {
		if one.says != "" && !says(parts, one.says) {
			return fmt.Errorf("summary.go: %q is listed with the message %q, which no code reports: remove the line, or write what the code reports", one.what, one.says)
		}
	}
	return nil
}

func says(parts []part, text string) bool {
	for _, p := range parts {
		for _, f := range p.files {
			for _, r := range f.refusals {
				if strings.Contains(shown(r.text), text) {
					return true
				}
			}
		}
	}
	return false
}
