// SPDX-License-Identifier: Apache-2.0
//! The protocol library: its readers agree with each other on any frame, whatever is in it, and read what its writers wrote.
#![no_main]
use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use spate_net::{
    Headers,
    checksum::{checksum, sum},
    ethernet::Link,
    fast::{self, FastPathPacket, V4, V6},
    headers::Version,
    ip::{Fixed, pseudo_header},
    ipv4,
    offload::{HeaderLengths, OffloadRequest},
    oracle::Inner,
    packet::{self, Address, Content, Datagram, Endpoints, LowerHeaders, Options, Packet, Segment, SegmentHeader},
    vlan,
};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    tags: Vec<(u8, u16)>,
    kind: u8,
    /// Lengths and checksums are made right.
    whole: bool,
    /// The IP header's first byte and protocol, by table.
    shape: (u8, u8),
    body: &'a [u8],
    written: Written,
}

#[derive(Arbitrary, Debug)]
struct Written {
    v6: bool,
    source: u128,
    destination: u128,
    macs: [u8; 12],
    tos: u8,
    ttl: u8,
    id: u16,
    finish: u8,
    ports: (u16, u16),
    numbers: (u32, u32),
    flags: u8,
    window: u16,
    ecn: u8,
    timestamps: Option<(u32, u32)>,
    mss: Option<u16>,
    data: u8,
}

const ETHERTYPES: [u16; 8] = [0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x8847, 0x8864, 0x88b5];
const PROTOCOLS: [u8; 12] = [6, 17, 1, 58, 0, 43, 44, 51, 60, 135, 132, 41];

impl Input<'_> {
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
        for (kind, tag) in &self.tags {
            let kind = [vlan::CUSTOMER, vlan::SERVICE, vlan::OLD_SERVICE][usize::from(*kind) % 3];
            frame.extend([kind.to_be_bytes(), tag.to_be_bytes()].concat());
        }
        frame.extend(ETHERTYPES[usize::from(self.kind) % 8].to_be_bytes());
        let at = frame.len();
        frame.extend(self.body);
        if self.whole {
            self.complete(&mut frame, at);
        }
        frame
    }

    /// Makes the body an IP packet whose lengths and checksums are right, if there is room for one.
    fn complete(&self, frame: &mut [u8], at: usize) {
        let v6 = ETHERTYPES[usize::from(self.kind) % 8] == 0x86dd;
        let packet = &mut frame[at..];
        let (len, protocol) = (packet.len(), PROTOCOLS[usize::from(self.shape.1) % 12]);
        if len < 48 {
            return;
        }
        if v6 {
            packet[0] = 0x60 | packet[0] & 15;
            packet[6] = protocol;
            packet[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        } else {
            packet[0] = 0x45 + self.shape.0 % 3;
            packet[9] = protocol;
            packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            packet[6] &= 0x40;
            packet[7] = 0;
            let header = usize::from(packet[0] & 15) * 4;
            ipv4::complete(&mut packet[..header]);
        }
        let Some(headers) = Headers::find(frame) else { return };
        let Some((protocol, start)) = headers.transport else { return };
        let end = frame.len();
        let check = match protocol {
            6 => 16,
            17 => 6,
            1 | 58 => 2,
            _ => return,
        };
        if start + check + 2 > end {
            return;
        }
        if protocol == 6 {
            frame[start + 12] = frame[start + 12] & 0x0f | (5 + self.shape.0 % 9) << 4;
        }
        if protocol == 17 {
            frame[start + 4..start + 6].copy_from_slice(&((end - start) as u16).to_be_bytes());
        }
        let pseudo = match protocol {
            1 => 0,
            _ => pseudo_header(headers.source(frame), headers.destination(frame), protocol, end - start),
        };
        frame[start + check..start + check + 2].fill(0);
        let sum = checksum(sum(&frame[start..]) + pseudo);
        frame[start + check..start + check + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

fuzz_target!(|input: Input<'_>| {
    let frame = input.frame();
    layers(&frame);
    packets(&frame);
    plain(&frame);
    tunnels(&frame);
    written(&input.written);
});

fn layers(frame: &[u8]) {
    let Some(link) = Link::find(frame) else {
        assert_eq!(Headers::find(frame), None, "IP in what is no frame");
        return;
    };
    assert!(link.end <= frame.len() && link.end == 14 + 4 * link.tags(), "the Ethernet header");
    assert!(link.tags() <= 1 || link.station_vlan().is_none(), "a station's frame has one tag");
    let Some(headers) = Headers::find(frame) else { return };
    let version = if headers.version == Version::V6 { 6 } else { 4 };
    assert_eq!((headers.link, frame[headers.at] >> 4), (link, version));
    assert!(headers.at >= link.end && headers.end > headers.at, "headers in their order");
    if let Some((_, start)) = headers.transport {
        assert!(start == headers.end && start <= frame.len(), "what it carries begins where its headers end");
    }
    let (source, destination) = (headers.source(frame), headers.destination(frame));
    if headers.is_native() {
        // IPv4-mapped addresses of IPv6 would be taken for IPv4.
        let mapped = version == 6 && !(source.is_v6() && destination.is_v6());
        let fixed = Fixed::read(&frame[headers.at..]).map(|fixed| (fixed.source, fixed.destination));
        assert_eq!(fixed, (!mapped).then_some((source, destination)), "addresses");
        assert_eq!(packet::destination(frame), Some(destination), "the destination of a broken packet");
    }
    // A device is given lengths of a byte each.
    if let Some(of) = HeaderLengths::of(frame).filter(|_| headers.end < 200) {
        let start = usize::from(of.l2) + usize::from(of.l3);
        assert_eq!((usize::from(of.l2), start, of.v6), (headers.at, headers.end, version == 6), "layers for a device");
    }
}

/// All that is in a packet.
fn content(p: &Packet<'_>) -> String {
    format!("{:?} {:?} {} {:?} {:?}", p.source, p.destination, p.ecn, p.source_mac, p.content)
}

fn packets(frame: &[u8]) {
    let marked = Packet::read_marked(frame, true);
    let Ok(packet) = Packet::read(frame) else { return };
    assert_eq!(
        marked.as_ref().map(content).ok(),
        Some(content(&packet)),
        "a checksum that is right need not be verified"
    );
    let headers = Headers::find(frame).expect("it is IP");
    assert_eq!((packet.source, packet.destination), (headers.source(frame), headers.destination(frame)));
    assert!(headers.is_native() && !headers.fragment && headers.packet_end(frame) <= frame.len());
    let (protocol, start) = headers.transport.expect("it carries something");
    let within = |payload: &[u8], header: usize| start + header + payload.len() <= headers.packet_end(frame);
    match packet.content {
        Content::Tcp(s) => assert!(protocol == 6 && within(s.payload, 20), "a segment in its packet"),
        Content::Udp(d) => assert!(protocol == 17 && within(d.payload, 8), "a datagram in its packet"),
        Content::Icmp(_) => assert!([1, 58].contains(&protocol)),
    }
}

fn plain(frame: &[u8]) {
    let whole = Packet::read(frame).map(|p| content(&p));
    let v4_segment =
        FastPathPacket::<V4, Segment<'_>>::read(frame, false).map(|p| p.packet(frame, Content::Tcp(p.content)));
    let v6_segment =
        FastPathPacket::<V6, Segment<'_>>::read(frame, false).map(|p| p.packet(frame, Content::Tcp(p.content)));
    let v4 = FastPathPacket::<V4, Datagram<'_>>::read_udp(frame).map(|p| p.packet(frame, Content::Udp(p.content)));
    let v6 = FastPathPacket::<V6, Datagram<'_>>::read_udp(frame).map(|p| p.packet(frame, Content::Udp(p.content)));
    for p in [&v4_segment, &v6_segment, &v4, &v6].into_iter().flatten() {
        assert_eq!(Ok(content(p)), whole, "a plain packet is one");
    }
    // And the other way: nothing plain is read the slow way.
    if let (Ok(p), Some(headers)) = (Packet::read(frame), Headers::find(frame))
        && headers.at == 14
        && headers.end == 14 + if headers.version == Version::V6 { 40 } else { 20 }
    {
        match p.content {
            Content::Tcp(_) => assert!(v4_segment.or(v6_segment).is_some(), "it is plain"),
            // Unless something follows the datagram in its packet, or it has no checksum.
            Content::Udp(d) => {
                let all = headers.packet_end(frame) == headers.end + 8 + d.payload.len();
                let summed = frame[headers.end + 6..headers.end + 8] != [0, 0];
                assert!(v4.or(v6).is_some() || !all || !summed, "it is plain");
            }
            Content::Icmp(_) => {}
        }
        let (source, destination) = (headers.source(frame), headers.destination(frame));
        let ends = match headers.version {
            Version::V4 => fast::ends::<V4>(frame).map(|(from, to, ..)| (from.into(), to.into())),
            Version::V6 => fast::ends::<V6>(frame).map(|(from, to, ..)| (from, to)),
        };
        assert_eq!(ends, Some((source, destination)), "endpoints");
    }
}

fn tunnels(frame: &[u8]) {
    if let Some(packet) = frame.get(14..)
        && let Ok(message) = spate_net::gtpu::Message::read(packet)
    {
        assert!(packet.as_ptr_range().end >= message.payload.as_ptr_range().end, "a message in its packet");
    }
    let Some(headers) = Headers::find(frame) else { return };
    let Some(inner) = Inner::of(&headers, frame) else { return };
    let packet = inner.frame(frame);
    let of = inner.headers;
    assert!(headers.end < inner.start + of.at && inner.start + of.end <= frame.len(), "a packet in its tunnel");
    assert_eq!(packet[of.at] >> 4, if of.version == Version::V6 { 6 } else { 4 });
}

fn written(w: &Written) {
    let address = |bits: u128| if w.v6 { Address(bits) } else { Address::v4(bits as u32) };
    let (source, destination) = (address(w.source), address(w.destination));
    if w.v6 && !(source.is_v6() && destination.is_v6()) {
        return;
    }
    let finish =
        [OffloadRequest::Nothing, OffloadRequest::Checksums, OffloadRequest::Segments][usize::from(w.finish) % 3];
    let tos = w.tos & 0xfc;
    let below =
        LowerHeaders { macs: w.macs, ends: Endpoints::of(source, destination), tos, ttl: w.ttl, id: w.id, finish };
    // Data is of zeros, so that its sum is 0.
    let data = usize::from(w.data);
    let (ip, room) = (if w.v6 { 54 } else { 34 }, 14 + 40 + 60 + 255);
    let head = SegmentHeader {
        source_port: w.ports.0,
        destination_port: w.ports.1,
        seq: w.numbers.0,
        ack: w.numbers.1,
        flags: w.flags,
        window: w.window,
        ecn: w.ecn & 3,
    };
    let options = Options { mss: w.mss, timestamps: w.timestamps, ..Options::default() };
    let mut frames = [const { Vec::new() }; 3];
    for (kind, frame) in frames.iter_mut().enumerate() {
        frame.resize(room, 0);
        match kind {
            0 => below.write_udp(frame, w.ports, data, 0),
            1 => below.write_plain(frame, &head, w.timestamps, (data, 0)),
            _ => below.write_tcp(frame, &head, &options, (data, 0)),
        }
        if kind == 0 {
            frame.truncate(ip + 8 + data);
        } else {
            frame.truncate(ip + usize::from(frame[ip + 12] >> 4) * 4 + data);
        }
    }
    for (kind, frame) in frames.iter().enumerate() {
        let layers = HeaderLengths::of(frame).expect("it is TCP or UDP");
        assert_eq!((usize::from(layers.l2) + usize::from(layers.l3), layers.v6, layers.tcp), (ip, w.v6, kind > 0));
        if finish != OffloadRequest::Nothing {
            continue; // the device writes its checksums
        }
        let read = Packet::read(frame).expect("what is written is read");
        assert_eq!((read.source, read.destination, read.source_mac[..] == w.macs[6..]), (source, destination, true));
        match read.content {
            Content::Udp(d) => {
                assert_eq!((kind, d.source_port, d.destination_port, d.payload.len()), (0, w.ports.0, w.ports.1, data));
            }
            Content::Tcp(s) => {
                let expected = if kind == 1 { Options { mss: None, ..options } } else { options };
                assert!(kind > 0 && s.options() == expected, "options");
                assert_eq!(
                    (s.source_port, s.destination_port, s.payload.len(), read.ecn),
                    (w.ports.0, w.ports.1, data, head.ecn)
                );
                assert_eq!((s.seq, s.ack, s.flags, s.window), (head.seq, head.ack, head.flags, head.window));
            }
            Content::Icmp(_) => panic!("it is no ICMP"),
        }
    }
}
