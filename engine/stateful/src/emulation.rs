// SPDX-License-Identifier: Apache-2.0
//! A worker's share of a scenario: begins its flows when they are due, and carries them on.
use std::sync::Arc;

use crate::{
    FieldPath, Ratio, Scenario,
    arrivals::{DueFlow, FlowSchedule, Timing, TimingError},
    counters::{Count, Counters},
    leased::LeasedAddresses,
    records::Recorder,
    stack::{Hints, Neighbours, NextHops, NotOpened, Opening, PortLink, Prefetched, Received, Request, Stack, Tuple},
    tcp::Output,
    tuples::{self, Draw, Sharding, Share, TupleError, Tuples},
};

/// A flow that starts later than this after its time is late, unless another time is given.
const LATE_NS: u64 = 1_000_000;
/// Flows that start in one iteration of the worker: what has arrived must be read in between...
const MAX_NEW: usize = 32;
/// ...and if what flows had to send did not all leave: those that are open go before new ones, which must not wait for ever.
const MAX_NEW_BEHIND: usize = 1;
/// Number of flows that start together: until the first does, its entry of the table has come from memory.
const TOGETHER: usize = 16;

/// Why a scenario cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmulationError {
    /// The rates of templates are wrong.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// The addresses of templates are wrong.
    #[error(transparent)]
    Tuples(#[from] TupleError),
    /// A worker would have none of the flows of a template that may be open, and wait for ever.
    #[error("{most} connections at a time cannot be shared out to {workers} workers; must be at least {workers}")]
    FewMayBeOpen {
        /// Its index.
        template: usize,
        /// Flows at a time.
        most: u64,
        /// Workers of all engines together.
        workers: u64,
    },
}

impl EmulationError {
    /// Path of the field in the scenario.
    pub fn field(&self) -> FieldPath {
        match self {
            Self::Timing(error) => error.field(),
            Self::Tuples(error) => error.field(),
            Self::FewMayBeOpen { template, .. } => FieldPath::from("templates").index(*template).field("most_open"),
        }
    }
}

/// Which worker has the queue on which a reply to a client's tuple, from a destination port, arrives on a port of the engine:
/// whether it is this one.
pub type OwnsReplies = dyn Fn(usize, u16, &tuples::Tuple) -> bool + Send;

/// A worker's share of a scenario.
pub struct Emulation {
    scenario: Arc<Scenario>,
    stack: Stack,
    /// The schedule before the start.
    prepared: Option<FlowSchedule>,
    /// The schedule after the start.
    arrivals: Option<FlowSchedule>,
    tuples: Tuples,
    share: Share,
    owned: Box<OwnsReplies>,
    /// No flow starts from here on.
    end_ns: u64,
    /// Limits of open flows, by template.
    limits: Box<[OpenLimit]>,
    /// Templates of which flows are held.
    holding: Vec<usize>,
    /// A flow that starts later than this after its time is late.
    late_after_ns: u64,
    /// Flows that are about to start; none between iterations.
    openings: Vec<(Opening, Draw)>,
}

/// Maximum of a template's open flows on this worker.
#[derive(Clone, Copy, Debug)]
struct OpenLimit {
    /// `u64::MAX`: any number. One less: likewise, and flows are numbered as they begin, as programs of other templates open some.
    most: u64,
    /// Due, and not started because as many were open.
    held: u64,
    /// Flows started, if there is a limit.
    started: u64,
    /// Started flows that are not open yet.
    opening: u64,
}

/// Whether replies to a tuple of a template's clients arrive here.
fn owns_replies<'a>(of: &'a crate::Template, owned: &'a OwnsReplies) -> impl Fn(&tuples::Tuple) -> bool {
    let port = of.client.as_ref().map_or(0, |client| client.port);
    move |tuple| owned(port, of.destination_port, tuple)
}

/// The endpoints of a flow, as drawn, to a port.
fn between(draw: &Draw, remote_port: u16) -> Tuple {
    let tuples::Tuple { client, server, source_port } = draw.tuple;
    Tuple { local: client, remote: server, local_port: source_port, remote_port }
}

impl core::fmt::Debug for Emulation {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Emulation")
            .field("share", &self.share)
            .field("flows", &self.stack.flows())
            .finish_non_exhaustive()
    }
}

impl Emulation {
    /// A worker's share on ports of an engine, by their index, on a clock that stands at `now_ns`; peers must not know the seed (see
    /// [`Stack::new`]). All memory is taken here.
    ///
    /// # Errors
    /// If rates or addresses cannot be shared out.
    pub fn new(
        scenario: Arc<Scenario>,
        share: Share,
        sharding: Sharding,
        owned: Box<OwnsReplies>,
        ports: &[PortLink],
        seed: u128,
        now_ns: u64,
    ) -> Result<Self, EmulationError> {
        let templates = scenario.templates.iter().map(|template| {
            // A template without clients on this engine starts no flows.
            let clients = if template.client.is_some() { template.clients.as_slice() } else { &[] };
            (clients, template.servers.as_slice())
        });
        let opened: Vec<_> = scenario.opened().collect();
        let tuples = Tuples::with_opened(&scenario.pools, templates, &opened, share, sharding)?;
        let rate = |template: &crate::Template| template.client.as_ref().map_or(Ratio::ZERO, |client| client.rate);
        let rates: Vec<_> = scenario.templates.iter().map(rate).collect();
        let prepared = Some(*Self::flow_schedule(&scenario, &rates, share)?);
        let limits = scenario.templates.iter().enumerate().map(|(template, of)| {
            let most = of.client.as_ref().map_or(0, |client| client.most_open);
            let Share { worker, workers } = share;
            let most = match most {
                0 => u64::MAX - u64::from(opened.contains(&template)),
                _ if most < workers => return Err(EmulationError::FewMayBeOpen { template, most, workers }),
                _ => most / workers + u64::from(worker < most % workers),
            };
            Ok(OpenLimit { most, held: 0, started: 0, opening: 0 })
        });
        let limits = limits.collect::<Result<Box<_>, _>>()?;
        let mut stack = Stack::new(scenario.clone(), ports, seed, now_ns);
        let here = share.within(scenario.client_part().of.into());
        stack.set_worker(here.worker, here.workers);
        Ok(Self {
            stack,
            prepared,
            arrivals: None,
            tuples,
            share,
            owned,
            end_ns: u64::MAX,
            holding: Vec::with_capacity(limits.len()),
            limits,
            late_after_ns: LATE_NS,
            openings: Vec::with_capacity(TOGETHER),
            scenario,
        })
    }

    /// See [`Stack::set_shared`].
    pub fn set_shared(&mut self, shared: bool) {
        self.stack.set_shared(shared);
    }

    /// See [`Stack::set_neighbours`].
    pub fn set_neighbours(&mut self, port: usize, neighbours: Neighbours) {
        self.stack.set_neighbours(port, neighbours);
    }

    /// See [`Stack::swap_next_hops`].
    pub fn swap_next_hops(&mut self, port: usize, hops: &mut NextHops) {
        self.stack.swap_next_hops(port, hops);
    }

    /// Clients of a leased pool have these from now on (see [`Stack::swap_leased`]). Both are the same; what was before is given back in
    /// them.
    pub fn swap_leased(&mut self, pool: usize, leased: &mut [Arc<LeasedAddresses>; 2]) {
        let [of_stack, of_tuples] = leased;
        self.stack.swap_leased(pool, of_stack);
        self.tuples.swap_leased(pool, of_tuples);
    }

    /// See [`Stack::redirects`].
    #[inline]
    pub fn redirects(&self) -> bool {
        self.stack.redirects()
    }

    /// See [`Stack::redirect`].
    pub fn redirect(&mut self) {
        self.stack.redirect();
    }

    /// See [`Stack::accept_any_mac`].
    pub fn accept_any_mac(&mut self, port: usize) {
        self.stack.accept_any_mac(port);
    }

    /// See [`Stack::refused_by_mac`].
    #[inline]
    pub fn refused_by_mac(&self, port: usize, frame: &[u8]) -> Option<Received> {
        self.stack.refused_by_mac(port, frame)
    }

    /// See [`Stack::receive_handed`].
    pub fn receive_handed(&mut self, port: usize, frame: &[u8], now_ns: u64) -> (Received, bool) {
        self.stack.receive_handed(port, frame, now_ns)
    }

    /// A flow that starts later than this after its time is late.
    #[must_use]
    pub fn late_after(self, late_after_ns: u64) -> Self {
        Self { late_after_ns, ..self }
    }

    /// Flows that start from now on are recorded. Takes all memory that this needs.
    pub fn record(&mut self, recorder: Recorder) {
        self.stack.record(recorder);
    }

    /// What happens until `measure` is counted as of a warm-up.
    pub fn warm_up(&self) {
        self.all_counters().for_each(|counters| counters.begin_warmup());
    }

    /// The warm-up is over since an instant.
    pub fn measure(&self, at_ns: u64) {
        self.all_counters().for_each(|counters| counters.end_warmup(at_ns));
    }

    fn all_counters(&self) -> impl Iterator<Item = &Counters> {
        let sides = (0..self.scenario.templates.len()).flat_map(|template| [(template, true), (template, false)]);
        sides.map(|(template, client)| &**self.stack.counters(template, client))
    }

    /// Flows start from this instant on. Later calls change nothing.
    pub fn start(&mut self, at_ns: u64) {
        if let Some(prepared) = self.prepared.take() {
            self.arrivals.insert(prepared).start(at_ns);
        }
    }

    /// No flow starts from this instant on; those that are open go on.
    pub fn stop(&mut self, at_ns: u64) {
        self.end_ns = self.end_ns.min(at_ns);
    }

    /// Gives up flows that were due before `stop` and have not started; they are counted.
    pub fn give_up(&mut self) {
        let end_ns = core::mem::replace(&mut self.end_ns, 0);
        for template in self.holding.drain(..) {
            let held = core::mem::take(&mut self.limits[template].held);
            self.stack.counters(template, true).add(Count::FlowsThrottled, held);
        }
        if let Some(arrivals) = &mut self.arrivals {
            let stack = &self.stack;
            arrivals
                .count(end_ns, |template, overdue| stack.counters(template, true).add(Count::FlowsNotStarted, overdue));
        }
    }

    /// From an instant on rates are this fraction of those of the scenario.
    pub fn change_rate(&mut self, at_ns: u64, factor: Ratio) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.change(at_ns, factor);
        }
    }

    /// From an instant on templates have other rates: those of a schedule made with [`Emulation::flow_schedule`].
    pub fn change_rates(&mut self, at_ns: u64, flow_schedule: Box<FlowSchedule>) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.change_rates(at_ns, flow_schedule);
        }
    }

    /// A schedule that is over, to be freed.
    pub fn over(&mut self) -> Option<Box<FlowSchedule>> {
        self.arrivals.as_mut()?.over()
    }

    /// When flows of a scenario begin in one of its workers if its templates have these rates (0 of something: none begin).
    ///
    /// # Errors
    /// If the arithmetic would not be exact.
    pub fn flow_schedule(scenario: &Scenario, rates: &[Ratio], share: Share) -> Result<Box<FlowSchedule>, TimingError> {
        let limit = |template: &crate::Template| template.client.as_ref().map_or(0, |client| client.limit);
        let timings: Vec<_> = scenario
            .templates
            .iter()
            .zip(rates)
            .map(|(template, &rate)| Timing {
                rate: if template.client.is_some() { rate } else { Ratio::ZERO },
                limit: limit(template),
            })
            .collect();
        FlowSchedule::new(&timings, scenario.order, share, 0, scenario.ramp_up).map(Box::new)
    }

    /// Time goes on: timers, and flows that are due by an instant up to which it is known whether they are to begin. Whether
    /// anything happened. Fewer flows start while the worker is behind with what others have to send.
    pub fn advance(&mut self, now_ns: u64, known_ns: u64, behind: bool) -> bool {
        let happened = self.stack.advance(now_ns);
        let most = if behind { MAX_NEW_BEHIND } else { MAX_NEW };
        let opened = self.open_requested(now_ns, most);
        self.begin(now_ns, known_ns, most) | opened | happened
    }

    /// Connections that programs open begin, this many at most. Whether any was requested.
    #[inline]
    fn open_requested(&mut self, now_ns: u64, most: usize) -> bool {
        let mut happened = false;
        for _ in 0..most {
            let Some(request) = self.stack.next_request() else { break };
            self.open_from(&request, now_ns);
            happened = true;
        }
        happened
    }

    /// A connection that a program opens begins, from the client's address of its flow; or the program goes on without.
    #[cold]
    fn open_from(&mut self, request: &Request, now_ns: u64) {
        let template = request.template();
        let of = &self.scenario.templates[template];
        let limit = &mut self.limits[template];
        let number = limit.started * self.share.workers + self.share.worker;
        limit.started += 1;
        let client = self.stack.client_of(request);
        let mut drawn = self.tuples.next_of(template, client, owns_replies(of, &*self.owned));
        while let Some(draw) = &mut drawn {
            let opening = self.stack.opening(template, number, between(draw, of.destination_port));
            match self.stack.open_requested(request, &opening, now_ns) {
                Ok(()) => return,
                Err(NotOpened::Exhausted) => return self.stack.refuse_request(request),
                Err(NotOpened::InUse) if self.tuples.skip(draw, owns_replies(of, &*self.owned)) => {}
                Err(NotOpened::InUse) => drawn = None,
            }
        }
        self.stack.counters(template, true).one(Count::PortsExhausted);
        self.stack.refuse_request(request);
    }

    fn begin(&mut self, now_ns: u64, known_ns: u64, most: usize) -> bool {
        let before = known_ns.saturating_add(1).min(self.end_ns);
        let mut happened = false;
        for _ in 0..most {
            let Some(arrival) = self.arrivals.as_mut().and_then(|arrivals| arrivals.take(before)) else { break };
            self.due(arrival, now_ns);
            happened = true;
        }
        happened |= !self.holding.is_empty() && self.begin_held(now_ns, most);
        if !self.openings.is_empty() {
            self.open_all(now_ns);
        }
        happened
    }

    /// A flow is due: it begins, or is held.
    #[inline]
    fn due(&mut self, DueFlow { due_ns, template, number }: DueFlow, now_ns: u64) {
        let limit = &mut self.limits[template];
        if limit.most != u64::MAX {
            if limit.held > 0 || self.stack.open_flows(template, true) + limit.opening >= limit.most {
                if limit.held == 0 {
                    self.holding.push(template);
                }
                limit.held += 1;
                return self.counters(template, true).one(Count::OpenLimitWaits);
            }
            return self.open_limited(template, due_ns, now_ns);
        }
        self.open(template, number, due_ns, now_ns);
    }

    /// Flows that were held begin as long as there is room, this many at most, unless their template stands. Whether any did.
    #[cold]
    fn begin_held(&mut self, now_ns: u64, most: usize) -> bool {
        let mut left = most;
        for at in (0..self.holding.len()).rev() {
            let template = self.holding[at];
            if self.arrivals.as_ref().is_none_or(|arrivals| arrivals.stands(template)) {
                continue;
            }
            while left > 0
                && self.limits[template].held > 0
                && self.stack.open_flows(template, true) + self.limits[template].opening < self.limits[template].most
            {
                self.limits[template].held -= 1;
                // The flow is not late: it waited for others to end.
                self.open_limited(template, now_ns, now_ns);
                left -= 1;
            }
            if self.limits[template].held == 0 {
                self.holding.swap_remove(at);
            }
        }
        left < most
    }

    /// The next flow of a template of which only some may be open. Those are numbered as they begin: worker w's j-th is flow
    /// j W + w. (So it need only be known how many are held.)
    fn open_limited(&mut self, template: usize, due_ns: u64, now_ns: u64) {
        let limit = &mut self.limits[template];
        let number = limit.started * self.share.workers + self.share.worker;
        limit.started += 1;
        self.open(template, number, due_ns, now_ns);
    }

    /// A flow is to begin, with others.
    fn open(&mut self, template: usize, number: u64, due_ns: u64, now_ns: u64) {
        if now_ns > due_ns.saturating_add(self.late_after_ns) {
            self.stack.counters(template, true).one(Count::FlowsLate);
        }
        let of = &self.scenario.templates[template];
        let Some(draw) = self.tuples.next(template, owns_replies(of, &*self.owned)) else {
            return self.stack.counters(template, true).one(self.tuples.not_found());
        };
        let opening = self.stack.opening(template, number, between(&draw, of.destination_port));
        self.openings.push((opening, draw));
        self.limits[template].opening += 1;
        if self.openings.len() == TOGETHER {
            self.open_all(now_ns);
        }
    }

    /// Opens the flows that are about to start.
    // Not inlined: what the worker's loop has in registers would be put there again for each flow.
    #[inline(never)]
    fn open_all(&mut self, now_ns: u64) {
        for (opening, draw) in &mut self.openings {
            let template = opening.template();
            self.limits[template].opening -= 1;
            while let Err(NotOpened::InUse) = self.stack.open_found(opening, now_ns) {
                let of = &self.scenario.templates[template];
                if !self.tuples.skip(draw, owns_replies(of, &*self.owned)) {
                    self.stack.counters(template, true).one(Count::PortsExhausted);
                    break;
                }
                *opening = self.stack.opening(template, opening.number(), between(draw, of.destination_port));
            }
        }
        self.openings.clear();
    }

    /// A frame without FCS arrives on a port.
    #[inline]
    pub fn receive(&mut self, port: usize, frame: &[u8], now_ns: u64) -> Received {
        self.stack.receive(port, frame, now_ns)
    }

    /// See [`Stack::receive_hinted`].
    #[inline]
    pub fn receive_hinted(&mut self, port: usize, frame: &[u8], hints: Hints<'_>, now_ns: u64) -> Received {
        self.stack.receive_hinted(port, frame, hints, now_ns)
    }

    /// See [`Stack::receive_hinted_v4`].
    #[inline]
    pub fn receive_hinted_v4(&mut self, port: usize, frame: &[u8], hints: Hints<'_>, now_ns: u64) -> Received {
        self.stack.receive_hinted_v4(port, frame, hints, now_ns)
    }

    /// See [`Stack::look_ahead`].
    #[inline]
    pub fn look_ahead<'a>(&self, frames: impl Iterator<Item = &'a [u8]>, found: &mut [Prefetched]) {
        self.stack.look_ahead(frames, found);
    }

    /// Whether a port has something to send.
    #[inline]
    pub fn is_ready(&self, port: usize) -> bool {
        self.stack.is_ready(port)
    }

    /// Writes what a port has to send, as long as there is room.
    #[inline]
    pub fn transmit(&mut self, port: usize, now_ns: u64, out: &mut impl Output) {
        self.stack.transmit(port, now_ns, out);
    }

    /// When something is to be done at the latest, in ns; none if only a frame can change that.
    pub fn next_due_ns(&self) -> Option<u64> {
        let arrival = self.arrivals.as_ref().and_then(FlowSchedule::next_due_ns).filter(|due| *due < self.end_ns);
        arrival.into_iter().chain(self.stack.next_due_ns()).min()
    }

    /// Whether flows may still start.
    pub fn begins(&self) -> bool {
        let next = self.arrivals.as_ref().and_then(FlowSchedule::next_due_ns);
        !self.holding.is_empty() || next.is_some_and(|due| due < self.end_ns)
    }

    /// The counters of one side of a template.
    pub fn counters(&self, template: usize, client: bool) -> &Arc<Counters> {
        self.stack.counters(template, client)
    }

    /// Flows of one side of a template, those in TIME-WAIT not among them.
    pub fn open_flows(&self, template: usize, client: bool) -> u64 {
        self.stack.open_flows(template, client)
    }

    /// All flows, those in TIME-WAIT among them.
    pub fn flows(&self) -> usize {
        self.stack.flows()
    }

    /// Ends all flows at once, without a word; those that were open are counted.
    pub fn abort(&mut self) {
        if self.stack.flows() == 0 {
            return;
        }
        for template in 0..self.scenario.templates.len() {
            for client in [true, false] {
                let counters = self.stack.counters(template, client);
                counters.add(Count::FlowsAborted, counters.open());
            }
        }
        self.stack.clear();
    }
}
