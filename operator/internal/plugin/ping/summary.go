// SPDX-License-Identifier: Apache-2.0

// How are round trips summed up, and what do messages of ICMP mean?

package ping

import (
	"fmt"
	"math"
	"time"

	"spate.dev/operator/internal/engine/enginev1"
)

// summary prints the last lines of a pod, as ping(8) does.
func (p *printer) summary(of *statistics) {
	lost := 0.0
	if of.requests > 0 {
		lost = 100 * float64(of.requests-of.replies-of.corrupt) / float64(of.requests)
	}
	text := fmt.Sprintf("%d requests, %d replies, %.4g%% lost", of.requests, of.replies, lost)
	if of.corrupt > 0 {
		text += fmt.Sprintf(", %d corrupt", of.corrupt)
	}
	if of.replies > 0 {
		mean := of.sum / time.Duration(of.replies)
		text += fmt.Sprintf("; round trip min/mean/max/stddev %s/%s/%s/%s", milliseconds(of.least), milliseconds(mean), milliseconds(of.most), milliseconds(of.deviation()))
	}
	_ = p.line(of.pod, "%s", text) // who reads no more wants no summary
}

// deviation returns the standard deviation of round trips.
func (s *statistics) deviation() time.Duration {
	n := float64(s.replies)
	mean := float64(s.sum) / float64(time.Microsecond) / n
	return time.Duration(math.Sqrt(max(0, s.squares/n-mean*mean)) * float64(time.Microsecond))
}

// milliseconds returns a time with the digits that ping(8) gives.
func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.3f ms", float64(d)/float64(time.Millisecond))
}

// The messages that a request can cause, by type and code.
var (
	icmpMeanings = map[[2]uint32]string{
		{3, 0}: "network unreachable", {3, 1}: "host unreachable", {3, 2}: "protocol unreachable", {3, 4}: "fragmentation needed",
		{3, 9}: "network prohibited", {3, 10}: "host prohibited", {3, 13}: "communication prohibited", {11, 0}: "time to live exceeded",
		{11, 1}: "fragment reassembly time exceeded",
	}
	icmpv6Meanings = map[[2]uint32]string{
		{1, 0}: "no route", {1, 1}: "communication prohibited", {1, 2}: "beyond the scope of the source", {1, 3}: "address unreachable",
		{1, 4}: "port unreachable", {1, 5}: "source address refused", {1, 6}: "route rejected", {2, 0}: "packet too big",
		{3, 0}: "hop limit exceeded", {3, 1}: "fragment reassembly time exceeded",
	}
)

// meaning returns what a message of ICMP (RFC 792) or ICMPv6 (RFC 4443) says.
func meaning(e *enginev1.IcmpError, v6 bool) string {
	protocol, meanings := "ICMP", icmpMeanings
	if v6 {
		protocol, meanings = "ICMPv6", icmpv6Meanings
	}
	if text, known := meanings[[2]uint32{e.Type, e.Code}]; known {
		return text
	}
	return fmt.Sprintf("%s type %d, code %d", protocol, e.Type, e.Code)
}
