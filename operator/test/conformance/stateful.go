// SPDX-License-Identifier: Apache-2.0

// Are the connections of a simulation TRex's?

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/importer/trex"
)

// startSlack is by how much connections may start earlier or later than TRex's, after the first.
const startSlack = time.Millisecond

// StatefulCase is a stateful profile of TRex's and what its simulator sends.
type StatefulCase struct {
	// Name of its file without `.json`.
	Name string
	want []*Session
	free free
	plan []byte
	// refusal of the import or of the plan; nil if it can be run.
	refusal error
}

// free is what may differ.
type free struct {
	// clients and servers that are drawn at random have any of these addresses.
	clients, servers []span
}

// span is a range of addresses.
type span struct{ first, last netip.Addr }

// astfDescription is what of a profile is looked at here.
type astfDescription struct {
	Generators []struct {
		First        netip.Addr `json:"ip_start"`
		Last         netip.Addr `json:"ip_end"`
		Distribution string     `json:"distribution"`
		Side         string     `json:"dir"`
	} `json:"ip_gen_dist_list"`
	Templates []struct {
		Client struct {
			Rate float64 `json:"cps"`
		} `json:"client_template"`
	} `json:"templates"`
}

// LoadStateful reads what TRex sends for a profile, imports the profile and plans it for as long.
func LoadStateful(folder, name string) (*StatefulCase, error) {
	data, err := os.ReadFile(filepath.Join(folder, name+".json"))
	if err != nil {
		return nil, err
	}
	packets, err := ReadCapture(filepath.Join(folder, name+".pcap"))
	if err != nil {
		return nil, err
	}
	c := &StatefulCase{Name: name}
	if c.want, err = Sessions(packets); err != nil {
		return nil, fmt.Errorf("TRex's capture: %w", err)
	}
	var described astfDescription
	if err := json.Unmarshal(data, &described); err != nil {
		return nil, fmt.Errorf("is no stateful profile of TRex's: %w", err)
	}
	c.free = described.free()
	imported, err := trex.Import(objectName(name), data, trex.Options{})
	if err != nil {
		c.refusal = fmt.Errorf("import: %w", err)
		return c, nil
	}
	c.within(imported, packets, described.gap())
	c.plan, c.refusal = planned(name, imported)
	return c, nil
}

// free addresses.
func (d *astfDescription) free() free {
	var f free
	for _, g := range d.Generators {
		switch {
		case g.Distribution == "seq":
		case g.Side == "c":
			f.clients = append(f.clients, span{g.First, g.Last})
		default:
			f.servers = append(f.servers, span{g.First, g.Last})
		}
	}
	return f
}

// gap is the mean time between connections.
func (d *astfDescription) gap() time.Duration {
	rate := 0.0
	for _, t := range d.Templates {
		rate += t.Client.Rate
	}
	if rate <= 0 || math.IsInf(rate, 0) {
		return time.Second
	}
	return time.Duration(float64(time.Second) / rate)
}

// within has the profile open connections for as long as TRex did, and end them.
func (c *StatefulCase) within(imported *trex.Imported, packets []Packet, gap time.Duration) {
	if len(c.want) == 0 {
		return
	}
	last := c.want[len(c.want)-1].Start
	imported.Profile.Spec.Duration = spatev1.Duration((last - c.want[0].Start + gap/2).String())
	imported.Profile.Spec.Warmup = "0s"
	imported.Profile.Spec.Drain = spatev1.Duration((packets[len(packets)-1].At - last + 2*time.Second).String())
}

// CompareStateful simulates a profile and returns the first difference from TRex's connections; nil if there is none. What TRex
// itself refuses, and so sends nothing for, may be refused.
func (r Runner) CompareStateful(ctx context.Context, c *StatefulCase) error {
	if c.refusal != nil {
		if len(c.want) == 0 {
			return nil
		}
		return c.refusal
	}
	pcap := filepath.Join(r.Scratch, "simulated.pcap")
	engine := exec.CommandContext(ctx, r.Engine, "simulate", "--plan", "-", "--pcap", pcap, "--workers", "1")
	engine.Stdin = bytes.NewReader(c.plan)
	if output, err := engine.CombinedOutput(); err != nil {
		return fmt.Errorf("simulate: %w: %s", err, strings.TrimSpace(string(output)))
	}
	packets, err := ReadCapture(pcap)
	if err != nil {
		return err
	}
	got, err := Sessions(packets)
	if err != nil {
		return fmt.Errorf("simulated: %w", err)
	}
	return compareSessions(c.want, got, c.free)
}

// compareSessions returns the first difference.
func compareSessions(want, got []*Session, f free) error {
	for i := range min(len(want), len(got)) {
		starts := [2]time.Duration{want[i].Start - want[0].Start, got[i].Start - got[0].Start}
		if by := (starts[1] - starts[0]).Abs(); by > startSlack {
			return fmt.Errorf("connection %d (%s): starts %v after the first, want %v", i+1, got[i].name(), starts[1], starts[0])
		}
		if err := want[i].compare(got[i], f); err != nil {
			return fmt.Errorf("connection %d (%s): %w", i+1, want[i].name(), err)
		}
	}
	if len(want) != len(got) {
		return fmt.Errorf("want %d connections, got %d", len(want), len(got))
	}
	return nil
}

func (s *Session) name() string {
	protocol := "TCP"
	if s.UDP {
		protocol = "UDP"
	}
	return fmt.Sprintf("%s %s to %s", protocol, s.Client, s.Server)
}

func (s *Session) compare(got *Session, f free) error {
	if s.UDP != got.UDP {
		return fmt.Errorf("got %s", got.name())
	}
	if err := address(s.Client, got.Client, f.clients); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if s.Server.Port() != got.Server.Port() {
		return fmt.Errorf("server: want %s, got %s", s.Server, got.Server)
	}
	if err := address(s.Server, got.Server, f.servers); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	for i := range s.Sides {
		if err := s.Sides[i].compare(&got.Sides[i]); err != nil {
			return fmt.Errorf("%s: %w", sideNames[i], err)
		}
		if s.firstSegments(i) != got.firstSegments(i) {
			return fmt.Errorf("%s: sends %d bytes before any is acknowledged, want %d", sideNames[i], got.Sides[i].FirstFlight, s.Sides[i].FirstFlight)
		}
	}
	if s.Ending != got.Ending {
		return fmt.Errorf("ends by %s, want %s", got.Ending, s.Ending)
	}
	return nil
}

// address compares two; of random ones only the bounds: the port of another client is another.
func address(want, got netip.AddrPort, random []span) error {
	for _, within := range random {
		if !want.Addr().Less(within.first) && !within.last.Less(want.Addr()) {
			if got.Addr().Less(within.first) || within.last.Less(got.Addr()) {
				return fmt.Errorf("got %s, out of %s to %s", got, within.first, within.last)
			}
			return nil
		}
	}
	if want != got {
		return fmt.Errorf("want %s, got %s", want, got)
	}
	return nil
}

func (s *Side) compare(got *Side) error {
	if err := same("bytes", s.Stream, got.Stream); err != nil {
		return err
	}
	if len(s.Messages) != len(got.Messages) {
		return fmt.Errorf("want %d messages, got %d", len(s.Messages), len(got.Messages))
	}
	for i := range s.Messages {
		if err := same(fmt.Sprintf("bytes of message %d", i+1), s.Messages[i], got.Messages[i]); err != nil {
			return err
		}
	}
	switch {
	case s.Handshake != got.Handshake:
		return fmt.Errorf("the SYN says %+v, want %+v", got.Handshake, s.Handshake)
	case s.TTL != got.TTL || s.TOS != got.TOS:
		return fmt.Errorf("TTL %d and TOS %d, want %d and %d", got.TTL, got.TOS, s.TTL, s.TOS)
	}
	return nil
}

// firstSegments is a side's first flight in full segments, rounded: how a window is cut into segments is free. A segment is as
// long as the peer's SYN allows; TRex's are as long as the side's own says, even where the peer's says less.
func (s *Session) firstSegments(side int) int {
	own, peer := &s.Sides[side], &s.Sides[1-side]
	size := own.Handshake.segment()
	if allowed := peer.Handshake.segment(); allowed < size && own.longest <= allowed {
		size = allowed
	}
	if size <= 0 {
		return 0
	}
	return (own.FirstFlight + size/2) / size
}

// segment is how many bytes a full one has.
func (h *Handshake) segment() int {
	const timestamps = 12
	if strings.Contains(h.Options, "Timestamps") {
		return h.MSS - timestamps
	}
	return h.MSS
}

func same(what string, want, got []byte) error {
	if bytes.Equal(want, got) {
		return nil
	}
	if len(want) != len(got) {
		return fmt.Errorf("want %d %s, got %d", len(want), what, len(got))
	}
	at := 0
	for want[at] == got[at] {
		at++
	}
	return fmt.Errorf("%s: at %d want %s, got %s", what, at, excerpt(want, at), excerpt(got, at))
}
