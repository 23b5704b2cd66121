// SPDX-License-Identifier: Apache-2.0
//! What nearly all packets of flows are: TCP and UDP behind an Ethernet header without tags and an IP header without options or
//! extension headers, not fragmented. One source for both families, compiled for each: one look at the fixed headers decides whether
//! a frame is such, and packets are written with their sums from registers.
use core::{fmt::Debug, marker::PhantomData};

use crate::{
    checksum::{sum_le, total_le, with_carry, with_four, with_two},
    ethernet::{self, HEADER as ETHERNET, MACS},
    field::{be16, be32, put_be16},
    ip::{Address, TCP, UDP},
    ipv4, ipv6,
    offload::{OffloadRequest, prepare_checksums},
    packet::{Content, Packet},
    tcp::{self, Options, Segment, SegmentHeader, TIMESTAMPS},
    udp::{self, Datagram},
};

/// IPv4 or IPv6. Headers are given from their first byte on, and are there.
pub trait Family: Copy + Debug {
    /// An address.
    type Ip: Copy + Debug + Into<Address>;
    /// Its EtherType.
    const ETHERTYPE: u16;
    /// Bytes of the header.
    const HEADER: usize;
    /// Offset of the protocol number.
    const PROTOCOL: usize;

    /// Whether it has no options, and is no fragment; its protocol number shows whether there are extension headers.
    fn is_plain(header: &[u8]) -> bool;
    /// Bytes of the packet.
    fn packet_len(header: &[u8]) -> usize;
    /// Source and destination.
    fn addresses(header: &[u8]) -> (Self::Ip, Self::Ip);
    /// Explicit congestion notification.
    fn ecn(header: &[u8]) -> u8;
    /// The sum of the addresses' words in little-endian order, if the header's own checksum is right, up to a multiple of 0xffff. It takes
    /// up to 64 bits.
    fn verified_sum(header: &[u8]) -> Option<u64>;
    /// Writes the header of a packet with a payload of this many bytes. Gives the sum of its pseudo header.
    fn write(
        below: &LowerHeaders,
        ends: (Self::Ip, Self::Ip),
        header: &mut [u8],
        ecn: u8,
        protocol: u8,
        len: usize,
    ) -> u64;
}

/// IPv4.
#[derive(Clone, Copy, Debug)]
pub struct V4;

/// IPv6.
#[derive(Clone, Copy, Debug)]
pub struct V6;

/// An IPv4 address as its 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits(pub u32);

impl From<Bits> for Address {
    #[inline(always)]
    fn from(Bits(bits): Bits) -> Self {
        Self::v4(bits)
    }
}

/// Four bytes as one number. Read at once: of single ones the compiler would put those together that it knows by then.
#[inline(always)]
fn le32(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |four| u64::from(u32::from_le_bytes(*four)))
}

/// The same of eight.
#[inline(always)]
fn le64(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |eight| u64::from_le_bytes(*eight))
}

impl Family for V4 {
    type Ip = Bits;
    const ETHERTYPE: u16 = ethernet::IPV4;
    const HEADER: usize = ipv4::HEADER;
    const PROTOCOL: usize = 9;

    #[inline(always)]
    fn is_plain(header: &[u8]) -> bool {
        const FRAGMENT: u16 = 0x3fff_u16.to_be();
        header[0] == 0x45 && u16::from_le_bytes([header[6], header[7]]) & FRAGMENT == 0
    }

    #[inline(always)]
    fn packet_len(header: &[u8]) -> usize {
        usize::from(be16(header, 2))
    }

    #[inline(always)]
    fn addresses(header: &[u8]) -> (Bits, Bits) {
        (Bits(be32(header, 12)), Bits(be32(header, 16)))
    }

    #[inline(always)]
    fn ecn(header: &[u8]) -> u8 {
        header[1] & 3
    }

    #[inline(always)]
    fn verified_sum(header: &[u8]) -> Option<u64> {
        let addresses = le64(header, 12);
        let all = with_two(addresses, le64(header, 0), le32(header, 8));
        // A sum that is not 0 folds to 0xffff if it is a multiple of it.
        all.is_multiple_of(0xffff).then_some(addresses)
    }

    #[inline(always)]
    fn write(
        below: &LowerHeaders,
        (source, destination): (Bits, Bits),
        header: &mut [u8],
        ecn: u8,
        protocol: u8,
        len: usize,
    ) -> u64 {
        let Some(header) = header.first_chunk_mut() else { return 0 };
        let (source, destination) = (source.0, destination.0);
        let LowerHeaders { tos, ttl, id, .. } = *below;
        ipv4::Header { tos: tos | ecn, id, ttl, protocol, source, destination }.write(header, len)
    }
}

impl Family for V6 {
    type Ip = Address;
    const ETHERTYPE: u16 = ethernet::IPV6;
    const HEADER: usize = ipv6::HEADER;
    const PROTOCOL: usize = 6;

    #[inline(always)]
    fn is_plain(header: &[u8]) -> bool {
        let (source, destination) = Self::addresses(header);
        // IPv4-mapped ones are on no link (RFC 4942 section 2.2), and would be taken for IPv4.
        header[0] >> 4 == 6 && source.is_v6() && destination.is_v6()
    }

    #[inline(always)]
    fn packet_len(header: &[u8]) -> usize {
        ipv6::HEADER + usize::from(be16(header, 4))
    }

    #[inline(always)]
    fn addresses(header: &[u8]) -> (Address, Address) {
        header.first_chunk().map_or((Address(0), Address(0)), ipv6::addresses)
    }

    #[inline(always)]
    fn ecn(header: &[u8]) -> u8 {
        header[1] >> 4 & 3
    }

    #[inline(always)]
    fn verified_sum(header: &[u8]) -> Option<u64> {
        header[8..].first_chunk().map(|addresses| with_four(0, addresses))
    }

    #[inline(always)]
    fn write(
        below: &LowerHeaders,
        (source, destination): (Address, Address),
        header: &mut [u8],
        ecn: u8,
        protocol: u8,
        len: usize,
    ) -> u64 {
        let Some(header) = header.first_chunk_mut() else { return 0 };
        let (traffic_class, hop_limit) = (below.tos | ecn, below.ttl);
        ipv6::Header { traffic_class, flow_label: 0, next: protocol, hop_limit, source, destination }.write(header, len)
    }
}

/// A plain packet of a family.
#[derive(Clone, Copy, Debug)]
pub struct FastPathPacket<F: Family, T> {
    /// IP address.
    pub source: F::Ip,
    /// IP address.
    pub destination: F::Ip,
    /// Explicit congestion notification, as in [`Packet`].
    pub ecn: u8,
    /// Content of the packet.
    pub content: T,
    family: PhantomData<F>,
}

impl<'a, F: Family> FastPathPacket<F, Segment<'a>> {
    /// Reads a frame without FCS if it is a plain segment of TCP and its checksums are right, of which a device may have verified
    /// that of TCP; [`Packet::read`] reads all others.
    #[inline(always)]
    pub fn read(frame: &'a [u8], verified: bool) -> Option<Self> {
        Self::read_if(frame, verified, |_| true)
    }

    /// As `read`, if `wanted` accepts the segment's flags; none, with nothing more read, otherwise.
    #[inline(always)]
    pub fn read_if(frame: &'a [u8], verified: bool, wanted: impl FnOnce(u8) -> bool) -> Option<Self> {
        let headers = ETHERNET + F::HEADER;
        let fixed = frame.get(..headers + tcp::HEADER)?;
        let (ip, header) = fixed[ETHERNET..].split_at(F::HEADER);
        if !(be16(fixed, MACS) == F::ETHERTYPE && F::is_plain(ip) && ip[F::PROTOCOL] == TCP && wanted(header[13])) {
            return None;
        }
        let end = ETHERNET + F::packet_len(ip);
        let data = headers + usize::from(header[12] >> 4) * 4;
        if end > frame.len() || data < headers + tcp::HEADER || data > end {
            return None;
        }
        let body = &frame[headers..end];
        let pseudo = pseudo_le::<F>(ip, TCP, body.len())?;
        // A sum that is not 0 folds to 0xffff if it is a multiple of it.
        if !(verified || segment_total(body, pseudo).is_multiple_of(0xffff)) {
            return None;
        }
        let segment = Segment::of(header.first_chunk()?, &frame[headers + tcp::HEADER..data], &frame[data..end]);
        Some(Self::of(ip, segment))
    }
}

impl<'a, F: Family> FastPathPacket<F, Datagram<'a>> {
    /// Reads a frame without FCS if it is a plain datagram of UDP with a checksum, and its checksums are right.
    #[inline(always)]
    pub fn read_udp(frame: &'a [u8]) -> Option<Self> {
        let headers = ETHERNET + F::HEADER;
        let fixed = frame.get(..headers + udp::HEADER)?;
        let (ip, header) = fixed[ETHERNET..].split_at(F::HEADER);
        let plain = be16(fixed, MACS) == F::ETHERTYPE && F::is_plain(ip) && ip[F::PROTOCOL] == UDP;
        let end = ETHERNET + F::packet_len(ip);
        let len = usize::from(be16(header, 4));
        if !plain || end > frame.len() || headers + len != end || len < udp::HEADER || be16(header, udp::CHECKSUM) == 0
        {
            return None;
        }
        let body = &frame[headers..end];
        let pseudo = pseudo_le::<F>(ip, UDP, len)?;
        if !with_carry(pseudo, sum_le(body)).is_multiple_of(0xffff) {
            return None;
        }
        let (source_port, destination_port) = (be16(header, 0), be16(header, 2));
        Some(Self::of(ip, Datagram { source_port, destination_port, payload: &body[udp::HEADER..] }))
    }
}

/// The sum of all words of a segment in little-endian order and another sum, up to a multiple of 0xffff.
#[inline(always)]
fn segment_total(segment: &[u8], sum: u64) -> u64 {
    // A header with timestamps: often all that there is.
    let (sum, rest) = match segment.split_first_chunk() {
        Some((header, data)) => (with_four(sum, header), data),
        None => (sum, segment),
    };
    match rest.len() {
        0 => sum,
        // The header of a SYN has as many more.
        8 => with_carry(sum, le64(rest, 0)),
        _ => total_le(sum, rest),
    }
}

/// The sum of the pseudo header's words in little-endian order, if the IP header is right. It takes up to 64 bits.
#[inline(always)]
fn pseudo_le<F: Family>(ip: &[u8], protocol: u8, len: usize) -> Option<u64> {
    let addresses = F::verified_sum(ip)?;
    Some(with_carry(addresses, u64::from(u16::from(protocol).to_be()) + u64::from((len as u16).to_be())))
}

impl<F: Family, T> FastPathPacket<F, T> {
    #[inline(always)]
    fn of(ip: &[u8], content: T) -> Self {
        let (source, destination) = F::addresses(ip);
        Self { source, destination, ecn: F::ecn(ip), content, family: PhantomData }
    }

    /// The packet as the other readers give it.
    #[inline(always)]
    pub fn packet<'a>(&self, frame: &[u8], content: Content<'a>) -> Packet<'a> {
        let mut source_mac = [0; 6];
        source_mac.copy_from_slice(&frame[6..MACS]);
        let (source, destination) = (self.source.into(), self.destination.into());
        Packet { source_mac, source, destination, ecn: self.ecn, content }
    }
}

/// Whether a frame's EtherType is that of a family.
#[inline(always)]
pub fn is_of<F: Family>(frame: &[u8]) -> bool {
    frame.get(MACS..ETHERNET).is_some_and(|ethertype| be16(ethertype, 0) == F::ETHERTYPE)
}

/// Whether a plain packet's reader would take what is in a frame for UDP.
#[inline(always)]
pub fn may_be_udp<F: Family>(frame: &[u8]) -> bool {
    frame.get(ETHERNET + F::PROTOCOL) == Some(&UDP)
}

/// Where a plain packet's reader finds its endpoints, in a frame that is not looked at else: source, destination, their ports
/// in the upper and the lower half, and whether it is UDP, else TCP. None if it is too short, or of another family, which for IPv4
/// is not looked at.
#[inline(always)]
pub fn ends<F: Family>(frame: &[u8]) -> Option<(F::Ip, F::Ip, u32, bool)> {
    let fixed = frame.get(..ETHERNET + F::HEADER + 4)?;
    if F::ETHERTYPE != ethernet::IPV4 && be16(fixed, MACS) != F::ETHERTYPE {
        return None;
    }
    let ip = &fixed[ETHERNET..];
    let (source, destination) = F::addresses(ip);
    Some((source, destination, be32(ip, F::HEADER), ip[F::PROTOCOL] == UDP))
}

/// The endpoints of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Endpoints {
    /// IPv4 addresses.
    V4 {
        /// Address of the sender.
        source: u32,
        /// Address of the receiver.
        destination: u32,
    },
    /// IPv6 addresses.
    V6 {
        /// Address of the sender.
        source: Address,
        /// Address of the receiver.
        destination: Address,
    },
}

impl Endpoints {
    /// From one address to another of the same family.
    #[inline]
    pub fn of(source: Address, destination: Address) -> Self {
        match (source.as_v4(), destination.as_v4()) {
            (Some(source), Some(destination)) => Self::V4 { source, destination },
            _ => Self::V6 { source, destination },
        }
    }

    /// Bytes of the headers of Ethernet and IP between them.
    #[inline]
    pub fn headers(&self) -> usize {
        match self {
            Self::V4 { .. } => ETHERNET + ipv4::HEADER,
            Self::V6 { .. } => ETHERNET + ipv6::HEADER,
        }
    }
}

/// The headers below the transport of what a flow sends.
#[derive(Clone, Copy, Debug)]
pub struct LowerHeaders {
    /// Ethernet destination and source.
    pub macs: [u8; 12],
    /// IP addresses.
    pub ends: Endpoints,
    /// IPv4 type of service, IPv6 traffic class.
    pub tos: u8,
    /// Time to live, hop limit.
    pub ttl: u8,
    /// IPv4 identification.
    pub id: u16,
    /// What the port's device completes.
    pub finish: OffloadRequest,
}

impl LowerHeaders {
    /// Bytes before the transport's header.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.headers()
    }

    /// False: headers have bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the headers of Ethernet and IP for a transport's packet of this many bytes. Gives the sum of its pseudo header.
    #[inline]
    fn write(&self, frame: &mut [u8], ecn: u8, protocol: u8, len: usize) -> u64 {
        match self.ends {
            Endpoints::V4 { source, destination } => {
                self.write_of::<V4>((Bits(source), Bits(destination)), frame, ecn, protocol, len)
            }
            Endpoints::V6 { source, destination } => {
                self.write_of::<V6>((source, destination), frame, ecn, protocol, len)
            }
        }
    }

    #[inline(always)]
    fn write_of<F: Family>(&self, ends: (F::Ip, F::Ip), frame: &mut [u8], ecn: u8, protocol: u8, len: usize) -> u64 {
        let Some((link, packet)) = frame.split_first_chunk_mut::<ETHERNET>() else { return 0 };
        link[..MACS].copy_from_slice(&self.macs);
        put_be16(link, MACS, F::ETHERTYPE);
        F::write(self, ends, packet, ecn, protocol, len)
    }

    /// Writes the headers of a TCP segment whose data, `data` bytes with this sum, is or will be behind them. The frame
    /// holds all of it.
    pub fn write_tcp(&self, frame: &mut [u8], head: &SegmentHeader, options: &Options, (data, data_sum): (usize, u16)) {
        let (below, at, len) = (self.len(), self.len() + tcp::HEADER, options.len());
        let sum = options.write(&mut frame[at..at + len]) + u64::from(data_sum);
        let pseudo = self.write(frame, head.ecn, TCP, tcp::HEADER + len + data);
        if let Some(fixed) = frame[below..].first_chunk_mut() {
            head.write(fixed, len, pseudo + sum);
        }
        if self.finish != OffloadRequest::Nothing {
            let packet = &mut frame[ETHERNET..];
            prepare_checksums(packet, below - ETHERNET, self.finish, true, pseudo, tcp::HEADER + len + data);
        }
    }

    /// Writes the headers of a TCP segment with timestamps (value and echo) as its only option, if any, as nearly all segments have.
    #[inline(always)]
    pub fn write_plain(
        &self,
        frame: &mut [u8],
        head: &SegmentHeader,
        timestamps: Option<(u32, u32)>,
        data: (usize, u16),
    ) {
        match timestamps.filter(|_| self.finish == OffloadRequest::Nothing) {
            Some((value, echo)) => self.write_words(frame, head, [TIMESTAMPS, value, echo], data),
            None => self.write_rare(frame, *head, Options { timestamps, ..Options::default() }, data),
        }
    }

    /// Writes the headers of a SYN, which is all of its packet.
    #[inline(always)]
    pub fn write_syn(&self, frame: &mut [u8], head: &SegmentHeader, options: &Options) {
        match options.usual_of_syn().filter(|_| self.finish == OffloadRequest::Nothing) {
            Some(words) => self.write_words(frame, head, words, (0, 0)),
            None => self.write_rare(frame, *head, *options, (0, 0)),
        }
    }

    /// `write_tcp` for a caller in which it is inlined, and rare. By values: a reference to what the caller has would keep that in memory,
    /// not in registers, for all that it writes otherwise.
    #[inline(never)]
    fn write_rare(self, frame: &mut [u8], head: SegmentHeader, options: Options, data: (usize, u16)) {
        self.write_tcp(frame, &head, &options, data);
    }

    /// Writes the headers of a segment whose options are these words of 32 bits, where nothing is left to the device.
    #[inline(always)]
    fn write_words<const N: usize>(
        &self,
        frame: &mut [u8],
        head: &SegmentHeader,
        options: [u32; N],
        data: (usize, u16),
    ) {
        match self.ends {
            Endpoints::V4 { source, destination } => {
                self.write_words_of::<V4, N>((Bits(source), Bits(destination)), frame, head, options, data);
            }
            Endpoints::V6 { source, destination } => {
                self.write_words_of::<V6, N>((source, destination), frame, head, options, data);
            }
        }
    }

    #[inline(always)]
    fn write_words_of<F: Family, const N: usize>(
        &self,
        ends: (F::Ip, F::Ip),
        frame: &mut [u8],
        head: &SegmentHeader,
        options: [u32; N],
        (data, data_sum): (usize, u16),
    ) {
        let Some((below, frame)) = frame.split_at_mut_checked(ETHERNET + F::HEADER) else { return };
        let Some((fixed, frame)) = frame.split_first_chunk_mut() else { return };
        let Some(places) = frame.as_chunks_mut::<4>().0.first_chunk_mut::<N>() else { return };
        let pseudo = self.write_of::<F>(ends, below, head.ecn, TCP, tcp::HEADER + 4 * N + data);
        *places = options.map(u32::to_be_bytes);
        let sum = options.iter().fold(u64::from(data_sum), |sum, word| sum + u64::from(*word));
        head.write(fixed, 4 * N, pseudo + sum);
    }

    /// Writes the headers of a UDP datagram.
    #[inline]
    pub fn write_udp(&self, frame: &mut [u8], ports: (u16, u16), data: usize, data_sum: u16) {
        let below = self.len();
        let len = udp::HEADER + data;
        let pseudo = self.write(frame, 0, UDP, len);
        let Some(header) = frame[below..].first_chunk_mut() else { return };
        udp::write_unsummed(header, ports, data);
        udp::complete(header, pseudo + u64::from(data_sum));
        if self.finish != OffloadRequest::Nothing {
            prepare_checksums(&mut frame[ETHERNET..], below - ETHERNET, self.finish, false, pseudo, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::Offers;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn syns_and_plain_segments_are_written_as_all_others_and_read(
            addresses: [u128; 2], v6: bool, numbers: (u32, u32, u16), flags: u8, finish in 0usize..3, data: (u8, u16),
            mss: Option<u16>, window_scale in prop::option::of(0u8..15), sack_permitted: bool, timestamps: Option<(u32, u32)>,
        ) {
            let address = |bits: u128| if v6 { Address(bits | 1 << 127) } else { Address::v4(bits as u32) };
            let finish = [OffloadRequest::Nothing, OffloadRequest::Checksums, OffloadRequest::Segments][finish];
            let ends = Endpoints::of(address(addresses[0]), address(addresses[1]));
            let below = LowerHeaders { macs: *b"abcdefghijkl", ends, tos: 4, ttl: 9, id: 7, finish };
            let ((seq, ack, window), data) = (numbers, (usize::from(data.0), data.1));
            let head = SegmentHeader { source_port: 1, destination_port: 2, seq, ack, flags, window, ecn: 1 };
            // Without a maximum segment size nothing else is offered.
            let (window_scale, sack_permitted) = (window_scale.filter(|_| mss.is_some()), sack_permitted && mss.is_some());
            let syn = Options { mss, window_scale, sack_permitted, timestamps, ..Options::default() };
            let plain = Options { timestamps, ..Options::default() };
            let written = |write: &dyn Fn(&mut [u8])| {
                let mut frame = vec![0; 400];
                write(&mut frame);
                frame
            };
            let frame = written(&|frame| below.write_syn(frame, &head, &syn));
            prop_assert_eq!(&frame, &written(&|frame| below.write_tcp(frame, &head, &syn, (0, 0))));
            prop_assert_eq!(
                written(&|frame| below.write_plain(frame, &head, timestamps, data)),
                written(&|frame| below.write_tcp(frame, &head, &plain, data))
            );
            if finish == OffloadRequest::Nothing {
                let Ok(Packet { content: Content::Tcp(s), .. }) = Packet::read(&frame) else { panic!("it is a segment") };
                let Options { mss, window_scale, sack_permitted, timestamps, .. } = s.options();
                prop_assert_eq!(s.offers(), Offers { mss, window_scale, sack_permitted, timestamps });
            }
        }
    }
}
