// SPDX-License-Identifier: Apache-2.0
//! What becomes of a frame that arrives: its flow is found, or a server's begins; what is of no open flow is answered, counted or left to others.
use spate_arch::fetch;
use spate_net::{
    ethernet::{self, macs},
    fast::{self, Bits, Family, V4, V6},
};

use super::{
    ANSWERS, Stack, Tuple,
    key::{Key, Lookup, kind},
    port::Answer,
    side_index::SideIndex,
};
use crate::{
    Protocol,
    counters::Count,
    flow::{FlowIndex, State, flags, seq_before},
    offload::OffloadRequest,
    packet::{
        Content, Datagram, Endpoints, Error, FastPathPacket, LowerHeaders, Packet, Reject, Segment, SegmentHeader,
        destination, echo_request, flag,
    },
    tcp::Instant,
};

/// UDP ports of clients of DHCP and DHCPv6 (RFC 2131 section 4.1, RFC 8415 section 7.2).
const LEASE_PORTS: [u16; 2] = [68, 546];

/// What is known of a frame before it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints<'a> {
    /// The port's device has verified the checksum of the TCP segment that is in it.
    pub verified: bool,
    /// What [`Stack::look_ahead`] gave for it.
    pub ahead: Option<&'a Prefetched>,
}

/// What is found of a frame before its turn to be received: it holds however many others are received in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetched {
    hash: u32,
    /// The slot of the flow that the frame most likely is of; none may have it any more, or another flow.
    index: FlowIndex,
}

/// Outcome of demultiplexing one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The frame was for a flow, or for an address of the scenario.
    Taken,
    /// The frame is for no address of the scenario.
    Foreign,
    /// Its destination MAC is neither the port's nor that of the client whose address it has: nothing was done with it.
    OtherMac,
    /// The frame is of a client's flow, or about any flow of this engine, that another worker may have: nothing was done with it.
    Elsewhere,
}

/// Whether a segment with these flags may be one that header prediction takes. A SYN is none: it is read once, where it is handled.
#[inline(always)]
fn may_be_common<const PREDICTS: bool>(flags: u8) -> bool {
    !PREDICTS || flags & flag::SYN == 0
}

impl Tuple {
    /// The 5-tuple of a packet with these ports as its receiver sees it: local is the packet's destination.
    #[inline]
    fn of(packet: &Packet<'_>, source_port: u16, destination_port: u16) -> Self {
        Self {
            local: packet.destination,
            remote: packet.source,
            local_port: destination_port,
            remote_port: source_port,
        }
    }
}

impl Stack {
    /// A frame without FCS arrives on a port.
    #[inline]
    pub fn receive(&mut self, port: usize, frame: &[u8], now_ns: u64) -> Received {
        self.receive_hinted(port, frame, Hints::default(), now_ns)
    }

    /// Frames are about to be received: what finds their flows, and the flows, is fetched for all at once. Gives what it finds of each.
    #[inline]
    pub fn look_ahead<'a>(&self, frames: impl Iterator<Item = &'a [u8]>, found: &mut [Prefetched]) {
        let keys = &self.secrets.hash;
        let v4 = |frame: &[u8]| {
            fast::ends::<V4>(frame).map_or(0, |(Bits(source), Bits(destination), ports, udp)| {
                let (remote_port, local_port) = ((ports >> 16) as u16, ports as u16);
                Key { local: destination, remote: source, local_port, remote_port, kind: kind(udp, false) }.hash(keys)
            })
        };
        let mut count = 0;
        if self.uppers.is_empty() {
            for (frame, Prefetched { hash, .. }) in frames.zip(found.iter_mut()) {
                *hash = v4(frame);
                self.table.fetch(*hash);
                count += 1;
            }
            for Prefetched { hash, index } in &mut found[..count] {
                *index = self.table.first(*hash);
                if let Some(flow) = self.flows.get(*index) {
                    fetch(flow);
                }
            }
            return;
        }
        for (frame, Prefetched { hash, .. }) in frames.zip(found.iter_mut()) {
            *hash = match fast::ends::<V6>(frame) {
                Some((remote, local, ports, udp)) => {
                    let tuple = Tuple { local, remote, local_port: ports as u16, remote_port: (ports >> 16) as u16 };
                    Key::of_v6(&tuple, udp, keys).hash(keys)
                }
                None => v4(frame),
            };
            self.table.fetch(*hash);
            count += 1;
        }
        for Prefetched { hash, index } in &mut found[..count] {
            *index = self.table.first(*hash);
            if let (Some(flow), Some(upper)) = (self.flows.get(*index), self.uppers.get(index.position())) {
                fetch(flow);
                fetch(upper);
            }
        }
    }

    /// As `receive`, of a frame of which something is known.
    #[inline(always)]
    pub fn receive_hinted(&mut self, port: usize, frame: &[u8], hints: Hints<'_>, now_ns: u64) -> Received {
        if !fast::is_of::<V6>(frame) {
            return self.receive_hinted_v4(port, frame, hints, now_ns);
        }
        if let Some(refused) = self.refused_by_mac(port, frame) {
            return refused;
        }
        self.now = Instant { ns: now_ns };
        if self.looks_into {
            return self.receive_v6::<false>(port, frame, hints);
        }
        self.receive_v6::<true>(port, frame, hints)
    }

    /// The same of a frame that is none of IPv6. Each family has a function of its own, in which all that is common is inlined; where more is
    /// done with segments, another.
    #[inline(always)]
    pub fn receive_hinted_v4(&mut self, port: usize, frame: &[u8], hints: Hints<'_>, now_ns: u64) -> Received {
        if let Some(refused) = self.refused_by_mac(port, frame) {
            return refused;
        }
        self.now = Instant { ns: now_ns };
        if self.looks_into {
            return self.receive_v4::<false>(port, frame, hints);
        }
        self.receive_v4::<true>(port, frame, hints)
    }

    /// A frame arrives that is none of IPv6. With `PREDICTS`, most are segments that header prediction takes.
    #[inline(never)]
    fn receive_v4<const PREDICTS: bool>(&mut self, port: usize, frame: &[u8], hints: Hints<'_>) -> Received {
        let Some(plain) = FastPathPacket::<V4, Segment<'_>>::read_if(frame, hints.verified, may_be_common::<PREDICTS>)
        else {
            return self.receive_other::<V4>(port, frame, hints);
        };
        let key = Key {
            local: plain.destination.0,
            remote: plain.source.0,
            local_port: plain.content.destination_port,
            remote_port: plain.content.source_port,
            kind: kind(false, false),
        };
        let keys = &self.secrets.hash;
        let hash = hints.ahead.map_or_else(|| key.hash(keys), |ahead| ahead.hash);
        debug_assert_eq!(hash, key.hash(keys), "of another frame");
        let index = self.find_hinted(hash, hints, |index| key.is(&self.flows[index]));
        self.receive_plain::<V4, PREDICTS>(port, frame, hints, &plain, (hash, index))
    }

    /// The same of IPv6.
    #[inline(never)]
    fn receive_v6<const PREDICTS: bool>(&mut self, port: usize, frame: &[u8], hints: Hints<'_>) -> Received {
        let Some(plain) = FastPathPacket::<V6, Segment<'_>>::read_if(frame, hints.verified, may_be_common::<PREDICTS>)
        else {
            return self.receive_other::<V6>(port, frame, hints);
        };
        let (s, kind) = (&plain.content, kind(false, true));
        let (local, remote) = (plain.destination, plain.source);
        let tuple = Tuple { local, remote, local_port: s.destination_port, remote_port: s.source_port };
        let hash = self.hash_of(&tuple, false, hints);
        let index = self.find_hinted(hash, hints, |index| self.is_between(index, &tuple, kind));
        self.receive_plain::<V6, PREDICTS>(port, frame, hints, &plain, (hash, index))
    }

    /// A plain segment arrives, of the flow at an index if it is of one.
    #[inline(always)]
    fn receive_plain<F: Family, const PREDICTS: bool>(
        &mut self,
        port: usize,
        frame: &[u8],
        hints: Hints<'_>,
        plain: &FastPathPacket<F, Segment<'_>>,
        (hash, index): (u32, Option<FlowIndex>),
    ) -> Received {
        if !PREDICTS {
            return self.receive_found(port, frame, plain, (hash, index));
        }
        match index {
            Some(index) if self.receive_predicted(index, &plain.content, plain.ecn) => Received::Taken,
            // It is read again: so a segment that is predicted stays in registers, and is never in memory.
            _ => self.receive_segment::<F>(port, frame, Hints { verified: true, ..hints }),
        }
    }

    /// A plain segment of a flow that was found, or of none that is here.
    #[inline(always)]
    fn receive_found<F: Family>(
        &mut self,
        port: usize,
        frame: &[u8],
        plain: &FastPathPacket<F, Segment<'_>>,
        (hash, index): (u32, Option<FlowIndex>),
    ) -> Received {
        let s = &plain.content;
        match index {
            Some(index) => self.receive_known(port, index, frame, s, plain.ecn),
            None => self.receive_unknown(port, &plain.packet(frame, Content::Tcp(*s)), s, hash),
        }
    }

    /// As `receive_v4` and `receive_v6`, of what is no plain segment that header prediction may take.
    #[inline(always)]
    fn receive_other<F: Family>(&mut self, port: usize, frame: &[u8], hints: Hints<'_>) -> Received {
        if fast::may_be_udp::<F>(frame) {
            return self.receive_datagram::<F>(port, frame, hints);
        }
        self.receive_segment::<F>(port, frame, hints)
    }

    /// What may be a datagram arrives: most are plain.
    #[inline(never)]
    fn receive_datagram<F: Family>(&mut self, port: usize, frame: &[u8], hints: Hints<'_>) -> Received {
        let Some(plain) = FastPathPacket::<F, Datagram<'_>>::read_udp(frame) else {
            return self.receive_segment::<F>(port, frame, hints);
        };
        let (packet, d) = (plain.packet(frame, Content::Udp(plain.content)), &plain.content);
        let tuple = Tuple::of(&packet, d.source_port, d.destination_port);
        let (hash, kind) = (self.hash_of(&tuple, true, hints), kind(true, tuple.local.is_v6()));
        let index = self.find_hinted(hash, hints, |index| self.is_between(index, &tuple, kind));
        self.receive_udp(port, &packet, d, &Lookup { tuple, hash, index })
    }

    /// A segment arrives that is not predicted, such as a SYN; or what is neither a plain segment nor a plain datagram.
    #[inline(never)]
    fn receive_segment<F: Family>(&mut self, port: usize, frame: &[u8], hints: Hints<'_>) -> Received {
        let Some(plain) = FastPathPacket::<F, Segment<'_>>::read(frame, hints.verified) else {
            return self.receive_any(port, frame, hints.verified);
        };
        let (s, kind) = (&plain.content, kind(false, F::ETHERTYPE == ethernet::IPV6));
        let (local, remote) = (plain.destination.into(), plain.source.into());
        let tuple = Tuple { local, remote, local_port: s.destination_port, remote_port: s.source_port };
        let hash = self.hash_of(&tuple, false, hints);
        let index = self.find_hinted(hash, hints, |index| self.is_between(index, &tuple, kind));
        self.receive_found(port, frame, &plain, (hash, index))
    }

    /// What finds the flow between these, which may be known of the frame.
    #[inline(always)]
    fn hash_of(&self, tuple: &Tuple, udp: bool, hints: Hints<'_>) -> u32 {
        let keys = &self.secrets.hash;
        let hash = hints.ahead.map_or_else(|| Key::of(tuple, udp, keys).hash(keys), |ahead| ahead.hash);
        // Where no flow is over IPv6, `look_ahead` does not read such frames: with any hash none has a flow.
        debug_assert!(
            hash == Key::of(tuple, udp, keys).hash(keys) || tuple.local.is_v6() && self.uppers.is_empty(),
            "of another frame"
        );
        hash
    }

    /// The flow of a frame with this hash that `is` says it is: most often that which was found ahead.
    #[inline(always)]
    fn find_hinted(&self, hash: u32, hints: Hints<'_>, is: impl Fn(FlowIndex) -> bool) -> Option<FlowIndex> {
        if let Some(&Prefetched { index, .. }) = hints.ahead
            // One that has ended may be in no table any more.
            && self.flows.get(index).is_some_and(|flow| flow.state != State::Closed)
            && is(index)
        {
            return Some(index);
        }
        self.table.find(hash, is)
    }

    /// What a frame is if its destination MAC says that it is for none of a port's stations: the port's own, and those of clients
    /// with MACs of their own.
    #[inline]
    pub fn refused_by_mac(&self, port: usize, frame: &[u8]) -> Option<Received> {
        if self.ports[port].station.is_for(frame) { None } else { self.refused_by_own_mac(port, frame) }
    }

    #[cold]
    fn refused_by_own_mac(&self, port: usize, frame: &[u8]) -> Option<Received> {
        let Some(&mac) = frame.first_chunk::<6>() else { return Some(Received::Foreign) };
        if mac[0] & 1 == 1 {
            // TCP, UDP and errors about them do not come to groups (RFC 1122 sections 3.3.6 and 4.2.3.10), unless a pool allows it.
            let group = destination(frame).and_then(|address| self.ports[port].group_mac(address));
            return if group == Some(mac) { None } else { Some(Received::Foreign) };
        }
        let (pools, station) = (&self.pools, mac == self.ports[port].link.mac);
        let Some(address) = destination(frame) else {
            // ARP, which others answer.
            let ours = station || self.found.has_mac(pools, port, mac);
            return Some(if ours { Received::Foreign } else { Received::OtherMac });
        };
        let own = self.found.is_own_mac(pools, port, address, mac);
        if own.unwrap_or(station) { None } else { Some(Received::OtherMac) }
    }

    /// As `receive`, of a frame that another worker received; and whether it was of a client's flow that is here. ICMP errors are not.
    pub fn receive_handed(&mut self, port: usize, frame: &[u8], now_ns: u64) -> (Received, bool) {
        if let Some(refused) = self.refused_by_mac(port, frame) {
            return (refused, false);
        }
        self.now = Instant { ns: now_ns };
        let packet = match Packet::read(frame) {
            Ok(packet) => packet,
            Err(why) => return (self.receive_malformed(port, frame, why), false),
        };
        let wanted = self.look_up(&packet);
        let is_error = matches!(packet.content, Content::Icmp(_));
        let of_client = !is_error && wanted.index.is_some_and(|index| self.flows[index].has(flags::CLIENT));
        (self.receive_packet(port, frame, &packet, &wanted), of_client)
    }

    #[inline(never)]
    fn receive_any(&mut self, port: usize, frame: &[u8], verified: bool) -> Received {
        let packet = match Packet::read_marked(frame, verified) {
            Ok(packet) => packet,
            Err(why) => return self.receive_malformed(port, frame, why),
        };
        let wanted = self.look_up(&packet);
        self.receive_packet(port, frame, &packet, &wanted)
    }

    /// The flow that a packet is of, or that an ICMP error is about.
    #[inline(always)]
    fn look_up(&self, packet: &Packet<'_>) -> Lookup {
        let (tuple, udp) = match &packet.content {
            Content::Tcp(segment) => (Tuple::of(packet, segment.source_port, segment.destination_port), false),
            Content::Udp(datagram) => (Tuple::of(packet, datagram.source_port, datagram.destination_port), true),
            // It has the packet that it is about, which was ours.
            Content::Icmp(error) => {
                let tuple = Tuple {
                    local: error.source,
                    remote: error.destination,
                    local_port: error.source_port,
                    remote_port: error.destination_port,
                };
                (tuple, !error.tcp)
            }
        };
        let hash = self.hash_of(&tuple, udp, Hints::default());
        Lookup { tuple, hash, index: self.find(&tuple, udp, hash) }
    }

    #[inline(always)]
    fn receive_packet(&mut self, port: usize, frame: &[u8], packet: &Packet<'_>, wanted: &Lookup) -> Received {
        match (&packet.content, wanted.index) {
            (Content::Tcp(segment), Some(index)) => self.receive_known(port, index, frame, segment, packet.ecn),
            (Content::Tcp(segment), None) => self.receive_unknown(port, packet, segment, wanted.hash),
            (Content::Udp(datagram), _) => self.receive_udp(port, packet, datagram, wanted),
            (Content::Icmp(error), _) => self.receive_icmp_error(port, error, wanted),
        }
    }

    /// What cannot be read is counted where the address is that it is for.
    #[cold]
    fn receive_malformed(&mut self, port: usize, frame: &[u8], why: Reject) -> Received {
        let count = match why {
            Reject::Other => return self.receive_other_protocol(port, frame),
            Reject::Checksum => Count::BadChecksums,
            Reject::Truncated => Count::Truncated,
            Reject::Fragment => Count::Fragments,
        };
        let Some(side) = destination(frame).and_then(|address| self.owner(port, address)) else {
            return Received::Foreign;
        };
        self.sides[side.position()].counters.one(count);
        Received::Taken
    }

    /// What is neither TCP nor UDP is for others, such as those who answer echo requests; but for these if their source is to be ignored.
    fn receive_other_protocol(&self, port: usize, frame: &[u8]) -> Received {
        let Some(ignored) = &self.scenario.ignored else { return Received::Foreign };
        let Some(echo) = echo_request(frame) else { return Received::Foreign };
        match self.owner(port, echo.destination) {
            Some(side) if ignored.has(echo.source_mac, echo.source) => {
                self.sides[side.position()].counters.one(Count::IgnoredPackets);
                Received::Taken
            }
            _ => Received::Foreign,
        }
    }

    /// Whether a packet of no open flow comes from a source that is to be ignored.
    #[inline]
    fn is_ignored(&self, packet: &Packet<'_>) -> bool {
        self.scenario.ignored.as_ref().is_some_and(|ignored| ignored.has(packet.source_mac, packet.source))
    }

    /// A packet of no open flow here, from a source that is to be ignored, is counted and dropped.
    #[cold]
    fn ignore(&self, port: usize, packet: &Packet<'_>) -> Received {
        let Some(side) = self.owner(port, packet.destination) else { return Received::Foreign };
        if self.shared && side.is_client() {
            return Received::Elsewhere;
        }
        self.sides[side.position()].counters.one(Count::IgnoredPackets);
        Received::Taken
    }

    /// A segment of a flow, if header prediction takes it: then it is none of another connection between these. False: nothing was done.
    #[inline(always)]
    fn receive_predicted(&mut self, index: FlowIndex, s: &Segment<'_>, ecn: u8) -> bool {
        let (flow, mut cx, backlogs) = self.parts(index);
        if !flow.input_if_predicted(s, ecn, &mut cx, backlogs) {
            return false;
        }
        if !flow.has(flags::PROGRAM_ENDED) {
            self.go_on(index);
        }
        self.settle(index);
        true
    }

    /// A segment of a flow. It is all that is read of the frame, but for what is rare.
    #[inline(never)]
    fn receive_known(&mut self, port: usize, index: FlowIndex, frame: &[u8], s: &Segment<'_>, ecn: u8) -> Received {
        let flow = &self.flows[index];
        if flow.state == State::TimeWait
            && s.flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN
            && self.may_be_reused(index, *s)
        {
            self.side(index).counters.one(Count::TimeWaitReused);
            self.flows[index].state = State::Closed;
            self.settle(index);
            // One that is still in the queue is removed then.
            if self.flows[index].has(flags::READY) {
                return Received::Taken;
            }
            return self.receive_any(port, frame, false);
        }
        if flow.has_unacceptable_ack(s) {
            return self.receive_unacceptable_ack(port, index, frame, *s);
        }
        if self.looks_into {
            self.input_with_reader(index, port, *s, ecn);
            return Received::Taken;
        }
        let (flow, mut cx, backlogs) = self.parts(index);
        if flow.input(s, ecn, &mut cx, backlogs) && !flow.has(flags::PROGRAM_ENDED) {
            self.go_on(index);
        }
        self.settle(index);
        Received::Taken
    }

    /// A segment of a flow arrives where more is done with segments than TCP does.
    #[inline(never)]
    fn input_with_reader(&mut self, index: FlowIndex, port: usize, s: Segment<'_>, ecn: u8) {
        self.note_before(index);
        let next = !s.payload.is_empty() && s.seq == self.flows[index].rcv_nxt;
        let chosen = !(self.first_bytes_choose && next) || self.choose(index, port, s.payload);
        if chosen && self.input_and_read(index, &s, ecn) && !self.flows[index].has(flags::PROGRAM_ENDED) {
            self.go_on(index);
        }
        self.settle(index);
    }

    #[cold]
    fn receive_unacceptable_ack(&mut self, port: usize, index: FlowIndex, frame: &[u8], s: Segment<'_>) -> Received {
        let side = SideIndex::of_flow(self.flows[index].side);
        self.sides[side.position()].counters.received(self.now.ns);
        self.sides[side.position()].counters.one(Count::AcksOfUnsent);
        if let Ok(packet) = Packet::read(frame) {
            self.refuse(port, &packet, &s, side);
        }
        Received::Taken
    }

    /// RFC 6191, RFC 9293 section 3.10.7.4: a SYN beyond what a server's flow in TIME-WAIT has seen.
    fn may_be_reused(&self, index: FlowIndex, s: Segment<'_>) -> bool {
        let flow = &self.flows[index];
        let newer = match s.timestamps() {
            Some((value, _)) if flow.has(flags::TIMESTAMPS) => seq_before(flow.ts_recent, value),
            _ => false,
        };
        !flow.has(flags::CLIENT) && (newer || seq_before(flow.rcv_nxt, s.seq))
    }

    fn receive_unknown(&mut self, port: usize, packet: &Packet<'_>, s: &Segment<'_>, hash: u32) -> Received {
        if !self.ports[port].may_be_source(packet.source) {
            return Received::Foreign;
        }
        if self.is_ignored(packet) {
            return self.ignore(port, packet);
        }
        let tuple = &Tuple::of(packet, s.source_port, s.destination_port);
        let opens = s.flags & (flag::SYN | flag::ACK | flag::RST | flag::FIN) == flag::SYN;
        if opens && let Some(template) = self.first_server_for(port, tuple, Protocol::Tcp) {
            let (number, mac) = (self.server_number(template), self.ports[port].back_to(packet));
            let Some(index) = self.add(template, false, number, (tuple, false, hash), mac) else {
                self.sides[SideIndex::of(template, false).position()].counters.one(Count::FlowsExhausted);
                return Received::Taken;
            };
            let isn = self.initial_sequence(tuple);
            self.note_before(index);
            let (flow, mut cx, _) = self.parts(index);
            flow.accept(s, isn, &mut cx);
            self.settle(index);
            return Received::Taken;
        }
        let Some(side) = self.owner(port, tuple.local) else { return Received::Foreign };
        if self.shared && side.is_client() {
            return Received::Elsewhere;
        }
        if !s.has(flag::RST) {
            self.refuse(port, packet, s, side);
        }
        Received::Taken
    }

    /// A segment of no open flow is answered with RST (RFC 9293 section 3.10.7.1).
    fn refuse(&mut self, port: usize, packet: &Packet<'_>, s: &Segment<'_>, side: SideIndex) {
        if self.sides[side.position()].tunables.blackhole || self.ports[port].answers.len() == ANSWERS {
            return;
        }
        let own = if self.sides[side.position()].own_macs {
            self.found.own_mac(&self.pools, side.template(), packet.destination)
        } else {
            None
        };
        let below = LowerHeaders {
            macs: macs(self.ports[port].back_to(packet), own.unwrap_or(self.ports[port].link.mac)),
            ends: Endpoints::of(packet.destination, packet.source),
            tos: 0,
            ttl: self.sides[side.position()].tunables.ttl,
            id: 0,
            finish: OffloadRequest::Nothing,
        };
        let (seq, ack, flags) = if s.has(flag::ACK) {
            (s.ack, 0, flag::RST)
        } else {
            (0, s.seq.wrapping_add(s.len()), flag::RST | flag::ACK)
        };
        let head = SegmentHeader {
            source_port: s.destination_port,
            destination_port: s.source_port,
            seq,
            ack,
            flags,
            window: 0,
            ecn: 0,
        };
        self.ports[port].answers.push_back(Answer { below, head, side });
    }

    #[inline(always)]
    fn receive_udp(&mut self, port: usize, packet: &Packet<'_>, d: &Datagram<'_>, wanted: &Lookup) -> Received {
        let &Lookup { tuple, hash, index } = wanted;
        let index = match index {
            Some(index) => index,
            None if !self.ports[port].may_be_source(packet.source) => return Received::Foreign,
            None if self.is_ignored(packet) => return self.ignore(port, packet),
            None => {
                let Some(template) = self.server_for(port, &tuple, Protocol::Udp, d.payload) else {
                    if let Some(template) = self.first_server_for(port, &tuple, Protocol::Udp) {
                        self.sides[SideIndex::of(template, false).position()].counters.one(Count::Unmatched);
                    }
                    return match self.owner(port, tuple.local) {
                        Some(side) if self.is_of_lease(side, d) => Received::Foreign,
                        Some(side) if self.shared && side.is_client() => Received::Elsewhere,
                        Some(_) => Received::Taken,
                        None => Received::Foreign,
                    };
                };
                let (number, mac) = (self.server_number(template), self.ports[port].back_to(packet));
                let Some(index) = self.add(template, false, number, (&tuple, true, hash), mac) else {
                    self.sides[SideIndex::of(template, false).position()].counters.one(Count::FlowsExhausted);
                    return Received::Taken;
                };
                let (flow, mut cx, _) = self.parts(index);
                cx.counters.one(Count::FlowsAccepted);
                cx.counters.one(Count::FlowsEstablished);
                flow.exchange(&mut cx);
                index
            }
        };
        self.note_before(index);
        self.answered(index);
        let (flow, mut cx, _) = self.parts(index);
        flow.datagram(d.payload.len(), &mut cx);
        if flow.has(flags::CLIENT | flags::SILENT) {
            flow.clear(flags::SILENT);
            self.is_found(index);
        }
        self.go_on_by_all(index);
        self.settle(index);
        Received::Taken
    }

    /// Whether a datagram that no template serves keeps the lease of a client's address: who keeps that reads it.
    #[cold]
    fn is_of_lease(&self, side: SideIndex, d: &Datagram<'_>) -> bool {
        !self.leased.is_empty() && side.is_client() && LEASE_PORTS.contains(&d.destination_port)
    }

    fn receive_icmp_error(&mut self, port: usize, error: &Error, wanted: &Lookup) -> Received {
        let Some(index) = wanted.index else {
            let ours = self.shared && self.owner(port, wanted.tuple.local).is_some();
            return if ours { Received::Elsewhere } else { Received::Foreign };
        };
        self.note_before(index);
        let (flow, mut cx, _) = self.parts(index);
        if error.tcp {
            if flow.icmp_error(error.kind, error.seq, &mut cx) {
                self.go_on(index);
            }
        } else {
            flow.datagram_refused(error.kind, &mut cx);
        }
        self.settle(index);
        Received::Taken
    }
}
