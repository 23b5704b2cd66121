// SPDX-License-Identifier: Apache-2.0
//! Any bytes as what programs wait for the end of, in pieces of any size: the matcher finds what a simple reader of the whole
//! finds. The property tests of `spate-stateful` do the same with messages that are more often right.
#![no_main]
use libfuzzer_sys::fuzz_target;
use spate_stateful::program::Until;

#[path = "../../stateful/tests/messages/oracle.rs"]
mod oracle;

fuzz_target!(|given: (u8, [u8; 4], &[u8])| {
    let (choice, pieces, bytes) = given;
    let bytes = &bytes[..bytes.len().min(60_000)];
    match usize::from(choice % 65) {
        0 => oracle::compare(&Until::HttpMessage, bytes, &pieces),
        // A pattern that may come again behind itself.
        len => {
            if let Some(pattern) = bytes.get(..len) {
                oracle::compare(&Until::Pattern(pattern.into()), &bytes[1..], &pieces);
            }
        }
    }
});
