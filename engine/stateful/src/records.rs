// SPDX-License-Identifier: Apache-2.0
//! Connection records: of each flow that has ended, or of one in some number: its endpoints, when, how much, and why it ended.
use rtrb::Producer;

use crate::{
    counters::{Count, Counters},
    flow::FlowIndex,
    random,
    stack::Tuple,
};

/// Why a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum End {
    /// Both sides have closed; of UDP: its program has ended.
    Closed,
    /// The peer sent RST.
    PeerReset,
    /// Our program, or our TCP, sent RST.
    Reset,
    /// The handshake was given up after too long.
    ConnectTimeout,
    /// Data, or a probe of a closed window, was not answered for too long.
    RetransmissionTimeout,
    /// The peer did not answer keepalives.
    Keepalive,
    /// An ICMP error refused the connection.
    Icmp,
    /// We had closed, and the peer did not for too long (FIN-WAIT-2).
    HalfClosedTimeout,
    /// UDP: nothing was received or sent for the time of its keepalive.
    IdleTimeout,
    /// Our program ended it before it was established.
    Abandoned,
    /// The client lost its leased address.
    ClientLost,
    /// The flow was still open when the run's drain was over.
    Aborted,
}

impl End {
    /// All, in order.
    pub const ALL: [Self; 12] = [
        Self::Closed,
        Self::PeerReset,
        Self::Reset,
        Self::ConnectTimeout,
        Self::RetransmissionTimeout,
        Self::Keepalive,
        Self::Icmp,
        Self::HalfClosedTimeout,
        Self::IdleTimeout,
        Self::Abandoned,
        Self::ClientLost,
        Self::Aborted,
    ];

    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::PeerReset => "peer_reset",
            Self::Reset => "reset",
            Self::ConnectTimeout => "connect_timeout",
            Self::RetransmissionTimeout => "retransmission_timeout",
            Self::Keepalive => "keepalive",
            Self::Icmp => "icmp",
            Self::HalfClosedTimeout => "half_closed_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::Abandoned => "abandoned",
            Self::ClientLost => "client_lost",
            Self::Aborted => "aborted",
        }
    }
}

/// One end of a flow that has ended. Times are of the stack's clock, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The endpoints.
    pub tuple: Tuple,
    /// Number of the flow among those of the template's side.
    pub number: u64,
    /// Index in the scenario, at the end.
    pub template: u16,
    /// The end that connects.
    pub client: bool,
    /// Whether the flow is of UDP; else of TCP.
    pub udp: bool,
    /// Why it ended.
    pub end: End,
    /// The client began, or the server's first packet came.
    pub start_ns: u64,
    /// The handshake was over; UDP needs none.
    pub established_ns: Option<u64>,
    /// The first byte of data came.
    pub first_byte_ns: Option<u64>,
    /// When the flow ended; TIME-WAIT comes after that.
    pub end_ns: u64,
    /// Bytes of data sent for the first time.
    pub sent_bytes: u64,
    /// Bytes of data received in sequence, once each.
    pub received_bytes: u64,
    /// Segments or datagrams sent until the end.
    pub sent_packets: u64,
    /// Segments or datagrams received until the end.
    pub received_packets: u64,
    /// Data segments sent again.
    pub retransmitted: u64,
    /// Smoothed round trip at the end (RFC 6298), if any was measured.
    pub round_trip_ns: Option<u64>,
}

impl Record {
    /// The record with its times by another clock.
    pub fn by(self, clock: impl Fn(u64) -> u64) -> Self {
        Self {
            start_ns: clock(self.start_ns),
            established_ns: self.established_ns.map(&clock),
            first_byte_ns: self.first_byte_ns.map(&clock),
            end_ns: clock(self.end_ns),
            ..self
        }
    }
}

/// Which flows are recorded, and where their records go.
#[derive(Debug)]
pub struct Recorder {
    /// One flow of this many is recorded, by a hash of addresses and ports that is the same at both ends; at least 1.
    pub one_in: u32,
    /// When it is full, records are dropped and counted.
    pub out: Producer<Record>,
}

impl Recorder {
    /// Whether a flow is one of those that are recorded, by hashes of its tuple as either end sees it.
    #[inline]
    fn takes(&self, hashes: (u32, u32)) -> bool {
        // Mixed: the hash is the table's, whose low bits say where a flow lies.
        self.one_in <= 1 || random::mix(u64::from(hashes.0 ^ hashes.1)).is_multiple_of(u64::from(self.one_in))
    }
}

/// Time of an account: not yet.
const NEVER: u64 = u64::MAX;

/// State of a flow's record until the flow ends.
#[derive(Clone, Debug)]
struct Account {
    start_ns: u64,
    established_ns: u64,
    first_byte_ns: u64,
    /// Sums, as in `SUMMED`.
    sums: [u64; SUMMED.len()],
    recorded: bool,
    /// Keepalive has given it up: RST follows.
    unanswered: bool,
}

impl Account {
    const NONE: Self = Self {
        start_ns: 0,
        established_ns: NEVER,
        first_byte_ns: NEVER,
        sums: [0; SUMMED.len()],
        recorded: false,
        unanswered: false,
    };
}

/// What is summed up for each flow of TCP...
const SUMMED: [Count; 5] = [
    Count::SentDataBytes,
    Count::ReceivedDataBytes,
    Count::SentPackets,
    Count::ReceivedPackets,
    Count::RetransmittedPackets,
];
/// ...and of UDP.
const SUMMED_UDP: [Count; 5] = [
    Count::MessageBytesSent,
    Count::MessageBytesReceived,
    Count::SentPackets,
    Count::ReceivedPackets,
    Count::RetransmittedPackets,
];
/// Index in both.
const RECEIVED_BYTES: usize = 1;

/// Other reasons why a flow has ended, if it was counted while the stack worked for it: in the order in which they are
/// looked for.
const CAUSES: [(Count, End); 7] = [
    (Count::FlowsClientLost, End::ClientLost),
    (Count::ResetsReceived, End::PeerReset),
    (Count::ResetsSent, End::Reset),
    (Count::TimeoutDrops, End::RetransmissionTimeout),
    (Count::IcmpErrors, End::Icmp),
    (Count::ConnectDrops, End::ConnectTimeout),
    (Count::FlowsIdleTimeouts, End::IdleTimeout),
];

/// Accounts of a stack's flows.
///
/// What a flow sends and receives is counted for its template's side already. Its record is the sum of what was counted there
/// while the stack worked for this flow, read before and after: nothing that works on flows knows of records, and both agree.
#[derive(Debug)]
pub(crate) struct Records {
    recorder: Recorder,
    /// Accounts, by flow.
    accounts: Box<[Account]>,
    /// What was counted before, as `SUMMED` and `CAUSES`.
    sums: [u64; SUMMED.len()],
    causes: [u64; CAUSES.len()],
    keepalive_drops: u64,
    /// Whether flows that end now are aborted.
    aborting: bool,
}

/// What a record has of its flow itself.
pub(crate) struct Ended {
    pub tuple: Tuple,
    pub number: u64,
    pub template: u16,
    pub client: bool,
    pub udp: bool,
    pub peer_closed: bool,
    pub round_trip_ns: u64,
}

/// Bytes that records take for this many flows, the ring not among them.
pub const fn bytes(flows: usize) -> usize {
    flows * size_of::<Account>()
}

impl Records {
    pub(crate) fn new(flows: usize, recorder: Recorder) -> Self {
        let accounts = vec![Account::NONE; flows].into();
        let (sums, causes) = ([0; SUMMED.len()], [0; CAUSES.len()]);
        Self { recorder, accounts, sums, causes, keepalive_drops: 0, aborting: false }
    }

    /// Whether flows that end from now on are cut off.
    pub(crate) fn set_aborting(&mut self, aborting: bool) {
        self.aborting = aborting;
    }

    /// A flow starts; its tuple has these hashes as either end sees it.
    pub(crate) fn begin(&mut self, index: FlowIndex, hashes: (u32, u32), now_ns: u64) {
        let recorded = self.recorder.takes(hashes);
        self.accounts[index.position()] = Account { start_ns: now_ns, recorded, ..Account::NONE };
    }

    #[inline]
    pub(crate) fn records(&self, index: FlowIndex) -> bool {
        self.accounts[index.position()].recorded
    }

    /// From now on the stack works for a flow.
    pub(crate) fn before(&mut self, udp: bool, counters: &Counters) {
        let summed = if udp { &SUMMED_UDP } else { &SUMMED };
        self.sums = summed.map(|count| counters.get(count));
        self.causes = CAUSES.map(|(count, _)| counters.get(count));
        self.keepalive_drops = counters.get(Count::KeepaliveDrops);
    }

    /// Updates the account of a flow that the stack has worked for since `before`.
    pub(crate) fn after(&mut self, index: FlowIndex, udp: bool, established: bool, counters: &Counters, now_ns: u64) {
        let account = &mut self.accounts[index.position()];
        let summed = if udp { &SUMMED_UDP } else { &SUMMED };
        for (at, count) in summed.iter().enumerate() {
            account.sums[at] += counters.get(*count) - self.sums[at];
        }
        if account.first_byte_ns == NEVER && account.sums[RECEIVED_BYTES] > 0 {
            account.first_byte_ns = now_ns;
        }
        if established && account.established_ns == NEVER {
            account.established_ns = now_ns;
        }
        account.unanswered |= counters.get(Count::KeepaliveDrops) > self.keepalive_drops;
    }

    /// A flow has ended. False if there is no room for its record.
    pub(crate) fn end(&mut self, index: FlowIndex, flow: &Ended, counters: &Counters, now_ns: u64) -> bool {
        let end = self.why(index, flow, counters);
        let account = &mut self.accounts[index.position()];
        account.recorded = false;
        let time = |ns: u64| (ns != NEVER).then_some(ns);
        let [sent_bytes, received_bytes, sent_packets, received_packets, retransmitted] = account.sums;
        let record = Record {
            tuple: flow.tuple,
            number: flow.number,
            template: flow.template,
            client: flow.client,
            udp: flow.udp,
            end,
            start_ns: account.start_ns,
            established_ns: time(account.established_ns),
            first_byte_ns: time(account.first_byte_ns),
            end_ns: now_ns,
            sent_bytes,
            received_bytes,
            sent_packets,
            received_packets,
            retransmitted,
            round_trip_ns: (flow.round_trip_ns > 0).then_some(flow.round_trip_ns),
        };
        self.recorder.out.push(record).is_ok()
    }

    fn why(&self, index: FlowIndex, flow: &Ended, counters: &Counters) -> End {
        let account = &self.accounts[index.position()];
        if self.aborting {
            return End::Aborted;
        }
        let counted = |(at, (count, _)): &(usize, &(Count, End))| counters.get(*count) > self.causes[*at];
        let cause = CAUSES.iter().enumerate().find(counted).map(|(_, (_, end))| *end);
        match cause {
            Some(End::Reset) if account.unanswered => End::Keepalive,
            Some(end) => end,
            None if flow.udp || flow.peer_closed => End::Closed,
            None if account.established_ns != NEVER => End::HalfClosedTimeout,
            None => End::Abandoned,
        }
    }
}
