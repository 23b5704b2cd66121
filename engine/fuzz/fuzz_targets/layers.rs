// SPDX-License-Identifier: Apache-2.0
//! The protocol library against the header walkers that it replaced (`before`): what both take they read alike, and write alike. Where
//! they differ by intent, that is said here, with who was right.
#![no_main]
use libfuzzer_sys::{
    arbitrary::{self, Arbitrary},
    fuzz_target,
};
use spate_net::{
    Headers,
    checksum::{checksum, sum},
    ethernet::Link,
    fast::{self, Plain, V4, V6},
    headers::Version,
    ip::{Fixed, pseudo_header},
    ipv4,
    offload::{Finish, Layers},
    packet::{Address, Below, Content, Datagram, Ends, Head, Options, Packet, Reject, Segment},
    vlan,
};

#[path = "../before/mod.rs"]
mod before;

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
    data_sum: u16,
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
    links(&frame);
    layers(&frame);
    packets(&frame);
    plain(&frame);
    tunnels(&frame);
    written(&input.written);
});

fn links(frame: &[u8]) {
    use before::links;
    let link = Link::find(frame);
    let tags = link.map_or(usize::MAX, |link| link.tags());
    let old_service = (12..frame.len().saturating_sub(1)).step_by(4).any(|at| frame[at..at + 2] == [0x91, 0]);
    // MTU: the third tag and those of 0x9100 were taken for payload. They are no part of an IP packet either: the new side is right.
    if tags <= 2 && !old_service {
        assert_eq!(
            link.map_or(14, |link| link.end),
            links::ethernet_header_bytes(frame),
            "bytes of the Ethernet header"
        );
    }
    // Stations: frames in 0x9100 tags passed as untagged ones of a type that nobody knows. Now they are of no VLAN.
    if let Some(old) = links::Frame::parse(frame).filter(|_| link.is_some() && !old_service) {
        let new = link.and_then(|link| Some((link.station_vlan()?, link.ethertype, &frame[link.end..])));
        let tagged = vlan::is_tag(old.ethertype);
        assert_eq!(new, (!tagged).then_some((old.vlan, old.ethertype, old.payload)), "a station's frame");
    }
    for vlan in [0, 5] {
        let new = link.and_then(|link| link.station_vlan()) == Some(vlan);
        // A frame that ends in its Ethernet header was of no VLAN; there is nothing in it.
        if link.is_some() && !old_service {
            assert_eq!(new, links::in_vlan(frame, vlan), "the VLAN of a flow's frame");
        }
    }
}

fn layers(frame: &[u8]) {
    let (new, old) = (Headers::find(frame), before::headers::Headers::find(frame));
    let fields = |new: &Headers| (new.version == Version::V6, new.at, new.fragment, new.transport);
    match (&new, &old) {
        // Eight tags or labels, and seven extension headers, were the most: there is no such limit in any standard, and the comment
        // said eight of the latter.
        (Some(_), None) => {
            assert!(new.is_some_and(|new| new.at > 14 + 4 * 7), "only many tags and labels differ: {new:?}")
        }
        (Some(new), Some(old))
            if old.transport.is_none() && (new.transport.is_some() || new.fragment && !old.fragment) =>
        {
            assert!(new.end - new.at >= 40 + 8 * 7, "only many extension headers differ");
        }
        _ => {
            let old = old.map(|old| (old.version == before::headers::Version::V6, old.at, old.fragment, old.transport));
            assert_eq!(new.as_ref().map(fields), old, "the layers");
        }
    }
    if let (Some(new), Some(_)) = (new, old)
        && new.version == Version::V6
        && new.transport.is_none()
    {
        let end = before::links::extensions_end(frame, new.at);
        // It ended at a fragment's header, behind which others follow if it is the first.
        let fragment = end > new.at + 40 && new.end > end;
        assert!(new.end == end || fragment || end >= new.at + 40 + 8 * 8, "the end of the extension headers");
    }
    // Next hops: the old side read an address behind any bytes that began with 4 or 6, were the header whole or not, and knew no 0x9100.
    let native = new.filter(Headers::is_native);
    let old_service = (12..frame.len().saturating_sub(1)).step_by(4).any(|at| frame[at..at + 2] == [0x91, 0]);
    if let Some(native) = native.filter(|_| !old_service) {
        let to: Option<std::net::IpAddr> = Some(native.destination(frame).into());
        let old = before::links::ip_destination(frame).map(|to| std::net::IpAddr::from(Address::from(to)));
        assert_eq!(to, old, "the destination");
    }
    // What a device finishes was written by a flow: native, without extension headers.
    if let Some(native) = native.filter(|headers| headers.end == headers.at + 40 || headers.version == Version::V4)
        && !native.fragment
        && let Some(Layers { l2, l3, l4, v6, tcp }) = Layers::of(frame)
        && native.link.tags() < 8
    {
        let old = before::offload::Layers::of(frame, native.link.end - 14).expect("it reads whatever it is given");
        assert_eq!((l2, l3, l4, v6, tcp), (old.l2, old.l3, old.l4, old.v6, old.tcp), "layers for a device");
    }
}

/// All that is in a packet.
fn said(source: Address, destination: Address, ecn: u8, mac: [u8; 6], content: String) -> String {
    // Names of types that were renamed.
    let content = content.replace("TroubleKind", "ErrorKind").replace("Trouble", "Error");
    format!("{source:?} {destination:?} {ecn} {mac:?} {content}")
}

fn read(frame: &[u8]) -> Result<String, Reject> {
    Packet::read(frame).map(|p| said(p.source, p.destination, p.ecn, p.source_mac, format!("{:?}", p.content)))
}

fn packets(frame: &[u8]) {
    let new = read(frame);
    let old = before::packet::Packet::read(frame)
        .map(|p| said(p.source, p.destination, p.ecn, p.source_mac, format!("{:?}", p.content)));
    let Some(headers) = Headers::find(frame) else {
        // A packet with a truncated header is not reported: there is no address to count it at.
        assert!(old.is_err() && new.is_err());
        return;
    };
    let many = headers.link.tags() > 2 || headers.link.tag.is_some_and(|tag| tag.ethertype == vlan::OLD_SERVICE);
    let extended = headers.version == Version::V6 && headers.end > headers.at + 40;
    match (&new, &old) {
        (Ok(new), Ok(old)) => assert_eq!(new, old, "a packet"),
        // Tags beyond the second; extension headers of authentication and mobility, and fragments that are all of their packet: those
        // must be processed as if they were whole (RFC 6946). The new side is right.
        (Ok(_), Err(_)) => assert!(many || inner_tags(frame) || extended, "only the new side takes it: {old:?}"),
        // UDP over IPv6 without a checksum, where the sum of all else is such that 0 is right (RFC 8200 section 8.1): the new side is right.
        (Err(Reject::Checksum), Ok(_)) => {
            let udp = matches!(headers.transport, Some((17, at)) if frame[at + 6..at + 8] == [0, 0]);
            assert!(udp && headers.version == Version::V6, "only the old side takes it: {old:?}")
        }
        (Err(why), Ok(old)) => panic!("only the old side takes it, new: {why:?}, old: {old}"),
        (Err(_), Err(_)) => {}
    }
}

/// A tag of 0x9100 is among others.
fn inner_tags(frame: &[u8]) -> bool {
    (12..frame.len().saturating_sub(1)).step_by(4).any(|at| frame[at..at + 2] == [0x91, 0])
}

fn plain(frame: &[u8]) {
    for verified in [false, true] {
        let new = Plain::<V4, Segment<'_>>::read(frame, verified)
            .map(|p| said(p.source.into(), p.destination.into(), p.ecn, [0; 6], format!("{:?}", p.content)));
        let old = before::packet::Plain::read(frame, verified).map(|p| {
            said(Address::v4(p.source), Address::v4(p.destination), p.ecn, [0; 6], format!("{:?}", p.segment))
        });
        assert_eq!(new, old, "a plain segment over IPv4");
    }
    let whole = read(frame);
    let segment = Plain::<V6, Segment<'_>>::read(frame, false).map(|p| p.packet(frame, Content::Tcp(p.content)));
    let v4 = Plain::<V4, Datagram<'_>>::read_udp(frame).map(|p| p.packet(frame, Content::Udp(p.content)));
    let v6 = Plain::<V6, Datagram<'_>>::read_udp(frame).map(|p| p.packet(frame, Content::Udp(p.content)));
    for p in [segment, v4, v6].into_iter().flatten() {
        let said = said(p.source, p.destination, p.ecn, p.source_mac, format!("{:?}", p.content));
        assert_eq!(Ok(said), whole, "a plain packet is one");
    }
    // And the other way: nothing plain over IPv6 is read the slow way.
    if let (Ok(p), Some(headers)) = (Packet::read(frame), Headers::find(frame))
        && headers.version == Version::V6
        && headers.at == 14
        && headers.end == 54
    {
        match p.content {
            Content::Tcp(_) => assert!(segment.is_some(), "it is plain"),
            Content::Udp(d) => {
                assert!(v6.is_some() || headers.packet_end(frame) != 62 + d.payload.len(), "it is plain")
            }
            Content::Icmp(_) => {}
        }
    }
    let ends = fast::ends::<V4>(frame).map(|(from, to, ports, udp)| (from.0, to.0, ports, udp));
    assert_eq!(ends, before::packet::Plain::ends(frame));
    assert_eq!(fast::ends::<V6>(frame), before::packet::Plain::ends_v6(frame));
}

fn tunnels(frame: &[u8]) {
    let Some(packet) = frame.get(14..) else { return };
    let new = Fixed::read(packet).map(|f| (f.source, f.destination, f.traffic_class));
    assert_eq!(new, before::gtpu::inner_header(packet).map(|(from, to, tos, _)| (from, to, tos)), "an inner header");
    let new = spate_net::gtpu::Message::read(packet).map(|m| (m.kind, m.teid, m.sequence, m.payload));
    let old = before::gtpu::message(0, packet).map(|m| (m.kind, m.teid, m.sequence, m.payload));
    assert_eq!(new.ok(), old.ok(), "a message");
}

fn written(w: &Written) {
    let address = |bits: u128| if w.v6 { Address(bits) } else { Address::v4(bits as u32) };
    let (source, destination) = (address(w.source), address(w.destination));
    if w.v6 && !(source.is_v6() && destination.is_v6()) {
        return;
    }
    let (finish, old_finish) = [
        (Finish::Nothing, before::offload::Finish::Nothing),
        (Finish::Checksums, before::offload::Finish::Checksums),
        (Finish::Segments, before::offload::Finish::Segments),
    ][usize::from(w.finish) % 3];
    let tos = w.tos & 0xfc;
    let new = Below { macs: w.macs, ends: Ends::of(source, destination), tos, ttl: w.ttl, id: w.id, finish };
    let ends = before::packet::Ends::of(source, destination);
    let old = before::packet::Below { macs: w.macs, ends, tos, ttl: w.ttl, id: w.id, finish: old_finish };
    let (data, sum) = (usize::from(w.data), w.data_sum);
    let frames = || [vec![0; 400], vec![0; 400]];
    let [mut one, mut other] = frames();
    new.write_udp(&mut one, w.ports, data, sum);
    old.write_udp(&mut other, w.ports, data, sum);
    assert_eq!(one, other, "a datagram");
    macro_rules! head {
        ($($of:ident)::+) => {
            $($of)::+ {
                source_port: w.ports.0,
                destination_port: w.ports.1,
                seq: w.numbers.0,
                ack: w.numbers.1,
                flags: w.flags,
                window: w.window,
                ecn: w.ecn & 3,
            }
        };
    }
    let (new_head, old_head) = (head!(Head), head!(before::packet::Head));
    let [mut one, mut other] = frames();
    new.write_plain(&mut one, &new_head, w.timestamps, (data, sum));
    old.write_plain(&mut other, &old_head, w.timestamps, (data, sum));
    assert_eq!(one, other, "a plain segment");
    let [mut one, mut other] = frames();
    let options = Options { mss: w.mss, timestamps: w.timestamps, ..Options::default() };
    let old_options = before::packet::Options { mss: w.mss, timestamps: w.timestamps, ..Default::default() };
    new.write_tcp(&mut one, &new_head, &options, (data, sum));
    old.write_tcp(&mut other, &old_head, &old_options, (data, sum));
    assert_eq!(one, other, "a segment");
}
