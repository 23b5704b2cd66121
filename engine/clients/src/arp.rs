// SPDX-License-Identifier: Apache-2.0
//! ARP (RFC 826) of clients: answers, the gateway's MAC address, and other stations with a client's address (RFC 5227).
use spate_net::{
    arp::{self, Arp},
    ethernet::Mac,
};

use crate::{
    client::{Cause, Moment, NEVER, Phase4, is},
    config::{Ipv4, Probe, SECOND},
    counters::Count,
    frame::Output,
    group::{Group, Received},
};

pub(crate) const BROADCAST: Mac = [0xff; 6];
const UNKNOWN: Mac = [0; 6];
/// Announcements of an address that was probed, and between them (RFC 5227 section 1.1).
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_NS: u64 = 2 * SECOND;
/// An address is given up if another station has it twice within this time (RFC 5227 section 2.4).
const DEFEND_NS: u64 = 10 * SECOND;
/// Requests to a gateway, and between them, before it counts as silent.
const GATEWAY_TRIES: u8 = 3;
const GATEWAY_NS: u64 = SECOND;

impl Group {
    pub(crate) fn receive_arp(&mut self, received: &Received, packet: &[u8], out: &mut impl Output) {
        let Some(packet) = Arp::read(packet) else { return };
        let own = self.layout.index_of(received.to).filter(|index| self.layout.tags(*index) == received.tags);
        let sender_is_station = packet.sender_mac[0] & 1 == 0 && packet.sender_mac != UNKNOWN;
        if !sender_is_station || self.layout.index_of(packet.sender_mac).is_some() {
            return;
        }
        let now_ns = received.now_ns;
        let (sender, target) = (packet.sender.to_bits(), packet.target.to_bits());
        if let Some(index) = self.holder4(sender, received.tags) {
            self.change(index, now_ns, |group| group.conflict(index, now_ns, out));
        }
        let requested = self.holder4(target, received.tags).filter(|_| packet.operation == arp::REQUEST);
        if let Some(index) = requested.filter(|_| received.to == BROADCAST || own == requested) {
            if self.clients[index].v4.phase == Phase4::Probing && sender == 0 {
                // Another station probes for it, too.
                self.change(index, now_ns, |group| group.conflict(index, now_ns, out));
            } else if self.clients[index].v4.has_address() && sender != target && self.is_room(out) {
                let ends = self.ends(index, packet.sender_mac);
                let reply = Arp {
                    operation: arp::REPLY,
                    sender_mac: ends.from,
                    sender: packet.target,
                    target_mac: packet.sender_mac,
                    target: packet.sender,
                };
                out.send(self.scratch.arp(&ends, &reply));
                self.counters.one(Count::ArpRepliesSent);
            }
        }
        // Replies come to the client, and requests for its address say where the gateway is, too.
        let informed = if packet.operation == arp::REPLY { own } else { requested };
        if let Some(index) = informed.filter(|index| self.clients[*index].v4.gateway == sender && sender != 0) {
            self.change(index, now_ns, |group| group.found_gateway(index, packet.sender_mac, now_ns, out));
        }
        if received.to == BROADCAST && sender != 0 && sender == target {
            self.walks.announced(sender, packet.sender_mac, received.tags, &self.layout);
        }
    }

    /// The gateway of a client is at a MAC.
    pub(crate) fn found_gateway(&mut self, index: u32, mac: Mac, now_ns: u64, out: &mut impl Output) {
        let client = &mut self.clients[index];
        let before = core::mem::replace(&mut client.v4.gateway_mac, mac);
        if before != mac {
            self.changed();
        }
        let client = &mut self.clients[index];
        if before == UNKNOWN && client.v4.has_address() {
            client.v4.gateway_tries = 0;
            if self.config.ping_gateway && !client.has(is::PINGED) {
                self.query_gateway(index, now_ns, out);
            }
        }
    }

    /// Another station has a client's address.
    fn conflict(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let v4 = &mut self.clients[index].v4;
        if v4.has_address() {
            let last_ns = v4.conflict_at.ns(now_ns);
            v4.conflict_at = Moment::at(now_ns);
            if last_ns == NEVER || now_ns.saturating_sub(last_ns) > DEFEND_NS {
                self.counters.one(Count::Duplicates);
                self.announce(index, out);
                return;
            }
            self.counters.one(Count::LeasesLost);
        } else if v4.phase != Phase4::Probing {
            return;
        }
        self.counters.one(Count::Duplicates);
        match self.config.ipv4 {
            Some(Ipv4::Static(_)) => {
                self.give_up_address(index);
                self.clients[index].cause4 = Some(Cause::DuplicateAddress);
                self.wait4(index, self.config.retry.max_ns, now_ns);
            }
            _ => self.decline4(index, Cause::Declined, now_ns, out),
        }
    }

    fn probe_config(&self) -> Option<Probe> {
        match &self.config.ipv4 {
            Some(Ipv4::Dhcp(dhcp)) => dhcp.probe,
            Some(Ipv4::Static(fixed)) => fixed.probe,
            None => None,
        }
    }

    /// A client has been given an address: it probes for it, or has it.
    pub(crate) fn given(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let Some(probe) = self.probe_config().filter(|probe| probe.count > 0) else {
            self.has_address(index, now_ns, out);
            return;
        };
        let delay_ns = if probe.delay_ns > 0 { self.up_to(probe.delay_ns) } else { 0 };
        let v4 = &mut self.clients[index].v4;
        (v4.phase, v4.tries, v4.due_ns) = (Phase4::Probing, 0, now_ns + delay_ns);
        if delay_ns == 0 {
            self.step_probe(index, now_ns, out);
        }
    }

    pub(crate) fn step_probe(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let Some(probe) = self.probe_config() else { return };
        if self.clients[index].v4.tries >= probe.count {
            self.has_address(index, now_ns, out);
            return;
        }
        let (least, greatest) = probe.interval_ns;
        let interval_ns = least + if greatest > least { self.up_to(greatest - least) } else { 0 };
        let v4 = &mut self.clients[index].v4;
        v4.tries += 1;
        let last = v4.tries >= probe.count;
        v4.due_ns = now_ns + if last { probe.wait_ns } else { interval_ns };
        let address = v4.address;
        self.send_arp(index, BROADCAST, (0, address), Count::ArpProbesSent, out);
    }

    /// A client uses its address from now on.
    fn has_address(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let probed = self.probe_config().is_some_and(|probe| probe.count > 0);
        let ping = self.config.ping_gateway;
        let client = &mut self.clients[index];
        client.set(is::PINGED, false);
        client.cause4 = None;
        let v4 = &mut client.v4;
        v4.restarts = 0;
        v4.tries = 0;
        v4.conflict_at = Moment::NEVER;
        v4.due_ns = v4.renew_ns(now_ns);
        v4.gateway_tries = 0;
        v4.announcements = if probed { ANNOUNCEMENTS } else { 0 };
        v4.announce_at = Moment::at(now_ns);
        v4.phase = if ping && v4.gateway != 0 { Phase4::Verifying } else { Phase4::Bound };
        if ping && v4.gateway == 0 {
            client.cause4 = Some(Cause::NoRouter);
        }
        self.changed();
        self.step_gateway(index, now_ns, out);
    }

    /// Sends an announcement that is due, and a request to the gateway unless that has answered.
    pub(crate) fn step_gateway(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let v4 = &mut self.clients[index].v4;
        v4.aux_ns = NEVER;
        if !v4.has_address() {
            return;
        }
        if v4.announcements > 0 {
            if v4.announce_at.ns(now_ns) <= now_ns {
                v4.announcements -= 1;
                v4.announce_at = Moment::at(now_ns + ANNOUNCE_NS);
                self.announce(index, out);
            }
            let v4 = &mut self.clients[index].v4;
            if v4.announcements > 0 {
                v4.aux_ns = v4.announce_at.ns(now_ns).max(now_ns + 1);
            }
        }
        self.query_gateway(index, now_ns, out);
    }

    /// Asks where the gateway is, or whether it is there.
    fn query_gateway(&mut self, index: u32, now_ns: u64, out: &mut impl Output) {
        let (resolve, ping, max_ns) = (self.config.resolve_gateway, self.config.ping_gateway, self.config.retry.max_ns);
        let client = &mut self.clients[index];
        let pinged = client.has(is::PINGED);
        let v4 = &mut client.v4;
        let known = v4.gateway_mac != UNKNOWN;
        if v4.gateway == 0 || known && (!ping || pinged) || !(known || resolve || ping) {
            return;
        }
        let silent = v4.gateway_tries >= GATEWAY_TRIES;
        v4.gateway_tries = v4.gateway_tries.saturating_add(1);
        let wait_ns = if v4.gateway_tries > GATEWAY_TRIES { max_ns } else { GATEWAY_NS };
        v4.aux_ns = v4.aux_ns.min(now_ns + wait_ns);
        if silent && ping {
            if v4.phase == Phase4::Verifying {
                v4.phase = Phase4::Bound;
            }
            client.cause4 = Some(Cause::GatewaySilent);
        }
        let v4 = &self.clients[index].v4;
        if known {
            self.ping_gateway4(index, out);
        } else {
            let addresses = (v4.address, v4.gateway);
            self.send_arp(index, BROADCAST, addresses, Count::ArpRequestsSent, out);
        }
    }

    fn announce(&mut self, index: u32, out: &mut impl Output) {
        let address = self.clients[index].v4.address;
        self.send_arp(index, BROADCAST, (address, address), Count::ArpAnnouncementsSent, out);
    }

    /// Sends a request from an address, 0 of a probe, for one.
    fn send_arp(&mut self, index: u32, to: Mac, (sender, target): (u32, u32), count: Count, out: &mut impl Output) {
        if !self.is_room(out) {
            return;
        }
        let ends = self.ends(index, to);
        let request = Arp {
            operation: arp::REQUEST,
            sender_mac: ends.from,
            sender: sender.into(),
            target_mac: UNKNOWN,
            target: target.into(),
        };
        out.send(self.scratch.arp(&ends, &request));
        self.counters.one(count);
    }
}
