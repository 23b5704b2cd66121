// SPDX-License-Identifier: Apache-2.0
//! Captures as packets to send.
//!
//! [`Reader`] reads pcap and pcapng from anything that can be read, a packet at a time, so that files of any size need
//! little memory. [`Player`] plays one: it says when each packet is due, and begins anew as often as it is told.
mod bytes;
mod pcap;
mod pcapng;
mod player;
mod reader;

pub use player::{Gap, Player, Timing};
pub use reader::{MAX_FRAME_LEN, MIN_FRAME_LEN, Problem, ReadError, Reader};
