// SPDX-License-Identifier: Apache-2.0
//! What is counted, for each template and side: names, meanings, and what TRex calls the same.
use core::sync::atomic::{AtomicBool, Ordering};

use spate_stats::{Counter, Gaps, LastArrival, Silence, Span, Times};

macro_rules! counters {
    ($($variant:ident $name:literal $trex:literal $meaning:literal;)*) => {
        /// Something that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Count {
            $(#[doc = $meaning] $variant,)*
        }

        /// All, in order: name, TRex's name (or none), meaning.
        pub const COUNTERS: &[(&str, &str, &str)] = &[$(($name, $trex, $meaning),)*];
    };
}

counters! {
    FlowsAttempted "flows_attempted" "tcps_connattempt" "Connections that clients started.";
    FlowsAccepted "flows_accepted" "tcps_accepts" "SYNs that servers answered.";
    FlowsEstablished "flows_established" "tcps_connects" "Connections established.";
    FlowsClosed "flows_closed" "tcps_closed" "Connections ended, in whatever way.";
    SentPackets "sent_packets" "tcps_sndtotal" "Segments or datagrams sent.";
    SentDataPackets "sent_data_packets" "tcps_sndpack" "Of them, with data, sent for the first time.";
    SentDataBytes "sent_data_bytes" "tcps_sndbyte_ok" "Bytes of data sent for the first time.";
    SentControlPackets "sent_control_packets" "tcps_sndctrl" "Segments with SYN, FIN or RST.";
    SentAckPackets "sent_ack_packets" "tcps_sndacks" "Segments with nothing but an acknowledgement.";
    QueuedBytes "queued_bytes" "tcps_sndbyte" "Bytes that programs sent.";
    RetransmittedPackets "retransmitted_packets" "tcps_sndrexmitpack" "Data segments sent again.";
    RetransmittedBytes "retransmitted_bytes" "tcps_sndrexmitbyte" "Bytes of data sent again.";
    WindowProbesSent "window_probes_sent" "tcps_sndprobe" "Probes of a closed window.";
    TailProbesSent "tail_probes_sent" "" "Probes for a lost tail (RFC 8985).";
    ReceivedPackets "received_packets" "tcps_rcvtotal" "Segments or datagrams received.";
    ReceivedDataPackets "received_data_packets" "tcps_rcvpack" "Of them, with data in sequence.";
    ReceivedDataBytes "received_data_bytes" "tcps_rcvbyte" "Bytes received in sequence, once each.";
    AckedPackets "acked_packets" "tcps_rcvackpack" "Acknowledgements that acknowledged something.";
    AckedBytes "acked_bytes" "tcps_rcvackbyte" "Bytes of data acknowledged.";
    DuplicateAcks "duplicate_acks" "tcps_rcvdupack" "Duplicate acknowledgements received.";
    AcksOfUnsent "acks_of_unsent" "tcps_rcvacktoomuch" "Acknowledgements of what was not sent.";
    OutOfOrderPackets "out_of_order_packets" "tcps_rcvoopack" "Data segments that came out of order.";
    OutOfOrderBytes "out_of_order_bytes" "tcps_rcvoobyte" "Bytes in them.";
    DuplicatePackets "duplicate_packets" "tcps_rcvduppack" "Data segments that brought nothing new.";
    DuplicateBytes "duplicate_bytes" "tcps_rcvdupbyte" "Bytes received before.";
    BeyondWindowPackets "beyond_window_packets" "tcps_rcvpackafterwin" "Segments with data beyond the window.";
    BeyondWindowBytes "beyond_window_bytes" "tcps_rcvbyteafterwin" "Bytes in them.";
    AfterClosePackets "after_close_packets" "tcps_rcvafterclose" "Data segments behind the peer's FIN.";
    WindowProbesReceived "window_probes_received" "tcps_rcvwinprobe" "Segments that probed our window.";
    WindowUpdates "window_updates" "tcps_rcvwinupd" "Segments that changed the peer's window only.";
    OldTimestamps "old_timestamps" "tcps_pawsdrop" "Segments dropped for an old timestamp (PAWS).";
    MissingTimestamps "missing_timestamps" "" "Segments dropped because they lack the agreed timestamps.";
    ChallengeAcks "challenge_acks" "" "Acknowledgements that answered a suspicious SYN, RST or ACK (RFC 5961).";
    ChallengeAcksSuppressed "challenge_acks_suppressed" "" "Such acknowledgements not sent because the worker had sent about 1,000 of them in that second (RFC 5961 section 7).";
    AcksSuppressed "acks_suppressed" "" "Segments without data that are not acceptable (outside of the window, of an earlier time, or acknowledging what was not sent) and were not answered because the flow had answered one in the last half second (RFC 5961 section 7, as Linux).";
    ResetsReceived "resets_received" "tcps_drops" "Connections that the peer reset.";
    ResetsSent "resets_sent" "" "Resets sent.";
    StraysRefused "strays_refused" "" "Of the resets sent, those that answered a segment of no open flow: one that came late, or to a closed port.";
    RoundTrips "round_trips" "tcps_rttupdated" "Round trips measured.";
    RetransmitTimeouts "retransmit_timeouts" "tcps_rexmttimeo" "Retransmission time-outs.";
    SynTimeouts "syn_timeouts" "tcps_rexmttimeo_syn" "Of them, of SYN.";
    TimeoutDrops "timeout_drops" "tcps_timeoutdrop" "Connections given up after too many time-outs.";
    ConnectDrops "connect_drops" "tcps_conndrops" "Handshakes given up.";
    SpuriousTimeouts "spurious_timeouts" "tcps_sndrexmitbad" "Time-outs that were undone (RFC 5682, RFC 3522, RFC 3708).";
    SpuriousRecoveries "spurious_recoveries" "" "Fast recoveries that were undone (RFC 3522, RFC 3708).";
    FastRetransmits "fast_retransmits" "tcps_sack_recovery_episode" "Fast recoveries started.";
    PersistTimeouts "persist_timeouts" "tcps_persisttimeo" "Time-outs of a closed window.";
    KeepaliveProbes "keepalive_probes" "tcps_keepprobe" "Keepalives sent.";
    KeepaliveDrops "keepalive_drops" "tcps_keepdrops" "Connections dropped by keepalive.";
    DelayedAcks "delayed_acks" "tcps_delack" "Acknowledgements that waited until their time was over.";
    SackBlocksReceived "sack_blocks_received" "tcps_sack_rcv_blocks" "Blocks of selective acknowledgement received.";
    SackBlocksSent "sack_blocks_sent" "tcps_sack_send_blocks" "Blocks of selective acknowledgement sent.";
    DsackReceived "dsack_received" "" "Acknowledgements that reported data received twice (D-SACK, RFC 2883).";
    DsackSent "dsack_sent" "" "Segments sent that reported data received twice (D-SACK, RFC 2883).";
    RecoveryExhausted "recovery_exhausted" "tcps_sack_sboverflow" "Times there was no memory for the state of a loss, or for what came out of order.";
    BacklogExhausted "backlog_exhausted" "" "Times a program waited because there was no memory to queue another payload.";
    CongestionMarks "congestion_marks" "tcps_ecn_ce" "Packets received that were marked congested (RFC 3168).";
    CongestionEchoes "congestion_echoes" "tcps_ecn_rcwnd" "Reductions because the peer reported such marks.";
    MtuReductions "mtu_reductions" "" "Segment sizes reduced because a link's MTU is smaller.";
    IcmpErrors "icmp_errors" "" "ICMP errors about a flow.";
    FlowsRefused "flows_refused" "" "UDP flows ended because the peer's port or protocol is not reachable, or prohibited (ICMP).";
    BadChecksums "bad_checksums" "" "Packets to addresses of the side that were dropped because a checksum is wrong.";
    Truncated "truncated" "err_len_err" "Packets to addresses of the side that were dropped because they are shorter than their headers say.";
    Fragments "fragments" "" "Fragments of IP packets to addresses of the side, dropped: they are not put together.";
    FlowsClosedEarly "flows_closed_early" "" "Programs that waited for more when the peer closed.";
    FlowsExhausted "flows_exhausted" "err_no_memory" "Flows not started, or not accepted, because the flow table was full.";
    Unmatched "unmatched" "err_no_template" "Connections to servers that were reset, and datagrams dropped, because the first bytes are no template's.";
    PortsExhausted "ports_exhausted" "err_c_tuple_err" "Flows not started because all tries found their addresses and ports in use.";
    OpenLimitWaits "open_limit_waits" "" "Flows that had to wait because the maximum of concurrent flows of the template were open.";
    TimeWaitReused "time_wait_reused" "" "Flows in TIME-WAIT that a new SYN ended early (RFC 6191).";
    MessagesSent "messages_sent" "udps_sndpkt" "Datagrams that programs sent.";
    MessagesReceived "messages_received" "udps_rcvpkt" "Datagrams received.";
    MessageBytesSent "message_bytes_sent" "udps_sndbyte" "Bytes of data in them.";
    MessageBytesReceived "message_bytes_received" "udps_rcvbyte" "Bytes of data in them.";
    FlowsIdleTimeouts "flows_idle_timeouts" "udps_keepdrops" "UDP flows ended because nothing was received or sent for the time of their keepalive.";
    ProgramCounts "program_counts" "" "Counts of programs, of all their counters together.";
    FlowsAborted "flows_aborted" "tcps_testdrops" "Flows still open when the run's drain was over: they ended without a packet.";
    SwitchedOut "switched_out" "" "Flows that went on as those of another template: by their program, or by their first bytes.";
    SwitchedIn "switched_in" "" "Flows that came from another template so.";
    FlowsNotStarted "flows_not_started" "" "Flows that were due before the end, and did not start because the worker was behind.";
    FlowsThrottled "flows_throttled" "" "Flows that were due before the end, and did not start because the maximum of concurrent flows of the template were open.";
    RecordsDropped "records_dropped" "" "Records of flows that were not taken because there was no room: who takes them was behind.";
    FlowsWithoutClient "flows_without_client" "" "Flows not started because no client that was found had an address: those of the pool are leased.";
    FlowsClientLost "flows_client_lost" "" "Flows that ended without a packet because their client lost its leased address.";
    FlowsLate "flows_late" "" "Flows that started later after their time than a packet may leave: 1 ms, on kernel-backed ports 20 ms.";
    HttpErrors "http_errors" "" "Flows that were reset because the end of an HTTP message they waited for cannot be known (RFC 9112).";
    OutOfOrderDropped "out_of_order_dropped" "" "Data segments not accepted because there was no memory to hold what a program that waits for a message cannot look through yet.";
    GtpuUnknownTunnel "gtpu_unknown_tunnel" "" "Packets dropped because they came in another tunnel than their client's (TEID, gNB or address), or in none.";
    GtpuMalformed "gtpu_malformed" "" "GTP-U packets dropped: cut short, in fragments, with a wrong checksum, or with an extension header that must be understood and is not.";
    GtpuEchoes "gtpu_echoes" "" "GTP-U echo requests answered (path management).";
    GtpuErrorIndications "gtpu_error_indications" "" "GTP-U error indications received: the peer has no such tunnel.";
    GtpuEndMarkers "gtpu_end_markers" "" "GTP-U end markers received.";
    GtpuOthers "gtpu_others" "" "Other GTP-U messages received, which nothing is done with.";
    VxlanUnknownTunnel "vxlan_unknown_tunnel" "" "Packets dropped because they came in another tunnel than their client's (VNI, VTEP or address), or in none.";
    VxlanMalformed "vxlan_malformed" "" "VXLAN packets dropped: cut short, in fragments, with a wrong checksum, or without a valid VNI.";
    VxlanOthers "vxlan_others" "" "Other frames received in VXLAN (ARP, to groups, with VLAN tags), which nothing is done with.";
    GreUnknownTunnel "gre_unknown_tunnel" "" "Packets dropped because they came in another tunnel than their client's (key, none where there is one, or address), or in none.";
    GreMalformed "gre_malformed" "" "GRE packets dropped: cut short, in fragments, with a wrong checksum, a route or another version, or with another packet than their header says.";
    GreOthers "gre_others" "" "Other packets received in GRE than IPv4 and IPv6, which nothing is done with.";
    MplsUnknownTunnel "mpls_unknown_tunnel" "" "Packets dropped because they came with another label at the bottom of the stack than their client's, or with none where there has to be one.";
    MplsMalformed "mpls_malformed" "" "MPLS packets dropped: cut short, or too long.";
    IgnoredPackets "ignored_packets" "" "Packets of no open flow, and echo requests (ping), dropped because their source is one to ignore: they open no flow, are not answered, and are in no other counter.";
}

/// Arrival gaps of a side that a worker keeps.
const GAPS: usize = 256;

/// Number of counters.
pub const COUNTS: usize = COUNTERS.len();

/// The counters of one side of a template in one worker.
#[derive(Debug)]
pub struct Counters {
    counts: [Counter; COUNTS],
    open: Counter,
    /// The part of `counts` that was counted in the warm-up, once that is over.
    warmup: [Counter; COUNTS],
    /// The warm-up lasts.
    warming: AtomicBool,
    /// Counters of the program, in their order, with what of each was counted in the warm-up.
    programs: Box<[(Counter, Counter)]>,
    /// Arrivals of packets of flows.
    last: LastArrival,
    gaps: Gaps,
    connect_times: Option<Box<Times>>,
    round_trips: Option<Box<Times>>,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            counts: core::array::from_fn(|_| Counter::default()),
            open: Counter::default(),
            warmup: core::array::from_fn(|_| Counter::default()),
            warming: AtomicBool::new(false),
            programs: Box::default(),
            last: LastArrival::default(),
            gaps: Gaps::new(1),
            connect_times: None,
            round_trips: None,
        }
    }
}

impl Counters {
    /// Counters, with a histogram of connect times, one of round trips, and this many counters of a program.
    pub fn new(connects: bool, round_trips: bool, programs: usize) -> Self {
        let times = |so: bool| so.then(Box::<Times>::default);
        let programs = (0..programs).map(|_| Default::default()).collect();
        let gaps = Gaps::new(GAPS);
        Self { connect_times: times(connects), round_trips: times(round_trips), programs, gaps, ..Self::default() }
    }

    /// What is counted from now on is of a warm-up, and no times are noted.
    pub(crate) fn begin_warmup(&self) {
        self.warming.store(true, Ordering::Release);
    }

    /// The warm-up is over since an instant; only the one writer may say so.
    pub(crate) fn end_warmup(&self, at_ns: u64) {
        self.gaps.restart(&self.last, at_ns);
        let programs = self.programs.iter().map(|(count, warmup)| (warmup, count));
        self.warmup.iter().zip(&self.counts).chain(programs).for_each(|(warmup, count)| warmup.set(count.get()));
        self.warming.store(false, Ordering::Release);
    }

    #[inline]
    fn measures(&self) -> bool {
        !self.warming.load(Ordering::Relaxed)
    }

    /// How long connections took to be established: for clients from the first SYN on, for servers from its arrival on. In steps
    /// of 1,024 ns.
    pub fn connect_times(&self) -> Option<&Times> {
        self.connect_times.as_deref()
    }

    /// Over TCP, of data: from when a segment first left until it was acknowledged, one at a time for each flow, in steps of 1,024
    /// ns (RFC 6298 section 3). Over UDP, of clients: from a message until its reply.
    pub fn round_trips(&self) -> Option<&Times> {
        self.round_trips.as_deref()
    }

    /// A connection was established after such a time; only the one writer may say so.
    #[inline]
    pub(crate) fn connected_after(&self, ns: u64) {
        if let Some(times) = &self.connect_times
            && self.measures()
        {
            times.record(ns);
        }
    }

    /// A round trip took such a time.
    #[inline]
    pub(crate) fn round_trip(&self, ns: u64) {
        if let Some(times) = &self.round_trips
            && self.measures()
        {
            times.record(ns);
        }
    }

    /// Counts a packet of a flow that arrives; only its one writer may.
    #[inline]
    pub(crate) fn received(&self, at_ns: u64) {
        self.one(Count::ReceivedPackets);
        self.last.arrived(at_ns, |from_ns| self.keep_gap(Span { from_ns, to_ns: at_ns }));
    }

    #[cold]
    #[inline(never)]
    fn keep_gap(&self, gap: Span) {
        self.gaps.keep(&self.last, gap);
    }

    /// When no packet of its flows arrived; none if none has arrived.
    pub fn silence(&self) -> Option<Silence> {
        self.gaps.read(&self.last)
    }

    /// Control has collected the gaps that ended until an instant: they need not be kept.
    pub fn gaps_collected(&self, until_ns: u64) {
        self.gaps.collected(&self.last, until_ns);
    }

    /// Counts; only its one writer may.
    #[inline]
    pub fn add(&self, count: Count, n: u64) {
        self.counts[count as usize].add(n);
    }

    /// Counts one for a counter of the program. Not inlined: programs seldom count, and their steps are what runs most.
    #[inline(never)]
    pub(crate) fn count_of_program(&self, counter: u16) {
        self.one(Count::ProgramCounts);
        if let Some((count, _)) = self.programs.get(usize::from(counter)) {
            count.add(1);
        }
    }

    /// Adds a time to a counter of the program, in ns.
    #[inline(never)]
    pub(crate) fn time_of_program(&self, counter: u16, ns: u64) {
        self.one(Count::ProgramCounts);
        if let Some((count, _)) = self.programs.get(usize::from(counter)) {
            count.add(ns);
        }
    }

    /// Counts one.
    #[inline]
    pub fn one(&self, count: Count) {
        self.add(count, 1);
    }

    /// Value of a counter.
    #[inline]
    pub fn get(&self, count: Count) -> u64 {
        self.counts[count as usize].get()
    }

    /// Flows that are open, those in TIME-WAIT not among them.
    #[inline]
    pub fn open(&self) -> u64 {
        self.open.get()
    }

    /// A flow is open; only its one writer may say so.
    #[inline]
    pub(crate) fn opened(&self) {
        self.open.set(self.open.get() + 1);
    }

    /// A flow is open no more.
    #[inline]
    pub(crate) fn ended(&self) {
        self.open.set(self.open.get() - 1);
    }

    /// All, in the order of `COUNTERS`, and what of them was counted in the warm-up, at one time: before that is over, all.
    pub fn phases(&self) -> (Vec<u64>, Vec<u64>) {
        let warming = self.warming.load(Ordering::Acquire);
        let all: Vec<_> = self.all().collect();
        let warmup = if warming { all.clone() } else { self.warmup.iter().map(Counter::get).collect() };
        (all, warmup)
    }

    /// Counters of the program, in its order, with what of each was counted in the warm-up: before that is over, all.
    pub fn programs(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let warming = self.warming.load(Ordering::Acquire);
        self.programs.iter().map(move |(count, warmup)| {
            let all = count.get();
            (all, if warming { all } else { warmup.get() })
        })
    }

    /// All, in the order of `COUNTERS`.
    pub fn all(&self) -> impl Iterator<Item = u64> + '_ {
        self.counts.iter().map(Counter::get)
    }
}
