// SPDX-License-Identifier: Apache-2.0
//! Names of ports in plans.

/// The first port's.
pub const PORT: &str = "p";

/// The name of a port in plans.
pub fn port_name(index: usize) -> String {
    if index == 0 { PORT.into() } else { format!("{PORT}{index}") }
}
