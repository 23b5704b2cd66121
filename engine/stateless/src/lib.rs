// SPDX-License-Identifier: Apache-2.0
//! Stateless traffic: packet templates, exact rates, and the schedule that says which packet is due when.
//!
//! Nothing here does I/O or reads a clock: a worker drives it with its own time, the simulator with a virtual one.
mod pace;
mod rate;
mod schedule;
mod template;

pub use pace::{Pace, Position};
pub use rate::{Rate, RateError};
pub use schedule::{Deal, Departure, Schedule};
pub use template::{Checksum, MAX_FRAME_LEN, MIN_FRAME_LEN, Template, TemplateError};
