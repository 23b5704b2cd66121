// SPDX-License-Identifier: Apache-2.0
//! MAC addresses, which frames begin with.

/// A MAC address.
pub type Mac = [u8; 6];

/// Bytes of both MACs: destination, source.
pub const MACS: usize = 12;
