// SPDX-License-Identifier: Apache-2.0
//! Stateless traffic: packet templates, exact rates, and the schedule that says which packet is due when.
//!
//! Nothing here does I/O or reads a clock: a worker drives it with its own time, the simulator with a virtual one.
//!
//! ```
//! use spate_stateless::{WorkerShare, Rate, Schedule, StreamTiming};
//!
//! // Two packets a second, shared by two workers: the second worker's is due after half a second.
//! let rate = Rate::packets_per_second(2, 1)?;
//! let mut schedule = Schedule::new(WorkerShare { first: 1, stride: 2 }, [StreamTiming::continuous(Some(rate))]);
//! let mut due_ns = Vec::new();
//! assert_eq!(schedule.take(1_000_000_000, 10, |batch| due_ns.push(batch.due_ns)), 1);
//! assert_eq!(due_ns, [500_000_000]);
//! # Ok::<(), spate_stateless::RateError>(())
//! ```

mod pace;
mod program;
mod rate;
mod schedule;
mod sequence;
mod template;

pub use pace::{Pace, Position};
pub use program::{FieldProgram, Lanes, MAX_VARIABLES, MAX_WRITES, ProgramError, Variable, Write};
pub use rate::{Rate, RateError};
pub use schedule::{Batch, Next, Schedule, StreamTiming, Successor, Transmit, WorkerShare};
pub use sequence::{ListOrder, Sequence};
pub use template::{
    Blueprint, Checksum, ChecksumKind, Frames, Length, MAX_FRAME_LEN, MIN_FRAME_LEN, Numbers, PIECE, Template,
    TemplateError, Writer,
};
