// SPDX-License-Identifier: Apache-2.0
//! Any segments, datagrams, ICMP errors and frames, steps of time and room to send, to ends in any state: the stack of flows
//! does not panic, stops to send, holds no more than it has, and is empty after it is cleared. The property test of
//! `spate-stateful` does the same.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../../stateful/tests/segments/drive.rs"]
mod drive;

fuzz_target!(|bytes: &[u8]| {
    drive::drive(bytes);
});
