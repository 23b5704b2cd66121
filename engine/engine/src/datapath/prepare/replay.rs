// SPDX-License-Identifier: Apache-2.0
//! Preparing replays: which worker sends one, and a thread that reads ahead of the worker where the capture is too long for memory.
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use spate_replay::{HeldTape, Pacer, Source, Tape};
use spate_stateless::StreamTiming;

use crate::datapath::{
    PrepareError, ReadError, ReplaySpec, RunSpec,
    buffers::SHORT_ROOM,
    frames::{self, FrameReader, FrameWriter},
    prepare::{Context, late_after_ns, long_pool},
    worker::{Replay, ReplayParts, ReplayTape, TapeEnd, speed_of},
};
use crate::index::{StreamIndex, WorkerIndex};

/// What is read ahead of the worker: 6 ms at 10 Gbit/s.
const AHEAD_BYTES: usize = 8 << 20;
/// Captures that are read while they are sent, of all runs: 144 MiB with what each reads at a time.
const MAX_READERS: usize = 16;
/// How often a reader looks for room again: a worker cannot call without a system call.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The replay of a stream for the worker that sends it. Of `timing` the rate is its speed at first, none if it stands, and
/// `next` as its port's schedule has it.
pub(in crate::datapath) fn prepare(
    context: &mut Context<'_>,
    spec: &RunSpec,
    index: StreamIndex,
    asked: &ReplaySpec,
    worker: WorkerIndex,
    timing: StreamTiming,
) -> Result<Replay, PrepareError> {
    let stream = &spec.streams[index.0];
    let port = &context.ports[stream.tx_port.0];
    let wrong = |problem: String, exhausted| PrepareError { field: index.path().field("replay"), problem, exhausted };
    let base = stream.timing.rate.ok_or_else(|| wrong("its speed is missing".into(), false))?;
    let lead = asked.capture.survey.lead(asked.gap);
    let mut pacer = Pacer::new(stream.timing.start_delay_ns, speed_of(base), asked.min_gap_ns).behind(lead);
    if timing.rate.is_none() {
        pacer.change(0, None);
    }
    let tape = match &asked.capture.source {
        Source::Held(held) => ReplayTape::Held(Box::new(HeldTape::new(held.clone(), &asked.rewrite, asked.loops))),
        Source::File { .. } => {
            let Some(permit) = ReaderPermit::take() else {
                let problem =
                    format!("{MAX_READERS} long captures are read at a time already: remove a run, or use fewer");
                return Err(wrong(problem, true));
            };
            let repeats = is_started(spec, index);
            ReplayTape::Read(read_ahead(&stream.name, asked, repeats, permit).map_err(|problem| wrong(problem, false))?)
        }
    };
    let late_after_ns = late_after_ns(spec, port);
    let long_packets = match asked.capture.survey.longest > SHORT_ROOM {
        true => Some(long_pool(context, worker)?),
        false => None,
    };
    let parts = ReplayParts {
        port: stream.tx_port,
        index,
        id: stream.id,
        flow: stream.template.flow(),
        late_after_ns,
        long_packets,
        start_delay_ns: timing.start_delay_ns,
        waits: timing.waits,
        next: timing.next,
    };
    Ok(Replay::new(parts, tape, pacer))
}

/// Whether another stream starts one, which may then be more than once.
pub(in crate::datapath) fn is_started(spec: &RunSpec, index: StreamIndex) -> bool {
    spec.streams.iter().any(|stream| stream.timing.next.is_some_and(|after| after.next.index() == index.0))
}

/// Permission to be one of the `MAX_READERS` readers.
struct ReaderPermit;

static READERS: AtomicUsize = AtomicUsize::new(0);

impl ReaderPermit {
    fn take() -> Option<Self> {
        let more = |readers| (readers < MAX_READERS).then_some(readers + 1);
        READERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for ReaderPermit {
    fn drop(&mut self) {
        READERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts a thread that reads a capture as far ahead as there is room, until all is read or it is no longer wanted. `repeats`: again and
/// again.
fn read_ahead(stream: &str, asked: &ReplaySpec, repeats: bool, permit: ReaderPermit) -> Result<FrameReader, String> {
    let (mut read, reader) = Reading::new(stream, asked, repeats).map_err(|e| e.to_string())?;
    let work = move || {
        read.work();
        drop(permit);
    };
    let thread = thread::Builder::new().name("replay".into()).spawn(work);
    thread.map_err(|e| format!("no thread to read it: {e}"))?;
    Ok(reader)
}

/// A capture that is read ahead of the worker.
pub(in crate::datapath) struct Reading {
    stream: String,
    tape: Tape,
    /// Packets of a pass, when the capture was surveyed.
    packets: u64,
    writer: FrameWriter,
    /// Whether the capture is read once more behind its end, for another start.
    repeats: bool,
    /// Read, and not yet put in; of the end the frame is empty.
    next: Option<(u64, u32)>,
    frame: Vec<u8>,
    over: bool,
}

impl Reading {
    /// Starts to read the capture of a stream, and returns the ring that its packets come out of. `repeats`: passes of each start, one
    /// start after the other.
    pub(in crate::datapath) fn new(
        stream: &str,
        asked: &ReplaySpec,
        repeats: bool,
    ) -> Result<(Self, FrameReader), ReadError> {
        let tape = Tape::new(&asked.capture.source, asked.gap, &asked.rewrite, asked.loops)?;
        let (writer, reader) = frames::ring(AHEAD_BYTES);
        let (stream, packets) = (stream.to_owned(), asked.capture.survey.packets);
        Ok((Self { stream, tape, packets, writer, repeats, next: None, frame: Vec::new(), over: false }, reader))
    }

    /// Name of its stream.
    pub(in crate::datapath) fn stream(&self) -> &str {
        &self.stream
    }

    /// Reads as far ahead as there is room.
    pub(in crate::datapath) fn fill(&mut self) -> Result<(), ReadError> {
        while !self.over {
            let (at, beside) = match self.next.take() {
                Some(next) => next,
                None => match self.tape.next(&mut self.frame)? {
                    Some((gap, fixup)) => (gap, fixup.to_bits()),
                    None => {
                        self.frame.clear();
                        TapeEnd::Played.encode()
                    }
                },
            };
            if !self.writer.has_room(self.frame.len()) {
                self.next = Some((at, beside));
                return Ok(());
            }
            self.writer.push(at, beside as usize, &self.frame);
            if self.frame.is_empty() {
                if self.repeats {
                    self.tape.again()?;
                } else {
                    self.over = true;
                }
            }
        }
        Ok(())
    }

    fn work(&mut self) {
        loop {
            if let Err(error) = self.fill() {
                let unsent = self.packets.saturating_sub(self.tape.position()).max(1);
                tracing::error!(
                    stream = self.stream,
                    %error,
                    unsent,
                    "a capture changed or failed while it was replayed: the rest of this pass counts as dropped"
                );
                self.frame.clear();
                (self.next, self.repeats) = (Some(TapeEnd::Failed(unsent).encode()), false);
            }
            if self.over || self.writer.is_abandoned() {
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}
