// SPDX-License-Identifier: Apache-2.0
//! An oracle for tests and fuzz targets: it finds the packet in any tunnel of GTP-U, VXLAN or GRE, with layers of its own, and is compared with
//! what an engine writes. No engine reads by it: what arrives in a tunnel is read as the kind of its port's clients
//! (`spate_stateful::tunnel`), which knows why a message is refused, and which are to be answered.
use crate::{
    encap::Carries,
    ethernet::{self, Link},
    field::be16,
    gre, gtpu,
    headers::{Headers, UDP, Version},
    udp, vxlan,
};

/// Protocol of a tunnel, with the identifier that it has on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnel {
    /// GTP-U (3GPP TS 29.281).
    Gtpu {
        /// Tunnel endpoint identifier.
        teid: u32,
    },
    /// VXLAN (RFC 7348).
    Vxlan {
        /// VXLAN network identifier.
        vni: u32,
    },
    /// GRE (RFC 2784).
    Gre {
        /// Key (RFC 2890), if it has one.
        key: Option<u32>,
    },
}

/// The packet in a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner {
    /// The tunnel.
    pub tunnel: Tunnel,
    /// Where the inner frame begins in the frame. A tunnel that carries packets has no Ethernet header within: there the frame begins where
    /// one would, 14 bytes before the packet.
    pub start: usize,
    /// Its layers, from `start` on.
    pub headers: Headers,
}

impl Inner {
    /// The IP packet in the tunnel that the packet of a frame, of which these are the headers, is of; none if it is of no tunnel, a fragment,
    /// malformed, or carries something else. Checksums of UDP and of the outer IP header are not verified, nor is it looked into tunnels within.
    pub fn of(headers: &Headers, frame: &[u8]) -> Option<Self> {
        let (protocol, at) = headers.transport.filter(|_| !headers.fragment)?;
        let frame = frame.get(..headers.packet_end(frame))?;
        let body = frame.get(at..)?;
        let (tunnel, carries, data) = match protocol {
            gre::PROTOCOL => {
                let header = gre::Header::read(body).ok()?;
                let data = &body[header.len..];
                let version = Version::of_packet(data)?;
                (header.protocol_type == ethertype(version)).then_some((
                    Tunnel::Gre { key: header.key },
                    Carries::Packet,
                    data,
                ))?
            }
            UDP => of_datagram(be16(body.get(..udp::HEADER)?, 2), &body[udp::HEADER..])?,
            _ => return None,
        };
        // The inner packet ends with the outer one, except in GTP-U: its length field may leave bytes after the inner packet.
        let start = data.as_ptr().addr() - frame.as_ptr().addr();
        let end = start + data.len();
        if carries == Carries::Frame {
            return Some(Self { tunnel, start, headers: Headers::find(data)? });
        }
        let start = start.checked_sub(ethernet::HEADER)?;
        let ethertype = ethertype(Version::of_packet(data)?);
        let link = Link { tag: None, ethertype, end: ethernet::HEADER };
        Some(Self { tunnel, start, headers: Headers::behind(&frame[start..end], link)? })
    }

    /// The inner frame in the frame that this is of.
    pub fn frame<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        &frame[self.start..]
    }
}

/// The tunnel that a datagram to a port is of, and what it carries.
fn of_datagram(port: u16, message: &[u8]) -> Option<(Tunnel, Carries, &[u8])> {
    match port {
        gtpu::PORT => {
            let message = gtpu::Message::read(message).ok().filter(|message| message.kind == gtpu::G_PDU)?;
            Some((Tunnel::Gtpu { teid: message.teid }, Carries::Packet, message.payload))
        }
        vxlan::PORT => {
            let vxlan::Message { vni, frame } = vxlan::Message::read(message).ok()?;
            Some((Tunnel::Vxlan { vni }, Carries::Frame, frame))
        }
        _ => None,
    }
}

fn ethertype(version: Version) -> u16 {
    match version {
        Version::V4 => ethernet::IPV4,
        Version::V6 => ethernet::IPV6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        encap::{Encap, OuterFields},
        headers::samples,
        ip::{Address, TCP},
        vlan::{self, Tag, Tags},
    };
    use proptest::prelude::*;

    /// A frame in a tunnel over IPv4 or IPv6 in two tags, to this UDP port.
    fn tunnelled(encap: Encap, frame: &[u8], v6: bool, port: u16) -> Vec<u8> {
        let tags = Tags::new(&[Tag { ethertype: vlan::SERVICE, vlan: 7 }, Tag::customer(5)]).unwrap();
        let [source, destination] = [1, 2].map(|n| if v6 { Address(n) } else { Address::v4(n as u32) });
        let around = OuterFields {
            macs: [9; 12],
            source,
            destination,
            ports: (0xc123, port),
            id: 0x0102_0300,
            traffic_class: 0,
            flow_label: 0,
        };
        let encap = encap.within(tags);
        let mut all = vec![0; encap.overhead()];
        all.extend(frame);
        encap.write(&mut all, &around);
        all
    }

    fn gtpu(v6: bool) -> Encap {
        let header = [0x34, gtpu::G_PDU, 0, 0, 0, 0, 0, 0, 0, 0, 0, gtpu::SESSION_CONTAINER, 1, 0, 9, 0];
        Encap::over_udp(v6, Carries::Packet, &header).with_length(2).with_id(4)
    }

    fn vxlan(v6: bool) -> Encap {
        Encap::over_udp(v6, Carries::Frame, &[vxlan::VALID, 0, 0, 0, 0, 0, 0, 0]).with_id(4)
    }

    fn gre(v6: bool, keyed: bool) -> Encap {
        let encap =
            Encap::over_ip(v6, gre::PROTOCOL, Carries::Packet, gre::header(keyed)).with_ethertype(gre::PROTOCOL_TYPE);
        if keyed { encap.with_id(gre::KEY) } else { encap }
    }

    /// What a frame carries, as its own headers and the oracle have it: these are the same but for where they are.
    fn check(tunnel: Tunnel, encap: Encap, port: u16, frame: &[u8], v6: bool) {
        let all = tunnelled(encap, frame, v6, port);
        let headers = Headers::find(&all).unwrap();
        let inner = Inner::of(&headers, &all).unwrap();
        let expected = Headers::find(frame).unwrap();
        assert_eq!((inner.tunnel, inner.headers), (tunnel, expected));
        let found = inner.frame(&all);
        assert_eq!(found[expected.at..], frame[expected.at..]);
        let addresses = |headers: &Headers, frame: &[u8]| (headers.source(frame), headers.destination(frame));
        assert_eq!(addresses(&inner.headers, found), addresses(&expected, frame));
        // Cut short, it is none.
        assert_eq!(Inner::of(&headers, &all[..all.len() - 1]), None);
    }

    #[test]
    fn the_packet_in_a_tunnel_has_the_layers_that_it_has_without() {
        let frames = [samples::v4(0, 2, UDP, &[1; 31]), samples::v6(0, &[TCP, 0, 0, 0, 0, 0, 0, 0, 5, 5, 5])];
        for (n, frame) in frames.iter().enumerate() {
            for v6 in [false, true] {
                check(Tunnel::Gtpu { teid: 0x0102_0300 }, gtpu(v6), gtpu::PORT, frame, v6);
                check(Tunnel::Vxlan { vni: 0x01_0203 }, vxlan(v6), vxlan::PORT, frame, v6);
                let key = (n == 0).then_some(0x0102_0300);
                check(Tunnel::Gre { key }, gre(v6, n == 0), 0, frame, v6);
            }
        }
        // Tags of a frame that is carried are its own.
        check(Tunnel::Vxlan { vni: 0x01_0203 }, vxlan(false), vxlan::PORT, &samples::v4(2, 0, UDP, &[1; 9]), false);
    }

    #[test]
    fn what_is_no_packet_in_a_tunnel_is_none() {
        let frame = samples::v4(0, 0, UDP, &[1; 31]);
        let inner = |all: &[u8]| Inner::of(&Headers::find(all).unwrap(), all);
        assert_eq!(inner(&frame), None);
        // Another UDP port; a message that carries nothing; a VNI that is not valid; a protocol that the packet is not of.
        assert_eq!(inner(&tunnelled(gtpu(false), &frame, false, vxlan::PORT + 1)), None);
        let mut echo = tunnelled(gtpu(false), &frame, false, gtpu::PORT);
        echo[22 + 20 + 8 + 1] = 1;
        assert_eq!(inner(&echo), None);
        let mut invalid = tunnelled(vxlan(false), &frame, false, vxlan::PORT);
        invalid[22 + 20 + 8] = 0;
        assert_eq!(inner(&invalid), None);
        let mut other = tunnelled(gre(false, false), &frame, false, 0);
        other[22 + 20 + 2..][..2].copy_from_slice(&[0x86, 0xdd]);
        assert_eq!(inner(&other), None);
        // ARP in VXLAN; a fragment.
        let arp = samples::ethernet(0, ethernet::ARP);
        assert_eq!(inner(&tunnelled(vxlan(false), &arp, false, vxlan::PORT)), None);
        let mut fragment = tunnelled(gtpu(false), &frame, false, gtpu::PORT);
        fragment[22 + 6] = 0x20;
        assert_eq!(inner(&fragment), None);
    }

    proptest! {
        #[test]
        fn any_bytes_in_a_tunnel_are_read_without_a_panic(
            kind in 0usize..3, v6: bool, mut bytes in prop::collection::vec(any::<u8>(), 14..120), cut in 0usize..60,
        ) {
            bytes[12..14].copy_from_slice(&[8, 0]);
            let (encap, port) = [(gtpu(v6), gtpu::PORT), (vxlan(v6), vxlan::PORT), (gre(v6, true), 0)][kind];
            let mut all = tunnelled(encap, &bytes, v6, port);
            all.truncate(all.len() - cut.min(all.len()));
            if let Some(inner) = Headers::find(&all).and_then(|headers| Inner::of(&headers, &all)) {
                let (at, len) = inner.headers.addresses();
                prop_assert!(inner.start + at + 2 * len <= all.len());
            }
        }
    }
}
