// SPDX-License-Identifier: Apache-2.0
//! Buffers of packets.

/// Longest frame that fits into the packets every worker has; longer ones come from a pool made when a run needs them.
pub(super) const SHORT_ROOM: usize = 2048;
