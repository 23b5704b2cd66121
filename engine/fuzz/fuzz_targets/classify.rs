// SPDX-License-Identifier: Apache-2.0
//! Any bytes as received packets: finding headers, marks, trailers and queues, and turning packets round, never panics.
//! What is read as a trailer is one; a mark that is written is read again; turning round changes no length and ends.
#![no_main]
use libfuzzer_sys::fuzz_target;
use spate_net::reflect::{Allowed, Rules, Swap, reflect};
use spate_net::{Headers, Mark, Trailer, spread};
use spate_stats::{Tracker, WINDOW};

fuzz_target!(|packets: Vec<&[u8]>| {
    let mut tracker = Tracker::new(WINDOW);
    for packet in packets {
        if let Some(trailer) = Trailer::decode(packet) {
            assert_eq!(&trailer.encode()[..], &packet[packet.len() - spate_net::trailer::LEN..]);
            tracker.receive(trailer.sequence);
        }
        assert!(spread::queue(packet, 3) < 3);
        for swap in [Swap::Mac, Swap::Addresses] {
            let mut copy = packet.to_vec();
            let some = Allowed {
                addresses: [([10, 0, 0, 0].into(), [10, 255, 255, 255].into())].into(),
                ports: [(7, 80)].into(),
            };
            for allowed in [some, Allowed::default()] {
                let rules = Rules { swap, own: None, allowed };
                let passes = (0..300).take_while(|_| reflect(&mut copy, &rules)).count();
                assert!(passes < 255, "it goes round for ever");
            }
        }
        let Some(headers) = Headers::find(packet) else { continue };
        let _ = headers.addresses();
        for mark in [Mark::Ipv4Identification(0x1234), Mark::Ipv6FlowLabel(0x5_4321)] {
            let mut copy = packet.to_vec();
            if mark.write(&mut copy).is_ok() {
                assert_eq!(Mark::read(&copy, &headers), Some(mark));
            }
        }
    }
});
