// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how do the counters of templates, by engine and side, become numbers of a result?

import (
	"slices"
	"strings"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// counted are the sums that a field of TemplateCounters is made of, by the engine's names (engine/stateful/src/counters.rs).
var counted = []struct {
	names []string
	into  func(*spatev1.TemplateCounters) *int64
}{
	{[]string{"connects"}, func(c *spatev1.TemplateCounters) *int64 { return &c.Connects }},
	{[]string{"closed"}, func(c *spatev1.TemplateCounters) *int64 { return &c.Closed }},
	{[]string{"resets_received", "refused"}, func(c *spatev1.TemplateCounters) *int64 { return &c.Reset }},
	{[]string{"timeout_drops", "connect_drops", "keepalive_drops"}, func(c *spatev1.TemplateCounters) *int64 { return &c.TimedOut }},
	{[]string{"peer_closed_early"}, func(c *spatev1.TemplateCounters) *int64 { return &c.ClosedEarly }},
	{[]string{"http_errors"}, func(c *spatev1.TemplateCounters) *int64 { return &c.HTTPErrors }},
	{[]string{"flows_cut"}, func(c *spatev1.TemplateCounters) *int64 { return &c.Cut }},
	{[]string{"keepalive_timeouts"}, func(c *spatev1.TemplateCounters) *int64 { return &c.Silent }},
	{[]string{"sent_data_bytes", "message_bytes_sent"}, func(c *spatev1.TemplateCounters) *int64 { return &c.BytesSent }},
	{[]string{"received_data_bytes", "message_bytes_received"}, func(c *spatev1.TemplateCounters) *int64 { return &c.BytesReceived }},
	{[]string{"messages_sent"}, func(c *spatev1.TemplateCounters) *int64 { return &c.MessagesSent }},
	{[]string{"messages_received"}, func(c *spatev1.TemplateCounters) *int64 { return &c.MessagesReceived }},
	{[]string{"sent_packets"}, func(c *spatev1.TemplateCounters) *int64 { return &c.PacketsSent }},
	{[]string{"received_packets"}, func(c *spatev1.TemplateCounters) *int64 { return &c.PacketsReceived }},
	{[]string{"retransmitted_packets", "syn_timeouts"}, func(c *spatev1.TemplateCounters) *int64 { return &c.Retransmitted }},
	{[]string{"icmp_errors", "acks_of_unsent", "after_close_packets", "missing_timestamps", "http_errors", "unmatched", "bad_checksums", "truncated", "fragments"}, func(c *spatev1.TemplateCounters) *int64 { return &c.Errors }},
	{[]string{"late_flows"}, func(c *spatev1.TemplateCounters) *int64 { return &c.Late }},
	{[]string{"flows_not_begun"}, func(c *spatev1.TemplateCounters) *int64 { return &c.NotBegun }},
	{[]string{"flows_held_back"}, func(c *spatev1.TemplateCounters) *int64 { return &c.HeldBack }},
	{[]string{"flows_exhausted", "ports_exhausted"}, func(c *spatev1.TemplateCounters) *int64 { return &c.Exhausted }},
}

// begun is the counter of flows that a side began.
var begun = map[enginev1.Side]string{enginev1.Side_SIDE_CLIENT: "connect_attempts", enginev1.Side_SIDE_SERVER: "accepts"}

// sideDelays are what engines measured on one side of a template.
type sideDelays struct{ connect, roundTrip []*enginev1.LatencyStats }

// templates sums what was measured on each side of each template up over all engines, in order of names.
func templates(stats []*enginev1.WatchStatsResponse) []spatev1.TemplateResult {
	return templatesBy(stats, (*enginev1.TemplateStats).GetTemplate, measured)
}

// groups sums the templates of each statistics group up, in order of names; groupOf has that of each template that names one.
func groups(stats []*enginev1.WatchStatsResponse, groupOf map[string]string) []spatev1.GroupResult {
	var all []spatev1.GroupResult
	for _, g := range templatesBy(stats, func(t *enginev1.TemplateStats) string { return groupOf[t.GetTemplate()] }, measured) {
		if g.Name != "" {
			all = append(all, spatev1.GroupResult{Name: g.Name, Client: groupSide(g.Client), Server: groupSide(g.Server)})
		}
	}
	return all
}

func groupSide(s *spatev1.TemplateSide) *spatev1.GroupSide {
	if s == nil {
		return nil
	}
	return &spatev1.GroupSide{TemplateCounters: s.TemplateCounters, Counters: s.Counters, ConnectTime: momentsIn(s.ConnectTime), RoundTrip: momentsIn(s.RoundTrip)}
}

// momentsIn gives what is exact of several templates' times together; percentiles are not.
func momentsIn(l *spatev1.Latency) *spatev1.Moments {
	if l == nil || l.Count == 0 {
		return nil
	}
	return &spatev1.Moments{Count: l.Count, Mean: l.Mean, Deviation: l.Deviation, Min: l.Min, Max: l.Max}
}

// values are those of counters by name.
type values map[string]int64

// whole gives what one engine counted on one side since the start.
func whole(t *enginev1.TemplateStats) values {
	all := values{}
	for _, counter := range t.GetCounters() {
		all[counter.GetName()] = int64(counter.GetValue())
	}
	return all
}

// measured gives what it counted after the warm-up.
func measured(t *enginev1.TemplateStats) values {
	all := whole(t)
	for _, counter := range t.GetWarmup() {
		all[counter.GetName()] -= int64(counter.GetValue())
	}
	return all
}

// templatesBy sums up all that has the same name.
func templatesBy(stats []*enginev1.WatchStatsResponse, name func(*enginev1.TemplateStats) string, count func(*enginev1.TemplateStats) values) []spatev1.TemplateResult {
	var all []spatev1.TemplateResult
	delays := map[*spatev1.TemplateSide]*sideDelays{}
	byName := map[string]map[enginev1.Side]*spatev1.TemplateSide{}
	for _, st := range stats {
		for _, t := range st.GetTemplates() {
			sides := byName[name(t)]
			if sides == nil {
				sides = map[enginev1.Side]*spatev1.TemplateSide{}
				byName[name(t)] = sides
			}
			side := sides[t.GetSide()]
			if side == nil {
				side = &spatev1.TemplateSide{}
				sides[t.GetSide()], delays[side] = side, &sideDelays{}
			}
			addSide(&side.TemplateCounters, t, count(t))
			addOwn(side, t)
			d := delays[side]
			d.connect, d.roundTrip = append(d.connect, t.GetConnectTime()), append(d.roundTrip, t.GetRoundTrip())
		}
	}
	for side, d := range delays {
		side.ConnectTime, side.RoundTrip = latencyOf(d.connect), latencyOf(d.roundTrip)
	}
	for name, sides := range byName {
		result := spatev1.TemplateResult{Name: name, Client: sides[enginev1.Side_SIDE_CLIENT], Server: sides[enginev1.Side_SIDE_SERVER]}
		settleFailed(result)
		all = append(all, result)
	}
	slices.SortFunc(all, func(a, b spatev1.TemplateResult) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// addSide adds what one engine counted on one side.
func addSide(c *spatev1.TemplateCounters, t *enginev1.TemplateStats, value values) {
	c.Attempts += value[begun[t.GetSide()]]
	c.OpenFlows += int64(t.GetOpenFlows())
	for _, sum := range counted {
		for _, name := range sum.names {
			*sum.into(c) += value[name]
		}
	}
}

// addOwn adds what programs of one engine counted by names of their own after the warm-up.
func addOwn(side *spatev1.TemplateSide, t *enginev1.TemplateStats) {
	for _, counter := range t.GetProgramCounters() {
		if side.Counters == nil {
			side.Counters = map[string]int64{}
		}
		side.Counters[counter.GetName()] += int64(counter.GetValue() - counter.GetWarmup())
	}
}

// settleFailed sums up what failed, each flow by how it ended: where a message is broken our own RST ends it, which is the peer's
// `reset`. A UDP server's flow ends by silence where nobody says goodbye; a client waits for an answer.
func settleFailed(t spatev1.TemplateResult) {
	for _, side := range []*spatev1.TemplateSide{t.Client, t.Server} {
		if side != nil {
			side.Failed = side.Reset + side.TimedOut + side.ClosedEarly + side.HTTPErrors + side.Cut
		}
	}
	if t.Client != nil {
		t.Client.Failed += t.Client.Silent
	}
}

// flowsOf sums up over templates: each flow once, and what the generator could not do on both sides. Nil without templates.
func flowsOf(all []spatev1.TemplateResult) *spatev1.TemplateCounters {
	if len(all) == 0 {
		return nil
	}
	sum := &spatev1.TemplateCounters{}
	for _, t := range all {
		once, other := t.Client, t.Server
		if once == nil {
			once, other = t.Server, nil
		}
		sum.Attempts += once.Attempts
		sum.Failed += once.Failed
		sum.OpenFlows += once.OpenFlows
		for _, counter := range counted {
			*counter.into(sum) += *counter.into(&once.TemplateCounters)
		}
		if other != nil {
			sum.Late += other.Late
			sum.NotBegun += other.NotBegun
			sum.Exhausted += other.Exhausted
		}
	}
	return sum
}

// packetsSent by both sides of all templates.
func packetsSent(all []spatev1.TemplateResult) int64 {
	sum := int64(0)
	for _, t := range all {
		for _, side := range []*spatev1.TemplateSide{t.Client, t.Server} {
			if side != nil {
				sum += side.PacketsSent
			}
		}
	}
	return sum
}

// delaysOf lists what templates measured, named for people, to find the slowest.
func delaysOf(all []spatev1.TemplateResult) []spatev1.StreamResult {
	var named []spatev1.StreamResult
	for _, t := range all {
		for _, side := range []struct {
			name string
			*spatev1.TemplateSide
		}{{"client", t.Client}, {"server", t.Server}} {
			if side.TemplateSide == nil {
				continue
			}
			named = append(named,
				spatev1.StreamResult{Name: t.Name + " " + side.name + " connect", Latency: side.ConnectTime},
				spatev1.StreamResult{Name: t.Name + " " + side.name + " round trip", Latency: side.RoundTrip})
		}
	}
	return named
}
