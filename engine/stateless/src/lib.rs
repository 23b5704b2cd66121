// SPDX-License-Identifier: Apache-2.0
//! Stateless traffic: packet templates, exact rates, and the schedule that says which packet is due when.
//!
//! Nothing here does I/O or reads a clock: a worker drives it with its own time, the simulator with a virtual one.
#![forbid(unsafe_code)]

mod pace;
mod program;
mod rate;
mod schedule;
mod sequence;
mod template;

pub use pace::{Pace, Position};
pub use program::{FieldProgram, Lanes, MAX_VARIABLES, MAX_WRITES, ProgramError, Variable, Write};
pub use rate::{Rate, RateError};
pub use schedule::{Batch, Deal, Schedule, StreamTiming, Transmit};
pub use sequence::{ListOrder, Sequence};
pub use template::{
    Blueprint, Checksum, ChecksumKind, Frames, Length, MAX_FRAME_LEN, MIN_FRAME_LEN, Numbers, PIECE, Template,
    TemplateError, Writer,
};
