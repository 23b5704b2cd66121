// SPDX-License-Identifier: Apache-2.0

package test

// This file answers: what stands for engines where 200 of them cannot run on one machine? A server of the contract in this process, which
// sends nothing: its runs pass their phases by the clock, and its counters are what their plans' rates come to, every packet received. Emulated clients are bound simulatedSetup after the
// plan has come. At each receiver foreign packets of 64 bytes arrive, one every millisecond from the run's start to its end, at worker 0. It
// refuses plans that it cannot count exactly, and answers what it does not do as unimplemented. Its final counters count as scraped.

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/pki"
	"spate.dev/operator/internal/runs"
)

// simulated is one engine.
type simulated struct {
	enginev1.UnimplementedEngineServer
	// routers is true if ports can be routers: the sessions that they are given are up at once.
	routers bool

	mu    sync.Mutex
	ports []*enginev1.PortInfo
	runs  map[string]*simulatedRun
}

// simulatedRun is a run that it holds. Instants are in nanoseconds since the epoch.
type simulatedRun struct {
	plan    *enginev1.Plan
	digest  []byte
	streams []*simulatedStream
	// routes are those that each session advertises, of this engine's share, from the instant prepared on.
	routes   []simulatedRoutes
	prepared int64
	factor   *enginev1.Ratio

	start    int64 // 0 before it is known
	measured int64 // when the warm-up ends
	end      int64 // when transmission ends; later than any instant for a run without a duration
	paused   int64 // since when the run's clock stands; 0 if it does not
	stopped  string
	named    int64 // when a call named the run last
}

// simulatedStream is a stream with the rates that it had and will have.
type simulatedStream struct {
	*enginev1.Stream
	planned, rate *big.Rat // packets a second
	paused        bool
	rates         []rateFrom
}

// simulatedRoutes are the routes that a session advertises.
type simulatedRoutes struct {
	port, session string
	count         uint64
}

// simulatedRouteRate is how many routes a session sends in a second.
const simulatedRouteRate = 100_000

// rateFrom an instant on.
type rateFrom struct {
	at   int64
	rate *big.Rat
}

// simulatedPorts are those that the arguments of an engine's container name.
func simulatedPorts(args []string) []*enginev1.PortInfo {
	var ports []*enginev1.PortInfo
	for i, arg := range args {
		switch name, value, _ := strings.Cut(args[min(i+1, len(args)-1)], "="); arg {
		case "--port":
			ports = append(ports, &enginev1.PortInfo{Name: name, Kind: enginev1.PortKind_PORT_KIND_LOOPBACK, LinkUp: true, Mtu: 9000})
		case "--line-rate":
			rate := resource.MustParse(value)
			for _, p := range ports {
				if p.Name == name {
					p.LineRateBps = uint64(rate.Value())
				}
			}
		}
	}
	return ports
}

// refusedField is an answer that names a field of a plan.
func refusedField(field, why string) error {
	s, err := status.New(codes.InvalidArgument, field+": "+why).WithDetails(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: field, Description: why}},
	})
	if err != nil {
		return err
	}
	return s.Err()
}

// newSimulatedRun prepares a plan.
func newSimulatedRun(plan *enginev1.Plan, digest []byte) (*simulatedRun, error) {
	if plan.Stateful != nil || len(plan.Reflectors) > 0 {
		return nil, refusedField("streams", "the simulated engine has streams and receivers only")
	}
	r := &simulatedRun{plan: plan, digest: digest, routes: routesOf(plan), prepared: time.Now().UnixNano(), factor: &enginev1.Ratio{Numerator: 1, Denominator: 1}, end: math.MaxInt64}
	for i, s := range plan.Streams {
		rate := s.GetContinuous().GetRate().GetPacketsPerSecond()
		if rate == nil || s.GetPacket().GetSizes() != nil || s.GetMeasure().GetLatency() || s.Disabled || s.StartDelayNs > 0 || s.RxPort == "" {
			return nil, refusedField(fmt.Sprintf("streams[%d]", i), "the simulated engine sends and receives packets of one size at a rate in packets a second, and measures no latency")
		}
		planned := ratOf(rate)
		r.streams = append(r.streams, &simulatedStream{Stream: s, planned: planned, rate: planned, paused: s.Paused})
	}
	return r, nil
}

// routesOf returns what each session advertises of a plan's routes.
func routesOf(plan *enginev1.Plan) (all []simulatedRoutes) {
	pods, index := uint64(max(plan.GetShare().GetCount(), 1)), uint64(plan.GetShare().GetIndex())
	for _, set := range plan.Routes {
		total := uint64(len(set.Prefixes.List)) + uint64(set.Prefixes.GetRange().GetCount()) + uint64(set.Prefixes.GetMrt().GetMost())
		own := (total + pods - 1 - index) / pods
		if !set.Advertised {
			own = 0
		}
		for _, session := range set.Sessions {
			known := slices.IndexFunc(all, func(r simulatedRoutes) bool { return r.port == set.Port && r.session == session })
			if known < 0 {
				known, all = len(all), append(all, simulatedRoutes{port: set.Port, session: session})
			}
			all[known].count += own
		}
	}
	return all
}

// sending is how far the routes of a run are; nil if it has none, or has ended.
func (r *simulatedRun) sending(now int64) *enginev1.RunRoutes {
	if len(r.routes) == 0 || runs.Ended(r.state(now)) {
		return nil
	}
	since := time.Duration(now - r.prepared)
	sending := &enginev1.RunRoutes{Ready: true}
	for _, routes := range r.routes {
		sent := min(uint64(since*simulatedRouteRate/time.Second), routes.count)
		took := time.Duration(routes.count) * time.Second / simulatedRouteRate
		sending.Ready = sending.Ready && since >= took+time.Duration(cmp.Or(r.plan.GetRoutesReady().GetQuietNs(), uint64(time.Second)))
		sending.Sessions = append(sending.Sessions, &enginev1.RoutesSession{Port: routes.port, Session: &enginev1.RoutingSession{
			Name: routes.session, Protocol: enginev1.RoutingProtocol_ROUTING_PROTOCOL_BGP, Up: true, State: "Established",
			RoutesConfigured: routes.count, RoutesSent: sent, UpdatesSent: sent, AllSent: sent == routes.count,
		}})
	}
	return sending
}

func ratOf(r *enginev1.Ratio) *big.Rat {
	return new(big.Rat).SetFrac(new(big.Int).SetUint64(r.Numerator), new(big.Int).SetUint64(r.Denominator))
}

// begin settles the instant of the start.
func (r *simulatedRun) begin(at int64) {
	r.start, r.measured = at, at+int64(r.plan.Timing.WarmupNs)
	if r.plan.Timing.DurationNs > 0 {
		r.end = r.measured + int64(r.plan.Timing.DurationNs)
	}
	r.turn(at)
}

// turn gives all streams the rate that they have from an instant on.
func (r *simulatedRun) turn(at int64) {
	for _, s := range r.streams {
		rate := s.rate
		if s.paused || r.paused != 0 {
			rate = new(big.Rat)
		}
		if r.start == 0 {
			continue // it begins with the rate that it has then
		}
		if last := len(s.rates) - 1; last >= 0 {
			at = max(at, s.rates[last].at) // changes take effect in their order
		}
		s.rates = append(s.rates, rateFrom{max(at, r.start), rate})
	}
}

// resume lets the run's clock go on: what was to come comes later.
func (r *simulatedRun) resume(at int64) {
	stood := at - r.paused
	if r.paused < r.measured {
		r.measured += stood
	}
	if r.end != math.MaxInt64 {
		r.end += stood
	}
	r.paused = 0
	r.turn(at)
}

// stop ends transmission.
func (r *simulatedRun) stop(at int64, why string) {
	if r.stopped == "" && at < r.end {
		r.stopped, r.end, r.paused = why, at, 0
	}
}

// state at an instant.
func (r *simulatedRun) state(now int64) enginev1.RunState {
	if lease := int64(r.plan.LeaseNs); lease > 0 && r.start != 0 && now > r.named+lease {
		r.stop(r.named+lease, fmt.Sprintf("no call named the run for the time of its lease, %s", time.Duration(lease)))
	}
	switch drained := r.end != math.MaxInt64 && now >= r.end+int64(r.plan.Timing.DrainNs); {
	case r.start == 0 && r.stopped == "":
		return enginev1.RunState_RUN_STATE_PREPARED
	case r.start == 0, drained && r.stopped != "" && r.plan.Timing.DurationNs > 0:
		return enginev1.RunState_RUN_STATE_STOPPED
	case r.paused != 0 && now >= r.paused:
		return enginev1.RunState_RUN_STATE_PAUSED
	case drained:
		return enginev1.RunState_RUN_STATE_COMPLETE
	case now >= r.end:
		return enginev1.RunState_RUN_STATE_DRAINING
	case now < r.start:
		return enginev1.RunState_RUN_STATE_ARMED
	case now < r.measured:
		return enginev1.RunState_RUN_STATE_WARMING_UP
	}
	return enginev1.RunState_RUN_STATE_RUNNING
}

func (r *simulatedRun) info(now int64) *enginev1.RunInfo {
	state := r.state(now) // which may stop it
	return &enginev1.RunInfo{
		RunId: r.plan.RunId, Run: cmp.Or(r.plan.Run, r.plan.RunId), State: state, PlanDigest: r.digest, StartedAtNs: r.start, StartedAtMonotonicNs: r.start, EndReason: r.stopped, RateFactor: r.factor,
		Routes: r.sending(now),
	}
}

// sent is the number of packets that a stream has sent before an instant: the first leaves at the start.
func (s *simulatedStream) sent(before int64) uint64 {
	sum := new(big.Rat)
	for i, from := range s.rates {
		until := before
		if i+1 < len(s.rates) {
			until = min(until, s.rates[i+1].at)
		}
		if until > from.at {
			sum.Add(sum, new(big.Rat).Mul(from.rate, big.NewRat(until-from.at, int64(time.Second))))
		}
	}
	whole, rest := new(big.Int).QuoRem(sum.Num(), sum.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		return whole.Uint64() + 1
	}
	return whole.Uint64()
}

// counters of a number of a stream's packets, all of which have arrived.
func (s *simulatedStream) counters(packets uint64) *enginev1.StreamCounters {
	const fcs = 4
	size := packets * uint64(len(s.Packet.Frame)+fcs)
	return &enginev1.StreamCounters{TxPackets: packets, TxBytes: size, RxPackets: packets, RxBytes: size}
}

// own is how many of the first packets of a stream are the engine's: its share are those whose numbers are its index modulo the engines'
// that send the stream.
func (r *simulatedRun) own(s *simulatedStream, packets uint64) uint64 {
	index, engines := uint64(r.plan.GetShare().GetIndex()), uint64(max(r.plan.GetShare().GetCount(), 1))
	if some := s.GetEngines(); some != nil {
		first := uint64(some.First)
		if index < first || index >= first+uint64(some.Count) {
			return 0
		}
		index, engines = index-first, uint64(some.Count)
	}
	return (packets + engines - 1 - index) / engines
}

// stats of the run at an instant. Copies are counted under the name of their group.
func (r *simulatedRun) stats(now int64) *enginev1.WatchStatsResponse {
	answer := &enginev1.WatchStatsResponse{Run: r.info(now), ReadAtNs: now}
	groups := map[string]*enginev1.StreamStats{}
	for _, s := range r.streams {
		all, warmup := r.own(s, s.sent(min(now, r.end))), r.own(s, s.sent(min(now, r.end, r.measured)))
		one := &enginev1.StreamStats{Name: cmp.Or(s.Group, s.Name), Warmup: s.counters(warmup), Measured: s.counters(all - warmup)}
		group := groups[one.Name]
		if group == nil {
			groups[one.Name] = one
			answer.Streams = append(answer.Streams, one)
			continue
		}
		for sum, more := range map[*enginev1.StreamCounters]*enginev1.StreamCounters{group.Warmup: one.Warmup, group.Measured: one.Measured} {
			sum.TxPackets, sum.TxBytes = sum.TxPackets+more.TxPackets, sum.TxBytes+more.TxBytes
			sum.RxPackets, sum.RxBytes = sum.RxPackets+more.RxPackets, sum.RxBytes+more.RxBytes
		}
	}
	for _, receiver := range r.plan.Receivers {
		answer.Receivers = append(answer.Receivers, r.received(receiver, now))
	}
	answer.Clients = r.clients(now)
	return answer
}

// received is what has arrived at a receiver before an instant.
func (r *simulatedRun) received(at *enginev1.Receiver, now int64) *enginev1.ReceiverStats {
	var packets uint64
	if r.start != 0 {
		packets = uint64(max(min(now, r.end)-r.start, 0)) / uint64(time.Millisecond)
	}
	gaps, jitter := &enginev1.Moments{}, &enginev1.Moments{}
	if packets > 1 {
		gaps = &enginev1.Moments{Count: packets - 1, MeanNs: 1e6, MinNs: 1e6, MaxNs: 1e6}
	}
	if packets > 2 {
		jitter = &enginev1.Moments{Count: packets - 2}
	}
	return &enginev1.ReceiverStats{
		Name: at.Name, Port: at.Port, Packets: packets, Bytes: 64 * packets, InterArrival: gaps, Jitter: jitter, Latency: &enginev1.Moments{}, SinceNs: r.start,
		Workers: []*enginev1.WorkerReceived{{Packets: packets, Bytes: 64 * packets, InterArrival: gaps, Jitter: jitter}},
	}
}

func (e *simulated) now() int64 { return time.Now().UnixNano() }

// named finds a run for a call that names it, and lets do have it.
func (e *simulated) named(id string, do func(r *simulatedRun, now int64) error) (*enginev1.RunInfo, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, now := e.runs[id], e.now()
	if r == nil {
		return nil, status.Errorf(codes.NotFound, "run %q is not known to this engine; Prepare it first", id)
	}
	r.state(now) // its lease may have expired
	r.named = now
	if err := do(r, now); err != nil {
		return nil, err
	}
	return r.info(now), nil
}

// sending finds a run whose transmission has not ended.
func (e *simulated) sending(id string, do func(r *simulatedRun, now int64) error) (*enginev1.RunInfo, error) {
	return e.named(id, func(r *simulatedRun, now int64) error {
		if state := r.state(now); state == enginev1.RunState_RUN_STATE_DRAINING || runs.Ended(state) {
			return status.Errorf(codes.FailedPrecondition, "the run is %s: its transmission has ended", state)
		}
		return do(r, now)
	})
}

func (e *simulated) GetInfo(context.Context, *enginev1.GetInfoRequest) (*enginev1.GetInfoResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	info := &enginev1.GetInfoResponse{
		Version: "simulated", ContractMinor: engine.ContractMinor, Ports: e.ports, Workers: 1, NowNs: e.now(), FinalCountersScraped: true, TimeSource: "simulated",
		Features: []string{"clients"},
	}
	if e.routers {
		info.Routing = &enginev1.RoutingInfo{}
	}
	for _, r := range e.runs {
		info.Runs = append(info.Runs, r.info(info.NowNs))
	}
	return info, nil
}

func (e *simulated) Configure(_ context.Context, request *enginev1.ConfigureRequest) (*enginev1.ConfigureResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.routers {
		return nil, status.Error(codes.FailedPrecondition, "no port is a router")
	}
	ports := make([]*enginev1.PortInfo, len(e.ports)) // those of before may still be sent
	for i, p := range e.ports {
		ports[i] = proto.Clone(p).(*enginev1.PortInfo)
		ports[i].Sessions = nil
		for _, router := range request.Routing.Routers {
			for _, session := range router.Bgp {
				if router.Port == p.Name {
					ports[i].Sessions = append(ports[i].Sessions, &enginev1.RoutingSession{
						Name: session.Name, Protocol: enginev1.RoutingProtocol_ROUTING_PROTOCOL_BGP, Up: true, State: "Established",
					})
				}
			}
		}
	}
	e.ports = ports
	return &enginev1.ConfigureResponse{}, nil
}

// ExchangeTimes: the monotonic clock is the wall clock.
func (e *simulated) ExchangeTimes(context.Context, *enginev1.ExchangeTimesRequest) (*enginev1.ExchangeTimesResponse, error) {
	return &enginev1.ExchangeTimesResponse{ReceiveNs: e.now(), TransmitNs: e.now(), ClockId: 1, TolerancePpb: 1_000_000}, nil
}

func (e *simulated) Prepare(parts grpc.ClientStreamingServer[enginev1.PrepareRequest, enginev1.PrepareResponse]) error {
	first, err := parts.Recv()
	if err != nil {
		return err
	}
	header, encoded := first.GetHeader(), bytes.Buffer{}
	for uint64(encoded.Len()) < header.GetTotalBytes() {
		part, err := parts.Recv()
		if err != nil {
			return err
		}
		encoded.Write(part.GetChunk())
	}
	plan, digest := &enginev1.Plan{}, sha256.Sum256(encoded.Bytes())
	if err := proto.Unmarshal(encoded.Bytes(), plan); err != nil || !bytes.Equal(digest[:], header.GetDigest()) || plan.RunId != header.GetRunId() {
		return refusedField("chunk", "the plan is not what the header announces")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	held := e.runs[plan.RunId]
	if held != nil && !bytes.Equal(held.digest, digest[:]) {
		return status.Errorf(codes.AlreadyExists, "run %q is known with another plan", plan.RunId)
	}
	if held == nil {
		if held, err = newSimulatedRun(plan, digest[:]); err != nil {
			return err
		}
		e.runs[plan.RunId] = held
	}
	held.named = e.now()
	return parts.SendAndClose(&enginev1.PrepareResponse{Run: held.info(held.named)})
}

func (e *simulated) Start(_ context.Context, request *enginev1.StartRequest) (*enginev1.StartResponse, error) {
	info, err := e.named(request.RunId, func(r *simulatedRun, now int64) error {
		at := max(request.AtNs, request.AtMonotonicNs)
		switch state := r.state(now); {
		case r.start == at:
			return nil
		case state != enginev1.RunState_RUN_STATE_PREPARED || at <= now:
			return status.Errorf(codes.FailedPrecondition, "the run is %s, and the start lies %s ahead", state, time.Duration(at-now))
		}
		r.begin(at)
		return nil
	})
	return &enginev1.StartResponse{Run: info}, err
}

func (e *simulated) Update(_ context.Context, request *enginev1.UpdateRequest) (*enginev1.UpdateResponse, error) {
	answer := &enginev1.UpdateResponse{}
	info, err := e.sending(request.RunId, func(r *simulatedRun, now int64) error {
		answer.EffectiveAtNs = max(request.AtNs, now)
		chosen := r.choose(request.Selector)
		if len(chosen) == 0 {
			return refusedField("selector", "chooses no stream")
		}
		for _, s := range chosen {
			switch change := request.Change.(type) {
			case *enginev1.UpdateRequest_RateFactor:
				s.rate = new(big.Rat).Mul(s.planned, ratOf(change.RateFactor))
			case *enginev1.UpdateRequest_Paused:
				s.paused = change.Paused
			case *enginev1.UpdateRequest_Rate:
				if change.Rate.GetPacketsPerSecond() == nil {
					return refusedField("rate", "the simulated engine has rates in packets a second only")
				}
				s.rate = ratOf(change.Rate.GetPacketsPerSecond())
			default:
				return status.Errorf(codes.Unimplemented, "the simulated engine does not make the change %T", change)
			}
		}
		if factor := request.GetRateFactor(); factor != nil && len(chosen) == len(r.streams) {
			r.factor = factor
		}
		r.turn(answer.EffectiveAtNs)
		return nil
	})
	answer.Run = info
	return answer, err
}

// choose the streams of a selector.
func (r *simulatedRun) choose(which *enginev1.Selector) []*simulatedStream {
	return slices.DeleteFunc(slices.Clone(r.streams), func(s *simulatedStream) bool {
		named := slices.Contains(which.GetStreams(), s.Name) || slices.Contains(which.GetStreams(), s.Group)
		return len(which.GetStreams())+len(which.GetTemplates()) > 0 && !named || len(which.GetPorts()) > 0 && !slices.Contains(which.GetPorts(), s.TxPort)
	})
}

func (e *simulated) Pause(_ context.Context, request *enginev1.PauseRequest) (*enginev1.PauseResponse, error) {
	info, err := e.sending(request.RunId, func(r *simulatedRun, now int64) error {
		if r.start == 0 || r.paused != 0 {
			return status.Error(codes.FailedPrecondition, "the run has not started, or is paused already")
		}
		r.paused = max(request.AtNs, now)
		r.turn(r.paused)
		return nil
	})
	return &enginev1.PauseResponse{Run: info}, err
}

func (e *simulated) Resume(_ context.Context, request *enginev1.ResumeRequest) (*enginev1.ResumeResponse, error) {
	info, err := e.sending(request.RunId, func(r *simulatedRun, now int64) error {
		if r.paused == 0 {
			return status.Error(codes.FailedPrecondition, "the run is not paused")
		}
		r.resume(max(request.AtNs, now))
		return nil
	})
	return &enginev1.ResumeResponse{Run: info}, err
}

func (e *simulated) Stop(_ context.Context, request *enginev1.StopRequest) (*enginev1.StopResponse, error) {
	info, err := e.named(request.RunId, func(r *simulatedRun, now int64) error {
		r.stop(now, cmp.Or(request.Reason, "stopped by request"))
		return nil
	})
	return &enginev1.StopResponse{Run: info}, err
}

func (e *simulated) Remove(_ context.Context, request *enginev1.RemoveRequest) (*enginev1.RemoveResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.runs, request.RunId)
	return &enginev1.RemoveResponse{}, nil
}

// SetLimits takes no limit: nothing of what is sent would be put off.
func (e *simulated) SetLimits(_ context.Context, request *enginev1.SetLimitsRequest) (*enginev1.SetLimitsResponse, error) {
	if request.MaxRate != nil {
		return nil, refusedField("max_rate", "the simulated engine limits nothing")
	}
	return &enginev1.SetLimitsResponse{}, nil
}

func (e *simulated) WatchStats(request *enginev1.WatchStatsRequest, answers grpc.ServerStreamingServer[enginev1.WatchStatsResponse]) error {
	for {
		var stats *enginev1.WatchStatsResponse
		_, err := e.named(request.RunId, func(r *simulatedRun, now int64) error {
			stats = r.stats(now)
			for _, p := range e.ports {
				stats.Ports = append(stats.Ports, &enginev1.PortStats{Port: p.Name, LinkUp: p.LinkUp})
			}
			return nil
		})
		if err == nil {
			err = answers.Send(stats)
		}
		if err != nil || request.IntervalNs == 0 || runs.Ended(stats.Run.State) {
			return err
		}
		select {
		case <-answers.Context().Done():
			return nil
		case <-time.After(time.Duration(request.IntervalNs)):
		}
	}
}

// simulatedNode runs the pods of namespaces that were handed to it.
type simulatedNode struct {
	mu         sync.Mutex
	namespaces map[string]bool
	engines    map[types.UID]*grpc.Server
	simulated  map[types.UID]*simulated
	last       int
}

// startSimulatedNode runs until the test ends and the pods of its namespaces are gone, which are to be deleted before.
func startSimulatedNode(t *testing.T) *simulatedNode {
	t.Helper()
	n := &simulatedNode{namespaces: map[string]bool{}, engines: map[types.UID]*grpc.Server{}, simulated: map[types.UID]*simulated{}}
	ctx, cancel := context.WithCancel(context.Background())
	var loop sync.WaitGroup
	loop.Go(func() {
		for ctx.Err() == nil {
			n.sync(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() {
		for deadline := time.Now().Add(5 * time.Minute); n.running() > 0 && time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		}
		if left := n.running(); left > 0 {
			t.Errorf("%d simulated engines are left", left)
		}
		cancel()
		loop.Wait()
		for _, server := range n.engines {
			server.Stop()
		}
	})
	return n
}

// shareOf is the share of a run that a pod's engine was given.
func (n *simulatedNode) shareOf(pod types.UID, run string) *enginev1.Share {
	n.mu.Lock()
	e := n.simulated[pod]
	n.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.runs[run].plan.GetShare()
}

// take a namespace over from the kubelet.
func (n *simulatedNode) take(namespace string) {
	cluster.kubelet.leave(namespace)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.namespaces[namespace] = true
}

func (n *simulatedNode) running() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.engines)
}

func (n *simulatedNode) sync(ctx context.Context) {
	var pods corev1.PodList
	if err := cluster.kube.List(ctx, &pods, client.MatchingLabels{engineLabel: "spate-engine"}); err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	there := map[types.UID]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		there[pod.UID] = true
		switch {
		case !n.namespaces[pod.Namespace]:
		case pod.DeletionTimestamp != nil:
			_ = cluster.kube.Delete(ctx, pod, client.GracePeriodSeconds(0))
		case n.engines[pod.UID] == nil && pod.Status.Phase == corev1.PodPending:
			if err := n.run(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
				fmt.Fprintln(os.Stderr, "simulated node:", pod.Name, err)
			}
		}
	}
	for uid, server := range n.engines {
		if !there[uid] {
			server.Stop()
			delete(n.engines, uid)
			delete(n.simulated, uid)
		}
	}
}

// run binds a pod and serves its engine by the certificate of its Secret, on an address of its own.
func (n *simulatedNode) run(ctx context.Context, pod *corev1.Pod) error {
	config, err := engineTLS(ctx, pod)
	if err != nil {
		return err // its Secret is not there yet
	}
	if pod.Spec.NodeName == "" {
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "simulated-node"}}
		if err := cluster.kube.SubResource("binding").Create(ctx, pod, binding); err != nil {
			return err
		}
	}
	n.last++
	ip := fmt.Sprintf("127.%d.%d.%d", 101+part, n.last/250, 1+n.last%250)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ip+":7470")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)))
	args := pod.Spec.Containers[0].Args
	n.simulated[pod.UID] = &simulated{routers: slices.Contains(args, "--router"), ports: simulatedPorts(args), runs: map[string]*simulatedRun{}}
	enginev1.RegisterEngineServer(server, n.simulated[pod.UID])
	go func() { _ = server.Serve(listener) }()
	n.engines[pod.UID] = server
	return setPod(ctx, cluster.kube, client.ObjectKeyFromObject(pod), func(s *corev1.PodStatus) {
		s.Phase, s.PodIP, s.PodIPs = corev1.PodRunning, ip, []corev1.PodIP{{IP: ip}}
		s.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "engine", Ready: true, Started: ptr.To(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		}}
		for i := range pod.Spec.InitContainers {
			s.InitContainerStatuses = append(s.InitContainerStatuses, corev1.ContainerStatus{
				Name: pod.Spec.InitContainers[i].Name, Ready: true, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
			})
		}
	})
}

// engineTLS has the certificate of a pod's Secret, and takes calls of the operator only.
func engineTLS(ctx context.Context, pod *corev1.Pod) (*tls.Config, error) {
	secret := &corev1.Secret{}
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil {
			secret.Name = v.Secret.SecretName
		}
	}
	if err := cluster.kube.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: secret.Name}, secret); err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(secret.Data[pki.Certificate], secret.Data[pki.PrivateKey])
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(secret.Data[pki.TrustBundle])
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert,
		VerifyConnection: func(c tls.ConnectionState) error { return c.PeerCertificates[0].VerifyHostname(pki.OperatorName) },
	}, err
}

func TestASimulatedEngineCountsWhatItsPlanAndItsUpdatesSay(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	e := &simulated{runs: map[string]*simulatedRun{}}
	run := func(timing *enginev1.Timing) *simulatedRun {
		stream := &enginev1.Stream{
			Name: "s", TxPort: "a", RxPort: "a", Packet: &enginev1.Packet{Frame: make([]byte, 60)},
			Transmit: &enginev1.Stream_Continuous{Continuous: &enginev1.Continuous{Rate: &enginev1.Rate{Kind: &enginev1.Rate_PacketsPerSecond{PacketsPerSecond: &enginev1.Ratio{Numerator: 10, Denominator: 3}}}}},
		}
		r, err := newSimulatedRun(&enginev1.Plan{RunId: "r", Timing: timing, Streams: []*enginev1.Stream{stream}}, nil)
		must(t, err)
		e.runs["r"] = r
		return r
	}
	at := func(r *simulatedRun, now int64, state enginev1.RunState, warmup, measured uint64) {
		t.Helper()
		got := r.stats(now)
		s := got.Streams[0]
		if got.Run.State != state || s.Warmup.TxPackets != warmup || s.Measured.TxPackets != measured || s.Measured.RxBytes != measured*64 {
			t.Errorf("after %s: %s, %d in the warm-up, %d measured (%d bytes); want %s, %d, %d", time.Duration(now-r.start), got.Run.State, s.Warmup.TxPackets, s.Measured.TxPackets, s.Measured.RxBytes, state, warmup, measured)
		}
	}
	start := time.Now().Add(time.Hour).UnixNano()
	r := run(&enginev1.Timing{WarmupNs: uint64(3 * second), DurationNs: uint64(6 * second), DrainNs: uint64(second)})
	at(r, start, enginev1.RunState_RUN_STATE_PREPARED, 0, 0)
	_, err := e.Start(t.Context(), &enginev1.StartRequest{RunId: "r", AtNs: start})
	must(t, err)
	at(r, start-1, enginev1.RunState_RUN_STATE_ARMED, 0, 0)
	at(r, start+1, enginev1.RunState_RUN_STATE_WARMING_UP, 1, 0)
	at(r, start+3*second, enginev1.RunState_RUN_STATE_RUNNING, 10, 0)
	at(r, start+9*second, enginev1.RunState_RUN_STATE_DRAINING, 10, 20)
	at(r, start+99*second, enginev1.RunState_RUN_STATE_COMPLETE, 10, 20)
	// Three times the rate from the sixth second on, but for a second in which the stream is paused.
	_, err = e.Update(t.Context(), &enginev1.UpdateRequest{RunId: "r", Change: &enginev1.UpdateRequest_RateFactor{RateFactor: &enginev1.Ratio{Numerator: 3, Denominator: 1}}, AtNs: start + 6*second})
	must(t, err)
	for i, paused := range []bool{true, false} {
		_, err = e.Update(t.Context(), &enginev1.UpdateRequest{RunId: "r", Selector: &enginev1.Selector{Streams: []string{"s"}}, Change: &enginev1.UpdateRequest_Paused{Paused: paused}, AtNs: start + int64(7+i)*second})
		must(t, err)
	}
	at(r, start+99*second, enginev1.RunState_RUN_STATE_COMPLETE, 10, 10+10+10)
	// The clock stands for ten seconds of the warm-up.
	r = run(&enginev1.Timing{WarmupNs: uint64(3 * second), DurationNs: uint64(6 * second)})
	_, err = e.Start(t.Context(), &enginev1.StartRequest{RunId: "r", AtNs: start})
	must(t, err)
	_, err = e.Pause(t.Context(), &enginev1.PauseRequest{RunId: "r", AtNs: start + second})
	must(t, err)
	at(r, start+5*second, enginev1.RunState_RUN_STATE_PAUSED, 4, 0)
	_, err = e.Resume(t.Context(), &enginev1.ResumeRequest{RunId: "r", AtNs: start + 11*second})
	must(t, err)
	at(r, start+18*second, enginev1.RunState_RUN_STATE_RUNNING, 10, 17)
	at(r, start+19*second, enginev1.RunState_RUN_STATE_COMPLETE, 10, 20)
	// A run that is stopped before it was to start has sent nothing.
	r = run(&enginev1.Timing{DurationNs: uint64(6 * second)})
	_, err = e.Start(t.Context(), &enginev1.StartRequest{RunId: "r", AtNs: start})
	must(t, err)
	_, err = e.Stop(t.Context(), &enginev1.StopRequest{RunId: "r"})
	must(t, err)
	at(r, start+9*second, enginev1.RunState_RUN_STATE_STOPPED, 0, 0)
	if _, err = e.Update(t.Context(), &enginev1.UpdateRequest{RunId: "r", Change: &enginev1.UpdateRequest_Paused{Paused: true}}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("an update after the end: %v", err)
	}
}

// The operator finds no difference: the same profile has the same result.
func TestARunOnASimulatedEngineHasTheResultOfOneOnARealEngine(t *testing.T) {
	t.Parallel()
	node := startSimulatedNode(t)
	result := func(ns string) *spatev1.TrafficRun {
		mustApply(t, ns, loopbackGenerator+"---"+loopbackStream)
		expect(t, readyLimit, generatorNamed(ns, "loop"), spatev1.ConditionReady, metav1.ConditionTrue, spatev1.ReasonAvailable)
		mustApply(t, ns, loopbackProfile("one", tolerant+"  warmup: 500ms\n  duration: 1500ms\n  rate: 2x\n"))
		return complete(t, runLimit, profileNamed(ns, "one"))
	}
	needsEngine(t)
	ns := namespace(t)
	node.take(ns)
	have, want := result(ns), result(namespace(t))
	for name, r := range map[string]*spatev1.TrafficRun{"simulated": have, "real": want} {
		if res := r.Status.Result; r.Status.Verdict.Outcome != spatev1.VerdictPassed || res.Tx+res.TxDropped != 3000 || res.Rx != res.Tx || res.RxBytes != res.Rx*128 || res.Streams["small"].Rx != res.Rx {
			t.Errorf("%s: %+v %+v", name, r.Status.Verdict, res)
		}
	}
}
