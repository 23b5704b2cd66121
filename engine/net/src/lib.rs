// SPDX-License-Identifier: Apache-2.0
//! What packets look like: headers, the Internet checksum, marks and the measurement trailer.
pub mod checksum;
pub mod headers;
pub mod mark;
pub mod pktgen;
pub mod reflect;
pub mod spread;
pub mod trailer;

pub use headers::Headers;
pub use mark::Mark;
pub use trailer::Trailer;

/// Bytes of a frame that `frame_len` leaves out: the frame check sequence.
pub const FCS_LEN: u64 = 4;
