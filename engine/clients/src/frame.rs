// SPDX-License-Identifier: Apache-2.0
//! Frames that clients send, written one after the other into the same memory.
use spate_net::{
    Address,
    arp::{self, Arp},
    checksum,
    ethernet::{self, ARP, IPV4, IPV6, MACS, MIN_LEN, Mac},
    field::put_be16,
    icmp,
    ip::{ICMP, ICMPV6, UDP},
    ipv4, ipv6, udp,
    vlan::{self, Tags},
};

/// Bytes of the longest frame, without FCS: 1,500 behind a header with two tags.
pub const MAX_FRAME: usize = ethernet::HEADER + Tags::MAX * vlan::LEN + 1500;

/// Where frames go.
pub trait Output {
    /// How many frames of [`MAX_FRAME`] bytes there is room for. [`Group::poll`](crate::Group::poll) does nothing while it is less than 8.
    fn room(&self) -> usize;

    /// Takes a frame without FCS. It is lost if there is no room.
    fn send(&mut self, frame: &[u8]);
}

/// For tests, and for callers that can wait for memory.
impl Output for Vec<Vec<u8>> {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn send(&mut self, frame: &[u8]) {
        self.push(frame.to_vec());
    }
}

/// The Ethernet header of a frame that a client sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) to: Mac,
    pub(crate) from: Mac,
    pub(crate) tags: Tags,
}

const TTL: u8 = 64;

/// The memory of a frame.
#[derive(Debug)]
pub(crate) struct Scratch(Box<[u8; MAX_FRAME]>);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(Box::new([0; MAX_FRAME]))
    }

    /// Writes an Ethernet header. Gives the offset behind it.
    fn ethernet(&mut self, ends: &Ends, ethertype: u16) -> usize {
        let bytes = &mut self.0;
        bytes[..6].copy_from_slice(&ends.to);
        bytes[6..MACS].copy_from_slice(&ends.from);
        let mut at = MACS;
        for tag in ends.tags.as_slice() {
            bytes[at..at + vlan::LEN].copy_from_slice(&tag.bytes());
            at += vlan::LEN;
        }
        put_be16(&mut bytes[..], at, ethertype);
        at + 2
    }

    /// The frame, which ends at an offset unless it is shorter than frames are.
    fn end(&mut self, at: usize) -> &[u8] {
        if at < MIN_LEN {
            self.0[at..MIN_LEN].fill(0);
        }
        &self.0[..at.max(MIN_LEN)]
    }

    pub(crate) fn arp(&mut self, ends: &Ends, packet: &Arp) -> &[u8] {
        let at = self.ethernet(ends, ARP);
        self.0[at..at + arp::LEN].copy_from_slice(&packet.bytes());
        self.end(at + arp::LEN)
    }

    /// A datagram over IPv4. `write` gives the length of what it wrote; none: there is no frame.
    pub(crate) fn udp4(
        &mut self,
        ends: &Ends,
        (source, destination): (u32, u32),
        ports: (u16, u16),
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<&[u8]> {
        let at = self.ethernet(ends, IPV4);
        let (header, data) = (at + ipv4::HEADER, at + ipv4::HEADER + udp::HEADER);
        let len = write(&mut self.0[data..])?;
        let ip = ipv4::Header { tos: 0, id: 0, ttl: TTL, protocol: UDP, source, destination };
        let pseudo = ip.write(self.0[at..].first_chunk_mut()?, udp::HEADER + len);
        self.datagram(header, ports, len, pseudo)?;
        Some(self.end(data + len))
    }

    /// A datagram over IPv6; as `udp4`.
    pub(crate) fn udp6(
        &mut self,
        ends: &Ends,
        (source, destination): (u128, u128),
        ports: (u16, u16),
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<&[u8]> {
        let at = self.ethernet(ends, IPV6);
        let (header, data) = (at + ipv6::HEADER, at + ipv6::HEADER + udp::HEADER);
        let len = write(&mut self.0[data..])?;
        let pseudo = header6(UDP, TTL, source, destination).write(self.0[at..].first_chunk_mut()?, udp::HEADER + len);
        self.datagram(header, ports, len, pseudo)?;
        Some(self.end(data + len))
    }

    /// Writes the header of a datagram, which has its data already.
    fn datagram(&mut self, at: usize, ports: (u16, u16), len: usize, pseudo: u64) -> Option<()> {
        let data = at + udp::HEADER;
        let sum = checksum::sum(&self.0[data..data + len]);
        let header = self.0[at..].first_chunk_mut()?;
        udp::write_unsummed(header, ports, len);
        udp::complete(header, pseudo + sum);
        Some(())
    }

    /// A message of ICMP; `write` leaves its checksum 0; as `udp4`.
    pub(crate) fn icmp4(
        &mut self,
        ends: &Ends,
        (source, destination): (u32, u32),
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<&[u8]> {
        let at = self.ethernet(ends, IPV4);
        let start = at + ipv4::HEADER;
        let len = write(&mut self.0[start..])?;
        let ip = ipv4::Header { tos: 0, id: 0, ttl: TTL, protocol: ICMP, source, destination };
        ip.write(self.0[at..].first_chunk_mut()?, len);
        self.summed(start, len, 0);
        Some(self.end(start + len))
    }

    /// A message of ICMPv6; as `icmp4`.
    pub(crate) fn icmp6(
        &mut self,
        ends: &Ends,
        (source, destination): (u128, u128),
        hop_limit: u8,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<&[u8]> {
        let at = self.ethernet(ends, IPV6);
        let start = at + ipv6::HEADER;
        let len = write(&mut self.0[start..])?;
        let ip = header6(ICMPV6, hop_limit, source, destination);
        let pseudo = ip.write(self.0[at..].first_chunk_mut()?, len);
        self.summed(start, len, pseudo);
        Some(self.end(start + len))
    }

    /// Completes the checksum of ICMP.
    fn summed(&mut self, start: usize, len: usize, pseudo: u64) {
        let message = &mut self.0[start..start + len];
        let sum = checksum::checksum(pseudo + checksum::sum(message));
        put_be16(message, icmp::CHECKSUM, sum);
    }
}

fn header6(next: u8, hop_limit: u8, source: u128, destination: u128) -> ipv6::Header {
    let (source, destination) = (Address(source), Address(destination));
    ipv6::Header { traffic_class: 0, flow_label: 0, next, hop_limit, source, destination }
}

/// The MAC that frames to an IPv6 group go to (RFC 2464 section 7).
pub(crate) fn group_mac(group: u128) -> Mac {
    let [.., a, b, c, d] = group.to_be_bytes();
    [0x33, 0x33, a, b, c, d]
}
