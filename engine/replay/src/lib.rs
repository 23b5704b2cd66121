// SPDX-License-Identifier: Apache-2.0
//! Captures as packets to send.
//!
//! [`Reader`] reads pcap and pcapng from anything that can be read, a packet at a time, so that files of any size need
//! little memory. [`Capture`] has looked through one and says whether it can be sent; [`Tape`] and [`HeldTape`] play it,
//! as often as requested, all its packets or those of one [`Half`], with what [`Rewrite`] writes into them; [`Pacer`] says when each
//! is due. [`Session`] is what the applications of a capture said to each other.
//!
//! ```
//! use spate_replay::Reader;
//!
//! // A pcap file with times in microseconds and two frames of 60 bytes, 4 us apart.
//! let mut file = [&0xa1b2_c3d4_u32.to_le_bytes()[..], &[2, 0, 4, 0], &[0; 8], &[0xff, 0xff, 0, 0], &[1, 0, 0, 0]].concat();
//! for us in [5, 9] {
//!     [1_u32, us, 60, 60].iter().for_each(|field| file.extend(field.to_le_bytes()));
//!     file.extend([0; 60]);
//! }
//! let (mut reader, mut frame) = (Reader::new(&file[..])?, Vec::new());
//! let first_ns = reader.next(&mut frame)?.unwrap();
//! let second_ns = reader.next(&mut frame)?.unwrap();
//! assert_eq!((second_ns - first_ns, frame.len(), reader.next(&mut frame)?), (4000, 60, None));
//! # Ok::<(), spate_replay::ReadError>(())
//! ```

mod bytes;
mod capture;
mod captured;
mod checksum_fixup;
mod half;
mod held;
mod pacer;
mod pcap;
mod pcapng;
mod player;
mod problem;
mod reader;
mod rewrite;
pub mod session;
mod survey;

pub use capture::{Capture, MAX_PRELOADED_BYTES, Source, Tape};
pub use captured::{MAX_FRAME_LEN, MIN_FRAME_LEN};
pub use checksum_fixup::ChecksumFixup;
pub use half::{Half, SplitBy};
pub use held::{Held, HeldTape};
pub use pacer::{Pacer, Speed};
pub use player::{Gap, Player};
pub use problem::{Problem, ReadError};
pub use reader::Reader;
pub use rewrite::{Changes, Rewrite};
pub use session::Session;
pub use survey::Survey;
