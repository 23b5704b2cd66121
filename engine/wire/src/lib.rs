// SPDX-License-Identifier: Apache-2.0
//! What packets look like: the Internet checksum and the measurement trailer.
pub mod checksum;
pub mod trailer;

pub use trailer::Trailer;

/// Bytes of a frame that `frame_len` leaves out: the frame check sequence.
pub const FCS_LEN: u64 = 4;
