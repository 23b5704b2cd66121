// SPDX-License-Identifier: Apache-2.0
//! A port with addresses on its link: what it sends, and the next hops that it finds.
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use spate_net::Address;

use spate_net::vlan::Tags;

use crate::{
    Interest, Mac, Neighbour, Prefix, TableFull,
    address::{group_mac, is_group, is_link_local, is_reported, link_local, solicited_node},
    frame::Frame,
    igmp,
    membership::{Group, MOST_GROUPS, MOST_SOURCES, Membership, Query, Report, Version},
    message::{Message, Station, ip_destination},
    mld,
    ping::{MOST_PINGS, Ping, PingEvent, Pinger, STAMP},
    range::Range,
    table::{Asker, Claim, Learned, Question, Table, Target},
};

/// Addresses that a port can be given.
pub const MOST_ADDRESSES: usize = 64;

/// The owner of groups that the port's configuration names.
const OWN: u64 = 0;

const BROADCAST: Mac = [0xff; 6];
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Announcements of own addresses, and between them (RFC 5227 §2.3: two; one more for links that come up late).
const ANNOUNCEMENTS: u32 = 3;
const ANNOUNCE_NS: u64 = 1_000_000_000;

/// What a port is to be on its link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Its addresses.
    pub addresses: Vec<Prefix>,
    /// Where IPv4 packets go that are for no subnet of its own.
    pub gateway_v4: Option<Ipv4Addr>,
    /// The same of IPv6.
    pub gateway_v6: Option<Ipv6Addr>,
    /// Multicast groups that it receives.
    pub groups: Vec<Group>,
    /// VLAN identifier (802.1Q) of all it sends; frames of other VLANs and without one do not concern it.
    pub vlan: Option<u16>,
}

/// What is wrong with a `Config`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Too many.
    #[error("{0} addresses; a port can have {MOST_ADDRESSES}")]
    TooManyAddresses(usize),
    /// The same address again.
    #[error("address {0} is there twice")]
    Twice(IpAddr),
    /// Not on the link.
    #[error("gateway {0} is in no subnet of the port's addresses: give the port an address of the gateway's subnet")]
    GatewayOffLink(IpAddr),
    /// The port itself.
    #[error("gateway {0} is the port's own address")]
    GatewayIsOwn(IpAddr),
    /// Not multicast.
    #[error(
        "group {0} is no multicast address that hosts report; must be in 224.0.0.0/4 or ff00::/8, and not 224.0.0.1, ff02::1 or of a scope within a host"
    )]
    NoGroup(IpAddr),
    /// The same group again.
    #[error("group {0} is there twice; give all of its sources at once")]
    GroupTwice(IpAddr),
    /// A source that no packet can have.
    #[error("source {1} of group {0} is no address of a host of its family")]
    Source(IpAddr, IpAddr),
    /// Too many.
    #[error("{0} groups; a port can be a member of {MOST_GROUPS}")]
    TooManyGroups(usize),
    /// Too many.
    #[error("{1} sources of group {0}; a group can have {MOST_SOURCES}, or all if none is given")]
    TooManySources(IpAddr, usize),
    /// Not an identifier.
    #[error("VLAN {0} does not exist: they are 1..4094")]
    Vlan(u16),
}

/// A neighbor that an emulated station looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sought {
    /// The neighbor.
    pub address: IpAddr,
    /// The station: of the same family, and its address is held.
    pub station: IpAddr,
    /// Its MAC. None: the port's.
    pub station_mac: Option<Mac>,
    /// Its tags. None: those of the port.
    pub tags: Option<Tags>,
}

/// Where packets of a stream go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Known without asking: a group, or the port itself.
    Here(Mac),
    /// To this neighbour, which [`Interface::want`] looks for.
    Neighbour(IpAddr),
}

/// Why a packet has no next hop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoute {
    /// The port has no address of that kind.
    #[error("the port has no IPv{0} address: give it one")]
    NoAddress(u8),
    /// Not on the link, and no gateway.
    #[error("{to} is in no subnet of the port ({subnets}) and it has no gateway: give it one")]
    NoGateway {
        /// The packet's destination.
        to: IpAddr,
        /// The port's addresses.
        subnets: String,
    },
    /// There is no route for the packet.
    #[error("the packet has no IP header behind Ethernet and VLAN, and the port has no gateway: give it one")]
    NoDestination,
    /// The table has no room.
    #[error(transparent)]
    TableFull(#[from] TableFull),
}

/// What an interface wants done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Frames to send, without FCS.
    pub frames: Vec<Vec<u8>>,
    /// Frames to send, and where the time at which each leaves is to be written ([`crate::STAMP`]).
    pub stamped: Vec<(Vec<u8>, usize)>,
    /// What is worth reporting.
    pub events: Vec<Event>,
}

/// Why a port cannot ping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PingError {
    /// Nothing leads there.
    #[error(transparent)]
    NoRoute(#[from] NoRoute),
    /// Replies would come from several stations.
    #[error("{0} is no address of a single station")]
    NoStation(IpAddr),
    /// A port does not receive what it sends.
    #[error("{0} is at the port itself, which does not receive what it sends: ping it from another")]
    Own(IpAddr),
    /// Routers forward nothing from a link-local address (RFC 4291 section 2.5.6).
    #[error("{0} is a link-local address, from which nothing is forwarded to {1}: use another address of the port")]
    StaysOnLink(IpAddr, IpAddr),
    /// Not an address of the port's.
    #[error("{0} is none of the port's addresses of the destination's family: {list}", list = .1.join(", "))]
    NotOwn(IpAddr, Vec<String>),
    /// Too many at once.
    #[error("{MOST_PINGS} pings of the port are under way: end one")]
    TooMany,
}

/// What happened on the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A neighbour was found.
    Found(IpAddr, Mac),
    /// A neighbour, in the port's own tags, has another MAC than before.
    Moved {
        /// The neighbor's address.
        address: IpAddr,
        /// Its MAC until now.
        from: Mac,
        /// Its MAC from now on.
        to: Mac,
    },
    /// A neighbour does not answer.
    Lost(IpAddr),
    /// Another station has an address of this port.
    Conflict(IpAddr, Mac),
    /// Membership is reported in this version from now on, as a querier on the link knows no other.
    Reports(&'static str),
    /// Of the ping with this number.
    Ping(u64, PingEvent),
}

/// A port on its link.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its own MAC and tags.
    station: Station,
    config: Config,
    /// Of its own making, if it has IPv6.
    link_local: Option<Ipv6Addr>,
    /// See `lose_outer_ethertype`.
    outer_ethertype_lost: bool,
    /// Of emulated stations, and their owners.
    ranges: Vec<(u64, Range)>,
    table: Table,
    /// Groups of IPv4 and of IPv6.
    members: [Membership; 2],
    announced: u32,
    announce_at_ns: u64,
    /// Under way, and the next hop of each.
    pings: Vec<(Pinger, IpAddr)>,
    /// Of the next ping.
    identifier: u16,
}

impl Interface {
    /// A port with this MAC, at an instant. It wants its gateways at once.
    pub fn new(mac: Mac, config: Config, now_ns: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let v6 = config.gateway_v6.is_some() || config.addresses.iter().any(|own| own.address.is_ipv6());
        let mut this = Self {
            station: Station { mac, tags: config.vlan.into() },
            link_local: v6.then(|| link_local(mac)),
            config,
            outer_ethertype_lost: false,
            ranges: Vec::new(),
            table: Table::default(),
            members: Default::default(),
            announced: 0,
            announce_at_ns: now_ns,
            pings: Vec::new(),
            // Others on this address begin elsewhere.
            identifier: u16::from_be_bytes([mac[4], mac[5]]) ^ now_ns as u16,
        };
        for gateway in this.gateways() {
            // An empty table has room for two.
            let _ = this.want(gateway, now_ns);
        }
        for group in this.config.groups.clone() {
            // `check` has counted them.
            let _ = this.join(OWN, &group, now_ns);
        }
        Ok(this)
    }

    /// From now on the outermost tag of a frame that is received is seen as a customer's, whatever it was.
    pub fn lose_outer_ethertype(&mut self) {
        self.outer_ethertype_lost = true;
    }

    /// How tags of a frame are seen when it is received.
    fn seen(&self, tags: Tags) -> Tags {
        if self.outer_ethertype_lost { tags.with_customer_outermost() } else { tags }
    }

    /// The tags of a frame that is received with these, as its sender wrote them: those of stations here, if they are seen so.
    fn written(&self, seen: Tags) -> Tags {
        if seen == self.station.tags {
            return seen;
        }
        let mut known = self.ranges.iter().filter_map(|(_, range)| range.tags);
        known.find(|tags| self.seen(*tags) == seen).unwrap_or(seen)
    }

    /// What to pass to `receive`.
    pub fn interest(&self) -> Interest {
        let groups = self.members.iter().flat_map(Membership::groups);
        let ranges = self.ranges.iter().map(|(_, range)| *range);
        Interest::new(self.station.tags, self.own(), ranges, groups, |tags| self.seen(tags))
    }

    /// Answers for the addresses of emulated stations from now on, until `release`d for the same owner. Whoever comes first
    /// keeps addresses that both have.
    pub fn hold(&mut self, owner: u64, ranges: &[Range]) {
        self.ranges.extend(ranges.iter().map(|range| (owner, *range)));
    }

    /// Answers no more for what an owner holds, and leaves the groups that it has joined.
    pub fn release(&mut self, owner: u64, now_ns: u64) {
        self.ranges.retain(|(other, _)| *other != owner);
        self.members.iter_mut().for_each(|members| members.leave(owner, now_ns));
    }

    /// Becomes a member of a group until `release`d for the same owner. False if it is a member of as many as it can be.
    #[must_use]
    pub fn join(&mut self, owner: u64, group: &Group, now_ns: u64) -> bool {
        // Hosts receive these without a report (RFC 3376 section 6, RFC 3810 section 6).
        if !is_reported(group.address) {
            return true;
        }
        let family = usize::from(group.address.is_ipv6());
        let room = self.members.iter().map(Membership::len).sum::<usize>() < MOST_GROUPS;
        let room = room || self.members[family].has(group.address);
        if room {
            self.members[family].join(owner, group, now_ns);
        }
        room
    }

    /// Where an address is in a VLAN, if it is the port's own or that of a station emulated behind it.
    fn here(&self, tags: Tags, address: IpAddr) -> Option<Mac> {
        let Station { mac: own, tags: own_tags } = self.station;
        let in_vlan = |range: &Range| range.tags.unwrap_or(own_tags) == tags;
        let emulated =
            || self.ranges.iter().filter(|(_, range)| in_vlan(range)).find_map(|(_, range)| range.mac(address, own));
        if tags == own_tags && self.own().any(|mine| mine == address) { Some(own) } else { emulated() }
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Its gateways.
    pub fn gateways(&self) -> Vec<IpAddr> {
        let v4 = self.config.gateway_v4.map(IpAddr::V4);
        v4.into_iter().chain(self.config.gateway_v6.map(IpAddr::V6)).collect()
    }

    /// All addresses it answers for.
    fn own(&self) -> impl Iterator<Item = IpAddr> {
        let given = self.config.addresses.iter().map(|own| own.address);
        given.chain(self.link_local.map(IpAddr::V6))
    }

    /// Takes a frame that arrives now.
    pub fn receive(&mut self, bytes: &[u8], now_ns: u64, output: &mut Output) {
        self.receive_arrived(bytes, now_ns, now_ns, output);
    }

    /// Takes a frame that arrived at an instant of the clock by which requests of pings are stamped.
    pub fn receive_arrived(&mut self, bytes: &[u8], arrived_ns: u64, now_ns: u64, output: &mut Output) {
        let Some(frame) = Frame::parse(bytes) else { return };
        // What it sent itself may come back from a hub.
        if frame.source == self.station.mac {
            return;
        }
        let tags = self.written(frame.tags);
        if tags == self.station.tags {
            if let Some(query) = igmp::query(&frame) {
                return self.asked(0, &query, now_ns, output);
            }
            if let Some(query) = mld::query(&frame) {
                return self.asked(1, &query, now_ns, output);
            }
        }
        match Message::parse(&frame) {
            Some(Message::Who { target, sender, mac }) => {
                // A request has the sender's MAC, too.
                self.heard(Target { tags, address: sender }, Claim { mac, overrides: true }, now_ns, output);
                if let Some(own_mac) = self.here(tags, target) {
                    output.frames.extend(self.answer(&Station { mac: own_mac, tags }, target, sender, mac));
                }
            }
            Some(Message::Has { address, mac, overrides }) => {
                self.heard(Target { tags, address }, Claim { mac, overrides }, now_ns, output);
            }
            Some(Message::Echo { from, to, mac, data }) if self.here(tags, to) == Some(frame.destination) => {
                output.frames.extend(Station { mac: frame.destination, tags }.echo_reply(mac, to, from, data));
            }
            Some(Message::EchoReply { from, to, hop_limit, of }) if tags == self.station.tags => {
                let asked = |pinger: &Pinger| (pinger.to(), pinger.from) == (from, to);
                self.answered(asked, |pinger| pinger.reply(&of, hop_limit, arrived_ns), output);
            }
            Some(Message::EchoError { from, to, destination, kind, of }) if tags == self.station.tags => {
                let asked = |pinger: &Pinger| (pinger.to(), pinger.from) == (destination, to);
                self.answered(asked, |pinger| pinger.error(&of, from, kind), output);
            }
            Some(Message::Echo { .. } | Message::EchoReply { .. } | Message::EchoError { .. }) | None => {}
        }
    }

    /// The ping that has asked may have an answer.
    fn answered(
        &mut self,
        asked: impl Fn(&Pinger) -> bool,
        mut event: impl FnMut(&mut Pinger) -> Option<PingEvent>,
        output: &mut Output,
    ) {
        let asked = self.pings.iter_mut().map(|(pinger, _)| pinger).filter(|pinger| asked(pinger));
        output.events.extend(asked.filter_map(|pinger| Some(Event::Ping(pinger.id, event(pinger)?))));
    }

    /// Sends echo requests from now on, until it has had all replies or is stopped by its number.
    ///
    /// # Errors
    /// If nothing leads to the destination, the port has no such address, or as many pings are under way as can be.
    pub fn ping(&mut self, id: u64, ping: Ping, now_ns: u64) -> Result<(), PingError> {
        if self.pings.len() >= MOST_PINGS {
            return Err(PingError::TooMany);
        }
        let broadcast = self.config.addresses.iter().any(|own| own.is_broadcast(ping.to));
        if is_group(ping.to) || ping.to.is_unspecified() || broadcast {
            return Err(PingError::NoStation(ping.to));
        }
        let NextHop::Neighbour(next) = self.hop_to(ping.to)? else { return Err(PingError::Own(ping.to)) };
        let stays_on_link = |address| matches!(address, IpAddr::V6(address) if is_link_local(address));
        let from = match ping.from {
            Some(from) if stays_on_link(from) && !stays_on_link(ping.to) => {
                return Err(PingError::StaysOnLink(from, ping.to));
            }
            Some(from) if self.own().any(|own| own == from) && from.is_ipv4() == ping.to.is_ipv4() => from,
            Some(from) => return Err(PingError::NotOwn(from, self.own().map(|own| own.to_string()).collect())),
            None => self.source_for(ping.to).ok_or(NoRoute::NoAddress(if ping.to.is_ipv4() { 4 } else { 6 }))?,
        };
        self.table.want_until_released(self.target(next), now_ns).map_err(NoRoute::from)?;
        self.identifier = self.identifier.wrapping_add(1);
        self.pings.push((Pinger::new(id, ping, from, self.identifier, now_ns), next));
        Ok(())
    }

    /// Sends no more requests of a ping.
    pub fn stop_ping(&mut self, id: u64) {
        self.end_pings(|pinger| pinger.id == id);
    }

    /// Forgets pings, and next hops that only they have asked for.
    fn end_pings(&mut self, ended: impl Fn(&Pinger) -> bool) {
        for (_, next) in self.pings.extract_if(.., |(pinger, _)| ended(pinger)).collect::<Vec<_>>() {
            if self.pings.iter().all(|(_, other)| *other != next) {
                self.table.release(self.target(next));
            }
        }
    }

    /// Sends what is due of pings, and notes what came of them.
    fn poll_pings(&mut self, now_ns: u64, output: &mut Output) {
        let mut over = Vec::new();
        for at in 0..self.pings.len() {
            let known = self.neighbour(self.pings[at].1);
            let (pinger, next) = &mut self.pings[at];
            let (id, begins) = (pinger.id, pinger.mac.is_none());
            let mut report = |event| output.events.push(Event::Ping(id, event));
            // A next hop that answers no more is no reason to end: requests are sent where it was, and what becomes of them is reported.
            pinger.mac = known.as_ref().and_then(|known| known.mac).or(pinger.mac);
            let Some(mac) = pinger.mac else {
                if let Some(known) = known.filter(|known| known.settled) {
                    let problem = known.problem.as_deref().unwrap_or("is not known");
                    report(PingEvent::NoNextHop(format!("next hop {next} {problem}")));
                    over.push(id);
                }
                continue;
            };
            if begins {
                report(PingEvent::Begun(pinger.from, mac));
            }
            if let Some(data) = pinger.request(now_ns) {
                let addresses = (pinger.from, pinger.to());
                if let Some(frame) = self.station.echo_request(mac, addresses, pinger.hop_limit(), &data) {
                    // Behind identifier and sequence number; short frames are padded.
                    let headers = if pinger.to().is_ipv4() { 20 + 8 } else { 40 + 8 };
                    let at = 14 + 4 * self.station.tags.as_slice().len() + headers;
                    debug_assert_eq!(frame[at..at + STAMP], data[4..4 + STAMP]);
                    output.stamped.push((frame, at));
                }
            }
            pinger.time_out(now_ns).for_each(&mut report);
            if pinger.is_over() {
                report(PingEvent::Over);
                over.push(id);
            }
        }
        if !over.is_empty() {
            self.end_pings(|pinger| over.contains(&pinger.id));
        }
    }

    /// A querier asks for groups of IPv4 (0) or IPv6 (1).
    fn asked(&mut self, family: usize, query: &Query, now_ns: u64, output: &mut Output) {
        let members = &mut self.members[family];
        let before = members.version(now_ns);
        members.asked(query, now_ns);
        let version = members.version(now_ns);
        if version != before {
            let name = match (family, version) {
                (0, Version::Reports) => "IGMPv1",
                (0, Version::Leaves) => "IGMPv2",
                (0, Version::Sources) => "IGMPv3",
                (_, Version::Sources) => "MLDv2",
                _ => "MLDv1",
            };
            output.events.push(Event::Reports(name));
        }
    }

    /// The frames of a report of membership.
    fn report(&self, report: &Report, family: usize) -> Vec<Vec<u8>> {
        if family == 1 {
            return mld::frames(&self.station, Some(link_local(self.station.mac)), report);
        }
        let v4 = self.config.addresses.iter().find_map(|own| match own.address {
            IpAddr::V4(own) => Some(own),
            IpAddr::V6(_) => None,
        });
        igmp::frames(&self.station, v4, report)
    }

    fn heard(&mut self, target: Target, claim: Claim, now_ns: u64, output: &mut Output) {
        let (Target { tags, address }, mac) = (target, claim.mac);
        if self.here(tags, address).is_some_and(|here| here != mac) {
            output.events.push(Event::Conflict(address, mac));
            return;
        }
        match self.table.learn(target, claim, now_ns) {
            Learned::First => output.events.push(Event::Found(address, mac)),
            // In other tags a neighbor is known only as long as it is sought.
            Learned::Moved(from) if tags == self.station.tags => {
                output.events.push(Event::Moved { address, from, to: mac });
            }
            Learned::Nothing | Learned::Moved(_) => {}
        }
    }

    /// Answers a request for an address of this port.
    fn answer(&self, station: &Station, own: IpAddr, asker: IpAddr, mac: Mac) -> Option<Vec<u8>> {
        match (own, asker) {
            (IpAddr::V4(own), IpAddr::V4(asker)) => Some(station.arp(mac, 2, own, mac, asker)),
            // A sender without an address wants this one (duplicate address detection): all must receive that it is taken (RFC
            // 4861 §7.2.4).
            (IpAddr::V6(own), IpAddr::V6(asker)) if asker.is_unspecified() => {
                Some(station.advertisement(group_mac(ALL_NODES.into()), own, ALL_NODES, false))
            }
            (IpAddr::V6(own), IpAddr::V6(asker)) => Some(station.advertisement(mac, own, asker, true)),
            _ => None,
        }
    }

    /// Does what is due at an instant: announces the port's addresses, asks for neighbours.
    pub fn poll(&mut self, now_ns: u64, output: &mut Output) {
        if self.announced < ANNOUNCEMENTS && now_ns >= self.announce_at_ns {
            self.announced += 1;
            self.announce_at_ns = now_ns.saturating_add(ANNOUNCE_NS);
            output.frames.extend(self.own().map(|own| self.announcement(own)));
        }
        let (mut questions, mut lost) = (Vec::new(), Vec::new());
        self.table.poll(now_ns, &mut questions, &mut lost);
        output.frames.extend(questions.iter().filter_map(|question| self.ask(question)));
        output.events.extend(lost.into_iter().map(Event::Lost));
        for family in 0..2 {
            for report in self.members[family].poll(now_ns) {
                output.frames.extend(self.report(&report, family));
            }
        }
        self.poll_pings(now_ns, output);
    }

    /// When `poll` has something to do next.
    pub fn next_ns(&self) -> Option<u64> {
        let announce = (self.announced < ANNOUNCEMENTS).then_some(self.announce_at_ns);
        let reports = self.members.iter().filter_map(Membership::next_ns);
        // An answer of the next hop comes before.
        let found = |next: &IpAddr| self.neighbour(*next).is_some_and(|known| known.mac.is_some());
        let sends = |(pinger, next): &&(Pinger, IpAddr)| pinger.mac.is_some() || found(next);
        let pings = self.pings.iter().filter(sends).map(|(pinger, _)| pinger.next_ns());
        announce.into_iter().chain(self.table.next_ns()).chain(reports).chain(pings).min()
    }

    fn announcement(&self, own: IpAddr) -> Vec<u8> {
        match own {
            IpAddr::V4(own) => self.station.arp(BROADCAST, 1, own, [0; 6], own),
            IpAddr::V6(own) => self.station.advertisement(group_mac(ALL_NODES.into()), own, ALL_NODES, false),
        }
    }

    fn ask(&self, question: &Question) -> Option<Vec<u8>> {
        let Target { tags, address } = question.target;
        let (mac, from) = match question.asker {
            Some(asker) => (asker.mac, asker.address),
            None => (self.station.mac, self.source_for(address)?),
        };
        let station = Station { mac, tags };
        match (address, from) {
            (IpAddr::V4(target), IpAddr::V4(from)) => {
                Some(station.arp(question.mac.unwrap_or(BROADCAST), 1, from, [0; 6], target))
            }
            (IpAddr::V6(target), IpAddr::V6(from)) => {
                let (mac, to) = match question.mac {
                    Some(mac) => (mac, target),
                    None => (group_mac(solicited_node(target).into()), solicited_node(target)),
                };
                Some(station.solicitation(mac, from, to, target))
            }
            _ => None,
        }
    }

    /// The own address from which a neighbour is asked: that of its subnet, else any of its kind.
    fn source_for(&self, neighbour: IpAddr) -> Option<IpAddr> {
        if let IpAddr::V6(address) = neighbour
            && is_link_local(address)
            && let Some(own) = self.link_local
        {
            return Some(own.into());
        }
        let of_kind = || self.config.addresses.iter().filter(|own| own.address.is_ipv4() == neighbour.is_ipv4());
        let own = of_kind().find(|own| own.contains(neighbour)).or_else(|| of_kind().next());
        let fallback = self.link_local.filter(|_| neighbour.is_ipv6()).map(IpAddr::V6);
        own.map(|own| own.address).or(fallback)
    }

    /// Where a packet of this content has to go.
    pub fn next_hop(&self, packet: &[u8]) -> Result<NextHop, NoRoute> {
        let Some(to) = ip_destination(packet) else {
            return self.gateways().first().map(|&gateway| NextHop::Neighbour(gateway)).ok_or(NoRoute::NoDestination);
        };
        self.hop_to(to)
    }

    /// Where packets to an address have to go.
    fn hop_to(&self, to: IpAddr) -> Result<NextHop, NoRoute> {
        if is_group(to) || self.config.addresses.iter().any(|own| own.is_broadcast(to)) {
            return Ok(NextHop::Here(group_mac(to)));
        }
        if self.own().any(|own| own == to) {
            return Ok(NextHop::Here(self.station.mac));
        }
        let linked = matches!(to, IpAddr::V6(to) if is_link_local(to)) && self.link_local.is_some();
        if linked || self.config.addresses.iter().any(|own| own.contains(to)) {
            // A station emulated behind this port itself would not receive a request.
            return Ok(self.here(self.station.tags, to).map_or(NextHop::Neighbour(to), NextHop::Here));
        }
        if let Some(gateway) = self.gateways().into_iter().find(|gateway| gateway.is_ipv4() == to.is_ipv4()) {
            return Ok(NextHop::Neighbour(gateway));
        }
        let subnets: Vec<String> = self.config.addresses.iter().map(ToString::to_string).collect();
        if !self.config.addresses.iter().any(|own| own.address.is_ipv4() == to.is_ipv4()) {
            return Err(NoRoute::NoAddress(if to.is_ipv4() { 4 } else { 6 }));
        }
        Err(NoRoute::NoGateway { to, subnets: subnets.join(", ") })
    }

    /// Looks for a neighbour from now on; looks anew for one that did not answer.
    pub fn want(&mut self, neighbour: IpAddr, now_ns: u64) -> Result<(), TableFull> {
        self.table.want(self.target(neighbour), None, now_ns)
    }

    /// What is known of a neighbour; none if it was never wanted.
    pub fn neighbour(&self, address: IpAddr) -> Option<Neighbour> {
        self.table.get(self.target(address))
    }

    fn target(&self, address: IpAddr) -> Target {
        Target { tags: self.station.tags, address }
    }

    /// Looks for a neighbor in the place of an emulated station and in its VLAN, from now on until it is `forget`ted. The station's
    /// MAC is the port's if none is given.
    pub fn want_for(&mut self, sought: &Sought, now_ns: u64) -> Result<(), TableFull> {
        let mac = sought.station_mac.unwrap_or(self.station.mac);
        let asker = Asker { address: sought.station, mac };
        self.table.want(self.sought(sought), Some(asker), now_ns)
    }

    /// What is known of a neighbor that is, or was, wanted for a station.
    pub fn found_for(&self, sought: &Sought) -> Option<Neighbour> {
        self.table.get(self.sought(sought))
    }

    /// Looks no more for a neighbor that was wanted for a station.
    pub fn forget(&mut self, sought: &Sought) {
        self.table.forget(self.sought(sought));
    }

    fn sought(&self, sought: &Sought) -> Target {
        Target { tags: sought.tags.unwrap_or(self.station.tags), address: sought.address }
    }
}

impl Config {
    /// Whether a port can be this.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (config, addresses) = (self, &self.addresses);
        if addresses.len() > MOST_ADDRESSES {
            return Err(ConfigError::TooManyAddresses(addresses.len()));
        }
        let twice =
            addresses.iter().enumerate().find(|(i, own)| addresses[..*i].iter().any(|a| a.address == own.address));
        if let Some((_, own)) = twice {
            return Err(ConfigError::Twice(own.address));
        }
        let gateways = [config.gateway_v4.map(IpAddr::V4), config.gateway_v6.map(IpAddr::V6)];
        for gateway in gateways.into_iter().flatten() {
            if addresses.iter().any(|own| own.address == gateway) {
                return Err(ConfigError::GatewayIsOwn(gateway));
            }
            // A router may be known by its link-local address only.
            let linked = matches!(gateway, IpAddr::V6(gateway) if is_link_local(gateway));
            if !linked && !addresses.iter().any(|own| own.contains(gateway)) {
                return Err(ConfigError::GatewayOffLink(gateway));
            }
        }
        self.check_groups()?;
        match config.vlan {
            Some(vlan) if !(1..=4094).contains(&vlan) => Err(ConfigError::Vlan(vlan)),
            _ => Ok(()),
        }
    }

    fn check_groups(&self) -> Result<(), ConfigError> {
        let groups = &self.groups;
        if groups.len() > MOST_GROUPS {
            return Err(ConfigError::TooManyGroups(groups.len()));
        }
        let mut seen = BTreeSet::new();
        for Group { address, sources } in groups {
            if !is_reported(*address) {
                return Err(ConfigError::NoGroup(*address));
            }
            if !seen.insert(*address) {
                return Err(ConfigError::GroupTwice(*address));
            }
            if sources.len() > MOST_SOURCES {
                return Err(ConfigError::TooManySources(*address, sources.len()));
            }
            let hosts = |source: &IpAddr| source.is_ipv4() == address.is_ipv4() && Address::from(*source).is_hosts();
            if let Some(source) = sources.iter().find(|source| !hosts(source)) {
                return Err(ConfigError::Source(*address, *source));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
