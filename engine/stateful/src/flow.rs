// SPDX-License-Identifier: Apache-2.0
//! One end of a connection or of a UDP exchange: 192 bytes, in three cache lines by when they are needed.
use crate::{
    application::sources::pattern::PATTERN,
    slab::{Slotted, slot_index},
    wheel::{self, TimerNode},
};

/// The state of an end (RFC 9293 section 3.3.2). LISTEN is the scenario's; what is closed is in no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names of the RFC")]
pub enum State {
    /// Ended: the flow is forgotten as soon as what is due is sent.
    Closed,
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    /// A flow of UDP.
    Datagrams,
}

/// Flags of a flow: bits of `Flow::flags`.
pub mod flags {
    /// The end that connects.
    pub const CLIENT: u32 = 1;
    /// The upper bits of its addresses are beside.
    pub const V6: u32 = 1 << 1;
    /// In the queue of flows with something to send.
    pub const READY: u32 = 1 << 2;
    /// May have something to send.
    pub const OUTPUT: u32 = 1 << 3;
    /// Owes an acknowledgement now...
    pub const ACK_NOW: u32 = 1 << 4;
    /// ...or by `ack_at`.
    pub const ACK_LATER: u32 = 1 << 5;
    /// `wait_at` counts.
    pub const WAITING: u32 = 1 << 6;
    /// `program_at` counts.
    pub const PROGRAM_WAITS: u32 = 1 << 7;
    /// The instruction at `pc` has started.
    pub const INSTRUCTION_STARTED: u32 = 1 << 8;
    /// The program has come to its end.
    pub const PROGRAM_ENDED: u32 = 1 << 9;
    /// FIN goes behind the data.
    pub const FIN_QUEUED: u32 = 1 << 10;
    /// The peer's FIN has come, and all before it.
    pub const FIN_RECEIVED: u32 = 1 << 11;
    /// Timestamps were agreed on.
    pub const TIMESTAMPS: u32 = 1 << 12;
    /// Selective acknowledgements were agreed on.
    pub const SACK: u32 = 1 << 13;
    /// Flag of UDP flows, with the same bit: clients have received nothing from their servers, and servers have sent nothing yet.
    pub const SILENT: u32 = SACK;
    /// Congestion notification was agreed on.
    pub const ECN: u32 = 1 << 14;
    /// Our segments carry ECE until CWR comes.
    pub const ECHO: u32 = 1 << 15;
    /// The next data segment carries CWR.
    pub const REDUCED: u32 = 1 << 16;
    /// The round trip of the segment at `rtt_seq` is measured.
    pub const TIMED: u32 = 1 << 17;
    /// A RST is to be sent, and the flow ends.
    pub const RESET: u32 = 1 << 18;
    /// Data waits for the peer's window to open: probes.
    pub const PERSIST: u32 = 1 << 19;
    /// In fast recovery until `recover` is acknowledged.
    pub const RECOVERY: u32 = 1 << 20;
    /// After a timeout, until `recover` is acknowledged.
    pub const LOSS: u32 = 1 << 21;
    /// `wait_at` is a tail loss probe's.
    pub const PROBE: u32 = 1 << 22;
    /// A tail loss probe was sent; it ends when `recover` is acknowledged.
    pub const PROBED: u32 = 1 << 23;
    /// A segment must be sent though windows say no: a probe of the window, or of the tail.
    pub const FORCED: u32 = 1 << 24;
    /// A segment of keepalive must be sent.
    pub const KEEPALIVE: u32 = 1 << 25;
    /// Counted as open.
    pub const OPEN: u32 = 1 << 26;
    /// The congestion window was what limited the last flight.
    pub const LIMITED: u32 = 1 << 27;
    /// Whether a timeout was spurious is being found out (RFC 5682): after the first acknowledgement.
    pub const FRTO: u32 = 1 << 28;
    /// The program was notified that the peer has closed.
    pub const PEER_CLOSED_REPORTED: u32 = 1 << 29;
    /// The reordering timer runs (RFC 8985 section 6.2).
    pub const REORDER: u32 = 1 << 30;
    /// The flow is of UDP.
    pub const UDP: u32 = 1 << 31;

    /// A deadline counts.
    pub const TIMED_AT_ALL: u32 = WAITING | ACK_LATER | PROGRAM_WAITS;
    /// The flow has something to send.
    pub const HAS_OUTPUT: u32 = OUTPUT | ACK_NOW | RESET | KEEPALIVE;
}

/// Data that is queued to be sent: a payload, once or several times in a row, from a sequence number on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Sequence number of the first byte.
    pub seq: u32,
    /// Index in the scenario.
    pub payload: u16,
    /// Which part of a long payload (`PART` bytes each), modulo `PARTS`.
    pub part: u16,
}

/// Payloads are queued in parts of at most this many bytes: sequence numbers of a queue never wrap around.
pub const PART: u64 = 1 << 28;
/// Parts of a payload that a piece distinguishes. Of a longer one, which is a pattern without fields, equal numbers have equal bytes:
/// a multiple of the pattern's length lies between them.
pub const PARTS: u64 = u16::MAX as u64 / PATTERN * PATTERN;

slot_index! {
    /// Index of a flow, and of what is kept of it elsewhere.
    FlowIndex,
    /// Index of the state of a flow with losses or reordering, `tcp::Recovery`.
    RecoveryIndex,
    /// Index of a queue beside a flow, `Backlog`.
    BacklogIndex,
}

impl Slotted for Flow {
    type Index = FlowIndex;
}

/// One end of a flow.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
#[expect(missing_docs, reason = "TCP's variables have the names of the RFCs")]
pub struct Flow {
    // First line: which flow it is, and its timers.
    /// IPv4 address, or of an IPv6 address what is not beside (see `stack/addresses.rs`).
    pub local: u32,
    /// Lower 32 bits of the remote address.
    pub remote: u32,
    pub local_port: u16,
    pub remote_port: u16,
    /// Node in the timer wheel.
    pub link: TimerNode,
    /// The next with something to send.
    pub ready_next: FlowIndex,
    /// Tick: of the transport (what it waits for follows from state and flags).
    pub wait_at: u32,
    /// Tick: of a delayed acknowledgement.
    pub ack_at: u32,
    /// Tick: of the program. Of one that sends a payload of more than 2^16 parts: the upper bits of how many are queued.
    pub program_at: u32,
    pub flags: u32,
    /// Side of a template: twice the template's index in the scenario, and 1 more for servers.
    pub side: u16,
    pub state: State,
    /// Timeouts in a row.
    pub backoff: u8,
    /// MAC of the station that sends to it on the link.
    pub remote_mac: [u8; 6],
    /// Shift of the peer's window, and of ours in the upper half.
    pub scales: u8,
    pub dup_acks: u8,
    /// See `tcp::Recovery`, or `RecoveryIndex::NONE`.
    pub recovery: RecoveryIndex,
    /// See `Backlog`, or `BacklogIndex::NONE`.
    pub backlog: BacklogIndex,

    // Second line: TCP. Names as in RFC 9293 section 3.3.1.
    pub snd_una: u32,
    pub snd_nxt: u32,
    /// The highest that was sent.
    pub snd_max: u32,
    /// The peer's window in bytes.
    pub snd_wnd: u32,
    pub snd_wl1: u32,
    pub snd_wl2: u32,
    pub rcv_nxt: u32,
    /// The right edge of the window we announced.
    pub rcv_adv: u32,
    /// The last acknowledgement we sent.
    pub ack_sent: u32,
    /// Congestion window in bytes.
    pub cwnd: u32,
    pub ssthresh: u32,
    /// Smoothed round trip and its variation in microseconds (of 1024 ns); 0 before the first.
    pub srtt: u32,
    pub rttvar: u32,
    /// Sequence number of the timed segment. While nothing is in flight, and of UDP: laps until the transport's deadline (see `wait_long`).
    pub rtt_seq: u32,
    pub rtt_at: u32,
    /// What fits into a segment with the peer, options of every segment not counted.
    pub mss: u16,
    /// Position in the program.
    pub pc: u16,

    // Third line: what data, and after losses.
    pub ts_recent: u32,
    /// When it came (`Instant::minutes`).
    pub ts_recent_at: u16,
    /// When a segment without data that is not acceptable was answered last (`Instant::moments`); 0: never.
    pub answered_at: u16,
    /// Number of the flow among its template's.
    pub number: u64,
    /// CUBIC: the window before the last reduction, in bytes. Until the handshake is over: the tick at which it began, its lower
    /// bits...
    pub w_max: u32,
    /// CUBIC: when the epoch began, in microseconds; 0: not.
    pub epoch_at: u32,
    /// CUBIC: time from there to `w_max`, in ticks of timestamps (2^20 ns). Until the handshake is over: ...and its upper bits.
    pub cubic_k: u16,
    /// 0 as long as segments arrive in the order in which they left; else for how many quarters of a round trip what is late is
    /// waited for (RFC 8985 section 6.2: RACK.reordering_seen and RACK.reo_wnd_mult).
    pub reordering: u8,
    /// Recoveries after which that is one quarter again (RACK.reo_wnd_persist).
    pub reordering_left: u8,
    /// What ends recovery, loss or a probe when acknowledged.
    pub recover: u32,
    /// Bytes or datagrams since the last clear.
    pub received: u64,
    pub pieces: [Piece; 2],
    /// Sequence number behind the last byte queued.
    pub snd_end: u32,
    pub piece_count: u8,
    /// Probes without an answer: of keepalive, or of a window.
    pub probes: u8,
    /// Parts queued of the payload that the instruction sends; while it waits for a time: laps that are left of that.
    pub part: u16,
}

const _: () = assert!(size_of::<Flow>() == 192);

impl Flow {
    /// No flow.
    pub const NOTHING: Self = Self {
        local: 0,
        remote: 0,
        local_port: 0,
        remote_port: 0,
        link: TimerNode::FREE,
        ready_next: FlowIndex::NONE,
        wait_at: 0,
        ack_at: 0,
        program_at: 0,
        flags: 0,
        side: 0,
        state: State::Closed,
        backoff: 0,
        remote_mac: [0; 6],
        scales: 0,
        dup_acks: 0,
        number: 0,
        snd_una: 0,
        snd_nxt: 0,
        snd_max: 0,
        snd_wnd: 0,
        snd_wl1: 0,
        snd_wl2: 0,
        rcv_nxt: 0,
        rcv_adv: 0,
        ack_sent: 0,
        cwnd: 0,
        ssthresh: u32::MAX,
        srtt: 0,
        rttvar: 0,
        rtt_seq: 0,
        rtt_at: 0,
        mss: 536,
        pc: 0,
        ts_recent: 0,
        ts_recent_at: 0,
        answered_at: 0,
        recovery: RecoveryIndex::NONE,
        backlog: BacklogIndex::NONE,
        w_max: 0,
        epoch_at: 0,
        cubic_k: 0,
        reordering: 0,
        reordering_left: 0,
        recover: 0,
        received: 0,
        pieces: [Piece { seq: 0, payload: 0, part: 0 }; 2],
        snd_end: 0,
        piece_count: 0,
        probes: 0,
        part: 0,
    };

    /// Whether all of these flags are set.
    #[inline]
    pub fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Whether any of these flags is set.
    #[inline]
    pub fn any(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// Whether there is no sign yet that it and its peer have found each other: over TCP its program waits for its connection.
    #[inline]
    pub fn is_new(&self) -> bool {
        if self.has(flags::UDP) { self.has(flags::SILENT) } else { self.pc == 0 }
    }

    /// Makes these so.
    #[inline]
    pub fn set(&mut self, flags: u32) {
        self.flags |= flags;
    }

    /// Makes these not so.
    #[inline]
    pub fn clear(&mut self, flags: u32) {
        self.flags &= !flags;
    }

    /// Bytes that are sent and not acknowledged, SYN and FIN among them.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.snd_max.wrapping_sub(self.snd_una)
    }

    /// Index of its template in the scenario.
    #[inline]
    pub fn template(&self) -> usize {
        usize::from(self.side / 2)
    }

    /// The earliest of its deadlines, of which it has at least one.
    #[inline]
    pub fn deadline(&self) -> u32 {
        let counts = self.flags & flags::TIMED_AT_ALL;
        if counts == flags::WAITING {
            return self.wait_at;
        }
        let all =
            [(flags::WAITING, self.wait_at), (flags::ACK_LATER, self.ack_at), (flags::PROGRAM_WAITS, self.program_at)];
        let mut counting = all.into_iter().filter_map(|(flag, at)| (counts & flag != 0).then_some(at));
        let first = counting.next().unwrap_or(self.wait_at);
        counting.fold(first, |earliest, at| if crate::wheel::before(at, earliest) { at } else { earliest })
    }

    /// Whether nothing is to be done for it until its entry in the wheel comes up, or a segment: it is open, has nothing due to be sent, and its entry
    /// is in time for its deadlines, if it has any.
    #[inline]
    pub fn rests(&self) -> bool {
        let open = (State::Established as u8..=State::LastAck as u8).contains(&(self.state as u8));
        let in_time = || self.link.at().is_some_and(|set| !wheel::before(self.deadline(), set));
        open && !self.any(flags::HAS_OUTPUT) && (!self.any(flags::TIMED_AT_ALL) || in_time())
    }

    /// Waits for the transport until a tick, at most a lap away.
    #[inline]
    pub fn wait_until(&mut self, tick: u32) {
        self.wait_at = tick;
        self.set(flags::WAITING);
    }

    /// Waits for the transport until a tick after some laps. Nothing is in flight.
    #[inline]
    pub fn wait_long(&mut self, (tick, laps): (u32, u32)) {
        debug_assert!(!self.has(flags::TIMED) || self.has(flags::UDP), "the place is taken by a segment that is timed");
        self.rtt_seq = laps;
        self.wait_until(tick);
    }

    /// In TIME-WAIT: whether that is over with a tick, as nothing has happened since it was counted as ended.
    #[inline]
    pub fn ends_at(&self, tick: u32) -> bool {
        let left = self.flags & (flags::TIMED_AT_ALL | flags::HAS_OUTPUT | flags::READY | flags::OPEN);
        left == flags::WAITING && self.wait_at == tick && self.rtt_seq == 0
    }

    /// The wait that `wait_long` began has come to its tick: whether another lap of it begins.
    #[inline]
    pub fn waits_on(&mut self) -> bool {
        let on = self.rtt_seq > 0;
        if on {
            self.rtt_seq -= 1;
            self.wait_until(self.wait_at.wrapping_add(wheel::LAP));
        }
        on
    }
}

/// Whether one sequence number lies before another (RFC 9293 section 3.4).
#[inline]
pub fn seq_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The later of two sequence numbers.
#[inline]
pub fn seq_max(a: u32, b: u32) -> u32 {
    if seq_before(a, b) { b } else { a }
}

/// The earlier of two sequence numbers.
#[inline]
pub fn seq_min(a: u32, b: u32) -> u32 {
    if seq_before(b, a) { b } else { a }
}
