// SPDX-License-Identifier: Apache-2.0
//! Neighbor discovery (RFC 4861) and address autoconfiguration (RFC 4862) of clients: link-local addresses, routers, addresses of an
//! advertised prefix, duplicates; and the order in which a client comes to its IPv6 addresses.
use core::net::Ipv6Addr;

use spate_net::{
    ethernet::Mac,
    ip::{Fixed, ICMPV6, is_right, pseudo_header_v6},
    ndp::{self, ALL_NODES, ALL_ROUTERS, HOP_LIMIT, Message, Prefix, RouterAdvertisement, interface_id, mac_of},
    vlan::Tags,
};

use crate::{
    client::{Cause, Client, Client6, Moment, NEVER, Phase6, is},
    config::{Dhcp6When, SECOND},
    counters::Count,
    frame::{Output, group_mac},
    group::{Group, MAX_FRAMES, Received},
    interned::NONE,
    news::{News, Router},
};

/// Solicitations before a client without a router has failed, and between them (RFC 4861 section 10).
const ROUTER_SOLICITATIONS: u8 = 3;
const ROUTER_SOLICITATION_NS: u64 = 4 * SECOND;
/// Between neighbor solicitations (RetransTimer).
const RETRANS_NS: u64 = SECOND;
/// A router cannot shorten what is left of an address to less than this (RFC 4862 section 5.5.3).
const TWO_HOURS_S: u32 = 7200;
/// Pings of a router, one a second, before it counts as silent.
const PINGS: u8 = 3;
const LINK_LOCAL: u64 = 0xfe80 << 48;
/// Clients that news reach in one poll.
const PORTION: u32 = 1024;

impl Client6 {
    /// When the first of its advertised lifetimes ends.
    pub(crate) fn lifetimes_end_ns(&self, client: &Client, now_ns: u64) -> u64 {
        let prefix = if client.has(is::SLAAC) { self.prefix_until.ns(now_ns) } else { NEVER };
        let router = if self.router == NONE { NEVER } else { self.router_until.ns(now_ns) };
        prefix.min(router)
    }
}

impl Group {
    /// Tells clients what is new on their links.
    pub(crate) fn walk(&mut self, now_ns: u64, out: &mut impl Output) {
        for _ in 0..PORTION {
            if out.room() < MAX_FRAMES {
                return;
            }
            let Some((index, news, at_ns)) = self.walks.next(self.layout.count()) else { return };
            match news {
                News::Gateway { address, mac } => {
                    let v4 = &self.clients[index].v4;
                    if v4.gateway == address && v4.gateway_mac != mac {
                        self.change(index, now_ns, |group| group.found_gateway(index, mac, now_ns, out));
                    }
                }
                News::Router { router, advertisement } => {
                    if self.six[index as usize].phase.is_there() {
                        self.change(index, now_ns, |group| {
                            group.advertised(index, &router, &advertisement, at_ns, out);
                            group.go_on(index, now_ns, out);
                        });
                    }
                }
            }
        }
    }

    pub(crate) fn link_local(&self, index: u32) -> u128 {
        ndp::link_local(self.layout.mac(index)).to_bits()
    }

    /// The address that a client forms of an advertised prefix.
    pub(crate) fn slaac_address(&self, index: u32, prefix: u64) -> u128 {
        u128::from(prefix) << 64 | u128::from(interface_id(self.layout.mac(index)))
    }

    /// Whether an address is a client's own.
    pub(crate) fn has_v6(&self, index: u32, address: u128) -> bool {
        let (client, six) = (&self.clients[index], &self.six[index as usize]);
        client.has(is::LINK_LOCAL) && address == self.link_local(index)
            || client.has(is::SLAAC) && address == self.slaac_address(index, six.prefix)
            || client.has(is::ADDRESS6) && address == six.address
    }

    /// The client in a VLAN that has an address, or looks for its duplicates.
    fn holder(&self, address: u128, tags: Tags) -> Option<u32> {
        let (prefix, interface) = ((address >> 64) as u64, address as u64);
        let by_mac = mac_of(interface).and_then(|mac| self.layout.index_of(mac)).filter(|index| {
            let its = prefix == LINK_LOCAL || prefix == self.six[*index as usize].prefix && prefix != 0;
            its && self.layout.tags(*index) == tags
        });
        by_mac.or_else(|| self.holder6(address, tags))
    }

    /// The address of which a client looks for duplicates.
    fn tentative(&self, index: u32) -> Option<u128> {
        let six = &self.six[index as usize];
        match six.phase {
            Phase6::LinkLocal => Some(self.link_local(index)),
            Phase6::Slaac => Some(self.slaac_address(index, six.prefix)),
            Phase6::Address => Some(six.address),
            _ => None,
        }
    }

    /// A message of ICMPv6; `own` is the client that the frame is for, unless that went to a group.
    pub(crate) fn receive_icmp6(
        &mut self,
        own: Option<u32>,
        received: &Received,
        fixed: &Fixed,
        hop_limit: u8,
        body: &[u8],
        out: &mut impl Output,
    ) {
        let message = match Message::read(fixed.source, fixed.destination, hop_limit, body) {
            Ok(message) => message,
            Err(_) => {
                self.counters.one(Count::Malformed);
                return;
            }
        };
        let (from, now_ns) = (Ipv6Addr::from_bits(fixed.source.0), received.now_ns);
        match message {
            Some(Message::RouterSolicitation) => {}
            Some(Message::RouterAdvertisement(advertisement)) => {
                let mac = advertisement.mac.unwrap_or(received.from);
                let router = Router { address: from.to_bits(), mac };
                self.heard_router(own, router, advertisement, received, out);
            }
            Some(Message::Solicitation { target, mac }) => {
                let Some(index) = self.holder(target.to_bits(), received.tags) else { return };
                if self.has_v6(index, target.to_bits()) {
                    let to = if from.is_unspecified() { None } else { Some((from, mac.unwrap_or(received.from))) };
                    self.send_advertisement(index, target, to, out);
                } else if from.is_unspecified() && self.tentative(index) == Some(target.to_bits()) {
                    self.change(index, now_ns, |group| group.duplicate(index, now_ns, out));
                }
            }
            Some(Message::Advertisement { target, .. }) => {
                let Some(index) = self.holder(target.to_bits(), received.tags) else { return };
                if self.tentative(index) == Some(target.to_bits()) {
                    self.change(index, now_ns, |group| group.duplicate(index, now_ns, out));
                } else if self.has_v6(index, target.to_bits()) {
                    self.counters.one(Count::Duplicates);
                }
            }
            None => {
                let pseudo = pseudo_header_v6(fixed.source, fixed.destination, ICMPV6, body.len());
                if let Some(index) = own.filter(|_| is_right(body, pseudo)) {
                    self.receive_echo6(index, received, fixed, body, out);
                }
            }
        }
    }

    fn heard_router(
        &mut self,
        own: Option<u32>,
        router: Router,
        advertisement: RouterAdvertisement,
        received: &Received,
        out: &mut impl Output,
    ) {
        let now_ns = received.now_ns;
        self.counters.one(Count::RouterAdvertisements);
        if let Some(index) = own {
            self.change(index, now_ns, |group| {
                group.advertised(index, &router, &advertisement, now_ns, out);
                group.go_on(index, now_ns, out);
            });
        } else if received.to[0] & 1 != 0 {
            let news = News::Router { router, advertisement };
            if !self.walks.add(news, received.tags, now_ns, &self.layout) {
                self.counters.one(Count::RouterAdvertisementsDropped);
            }
        }
    }

    /// A client hears what a router advertised at an instant.
    fn advertised(
        &mut self,
        index: u32,
        router: &Router,
        advertisement: &RouterAdvertisement,
        at_ns: u64,
        out: &mut impl Output,
    ) {
        let six = self.six[index as usize];
        if !six.phase.is_there() {
            return;
        }
        let current = self.routers.get(six.router).copied();
        let same = current.is_some_and(|current| current.address == router.address);
        if advertisement.lifetime == 0 {
            if same {
                self.lose_router(index);
            }
        } else if current.is_none() || same {
            // The first router stays while it is one.
            if current != Some(*router) {
                self.lose_router(index);
                match self.routers.take(router) {
                    Some(name) => self.six[index as usize].router = name,
                    None => self.counters.one(Count::TooManyRouters),
                }
                self.changed();
            }
            self.six[index as usize].router_until = Moment::after(at_ns, u32::from(advertisement.lifetime));
        }
        self.clients[index].set(is::MANAGED, advertisement.flags & ndp::MANAGED != 0);
        if let Some(prefix) = advertisement.prefix.filter(|_| self.config.ipv6.is_some_and(|config| config.slaac)) {
            self.advertised_prefix(index, prefix, at_ns);
        }
        let waited =
            self.clients[index].cause6 == Some(Cause::NoRouter) && self.six[index as usize].phase == Phase6::Bound;
        if waited && self.six[index as usize].router != NONE {
            self.clients[index].cause6 = None;
            self.verify6(index, at_ns, out);
        }
    }

    fn advertised_prefix(&mut self, index: u32, prefix: Prefix, at_ns: u64) {
        let (client, six) = (&self.clients[index], &mut self.six[index as usize]);
        if six.prefix != 0 && six.prefix != prefix.bits {
            return;
        }
        let ends_ns = if client.has(is::SLAAC) { six.prefix_until.ns(at_ns) } else { 0 };
        let left_s = (ends_ns.saturating_sub(at_ns) / SECOND).min(u64::from(u32::MAX)) as u32;
        let valid_s = if prefix.valid > TWO_HOURS_S || prefix.valid > left_s {
            prefix.valid
        } else if left_s <= TWO_HOURS_S {
            return;
        } else {
            TWO_HOURS_S
        };
        six.prefix = prefix.bits;
        six.prefix_until = Moment::after(at_ns, valid_s);
    }

    /// A client that waited for a router goes on, if what that said is of use.
    fn go_on(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        if self.six[index as usize].phase == Phase6::Soliciting && self.knows_source(index) {
            self.next6(index, now_ns, out);
        }
    }

    /// Whether a client knows where its addresses come from, or has a lease already.
    fn knows_source(&self, index: u32) -> bool {
        let Some(config) = self.config.ipv6 else { return false };
        let (client, six) = (&self.clients[index], &self.six[index as usize]);
        let advertised = config.slaac && six.prefix != 0;
        let leases = config.dhcp.is_some_and(|dhcp| {
            client.has(is::MANAGED) || dhcp.when == Dhcp6When::Always && !config.slaac || client.has(is::LEASED6)
        });
        advertised || leases
    }

    pub(crate) fn lose_router(&mut self, index: u32) {
        let six = &mut self.six[index as usize];
        let name = core::mem::replace(&mut six.router, NONE);
        six.router_until = Moment::NEVER;
        self.clients[index].set(is::PINGED6, false);
        if name != NONE {
            self.routers.give(name);
            self.changed();
        }
    }

    /// What a router advertised is over.
    pub(crate) fn end_lifetimes(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let six = &self.six[index as usize];
        if six.router != NONE && six.router_until.ns(now_ns) <= now_ns {
            self.lose_router(index);
        }
        let six = &mut self.six[index as usize];
        if self.clients[index].has(is::SLAAC) && six.prefix_until.ns(now_ns) <= now_ns {
            (six.prefix, six.prefix_until) = (0, Moment::NEVER);
            let there = six.phase.is_there();
            self.clients[index].set(is::SLAAC, false);
            self.counters.one(Count::LeasesLost);
            self.changed();
            if there {
                self.next6(index, now_ns, out);
            }
        }
    }

    /// A client starts with IPv6.
    pub(crate) fn start6(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        self.clear6(index);
        self.next6(index, now_ns, out);
    }

    /// Does what a client needs next: its link-local address, a router, the address of its prefix, a lease, the router's answer.
    pub(crate) fn next6(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let Some(config) = self.config.ipv6 else { return };
        let (client, six) = (&self.clients[index], &self.six[index as usize]);
        if !client.has(is::LINK_LOCAL) {
            self.begin_dad(index, Phase6::LinkLocal, now_ns, out);
            return;
        }
        let managed = config.dhcp.is_some() && client.has(is::MANAGED);
        let always = config.dhcp.is_some_and(|dhcp| dhcp.when == Dhcp6When::Always);
        let advertised = config.slaac && six.prefix != 0;
        if !self.knows_source(index) {
            self.begin_soliciting(index, now_ns, out);
        } else if advertised && !client.has(is::SLAAC) {
            self.begin_dad(index, Phase6::Slaac, now_ns, out);
        } else if (managed || always) && !client.has(is::LEASED6) {
            if six.router == NONE {
                // Where packets go is not waited for.
                self.send_router_solicitation(index, out);
            }
            self.start_solicit(index, now_ns, out);
        } else if six.address != 0 && client.has(is::LEASED6) && !client.has(is::ADDRESS6) {
            self.begin_dad(index, Phase6::Address, now_ns, out);
        } else {
            self.verify6(index, now_ns, out);
        }
    }

    fn begin_soliciting(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let six = &mut self.six[index as usize];
        (six.phase, six.tries) = (Phase6::Soliciting, 0);
        self.clients[index].due6_ns = now_ns + ROUTER_SOLICITATION_NS;
        self.send_router_solicitation(index, out);
    }

    fn begin_dad(&mut self, index: u32, phase: Phase6, now_ns: u64, out: &mut impl Output) {
        let six = &mut self.six[index as usize];
        (six.phase, six.tries) = (phase, 0);
        self.step_dad(index, now_ns, out);
    }

    fn step_dad(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let transmits = self.config.ipv6.map_or(0, |config| config.dad_transmits);
        let Some(target) = self.tentative(index) else { return };
        let six = &mut self.six[index as usize];
        if six.tries < transmits {
            six.tries += 1;
            self.clients[index].due6_ns = now_ns + RETRANS_NS;
            self.send_solicitation(index, target, out);
            return;
        }
        let flag = match six.phase {
            Phase6::LinkLocal => is::LINK_LOCAL,
            Phase6::Slaac => is::SLAAC,
            _ => is::ADDRESS6,
        };
        self.clients[index].set(flag, true);
        self.clients[index].due6_ns = NEVER;
        self.changed();
        self.next6(index, now_ns, out);
    }

    /// Another station has the address of which a client looks for duplicates.
    fn duplicate(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        self.counters.one(Count::Duplicates);
        if self.six[index as usize].phase == Phase6::Address {
            self.decline6(index, Cause::Declined, now_ns, out);
            return;
        }
        self.six[index as usize].phase = Phase6::Duplicate;
        self.clients[index].due6_ns = NEVER;
        self.clients[index].cause6 = Some(Cause::DuplicateAddress);
    }

    /// A client has its addresses; its router may have to answer yet.
    fn verify6(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let has_router = self.six[index as usize].router != NONE;
        let pinged = self.clients[index].has(is::PINGED6);
        if !self.config.ping_gateway || pinged || !has_router {
            self.bound6(index, now_ns);
            if self.config.ping_gateway && !has_router {
                self.clients[index].cause6 = Some(Cause::NoRouter);
            }
            return;
        }
        let six = &mut self.six[index as usize];
        (six.phase, six.tries) = (Phase6::Verifying, 0);
        self.clients[index].due6_ns = now_ns + SECOND;
        self.ping_router(index, out);
    }

    /// A client has its addresses.
    pub(crate) fn bound6(&mut self, index: u32, now_ns: u64) {
        let renews_ns = self.t1_ns(index, now_ns);
        let client = &mut self.clients[index];
        client.cause6 = None;
        client.set_restarts6(0);
        // A server with short leases gets no requests in a loop.
        client.due6_ns = renews_ns.max(now_ns + SECOND);
        self.six[index as usize].phase = Phase6::Bound;
    }

    /// Does what is due of a client's IPv6.
    pub(crate) fn step6(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        self.clients[index].due6_ns = NEVER;
        let six = &mut self.six[index as usize];
        let phase = six.phase;
        match phase {
            Phase6::LinkLocal | Phase6::Slaac | Phase6::Address => self.step_dad(index, now_ns, out),
            Phase6::Soliciting => {
                six.tries = six.tries.saturating_add(1);
                let later = six.tries.saturating_sub(ROUTER_SOLICITATIONS - 1).min(32);
                let wait_ns = ROUTER_SOLICITATION_NS.saturating_mul(1 << later).min(self.config.retry.max_ns);
                if six.tries >= ROUTER_SOLICITATIONS {
                    self.clients[index].cause6.get_or_insert(Cause::NoRouter);
                }
                self.clients[index].due6_ns = now_ns + wait_ns;
                self.send_router_solicitation(index, out);
            }
            Phase6::Verifying => {
                six.tries = six.tries.saturating_add(1);
                if six.tries < PINGS {
                    self.clients[index].due6_ns = now_ns + SECOND;
                    self.ping_router(index, out);
                } else {
                    self.bound6(index, now_ns);
                    self.silent_router(index, now_ns);
                }
            }
            Phase6::Bound if self.t1_ns(index, now_ns) > now_ns => {
                // Its router was silent.
                self.ping_router(index, out);
                self.silent_router(index, now_ns);
            }
            Phase6::Idle | Phase6::Duplicate | Phase6::Left => {}
            _ => self.step_dhcp6(index, now_ns, out),
        }
    }

    /// A bound client's router does not answer: pings are repeated later.
    fn silent_router(&mut self, index: u32, now_ns: u64) {
        let due_ns = self.t1_ns(index, now_ns).min(now_ns + self.config.retry.max_ns);
        let client = &mut self.clients[index];
        client.cause6 = Some(Cause::GatewaySilent);
        client.due6_ns = due_ns;
    }

    fn send_router_solicitation(&mut self, index: u32, out: &mut impl Output) {
        if !self.is_room(out) {
            return;
        }
        let (from, to) = (self.link_local(index), ALL_ROUTERS.to_bits());
        let ends = self.ends(index, group_mac(to));
        let write = |into: &mut [u8]| Some(ndp::write_router_solicitation(into, Some(ends.from)));
        if let Some(frame) = self.scratch.icmp6(&ends, (from, to), HOP_LIMIT, write) {
            out.send(frame);
            self.counters.one(Count::RouterSolicitationsSent);
        }
    }

    /// Asks whether another station has an address.
    fn send_solicitation(&mut self, index: u32, target: u128, out: &mut impl Output) {
        if !self.is_room(out) {
            return;
        }
        let target = Ipv6Addr::from_bits(target);
        let to = ndp::solicited_node(target).to_bits();
        let ends = self.ends(index, group_mac(to));
        let write = |into: &mut [u8]| Some(ndp::write_solicitation(into, target, None));
        if let Some(frame) = self.scratch.icmp6(&ends, (0, to), HOP_LIMIT, write) {
            out.send(frame);
            self.counters.one(Count::SolicitationsSent);
        }
    }

    /// Says that a client has an address: to the station that solicits it, or to all.
    fn send_advertisement(&mut self, index: u32, target: Ipv6Addr, to: Option<(Ipv6Addr, Mac)>, out: &mut impl Output) {
        if !self.is_room(out) {
            return;
        }
        let solicited = if to.is_some() { ndp::SOLICITED } else { 0 };
        let (to, mac) = to.unwrap_or((ALL_NODES, group_mac(ALL_NODES.to_bits())));
        let ends = self.ends(index, mac);
        let flags = solicited | ndp::OVERRIDE;
        let write = |into: &mut [u8]| Some(ndp::write_advertisement(into, target, flags, ends.from));
        if let Some(frame) = self.scratch.icmp6(&ends, (target.to_bits(), to.to_bits()), HOP_LIMIT, write) {
            out.send(frame);
            self.counters.one(Count::AdvertisementsSent);
        }
    }
}
