// SPDX-License-Identifier: Apache-2.0
//! The two ends of a flow.
use crate::Address;

/// The endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// Ours.
    pub local: Address,
    /// The peer's.
    pub remote: Address,
    /// Ours.
    pub local_port: u16,
    /// The peer's.
    pub remote_port: u16,
}
