// SPDX-License-Identifier: Apache-2.0
//! A DHCP server and a gateway, in one, with the faults that servers have.
use std::collections::{HashMap, HashSet};

use spate_net::{
    Headers,
    arp::{self, Arp},
    dhcp4::{self, Builder, Fixed, Message, option},
    ethernet::{self, ARP, Link, Mac},
    ip::ICMP,
    vlan::Tags,
};

use super::{Ends, Peer, icmp4, udp4};

pub const SERVER_MAC: Mac = [2, 0x20, 0, 0, 0, 1];
pub const GATEWAY_MAC: Mac = [2, 0x20, 0, 0, 0, 2];
pub const SERVER: u32 = 0x0a00_0001;
pub const GATEWAY: u32 = 0x0a00_0002;
pub const FIRST: u32 = 0x0a01_0000;
const EVERYONE: Mac = [0xff; 6];

/// What a client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub at_ns: u64,
    pub mac: Mac,
    pub kind: u8,
    pub broadcast: bool,
    pub ciaddr: u32,
    pub requested: Option<u32>,
    pub server: Option<u32>,
    pub secs: u16,
    pub to: Mac,
}

pub struct Server {
    pub address: u32,
    /// From which its answers come: its own MAC, or a relay's.
    pub mac: Mac,
    pub relay: u32,
    pub gateway: Option<u32>,
    pub gateway_answers: bool,
    pub gateway_pings: bool,
    pub lease_s: u32,
    pub times: Option<(u32, u32)>,
    pub is_up: bool,
    /// Requests that are refused.
    pub naks: u32,
    /// Acknowledges nothing.
    pub is_mute: bool,
    /// Gives all clients this address.
    pub same: Option<u32>,
    pub next: u32,
    pub leases: HashMap<(Tags, Mac), u32>,
    pub declined: HashSet<u32>,
    /// Addresses of other stations: they answer probes.
    pub taken: HashSet<u32>,
    pub seen: Vec<Seen>,
    /// Probes that were answered.
    pub answered: u64,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            address: SERVER,
            mac: SERVER_MAC,
            relay: 0,
            gateway: Some(GATEWAY),
            gateway_answers: true,
            gateway_pings: true,
            lease_s: 3600,
            times: None,
            is_up: true,
            naks: 0,
            is_mute: false,
            same: None,
            next: FIRST,
            leases: HashMap::new(),
            declined: HashSet::new(),
            taken: HashSet::new(),
            seen: Vec::new(),
            answered: 0,
        }
    }
}

impl Server {
    pub fn kinds(&self) -> Vec<u8> {
        self.seen.iter().map(|seen| seen.kind).collect()
    }

    fn address_of(&mut self, tags: Tags, mac: Mac) -> u32 {
        if let Some(same) = self.same {
            return same;
        }
        if let Some(address) = self.leases.get(&(tags, mac)).filter(|address| !self.declined.contains(*address)) {
            return *address;
        }
        self.next += 1;
        self.leases.insert((tags, mac), self.next - 1);
        self.next - 1
    }

    fn dhcp(&mut self, frame: &[u8], message: &Message<'_>, now_ns: u64) -> Vec<Vec<u8>> {
        let (mac, tags) = (message.mac().unwrap(), Tags::of(frame).unwrap());
        let number = |code| message.option(code).map(|value| u32::from_be_bytes(value.try_into().unwrap()));
        let (requested, server) = (number(option::REQUESTED_ADDRESS), number(option::SERVER_ID));
        let kind = message.kind().unwrap();
        let ciaddr = message.ciaddr().to_bits();
        self.seen.push(Seen {
            at_ns: now_ns,
            mac,
            kind,
            broadcast: frame[..6] == EVERYONE,
            ciaddr,
            requested,
            server,
            secs: message.secs(),
            to: frame[..6].try_into().unwrap(),
        });
        if !self.is_up || server.is_some_and(|server| server != self.address) {
            return Vec::new();
        }
        let answer = match kind {
            dhcp4::DISCOVER => Some((dhcp4::OFFER, self.address_of(tags, mac))),
            dhcp4::DHCPREQUEST if self.is_mute => None,
            dhcp4::DHCPREQUEST if self.naks > 0 => {
                self.naks -= 1;
                Some((dhcp4::NAK, 0))
            }
            dhcp4::DHCPREQUEST => {
                let wanted = requested.unwrap_or(ciaddr);
                let given = self.address_of(tags, mac);
                Some(if wanted == given { (dhcp4::ACK, given) } else { (dhcp4::NAK, 0) })
            }
            dhcp4::DECLINE => {
                self.declined.extend(requested);
                None
            }
            dhcp4::RELEASE => {
                assert_eq!(self.leases.remove(&(tags, mac)), Some(ciaddr));
                None
            }
            other => panic!("a client sent a message of type {other}"),
        };
        answer.map(|(kind, address)| self.reply(frame, message, kind, address)).into_iter().collect()
    }

    fn reply(&self, frame: &[u8], message: &Message<'_>, kind: u8, address: u32) -> Vec<u8> {
        let fixed = Fixed {
            op: dhcp4::REPLY,
            xid: message.xid(),
            flags: message.flags(),
            yiaddr: address.into(),
            giaddr: self.relay.into(),
            mac: message.mac().unwrap(),
            ..Fixed::default()
        };
        let mut bytes = [0; 600];
        let mut reply = Builder::new(&mut bytes, &fixed, kind).unwrap();
        reply.option(option::SERVER_ID, &self.address.to_be_bytes());
        if kind != dhcp4::NAK {
            reply.option(option::LEASE_TIME, &self.lease_s.to_be_bytes());
            reply.option(option::SUBNET_MASK, &[255, 0, 0, 0]);
            if let Some(gateway) = self.gateway {
                reply.option(option::ROUTER, &gateway.to_be_bytes());
            }
            if let Some((t1, t2)) = self.times {
                reply.option(option::RENEWAL_TIME, &t1.to_be_bytes());
                reply.option(option::REBINDING_TIME, &t2.to_be_bytes());
            }
        }
        let len = reply.finish().unwrap();
        let broadcast = kind == dhcp4::NAK || message.flags() & dhcp4::BROADCAST != 0;
        let mut ends = Ends::answer(frame, self.mac);
        if broadcast {
            ends.to = EVERYONE;
        }
        let to = if broadcast { u32::MAX } else { address };
        udp4(ends, (self.address, to), (dhcp4::SERVER_PORT, dhcp4::CLIENT_PORT), &bytes[..len])
    }

    fn arp(&mut self, frame: &[u8], packet: &Arp) -> Vec<Vec<u8>> {
        let target = packet.target.to_bits();
        let gateway = self.gateway_answers && self.gateway == Some(target);
        let taken = self.taken.contains(&target) && packet.sender != packet.target;
        if packet.operation != arp::REQUEST || !gateway && !taken {
            return Vec::new();
        }
        self.answered += u64::from(taken);
        let mac = if gateway { GATEWAY_MAC } else { [2, 0x30, 0, 0, 0, 9] };
        vec![arp_frame(Ends::answer(frame, mac), arp::REPLY, target, packet.sender.to_bits())]
    }
}

impl Peer for Server {
    fn receive(&mut self, frame: &[u8], now_ns: u64) -> Vec<Vec<u8>> {
        let link = Link::find(frame).unwrap();
        if link.ethertype == ARP {
            return self.arp(frame, &Arp::read(&frame[link.end..]).unwrap());
        }
        let headers = Headers::find(frame).unwrap();
        let (protocol, at) = headers.transport.unwrap();
        if protocol == ICMP {
            let end = headers.packet_end(frame);
            let (from, to) = (headers.source(frame).as_v4().unwrap(), headers.destination(frame).as_v4().unwrap());
            let pinged = self.gateway_pings && self.gateway == Some(to) && frame[at] == 8;
            let reply = |reply: &mut Vec<u8>| reply[0] = 0;
            let mut message = frame[at..end].to_vec();
            reply(&mut message);
            let ends = Ends::answer(frame, GATEWAY_MAC);
            return if pinged { vec![icmp4(ends, (to, from), &message)] } else { Vec::new() };
        }
        let end = headers.packet_end(frame);
        let message = Message::read(&frame[at + 8..end]).expect("clients send valid messages");
        self.dhcp(frame, &message, now_ns)
    }
}

/// An ARP packet of a station.
pub fn arp_frame(ends: Ends, operation: u16, sender: u32, target: u32) -> Vec<u8> {
    let packet = Arp {
        operation,
        sender_mac: ends.from,
        sender: sender.into(),
        target_mac: if operation == arp::REPLY { ends.to } else { [0; 6] },
        target: target.into(),
    };
    ethernet::build(ends.to, ends.from, ends.tags, ARP, &packet.bytes())
}
