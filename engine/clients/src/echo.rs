// SPDX-License-Identifier: Apache-2.0
//! Echo (RFC 792, RFC 4443 section 4): clients answer pings, and ping their gateway if they are to check it.
use spate_net::{
    field::{be16, put_be16},
    icmp::{ECHO_REPLY, ECHO_REQUEST, HEADER},
    icmpv6::{ECHO_REPLY as ECHO_REPLY_V6, ECHO_REQUEST as ECHO_REQUEST_V6},
    ip::{Fixed, is_right},
};

use crate::{
    client::{Cause, Phase4, Phase6, is},
    counters::Count,
    frame::Output,
    group::{Group, Received},
};

const HOP_LIMIT: u8 = 64;

/// Writes a message of echo: what is behind its checksum.
fn write(kind: u8, rest: &[u8], into: &mut [u8]) -> Option<usize> {
    let message = into.get_mut(..4 + rest.len())?;
    message[..4].copy_from_slice(&[kind, 0, 0, 0]);
    message[4..].copy_from_slice(rest);
    Some(message.len())
}

/// Identifier and sequence number of a request.
fn identity(index: u32, tries: u8) -> [u8; 4] {
    let mut bytes = [0; 4];
    put_be16(&mut bytes, 0, index as u16);
    put_be16(&mut bytes, 2, u16::from(tries));
    bytes
}

impl Group {
    /// A message of ICMP for a client of its own VLAN.
    pub(crate) fn receive_echo4(
        &mut self,
        index: u32,
        received: &Received,
        fixed: &Fixed,
        message: &[u8],
        out: &mut impl Output,
    ) {
        let (Some(from), Some(to)) = (fixed.source.as_v4(), fixed.destination.as_v4()) else { return };
        let v4 = &self.clients[index].v4;
        if !v4.has_address() || v4.address != to || message[1] != 0 || !is_right(message, 0) {
            return;
        }
        match message[0] {
            ECHO_REQUEST if fixed.source.is_hosts() && self.is_room(out) => {
                let ends = self.ends(index, received.from);
                let reply = self.scratch.icmp4(&ends, (to, from), |into| write(ECHO_REPLY, &message[4..], into));
                if let Some(reply) = reply {
                    out.send(reply);
                    self.counters.one(Count::EchoRepliesSent);
                }
            }
            ECHO_REPLY if from == v4.gateway && be16(message, 4) == index as u16 && self.config.ping_gateway => {
                self.counters.one(Count::EchoRepliesReceived);
                self.change(index, received.now_ns, |group| {
                    let client = &mut group.clients[index];
                    client.set(is::PINGED, true);
                    if client.v4.phase == Phase4::Verifying {
                        client.v4.phase = Phase4::Bound;
                    }
                    if client.cause4 == Some(Cause::GatewaySilent) {
                        client.cause4 = None;
                    }
                });
            }
            _ => {}
        }
    }

    pub(crate) fn ping_gateway4(&mut self, index: u32, out: &mut impl Output) {
        if !self.is_room(out) {
            return;
        }
        let v4 = self.clients[index].v4;
        let ends = self.ends(index, v4.gateway_mac);
        let identity = identity(index, v4.gateway_tries);
        let request = self.scratch.icmp4(&ends, (v4.address, v4.gateway), |into| write(ECHO_REQUEST, &identity, into));
        if let Some(request) = request {
            out.send(request);
            self.counters.one(Count::EchoRequestsSent);
        }
    }

    /// An echo message of ICMPv6 with a right checksum for a client of its own VLAN.
    pub(crate) fn receive_echo6(
        &mut self,
        index: u32,
        received: &Received,
        fixed: &Fixed,
        message: &[u8],
        out: &mut impl Output,
    ) {
        let (from, to) = (fixed.source.0, fixed.destination.0);
        if message.len() < HEADER || message[1] != 0 || !self.has_v6(index, to) {
            return;
        }
        match message[0] {
            ECHO_REQUEST_V6 if fixed.source.is_hosts() && self.is_room(out) => {
                let ends = self.ends(index, received.from);
                let reply =
                    self.scratch.icmp6(&ends, (to, from), HOP_LIMIT, |into| write(ECHO_REPLY_V6, &message[4..], into));
                if let Some(reply) = reply {
                    out.send(reply);
                    self.counters.one(Count::EchoRepliesSent);
                }
            }
            ECHO_REPLY_V6 if self.config.ping_gateway && be16(message, 4) == index as u16 => {
                let router = self.routers.get(self.six[index as usize].router);
                if router.is_none_or(|router| router.address != from) {
                    return;
                }
                self.counters.one(Count::EchoRepliesReceived);
                self.change(index, received.now_ns, |group| {
                    let client = &mut group.clients[index];
                    client.set(is::PINGED6, true);
                    if client.cause6 == Some(Cause::GatewaySilent) {
                        client.cause6 = None;
                    }
                    if group.six[index as usize].phase == Phase6::Verifying {
                        group.bound6(index, received.now_ns);
                    }
                });
            }
            _ => {}
        }
    }

    /// Pings the router of a client from its link-local address.
    pub(crate) fn ping_router(&mut self, index: u32, out: &mut impl Output) {
        let six = &self.six[index as usize];
        let (Some(router), tries) = (self.routers.get(six.router).copied(), six.tries) else { return };
        if !self.is_room(out) {
            return;
        }
        let ends = self.ends(index, router.mac);
        let (identity, from) = (identity(index, tries), self.link_local(index));
        let request = self
            .scratch
            .icmp6(&ends, (from, router.address), HOP_LIMIT, |into| write(ECHO_REQUEST_V6, &identity, into));
        if let Some(request) = request {
            out.send(request);
            self.counters.one(Count::EchoRequestsSent);
        }
    }
}
