// SPDX-License-Identifier: Apache-2.0
//! Encapsulations around a flow's frames, as data: the bytes that stand between the frame's MACs and what is left of it, and which
//! fields among them depend on the packet. One writer does them all.
//!
//! What is left of the frame says where it is cut: before its EtherType (VLAN tags: it is the last tag's), behind it (GTP-U, GRE, MPLS:
//! an IP packet), or nowhere (an Ethernet frame in a tunnel).
use crate::{
    checksum::sum,
    ethernet::{self, HEADER as ETHERNET, Link, MACS},
    field::{be16, put_be16},
    ip::{Address, UDP},
    ipv4, ipv6, udp,
    vlan::{self, Tag, Tags},
};

/// Most bytes between the MACs and what is carried: tags, UDP over IPv6, and 24 bytes. A label stack may take what all of these do.
const MAX_PREFIX: usize = Tags::MAX * vlan::LEN + 2 + ipv6::HEADER + udp::HEADER + 24;
/// Time to live, hop limit.
const TTL: u8 = 64;

/// What is left of a flow's frame, by the offset that it is cut at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// The whole frame.
    Frame = 0,
    /// The frame from its EtherType on.
    Ethertype = MACS as isize,
    /// The packet behind its Ethernet header.
    Packet = ETHERNET as isize,
}

/// An encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encap {
    prefix: [u8; MAX_PREFIX],
    len: u8,
    carries: Carries,
    /// Number of bytes of tags, with which the prefix begins.
    tags: u8,
    /// Bytes of the outer IP header, which is behind the tags and an EtherType; 0: there is none.
    ip: u8,
    /// What that header carries; UDP has a header of its own before the tunnel's.
    protocol: u8,
    /// Offset in the prefix of a 16-bit length of all that is 6 bytes or more behind it, as in GTP-U's header; 0: there is none.
    length: u8,
    /// Offset in the prefix of a 32-bit identifier of the tunnel; 0: there is none.
    id: u8,
    /// Offset in the prefix of the EtherType of what it carries, as in GRE's header; 0: there is none.
    ethertype: u8,
}

/// What fields of an encapsulation depend on the packet. Without an outer IP header, only the MACs count.
#[derive(Clone, Copy, Debug)]
pub struct OuterFields {
    /// Ethernet destination and source.
    pub macs: [u8; MACS],
    /// Outer IP address, of the same family as the encapsulation.
    pub source: Address,
    /// Outer IP address.
    pub destination: Address,
    /// UDP ports: source, destination.
    pub ports: (u16, u16),
    /// The tunnel's identifier.
    pub id: u32,
    /// IPv4 type of service, IPv6 traffic class.
    pub traffic_class: u8,
    /// IPv6 flow label, 20 bits.
    pub flow_label: u32,
}

impl Encap {
    /// No encapsulation: frames stay as they are.
    pub const NONE: Self = Self {
        prefix: [0; MAX_PREFIX],
        len: 0,
        carries: Carries::Ethertype,
        tags: 0,
        ip: 0,
        protocol: 0,
        length: 0,
        id: 0,
        ethertype: 0,
    };

    /// VLAN tags, the outermost first.
    pub fn tags(tags: &[Tag]) -> Self {
        let mut bytes = [0; MAX_PREFIX];
        let len = tags.len() * vlan::LEN;
        for (place, tag) in bytes[..len].as_chunks_mut().0.iter_mut().zip(tags) {
            *place = tag.bytes();
        }
        Self { prefix: bytes, len: len as u8, tags: len as u8, ..Self::NONE }
    }

    /// A tunnel over UDP: what it carries, and the tunnel's own header, at most 24 bytes.
    pub fn over_udp(v6: bool, carries: Carries, header: &[u8]) -> Self {
        Self::over_ip(v6, UDP, carries, header)
    }

    /// A tunnel over IP: the protocol that it is of, what it carries, and its own header, at most 24 bytes.
    pub fn over_ip(v6: bool, protocol: u8, carries: Carries, header: &[u8]) -> Self {
        let (ip, ethertype) = if v6 { (ipv6::HEADER, ethernet::IPV6) } else { (ipv4::HEADER, ethernet::IPV4) };
        Self { ip: ip as u8, protocol, ..Self::NONE }.with_header(ethertype, carries, header)
    }

    /// A header that follows Ethernet and its tags, such as a label stack: its EtherType, what it carries, and its bytes, at most 72.
    pub fn on_link(ethertype: u16, carries: Carries, header: &[u8]) -> Self {
        Self::NONE.with_header(ethertype, carries, header)
    }

    /// Adds a tunnel's own header, and the EtherType of what it is over; the encapsulation has no tags yet.
    fn with_header(self, ethertype: u16, carries: Carries, header: &[u8]) -> Self {
        let at = usize::from(self.tunnel_header());
        let mut this = Self { len: (at + header.len()) as u8, carries, ..self };
        put_be16(&mut this.prefix, 0, ethertype);
        this.prefix[at..at + header.len()].copy_from_slice(header);
        this
    }

    /// The tunnel's own header has a 16-bit length at an offset, of all that is 6 bytes or more behind it.
    #[must_use]
    pub fn with_length(self, at: usize) -> Self {
        Self { length: self.tunnel_header() + at as u8, ..self }
    }

    /// The tunnel's own header has a 32-bit identifier at an offset.
    #[must_use]
    pub fn with_id(self, at: usize) -> Self {
        Self { id: self.tunnel_header() + at as u8, ..self }
    }

    /// The tunnel's own header has the EtherType of its payload at an offset.
    #[must_use]
    pub fn with_ethertype(self, at: usize) -> Self {
        Self { ethertype: self.tunnel_header() + at as u8, ..self }
    }

    /// The offset of the tunnel's own header in the prefix.
    fn tunnel_header(&self) -> u8 {
        self.tags + 2 + self.ip + if self.protocol == UDP { udp::HEADER as u8 } else { 0 }
    }

    /// Puts an encapsulation without tags within these tags.
    #[must_use]
    pub fn within(mut self, tags: Tags) -> Self {
        debug_assert_eq!(self.tags, 0, "it is within tags already");
        let Self { prefix, len, length, id, ethertype, .. } = self;
        let outer = Self::tags(tags.as_slice());
        self.prefix = outer.prefix;
        self.prefix[usize::from(outer.len)..][..usize::from(len)].copy_from_slice(&prefix[..usize::from(len)]);
        let moved = |at: u8| if at > 0 { at + outer.len } else { 0 };
        (self.tags, self.len) = (outer.len, outer.len + len);
        (self.length, self.id, self.ethertype) = (moved(length), moved(id), moved(ethertype));
        self
    }

    /// Bytes that a frame becomes longer.
    #[inline]
    pub fn overhead(&self) -> usize {
        self.end() - self.carries as usize
    }

    /// Offset of the payload in a frame.
    #[inline]
    fn end(&self) -> usize {
        MACS + usize::from(self.len)
    }

    /// Whether a received frame has these tags and no others; a tag with only a priority is none, where none is expected (IEEE 802.1Q).
    /// Of encapsulations in tags.
    #[inline]
    pub fn is_around(&self, frame: &[u8]) -> bool {
        let Some(link) = Link::find(frame) else { return false };
        if self.len == 0 {
            return link.station_vlan() == Some(0);
        }
        let tags = usize::from(self.len) / vlan::LEN;
        let same = |n: usize| Tag::at(frame, MACS + n * vlan::LEN) == Tag::at(&self.prefix, n * vlan::LEN);
        link.tags() == tags && (0..tags).all(same)
    }

    /// Writes it around a flow's frame, before which `overhead` bytes were left: over these, and over what the frame is cut of.
    pub fn write(&self, frame: &mut [u8], around: &OuterFields) {
        let end = self.end();
        // The frame's EtherType may be where the prefix is to be written.
        let ethertype = if self.ethertype > 0 { be16(frame, self.overhead() + MACS) } else { 0 };
        frame[..MACS].copy_from_slice(&around.macs);
        frame[MACS..end].copy_from_slice(&self.prefix[..usize::from(self.len)]);
        if self.ethertype > 0 {
            put_be16(frame, MACS + usize::from(self.ethertype), ethertype);
        }
        if self.length > 0 {
            let at = MACS + usize::from(self.length);
            let len = frame.len() - at - 6;
            put_be16(frame, at, len as u16);
        }
        if self.id > 0 {
            let at = MACS + usize::from(self.id);
            frame[at..at + 4].copy_from_slice(&around.id.to_be_bytes());
        }
        if self.ip > 0 {
            self.write_outer(&mut frame[ETHERNET + usize::from(self.tags)..], around);
        }
    }

    /// Tags a flow's frame, before which `overhead` bytes were left: its MACs stay.
    #[inline]
    pub fn write_tags(&self, frame: &mut [u8]) {
        let overhead = self.overhead();
        frame.copy_within(overhead..overhead + MACS, 0);
        frame[MACS..self.end()].copy_from_slice(&self.prefix[..usize::from(self.len)]);
    }

    /// The outer headers of IP, and of UDP if it is over that. The checksum of UDP is 0 over IPv4 (RFC 768), and computed over IPv6,
    /// where not every receiver takes a 0 (RFC 6935).
    fn write_outer(&self, packet: &mut [u8], around: &OuterFields) {
        let (ip, body) = packet.split_at_mut(usize::from(self.ip));
        let len = body.len();
        let mut datagram = if self.protocol == UDP { body.split_first_chunk_mut::<{ udp::HEADER }>() } else { None };
        if let Some((header, message)) = &mut datagram {
            udp::write_unsummed(header, around.ports, message.len());
        }
        let (OuterFields { source, destination, traffic_class, flow_label, .. }, protocol) = (*around, self.protocol);
        if let (Some(source), Some(destination)) = (source.as_v4(), destination.as_v4()) {
            let Some(ip) = ip.first_chunk_mut() else { return };
            // Not to be fragmented, and so in no need of an identification (RFC 6864 section 4).
            let header = ipv4::Header { tos: traffic_class, id: 0, ttl: TTL, protocol, source, destination };
            header.write(ip, len);
        } else if let Some(ip) = ip.first_chunk_mut() {
            let outer = ipv6::Header { traffic_class, flow_label, next: protocol, hop_limit: TTL, source, destination };
            let pseudo = outer.write(ip, len);
            if let Some((header, message)) = datagram {
                udp::complete(header, pseudo + sum(message));
            }
        }
    }
}

/// Takes a tunnel off: the frame that its IP packet would have come in without, between the same MACs. False if it is no IP packet.
pub fn strip(macs: &[u8; MACS], packet: &[u8], frame: &mut Vec<u8>) -> bool {
    let ethertype = match packet.first().map(|first| first >> 4) {
        Some(4) => ethernet::IPV4,
        Some(6) => ethernet::IPV6,
        _ => return false,
    };
    frame.clear();
    frame.extend_from_slice(macs);
    frame.extend_from_slice(&ethertype.to_be_bytes());
    frame.extend_from_slice(packet);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Headers, checksum::fold, gre, headers::samples, ip::is_right, mpls};

    fn around(source: Address, destination: Address) -> OuterFields {
        let ports = (0xc123, 4789);
        let macs = [9; MACS];
        OuterFields { macs, source, destination, ports, id: 0x0001_0200, traffic_class: 0x28, flow_label: 7 }
    }

    fn encapsulated(encap: &Encap, frame: &[u8], around: &OuterFields) -> Vec<u8> {
        let mut all = vec![0xee; encap.overhead()];
        all.extend(frame);
        if encap.carries == Carries::Ethertype {
            encap.write_tags(&mut all)
        } else {
            encap.write(&mut all, around)
        }
        all
    }

    #[test]
    fn tags_stand_before_the_ethertype_and_are_known_again() {
        let frame = samples::v4(0, 0, UDP, &[1; 30]);
        let any = around(Address::v4(1), Address::v4(2));
        let service = Tag { ethertype: vlan::SERVICE, vlan: 7 };
        let all = [vec![], vec![Tag::customer(5)], vec![service, Tag::customer(5)], vec![service; 4]];
        for (n, tags) in all.iter().enumerate() {
            let encap = Encap::tags(tags);
            assert_eq!(encap.overhead(), 4 * tags.len());
            let tagged = encapsulated(&encap, &frame, &any);
            assert_eq!((&tagged[..12], &tagged[12 + 4 * tags.len()..]), (&frame[..12], &frame[12..]));
            for (other, tags) in all.iter().enumerate() {
                assert_eq!(Encap::tags(tags).is_around(&tagged), n == other);
            }
        }
        assert!(Encap::NONE.is_around(&encapsulated(&Encap::tags(&[Tag::customer(0)]), &frame, &any)));
    }

    /// VXLAN (RFC 7348) carries frames: its header has flags and an identifier, and no length.
    #[test]
    fn a_frame_in_a_tunnel_is_whole_and_what_is_around_it_is_right() {
        let frame = samples::v4(0, 0, UDP, &[1; 31]);
        for v6 in [false, true] {
            let vxlan = Encap::over_udp(v6, Carries::Frame, &[8, 0, 0, 0, 0, 0, 0, 0]).with_id(4);
            assert_eq!(vxlan.overhead(), if v6 { 70 } else { 50 });
            let [one, two] = [1, 2].map(|n| if v6 { Address(n) } else { Address::v4(n as u32) });
            let all = encapsulated(&vxlan, &frame, &around(one, two));
            assert!(all.ends_with(&frame));
            let headers = Headers::find(&all).unwrap();
            assert_eq!((headers.packet_end(&all), headers.destination(&all)), (all.len(), two));
            let at = headers.transport.unwrap().1;
            assert_eq!(all[at..at + 6], [0xc1, 0x23, 0x12, 0xb5, 0, (all.len() - at) as u8]);
            assert_eq!(all[at + 8..at + 16], [8, 0, 0, 0, 0, 1, 2, 0]);
            if v6 {
                let pseudo = crate::ip::pseudo_header(one, two, UDP, all.len() - at);
                assert!(is_right(&all[at..], pseudo));
            } else {
                assert_eq!(fold(sum(&all[14..34])), 0xffff);
                assert_eq!(all[at + 6..at + 8], [0, 0]);
            }
        }
    }

    #[test]
    fn a_tunnel_within_tags_is_what_it_is_without_behind_the_tags() {
        let frame = samples::v4(0, 0, UDP, &[1; 31]);
        let tags = Tags::new(&[Tag { ethertype: vlan::SERVICE, vlan: 7 }, Tag::customer(5)]).unwrap();
        for v6 in [false, true] {
            let [one, two] = [1, 2].map(|n| if v6 { Address(n) } else { Address::v4(n as u32) });
            let gtpu = Encap::over_udp(v6, Carries::Packet, &[0x30, 255, 0, 0, 0, 0, 0, 0]).with_length(2).with_id(4);
            let plain = encapsulated(&gtpu, &frame, &around(one, two));
            let within = encapsulated(&gtpu.within(tags), &frame, &around(one, two));
            assert_eq!((&within[..MACS], &within[MACS + 8..]), (&plain[..MACS], &plain[MACS..]));
            assert_eq!(Tags::of(&within), Some(tags));
        }
    }

    /// GRE (RFC 2784) names what it carries, and has a key or none (RFC 2890).
    #[test]
    fn a_packet_in_gre_is_named_by_its_ethertype_and_has_its_key() {
        let frames = [samples::v4(0, 0, UDP, &[1; 31]), samples::v6(UDP, &[3; 20])];
        for (v6, keyed, frame) in [(false, false, 0), (false, true, 1), (true, true, 0), (true, false, 1)] {
            let frame = &frames[frame];
            let encap = Encap::over_ip(v6, gre::PROTOCOL, Carries::Packet, gre::header(keyed));
            let encap = encap.with_ethertype(gre::PROTOCOL_TYPE);
            let encap = if keyed { encap.with_id(gre::KEY) } else { encap };
            let ip = if v6 { 40 } else { 20 };
            assert_eq!(encap.overhead(), ip + if keyed { 8 } else { 4 });
            let [one, two] = [1, 2].map(|n| if v6 { Address(n) } else { Address::v4(n as u32) });
            for tags in [Tags::NONE, Tags::from(Some(5))] {
                let all = encapsulated(&encap.within(tags), frame, &around(one, two));
                let headers = Headers::find(&all).unwrap();
                assert_eq!((headers.packet_end(&all), headers.destination(&all)), (all.len(), two));
                assert_eq!(headers.transport, Some((gre::PROTOCOL, headers.at + ip)));
                let message = &all[headers.at + ip..];
                let read = gre::Header::read(message).unwrap();
                assert_eq!((read.protocol_type, read.key), (be16(frame, MACS), keyed.then_some(0x0001_0200)));
                assert_eq!((&message[read.len..], Tags::of(&all)), (&frame[ETHERNET..], Some(tags)));
            }
        }
    }

    /// RFC 3032: the entry at the bottom is the tunnel's, and tags stand before the EtherType of MPLS.
    #[test]
    fn a_packet_in_labels_is_behind_the_stack_and_the_last_entry_is_its_tunnels() {
        let frame = samples::v4(0, 0, UDP, &[1; 31]);
        let any = around(Address::v4(1), Address::v4(2));
        let stack = [0, 1, 0x0a, 64, 0, 0, 0, 0];
        let encap = Encap::on_link(mpls::UNICAST, Carries::Packet, &stack).with_id(4);
        assert_eq!(encap.overhead(), 8);
        for tags in [Tags::NONE, Tags::from(Some(5))] {
            let all = encapsulated(&encap.within(tags), &frame, &any);
            let link = Link::find(&all).unwrap();
            assert_eq!((link.ethertype, Tags::of(&all), &all[..MACS]), (mpls::UNICAST, Some(tags), &any.macs[..]));
            assert_eq!(all[link.end..link.end + 8], [0, 1, 0x0a, 64, 0, 1, 2, 0]);
            assert_eq!(all[link.end + 8..], frame[ETHERNET..]);
        }
    }

    #[test]
    fn what_is_stripped_is_what_was_put_in() {
        let frame = samples::v6(UDP, &[3; 20]);
        let mut out = vec![1, 2, 3];
        let both = *frame.first_chunk().unwrap();
        assert!(strip(&both, &frame[ETHERNET..], &mut out));
        assert_eq!(out, frame);
        assert!(!strip(&both, &[0x50], &mut out) && !strip(&both, &[], &mut out));
    }
}
