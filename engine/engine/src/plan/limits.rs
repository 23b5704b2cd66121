// SPDX-License-Identifier: Apache-2.0
//! Limits that several parts of a plan have in common.
use std::ops::RangeInclusive;

/// Bytes of a frame without FCS: from the least Ethernet frame to a jumbo frame of 9,234 bytes with FCS.
pub const FRAME_BYTES: RangeInclusive<usize> = 60..=9230;
/// The longest time a plan may name: ten years of 365 days, far from where 64-bit nanoseconds end.
pub const MAX_DURATION_NS: u64 = 10 * 365 * 86_400 * 1_000_000_000;
/// Characters of a name.
pub const MAX_NAME_CHARS: usize = 253;
