// SPDX-License-Identifier: Apache-2.0
//! What the engine uses of a processor beyond Rust's standard library: prefetches, the time stamp counter, and the question whether the
//! processor has the instructions that the engine was built for.
//!
//! Outside of the crates that call DPDK, only this one has `unsafe` code in the engine: all others forbid it. Each function has a portable form for
//! architectures other than x86-64.
//!
//! ```
//! let flow = [0u8; 192];
//! spate_arch::fetch(&flow); // a hint: nothing waits for it
//! assert_eq!(spate_arch::missing(), None);
//! ```
mod cpu;
mod fetch;

pub use cpu::missing;
pub use fetch::{fetch, fetch_line};
