// SPDX-License-Identifier: Apache-2.0

package run

// This file answers: are the emulated clients of a run bound, and what was counted of them?

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/runs/storage"
	"spate.dev/operator/internal/verdict"
)

const (
	// featureClients is what an engine that emulates clients has in GetInfo.
	featureClients = "clients"
	// clientsPause is the interval at which engines are queried for their clients: less often than for sessions, since they count all of
	// them.
	clientsPause = time.Second
)

// usableStates are those in which clients have their addresses.
var usableStates = []string{"Bound", "Renewing", "Rebinding"}

// awaitedClients are a group that is not ready on some engine.
type awaitedClients struct {
	text  string
	limit time.Duration
}

// clientsAwaited returns the groups of the run's clients that are not ready.
func (s *scope) clientsAwaited(holds []engineState) (all []awaitedClients) {
	for _, of := range s.clientGroups() {
		ready, sum, least := true, &enginev1.ClientGroupStats{}, uint64(0)
		for _, h := range holds {
			stats := groupOf(h.clients, of.Name)
			ready = ready && stats.GetReady()
			least += of.Least(uint64(stats.GetWanted()))
			addClients(sum, stats)
		}
		if !ready {
			all = append(all, awaitedClients{awaitedText(of.Name, sum, least), of.Timeout})
		}
	}
	return all
}

func groupOf(all []*enginev1.ClientGroupStats, name string) *enginev1.ClientGroupStats {
	at := slices.IndexFunc(all, func(g *enginev1.ClientGroupStats) bool { return g.Name == name })
	if at < 0 {
		return nil
	}
	return all[at]
}

// addClients adds the clients of an engine, their states and their causes.
func addClients(sum, of *enginev1.ClientGroupStats) {
	sum.Wanted += of.GetWanted()
	sum.States, sum.Causes, sum.Counters = addNamed(sum.States, of.GetStates()), addNamed(sum.Causes, of.GetCauses()), addNamed(sum.Counters, of.GetCounters())
	sum.FramesLost += of.GetFramesLost()
}

// addNamed adds counters by name, in the order in which names occur.
func addNamed(sum, of []*enginev1.NamedCounter) []*enginev1.NamedCounter {
	for _, c := range of {
		at := slices.IndexFunc(sum, func(o *enginev1.NamedCounter) bool { return o.Name == c.Name })
		if at < 0 {
			sum = append(sum, &enginev1.NamedCounter{Name: c.Name, Value: c.Value})
		} else {
			sum[at].Value += c.Value
		}
	}
	return sum
}

// bound returns how many clients have their addresses.
func bound(states []*enginev1.NamedCounter) (sum uint64) {
	for _, c := range states {
		if slices.Contains(usableStates, c.Name) {
			sum += c.Value
		}
	}
	return sum
}

// awaitedText says how far a group is, with the states and causes of the clients that are not bound.
func awaitedText(name string, sum *enginev1.ClientGroupStats, least uint64) string {
	has := bound(sum.States)
	parts := []string{fmt.Sprintf("clients %s: %d of %d are bound, at least %d must be", name, has, sum.Wanted, least)}
	for _, c := range sum.States {
		if c.Value > 0 && !slices.Contains(usableStates, c.Name) {
			parts = append(parts, fmt.Sprintf("%s %d", c.Name, c.Value))
		}
	}
	text := strings.Join(parts, "; ")
	causes := make([]string, len(sum.Causes))
	for i, c := range sum.Causes {
		causes[i] = fmt.Sprintf("%s %d", c.Name, c.Value)
	}
	if len(causes) > 0 {
		text += ": " + strings.Join(causes, ", ")
	}
	if has >= least {
		text += "; as many on each pod, and they must know where their gateways are"
	}
	return text
}

// awaitClients waits for clients, or ends the run if it has waited for as long as the entry says.
func (s *scope) awaitClients(ctx context.Context, absent []awaitedClients, waited time.Duration) (again time.Duration) {
	texts := make([]string, len(absent))
	for i, group := range absent {
		texts[i] = group.text
		if waited > group.limit {
			s.stop(ctx, "the run's clients are not bound")
			s.invalid(spatev1.ReasonSetupTimedOut, fmt.Sprintf("not set up within %s: %s%s", group.limit, group.text, s.remedy()), "")
			return 0
		}
	}
	s.waiting = waiting{spatev1.ReasonClientsNotReady, strings.Join(texts, "; ")}
	return clientsPause
}

// clientsLimit is how long a run waits for its clients.
func (s *scope) clientsLimit() (limit time.Duration) {
	for _, group := range s.clientGroups() {
		limit = max(limit, group.Timeout)
	}
	return limit
}

// clientGroups are those of the run's plan.
func (s *scope) clientGroups() []storage.ClientsFacts {
	if s.facts == nil {
		return nil
	}
	return s.facts.Clients
}

// emulates refuses a run with clients on an engine that emulates none.
func (s *scope) emulates(pod *corev1.Pod, info *enginev1.GetInfoResponse) error {
	if len(s.clientGroups()) == 0 || slices.Contains(info.Features, featureClients) {
		return nil
	}
	return &refusal{spatev1.ReasonPrepareFailed, fmt.Sprintf("pod %s: engine %s emulates no clients (spec.clients); use an engine image of the operator's release (spec.image of the generator)", pod.Name, info.Version)}
}

// clientResults sums up what all engines counted of clients.
func clientResults(stats []*enginev1.WatchStatsResponse) map[string]spatev1.ClientsResult {
	sums, order := map[string]*enginev1.ClientGroupStats{}, []string(nil)
	times := map[string][3][]*enginev1.LatencyStats{}
	rates := map[string][]*enginev1.SetupRate{}
	for _, st := range present(stats) {
		for _, g := range st.GetClients() {
			if sums[g.Name] == nil {
				sums[g.Name], order = &enginev1.ClientGroupStats{}, append(order, g.Name)
			}
			addClients(sums[g.Name], g)
			all := times[g.Name]
			for i, t := range []*enginev1.LatencyStats{g.SetupTime, g.OfferTime, g.AckTime} {
				if t != nil {
					all[i] = append(all[i], t)
				}
			}
			times[g.Name] = all
			if g.SetupRate != nil {
				rates[g.Name] = append(rates[g.Name], g.SetupRate)
			}
		}
	}
	if len(order) == 0 {
		return nil
	}
	results := make(map[string]spatev1.ClientsResult, len(order))
	for _, name := range order {
		t := times[name]
		result := clientsResult(sums[name])
		result.SetupTime, result.OfferTime, result.AckTime, result.SetupRate = latencyOf(t[0]), latencyOf(t[1]), latencyOf(t[2]), setupRate(rates[name])
		results[name] = result
	}
	return results
}

// clientsResult is a group's part of a result, without times.
func clientsResult(sum *enginev1.ClientGroupStats) spatev1.ClientsResult {
	count := byName(sum.Counters)
	result := spatev1.ClientsResult{
		Wanted: int64(sum.Wanted), Bound: int64(bound(sum.States)), States: byName(sum.States), Failed: byName(sum.Causes), Setups: count["setups"],
		Renewals: count["renewals"], LeasesLost: count["leases_lost"], Duplicates: count["duplicates"], GivenTwice: count["given_twice"],
		Throttled: count["throttled"], Malformed: count["malformed"], FramesLost: int64(sum.FramesLost),
	}
	v4 := spatev1.DHCPv4Messages{
		Discover: count["dhcp4_discover"], Offer: count["dhcp4_offer"], Request: count["dhcp4_request"], Ack: count["dhcp4_ack"], Nak: count["dhcp4_nak"],
		Decline: count["dhcp4_decline"], Release: count["dhcp4_release"], Retransmitted: count["dhcp4_retransmitted"],
	}
	if v4 != (spatev1.DHCPv4Messages{}) {
		result.DHCPv4 = &v4
	}
	v6 := spatev1.DHCPv6Messages{
		Solicit: count["dhcp6_solicit"], Advertise: count["dhcp6_advertise"], Request: count["dhcp6_request"], Reply: count["dhcp6_reply"],
		Renew: count["dhcp6_renew"], Rebind: count["dhcp6_rebind"], Decline: count["dhcp6_decline"], Release: count["dhcp6_release"], Retransmitted: count["dhcp6_retransmitted"],
	}
	if v6 != (spatev1.DHCPv6Messages{}) {
		result.DHCPv6 = &v6
	}
	return result
}

func byName(counters []*enginev1.NamedCounter) map[string]int64 {
	if len(counters) == 0 {
		return nil
	}
	all := make(map[string]int64, len(counters))
	for _, c := range counters {
		all[c.Name] = int64(c.Value)
	}
	return all
}

// setupRate of all engines. The extremes of several are not those of their sum.
func setupRate(all []*enginev1.SetupRate) *spatev1.SetupRate {
	if len(all) == 0 {
		return nil
	}
	mean := 0.0
	for _, r := range all {
		mean += r.Mean
	}
	rate := &spatev1.SetupRate{Mean: strconv.FormatFloat(mean, 'f', -1, 64)}
	if len(all) == 1 {
		least, most := int64(all[0].Min), int64(all[0].Max)
		rate.Min, rate.Max = &least, &most
	}
	return rate
}

// clientsForThresholds returns the clients of a result as expressions read them.
func clientsForThresholds(all map[string]spatev1.ClientsResult) map[string]verdict.Clients {
	out := make(map[string]verdict.Clients, len(all))
	for name, c := range all {
		read := verdict.Clients{
			Wanted: c.Wanted, Bound: c.Bound, States: verdict.Every(verdict.ClientStates, c.States), Failed: verdict.Every(verdict.ClientCauses, c.Failed), Setups: c.Setups, SetupRate: map[string]any{}, SetupTime: delays(c.SetupTime),
			OfferTime: delays(c.OfferTime), AckTime: delays(c.AckTime), Renewals: c.Renewals, LeasesLost: c.LeasesLost, Duplicates: c.Duplicates,
			GivenTwice: c.GivenTwice, Throttled: c.Throttled, Malformed: c.Malformed, FramesLost: c.FramesLost,
		}
		if r := c.SetupRate; r != nil {
			read.SetupRate["mean"] = number(r.Mean)
			if r.Min != nil && r.Max != nil {
				read.SetupRate["min"], read.SetupRate["max"] = *r.Min, *r.Max
			}
		}
		if m := c.DHCPv4; m != nil {
			read.DHCPv4 = verdict.DHCPv4(*m)
		}
		if m := c.DHCPv6; m != nil {
			read.DHCPv6 = verdict.DHCPv6(*m)
		}
		out[name] = read
	}
	return out
}

// leave removes an ended run with clients from the engines, so that these give their leases back and make room for others with the same MACs.
// It retries until the final counters were scraped, at most until removeLimit: then the engines remove the run when they need the MACs.
func (s *scope) leave(ctx context.Context) (again time.Duration, err error) {
	if r := s.run.Status.Resolved; r == nil || len(r.Clients) == 0 || s.run.Status.CompletionTime == nil {
		return 0, nil
	}
	ended := time.Since(s.run.Status.CompletionTime.Time)
	if ended > 2*removeLimit {
		return 0, nil
	}
	if err := s.admittedTo(ctx, s.run.Status.Resolved.Generator); err != nil {
		return 0, err
	}
	unfinished := make([]bool, len(s.pods))
	s.each(ctx, func(i int, pod *corev1.Pod, c *engine.Client) error {
		done, err := s.dismiss(ctx, pod, c, ended > removeLimit)
		unfinished[i] = err != nil || !done
		return err
	})
	if slices.Contains(unfinished, true) {
		return leavePause, nil
	}
	return 0, nil
}

// leavePause is the interval at which it is tried.
const leavePause = time.Second
