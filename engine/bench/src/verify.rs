// SPDX-License-Identifier: Apache-2.0
//! What is timed is what is sent: every packet of a bounded number is read back, its lengths and checksums computed afresh,
//! and the values of what varies counted.
use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use spate_dpdk::Burst;
use spate_engine::datapath::{PollMode, PortDevice};
use spate_engine::index::PortIndex;
use spate_net::Trailer;

use crate::cases::{self, Case, Distinct, IP, PAYLOAD, SOURCE, TAG, UDP, Varied};
use crate::rig::{Cpus, FLAT_OUT, Pages, Rig};

/// Packets of each case that are looked at.
const PACKETS: usize = 100_000;
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends a case and looks at its packets.
#[derive(Debug, clap::Args)]
pub struct Verify {
    #[arg(long)]
    case: String,
    #[arg(long, value_enum, default_value = "normal")]
    pages: Pages,
    #[command(flatten)]
    cpus: Cpus,
}

impl Verify {
    pub fn execute(self) -> anyhow::Result<()> {
        let case = cases::find(&self.case).with_context(|| format!("--case {}: there is no such case", self.case))?;
        let rig = Rig::open(PortDevice::Outlet, self.pages, self.cpus, PollMode::Busy)?;
        let (mut queues, _registered) = rig.engine().datapath().outlet(PortIndex(0))?;
        let queue = queues.first_mut().context("an outlet has a queue")?;
        let held = rig.start(&case.plan(false, FLAT_OUT))?;
        let mut seen = Seen::new(case);
        let mut burst = Burst::new();
        let since = Instant::now();
        while seen.packets < PACKETS {
            ensure!(since.elapsed() < PATIENCE, "{}: {} of {PACKETS} packets came", case.name, seen.packets);
            for index in 0..burst.receive(queue) {
                seen.look(burst.head(index)).with_context(|| format!("{}: packet {}", case.name, seen.packets))?;
            }
        }
        held.run().stop("verified");
        while !held.has_ended() {
            ensure!(since.elapsed() < 2 * PATIENCE, "{}: the run does not end", case.name);
            burst.receive(queue);
        }
        seen.conclude().context(case.name)?;
        println!("{}", seen.summary());
        Ok(())
    }
}

/// What was seen of a case's packets.
struct Seen<'a> {
    case: &'a Case,
    packets: usize,
    /// By varied field.
    values: Vec<HashSet<u64>>,
    sources: HashSet<u64>,
    /// By length of the case.
    lengths: Vec<u64>,
    sequences: HashSet<(u16, u64)>,
}

impl<'a> Seen<'a> {
    fn new(case: &'a Case) -> Self {
        Self {
            case,
            packets: 0,
            values: vec![HashSet::new(); case.varied.len()],
            sources: HashSet::new(),
            lengths: vec![0; case.sizes.len()],
            sequences: HashSet::new(),
        }
    }

    fn look(&mut self, frame: &[u8]) -> anyhow::Result<()> {
        self.packets += 1;
        let size = self.case.sizes.iter().position(|size| size.0 == frame.len());
        let size = size.with_context(|| format!("it has {} bytes, which is none of its lengths", frame.len()))?;
        self.lengths[size] += 1;
        check(frame)?;
        for (field, values) in self.case.varied.iter().zip(&mut self.values) {
            values.insert(value(frame, field.offset, field.size));
        }
        self.sources.insert(value(frame, SOURCE, 4));
        if self.case.flow {
            let trailer = Trailer::decode(frame).context("it has no trailer")?;
            ensure!(u32::from(trailer.run_tag) == TAG, "its trailer is of run {}", trailer.run_tag);
            let new = self.sequences.insert((trailer.stream, trailer.sequence.into()));
            ensure!(new, "its sequence number {} was there before", trailer.sequence);
        }
        Ok(())
    }

    fn conclude(&self) -> anyhow::Result<()> {
        for (field, values) in self.case.varied.iter().zip(&self.values) {
            let (least, most) = expected(field, self.packets as u64);
            let count = values.len() as u64;
            ensure!((least..=most).contains(&count), "{} took {count} values, not {least} to {most}", field.name);
        }
        let sources = self.sources.len();
        if self.case.varied.is_empty() && sources != self.case.streams {
            bail!("{sources} streams were seen, not {}", self.case.streams);
        }
        let weights: u64 = self.case.sizes.iter().map(|size| u64::from(size.1)).sum();
        for (&(bytes, weight), &count) in self.case.sizes.iter().zip(&self.lengths) {
            let due = self.packets as u64 * u64::from(weight) / weights;
            ensure!(count.abs_diff(due) <= weights, "{count} packets had {bytes} bytes, not {due}");
        }
        Ok(())
    }

    fn summary(&self) -> String {
        let values: Vec<String> =
            self.case.varied.iter().zip(&self.values).map(|(f, v)| format!("{} {} values", f.name, v.len())).collect();
        format!("{}: {} packets, every checksum right; {}", self.case.name, self.packets, values.join(", "))
    }
}

/// Computes lengths and checksums of an IPv4 UDP frame and compares.
fn check(frame: &[u8]) -> anyhow::Result<()> {
    ensure!(frame.len() >= PAYLOAD && frame[12..15] == [8, 0, 0x45] && frame[23] == 17, "it is not IPv4 and UDP");
    let ip = &frame[IP..];
    let udp = &frame[UDP..];
    ensure!(value(frame, 16, 2) == ip.len() as u64, "its IPv4 length is not true");
    ensure!(value(frame, 38, 2) == udp.len() as u64, "its UDP length is not true");
    ensure!(folded(&ip[..20], 0) == 0xffff, "its IPv4 checksum is wrong");
    ensure!(udp[6..8] != [0, 0], "it has no UDP checksum");
    let pseudo = ones(&frame[SOURCE..UDP]) + 17 + udp.len() as u64;
    ensure!(folded(udp, pseudo) == 0xffff, "its UDP checksum is wrong");
    Ok(())
}

/// Sum of 16-bit words (RFC 1071), the plain way.
fn ones(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u64::from(low))).sum()
}

fn folded(bytes: &[u8], start: u64) -> u64 {
    let mut sum = start + ones(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

fn value(frame: &[u8], offset: usize, size: usize) -> u64 {
    frame[offset..offset + size].iter().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Minimum and maximum of the values that a field takes in a number of packets.
fn expected(field: &Varied, packets: u64) -> (u64, u64) {
    match field.distinct {
        Distinct::Cycle(values) => (packets.min(values), packets.min(values)),
        Distinct::Drawn(values) => occupied(values as f64, packets as f64),
        Distinct::DrawnOnce { from, packets: drawn } => occupied(from as f64, drawn.min(packets) as f64),
    }
}

/// Boxes that are not empty after this many balls were thrown into `boxes`: mean and six standard deviations.
fn occupied(boxes: f64, balls: f64) -> (u64, u64) {
    let load = balls / boxes;
    let empty = (-load).exp();
    let mean = boxes * -(-load).exp_m1();
    let deviation = (boxes * empty * (1.0 - (1.0 + load) * empty)).max(0.0).sqrt();
    ((mean - 6.0 * deviation - 1.0).max(0.0) as u64, ((mean + 6.0 * deviation + 1.0).min(balls)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_without_hits_are_nearly_all_distinct() {
        let (least, most) = occupied(33_554_687.0, 100_000.0);
        assert!(least > 99_700 && most < 99_950, "{least} {most}");
        // Many times as many as there are: all.
        assert_eq!(occupied(100.0, 1e6), (99, 101));
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let plan = cases::find("one-fixed-stream").unwrap().plan(false, 1);
        let mut frame = plan.streams[0].packet.as_ref().unwrap().frame.to_vec();
        assert_eq!(check(&frame).unwrap_err().to_string(), "its IPv4 checksum is wrong");
        let ip = !folded(&frame[14..34], 0) as u16;
        frame[24..26].copy_from_slice(&ip.to_be_bytes());
        assert_eq!(check(&frame).unwrap_err().to_string(), "it has no UDP checksum");
        let udp = !folded(&frame[34..], ones(&frame[26..34]) + 17 + 26) as u16;
        frame[40..42].copy_from_slice(&udp.to_be_bytes());
        check(&frame).unwrap();
        frame[59] = 1;
        assert_eq!(check(&frame).unwrap_err().to_string(), "its UDP checksum is wrong");
    }
}
