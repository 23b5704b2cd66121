// SPDX-License-Identifier: Apache-2.0
//! Clients in all their states, and an access network that sends anything: nothing panics, the counters of states are those of the
//! clients, no client waits for ever, and no address is had twice. A property test runs it.
#![allow(dead_code, reason = "who includes it may drive one protocol")]
use spate_clients::{
    Cause, Config, Count, Dhcp4, Dhcp6, Dhcp6When, Group, Ipv4, Ipv6, Leave, Probe, Rate, State, VlanRange,
};
use spate_net::{
    Address, checksum, dhcp4, dhcp6,
    ethernet::{self, ARP, IPV4, IPV6, Mac},
    field::put_be16,
    ip::{ICMPV6, UDP},
    ipv4, ipv6, ndp, udp,
    vlan::{CUSTOMER, Tags},
};

const FIRST_MAC: Mac = [2, 0x10, 0, 0, 0, 0];
const OTHER_MAC: Mac = [2, 0x20, 0, 0, 0, 1];
const CLIENTS: u32 = 6;
const SERVER: u32 = 0x0a00_0001;

/// Which protocol the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Dhcp4,
    Dhcp6,
    Nd,
}

/// Bytes that say what happens.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes(&mut self, most: usize) -> &'a [u8] {
        let len = usize::from(self.byte()).min(most).min(self.0.len());
        let (bytes, rest) = self.0.split_at(len);
        self.0 = rest;
        bytes
    }
}

fn config() -> Config {
    let dhcp = Dhcp4 { probe: Some(Probe::ONE), ..Dhcp4::default() };
    let dhcp6 = Dhcp6 { when: Dhcp6When::Always, prefix: Some(56), rapid_commit: true, ..Dhcp6::default() };
    Config {
        vlans: vec![VlanRange { ethertype: CUSTOMER, first: 5, count: 2 }],
        ipv4: Some(Ipv4::Dhcp(Box::new(dhcp))),
        ipv6: Some(Ipv6 { slaac: true, dhcp: Some(dhcp6), dad_transmits: 1 }),
        ..Config::dhcp(FIRST_MAC, CLIENTS, Rate::per_second(100))
    }
}

/// What the network knows: what clients sent last.
#[derive(Default)]
struct Network {
    xid4: [u32; CLIENTS as usize],
    xid6: [u32; CLIENTS as usize],
}

impl Network {
    fn hear(&mut self, frame: &[u8]) {
        let client = usize::from(frame[11]);
        let at = ethernet::Link::find(frame).unwrap().end;
        if frame[at] >> 4 == 4 && frame[at + 9] == UDP {
            let message = dhcp4::Message::read(&frame[at + 28..]).expect("clients send valid messages");
            self.xid4[client] = message.xid();
        } else if frame[at] >> 4 == 6 && frame[at + 6] == UDP {
            let end = at + 40 + usize::from(u16::from_be_bytes([frame[at + 4], frame[at + 5]]));
            let message = dhcp6::Message::read(&frame[at + 48..end]).expect("clients send valid messages");
            self.xid6[client] = message.xid;
        }
    }

    /// A frame with these bytes in it, of which as much is right as the script says.
    fn frame(&self, protocol: Protocol, script: &mut Script<'_>) -> Vec<u8> {
        let (shape, client) = (script.byte(), script.byte() % CLIENTS as u8);
        let mac = [2, 0x10, 0, 0, 0, client];
        let tags = Tags::from(Some(5 + u16::from(client % 2)));
        let body = script.bytes(255);
        let (packet, ethertype, group) = match protocol {
            Protocol::Dhcp4 => match shape % 4 {
                0 => (udp4(body), IPV4, [0xff; 6]),
                1 => (body.to_vec(), ARP, [0xff; 6]),
                kind => {
                    let fixed = dhcp4::Fixed {
                        op: dhcp4::REPLY,
                        xid: self.xid4[usize::from(client)],
                        yiaddr: (SERVER + 1 + u32::from(kind == 3)).into(),
                        mac,
                        ..dhcp4::Fixed::default()
                    };
                    let kinds = [dhcp4::OFFER, dhcp4::ACK, dhcp4::NAK, 0];
                    let mut bytes = [0; 700];
                    let kind = kinds[usize::from(shape >> 2 & 3)];
                    let mut message = dhcp4::Builder::new(&mut bytes, &fixed, kind).unwrap();
                    if shape & 16 != 0 {
                        message.option(dhcp4::option::SERVER_ID, &SERVER.to_be_bytes());
                        message.option(dhcp4::option::LEASE_TIME, &u32::from(shape).to_be_bytes());
                    }
                    let len = message.finish().unwrap().min(dhcp4::HEADER + if shape & 16 != 0 { 15 } else { 3 });
                    bytes[len..len + body.len()].copy_from_slice(body);
                    (udp4(&bytes[..len + body.len()]), IPV4, [0xff; 6])
                }
            },
            Protocol::Dhcp6 => {
                let kinds = [dhcp6::ADVERTISE, dhcp6::REPLY, 0, dhcp6::RENEW];
                let mut bytes = [0; 700];
                let kind = kinds[usize::from(shape & 3)];
                let mut message = dhcp6::Builder::new(&mut bytes, kind, self.xid6[usize::from(client)]);
                if shape & 4 != 0 {
                    message.option(dhcp6::option::CLIENT_ID, &[0, 3, 0, 1, 2, 0x10, 0, 0, 0, client]);
                }
                if shape & 8 != 0 {
                    message.option(dhcp6::option::SERVER_ID, &[shape, 7]);
                    message.option(dhcp6::option::RAPID_COMMIT, &[]);
                }
                if shape & 16 != 0 {
                    let leased = dhcp6::Leased {
                        address: 0x2001_0db8 << 96 | u128::from(shape >> 5),
                        length: 128,
                        preferred: u32::from(shape >> 5),
                        valid: u32::from(shape >> 4),
                        status: 0,
                    };
                    message.ia(dhcp6::option::IA_NA, 1, (0, u32::from(shape >> 5)), |ia| ia.leased(&leased));
                }
                let len = message.finish().unwrap();
                bytes[len..len + body.len()].copy_from_slice(body);
                (udp6(&bytes[..len + body.len()]), IPV6, [0x33, 0x33, 0, 0, 0, 1])
            }
            Protocol::Nd => {
                let kind = ndp::ROUTER_SOLICITATION + (shape & 3);
                let from = if shape & 4 != 0 { 0 } else { ndp::link_local(OTHER_MAC).to_bits() };
                let its = match shape >> 3 & 3 {
                    0 => ndp::link_local(mac).to_bits(),
                    1 => 0x2001_0db8_0000_0001 << 64 | u128::from(ndp::interface_id(mac)),
                    _ => 1,
                };
                let to = match shape >> 5 & 1 {
                    0 => ndp::ALL_NODES.to_bits(),
                    _ => ndp::solicited_node(its.into()).to_bits(),
                };
                let mut icmp = vec![kind, 0, 0, 0];
                if kind >= ndp::SOLICITATION {
                    icmp.extend([0; 4]);
                    icmp.extend(its.to_be_bytes());
                }
                icmp.extend(body);
                (icmp6(from, to, &icmp), IPV6, [0x33, 0x33, 0, 0, 0, 1])
            }
        };
        let to = if shape & 64 != 0 { mac } else { group };
        ethernet::build(to, if shape & 128 != 0 { mac } else { OTHER_MAC }, tags, ethertype, &packet)
    }
}

fn udp4(data: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER + udp::HEADER];
    let header = ipv4::Header { tos: 0, id: 0, ttl: 9, protocol: UDP, source: SERVER, destination: u32::MAX };
    header.write(packet.first_chunk_mut().unwrap(), udp::HEADER + data.len());
    let header = packet[ipv4::HEADER..].first_chunk_mut().unwrap();
    udp::write_unsummed(header, (dhcp4::SERVER_PORT, dhcp4::CLIENT_PORT), data.len());
    packet.extend_from_slice(data);
    packet
}

fn v6(next: u8, source: u128, destination: u128, len: usize) -> (Vec<u8>, u64) {
    let mut packet = vec![0; ipv6::HEADER];
    let (source, destination) = (Address(source), Address(destination));
    let header = ipv6::Header { traffic_class: 0, flow_label: 0, next, hop_limit: 255, source, destination };
    let pseudo = header.write(packet.first_chunk_mut().unwrap(), len);
    (packet, pseudo)
}

fn udp6(data: &[u8]) -> Vec<u8> {
    let from = ndp::link_local(OTHER_MAC).to_bits();
    let (mut packet, pseudo) = v6(UDP, from, ndp::ALL_NODES.to_bits(), udp::HEADER + data.len());
    let mut header = [0; udp::HEADER];
    udp::write_unsummed(&mut header, (dhcp6::SERVER_PORT, dhcp6::CLIENT_PORT), data.len());
    udp::complete(&mut header, pseudo + checksum::sum(data));
    packet.extend_from_slice(&header);
    packet.extend_from_slice(data);
    packet
}

fn icmp6(from: u128, to: u128, message: &[u8]) -> Vec<u8> {
    let (mut packet, pseudo) = v6(ICMPV6, from, to, message.len());
    let mut message = message.to_vec();
    let sum = checksum::checksum(pseudo + checksum::sum(&message));
    put_be16(&mut message, 2, sum);
    packet.extend_from_slice(&message);
    packet
}

/// Lets a group live through what bytes say.
pub fn drive(protocol: Protocol, bytes: &[u8]) {
    let mut group = Group::new(config(), 0).unwrap();
    group.start_all(0);
    let (mut script, mut now, mut network) = (Script(bytes), 0_u64, Network::default());
    for _ in 0..200 {
        if script.0.is_empty() {
            break;
        }
        let mut out: Vec<Vec<u8>> = Vec::new();
        match script.byte() {
            // A while, up to two hours.
            step @ 0..64 => now += 1_000_000 << (step % 24),
            64 => group.leave(u32::from(script.byte()) % CLIENTS, Leave::Release, now, &mut out),
            65 => group.leave(u32::from(script.byte()) % CLIENTS, Leave::Keep, now, &mut out),
            66..70 => group.start(u32::from(script.byte()) % CLIENTS, now, &mut out),
            // Any bytes.
            70..80 => {
                let frame = script.bytes(255);
                group.receive(frame, Tags::of(frame).unwrap_or_default(), now, &mut out);
            }
            _ => {
                let frame = network.frame(protocol, &mut script);
                group.receive(&frame, Tags::of(&frame).unwrap(), now, &mut out);
            }
        }
        group.poll(now, &mut out);
        assert!(out.len() < 1000, "{} frames at once", out.len());
        out.iter().for_each(|frame| network.hear(frame));
        check(&group, now);
    }
}

fn check(group: &Group, now: u64) {
    let mut counted = [0; State::ALL.len()];
    let mut usable = [0; 2];
    for details in group.list(now) {
        counted[details.state as usize] += 1;
        assert_eq!(details.cause.is_some(), details.state == State::Failed);
        usable[0] += usize::from(details.state.is_usable() && details.ipv4.is_some());
        usable[1] += usize::from(details.state.is_usable() && details.ipv6.is_some());
    }
    assert_eq!(group.sources4().count(), usable[0]);
    assert!(group.sources6().count() <= usable[1]);
    let counters = group.counters();
    for state in State::ALL {
        assert_eq!(counters.clients(*state), counted[*state as usize], "{state}");
    }
    let failed: u64 = Cause::ALL.iter().map(|cause| counters.failed(*cause)).sum();
    assert_eq!(failed, counters.clients(State::Failed));
    assert!(u64::from(group.outstanding()) <= u64::from(CLIENTS));
    // Who is neither bound nor gone has something to do.
    let under_way: u64 =
        State::ALL.iter().filter(|state| state.is_under_way()).map(|state| counters.clients(*state)).sum();
    assert!(under_way == 0 || group.next_due_ns().is_some());
    // Two clients of a VLAN never have the same address.
    let mut all: Vec<_> =
        group.sources4().chain(group.sources6()).map(|source| (source.tags, source.address)).collect();
    let len = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), len);
    assert_eq!(counters.get(Count::Unsent), 0);
}
