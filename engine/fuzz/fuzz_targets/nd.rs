// SPDX-License-Identifier: Apache-2.0
//! Any messages of neighbor discovery to emulated clients in any state: nothing panics, counters are those of the clients, and no address is had
//! twice. The property tests of `spate-clients` do the same.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../../clients/tests/hostile/drive.rs"]
mod drive;

fuzz_target!(|bytes: &[u8]| drive::drive(drive::Protocol::Nd, bytes));
