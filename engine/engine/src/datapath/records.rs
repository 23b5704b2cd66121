// SPDX-License-Identifier: Apache-2.0
//! Connection records of a run: a thread of control's takes them from the workers, writes them to a file, and gives them to
//! who asks for them.
use std::{
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{Receiver, Sender, TryRecvError, channel},
    },
    thread,
    time::{Duration, Instant},
};

use rtrb::{Consumer, RingBuffer};
use spate_records::{About, Error, RecordFile};
use spate_stateful::{Record, Recorder, records};

use super::{
    Clock, PrepareError, RecordsSpec, RecordsState,
    shared::{Flag, RunShare},
};

/// Records of one worker that wait to be taken: those of a tenth of a second at a million flows a second, which is longer than
/// the writer ever takes to write a group of rows.
const RING: usize = 1 << 17;
/// How often the writer looks for records.
const LOOK: Duration = Duration::from_millis(2);
/// Records of the last so long are all that an engine that is killed can lose of a file.
const FLUSH: Duration = Duration::from_secs(60);
/// Records that are taken at once.
const BATCH: usize = 4096;
/// Records that wait for a slow watcher, in however many batches: each worker's are one by themselves.
const WAITING: usize = 1 << 15;

/// Bytes that records take in a worker with so many flows.
pub(super) const fn bytes(flows: usize) -> usize {
    records::bytes(flows) + RING * size_of::<Record>()
}

/// What a run's records are made of until it is ready: rings of workers, and the file.
pub(super) struct Prepared {
    one_in: u32,
    rings: Vec<Consumer<Record>>,
    file: Option<RecordFile>,
    path: Option<PathBuf>,
    templates: Arc<[String]>,
}

impl Prepared {
    /// Makes the file.
    pub(super) fn new(spec: &RecordsSpec, run: &str, templates: Vec<String>) -> Result<Self, PrepareError> {
        let about = About { run: run.to_owned(), templates: templates.clone(), one_in: spec.one_in };
        let file = spec.path.as_ref().map(|path| RecordFile::create(path, about, spec.most)).transpose();
        let refused = |error: Error| PrepareError {
            field: "stateful.records.path".into(),
            problem: error.to_string(),
            exhausted: false,
        };
        let (rings, path) = (Vec::new(), spec.path.clone());
        Ok(Self { one_in: spec.one_in, rings, file: file.map_err(refused)?, path, templates: templates.into() })
    }

    /// For the next worker.
    pub(super) fn recorder(&mut self) -> Recorder {
        let (out, ring) = RingBuffer::new(RING);
        self.rings.push(ring);
        Recorder { one_in: self.one_in, out }
    }

    /// Begins to take records, until the workers with these shares of the run have closed it, or have forgotten it.
    pub(super) fn start(self, shares: Vec<Arc<RunShare>>, clock: Clock) -> Result<Records, PrepareError> {
        let shared = Arc::new(Shared {
            path: self.path,
            templates: self.templates,
            written: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            told: AtomicU64::new(0),
            untold: AtomicU64::new(0),
            problem: Mutex::default(),
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
    /// Names, by index.
    templates: Arc<[String]>,
    written: AtomicU64,
    left_out: AtomicU64,
    told: AtomicU64,
    untold: AtomicU64,
    problem: Mutex<Option<String>>,
    watchers: Mutex<Vec<Watcher>>,
    /// Workers that have not closed the run are not waited for any more.
    given_up: Flag,
    /// The file is finished, or there is none.
    done: Flag,
}

/// A run's records as control sees them.
pub(super) struct Records(Arc<Shared>);

impl Records {
    pub(super) fn state(&self) -> RecordsState {
        RecordsState {
            path: self.0.path.clone(),
            written: self.0.written.load(Relaxed),
            left_out: self.0.left_out.load(Relaxed),
            told: self.0.told.load(Relaxed),
            untold: self.0.untold.load(Relaxed),
            problem: lock(&self.0.problem).clone(),
        }
    }

    /// Writes what there is, although workers that hang have not closed the run.
    pub(super) fn give_up(&self) {
        self.0.given_up.raise();
    }

    /// Whether all have been written that there will be.
    pub(super) fn done(&self) -> bool {
        self.0.done.is_up()
    }

    pub(super) fn watch(&self) -> Watch {
        let (sender, batches) = channel();
        let (waiting, missed) = <(Arc<AtomicUsize>, Arc<AtomicU64>)>::default();
        let mut watchers = lock(&self.0.watchers);
        // After the last record nobody would hear of the end.
        if !self.done() {
            watchers.push(Watcher { sender, waiting: Arc::clone(&waiting), missed: Arc::clone(&missed) });
        }
        Watch { batches, waiting, missed, templates: Arc::clone(&self.0.templates), over: false }
    }
}

/// Somebody who is told of records.
struct Watcher {
    sender: Sender<Vec<Record>>,
    waiting: Arc<AtomicUsize>,
    missed: Arc<AtomicU64>,
}

impl Watcher {
    /// Whether it was given them, for which there must be room; none if it has gone.
    fn tell(&self, batch: &[Record]) -> Option<bool> {
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

    /// Whether no more will come.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Records that were not given, because those before were not taken in time.
    pub fn missed(&self) -> u64 {
        self.missed.load(Relaxed)
    }

    /// Names of templates, by the index that records tell.
    pub fn templates(&self) -> &[String] {
        &self.templates
    }
}

/// Takes records from the workers.
struct Writer {
    rings: Vec<Consumer<Record>>,
    /// None if none was asked for, or it cannot be written.
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
            self.flush();
            if any {
                continue;
            }
            if closed || forgotten {
                return self.finish(closed);
            }
            thread::sleep(LOOK);
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
        self.tell(&batch);
        true
    }

    /// Gives records to all watchers. Those that are in no file are counted.
    fn tell(&self, batch: &[Record]) {
        let mut count = &self.shared.untold;
        lock(&self.shared.watchers).retain(|watcher| {
            let given = watcher.tell(batch);
            if given == Some(true) {
                count = &self.shared.told;
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
        if file.left_out() > 0 && self.shared.left_out.load(Relaxed) == 0 {
            tracing::warn!(path = ?self.shared.path, records = file.written(), "the file of records is full");
        }
        self.shared.written.store(file.written(), Relaxed);
        self.shared.left_out.store(file.left_out(), Relaxed);
        if let Err(error) = written {
            self.fail(&error);
        }
    }

    /// Makes what has been written readable, from time to time.
    fn flush(&mut self) {
        if self.flushed.elapsed() < FLUSH {
            return;
        }
        self.flushed = Instant::now();
        if let Some(Err(error)) = self.file.as_mut().map(RecordFile::flush) {
            self.fail(&error);
        }
    }

    /// Nothing more is written from now on. What was can be read, up to the last whole group.
    fn fail(&mut self, error: &Error) {
        let (mut problem, mut written) = (error.to_string(), 0);
        if let Some((path, records)) =
            self.file.as_ref().map(RecordFile::readable).filter(|(path, records)| *records > 0 && path.exists())
        {
            written = records;
            problem +=
                &format!("; the first {records} records can be read: spate-engine records --file {}", path.display());
        }
        tracing::error!("connections are no longer recorded: {problem}");
        *lock(&self.shared.problem) = Some(problem);
        self.shared.written.store(written, Relaxed);
        self.file = None;
    }

    fn finish(mut self, closed: bool) {
        // A run that was removed before anything happened leaves nothing.
        self.file = self.file.take().filter(|file| closed || file.written() > 0);
        if let Some(Err(error)) = self.file.as_mut().map(RecordFile::finish) {
            self.fail(&error);
        }
        let mut watchers = lock(&self.shared.watchers);
        self.shared.done.raise();
        watchers.clear();
    }
}

/// A poisoned lock guards plain data that no panic leaves half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
