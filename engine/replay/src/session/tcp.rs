// SPDX-License-Identifier: Apache-2.0
//! The two byte streams of a session over TCP, put together from its segments: what was repeated is dropped, what was
//! captured out of order is put in order, and what is missing is reported.
use std::collections::BTreeMap;

use super::packet::{Packet, Segment};
use super::{End, MAX_SESSION_BYTES, Message, Sender};

/// A session so far.
#[derive(Default)]
pub(super) struct Tcp {
    client: Half,
    server: Half,
    dialogue: Vec<Message>,
    last_ns: u64,
    /// Which sides sent FIN, in order.
    closed: Vec<Sender>,
    reset: Option<Sender>,
    /// Bytes held, in order or not.
    bytes: usize,
}

/// One direction.
#[derive(Default)]
struct Half {
    /// Sequence number of its SYN; none before that.
    first: Option<u32>,
    /// Bytes in order so far.
    next: u64,
    /// By offset, what came before what stands in front of it; with the packet's number.
    early: BTreeMap<u64, (u64, Vec<u8>)>,
    /// Offset of its FIN, and the packet's number.
    fin: Option<(u64, u64)>,
    /// The greatest offset that its peer acknowledged, and the packet's number.
    acknowledged: (u64, u64),
}

impl Half {
    /// The offset of a sequence number: that of its first byte is 0. None if it lies before that.
    fn offset(&self, sequence: u32) -> Option<u64> {
        // Near what came last, so that streams may be longer than 2^32 bytes (RFC 9293 section 3.4).
        let expected = self.first?.wrapping_add(1).wrapping_add(self.next as u32);
        self.next.checked_add_signed(i64::from(sequence.wrapping_sub(expected).cast_signed()))
    }

    fn closed(&self) -> bool {
        self.fin.is_some_and(|(at, _)| at == self.next)
    }
}

impl Tcp {
    pub(super) fn add(&mut self, by: Sender, number: u64, at_ns: u64, packet: &Packet) -> Result<(), String> {
        let segment = packet.segment;
        if segment.syn {
            self.open(by, segment)?;
        } else if self.client.first.is_none() {
            return Err("the session begins without SYN: begin the capture before the connection".to_owned());
        } else if self.server.first.is_none() {
            return Err("there is no SYN+ACK of the server in front of it: capture both directions".to_owned());
        }
        // After RST nothing is received any more.
        if self.reset.is_some() {
            return Ok(());
        }
        if segment.rst {
            self.reset = Some(by);
            return Ok(());
        }
        if segment.ack {
            let peer = self.half(by.other());
            if let Some(offset) = peer.offset(segment.acknowledgement).filter(|&at| at > peer.acknowledged.0) {
                peer.acknowledged = (offset, number);
            }
        }
        self.bytes(by, number, at_ns, packet)
    }

    fn half(&mut self, by: Sender) -> &mut Half {
        match by {
            Sender::Client => &mut self.client,
            Sender::Server => &mut self.server,
        }
    }

    /// A SYN, which may be repeated.
    fn open(&mut self, by: Sender, segment: Segment) -> Result<(), String> {
        let answers = self.client.first.map(|first| first.wrapping_add(1));
        match (by, segment.ack) {
            (Sender::Client, false) | (Sender::Server, true) => {}
            (Sender::Client, true) => {
                return Err("the session begins without SYN: begin the capture before the connection".to_owned());
            }
            (Sender::Server, false) => {
                return Err("both sides open the connection at the same time, which no program does".to_owned());
            }
        }
        if by == Sender::Server && answers != Some(segment.acknowledgement) {
            return Err("its SYN+ACK answers another SYN: a capture must have one session only".to_owned());
        }
        let half = self.half(by);
        if half.first.is_some_and(|first| first != segment.sequence) {
            return Err("it opens a second connection between those of packet 1; a capture must have one session only"
                .to_owned());
        }
        half.first = Some(segment.sequence);
        Ok(())
    }

    fn bytes(&mut self, by: Sender, number: u64, at_ns: u64, packet: &Packet) -> Result<(), String> {
        let segment = packet.segment;
        let half = self.half(by);
        // The first byte's number is one behind SYN's.
        let sequence = segment.sequence.wrapping_add(segment.syn.into());
        // A probe repeats what is before the first byte (RFC 9293 section 3.8.4).
        let Some(offset) = half.offset(sequence) else { return Ok(()) };
        let mut payload = packet.payload;
        let end = offset + payload.len() as u64;
        if let Some((fin, packet)) = half.fin.filter(|&(fin, _)| !payload.is_empty() && end > fin) {
            if (offset, payload.len()) != (fin, 1) {
                return Err(format!("it has bytes behind the FIN of packet {packet}: the file is broken"));
            }
            // A probe once more.
            payload = &[];
        }
        if segment.fin && half.fin.is_none() {
            if half.next > end || half.early.last_key_value().is_some_and(|(&at, (_, b))| at + b.len() as u64 > end) {
                return Err("its FIN is in front of bytes that other packets have: the file is broken".to_owned());
            }
            half.fin = Some((end, number));
        }
        if !payload.is_empty() && end > half.next {
            let repeated = half.next.saturating_sub(offset);
            let fresh = &payload[repeated as usize..];
            let known = half.early.get(&(offset + repeated)).map_or(0, |(_, bytes)| bytes.len());
            if fresh.len() > known {
                half.early.insert(offset + repeated, (number, fresh.to_vec()));
                self.bytes += fresh.len();
            }
        }
        if self.bytes > MAX_SESSION_BYTES {
            return Err(format!("with it the session has more than {MAX_SESSION_BYTES} bytes: cut the file"));
        }
        self.deliver(by, at_ns);
        Ok(())
    }

    /// Passes on what is in order now.
    fn deliver(&mut self, by: Sender, at_ns: u64) {
        loop {
            let half = self.half(by);
            let next = half.next;
            let Some(early) = half.early.first_entry().filter(|early| *early.key() <= next) else { break };
            let (offset, (number, bytes)) = early.remove_entry();
            let fresh = bytes.get((next - offset) as usize..).unwrap_or_default();
            half.next += fresh.len() as u64;
            if !fresh.is_empty() {
                self.say(by, number, at_ns, fresh);
            }
        }
        if self.half(by).closed() && !self.closed.contains(&by) {
            self.closed.push(by);
        }
    }

    fn say(&mut self, by: Sender, packet: u64, at_ns: u64, bytes: &[u8]) {
        match self.dialogue.last_mut() {
            Some(last) if last.by == by => last.bytes.extend_from_slice(bytes),
            last => {
                let gap_ns = if last.is_some() { at_ns.saturating_sub(self.last_ns) } else { 0 };
                self.dialogue.push(Message { by, bytes: bytes.to_vec(), packet, gap_ns });
            }
        }
        self.last_ns = at_ns;
    }

    /// What was said and how it ended, or the packet where something is missing.
    pub(super) fn end(self) -> Result<(Vec<Message>, End), (u64, String)> {
        if self.server.first.is_none() {
            return Err((1, "its SYN was never answered with SYN+ACK: there is no session".to_owned()));
        }
        for (half, name) in [(&self.client, "client"), (&self.server, "server")] {
            let early = half.early.first_key_value().map(|(&at, &(number, _))| (at, number));
            if let Some((at, number)) = early.or(half.fin).filter(|&(at, _)| at > half.next) {
                let missing = at - half.next;
                return Err((number, format!("{missing} bytes of the {name} in front of it are missing: capture all")));
            }
            let (acknowledged, number) = half.acknowledged;
            let there = half.next + u64::from(half.closed());
            if acknowledged > there {
                let missing = acknowledged - there;
                let why = format!("it acknowledges {missing} bytes of the {name} that are missing: capture all");
                return Err((number, why));
            }
        }
        let end = match (self.reset, self.closed.first()) {
            (Some(by), first) if first != Some(&by) && self.closed.len() < 2 => {
                End::Reset { by, closed: first.is_some() }
            }
            (_, Some(&first)) => End::Closed(first),
            (_, None) => End::Open,
        };
        Ok((self.dialogue, end))
    }
}
