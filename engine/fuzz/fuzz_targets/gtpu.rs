// SPDX-License-Identifier: Apache-2.0
//! Any frames, and any GTP-U messages in right ones, to a port with tunnels: they are read without a panic, and only what came
//! through its client's tunnel goes on. The property test of `spate-stateful` does the same.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../../stateful/tests/tunnels/drive.rs"]
mod drive;

fuzz_target!(|bytes: &[u8]| drive::drive(bytes));
