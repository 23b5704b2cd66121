// SPDX-License-Identifier: Apache-2.0
//! Echo requests from a port (RFC 792, RFC 4443 section 4.1): sent at an interval, each answered, refused or unanswered.
//!
//! The first bytes of their data are a time and its complement ([`STAMP`]). The sender of the frame writes the time at which it leaves;
//! whatever that is, the sum of both is the same, so that the checksum is right. The reply has it, too, and so the round trip.
use std::{collections::VecDeque, net::IpAddr};

use crate::{Mac, message::EchoOf};

/// Bytes of the time (nanoseconds, big endian) and its complement that data begins with.
pub const STAMP: usize = 16;
/// Bytes of data of a request: from one time stamp to what a packet of an MTU of 1,280 has room for over IPv6 (RFC 8200 section 5).
pub const SIZES: std::ops::RangeInclusive<u16> = STAMP as u16..=1232;
/// Pings of a port at a time.
pub const MAX_PINGS: usize = 16;
/// Shortest interval between requests.
pub const MIN_INTERVAL_NS: u64 = 10_000_000;
/// Longest time for which a reply is waited for: numbers of requests do not come again by then.
pub const MAX_TIMEOUT_NS: u64 = 60_000_000_000;

/// A requested ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// The destination: one station.
    pub to: IpAddr,
    /// The source, an address of the port. None: that of the destination's subnet, else any.
    pub from: Option<IpAddr>,
    /// Requests; 0: until it is stopped.
    pub count: u64,
    /// From one request to the next; at least `MIN_INTERVAL_NS`.
    pub interval_ns: u64,
    /// How long a reply is waited for; at most `MAX_TIMEOUT_NS`.
    pub timeout_ns: u64,
    /// Bytes of data, of `SIZES`.
    pub size: u16,
    /// Time to live, or hop limit; not 0.
    pub hop_limit: u8,
}

/// An event of a ping, or of one of its requests by number, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PingEvent {
    /// The first request is sent: from an address, to the MAC of the next hop.
    Started(IpAddr, Mac),
    /// The next hop is not known: there is no request.
    NoNextHop(String),
    /// The destination has replied.
    Reply {
        /// Number of the request.
        sequence: u64,
        /// From when the request left to when the reply arrived.
        round_trip_ns: u64,
        /// Time to live, or hop limit, with which the reply arrived.
        hop_limit: u8,
        /// The data was not what was sent.
        corrupt: bool,
    },
    /// A message of ICMP says why the request did not arrive.
    Error {
        /// Number of the request.
        sequence: u64,
        /// The sender of the message.
        from: IpAddr,
        /// Type of the message.
        kind: u8,
        /// Code of the message.
        code: u8,
    },
    /// No reply came within the timeout.
    Timeout {
        /// Number of the request.
        sequence: u64,
    },
    /// All requests have been sent, and nothing is waited for any more.
    Over,
}

/// A ping under way.
#[derive(Clone, Debug)]
pub(crate) struct Pinger {
    pub(crate) id: u64,
    ping: Ping,
    pub(crate) from: IpAddr,
    /// Distinguishes its replies from those to others.
    identifier: u16,
    /// Number of the next request.
    sequence: u64,
    next_at_ns: u64,
    /// Destination MAC of the last request.
    pub(crate) mac: Option<Mac>,
    /// Requests without a reply, and until when that is waited for; in order.
    pending: VecDeque<(u64, u64)>,
}

impl Pinger {
    pub(crate) fn new(id: u64, ping: Ping, from: IpAddr, identifier: u16, now_ns: u64) -> Self {
        Self { id, ping, from, identifier, sequence: 0, next_at_ns: now_ns, mac: None, pending: VecDeque::new() }
    }

    pub(crate) fn to(&self) -> IpAddr {
        self.ping.to
    }

    pub(crate) fn hop_limit(&self) -> u8 {
        self.ping.hop_limit
    }

    fn sends_more(&self) -> bool {
        self.ping.count == 0 || self.sequence < self.ping.count
    }

    /// Whether the ping is over.
    pub(crate) fn is_over(&self) -> bool {
        !self.sends_more() && self.pending.is_empty()
    }

    /// Identifier, sequence number and data of the next request, if that is due. Those that a late call left behind are not sent at once.
    pub(crate) fn request(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        if !self.sends_more() || now_ns < self.next_at_ns {
            return None;
        }
        let data = self.data(self.sequence as u16);
        self.pending.push_back((self.sequence, now_ns.saturating_add(self.ping.timeout_ns)));
        self.sequence += 1;
        let next = self.next_at_ns.saturating_add(self.ping.interval_ns);
        self.next_at_ns = if next > now_ns { next } else { now_ns.saturating_add(self.ping.interval_ns) };
        Some(data)
    }

    /// Identifier, sequence number, and data with a time of 0.
    fn data(&self, sequence: u16) -> Vec<u8> {
        let mut data = [self.identifier.to_be_bytes(), sequence.to_be_bytes()].concat();
        data.extend([0; STAMP / 2]);
        data.extend([0xff; STAMP / 2]);
        data.extend((STAMP as u16..self.ping.size).map(|at| at as u8));
        data
    }

    /// Requests that are waited for no more.
    pub(crate) fn time_out(&mut self, now_ns: u64) -> impl Iterator<Item = PingEvent> + '_ {
        std::iter::from_fn(move || {
            let &(sequence, _) = self.pending.front().filter(|(_, until_ns)| *until_ns <= now_ns)?;
            self.pending.pop_front();
            Some(PingEvent::Timeout { sequence })
        })
    }

    /// The number of the request that an identifier and a sequence number are of, if a reply is waited for.
    fn take(&mut self, identifier: u16, sequence: u16) -> Option<u64> {
        if identifier != self.identifier {
            return None;
        }
        let at = self.pending.iter().position(|(pending, _)| *pending as u16 == sequence)?;
        self.pending.remove(at).map(|(sequence, _)| sequence)
    }

    /// A reply arrives; none if it is to no request that waits for it.
    pub(crate) fn reply(&mut self, reply: &EchoOf<'_>, hop_limit: u8, arrived_ns: u64) -> Option<PingEvent> {
        let sequence = self.take(reply.identifier, reply.sequence)?;
        let sent = reply.data.first_chunk::<8>().map_or(0, |sent| u64::from_be_bytes(*sent));
        let mut expected = self.data(reply.sequence);
        expected[4..12].copy_from_slice(&sent.to_be_bytes());
        expected[12..20].copy_from_slice(&(!sent).to_be_bytes());
        let corrupt = expected[4..] != *reply.data;
        let round_trip_ns = if corrupt { 0 } else { arrived_ns.saturating_sub(sent) };
        Some(PingEvent::Reply { sequence, round_trip_ns, hop_limit, corrupt })
    }

    /// An error about a request arrives.
    pub(crate) fn error(&mut self, about: &EchoOf<'_>, from: IpAddr, [kind, code]: [u8; 2]) -> Option<PingEvent> {
        let sequence = self.take(about.identifier, about.sequence)?;
        Some(PingEvent::Error { sequence, from, kind, code })
    }

    /// When the pinger has to be polled next.
    pub(crate) fn next_ns(&self) -> u64 {
        let timeout = self.pending.front().map_or(u64::MAX, |(_, until_ns)| *until_ns);
        if self.sends_more() { timeout.min(self.next_at_ns) } else { timeout }
    }
}
