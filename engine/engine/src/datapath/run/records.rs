// SPDX-License-Identifier: Apache-2.0
//! Connection records of a run: a thread of control's takes them from the workers, writes them to a file, and gives them to
//! who asks for them.
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender, TryRecvError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use rtrb::{Consumer, RingBuffer};
use spate_records::{Error, FileInfo, RecordFile};
use spate_stateful::{Record, Recorder, records};

use crate::datapath::{
    Clock, PrepareError, RecordsSpec, RecordsState,
    shared::{Flag, RunShare},
};
use crate::lock::lock;

/// Records of one worker that wait to be taken: those of a tenth of a second at a million flows a second, which is longer than
/// the writer ever takes to write a group of rows.
const RING: usize = 1 << 17;
/// Interval at which the writer polls the workers' rings.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Interval of writes to the file: an engine that is killed loses the records of this time at most.
const FLUSH: Duration = Duration::from_secs(60);
/// Records that are taken at once.
const BATCH: usize = 4096;
/// Records that wait for a slow watcher, in however many batches: each worker's are one by themselves.
const WAITING: usize = 1 << 15;

/// Bytes that records take in a worker with this many flows.
pub(in crate::datapath) const fn bytes(flows: usize) -> usize {
    records::bytes(flows) + RING * size_of::<Record>()
}

/// What a run's records are made of until it is ready: rings of workers, and the file.
pub(in crate::datapath) struct Prepared {
    one_in: u32,
    rings: Vec<Consumer<Record>>,
    file: Option<RecordFile>,
    path: Option<PathBuf>,
    within_ns: u64,
    templates: Arc<[String]>,
}

impl Prepared {
    /// Makes the file.
    pub(in crate::datapath) fn new(spec: &RecordsSpec, templates: Vec<String>) -> Result<Self, PrepareError> {
        let about = FileInfo { run: spec.run.clone(), templates: templates.clone(), one_in: spec.one_in };
        let file = spec.path.as_ref().map(|path| RecordFile::create(path, about, spec.most)).transpose();
        let refused = |error: Error| PrepareError {
            field: "stateful.records.path".into(),
            problem: error.to_string(),
            exhausted: false,
        };
        Ok(Self {
            one_in: spec.one_in,
            rings: Vec::new(),
            file: file.map_err(refused)?,
            path: spec.path.clone(),
            within_ns: spec.within_ns,
            templates: templates.into(),
        })
    }

    /// The recorder of the next worker.
    pub(in crate::datapath) fn recorder(&mut self) -> Recorder {
        let (out, ring) = RingBuffer::new(RING);
        self.rings.push(ring);
        Recorder { one_in: self.one_in, out }
    }

    /// Begins to take records, until the workers with these shares of the run have closed it, or have forgotten it.
    pub(in crate::datapath) fn start(self, shares: Vec<Arc<RunShare>>, clock: Clock) -> Result<Records, PrepareError> {
        let shared = Arc::new(Shared {
            path: self.path,
            partial: self.file.as_ref().map(|file| file.readable().0.to_owned()),
            within_ns: self.within_ns,
            templates: self.templates,
            outcome: Mutex::default(),
            delivered: AtomicU64::new(0),
            undelivered: AtomicU64::new(0),
            watchers: Mutex::default(),
            given_up: Flag::default(),
            done: Flag::default(),
        });
        let theirs = Arc::clone(&shared);
        let flushed = Instant::now();
        let writer = Writer { rings: self.rings, file: self.file, flushed, shares, clock, shared: theirs };
        let started = thread::Builder::new().name("records".into()).spawn(move || writer.run());
        let refused = |error: io::Error| PrepareError {
            field: "stateful.records".into(),
            problem: format!("no thread can be started for them: {error}"),
            exhausted: true,
        };
        started.map(|_| Records(shared)).map_err(refused)
    }
}

struct Shared {
    path: Option<PathBuf>,
    /// The file until it is finished.
    partial: Option<PathBuf>,
    within_ns: u64,
    /// Names, by index.
    templates: Arc<[String]>,
    outcome: Mutex<Outcome>,
    delivered: AtomicU64,
    undelivered: AtomicU64,
    watchers: Mutex<Vec<Watcher>>,
    /// Workers that have not closed the run are not waited for any more.
    given_up: Flag,
    /// The file is finished or given up, or there is none: nothing changes any more.
    done: Flag,
}

/// State of the file.
#[derive(Default)]
struct Outcome {
    written: u64,
    omitted: u64,
    /// Records among those written that can be read although the file is not finished.
    readable: u64,
    problem: Option<String>,
}

impl Outcome {
    /// The file is not finished, and will not be. Some of it can be read nevertheless.
    fn fail(&mut self, mut problem: String, readable: Option<(&Path, u64)>) {
        self.written = 0;
        if let Some((path, records)) = readable.filter(|(_, records)| *records > 0) {
            self.written = records;
            problem +=
                &format!("; the first {records} records can be read: spate-engine records --file {}", path.display());
        }
        tracing::error!("connections are no longer recorded: {problem}");
        self.problem = Some(problem);
    }
}

impl Shared {
    /// The outcome while it may still change; else none.
    fn changing(&self) -> Option<MutexGuard<'_, Outcome>> {
        Some(lock(&self.outcome)).filter(|_| !self.done.is_up())
    }

    fn end(&self) {
        let mut watchers = lock(&self.watchers);
        self.done.raise();
        watchers.clear();
    }
}

/// A run's records as control sees them.
pub(in crate::datapath) struct Records(Arc<Shared>);

impl Records {
    pub(in crate::datapath) fn state(&self) -> RecordsState {
        let outcome = lock(&self.0.outcome);
        RecordsState {
            path: self.0.path.clone(),
            written: outcome.written,
            omitted: outcome.omitted,
            delivered: self.0.delivered.load(Relaxed),
            undelivered: self.0.undelivered.load(Relaxed),
            problem: outcome.problem.clone(),
        }
    }

    /// Writes what there is, although workers that hang have not closed the run.
    pub(in crate::datapath) fn give_up(&self) {
        self.0.given_up.raise();
    }

    /// Whether all have been written that there will be.
    pub(in crate::datapath) fn done(&self) -> bool {
        self.0.done.is_up()
    }

    /// Gives the file up if it is not finished in time, the workers having ended at an instant. Returns the instant to ask again
    /// at, none if there is nothing to wait for.
    pub(in crate::datapath) fn await_file(&self, ended_at: u64, now: u64) -> Option<u64> {
        let partial = self.0.partial.as_deref().filter(|_| !self.done())?;
        let deadline = ended_at.saturating_add(self.0.within_ns);
        if now < deadline {
            return Some(deadline);
        }
        // The thread that writes may be in a call that never returns: it is left there.
        let mut outcome = self.0.changing()?;
        if outcome.problem.is_none() {
            let within = self.0.within_ns / 1_000_000_000;
            let problem = format!(
                "{}: its volume did not take the data within {within} s after the run's end: it hangs or is too slow",
                partial.display()
            );
            let readable = outcome.readable;
            outcome.fail(problem, Some((partial, readable)));
        }
        self.0.end();
        None
    }

    pub(in crate::datapath) fn watch(&self) -> Watch {
        let (sender, batches) = channel();
        let (waiting, missed) = <(Arc<AtomicUsize>, Arc<AtomicU64>)>::default();
        let mut watchers = lock(&self.0.watchers);
        // After the last record no watcher would be notified of the end.
        if !self.done() {
            watchers.push(Watcher { sender, waiting: Arc::clone(&waiting), missed: Arc::clone(&missed) });
        }
        Watch { batches, waiting, missed, templates: Arc::clone(&self.0.templates), over: false }
    }
}

/// A reader of records.
struct Watcher {
    sender: Sender<Vec<Record>>,
    waiting: Arc<AtomicUsize>,
    missed: Arc<AtomicU64>,
}

impl Watcher {
    /// Whether it was given them, for which there must be room; none if it has gone.
    fn offer(&self, batch: &[Record]) -> Option<bool> {
        if Arc::strong_count(&self.waiting) == 1 {
            return None;
        }
        if self.waiting.load(Relaxed) + batch.len() > WAITING {
            self.missed.fetch_add(batch.len() as u64, Relaxed);
            return Some(false);
        }
        self.waiting.fetch_add(batch.len(), Relaxed);
        self.sender.send(batch.to_vec()).ok().map(|()| true)
    }
}

/// Records of a run from the moment on in which it was asked for. Times are of the wall clock, in ns since the epoch.
pub struct Watch {
    batches: Receiver<Vec<Record>>,
    waiting: Arc<AtomicUsize>,
    missed: Arc<AtomicU64>,
    templates: Arc<[String]>,
    over: bool,
}

impl Watch {
    /// The next few, if there are any now.
    pub fn take(&mut self) -> Option<Vec<Record>> {
        match self.batches.try_recv() {
            Ok(batch) => {
                self.waiting.fetch_sub(batch.len(), Relaxed);
                Some(batch)
            }
            Err(error) => {
                self.over |= error == TryRecvError::Disconnected;
                None
            }
        }
    }

    /// Whether no more records will come.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Records that were not given, because those before were not taken in time.
    pub fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    /// Names of templates, by the index in the records.
    pub fn templates(&self) -> &[String] {
        &self.templates
    }
}

/// Takes records from the workers.
struct Writer {
    rings: Vec<Consumer<Record>>,
    /// The file; none if no file was requested, or it cannot be written.
    file: Option<RecordFile>,
    /// When what had been written was last made readable.
    flushed: Instant,
    shares: Vec<Arc<RunShare>>,
    clock: Clock,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self) {
        loop {
            // Asked first: what was recorded before is still taken.
            let closed = self.shared.given_up.is_up() || self.shares.iter().all(|share| share.closed.is_up());
            let forgotten = self.rings.iter().all(Consumer::is_abandoned);
            let mut any = false;
            for index in 0..self.rings.len() {
                any |= self.take(index);
            }
            // Makes what has been written readable, from time to time.
            if self.flushed.elapsed() >= FLUSH {
                self.flush();
            }
            if self.shared.done.is_up() {
                return self.let_go();
            }
            if any {
                continue;
            }
            if closed || forgotten {
                return self.finish(closed);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Takes what a worker has recorded, of one batch. Whether that was anything.
    fn take(&mut self, ring: usize) -> bool {
        let ring = &mut self.rings[ring];
        let Some(chunk) = ring.read_chunk(ring.slots().min(BATCH)).ok().filter(|chunk| !chunk.is_empty()) else {
            return false;
        };
        let clock = &self.clock;
        let batch: Vec<Record> = chunk.into_iter().map(|record| record.by(|ns| clock.wall_of(ns))).collect();
        self.write(&batch);
        self.offer(&batch);
        true
    }

    /// Gives records to all watchers. Those that are in no file are counted.
    fn offer(&self, batch: &[Record]) {
        let mut count = &self.shared.undelivered;
        lock(&self.shared.watchers).retain(|watcher| {
            let given = watcher.offer(batch);
            if given == Some(true) {
                count = &self.shared.delivered;
            }
            given.is_some()
        });
        if self.shared.path.is_none() {
            count.fetch_add(batch.len() as u64, Relaxed);
        }
    }

    fn write(&mut self, batch: &[Record]) {
        let Some(file) = &mut self.file else { return };
        let written = batch.iter().try_for_each(|record| file.add(record));
        self.report();
        if let Err(error) = written {
            self.fail(&error);
        }
    }

    fn flush(&mut self) {
        self.flushed = Instant::now();
        let flushed = self.file.as_mut().map(RecordFile::flush);
        self.report();
        if let Some(Err(error)) = flushed {
            self.fail(&error);
        }
    }

    /// Reports to control how far the file is.
    fn report(&self) {
        let (Some(file), Some(mut outcome)) = (&self.file, self.shared.changing()) else { return };
        if file.omitted() > 0 && outcome.omitted == 0 {
            tracing::warn!(path = ?self.shared.path, records = file.written(), "the file of records is full");
        }
        (outcome.written, outcome.omitted, outcome.readable) = (file.written(), file.omitted(), file.readable().1);
    }

    /// Stops writing. What was written can be read, up to the last whole row group.
    fn fail(&mut self, error: &Error) {
        // Asked before anything is locked: the volume may not answer.
        let readable = self.file.as_ref().map(RecordFile::readable).filter(|(path, _)| path.exists());
        if let Some(mut outcome) = self.shared.changing() {
            outcome.fail(error.to_string(), readable);
        }
        self.let_go();
    }

    /// Leaves the file, as it is if control has given it up: its name may be that of another run's by now.
    fn let_go(&mut self) {
        match self.file.take() {
            Some(file) if self.shared.done.is_up() => file.leave(),
            file => drop(file),
        }
    }

    fn finish(mut self, closed: bool) {
        // A run that was removed before anything happened leaves nothing.
        self.file = self.file.take().filter(|file| closed || file.written() > 0);
        self.flush();
        let wanted = || !self.shared.done.is_up();
        if let Some(Err(error)) = self.file.as_mut().map(|file| file.finish(wanted)) {
            self.fail(&error);
        }
        if let Some(_outcome) = self.shared.changing() {
            self.shared.end();
        }
        self.let_go();
    }
}
