// SPDX-License-Identifier: Apache-2.0
//! A captured packet of a session: its endpoints, and what it carries.
use std::net::IpAddr;

use spate_net::{
    Headers,
    field::{be16, be32},
    headers::{TCP, UDP, Version},
    ipv6,
    tcp::flag,
};

use super::Transport;

/// Endpoints of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) transport: Transport,
    pub(super) source: (IpAddr, u16),
    pub(super) destination: (IpAddr, u16),
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) flow: Flow,
    /// Bytes of the IP packet.
    pub(super) ip_len: usize,
    /// Header fields of TCP.
    pub(super) segment: Segment,
    pub(super) payload: &'a [u8],
}

/// What TCP's header says (RFC 9293 section 3.1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) syn: bool,
    pub(super) ack: bool,
    pub(super) fin: bool,
    pub(super) rst: bool,
}

impl Flow {
    /// The other way.
    pub(super) fn back(&self) -> Self {
        Self { transport: self.transport, source: self.destination, destination: self.source }
    }

    /// By what it is no packet of a flow, either way.
    pub(super) fn apart_from(&self, flow: &Self) -> &'static str {
        let addresses = |f: &Self| [f.source.0, f.destination.0];
        if self.transport != flow.transport {
            "transport"
        } else if ![addresses(flow), addresses(&flow.back())].contains(&addresses(self)) {
            "pair of addresses"
        } else {
            "pair of ports"
        }
    }
}

impl<'a> Packet<'a> {
    /// Reads a frame, or says why it belongs to no session.
    pub(super) fn read(frame: &'a [u8]) -> Result<Self, String> {
        let headers =
            Headers::find(frame).ok_or("it is no IP packet; a session has only TCP or only UDP: filter it")?;
        if headers.fragment {
            return Err("it is a fragment of a packet that is not known: capture whole packets".to_owned());
        }
        let ip_len = ip_len(frame, &headers)?;
        let ip = &frame[..headers.at + ip_len];
        let transport = headers.transport.and_then(|(protocol, at)| Some((protocol, ip.get(at..)?)));
        let (transport, ports, segment, payload) = match transport {
            Some((TCP, segment)) => tcp(segment).map(|(ports, s, payload)| (Transport::Tcp, ports, s, payload)),
            Some((UDP, datagram)) => {
                udp(datagram).map(|(ports, payload)| (Transport::Udp, ports, Segment::default(), payload))
            }
            _ => return Err("it is neither TCP nor UDP; a session has only one of them: filter it".to_owned()),
        }
        .ok_or("its header says lengths that are not possible: the file is broken")?;
        let [source, destination] = [headers.source(ip), headers.destination(ip)].map(IpAddr::from);
        let flow = Flow { transport, source: (source, ports.0), destination: (destination, ports.1) };
        Ok(Self { flow, ip_len, segment, payload })
    }
}

/// Bytes of the IP packet, as its header says; all of them are there.
fn ip_len(frame: &[u8], headers: &Headers) -> Result<usize, String> {
    let at = headers.at;
    let len = headers.packet_end(frame) - at;
    let least = match headers.version {
        Version::V4 => headers.end - at,
        Version::V6 => ipv6::HEADER + 1,
    };
    if len < least {
        return Err("its IP header says no length (segmentation offload, or a jumbogram): \
                    capture where packets have a length, such as with offloads off"
            .to_owned());
    }
    let there = frame.len() - at;
    if there < len {
        return Err("its IP header says more bytes than were captured: capture whole packets".to_owned());
    }
    Ok(len)
}

type Ports = (u16, u16);

fn tcp(segment: &[u8]) -> Option<(Ports, Segment, &[u8])> {
    let header: &[u8; 20] = segment.first_chunk()?;
    let len = usize::from(header[12] >> 4) * 4;
    let has = |bit: u8| header[13] & bit != 0;
    let read = Segment {
        sequence: be32(header, 4),
        acknowledgement: be32(header, 8),
        fin: has(flag::FIN),
        syn: has(flag::SYN),
        rst: has(flag::RST),
        ack: has(flag::ACK),
    };
    if len < 20 {
        return None;
    }
    Some(((be16(header, 0), be16(header, 2)), read, segment.get(len..)?))
}

fn udp(datagram: &[u8]) -> Option<(Ports, &[u8])> {
    let header: &[u8; 8] = datagram.first_chunk()?;
    let len = usize::from(be16(header, 4));
    Some(((be16(header, 0), be16(header, 2)), datagram.get(8..len)?))
}
