// SPDX-License-Identifier: Apache-2.0
//! A group of clients: what reaches them and what is due, and the state of each.
use std::sync::Arc;

use spate_net::{
    ethernet::{self, IPV4, IPV6, Link, MACS, Mac},
    field::be16,
    icmp,
    ip::{Fixed, ICMP, ICMPV6, UDP, pseudo_header},
    ipv4::{self, Part},
    ipv6,
    udp::Datagram,
    vlan::Tags,
};
use spate_stateful::{
    random::{Numbers, mix},
    wheel::{self, Wheel},
};

use crate::{
    client::{Cause, Client, Client6, Clients, NEVER, Phase4, Phase6, State, is},
    config::{Config, ConfigError, Ipv4},
    counters::{Count, Counters},
    duid::Duid,
    frame::{Ends, Output, Scratch},
    holders::Holders,
    interned::Interned,
    layout::Layout,
    news::{Router, Walks},
    pacing::{Pacer, Rate},
};

/// Frames that one step of a client sends, at most; see `Output::room`.
pub(crate) const MAX_FRAMES: usize = 8;
/// An entry of the wheel is not further away than this, an hour: what is due later is looked at again.
const LONGEST_WAIT_NS: u64 = 3_600_000_000_000;

/// How clients leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Leases are given back: DHCPRELEASE, RELEASE.
    Release,
    /// They are gone without a message, and start as new ones if they come back.
    Forget,
    /// They are gone without a message, and request the same IPv4 address if they come back (INIT-REBOOT).
    Keep,
}

/// Clients that start, or leave, one after the other.
#[derive(Clone, Copy, Debug)]
struct Row {
    pacer: Pacer,
    /// The next one.
    next: u32,
    /// It is due, and waits.
    throttled: bool,
}

/// A group of clients.
#[derive(Debug)]
pub struct Group {
    pub(crate) config: Config,
    pub(crate) layout: Layout,
    pub(crate) clients: Clients,
    /// Without IPv6: empty.
    pub(crate) six: Box<[Client6]>,
    pub(crate) wheel: Wheel,
    /// Clients by their IPv4 addresses.
    pub(crate) table4: Holders,
    /// Clients by their leased IPv6 addresses.
    pub(crate) table6: Holders,
    pub(crate) routers: Interned<Router>,
    pub(crate) servers: Interned<Duid>,
    pub(crate) walks: Walks,
    pub(crate) counters: Arc<Counters>,
    pub(crate) random: Numbers,
    pub(crate) scratch: Scratch,
    starting: Option<Row>,
    leaving: Option<(Row, Leave)>,
    /// Clients that have started and are neither bound nor failed.
    outstanding: u32,
    generation: u64,
    started_ns: u64,
    now_ns: u64,
}

impl Group {
    /// A group none of whose clients has started. All memory that it needs is taken here.
    ///
    /// # Errors
    /// If clients cannot be what the configuration says.
    pub fn new(config: Config, now_ns: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let count = config.count as usize;
        let layout = Layout::new(&config);
        let mut blank = Client::BLANK;
        blank.v4.phase = if config.ipv4.is_some() { Phase4::Idle } else { Phase4::Unused };
        let leases6 = config.ipv6.and_then(|six| six.dhcp).is_some_and(|dhcp| dhcp.address);
        let counters = Arc::new(Counters::default());
        counters.set_idle(u64::from(config.count));
        Ok(Self {
            layout,
            clients: Clients(vec![blank; count].into()),
            six: vec![Client6::BLANK; if config.ipv6.is_some() { count } else { 0 }].into(),
            wheel: Wheel::new(wheel::tick_at(now_ns)),
            table4: Holders::new(if config.ipv4.is_some() { count } else { 0 }),
            table6: Holders::new(if leases6 { count } else { 0 }),
            routers: Interned::new(Router::BLANK),
            servers: Interned::new(Duid::BLANK),
            walks: Walks::default(),
            counters,
            random: Numbers::new(config.seed),
            scratch: Scratch::new(),
            starting: None,
            leaving: None,
            outstanding: 0,
            generation: 0,
            started_ns: now_ns,
            now_ns,
            config,
        })
    }

    /// Clients start from an instant on, at the configured rate.
    pub fn start_all(&mut self, at_ns: u64) {
        self.started_ns = at_ns;
        self.starting = Some(Row { pacer: Pacer::new(self.config.rate, at_ns), next: 0, throttled: false });
    }

    /// All clients leave from an instant on, at a rate. No more start.
    pub fn leave_all(&mut self, how: Leave, rate: Rate, at_ns: u64) {
        self.starting = None;
        self.leaving = Some((Row { pacer: Pacer::new(rate, at_ns), next: 0, throttled: false }, how));
    }

    /// Whether all clients have left, and nothing is due any more.
    pub fn has_left(&self) -> bool {
        let all_left = self.leaving.is_some_and(|(row, _)| row.next >= self.layout.count());
        all_left && self.wheel.is_empty()
    }

    /// What the clients are.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What is counted.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Changes whenever a client gets or loses an address, or learns a next hop.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Clients that have started and are neither bound nor failed.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Takes a frame that arrives now, without FCS; `tags` are its VLAN tags as its sender wrote them, even if a device has removed one.
    pub fn receive(&mut self, frame: &[u8], tags: Tags, now_ns: u64, out: &mut impl Output) {
        self.now_ns = self.now_ns.max(now_ns);
        let Some(link) = Link::find(frame) else { return };
        let (Some(to), Some(from)) = (frame.first_chunk::<6>(), frame[6..MACS].first_chunk::<6>()) else { return };
        // What a hub or a loopback brings back.
        if self.layout.index_of(*from).is_some() {
            return;
        }
        let received = Received { to: *to, from: *from, tags, now_ns };
        let payload = &frame[link.end..];
        match link.ethertype {
            ethernet::ARP => self.receive_arp(&received, payload, out),
            IPV4 => self.receive_v4(&received, payload, out),
            IPV6 if !self.six.is_empty() => self.receive_v6(&received, payload, out),
            _ => {}
        }
    }

    fn receive_v4(&mut self, received: &Received, packet: &[u8], out: &mut impl Output) {
        let own = self.layout.index_of(received.to);
        if own.is_none() && received.to[0] & 1 == 0 {
            return;
        }
        let Some(fixed) = Fixed::read(packet).filter(|_| packet[0] >> 4 == 4) else { return };
        let valid = fixed.header >= ipv4::HEADER
            && (fixed.header..=packet.len()).contains(&fixed.len)
            && ipv4::is_header_right(&packet[..fixed.header]);
        let Some(header) = packet.first_chunk().filter(|_| valid) else { return };
        if Part::of(header).is_fragment() {
            return;
        }
        let body = &packet[fixed.header..fixed.len];
        match header[9] {
            UDP if body.len() >= 4 && be16(body, 2) == spate_net::dhcp4::CLIENT_PORT => {
                let pseudo = pseudo_header(fixed.source, fixed.destination, UDP, body.len());
                match Datagram::read(body, pseudo, false) {
                    Ok(datagram) => self.receive_dhcp4(received, datagram.payload, out),
                    Err(_) => self.counters.one(Count::Malformed),
                }
            }
            ICMP if body.len() >= icmp::HEADER => {
                if let Some(index) = own.filter(|index| self.layout.tags(*index) == received.tags) {
                    self.receive_echo4(index, received, &fixed, body, out);
                }
            }
            _ => {}
        }
    }

    fn receive_v6(&mut self, received: &Received, packet: &[u8], out: &mut impl Output) {
        let own = self.layout.index_of(received.to);
        if own.is_none() && received.to[0] & 1 == 0 {
            return;
        }
        let Some(fixed) = Fixed::read(packet).filter(|_| packet[0] >> 4 == 6) else { return };
        let Some(body) = packet.get(ipv6::HEADER..fixed.len) else { return };
        let own = own.filter(|index| self.layout.tags(*index) == received.tags);
        // Neither neighbor discovery nor DHCPv6 comes in fragments or behind other headers (RFC 6980).
        match packet[6] {
            UDP if body.len() >= 4 && be16(body, 2) == spate_net::dhcp6::CLIENT_PORT => {
                let Some(index) = own else { return };
                let pseudo = pseudo_header(fixed.source, fixed.destination, UDP, body.len());
                match Datagram::read(body, pseudo, true) {
                    Ok(datagram) => self.receive_dhcp6(index, received, datagram.payload, out),
                    Err(_) => self.counters.one(Count::Malformed),
                }
            }
            ICMPV6 => self.receive_icmp6(own, received, &fixed, packet[7], body, out),
            _ => {}
        }
    }

    /// Does what is due, as far as there is room.
    pub fn poll(&mut self, now_ns: u64, out: &mut impl Output) {
        self.now_ns = self.now_ns.max(now_ns);
        let to = wheel::tick_at(now_ns);
        while out.room() >= MAX_FRAMES {
            let Some(index) = self.wheel.take_due(&mut self.clients, to) else { break };
            self.change(index, now_ns, |group| group.step(index, now_ns, out));
        }
        self.walk(now_ns, out);
        self.start_due(now_ns, out);
        self.leave_due(now_ns, out);
    }

    /// When `poll` has something to do next; none: not before a frame is received or a caller wants something.
    pub fn next_due_ns(&self) -> Option<u64> {
        let wheel = self.wheel.next().map(|next| {
            let ahead = next.wrapping_sub(wheel::tick_at(self.now_ns)) as i32;
            (self.now_ns >> wheel::TICK_SHIFT).saturating_add_signed(i64::from(ahead)) << wheel::TICK_SHIFT
        });
        let waits = self.config.max_outstanding.is_some_and(|max| self.outstanding >= max);
        // One that was throttled starts when another client makes room.
        let start = self.starting.filter(|row| row.next < self.layout.count() && !(row.throttled && waits));
        let start = start.map(|row| if row.throttled { self.now_ns } else { row.pacer.due_ns() });
        let leave = self.leaving.filter(|(row, _)| row.next < self.layout.count()).map(|(row, _)| row.pacer.due_ns());
        let walk = (!self.walks.is_empty()).then_some(self.now_ns);
        [wheel, start, leave, walk].into_iter().flatten().min()
    }

    fn start_due(&mut self, now_ns: u64, out: &mut impl Output) {
        while let Some(mut row) = self.starting.filter(|row| row.next < self.layout.count())
            && out.room() >= MAX_FRAMES
        {
            let full = self.config.max_outstanding.is_some_and(|max| self.outstanding >= max);
            if full {
                if now_ns >= row.pacer.due_ns() && !row.throttled {
                    row.throttled = true;
                    self.starting = Some(row);
                    self.counters.one(Count::Throttled);
                }
                return;
            }
            if !row.pacer.take(now_ns, row.throttled) {
                return;
            }
            let index = row.next;
            self.starting = Some(Row { next: index + 1, throttled: false, ..row });
            self.start(index, now_ns, out);
        }
    }

    fn leave_due(&mut self, now_ns: u64, out: &mut impl Output) {
        while let Some((mut row, how)) = self.leaving.filter(|(row, _)| row.next < self.layout.count())
            && out.room() >= MAX_FRAMES
            && row.pacer.take(now_ns, false)
        {
            let index = row.next;
            row.next += 1;
            self.leaving = Some((row, how));
            self.leave(index, how, now_ns, out);
        }
    }

    /// A client starts now, if it has not started or has left.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn start(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        if !matches!(self.state(index).0, State::Idle | State::Released) {
            return;
        }
        self.counters.one(Count::Started);
        self.outstanding += 1;
        self.change(index, now_ns, |group| {
            let client = &mut group.clients[index];
            client.started_ns = now_ns;
            client.setup_us = 0;
            (client.cause4, client.cause6) = (None, None);
            client.flags = client.flags & is::REMEMBERS | is::OUTSTANDING | is::TIMED;
            match group.config.ipv4 {
                None => {}
                Some(Ipv4::Static(_)) => group.start_static(index, now_ns, out),
                Some(Ipv4::Dhcp(_)) => group.start_dhcp4(index, now_ns, out),
            }
            if !group.six.is_empty() {
                group.start6(index, now_ns, out);
            }
        });
    }

    /// A client leaves now.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn leave(&mut self, index: u32, how: Leave, now_ns: u64, out: &mut impl Output) {
        if matches!(self.state(index).0, State::Released) {
            return;
        }
        self.change(index, now_ns, |group| {
            (group.clients[index].cause4, group.clients[index].cause6) = (None, None);
            if group.clients[index].v4.phase != Phase4::Unused {
                group.leave4(index, how, now_ns, out);
            }
            if !group.six.is_empty() {
                group.leave6(index, how, now_ns, out);
            }
        });
    }

    /// The state of a client, and of a failed one why.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn state(&self, index: u32) -> (State, Option<Cause>) {
        let client = &self.clients[index];
        if let Some(cause) = client.cause4.or(client.cause6) {
            return (State::Failed, Some(cause));
        }
        let four = (client.v4.phase != Phase4::Unused).then(|| client.v4.state());
        let six = self.six.get(index as usize).map(Client6::state);
        match (four, six) {
            // It leaves with both at once.
            (Some(four), Some(six)) => (four.min(six), None),
            (one, other) => (one.or(other).unwrap_or(State::Idle), None),
        }
    }

    /// Lets something happen to a client, and does what follows from its new state.
    pub(crate) fn change(&mut self, index: u32, now_ns: u64, happens: impl FnOnce(&mut Self)) {
        let before = self.state(index);
        happens(self);
        let after = self.state(index);
        if before != after {
            self.counters.moved(before, after);
            if before.0.is_usable() != after.0.is_usable() {
                self.generation += 1;
            }
        }
        let client = &mut self.clients[index];
        if client.has(is::OUTSTANDING) && !after.0.is_under_way() {
            client.set(is::OUTSTANDING, false);
            self.outstanding -= 1;
        }
        if client.has(is::TIMED) && after.0 == State::Bound {
            client.set(is::TIMED, false);
            let setup_ns = now_ns.saturating_sub(client.started_ns);
            client.setup_us = (setup_ns / 1000).clamp(1, u64::from(u32::MAX)) as u32;
            self.counters.set_up(setup_ns, now_ns.saturating_sub(self.started_ns));
        }
        self.arm(index, now_ns);
    }

    /// The usable addresses, or next hops, of a client are others than before.
    pub(crate) fn changed(&mut self) {
        self.generation += 1;
    }

    /// The wheel wakes a client up when something is due, or before.
    fn arm(&mut self, index: u32, now_ns: u64) {
        let client = &self.clients[index];
        let six = self.six.get(index as usize).map_or(NEVER, |six| six.lifetimes_end_ns(client, now_ns));
        let due_ns = client.v4.due_ns.min(client.v4.aux_ns).min(client.due6_ns).min(six);
        if due_ns == NEVER {
            self.wheel.cancel(&mut self.clients, index);
            return;
        }
        let at = wheel::tick_after(due_ns.min(now_ns.saturating_add(LONGEST_WAIT_NS)));
        if client.link.at().is_none_or(|set| wheel::before(at, set)) {
            self.wheel.reset(&mut self.clients, index, at);
        }
    }

    /// Does what is due of a client.
    fn step(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        if self.clients[index].v4.aux_ns <= now_ns {
            self.step_gateway(index, now_ns, out);
        }
        if self.clients[index].v4.due_ns <= now_ns {
            self.step4(index, now_ns, out);
        }
        if let Some(six) = self.six.get(index as usize) {
            let ends_ns = six.lifetimes_end_ns(&self.clients[index], now_ns);
            if ends_ns <= now_ns {
                self.end_lifetimes(index, now_ns, out);
            }
            if self.clients[index].due6_ns <= now_ns {
                self.step6(index, now_ns, out);
            }
        }
    }

    /// The Ethernet header of a client's frame.
    #[inline]
    pub(crate) fn ends(&self, index: u32, to: Mac) -> Ends {
        Ends { to, from: self.layout.mac(index), tags: self.layout.tags(index) }
    }

    /// The client that has an IPv4 address, or probes for it, in a VLAN.
    pub(crate) fn holder4(&self, address: u32, tags: Tags) -> Option<u32> {
        let is = |index| self.clients[index].v4.address == address && self.layout.tags(index) == tags;
        if address == 0 { None } else { self.table4.find(self.hash(u128::from(address)), is) }
    }

    /// The client that has a leased IPv6 address, or probes for it, in a VLAN.
    pub(crate) fn holder6(&self, address: u128, tags: Tags) -> Option<u32> {
        let is = |index| self.six[index as usize].address == address && self.layout.tags(index) == tags;
        if address == 0 { None } else { self.table6.find(self.hash(address), is) }
    }

    /// Of an address: servers that know the seed could choose addresses with equal ones, others not.
    #[inline]
    pub(crate) fn hash(&self, address: u128) -> u32 {
        let (high, low) = ((address >> 64) as u64, address as u64);
        (mix(mix(high ^ self.config.seed) ^ low) >> 32) as u32
    }

    /// A random part of a time.
    pub(crate) fn up_to(&mut self, ns: u64) -> u64 {
        self.random.below(ns.saturating_add(1))
    }

    /// Whether there is room for a frame; counts the frame otherwise.
    pub(crate) fn is_room(&self, out: &impl Output) -> bool {
        let room = out.room() > 0;
        if !room {
            self.counters.one(Count::Unsent);
        }
        room
    }
}

/// What is known of a received frame besides its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) to: Mac,
    pub(crate) from: Mac,
    pub(crate) tags: Tags,
    pub(crate) now_ns: u64,
}

impl Phase6 {
    /// Whether a client has started and not left.
    pub(crate) fn is_there(self) -> bool {
        !matches!(self, Self::Idle | Self::Left | Self::Releasing | Self::Duplicate)
    }
}
