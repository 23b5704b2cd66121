// SPDX-License-Identifier: Apache-2.0
//! The transports of flows.

/// Transport of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Protocol {
    Tcp,
    Udp,
}
