// SPDX-License-Identifier: Apache-2.0
//! Control's end of the queues to the workers.
use std::sync::{Mutex, PoisonError};

use rtrb::{Consumer, Producer, PushError};

use super::{
    command::{Command, Trash},
    worker::Waker,
};

/// All workers, to be told things and cleaned up after.
pub(super) struct Workers {
    workers: Vec<Mutex<Line>>,
}

struct Line {
    commands: Producer<Command>,
    trash: Consumer<Trash>,
    waker: Waker,
}

impl Workers {
    pub(super) fn new(lines: impl Iterator<Item = (Producer<Command>, Consumer<Trash>, Waker)>) -> Self {
        let line = |(commands, trash, waker)| Mutex::new(Line { commands, trash, waker });
        Self { workers: lines.map(line).collect() }
    }

    pub(super) fn count(&self) -> usize {
        self.workers.len()
    }

    /// Tells one worker. Waits while its queue is full, which it empties every turn of its loop.
    pub(super) fn tell(&self, worker: usize, command: Command) {
        let mut line = self.workers[worker].lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = command;
        while let Err(PushError::Full(back)) = line.commands.push(command) {
            if line.commands.is_abandoned() {
                return;
            }
            line.waker.wake();
            std::thread::sleep(std::time::Duration::from_micros(100));
            command = back;
        }
        line.waker.wake();
    }

    /// Waits until every worker has taken what it was told, which it does before it next receives.
    pub(super) fn await_all(&self) {
        for line in &self.workers {
            let line = line.lock().unwrap_or_else(PoisonError::into_inner);
            while line.commands.slots() < line.commands.buffer().capacity() && !line.commands.is_abandoned() {
                line.waker.wake();
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        }
    }

    /// Has a worker look at its rings.
    pub(super) fn wake(&self, worker: usize) {
        self.workers[worker].lock().unwrap_or_else(PoisonError::into_inner).waker.wake();
    }

    /// Tells every worker.
    pub(super) fn tell_all(&self, command: impl Fn() -> Command) {
        for worker in 0..self.workers.len() {
            self.tell(worker, command());
        }
    }

    /// Frees what workers are done with.
    pub(super) fn clean_up(&self) {
        for line in &self.workers {
            let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
            while line.trash.pop().is_ok() {}
        }
    }
}
