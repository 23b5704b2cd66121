// SPDX-License-Identifier: Apache-2.0
//! Captures as packets to send.
//!
//! [`Reader`] reads pcap and pcapng from anything that can be read, a packet at a time, so that files of any size need
//! little memory. [`Capture`] has looked through one and says whether it can be sent; [`Tape`] and [`HeldTape`] play it,
//! as often as is asked, with what [`Rewrite`] writes into its packets; [`Tempo`] says when each is due. [`Session`] is what the
//! applications of a capture said to each other.
#![forbid(unsafe_code)]

mod bytes;
mod capture;
mod held;
mod pcap;
mod pcapng;
mod player;
mod reader;
mod rewrite;
mod seal;
pub mod session;
mod survey;
mod tempo;

pub use capture::{Capture, LONGEST_HELD, Source, Tape};
pub use held::{Held, HeldTape};
pub use player::{Gap, Player};
pub use reader::{MAX_FRAME_LEN, MIN_FRAME_LEN, Problem, ReadError, Reader};
pub use rewrite::{Changes, Rewrite};
pub use seal::Seal;
pub use session::Session;
pub use survey::Survey;
pub use tempo::{Speed, Tempo};
