// SPDX-License-Identifier: Apache-2.0
//! The client's part of DHCP (RFC 2131): from DHCPDISCOVER to a lease, which it prolongs, gives back, or loses.
use core::net::Ipv4Addr;

use spate_net::{
    Address,
    dhcp4::{self, Builder, Fixed, Message, option},
    ethernet::Mac,
};

use crate::{
    arp::BROADCAST,
    client::{Cause, Client, NEVER, Phase4, is},
    config::{Config, Dhcp4, Ipv4, SECOND},
    counters::Count,
    frame::Output,
    group::{Group, Leave, Received},
    layout::Layout,
    pattern::MAX_TEXT,
};

/// After an address was declined (RFC 2131 section 3.1).
const DECLINED_NS: u64 = 10 * SECOND;
const EVERYONE: u32 = u32::MAX;

/// What an acknowledgement says.
struct Lease {
    address: u32,
    server: u32,
    gateway: u32,
    prefix_len: u8,
    lease_s: u32,
    t1_s: u32,
    t2_s: u32,
}

impl Lease {
    /// None if it is no lease.
    fn read(message: &Message<'_>) -> Option<Self> {
        let number = |code| match message.option(code) {
            None => Some(None),
            Some(value) => value.try_into().ok().map(|value| Some(u32::from_be_bytes(value))),
        };
        let address = host(message.yiaddr())?;
        let server = host(Ipv4Addr::from_bits(number(option::SERVER_ID)??))?;
        let lease_s = number(option::LEASE_TIME)?.filter(|seconds| *seconds > 0)?;
        let prefix_len = match number(option::SUBNET_MASK)? {
            None => 0,
            Some(mask) => Some(mask.leading_ones()).filter(|ones| mask.count_ones() == *ones)? as u8,
        };
        let gateway = match message.option(option::ROUTER) {
            None => 0,
            // The first is the preferred one.
            Some(value) => host(Ipv4Addr::from(*value.first_chunk::<4>().filter(|_| value.len() % 4 == 0)?))?,
        };
        let (t1_s, t2_s) = if lease_s == dhcp4::INFINITE {
            (lease_s, lease_s)
        } else {
            let given = (number(option::RENEWAL_TIME)?, number(option::REBINDING_TIME)?);
            let usual = (lease_s / 2, (u64::from(lease_s) * 7 / 8) as u32);
            let times = (given.0.unwrap_or(usual.0), given.1.unwrap_or(usual.1));
            // Times in another order are of no use (RFC 2131 section 4.4.5).
            if times.0 > 0 && times.0 <= times.1 && times.1 <= lease_s { times } else { usual }
        };
        Some(Self { address, server, gateway, prefix_len, lease_s, t1_s, t2_s })
    }
}

/// An address that a host can have.
fn host(address: Ipv4Addr) -> Option<u32> {
    Address::v4(address.to_bits()).is_hosts().then(|| address.to_bits())
}

impl Group {
    /// A client that has its address by configuration starts.
    pub(crate) fn start_static(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let Some(Ipv4::Static(fixed)) = self.config.ipv4 else { return };
        let address = fixed.first.to_bits().wrapping_add(self.layout.number(index) as u32);
        let v4 = &mut self.clients[index].v4;
        (v4.address, v4.prefix_len) = (address, fixed.prefix_len);
        v4.gateway = fixed.gateway.map_or(0, Ipv4Addr::to_bits);
        (v4.from_ns, v4.lease_s, v4.t1_s, v4.t2_s) = (now_ns, u32::MAX, u32::MAX, u32::MAX);
        let hash = self.hash(u128::from(address));
        self.table4.insert(hash, index);
        self.given(index, now_ns, out);
    }

    /// A client of DHCP starts.
    pub(crate) fn start_dhcp4(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let client = &mut self.clients[index];
        client.v4.restarts = 0;
        if client.has(is::REMEMBERS) {
            client.set(is::REMEMBERS, false);
            self.start_request(index, Phase4::Rebooting, now_ns, out);
        } else {
            self.start_discover(index, now_ns, out);
        }
    }

    fn start_discover(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let (xid, delay_ns) = (self.random.draw() as u32, self.retry_ns(0));
        let client = &mut self.clients[index];
        if !client.has(is::TIMED) {
            client.started_ns = now_ns;
        }
        let v4 = &mut client.v4;
        (v4.address, v4.server, v4.gateway) = (0, 0, 0);
        (v4.phase, v4.xid, v4.tries, v4.due_ns) = (Phase4::Discovering, xid, 0, now_ns + delay_ns);
        self.send_dhcp4(index, dhcp4::DISCOVER, now_ns, out);
    }

    fn start_request(&mut self, index: u32, phase: Phase4, now_ns: u64, out: &mut impl Output) {
        // A selected offer goes on with its exchange (RFC 2131 section 4.4.1).
        let xid = if phase == Phase4::Requesting { self.clients[index].v4.xid } else { self.random.draw() as u32 };
        let delay_ns = self.retry_ns(0);
        let v4 = &mut self.clients[index].v4;
        (v4.phase, v4.xid, v4.tries) = (phase, xid, 0);
        v4.due_ns = now_ns + delay_ns;
        self.send_dhcp4(index, dhcp4::DHCPREQUEST, now_ns, out);
    }

    /// From the n-th message without an answer until the next: 4, 8, 16, 32, 64 s, more or less (RFC 2131 section 4.1).
    fn retry_ns(&mut self, tries: u8) -> u64 {
        let retry = self.config.retry;
        let doubled = retry.first_ns.saturating_mul(1 << u32::from(tries).min(32)).min(retry.max_ns);
        (doubled + self.up_to(2 * retry.spread_ns)).saturating_sub(retry.spread_ns)
    }

    /// Does what is due of a client's IPv4.
    pub(crate) fn step4(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let retry = self.config.retry;
        let v4 = &mut self.clients[index].v4;
        v4.due_ns = NEVER;
        match v4.phase {
            Phase4::Discovering => {
                v4.tries = v4.tries.saturating_add(1);
                let tries = v4.tries;
                if tries == retry.attempts {
                    self.clients[index].cause4.get_or_insert(Cause::NoOffer);
                }
                self.clients[index].v4.due_ns = now_ns + self.retry_ns(tries.min(retry.attempts));
                self.counters.one(Count::Dhcp4Retransmitted);
                self.send_dhcp4(index, dhcp4::DISCOVER, now_ns, out);
            }
            Phase4::Requesting | Phase4::Rebooting => {
                v4.tries = v4.tries.saturating_add(1);
                let tries = v4.tries;
                if tries < retry.requests {
                    self.clients[index].v4.due_ns = now_ns + self.retry_ns(tries);
                    self.counters.one(Count::Dhcp4Retransmitted);
                    self.send_dhcp4(index, dhcp4::DHCPREQUEST, now_ns, out);
                } else if v4.phase == Phase4::Rebooting {
                    self.start_discover(index, now_ns, out);
                } else {
                    self.restart4(index, Cause::NoAck, 0, now_ns);
                }
            }
            Phase4::Probing => self.step_probe(index, now_ns, out),
            Phase4::Verifying | Phase4::Bound => self.renew4(index, now_ns, out),
            Phase4::Renewing | Phase4::Rebinding => self.step_renew(index, now_ns, out),
            Phase4::Waiting => match self.config.ipv4 {
                Some(Ipv4::Static(_)) => self.start_static(index, now_ns, out),
                _ => self.start_discover(index, now_ns, out),
            },
            Phase4::Unused | Phase4::Idle | Phase4::Left => {}
        }
    }

    /// T1 is over: the client requests a longer lease of the server.
    fn renew4(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let xid = self.random.draw() as u32;
        let v4 = &mut self.clients[index].v4;
        (v4.phase, v4.xid, v4.tries) = (Phase4::Renewing, xid, 0);
        self.step_renew(index, now_ns, out);
    }

    /// The lease gets older: the request is repeated, from T2 on to all servers, and at its end the lease is lost.
    fn step_renew(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let least_ns = self.config.retry.min_renew_ns;
        let v4 = &mut self.clients[index].v4;
        let (t2_ns, end_ns) = (v4.at(v4.t2_s), v4.at(v4.lease_s));
        if now_ns >= end_ns {
            self.counters.one(Count::LeasesLost);
            self.give_up_address(index);
            self.start_discover(index, now_ns, out);
            return;
        }
        if now_ns >= t2_ns && v4.phase == Phase4::Renewing {
            (v4.phase, v4.tries) = (Phase4::Rebinding, 0);
        }
        let until_ns = if v4.phase == Phase4::Renewing { t2_ns } else { end_ns };
        // Half of what is left, but no less than a minute (RFC 2131 section 4.4.5).
        let half_ns = ((until_ns - now_ns) / 2).max(least_ns);
        v4.due_ns = now_ns.saturating_add(half_ns).min(until_ns);
        if v4.tries > 0 {
            self.counters.one(Count::Dhcp4Retransmitted);
        }
        v4.tries = v4.tries.saturating_add(1);
        self.send_dhcp4(index, dhcp4::DHCPREQUEST, now_ns, out);
    }

    /// A datagram to the client's port, of any of the group's clients or of another station.
    pub(crate) fn receive_dhcp4(&mut self, received: &Received, payload: &[u8], out: &mut impl Output) {
        let Some(message) = Message::read(payload) else {
            self.counters.one(Count::Malformed);
            return;
        };
        let index = message.mac().and_then(|mac| self.layout.index_of(mac));
        let Some(index) = index.filter(|index| self.layout.tags(*index) == received.tags) else { return };
        let uses_dhcp = matches!(self.config.ipv4, Some(Ipv4::Dhcp(_)));
        if !uses_dhcp || message.op() != dhcp4::REPLY || self.layout.index_of(received.to).is_some_and(|to| to != index)
        {
            return;
        }
        let now_ns = received.now_ns;
        let v4 = &self.clients[index].v4;
        let waits = match message.kind() {
            Some(dhcp4::OFFER) => v4.phase == Phase4::Discovering,
            Some(dhcp4::ACK | dhcp4::NAK) => {
                matches!(v4.phase, Phase4::Requesting | Phase4::Rebooting | Phase4::Renewing | Phase4::Rebinding)
            }
            _ => false,
        };
        if !waits || message.xid() != v4.xid {
            self.counters.one(Count::Unexpected);
            return;
        }
        match message.kind() {
            Some(dhcp4::OFFER) => self.offered(index, &message, received, out),
            Some(dhcp4::ACK) => match Lease::read(&message) {
                Some(lease) => self.change(index, now_ns, |group| group.acknowledged(index, &lease, received, out)),
                None => self.counters.one(Count::Malformed),
            },
            _ => self.refused(index, &message, now_ns, out),
        }
    }

    fn offered(&mut self, index: u32, offer: &Message<'_>, received: &Received, out: &mut impl Output) {
        let server = offer.option(option::SERVER_ID).and_then(|id| <[u8; 4]>::try_from(id).ok());
        let server = server.and_then(|id| host(id.into()));
        let (Some(address), Some(server)) = (host(offer.yiaddr()), server) else {
            self.counters.one(Count::Malformed);
            return;
        };
        let now_ns = received.now_ns;
        self.counters.one(Count::Dhcp4Offer);
        self.counters.offered(now_ns.saturating_sub(self.clients[index].v4.sent_ns));
        self.change(index, now_ns, |group| {
            let v4 = &mut group.clients[index].v4;
            (v4.address, v4.server, v4.server_mac) = (address, server, received.from);
            group.start_request(index, Phase4::Requesting, now_ns, out);
        });
    }

    fn acknowledged(&mut self, index: u32, lease: &Lease, received: &Received, out: &mut impl Output) {
        let now_ns = received.now_ns;
        let v4 = &self.clients[index].v4;
        let (had, renews) = (v4.address, v4.has_address());
        if v4.phase == Phase4::Requesting && lease.server != v4.server {
            self.counters.one(Count::Unexpected);
            return;
        }
        self.counters.one(Count::Dhcp4Ack);
        self.counters.acknowledged(now_ns.saturating_sub(v4.sent_ns));
        let other = self.holder4(lease.address, received.tags).filter(|other| *other != index);
        if renews && had != lease.address {
            // A server that gives another address than the one that is prolonged.
            self.counters.one(Count::LeasesLost);
            self.give_up_address(index);
        }
        let v4 = &mut self.clients[index].v4;
        let moved = v4.gateway != lease.gateway;
        (v4.address, v4.server, v4.server_mac) = (lease.address, lease.server, received.from);
        (v4.gateway, v4.prefix_len) = (lease.gateway, lease.prefix_len);
        if moved {
            (v4.gateway_mac, v4.gateway_tries) = ([0; 6], 0);
        }
        (v4.lease_s, v4.t1_s, v4.t2_s, v4.from_ns) = (lease.lease_s, lease.t1_s, lease.t2_s, v4.sent_ns);
        if other.is_some() {
            self.counters.one(Count::GivenTwice);
            self.decline4(index, Cause::AddressGivenTwice, now_ns, out);
            return;
        }
        if renews && had == lease.address {
            self.counters.one(Count::Renewals);
            let v4 = &mut self.clients[index].v4;
            (v4.phase, v4.tries, v4.due_ns) = (Phase4::Bound, 0, v4.renew_ns(now_ns));
            if moved {
                self.changed();
                self.clients[index].set(is::PINGED, false);
                self.step_gateway(index, now_ns, out);
            }
            return;
        }
        let hash = self.hash(u128::from(lease.address));
        self.table4.insert(hash, index);
        self.given(index, now_ns, out);
    }

    fn refused(&mut self, index: u32, nak: &Message<'_>, now_ns: u64, out: &mut impl Output) {
        let v4 = &self.clients[index].v4;
        let server = nak.option(option::SERVER_ID).and_then(|id| <[u8; 4]>::try_from(id).ok());
        if v4.phase == Phase4::Requesting && server.is_some_and(|id| u32::from_be_bytes(id) != v4.server) {
            self.counters.one(Count::Unexpected);
            return;
        }
        self.counters.one(Count::Dhcp4Nak);
        self.change(index, now_ns, |group| {
            if group.clients[index].v4.has_address() {
                group.counters.one(Count::LeasesLost);
                group.give_up_address(index);
            }
            let restarts = u32::from(group.clients[index].v4.restarts);
            let retry = group.config.retry;
            // At once the first time, then later and later: a server that refuses all addresses gets no requests in a loop.
            let later = restarts.saturating_sub(1).min(32);
            let delay_ns = if restarts == 0 { 0 } else { retry.first_ns.saturating_mul(1 << later).min(retry.max_ns) };
            group.restart4(index, Cause::Nak, delay_ns, now_ns);
            if group.clients[index].v4.due_ns <= now_ns {
                group.step4(index, now_ns, out);
            }
        });
    }

    /// Refuses the address that was given, as another station has it (RFC 2131 section 3.1).
    pub(crate) fn decline4(&mut self, index: u32, cause: Cause, now_ns: u64, out: &mut impl Output) {
        self.send_dhcp4(index, dhcp4::DECLINE, now_ns, out);
        let address = self.clients[index].v4.address;
        self.give_up_address(index);
        self.restart4(index, cause, DECLINED_NS, now_ns);
        if cause == Cause::AddressGivenTwice {
            // The server's fault is reported at once, with the address.
            self.clients[index].cause4 = Some(cause);
            self.clients[index].v4.address = address;
            self.wait4(index, self.config.retry.max_ns, now_ns);
        }
    }

    /// A client starts again after a time: in the same exchange it fails if that happens too often.
    fn restart4(&mut self, index: u32, cause: Cause, delay_ns: u64, now_ns: u64) {
        let retry = self.config.retry;
        let client = &mut self.clients[index];
        client.v4.restarts = client.v4.restarts.saturating_add(1);
        let failed = client.v4.restarts >= retry.restarts;
        if failed {
            client.cause4.get_or_insert(cause);
        }
        self.wait4(index, if failed { retry.max_ns } else { delay_ns }, now_ns);
    }

    pub(crate) fn wait4(&mut self, index: u32, delay_ns: u64, now_ns: u64) {
        let v4 = &mut self.clients[index].v4;
        (v4.phase, v4.due_ns, v4.aux_ns) = (Phase4::Waiting, now_ns.saturating_add(delay_ns), NEVER);
    }

    /// A client has its address no more.
    pub(crate) fn give_up_address(&mut self, index: u32) {
        let address = self.clients[index].v4.address;
        let hash = self.hash(u128::from(address));
        if self.table4.remove(hash, index) {
            self.changed();
        }
        let v4 = &mut self.clients[index].v4;
        (v4.address, v4.gateway, v4.gateway_mac) = (0, 0, [0; 6]);
        (v4.aux_ns, v4.announcements) = (NEVER, 0);
    }

    pub(crate) fn leave4(&mut self, index: u32, how: Leave, now_ns: u64, out: &mut impl Output) {
        let v4 = &self.clients[index].v4;
        let (had, address) = (v4.has_address(), v4.address);
        let leased = had && matches!(self.config.ipv4, Some(Ipv4::Dhcp(_)));
        if leased && how == Leave::Release {
            let xid = self.random.draw() as u32;
            self.clients[index].v4.xid = xid;
            self.send_dhcp4(index, dhcp4::RELEASE, now_ns, out);
        }
        self.give_up_address(index);
        let client = &mut self.clients[index];
        client.set(is::REMEMBERS, leased && how == Leave::Keep);
        client.v4.address = if leased && how == Leave::Keep { address } else { 0 };
        (client.v4.phase, client.v4.due_ns) = (Phase4::Left, NEVER);
    }

    /// The MAC to which what goes to the server is sent: its own or, if it is not on the link, the gateway's.
    fn server_hop(client: &Client) -> Mac {
        let v4 = &client.v4;
        let on_link = v4.prefix_len == 0 || (v4.server ^ v4.address).leading_zeros() >= u32::from(v4.prefix_len);
        if on_link || v4.gateway_mac == [0; 6] { v4.server_mac } else { v4.gateway_mac }
    }

    fn send_dhcp4(&mut self, index: u32, kind: u8, now_ns: u64, out: &mut impl Output) {
        let client = &mut self.clients[index];
        client.v4.sent_ns = now_ns;
        let client = &self.clients[index];
        if !self.is_room(out) {
            return;
        }
        let v4 = &client.v4;
        let unicast = kind == dhcp4::RELEASE || kind == dhcp4::DHCPREQUEST && v4.phase == Phase4::Renewing;
        let has_address = v4.has_address() && kind != dhcp4::DECLINE;
        let source = if has_address { v4.address } else { 0 };
        let (to, destination) = if unicast { (Self::server_hop(client), v4.server) } else { (BROADCAST, EVERYONE) };
        let ends = self.ends(index, to);
        let ports = (dhcp4::CLIENT_PORT, dhcp4::SERVER_PORT);
        let (config, layout) = (&self.config, &self.layout);
        let write = |into: &mut [u8]| message(config, layout, client, index, kind, now_ns, into);
        let Some(frame) = self.scratch.udp4(&ends, (source, destination), ports, write) else { return };
        out.send(frame);
        self.counters.one(match kind {
            dhcp4::DISCOVER => Count::Dhcp4Discover,
            dhcp4::DECLINE => Count::Dhcp4Decline,
            dhcp4::RELEASE => Count::Dhcp4Release,
            _ => Count::Dhcp4Request,
        });
    }
}

/// Writes a message: which fields and options it has says table 5 of RFC 2131.
fn message(
    config: &Config,
    layout: &Layout,
    client: &Client,
    index: u32,
    kind: u8,
    now_ns: u64,
    into: &mut [u8],
) -> Option<usize> {
    let Some(Ipv4::Dhcp(dhcp)) = &config.ipv4 else { return None };
    let v4 = &client.v4;
    let (mac, number) = (layout.mac(index), layout.number(index));
    let requests = matches!(kind, dhcp4::DISCOVER | dhcp4::DHCPREQUEST);
    let renews = kind == dhcp4::DHCPREQUEST && v4.has_address();
    let started_ns = if renews { v4.at(v4.t1_s) } else { client.started_ns };
    let secs = if requests { (now_ns.saturating_sub(started_ns) / SECOND).min(0xffff) as u16 } else { 0 };
    let fixed = Fixed {
        op: dhcp4::REQUEST,
        xid: v4.xid,
        secs,
        flags: if requests && !renews && dhcp.broadcast { dhcp4::BROADCAST } else { 0 },
        ciaddr: Ipv4Addr::from_bits(if renews || kind == dhcp4::RELEASE { v4.address } else { 0 }),
        mac,
        ..Fixed::default()
    };
    let mut message = Builder::new(into, &fixed, kind)?;
    let mut text = [0; MAX_TEXT];
    match &dhcp.client_id {
        None => message.option(option::CLIENT_ID, &[1, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]]),
        Some(id) => {
            let mut typed = [0; MAX_TEXT + 1];
            let id = id.write(number, &mut text);
            typed[1..=id.len()].copy_from_slice(id);
            message.option(option::CLIENT_ID, &typed[..=id.len()]);
        }
    }
    let names_address = kind == dhcp4::DECLINE || kind == dhcp4::DHCPREQUEST && !renews;
    if names_address {
        message.option(option::REQUESTED_ADDRESS, &v4.address.to_be_bytes());
    }
    let names_server = matches!(kind, dhcp4::DECLINE | dhcp4::RELEASE) || v4.phase == Phase4::Requesting;
    if names_server {
        message.option(option::SERVER_ID, &v4.server.to_be_bytes());
    }
    if requests {
        ask(config, dhcp, number, &mut message);
    }
    relay(dhcp, number, &mut message);
    message.finish()
}

/// The options of requests.
fn ask(config: &Config, dhcp: &Dhcp4, number: u64, message: &mut Builder<'_>) {
    let mut text = [0; MAX_TEXT];
    if let Some(seconds) = dhcp.lease_time {
        message.option(option::LEASE_TIME, &seconds.to_be_bytes());
    }
    message.option(option::MAX_SIZE, &1500_u16.to_be_bytes());
    if let Some(name) = &config.hostname {
        message.option(option::HOST_NAME, name.write(number, &mut text));
    }
    for (code, value) in [
        (option::VENDOR_CLASS, &dhcp.vendor_class),
        (option::VENDOR_SPECIFIC, &dhcp.vendor_specific),
        (option::PARAMETER_LIST, &dhcp.requested_options),
    ] {
        if !value.is_empty() {
            message.option(code, value);
        }
    }
}

/// Relay agent information (RFC 3046), the last option.
fn relay(dhcp: &Dhcp4, number: u64, message: &mut Builder<'_>) {
    let (mut value, mut len) = ([0; MAX_TEXT], 0);
    for (code, id) in [(1, &dhcp.circuit_id), (2, &dhcp.remote_id)] {
        let mut text = [0; MAX_TEXT];
        let Some(id) = id.as_ref().map(|id| id.write(number, &mut text)) else { continue };
        let Some(room) = value.get_mut(len..len + 2 + id.len()) else { continue };
        room[..2].copy_from_slice(&[code, id.len() as u8]);
        room[2..].copy_from_slice(id);
        len += room.len();
    }
    if len > 0 {
        message.option(option::RELAY_AGENT, &value[..len]);
    }
}
