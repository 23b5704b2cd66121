// SPDX-License-Identifier: Apache-2.0
//! Control's end of the queues to the workers.
use std::{
    sync::{Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use rtrb::{Consumer, Producer, PushError};

use super::worker::{Command, Reclaim, Waker};
use crate::index::WorkerIndex;
use crate::lock::lock;

/// A worker that has not taken its commands within this time hangs, and is not waited for.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

/// All workers: their command queues, and what is to be freed after them.
pub(super) struct Workers {
    workers: Vec<Mutex<Line>>,
}

struct Line {
    commands: Producer<Command>,
    reclaim: Consumer<Reclaim>,
    waker: Waker,
}

impl Workers {
    pub(super) fn new(lines: impl Iterator<Item = (Producer<Command>, Consumer<Reclaim>, Waker)>) -> Self {
        let line = |(commands, reclaim, waker)| Mutex::new(Line { commands, reclaim, waker });
        Self { workers: lines.map(line).collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.workers.len()
    }

    fn all(&self) -> impl Iterator<Item = WorkerIndex> {
        (0..self.workers.len()).map(WorkerIndex)
    }

    /// Sends a command to one worker. Waits while its queue is full, which it empties in every iteration of its loop.
    pub(super) fn send(&self, worker: WorkerIndex, command: Command) {
        let mut line = self.line(worker);
        let mut command = command;
        while let Err(PushError::Full(back)) = line.commands.push(command) {
            if line.commands.is_abandoned() {
                return;
            }
            line.waker.wake();
            thread::sleep(Duration::from_micros(100));
            command = back;
        }
        line.waker.wake();
    }

    /// Waits until every worker has taken its commands, which it does before it next receives. Others may use its line meanwhile.
    pub(super) fn await_all(&self) {
        let since = Instant::now();
        for worker in self.all() {
            while !self.has_taken_all(worker) && since.elapsed() < COMMAND_TIMEOUT {
                thread::sleep(Duration::from_micros(50));
            }
        }
    }

    fn has_taken_all(&self, worker: WorkerIndex) -> bool {
        let line = self.line(worker);
        line.waker.wake();
        line.commands.slots() == line.commands.buffer().capacity() || line.commands.is_abandoned()
    }

    fn line(&self, worker: WorkerIndex) -> MutexGuard<'_, Line> {
        lock(&self.workers[worker.0])
    }

    /// Wakes a worker to read its rings.
    pub(super) fn wake(&self, worker: WorkerIndex) {
        self.line(worker).waker.wake();
    }

    /// Sends a command to every worker.
    pub(super) fn send_all(&self, command: impl Fn() -> Command) {
        for worker in self.all() {
            self.send(worker, command());
        }
    }

    /// Frees what workers are done with.
    pub(super) fn clean_up(&self) {
        for worker in self.all() {
            let mut line = self.line(worker);
            while line.reclaim.pop().is_ok() {}
        }
    }
}
