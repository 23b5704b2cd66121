// SPDX-License-Identifier: Apache-2.0
//! What programs that wait for the end of a message have read: a cursor beside each flow, and a bounded pool for bytes that
//! cannot be looked through yet.
//!
//! Each end begins behind the one before it, the first at the flow's start, whatever other instructions count. As long as only
//! one end can follow, bytes are looked through as they come in order, ahead of the program, and none is held: messages that
//! come early are counted until the program asks for them. Bytes that come out of order, or of which only the program decides
//! what is looked for in them, are copied to chunks of the pool; without room there what would have to be held is not accepted, as if
//! it had been lost, so that it comes again. What is next in order and can be looked through is always accepted: it makes room.
use super::sinks::{Fed, Matcher, Progress};
use crate::{
    Scenario,
    flow::{Flow, FlowIndex, State, flags, seq_before, seq_min},
    packet::{Segment, flag},
    program::{Instruction, Program, effects::Awaited, successors},
    slab::{Slab, Slotted, slot_index},
    tcp::Recovery,
};

/// Bytes of a chunk: a segment of Ethernet's usual size.
const CHUNK: usize = 1460;
/// Chunks of a flow, at most: the receive buffer that is usual.
const MAX_CHUNKS_PER_FLOW: usize = 1024;
/// One chunk of this many is kept from data out of order, among all chunks and among a flow's.
const RESERVE: usize = 8;
/// Flows for each chunk, and how many there are at least and at most.
const FLOWS_PER_CHUNK: usize = 64;
const MIN_CHUNKS: usize = 1024;
const MAX_CHUNKS: usize = 16_384;

/// In place of the number of an end: an instruction waits for none.
const NO_END: u32 = u32::MAX;

/// What a cursor searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// No end is searched for any more.
    Nothing,
    /// The end of this number.
    One(u32),
    /// What the program asks for: several may follow.
    Asked,
}

/// An instruction that waits for an end.
#[derive(Debug)]
struct End {
    matcher: Matcher,
    next: Next,
}

/// One side of a template.
#[derive(Debug, Default)]
struct Side {
    /// By position in the program: its number, or `NO_END`; empty if it waits for no end.
    numbers: Box<[u32]>,
    first: Option<Next>,
}

/// Position of a flow in the bytes that it receives.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// Sequence number behind the bytes that are searched.
    at: u32,
    /// Ends that the program has not asked for yet.
    ended: u32,
    next: Next,
    progress: Progress,
    /// Chunks, in the order in which they came.
    head: ChunkIndex,
    tail: ChunkIndex,
    chunks: u16,
    /// `at` is known.
    started: bool,
    /// `next` is known.
    chosen: bool,
    /// The end of what comes can never be known.
    broken: bool,
}

const _: () = assert!(size_of::<Cursor>() <= 80);

const NEW: Cursor = Cursor {
    at: 0,
    ended: 0,
    next: Next::Nothing,
    progress: Progress::Pattern(0),
    head: ChunkIndex::NONE,
    tail: ChunkIndex::NONE,
    chunks: 0,
    started: false,
    chosen: false,
    broken: false,
};

slot_index! {
    /// Index of a chunk.
    ChunkIndex,
}

impl Slotted for Chunk {
    type Index = ChunkIndex;
}

#[derive(Clone, Debug)]
struct Chunk {
    seq: u32,
    next: ChunkIndex,
    len: u16,
    bytes: [u8; CHUNK],
}

/// Whether what a program waits for has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It has: the next end may be searched for.
    Yes,
    /// The end has not come yet.
    No,
    /// The end can never be known.
    Broken,
}

/// The cursors of a worker's flows.
#[derive(Debug)]
pub struct Readers {
    ends: Box<[End]>,
    /// By template and side.
    sides: Box<[Side]>,
    cursors: Box<[Cursor]>,
    chunks: Slab<Chunk>,
    /// Some end may be followed by several.
    asks: bool,
}

/// A flow's cursor, for its program.
#[derive(Debug)]
pub struct Reader<'a> {
    readers: &'a mut Readers,
    index: FlowIndex,
    side: usize,
}

fn chunks(flows: usize) -> usize {
    (flows / FLOWS_PER_CHUNK).clamp(MIN_CHUNKS, MAX_CHUNKS)
}

/// The programs of a scenario, clients of a template before its servers.
fn programs(scenario: &Scenario) -> Vec<Option<&Program>> {
    let mut programs = Vec::with_capacity(2 * scenario.templates.len());
    for template in &scenario.templates {
        programs.push(template.client.as_ref().map(|client| &client.program));
        programs.push(template.server.as_ref().map(|server| &server.program));
    }
    programs
}

/// Numbers of the ends that may be asked for first from a position on.
fn following(scenario: &Scenario, programs: &[Option<&Program>], sides: &[Side], from: Vec<(usize, usize)>) -> Next {
    let (mut open, mut seen, mut found) = (from, std::collections::BTreeSet::new(), Next::Nothing);
    while let Some((side, at)) = open.pop() {
        let Some(program) = programs[side].filter(|program| at < program.instructions.len()) else { continue };
        if !seen.insert((side, at)) {
            continue;
        }
        let effects = program.instructions[at].effects();
        match (effects.waits_for, effects.template()) {
            (Some(Awaited::End(_)), _) => match found {
                Next::Nothing => found = Next::One(sides[side].numbers[at]),
                _ => return Next::Asked,
            },
            (_, Some(template)) => {
                let first = usize::from(scenario.templates[template as usize].protocol == crate::Protocol::Tcp);
                open.push((2 * template as usize + side % 2, first));
            }
            _ => open.extend(successors(program, at).map(|to| (side, to))),
        }
    }
    found
}

impl Readers {
    /// For this many flows of a scenario; none if no program of it waits for an end.
    pub fn new(scenario: &Scenario, flows: usize) -> Option<Self> {
        if !scenario.templates.iter().any(crate::Template::receives_until) {
            return None;
        }
        let programs = programs(scenario);
        let mut matchers = Vec::new();
        let mut sides: Vec<Side> = Vec::with_capacity(programs.len());
        for program in &programs {
            let instructions = program.map_or(&[][..], |program| &program.instructions);
            let mut number = |instruction: &Instruction| {
                let Some(Awaited::End(until)) = instruction.effects().waits_for else { return NO_END };
                matchers.push(Matcher::new(until));
                matchers.len() as u32 - 1
            };
            let numbers: Box<[u32]> = instructions.iter().map(&mut number).collect();
            sides.push(Side { numbers, first: None });
        }
        let next = |from| following(scenario, &programs, &sides, from);
        let firsts: Vec<Next> = (0..sides.len()).map(|side| next(vec![(side, 0)])).collect();
        let mut nexts = vec![Next::Nothing; matchers.len()];
        for (side, program) in programs.iter().enumerate() {
            for (at, number) in sides[side].numbers.iter().enumerate().filter(|(_, number)| **number != NO_END) {
                let Some(program) = program else { continue };
                nexts[*number as usize] = next(successors(program, at).map(|to| (side, to)).collect());
            }
        }
        for (side, first) in sides.iter_mut().zip(&firsts) {
            // A side that never looks for anything has no numbers.
            side.first = Some(*first).filter(|first| *first != Next::Nothing);
        }
        let asks = firsts.iter().chain(&nexts).any(|next| *next == Next::Asked);
        let ends = matchers.into_iter().zip(nexts).map(|(matcher, next)| End { matcher, next }).collect();
        let blank = Chunk { seq: 0, next: ChunkIndex::NONE, len: 0, bytes: [0; CHUNK] };
        Some(Self {
            ends,
            sides: sides.into(),
            cursors: vec![NEW; flows].into(),
            chunks: Slab::new(chunks(flows), blank),
            asks,
        })
    }

    /// Bytes that they take.
    pub fn bytes(scenario: &Scenario, flows: usize) -> usize {
        if !scenario.templates.iter().any(crate::Template::receives_until) {
            return 0;
        }
        flows * size_of::<Cursor>() + Slab::<Chunk>::bytes(chunks(flows))
    }

    /// Chunks that are held.
    pub fn held(&self) -> usize {
        self.chunks.taken()
    }

    /// A flow's cursor, for the program of its side.
    pub fn of(&mut self, index: FlowIndex, side: usize) -> Reader<'_> {
        Reader { readers: self, index, side }
    }

    /// A new flow.
    pub fn begin(&mut self, index: FlowIndex) {
        debug_assert!(self.cursors[index.position()].head == ChunkIndex::NONE, "released");
        self.cursors[index.position()] = NEW;
    }

    /// A flow gets another template before any of it was looked through.
    pub fn restart(&mut self, index: FlowIndex) {
        let cursor = &mut self.cursors[index.position()];
        debug_assert!(cursor.ended == 0 && !cursor.broken, "nothing has come");
        cursor.chosen = false;
    }

    /// A flow is forgotten.
    pub fn release(&mut self, index: FlowIndex) {
        while self.cursors[index.position()].head != ChunkIndex::NONE {
            self.drop_head(index);
        }
    }

    /// Before a flow of a side takes a segment: how many bytes of what is new in it may be taken, as there is room for those that
    /// must wait, and the others can be looked through at once.
    pub fn room(&mut self, index: FlowIndex, side: usize, flow: &Flow, s: &Segment<'_>) -> usize {
        let Some(first) = self.sides[side].first else { return usize::MAX };
        let cursor = &mut self.cursors[index.position()];
        if !cursor.started && flow.state != State::SynSent {
            (cursor.at, cursor.started) = (flow.rcv_nxt, true);
        }
        let ahead = seq_before(flow.rcv_nxt, first_byte(s));
        if cursor.is_idle() || s.payload.is_empty() || !(ahead || self.asks) {
            return usize::MAX;
        }
        // Some is left for what comes in order.
        let kept = |all: usize| if ahead && self.asks { all / RESERVE } else { 0 };
        let (capacity, chunks) = (self.chunks.capacity(), usize::from(cursor.chunks));
        let pool = (capacity - kept(capacity)).saturating_sub(self.chunks.taken());
        let room = pool.min((MAX_CHUNKS_PER_FLOW - kept(MAX_CHUNKS_PER_FLOW)).saturating_sub(chunks));
        if s.payload.len().div_ceil(CHUNK) <= room {
            return usize::MAX;
        }
        if ahead { 0 } else { self.readable(index, first, flow, s) }
    }

    /// How many bytes, from the next in order on, would be looked through at once.
    fn readable(&self, index: FlowIndex, first: Next, flow: &Flow, s: &Segment<'_>) -> usize {
        let cursor = &self.cursors[index.position()];
        let old = flow.rcv_nxt.wrapping_sub(first_byte(s)) as usize;
        if cursor.broken {
            return usize::MAX;
        }
        if cursor.at != data_end(flow) || old >= s.payload.len() {
            // Earlier bytes wait to be searched.
            return 0;
        }
        let begin = |number: u32| self.ends[number as usize].matcher.begin();
        let (mut next, mut progress) = match (cursor.chosen, first) {
            (true, _) => (cursor.next, cursor.progress),
            (false, Next::One(number)) => (first, begin(number)),
            (false, _) => (first, cursor.progress),
        };
        let mut at = old;
        loop {
            let number = match next {
                Next::Nothing => return usize::MAX,
                Next::Asked if at == s.payload.len() => return usize::MAX,
                Next::Asked => return at - old,
                Next::One(number) => number,
            };
            let end = &self.ends[number as usize];
            match end.matcher.feed(&mut progress, &s.payload[at..]) {
                Fed::More | Fed::Broken(_) => return usize::MAX,
                Fed::Ends(len) => {
                    at += len;
                    next = end.next;
                    if let Next::One(number) = next {
                        progress = begin(number);
                    }
                }
            }
        }
    }

    /// After it: looks through what is in order now, and holds what must wait.
    pub fn take(&mut self, index: FlowIndex, side: usize, flow: &Flow, s: &Segment<'_>, recoveries: &Slab<Recovery>) {
        let Some(first) = self.sides[side].first else { return };
        let cursor = &mut self.cursors[index.position()];
        if !cursor.started || s.payload.is_empty() {
            return;
        }
        let (seq, end) = (first_byte(s), data_end(flow));
        if cursor.is_idle() {
            cursor.at = end;
            return self.drop_read(index);
        }
        if seq_before(cursor.at, end) && !cursor.chosen {
            cursor.chosen = true;
            self.choose(index, first);
        }
        self.look(index, end, (seq, s.payload));
        // Bytes of the segment that were accepted and not searched.
        let from =
            if seq_before(seq, self.cursors[index.position()].at) { self.cursors[index.position()].at } else { seq };
        let in_order = !seq_before(end, from);
        let contiguous = if in_order { end } else { flow.received_until(from, recoveries).unwrap_or(from) };
        let to = seq_min(contiguous, seq.wrapping_add(s.payload.len() as u32));
        let (from, to) = self.not_held(index, from, to);
        if seq_before(from, to) {
            let skip = from.wrapping_sub(seq) as usize;
            self.hold(index, from, &s.payload[skip..skip + to.wrapping_sub(from) as usize]);
        }
    }

    fn choose(&mut self, index: FlowIndex, next: Next) {
        let cursor = &mut self.cursors[index.position()];
        cursor.next = next;
        if let Next::One(number) = next {
            cursor.progress = self.ends[number as usize].matcher.begin();
        }
    }

    /// Looks through what is in order up to a sequence number, as far as it is known what for.
    fn look(&mut self, index: FlowIndex, end: u32, (seq, bytes): (u32, &[u8])) {
        loop {
            let cursor = &mut self.cursors[index.position()];
            if !cursor.chosen || !seq_before(cursor.at, end) || (cursor.next == Next::Asked && !cursor.broken) {
                break;
            }
            let Next::One(number) = cursor.next else {
                cursor.at = end;
                break;
            };
            if cursor.broken {
                cursor.at = end;
                break;
            }
            let left = end.wrapping_sub(cursor.at) as usize;
            let skip = cursor.at.wrapping_sub(seq) as usize;
            let piece = if skip < bytes.len() { Some(&bytes[skip..]) } else { held(&self.chunks, cursor) };
            let Some(piece) = piece else {
                // Accepted bytes are in the segment or in chunks.
                debug_assert!(false, "bytes at {} are lost", cursor.at);
                cursor.broken = true;
                break;
            };
            let piece = &piece[..piece.len().min(left)];
            let fed = self.ends[number as usize].matcher.feed(&mut cursor.progress, piece);
            match fed {
                Fed::More => cursor.at = cursor.at.wrapping_add(piece.len() as u32),
                Fed::Broken(_) => cursor.broken = true,
                Fed::Ends(len) => {
                    cursor.at = cursor.at.wrapping_add(len as u32);
                    cursor.ended = cursor.ended.saturating_add(1);
                    self.choose(index, self.ends[number as usize].next);
                }
            }
        }
        self.drop_read(index);
    }

    /// What is left of a range of bytes without what is held of it already, from its start on and before its end.
    fn not_held(&self, index: FlowIndex, mut from: u32, mut to: u32) -> (u32, u32) {
        let cursor = &self.cursors[index.position()];
        let behind = |chunk: &Chunk| chunk.seq.wrapping_add(u32::from(chunk.len));
        if cursor.tail == ChunkIndex::NONE || behind(&self.chunks[cursor.tail]) == from {
            // Most come in order.
            return (from, to);
        }
        let holding = |of: u32| {
            let mut at = cursor.head;
            while at != ChunkIndex::NONE {
                let chunk = &self.chunks[at];
                if of.wrapping_sub(chunk.seq) < u32::from(chunk.len) {
                    return Some(chunk);
                }
                at = chunk.next;
            }
            None
        };
        while seq_before(from, to)
            && let Some(chunk) = holding(from)
        {
            from = behind(chunk);
        }
        while seq_before(from, to)
            && let Some(chunk) = holding(to.wrapping_sub(1))
        {
            to = chunk.seq;
        }
        (from, to)
    }

    fn hold(&mut self, index: FlowIndex, mut seq: u32, mut bytes: &[u8]) {
        let cursor = &mut self.cursors[index.position()];
        if cursor.tail != ChunkIndex::NONE {
            let last = &mut self.chunks[cursor.tail];
            let room =
                if last.seq.wrapping_add(u32::from(last.len)) == seq { CHUNK - usize::from(last.len) } else { 0 };
            let (more, rest) = bytes.split_at(room.min(bytes.len()));
            last.bytes[usize::from(last.len)..][..more.len()].copy_from_slice(more);
            last.len += more.len() as u16;
            (seq, bytes) = (seq.wrapping_add(more.len() as u32), rest);
        }
        for piece in bytes.chunks(CHUNK) {
            let Some(new) = self.chunks.take() else {
                debug_assert!(false, "there was room");
                return;
            };
            let chunk = &mut self.chunks[new];
            (chunk.seq, chunk.next, chunk.len) = (seq, ChunkIndex::NONE, piece.len() as u16);
            chunk.bytes[..piece.len()].copy_from_slice(piece);
            seq = seq.wrapping_add(piece.len() as u32);
            let tail = core::mem::replace(&mut cursor.tail, new);
            if tail == ChunkIndex::NONE {
                cursor.head = new;
            } else {
                self.chunks[tail].next = new;
            }
            cursor.chunks += 1;
        }
    }

    /// Gives chunks back that are looked through, as far as they came first.
    fn drop_read(&mut self, index: FlowIndex) {
        loop {
            let cursor = &self.cursors[index.position()];
            if cursor.head == ChunkIndex::NONE {
                return;
            }
            let chunk = &self.chunks[cursor.head];
            if seq_before(cursor.at, chunk.seq.wrapping_add(u32::from(chunk.len))) {
                return;
            }
            self.drop_head(index);
        }
    }

    fn drop_head(&mut self, index: FlowIndex) {
        let cursor = &mut self.cursors[index.position()];
        let head = cursor.head;
        cursor.head = self.chunks[head].next;
        if cursor.head == ChunkIndex::NONE {
            cursor.tail = ChunkIndex::NONE;
        }
        cursor.chunks -= 1;
        self.chunks.give(head);
    }
}

impl Cursor {
    /// Whether no end is searched for.
    fn is_idle(&self) -> bool {
        self.chosen && self.next == Next::Nothing
    }
}

/// Held bytes at a cursor.
fn held<'a>(chunks: &'a Slab<Chunk>, cursor: &Cursor) -> Option<&'a [u8]> {
    let mut at = cursor.head;
    while at != ChunkIndex::NONE {
        let chunk = &chunks[at];
        let skip = cursor.at.wrapping_sub(chunk.seq) as usize;
        if skip < usize::from(chunk.len) {
            return Some(&chunk.bytes[skip..usize::from(chunk.len)]);
        }
        at = chunk.next;
    }
    None
}

/// The sequence number of a segment's first byte of data.
fn first_byte(s: &Segment<'_>) -> u32 {
    s.seq.wrapping_add(u32::from(s.has(flag::SYN)))
}

/// Sequence number behind the last byte in order.
fn data_end(flow: &Flow) -> u32 {
    flow.rcv_nxt.wrapping_sub(u32::from(flow.has(flags::FIN_RECEIVED)))
}

impl Reader<'_> {
    /// Whether the end for which the instruction at a flow's position waits has come; if so the next is looked for.
    pub fn ended(&mut self, flow: &Flow) -> Ended {
        let Self { readers, index, side } = self;
        let (index, number) = (*index, readers.sides[*side].numbers[usize::from(flow.pc)]);
        let cursor = &mut readers.cursors[index.position()];
        if cursor.started && cursor.ended == 0 && (!cursor.chosen || cursor.next == Next::Asked) && !cursor.broken {
            cursor.chosen = true;
            readers.choose(index, Next::One(number));
            readers.look(index, data_end(flow), (0, &[]));
        }
        let cursor = &mut readers.cursors[index.position()];
        if cursor.ended > 0 {
            cursor.ended -= 1;
            return Ended::Yes;
        }
        if cursor.broken {
            return Ended::Broken;
        }
        let closed = flow.has(flags::FIN_RECEIVED) && cursor.at == data_end(flow);
        if closed && cursor.progress.ends_with_connection() { Ended::Yes } else { Ended::No }
    }
}
