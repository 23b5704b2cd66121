// SPDX-License-Identifier: Apache-2.0
//! Any bytes as received packets: reading the trailer and keeping its sequence never panics, and what is read as a
//! trailer is one.
#![no_main]
use libfuzzer_sys::fuzz_target;
use spate_stats::Tracker;
use spate_wire::Trailer;

fuzz_target!(|packets: Vec<&[u8]>| {
    let mut tracker = Tracker::new(spate_stats::WINDOW);
    for packet in packets {
        if let Some(trailer) = Trailer::decode(packet) {
            assert_eq!(&trailer.encode()[..], &packet[packet.len() - spate_wire::trailer::LEN..]);
            tracker.receive(trailer.sequence);
        }
    }
});
