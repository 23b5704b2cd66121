// SPDX-License-Identifier: Apache-2.0
//! Packets of emulated applications' flows on one port. A flow's packet is built when there is room for it in a burst.
//!
//! What a device did not take is offered again before a flow is asked for more, so packets leave in order.
use spate_dpdk::{BURST, Offered, TxOffload};
use spate_net::{Encap, FCS_LEN};
use spate_stateful::{Emulation, HeaderLengths, Offloads, Segmentation, envelope::Envelopes, tcp};

use super::{Ending, Pass, Source};
use crate::datapath::{
    buffers::SHORT_ROOM,
    worker::{
        Device, Emulated, Pools, Time, WorkerRun,
        device::{Packets, Pool},
        egress::{Departed, Egress},
        outlet::Outlet,
        taps::Taps,
    },
};
use crate::index::PortIndex;

/// Packets taken at once that are longer than those every worker has.
const LONG: usize = 8;

/// The source of flows' packets on a port.
pub(in crate::datapath::worker) struct Flows<D: Device> {
    segments: Box<Segments<D>>,
    /// The slot of the run with the flows that send first, counted on without end.
    first_asked: usize,
    /// The segments that wait for the budget are counted.
    held: bool,
}

impl<D: Device> Source<D> for Flows<D> {
    fn new(outlet: &Outlet<D>) -> Self {
        Self { segments: Box::new(Segments::new(outlet.offloads)), first_asked: 0, held: false }
    }

    fn is_in(run: &WorkerRun<D>) -> bool {
        run.emulated.is_some()
    }

    /// Flows that are due begin, and what others wait for happens.
    fn advance(pass: &mut Pass<'_, D>) {
        // Packets have arrived since the loop's clock was read: flows' time does not go back.
        let now = pass.clock.mono_ns();
        for emulated in pass.runs.iter_mut().flatten().filter_map(|run| run.emulated.as_mut()) {
            emulated.take_handed(now);
            emulated.advance(now, pass.now);
            while let Some(over) = emulated.over() {
                let _ = pass.reclaim.push(over);
            }
        }
    }

    #[inline]
    fn send(&mut self, pass: &mut Pass<'_, D>, outlet: &mut Outlet<D>) -> usize {
        let (count, waits) = (pass.runs.len(), self.segments.wait());
        self.first_asked += 1;
        for offset in 0..count {
            let run = pass.runs[(self.first_asked + offset) % count].as_mut();
            let Some(emulated) = run.and_then(|run| run.emulated.as_mut()).filter(|e| e.uses(outlet.port)) else {
                continue;
            };
            if waits {
                emulated.note_behind();
            } else {
                self.segments.fill(outlet.port, emulated, &outlet.pool, &mut outlet.taps, pass.clock);
            }
        }
        if outlet.egress.is_limited() && self.hold(pass.clock.mono_ns(), &mut outlet.egress) {
            return 0;
        }
        self.segments.send(&mut outlet.egress)
    }

    fn is_waiting(&self, _: PortIndex, _: &[Option<Box<WorkerRun<D>>>]) -> bool {
        self.segments.wait()
    }

    fn due_ns(run: &WorkerRun<D>) -> Option<u64> {
        run.emulated.as_ref()?.due_ns(&run.clock)
    }

    fn settle(&mut self, _: &mut WorkerRun<D>, _: &mut Ending<'_, D>, _: &mut Outlet<D>) -> bool {
        true
    }

    /// Whether all flows that were due before the end have started.
    fn is_over(run: &mut WorkerRun<D>, now: u64) -> bool {
        let Some(grace_ns) = run.emulated.as_ref().map(|emulated| emulated.grace_ns()) else { return true };
        let too_late = run.stopped || run.has_come(now, run.end_ns.saturating_add(grace_ns));
        run.emulated.as_mut().is_none_or(|emulated| emulated.is_settled(too_late))
    }

    fn abort(run: &mut WorkerRun<D>) {
        if let Some(emulated) = &mut run.emulated {
            emulated.abort();
        }
    }

    /// Packets of a run that goes leave like those of others, unless it was the last.
    fn retire(&mut self, outlet: &mut Outlet<D>) {
        self.segments.clear(&outlet.egress);
    }
}

impl<D: Device> Flows<D> {
    /// Whether packets have to wait for the budget, as they would for the device.
    #[cold]
    fn hold(&mut self, now: u64, egress: &mut Egress<D>) -> bool {
        if !self.segments.wait() || !egress.is_closed(now) {
            self.held = false;
            return false;
        }
        if !std::mem::replace(&mut self.held, true) {
            egress.throttled(self.segments.waiting());
        }
        true
    }
}

/// Packets of flows that leave on one port: written, not yet sent, and some to write to.
struct Segments<D: Device> {
    burst: D::Burst,
    /// Number of packets, from the first, that are written.
    written: usize,
    /// Bytes of a packet that has room.
    room: usize,
    /// Bytes of the written ones with FCS, in their order from `sent` on.
    bytes: [u32; BURST],
    sent: usize,
    /// Offloads of the device that are in use.
    offloads: spate_dpdk::Offloads,
    /// As `bytes`: what it cuts, and nothing for others.
    layouts: [SegmentLayout; BURST],
    /// Something is left to it of packets in the burst.
    unfinished: bool,
}

/// Into what a frame is cut.
#[derive(Clone, Copy, Debug, Default)]
struct SegmentLayout {
    /// Bytes of data of each segment; 0: it is not cut.
    segment: u16,
    /// Packets on the wire besides the first.
    more: u16,
}

impl<D: Device> Segments<D> {
    fn new(offloads: spate_dpdk::Offloads) -> Self {
        Self {
            burst: D::Burst::new(),
            written: 0,
            room: 0,
            bytes: [0; BURST],
            sent: 0,
            offloads,
            layouts: [SegmentLayout::default(); BURST],
            unfinished: offloads.tx_checksum,
        }
    }

    /// Whether packets wait for the device.
    fn wait(&self) -> bool {
        self.written > 0
    }

    /// Packets on the wire that wait.
    fn waiting(&self) -> u64 {
        on_wire(&self.layouts[self.sent..][..self.written])
    }

    /// Gives back what it holds; written packets that were not sent are counted as dropped.
    fn clear(&mut self, egress: &Egress<D>) {
        egress.dropped(self.waiting());
        self.layouts.fill(SegmentLayout::default());
        self.burst.clear();
        (self.written, self.sent) = (0, 0);
    }

    /// Asks a run's flows for what they have to send on a port, as long as there is room, and copies it to taps.
    fn fill(&mut self, port: PortIndex, emulated: &mut Emulated<D>, pool: &D::Pool, taps: &mut Taps, clock: &D::Clock) {
        if !emulated.sends(port) {
            return;
        }
        let from = self.written;
        let tags = &emulated.tags[port.0];
        let envelopes = emulated.envelopes.as_mut().filter(|envelopes| envelopes.are_on(port.0));
        let in_envelopes = envelopes.is_some();
        let before = envelopes.as_ref().map_or(tags.overhead(), |envelopes| envelopes.gap(port.0));
        // In a tunnel devices find neither segments nor their checksums.
        let in_tunnels = envelopes.as_ref().is_some_and(|envelopes| envelopes.are_tunnels_on(port.0));
        let offloads =
            if in_tunnels { Offloads::default() } else { self.offloads(emulated.pools.tso.as_ref(), before) };
        let mut room = Room { segments: self, pool, pools: &emulated.pools, offloads, before };
        match envelopes {
            None => emulated.emulation.transmit(port.0, clock.mono_ns(), &mut room),
            Some(envelopes) => room.fill_envelopes(port, &mut emulated.emulation, envelopes, clock),
        }
        if before > 0 && !in_envelopes {
            self.write_tags(from, tags);
        }
        if self.unfinished && !in_tunnels {
            self.leave(from);
        }
        emulated.behind |= emulated.emulation.is_ready(port.0);
        taps.copy_some::<D>(&self.burst, from..self.written, clock);
    }

    /// What the device does of frames with tags of this many bytes to come; it cuts only if there are packets for that.
    fn offloads(&self, tso: Option<&D::Pool>, tag: usize) -> Offloads {
        let segmentation = self.offloads.segmentation.zip(tso).map(|(segmentation, pool)| Segmentation {
            longest_frame: (segmentation.longest_frame.min(pool.room()) - tag) as u32,
            longest_segment: segmentation.longest_segment as u32,
            v6: segmentation.v6,
        });
        Offloads { checksums: self.offloads.tx_checksum, segmentation }
    }

    /// Sets the offload flags of packets from one on: what is left to the device.
    #[inline(never)]
    fn leave(&mut self, from: usize) {
        for index in from..self.written {
            let segment = self.layouts[self.sent + index].segment;
            if segment == 0 && !self.offloads.tx_checksum {
                continue;
            }
            let Some(layers) = HeaderLengths::of(self.burst.head(index)) else { continue };
            let HeaderLengths { l2, l3, l4, v6, tcp } = layers;
            self.burst.request_offload(index, &TxOffload { l2, l3, l4, v6, tcp, segment });
        }
    }

    /// Tags packets from one on: room was left before them.
    #[cold]
    fn write_tags(&mut self, from: usize, tags: &Encap) {
        for index in from..self.written {
            let len = self.burst.frame_len(index);
            tags.write_tags(self.burst.frame_mut(index, len));
        }
    }

    /// Offers what is written. Returns how many packets the device took.
    fn send(&mut self, egress: &mut Egress<D>) -> usize {
        if self.written == 0 {
            return 0;
        }
        if self.unfinished {
            return self.send_unfinished(egress);
        }
        let bytes = &self.bytes[self.sent..];
        let taken = egress.send_first(&mut self.burst, self.written, |taken| sum(&bytes[..taken]));
        self.written -= taken;
        self.sent += taken;
        taken
    }

    /// Sends frames that leave checksums or segmentation to the device. Returns the number of packets on the wire.
    #[inline(never)]
    fn send_unfinished(&mut self, egress: &mut Egress<D>) -> usize {
        let (bytes, layouts) = (&self.bytes[self.sent..], &self.layouts[self.sent..]);
        let offered = egress.send_unfinished(&mut self.burst, self.written, |frames| Departed {
            packets: on_wire(&layouts[..frames]) as usize,
            bytes: sum(&bytes[..frames]),
            segmented: layouts[..frames].iter().filter(|layout| layout.segment > 0).count(),
        });
        let taken = if let Offered::Taken(taken) = offered { taken } else { 1 };
        let packets = on_wire(&layouts[..taken]);
        if offered == Offered::Refused {
            egress.dropped(packets);
        }
        self.written -= taken;
        self.sent += taken;
        packets as usize
    }
}

/// Number of packets on the wire of frames that are cut so.
fn on_wire(layouts: &[SegmentLayout]) -> u64 {
    layouts.iter().map(|layout| 1 + u64::from(layout.more)).sum()
}

/// Bytes of frames.
#[inline]
fn sum(bytes: &[u32]) -> u64 {
    bytes.iter().map(|bytes| u64::from(*bytes)).sum()
}

/// Room for what flows write.
struct Room<'a, D: Device> {
    segments: &'a mut Segments<D>,
    pool: &'a D::Pool,
    pools: &'a Pools<D>,
    offloads: Offloads,
    /// Bytes to leave before each frame, for what is to come there.
    before: usize,
}

impl<D: Device> Room<'_, D> {
    /// Asks flows of a port with envelopes for what they have to send, and puts it into the envelopes.
    #[inline(never)]
    fn fill_envelopes(
        &mut self,
        port: PortIndex,
        emulation: &mut Emulation,
        envelopes: &mut Envelopes,
        clock: &D::Clock,
    ) {
        let gap = std::mem::take(&mut self.before);
        envelopes.answer(port.0, self);
        self.before = gap;
        let from = self.segments.written;
        emulation.transmit(port.0, clock.mono_ns(), self);
        let segments = &mut *self.segments;
        for index in from..segments.written {
            let len = segments.burst.frame_len(index);
            let made = envelopes.encapsulate(port.0, segments.burst.frame_mut(index, len));
            if made < len {
                let padded = made.max(D::MIN_FRAME);
                segments.burst.frame_mut(index, padded)[made..].fill(0);
                let slot = segments.sent + index;
                let packets = 1 + u32::from(segments.layouts[slot].more);
                segments.bytes[slot] -= packets * (len - padded) as u32;
            }
        }
    }

    /// Takes packets that have room for a frame. False if there are none now.
    #[cold]
    fn take(&mut self, len: usize) -> bool {
        let (pool, most) = match &self.pools.long {
            Some(long) if len > SHORT_ROOM => (long, LONG),
            _ => (self.pool, BURST),
        };
        self.take_from(pool, most, len)
    }

    /// Takes packets from a pool, at most this many.
    fn take_from(&mut self, pool: &D::Pool, most: usize, len: usize) -> bool {
        let segments = &mut *self.segments;
        if segments.written > 0 {
            // Packets that are written leave first.
            return false;
        }
        segments.burst.clear();
        segments.sent = 0;
        segments.layouts.fill(SegmentLayout::default());
        segments.unfinished = segments.offloads.tx_checksum;
        segments.room = pool.room();
        debug_assert!(len <= segments.room, "it was prepared for frames of such length");
        let taken = len <= segments.room && (segments.burst.alloc(pool, most) || segments.burst.alloc(pool, 1));
        segments.burst.fetch();
        taken
    }
}

impl<D: Device> tcp::Output for Room<'_, D> {
    #[inline]
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        let before = self.before;
        let padded = (before + len).max(D::MIN_FRAME);
        let full = self.segments.written == self.segments.burst.len();
        if (full || padded > self.segments.room) && !self.take(padded) {
            return None;
        }
        let segments = &mut *self.segments;
        let index = segments.written;
        segments.bytes[segments.sent + index] = padded as u32 + FCS_LEN as u32;
        segments.written += 1;
        let frame = segments.burst.frame_mut(index, padded);
        let (frame, padding) = frame[before..].split_at_mut(len);
        // Most frames have none, and to fill nothing is a call.
        if !padding.is_empty() {
            padding.fill(0);
        }
        Some(frame)
    }

    #[inline]
    fn offloads_checksums(&self) -> bool {
        self.offloads.checksums
    }

    #[inline]
    fn segmentation(&self) -> Option<&Segmentation> {
        self.offloads.segmentation.as_ref()
    }

    fn frame_to_segment(&mut self, headers: usize, data: usize, segment: usize) -> Option<&mut [u8]> {
        let (tag, len) = (self.before, self.before + headers + data);
        let full = self.segments.written == self.segments.burst.len();
        if full || len > self.segments.room {
            let empty = self.segments.written == 0;
            let tso = self.pools.tso.as_ref()?;
            if !self.take_from(tso, LONG, len) {
                if empty {
                    // The device has all of them.
                    self.offloads.segmentation = None;
                }
                return None;
            }
        }
        let segments = &mut *self.segments;
        let (index, packets) = (segments.written, data.div_ceil(segment));
        let slot = segments.sent + index;
        segments.unfinished = true;
        segments.layouts[slot] = SegmentLayout { segment: segment as u16, more: packets as u16 - 1 };
        segments.bytes[slot] = (packets * (tag + headers + FCS_LEN as usize) + data) as u32;
        segments.written += 1;
        Some(&mut segments.burst.frame_mut(index, len)[tag..])
    }
}
