// SPDX-License-Identifier: Apache-2.0

package storage

// This file answers: which facts of a run's plan are needed repeatedly?

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan"
	"spate.dev/operator/internal/plan/load"
	"spate.dev/operator/internal/plan/origin"
	"spate.dev/operator/internal/plan/quantity"
)

// Facts are what is needed of a plan while its run is active; a plan itself may take hundreds of megabytes.
type Facts struct {
	// Flow is true for streams whose packets are received and counted, by name.
	Flow map[string]bool
	// CountedAs is the stream under whose name a stream's received packets are counted, if that is another one: the first with its
	// mark.
	CountedAs map[string]string
	// Groups are the statistics groups of templates that name one, by the template's name.
	Groups map[string]string
	// Selected are the names of the streams of each entry that selects them.
	Selected map[string][]string
	// Ports the run sends from or receives at.
	Ports map[string]bool
	// Records is the folder in engines with files of connection records; empty without records.
	Records string
	// ClockBound is by how much the wall clocks of the engines differ at most, as the generator states; 0 if it does not.
	ClockBound time.Duration
	// SecretBytes is the number of bytes of Secrets that engines receive beside the plan.
	SecretBytes int64
	// Claims are what no other run of the generator can have at the same time.
	Claims plan.Claims
	// Clients are the groups of emulated clients, in the plan's order.
	Clients []ClientsFacts
	// Flows are the rates of all templates at a rate factor of 1; nil without templates.
	Flows *load.Flows
	// Own is the load at a rate factor of 1, from the entries' own rates including live changes.
	Own load.Load

	// changes are the live changes that Own includes.
	changes []spatev1.EntryChange
}

// Memory caches the facts of runs.
type Memory struct {
	Reader client.Reader
	// Live reads from the API server: the cache has only the operator's own Secrets.
	Live client.Reader

	large sync.Mutex // locked while a large plan, or its outline, is read
	mu    sync.Mutex
	known map[types.UID]*Facts
}

// Of returns the facts of a run.
func (m *Memory) Of(ctx context.Context, run *spatev1.TrafficRun) (*Facts, error) {
	m.mu.Lock()
	known := m.known[run.UID]
	m.mu.Unlock()
	if known != nil && slices.Equal(known.changes, run.Status.Entries) {
		return known, nil
	}
	var facts *Facts
	err := m.Outline(ctx, run, func(p *enginev1.Plan) (err error) {
		facts, err = m.factsOf(ctx, run, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[types.UID]*Facts{}
	}
	m.known[run.UID] = facts
	return facts, nil
}

// inTransactions reports whether the loads of a search are transactions a second.
func inTransactions(search *spatev1.SearchTests) bool {
	if search == nil {
		return false
	}
	least, err := quantity.ParseSearchRate(search.Load.Min)
	return err == nil && least.Unit == quantity.TransactionsPerSecond
}

// Outline calls use with the outline of a run's plan (see plan.ReadOutline): that of one large plan at a time, because
// it has many streams and programs. use must not read another plan.
func (m *Memory) Outline(ctx context.Context, run *spatev1.TrafficRun, use func(*enginev1.Plan) error) error {
	if run.Status.Resolved.Snapshot.Bytes > Large {
		m.large.Lock()
		defer m.large.Unlock()
	}
	p, err := readOutline(ctx, m.Reader, run)
	if err != nil {
		return err
	}
	return use(p)
}

// factsOf returns the facts of a run's plan, from its outline.
func (m *Memory) factsOf(ctx context.Context, run *spatev1.TrafficRun, p *enginev1.Plan) (*Facts, error) {
	planned, err := quantity.ParseFactor(run.Status.Resolved.RateFactor)
	if err != nil {
		return nil, &LostError{fmt.Sprintf("status.resolved.rateFactor %q: %v", run.Status.Resolved.RateFactor, err)}
	}
	generator := &spatev1.TrafficGenerator{}
	ref := run.Status.Resolved.Generator
	if err := m.Reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: string(ref.Name)}, generator); err != nil {
		generator = nil // needed for rates in percent only, which were resolved before
	} else {
		generator.Spec.Replicas = int32(len(ref.Pods)) // spec.replicas may have changed meanwhile
	}
	selected := origin.Selected(p.Streams, run.Status.Resolved.Entries)
	own, err := plan.OwnLoad(p, planned, run.Status.Entries, selected, generator)
	if err != nil { // a port that no longer reports its line rate
		if own, err = plan.OwnLoad(p, planned, nil, nil, nil); err != nil {
			return nil, &LostError{err.Error()}
		}
	}
	facts := &Facts{Flow: map[string]bool{}, Selected: selected, CountedAs: countedAs(p.Streams), Groups: map[string]string{}, Ports: map[string]bool{}, SecretBytes: plan.SecretBytes(p), Claims: plan.ClaimsOf(p), Own: own, changes: slices.Clone(run.Status.Entries)}
	for _, s := range p.Streams {
		facts.Flow[origin.CountedAs(s)] = s.GetMeasure().GetFlow() || s.GetMeasure().GetMark() != nil
		facts.Ports[s.TxPort] = true
		if s.RxPort != "" {
			facts.Ports[s.RxPort] = true
		}
	}
	flows := load.FlowsOf(p.GetStateful())
	if flows != nil && inTransactions(run.Spec.Search) {
		if err := flows.Count(); err != nil { // its plan was made by it
			return nil, &LostError{err.Error()}
		}
	}
	facts.Flows = flows.Rates(planned)
	facts.ClockBound = time.Duration(p.ClockBoundNs)
	facts.Clients = clientsOf(p)
	facts.Records = p.GetStateful().GetRecords().GetPath()
	for _, t := range p.GetStateful().GetTemplates() {
		if t.Group != "" {
			facts.Groups[t.Name] = t.Group
		}
		for _, port := range []string{t.ClientPort, t.ServerPort} {
			if port != "" { // that side is real
				facts.Ports[port] = true
			}
		}
	}
	for _, r := range p.Reflectors {
		facts.Ports[r.Port] = true
	}
	for _, r := range p.Receivers {
		facts.Ports[r.Port] = true
	}
	for _, r := range p.Routes {
		facts.Ports[r.Port] = true
	}
	for _, g := range p.Clients {
		facts.Ports[g.Port] = true
	}
	return facts, nil
}

// Whole returns a run's plan with all its frames.
func (m *Memory) Whole(ctx context.Context, run *spatev1.TrafficRun) (*enginev1.Plan, error) {
	if run.Status.Resolved.Snapshot.Bytes > Large {
		m.large.Lock()
		defer m.large.Unlock()
	}
	encoded, err := Load(ctx, m.Reader, run)
	if err != nil {
		return nil, err
	}
	return plan.Decode(encoded)
}

// countedAs returns, for streams whose mark an earlier stream has, the name of the first: engines count received packets under its
// name.
func countedAs(streams []*enginev1.Stream) map[string]string {
	type number struct{ identification, label uint32 }
	first, others := map[number]string{}, map[string]string{}
	for _, s := range streams {
		mark := s.GetMeasure().GetMark()
		if mark == nil {
			continue
		}
		n := number{mark.GetIpv4Identification(), mark.GetIpv6FlowLabel()}
		if first[n] == "" {
			first[n] = origin.CountedAs(s)
		}
		if first[n] != origin.CountedAs(s) {
			others[origin.CountedAs(s)] = first[n]
		}
	}
	return others
}

// Forget drops a run from the cache.
func (m *Memory) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, uid)
}

// LoadOf returns the total load of runs at their current rates.
func (m *Memory) LoadOf(ctx context.Context, runs []spatev1.TrafficRun) (load.Load, error) {
	total := load.Load{Packets: new(big.Rat), L2Bits: new(big.Rat), L1Bits: new(big.Rat), Ports: map[load.Place]*load.PortLoad{}}
	for i := range runs {
		facts, err := m.Of(ctx, &runs[i])
		if err != nil {
			return total, err
		}
		text := runs[i].Status.RateFactor
		if text == "" {
			text = runs[i].Status.Resolved.RateFactor
		}
		factor, err := quantity.ParseFactor(text)
		if err != nil {
			return total, fmt.Errorf("run %s/%s: rate factor %q: %w", runs[i].Namespace, runs[i].Name, text, err)
		}
		total = total.Plus(facts.Own.Scaled(factor))
	}
	return total, nil
}

// Target returns the packets and connections a second that a run requests at its current rates; connections are nil without templates. It is not ok
// unless the facts of the run's plan are cached: it reads no plan.
func (m *Memory) Target(run *spatev1.TrafficRun) (packets, connections *big.Rat, ok bool) {
	m.mu.Lock()
	facts := m.known[run.UID]
	m.mu.Unlock()
	if facts == nil {
		return nil, nil, false
	}
	factor, err := quantity.ParseFactor(run.Status.RateFactor)
	if err != nil {
		return nil, nil, false
	}
	packets = new(big.Rat).Mul(facts.Own.Packets, factor)
	if facts.Flows != nil {
		connections = new(big.Rat).Mul(facts.Flows.Connections, factor)
	}
	return packets, connections, true
}
