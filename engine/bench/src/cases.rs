// SPDX-License-Identifier: Apache-2.0
//! What is measured: the plans of the cases, and what must be seen of their packets.
use contract::{
    Checksum, Continuous, Counter, FieldProgram, Measure, Packet, Plan, Random, Rate, Ratio, SizeList, Sizes, Stream,
    Timing, Variable, WeightedSize, Write, rate, sizes, stream, variable,
};

use crate::port_names::PORT;

/// Offsets in the frame of Ethernet, IPv4 and UDP.
pub const IP: usize = 14;
pub const SOURCE: usize = 26;
pub const DESTINATION: usize = 30;
pub const UDP: usize = 34;
pub const SOURCE_PORT: usize = 34;
pub const DESTINATION_PORT: usize = 36;
pub const PAYLOAD: usize = 42;

/// Marks the packets of all cases.
pub const TAG: u32 = 0x5350;
/// Packets that `cached` prebuilds: TRex's usual number.
const CACHED: u32 = 256;
/// IMIX, as frames without FCS: 7 of 64, 4 of 594, 1 of 1518 bytes on the wire.
pub const IMIX: [(usize, u32); 3] = [(60, 7), (590, 4), (1514, 1)];

/// A field that varies, and how many values of it a number of packets must show.
pub struct Varied {
    pub name: &'static str,
    pub offset: usize,
    pub size: usize,
    pub distinct: Distinct,
}

/// Number of different values that a field takes.
#[derive(Clone, Copy)]
pub enum Distinct {
    /// In turn: as many as there are packets, up to this.
    Cycle(u64),
    /// Drawn from this many: how many occur is random.
    Drawn(u64),
    /// Drawn once for each prebuilt packet, then repeated.
    DrawnOnce { from: u64, packets: u64 },
}

/// One line of the table.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    /// Frame lengths without FCS, and their weights.
    pub sizes: &'static [(usize, u32)],
    pub varied: &'static [Varied],
    pub streams: usize,
    pub cache: u32,
    pub flow: bool,
    pub latency: bool,
}

const SHORT: &[(usize, u32)] = &[(60, 1)];
const CLIENTS: (u64, u64) = (0x1000_0000, 0x1200_00fe);
const CLIENT_PORTS: (u64, u64) = (1025, 65_000);
const SERVERS: (u64, u64) = (0x3000_0001, 0x3000_fffe);
const SERVER_PORTS: (u64, u64) = (1, 1000);
const fn values(range: (u64, u64)) -> u64 {
    range.1 - range.0 + 1
}

const PLAIN: Case = Case { name: "", sizes: SHORT, varied: &[], streams: 1, cache: 0, flow: false, latency: false };
const CLIENT: Varied =
    Varied { name: "ipv4.source", offset: SOURCE, size: 4, distinct: Distinct::Drawn(values(CLIENTS)) };
const CLIENT_PORT: Varied =
    Varied { name: "udp.sourcePort", offset: SOURCE_PORT, size: 2, distinct: Distinct::Drawn(values(CLIENT_PORTS)) };

/// Every case, in the order of the table.
pub const CASES: &[Case] = &[
    Case { name: "one-fixed-stream", ..PLAIN },
    Case { name: "two-random-fields", varied: &[CLIENT, CLIENT_PORT], ..PLAIN },
    Case {
        name: "four-fields",
        varied: &[
            CLIENT,
            CLIENT_PORT,
            Varied {
                name: "ipv4.destination",
                offset: DESTINATION,
                size: 4,
                distinct: Distinct::Cycle(values(SERVERS)),
            },
            Varied {
                name: "udp.destinationPort",
                offset: DESTINATION_PORT,
                size: 2,
                distinct: Distinct::Cycle(values(SERVER_PORTS)),
            },
        ],
        ..PLAIN
    },
    Case {
        name: "cached",
        varied: &[
            Varied { distinct: Distinct::DrawnOnce { from: values(CLIENTS), packets: CACHED as u64 }, ..CLIENT },
            Varied {
                distinct: Distinct::DrawnOnce { from: values(CLIENT_PORTS), packets: CACHED as u64 },
                ..CLIENT_PORT
            },
        ],
        cache: CACHED,
        ..PLAIN
    },
    Case { name: "1000-streams", streams: 1000, ..PLAIN },
    Case { name: "10000-streams", streams: 10_000, ..PLAIN },
    Case { name: "flow-statistics", flow: true, ..PLAIN },
    Case { name: "latency", flow: true, latency: true, ..PLAIN },
    Case { name: "imix", sizes: &IMIX, ..PLAIN },
    Case { name: "1518", sizes: &[(1514, 1)], ..PLAIN },
];

/// What is counted with many workers alone (`bench-scaling`): measured packets of many addresses, of which each worker receives those
/// that it sent itself, and keeps their sequence: which worker does follows from the packets as they are before fields vary.
pub const SCALING: &[Case] =
    &[Case { name: "many-kept", varied: &[CLIENT, CLIENT_PORT], flow: true, latency: true, ..PLAIN }];

/// The case of a name.
pub fn find(name: &str) -> Option<&'static Case> {
    CASES.iter().chain(SCALING).find(|case| case.name == name)
}

impl Case {
    /// Plan of the case: all streams together at `pps`, until stopped. With `receive`, measured packets are expected back.
    pub fn plan(&self, receive: bool, pps: u64) -> Plan {
        let longest = self.longest();
        let program = (!self.varied.is_empty()).then(|| self.program());
        let rx_port = if receive && self.flow { PORT } else { "" };
        let stream = |index: usize| Stream {
            name: format!("s{index}"),
            id: index as u32,
            tx_port: PORT.into(),
            rx_port: rx_port.into(),
            packet: Some(Packet {
                frame: frame(longest, index).into(),
                checksums: checksums(longest, self.sizes.len() > 1),
                lengths: if self.sizes.len() > 1 { lengths() } else { Vec::new() },
                sizes: (self.sizes.len() > 1).then(|| self.size_list()),
                ..Packet::default()
            }),
            transmit: Some(stream::Transmit::Continuous(Continuous {
                rate: Some(per_second(pps, self.streams as u64)),
            })),
            measure: self.flow.then_some(Measure { flow: true, latency: self.latency, ..Measure::default() }),
            program: program.clone(),
            cache: self.cache,
            ..Stream::default()
        };
        Plan {
            run_id: self.name.to_owned(),
            profile: "bench".into(),
            namespace: "bench".into(),
            run_tag: TAG,
            timing: Some(Timing { drain_ns: 100_000_000, ..Timing::default() }),
            streams: (0..self.streams).map(stream).collect(),
            ..Plan::default()
        }
    }

    /// Bytes of the longest frame without FCS.
    pub fn longest(&self) -> usize {
        self.sizes.iter().map(|size| size.0).max().unwrap_or(60)
    }

    fn size_list(&self) -> Sizes {
        let sizes = self.sizes.iter().map(|&(bytes, weight)| WeightedSize { bytes: bytes as u32, weight }).collect();
        Sizes { kind: Some(sizes::Kind::List(SizeList { sizes, random: false, seed: 0 })) }
    }

    fn program(&self) -> FieldProgram {
        let range = |offset| match offset {
            SOURCE => CLIENTS,
            SOURCE_PORT => CLIENT_PORTS,
            DESTINATION => SERVERS,
            _ => SERVER_PORTS,
        };
        let variable = |field: &Varied| {
            let (min, max) = range(field.offset);
            let kind = match field.distinct {
                Distinct::Cycle(_) => variable::Kind::Counter(Counter { min, max, step: 1, first: min, down: false }),
                _ => variable::Kind::Random(Random { min, max, seed: field.offset as u64 }),
            };
            Variable { name: field.name.into(), kind: Some(kind), ..Variable::default() }
        };
        let write = |field: &Varied| Write {
            variable: field.name.into(),
            offset: field.offset as u32,
            size: field.size as u32,
            ..Write::default()
        };
        FieldProgram {
            variables: self.varied.iter().map(variable).collect(),
            writes: self.varied.iter().map(write).collect(),
        }
    }
}

fn per_second(packets: u64, streams: u64) -> Rate {
    Rate { kind: Some(rate::Kind::PacketsPerSecond(Ratio { numerator: packets, denominator: streams })) }
}

/// An IPv4 UDP frame of `len` bytes without FCS; streams differ in their source address.
fn frame(len: usize, stream: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[IP] = 0x45;
    frame[16..18].copy_from_slice(&((len - IP) as u16).to_be_bytes());
    frame[22] = 64;
    frame[23] = 17;
    frame[SOURCE..SOURCE + 4].copy_from_slice(&(CLIENTS.0 as u32 + stream as u32).to_be_bytes());
    frame[DESTINATION..DESTINATION + 4].copy_from_slice(&(SERVERS.0 as u32).to_be_bytes());
    frame[SOURCE_PORT..SOURCE_PORT + 2].copy_from_slice(&1025u16.to_be_bytes());
    frame[DESTINATION_PORT..DESTINATION_PORT + 2].copy_from_slice(&12u16.to_be_bytes());
    frame[38..40].copy_from_slice(&((len - UDP) as u16).to_be_bytes());
    frame
}

fn checksums(len: usize, sizes_vary: bool) -> Vec<Checksum> {
    const PROTOCOL: u32 = 17;
    let ip = Checksum { offset: 24, start: 14, end: 34, ..Checksum::default() };
    let udp = Checksum {
        offset: 40,
        start: UDP as u32,
        end: 0,
        pseudo_header_sum: if sizes_vary { PROTOCOL } else { PROTOCOL + (len - UDP) as u32 },
        length_minus: if sizes_vary { UDP as u32 } else { 0 },
        addresses_start: SOURCE as u32,
        addresses_end: UDP as u32,
        zero_means_absent: true,
        ..Checksum::default()
    };
    vec![ip, udp]
}

fn lengths() -> Vec<contract::Length> {
    let length = |offset, minus| contract::Length { offset, size: 2, minus };
    vec![length(16, IP as u32), length(38, UDP as u32)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use spate_net::spread;

    #[test]
    fn the_first_queue_is_that_of_the_packets_before_fields_vary() {
        assert_eq!([2, 4, 8, 16].map(|queues| spread::queue(&frame(60, 0), queues)), [0; 4]);
    }
}
