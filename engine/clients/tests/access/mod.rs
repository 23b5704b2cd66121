// SPDX-License-Identifier: Apache-2.0
//! An access network in virtual time: a group of clients, and what is at the other end of their link.
#![allow(dead_code, reason = "each test program uses a part of it")]
pub mod peer4;
pub mod peer6;

use std::{cmp::Reverse, collections::BinaryHeap};

use spate_clients::{Cause, Config, Count, Group, State};
use spate_net::{
    Address, checksum,
    ethernet::{self, IPV4, IPV6, Mac},
    field::put_be16,
    ip::{ICMP, ICMPV6, UDP},
    ipv4, ipv6, udp,
    vlan::Tags,
};
use spate_stateful::random::Numbers;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;
pub const FIRST_MAC: Mac = [2, 0x10, 0, 0, 0, 0];

/// What is at the other end.
pub trait Peer {
    /// Takes a frame, and gives what it answers.
    fn receive(&mut self, frame: &[u8], now_ns: u64) -> Vec<Vec<u8>>;
}

/// Frames on their way, the earliest first.
type Wire = BinaryHeap<Reverse<(u64, u64, Vec<u8>)>>;

/// Both ends of a link.
pub struct Net<P> {
    pub group: Group,
    pub peer: P,
    pub now_ns: u64,
    /// One way.
    pub delay_ns: u64,
    /// Frames that are lost, in parts per million.
    pub loss: u32,
    /// When each frame of clients was sent, if `keeps` says so.
    pub sent: Vec<(u64, Vec<u8>)>,
    pub keeps: fn(&[u8]) -> bool,
    to_peer: Wire,
    to_group: Wire,
    frames: u64,
    random: Numbers,
}

impl<P: Peer> Net<P> {
    pub fn new(config: Config, peer: P) -> Self {
        let mut group = Group::new(config, 0).unwrap();
        group.start_all(0);
        Self {
            group,
            peer,
            now_ns: 0,
            delay_ns: 100_000,
            loss: 0,
            sent: Vec::new(),
            keeps: |_| true,
            to_peer: Wire::new(),
            to_group: Wire::new(),
            frames: 0,
            random: Numbers::new(7),
        }
    }

    /// Lets the time go on to an instant.
    pub fn run(&mut self, until_ns: u64) {
        while self.now_ns <= until_ns {
            let mut out: Vec<Vec<u8>> = Vec::new();
            while let Some(frame) = due(&mut self.to_group, self.now_ns) {
                self.group.receive(&frame, Tags::of(&frame).unwrap(), self.now_ns, &mut out);
            }
            self.group.poll(self.now_ns, &mut out);
            self.send(out);
            while let Some(frame) = due(&mut self.to_peer, self.now_ns) {
                let answers = self.peer.receive(&frame, self.now_ns);
                answers.into_iter().for_each(|answer| self.answer(answer));
            }
            let heads = [self.to_group.peek(), self.to_peer.peek()];
            let heads = heads.into_iter().flatten().map(|Reverse((at, ..))| *at);
            let next = heads.chain(self.group.next_due_ns()).min().unwrap_or(u64::MAX);
            self.now_ns = next.max(self.now_ns + 1);
        }
        self.now_ns = until_ns;
    }

    /// Frames that clients send.
    pub fn send(&mut self, frames: Vec<Vec<u8>>) {
        for frame in frames {
            if (self.keeps)(&frame) {
                self.sent.push((self.now_ns, frame.clone()));
            }
            if !self.random.happens(self.loss) {
                self.frames += 1;
                self.to_peer.push(Reverse((self.now_ns + self.delay_ns, self.frames, frame)));
            }
        }
    }

    /// A frame that clients receive.
    pub fn answer(&mut self, frame: Vec<u8>) {
        if !self.random.happens(self.loss) {
            self.frames += 1;
            self.to_group.push(Reverse((self.now_ns + self.delay_ns, self.frames, frame)));
        }
    }

    pub fn count(&self, count: Count) -> u64 {
        self.group.counters().get(count)
    }

    pub fn clients(&self, state: State) -> u64 {
        self.group.counters().clients(state)
    }

    pub fn failed(&self, cause: Cause) -> u64 {
        self.group.counters().failed(cause)
    }

    /// Of the first client.
    pub fn state(&self) -> (State, Option<Cause>) {
        self.group.state(0)
    }

    /// All clients are in one state, and the counters say what the clients do.
    pub fn check_states(&self) {
        let mut counted = [0; State::ALL.len()];
        for details in self.group.list(self.now_ns) {
            counted[details.state as usize] += 1;
        }
        for state in State::ALL {
            assert_eq!(self.clients(*state), counted[*state as usize], "{state}");
        }
        assert_eq!(counted.iter().sum::<u64>(), u64::from(self.group.config().count));
        let failed: u64 = Cause::ALL.iter().map(|cause| self.failed(*cause)).sum();
        assert_eq!(failed, self.clients(State::Failed));
    }
}

fn due(wire: &mut Wire, now_ns: u64) -> Option<Vec<u8>> {
    let is_due = wire.peek().is_some_and(|Reverse((at, ..))| *at <= now_ns);
    if is_due { wire.pop().map(|Reverse((.., frame))| frame) } else { None }
}

/// The Ethernet header of a frame that is built.
#[derive(Clone, Copy)]
pub struct Ends {
    pub to: Mac,
    pub from: Mac,
    pub tags: Tags,
}

impl Ends {
    /// Of the answer to a frame.
    pub fn answer(frame: &[u8], from: Mac) -> Self {
        Self { to: frame[6..12].try_into().unwrap(), from, tags: Tags::of(frame).unwrap() }
    }
}

pub fn udp4(ends: Ends, addresses: (u32, u32), ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER + udp::HEADER];
    packet.extend_from_slice(data);
    let (source, destination) = addresses;
    let header = ipv4::Header { tos: 0, id: 0, ttl: 64, protocol: UDP, source, destination };
    let pseudo = header.write(packet.first_chunk_mut().unwrap(), udp::HEADER + data.len());
    let header = packet[ipv4::HEADER..].first_chunk_mut().unwrap();
    udp::write_unsummed(header, ports, data.len());
    udp::complete(header, pseudo + checksum::sum(data));
    ethernet::build(ends.to, ends.from, ends.tags, IPV4, &packet)
}

pub fn icmp4(ends: Ends, addresses: (u32, u32), message: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER];
    let (source, destination) = addresses;
    let header = ipv4::Header { tos: 0, id: 0, ttl: 64, protocol: ICMP, source, destination };
    header.write(packet.first_chunk_mut().unwrap(), message.len());
    packet.extend_from_slice(message);
    let message = &mut packet[ipv4::HEADER..];
    put_be16(message, 2, 0);
    let sum = checksum::checksum(checksum::sum(message));
    put_be16(message, 2, sum);
    ethernet::build(ends.to, ends.from, ends.tags, IPV4, &packet)
}

fn v6(next: u8, hop_limit: u8, (source, destination): (u128, u128), len: usize) -> (Vec<u8>, u64) {
    let (source, destination) = (Address(source), Address(destination));
    let mut packet = vec![0; ipv6::HEADER];
    let header = ipv6::Header { traffic_class: 0, flow_label: 0, next, hop_limit, source, destination };
    let pseudo = header.write(packet.first_chunk_mut().unwrap(), len);
    (packet, pseudo)
}

pub fn udp6(ends: Ends, addresses: (u128, u128), ports: (u16, u16), data: &[u8]) -> Vec<u8> {
    let (mut packet, pseudo) = v6(UDP, 64, addresses, udp::HEADER + data.len());
    let mut header = [0; udp::HEADER];
    udp::write_unsummed(&mut header, ports, data.len());
    udp::complete(&mut header, pseudo + checksum::sum(data));
    packet.extend_from_slice(&header);
    packet.extend_from_slice(data);
    ethernet::build(ends.to, ends.from, ends.tags, IPV6, &packet)
}

pub fn icmp6(ends: Ends, hop_limit: u8, addresses: (u128, u128), message: &[u8]) -> Vec<u8> {
    let (mut packet, pseudo) = v6(ICMPV6, hop_limit, addresses, message.len());
    let mut message = message.to_vec();
    put_be16(&mut message, 2, 0);
    let sum = checksum::checksum(pseudo + checksum::sum(&message));
    put_be16(&mut message, 2, sum);
    packet.extend_from_slice(&message);
    ethernet::build(ends.to, ends.from, ends.tags, IPV6, &packet)
}
