// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: how do the counters of templates, by engine and side, become values of a result?

import (
	"maps"
	"slices"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// counted maps fields of FlowCounters to the engine's counters that they sum up (engine/stateful/src/counters.rs).
var counted = []struct {
	names []string
	into  func(*spatev1.FlowCounters) *int64
}{
	{[]string{"flows_established"}, func(c *spatev1.FlowCounters) *int64 { return &c.Established }},
	{[]string{"flows_closed"}, func(c *spatev1.FlowCounters) *int64 { return &c.Closed }},
	{[]string{"resets_received", "flows_refused"}, func(c *spatev1.FlowCounters) *int64 { return &c.Reset }},
	{[]string{"timeout_drops", "connect_drops", "keepalive_drops"}, func(c *spatev1.FlowCounters) *int64 { return &c.TimedOut }},
	{[]string{"flows_closed_early"}, func(c *spatev1.FlowCounters) *int64 { return &c.ClosedEarly }},
	{[]string{"http_errors"}, func(c *spatev1.FlowCounters) *int64 { return &c.HTTPErrors }},
	{[]string{"flows_aborted"}, func(c *spatev1.FlowCounters) *int64 { return &c.Aborted }},
	{[]string{"flows_idle_timeouts"}, func(c *spatev1.FlowCounters) *int64 { return &c.IdleTimeouts }},
	{[]string{"sent_data_bytes", "message_bytes_sent"}, func(c *spatev1.FlowCounters) *int64 { return &c.BytesSent }},
	{[]string{"received_data_bytes", "message_bytes_received"}, func(c *spatev1.FlowCounters) *int64 { return &c.BytesReceived }},
	{[]string{"messages_sent"}, func(c *spatev1.FlowCounters) *int64 { return &c.MessagesSent }},
	{[]string{"messages_received"}, func(c *spatev1.FlowCounters) *int64 { return &c.MessagesReceived }},
	{[]string{"sent_packets"}, func(c *spatev1.FlowCounters) *int64 { return &c.PacketsSent }},
	{[]string{"received_packets"}, func(c *spatev1.FlowCounters) *int64 { return &c.PacketsReceived }},
	{[]string{"retransmitted_packets", "syn_timeouts"}, func(c *spatev1.FlowCounters) *int64 { return &c.Retransmitted }},
	{[]string{"icmp_errors", "acks_of_unsent", "after_close_packets", "missing_timestamps", "http_errors", "unmatched", "bad_checksums", "truncated", "fragments"}, func(c *spatev1.FlowCounters) *int64 { return &c.Errors }},
	{[]string{"flows_late"}, func(c *spatev1.FlowCounters) *int64 { return &c.Late }},
	{[]string{"flows_not_started"}, func(c *spatev1.FlowCounters) *int64 { return &c.NotStarted }},
	{[]string{"flows_throttled"}, func(c *spatev1.FlowCounters) *int64 { return &c.Throttled }},
	{[]string{"flows_exhausted", "ports_exhausted"}, func(c *spatev1.FlowCounters) *int64 { return &c.Exhausted }},
}

// attempted is the counter of flows that a side started.
var attempted = map[enginev1.Side]string{enginev1.Side_SIDE_CLIENT: "flows_attempted", enginev1.Side_SIDE_SERVER: "flows_accepted"}

// sideTimes are the times that engines measured on one side of a template.
type sideTimes struct {
	connect, roundTrip []*enginev1.LatencyStats
	outages            []*enginev1.Outage
}

// templates sums the measurements of each side of each template up over all engines.
func templates(stats []*enginev1.WatchStatsResponse) map[string]spatev1.TemplateResult {
	return templatesBy(stats, (*enginev1.TemplateStats).GetTemplate, measured, latencyOf)
}

// groups sums the templates of each statistics group up; groupOf maps templates to groups.
func groups(stats []*enginev1.WatchStatsResponse, groupOf map[string]string) map[string]spatev1.GroupResult {
	var all map[string]spatev1.GroupResult
	for name, g := range templatesBy(stats, func(t *enginev1.TemplateStats) string { return groupOf[t.GetTemplate()] }, measured, momentsAndJitter) {
		if name == "" {
			continue
		}
		if all == nil {
			all = map[string]spatev1.GroupResult{}
		}
		all[name] = spatev1.GroupResult{Client: groupSide(g.Client), Server: groupSide(g.Server)}
	}
	return all
}

func groupSide(s *spatev1.TemplateSide) *spatev1.GroupSide {
	if s == nil {
		return nil
	}
	return &spatev1.GroupSide{FlowCounters: s.FlowCounters, Counters: s.Counters, ConnectTime: momentsIn(s.ConnectTime), RoundTrip: momentsIn(s.RoundTrip)}
}

// momentsIn returns the statistics that a group has: all but percentiles.
func momentsIn(l *spatev1.Latency) *spatev1.Moments {
	if l == nil || l.Count == 0 {
		return nil
	}
	return &spatev1.Moments{Count: l.Count, Mean: l.Mean, Deviation: l.Deviation, Min: l.Min, Max: l.Max}
}

// values are counters by name.
type values map[string]int64

// whole returns what one engine counted on one side since the start.
func whole(t *enginev1.TemplateStats) values {
	all := values{}
	for _, counter := range t.GetCounters() {
		all[counter.GetName()] = int64(counter.GetValue())
	}
	return all
}

// measured returns what it counted after the warm-up.
func measured(t *enginev1.TemplateStats) values {
	all := whole(t)
	for _, counter := range t.GetWarmup() {
		all[counter.GetName()] -= int64(counter.GetValue())
	}
	return all
}

// templatesBy sums up all templates with the same name: their counters by `count`, their times by `combine`.
func templatesBy(stats []*enginev1.WatchStatsResponse, name func(*enginev1.TemplateStats) string, count func(*enginev1.TemplateStats) values,
	combine func([]*enginev1.LatencyStats) *spatev1.Latency,
) map[string]spatev1.TemplateResult {
	times := map[*spatev1.TemplateSide]*sideTimes{}
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
				sides[t.GetSide()], times[side] = side, &sideTimes{}
			}
			addSide(&side.FlowCounters, t, count(t))
			addOwn(side, t)
			of := times[side]
			of.connect, of.roundTrip = append(of.connect, t.GetConnectTime()), append(of.roundTrip, t.GetRoundTrip())
			of.outages = append(of.outages, t.GetOutage())
		}
	}
	for side, of := range times {
		side.ConnectTime, side.RoundTrip, side.Outage = combine(of.connect), combine(of.roundTrip), outageOf(of.outages)
	}
	if len(byName) == 0 {
		return nil
	}
	all := make(map[string]spatev1.TemplateResult, len(byName))
	for name, sides := range byName {
		result := spatev1.TemplateResult{Client: sides[enginev1.Side_SIDE_CLIENT], Server: sides[enginev1.Side_SIDE_SERVER]}
		settleFailed(result)
		all[name] = result
	}
	return all
}

// addSide adds what one engine counted on one side.
func addSide(c *spatev1.FlowCounters, t *enginev1.TemplateStats, value values) {
	c.Attempted += value[attempted[t.GetSide()]]
	c.Open += int64(t.GetOpenFlows())
	for _, sum := range counted {
		for _, name := range sum.names {
			*sum.into(c) += value[name]
		}
	}
}

// addOwn adds the programs' own counters of one engine after the warm-up.
func addOwn(side *spatev1.TemplateSide, t *enginev1.TemplateStats) {
	for _, counter := range t.GetProgramCounters() {
		if side.Counters == nil {
			side.Counters = map[string]int64{}
		}
		side.Counters[counter.GetName()] += int64(counter.GetValue() - counter.GetWarmup())
	}
}

// settleFailed counts failed flows, each by how it ended: a broken message makes our side send RST, which the peer counts as `reset`.
// An idle timeout is the normal end of a UDP flow for a server, but a failure for a client, which waits for an answer.
func settleFailed(t spatev1.TemplateResult) {
	for _, side := range []*spatev1.TemplateSide{t.Client, t.Server} {
		if side != nil {
			side.Failed = side.Reset + side.TimedOut + side.ClosedEarly + side.HTTPErrors + side.Aborted
		}
	}
	if t.Client != nil {
		t.Client.Failed += t.Client.IdleTimeouts
	}
}

// flowsOf sums up over templates: each flow once, and what the generator could not do on both sides. Nil without templates.
func flowsOf(all map[string]spatev1.TemplateResult) *spatev1.FlowCounters {
	if len(all) == 0 {
		return nil
	}
	sum := &spatev1.FlowCounters{}
	for _, t := range all {
		once, other := t.Client, t.Server
		if once == nil {
			once, other = t.Server, nil
		}
		sum.Attempted += once.Attempted
		sum.Failed += once.Failed
		sum.Open += once.Open
		for _, counter := range counted {
			*counter.into(sum) += *counter.into(&once.FlowCounters)
		}
		if other != nil {
			sum.Late += other.Late
			sum.NotStarted += other.NotStarted
			sum.Exhausted += other.Exhausted
		}
	}
	return sum
}

// packetsSent by both sides of all templates.
func packetsSent(all map[string]spatev1.TemplateResult) int64 {
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

// delaysOf lists the delays of streams and templates with display names, sorted by name.
func delaysOf(r *spatev1.RunResult) []delay {
	var named []delay
	for _, name := range slices.Sorted(maps.Keys(r.Templates)) {
		t := r.Templates[name]
		for _, side := range []struct {
			name string
			*spatev1.TemplateSide
		}{{"client", t.Client}, {"server", t.Server}} {
			if side.TemplateSide == nil {
				continue
			}
			named = append(named, delay{name + " " + side.name + " connect", side.ConnectTime}, delay{name + " " + side.name + " round trip", side.RoundTrip})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Streams)) {
		named = append(named, delay{name, r.Streams[name].Latency})
	}
	return named
}
