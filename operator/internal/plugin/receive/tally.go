// SPDX-License-Identifier: Apache-2.0

package receive

// This file answers: what has arrived at each port, and at each of its workers?

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/plugin/counters"
	"spate.dev/operator/internal/plugin/figures"
)

// place is where packets arrive. Receiver and run are empty for a port without a receiver, worker for all workers.
type place struct{ pod, port, run, receiver, worker string }

// row is what has arrived at a place. Rates are those of the last interval; all else is since the beginning of counting. Unknown is NaN.
type row struct {
	place
	// name of the receiver, with the run where several are read.
	name string
	// packets, and bits of layer 2, a second.
	packetRate, bitRate           float64
	packets, bytes                float64
	interArrival, jitter, latency times
	// otherMAC are packets whose destination MAC is another station's; of ports without a receiver.
	otherMAC float64
	// read, began and seen are by the engine's wall clock. The latter two are zero if unknown.
	read, began, seen time.Time
}

// l1BitRate is that of layer 1, in bits a second.
func (r *row) l1BitRate() float64 { return r.bitRate + 8*counters.Overhead*r.packetRate }

// age is the time from the reading at which the last packets were seen to the last reading, in nanoseconds.
func (r *row) age() float64 {
	if r.seen.IsZero() {
		return figures.Unknown
	}
	return float64(r.read.Sub(r.seen))
}

// tally has the readings, and from which on it counts.
type tally struct {
	board counters.Board
	// isReset is true if counting begins with a reading, not with the engine's own counting.
	isReset bool
	// bases are the readings with which counting begins, by source, and by pod for what engines count for all runs.
	bases    map[counters.Source]*enginev1.WatchStatsResponse
	podBases map[string]*enginev1.WatchStatsResponse
	// seen are the readings in which packets had arrived since the one before.
	seen map[place]time.Time
}

func newTally(isReset bool) *tally {
	return &tally{
		isReset: isReset, bases: map[counters.Source]*enginev1.WatchStatsResponse{}, podBases: map[string]*enginev1.WatchStatsResponse{}, seen: map[place]time.Time{},
	}
}

// reset begins to count with the last reading of each source, and with the first of those that are read later.
func (t *tally) reset() {
	t.isReset = true
	for _, r := range t.board.Sources {
		t.bases[r.Source] = r.Current
	}
	for _, r := range t.board.Pods() {
		t.podBases[r.Pod] = r.Current
	}
}

// add takes a reading in.
func (t *tally) add(from counters.Source, answer *livev1.WatchStatsResponse) {
	t.board.Add(from, answer)
	if t.isReset {
		if t.bases[from] == nil {
			t.bases[from] = answer.GetEngine()
		}
		if t.podBases[from.Pod] == nil {
			t.podBases[from.Pod] = answer.GetEngine()
		}
	}
	for _, byWorker := range []bool{false, true} {
		for _, r := range t.rowsOf(t.source(from), byWorker) {
			if r.packetRate > 0 {
				t.seen[r.place] = r.read
			}
		}
	}
}

func (t *tally) source(of counters.Source) *counters.Readings {
	return t.board.Sources[slices.IndexFunc(t.board.Sources, func(r *counters.Readings) bool { return r.Source == of })]
}

// rows of all sources, by pod, port, run, receiver and worker.
func (t *tally) rows(byWorker bool) (all []*row) {
	for _, r := range t.board.Sources {
		all = append(all, t.rowsOf(r, byWorker)...)
	}
	inOrder(all)
	return all
}

func inOrder(all []*row) {
	slices.SortStableFunc(all, func(a, b *row) int { // workers of a receiver are in their order already
		return cmp.Or(cmp.Compare(a.pod, b.pod), cmp.Compare(a.port, b.port), cmp.Compare(a.run, b.run), cmp.Compare(a.receiver, b.receiver))
	})
}

// received is what an engine reports of a receiver, or of one of its workers.
type received interface {
	GetPackets() uint64
	GetBytes() uint64
	GetInterArrival() *enginev1.Moments
	GetJitter() *enginev1.Moments
	GetLatency() *enginev1.Moments
}

// rowsOf has the receivers of a run in a pod and, from one run of each pod, the ports without a receiver.
func (t *tally) rowsOf(r *counters.Readings, byWorker bool) (all []*row) {
	base := t.bases[r.Source]
	for _, now := range r.Current.GetReceivers() {
		is := func(o *enginev1.ReceiverStats) bool { return o.GetName() == now.GetName() }
		before, first := counters.ByName(r.Previous.GetReceivers(), is), counters.ByName(base.GetReceivers(), is)
		began := base.GetReadAtNs()
		if first == nil || first.GetPackets() > now.GetPackets() { // nothing was counted then, or the receiver was reset in the engine
			first, began = nil, now.GetSinceNs()
		}
		at := place{pod: r.Pod, port: now.GetPort(), run: r.Run, receiver: now.GetName()}
		if !byWorker {
			all = append(all, t.receiverRow(r, at, began, before, first, now))
			continue
		}
		for _, w := range now.GetWorkers() {
			is := func(o *enginev1.WorkerReceived) bool { return o.GetWorker() == w.GetWorker() }
			at.worker = strconv.FormatUint(uint64(w.GetWorker()), 10)
			all = append(all, t.receiverRow(r, at, began, counters.ByName(before.GetWorkers(), is), counters.ByName(first.GetWorkers(), is), w))
		}
	}
	if latest := t.latestOf(r.Pod); r == latest {
		all = append(all, t.portRows(r)...)
	}
	return all
}

// receiverRow is what a receiver, or one of its workers, counts now, counted in the reading before, and in that with which counting begins.
func (t *tally) receiverRow(r *counters.Readings, at place, began int64, before, first, now received) *row {
	of := t.row(r, at, began)
	of.name = t.board.Named(r, at.receiver)
	of.packetRate, of.bitRate = r.PerSecond(before.GetPackets(), now.GetPackets()), 8*r.PerSecond(before.GetBytes(), now.GetBytes())
	of.packets, of.bytes = float64(now.GetPackets()-first.GetPackets()), float64(now.GetBytes()-first.GetBytes())
	of.interArrival, of.jitter = since(first.GetInterArrival(), now.GetInterArrival()), since(first.GetJitter(), now.GetJitter())
	of.latency = since(first.GetLatency(), now.GetLatency())
	return of
}

// portRows has the ports of an engine that no run has a receiver on: their foreign packets are counted since the engine's start.
func (t *tally) portRows(r *counters.Readings) (all []*row) {
	base := t.podBases[r.Pod]
	for _, now := range r.Current.GetPorts() {
		if t.isReceiver(r.Pod, now.GetPort()) {
			continue
		}
		is := func(o *enginev1.PortStats) bool { return o.GetPort() == now.GetPort() }
		before, first := counters.ByName(r.Previous.GetPorts(), is), counters.ByName(base.GetPorts(), is)
		if first.GetForeignPackets() > now.GetForeignPackets() { // the engine has started again
			first = nil
		}
		of := t.row(r, place{pod: r.Pod, port: now.GetPort()}, base.GetReadAtNs())
		of.packetRate, of.packets = r.PerSecond(before.GetForeignPackets(), now.GetForeignPackets()), float64(now.GetForeignPackets()-first.GetForeignPackets())
		of.otherMAC = float64(now.GetOtherMacPackets() - first.GetOtherMacPackets())
		all = append(all, of)
	}
	return all
}

// row has nothing but what is known of all rows.
func (t *tally) row(r *counters.Readings, at place, began int64) *row {
	of := &row{
		place: at, packetRate: figures.Unknown, bitRate: figures.Unknown, packets: figures.Unknown, bytes: figures.Unknown, otherMAC: figures.Unknown,
		interArrival: noTimes, jitter: noTimes, latency: noTimes, read: time.Unix(0, r.Current.GetReadAtNs()), seen: t.seen[at],
	}
	if began > 0 {
		of.began = time.Unix(0, began)
	}
	return of
}

// latestOf is the latest reading of a pod.
func (t *tally) latestOf(pod string) *counters.Readings {
	return counters.ByName(t.board.Pods(), func(r *counters.Readings) bool { return r.Pod == pod })
}

// isReceiver reports whether a run that is read has a receiver on a port.
func (t *tally) isReceiver(pod, port string) bool {
	return slices.ContainsFunc(t.board.Sources, func(r *counters.Readings) bool {
		return r.Pod == pod && slices.ContainsFunc(r.Current.GetReceivers(), func(o *enginev1.ReceiverStats) bool { return o.GetPort() == port })
	})
}

// hasReceivers reports whether any run that is read has a receiver.
func (t *tally) hasReceivers() bool {
	return slices.ContainsFunc(t.board.Sources, func(r *counters.Readings) bool { return len(r.Current.GetReceivers()) > 0 })
}
