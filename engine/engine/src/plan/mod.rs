// SPDX-License-Identifier: Apache-2.0
//! Plans: from bytes to a run that the datapath can prepare.
//!
//! [`decode`] reads a plan, [`validate`] finds everything that is wrong with it, [`rate`] makes rates exact, and [`fit`]
//! turns a plan without fault into what the datapath prepares. Whatever is wrong comes back as [`Violations`], each with the path of its field.
mod blueprint;
mod by_tag;
mod checked;
pub mod clients;
pub mod decode;
mod engines;
pub mod fit;
pub mod flows;
mod limits;
pub mod load;
pub mod measure;
pub mod rate;
mod replay;
mod site;
pub mod stages;
pub mod stateful;
mod transmit;
pub mod validate;
mod violation;

pub use checked::{Checked, CheckedReplay, CheckedStream, sending_part};
pub use site::{Macs, PortFacts, Site};
pub use violation::{Violation, Violations};

/// The greatest encoded plan, in bytes: room for 20,000 streams of 9 KB frames.
pub const MAX_PLAN_BYTES: u64 = 256 << 20;
