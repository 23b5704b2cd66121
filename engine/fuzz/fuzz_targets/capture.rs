// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a capture, pcap or pcapng: reading never panics, and what is read can be sent. Held in memory it plays as read
//! packet by packet, and its halves have all its packets; what is written into its packets leaves checksums that hold and trailers that can be read.
#![no_main]
use std::{io::Cursor, sync::Arc};

use libfuzzer_sys::fuzz_target;
use spate_net::{Headers, Trailer, checksum, headers::Version};
use spate_replay::{
    Changes, Gap, Half, Held, HeldTape, MAX_FRAME_LEN, MIN_FRAME_LEN, Pacer, Player, Rewrite, Speed, SplitBy, Survey,
};

const PASSES: u64 = 2;
const STAMP: Trailer =
    Trailer { run_tag: 7, stream: 9, sender: 1, measured: true, sequence: 77, timestamp: 0x1234_5678_9abc };

fuzz_target!(|bytes: &[u8]| {
    let nothing = Rewrite::new(&Changes::default()).expect("nothing can be written");
    let held = Held::read(bytes, Gap::Captured, None, &nothing, |_| Ok(()));
    let survey = Survey::of(bytes, None, &nothing, |_| Ok(()));
    let (held, found) = match (held, survey) {
        (Err(held), Err(survey)) => return assert_eq!(held, survey),
        (Ok((held, found)), Ok(survey)) => {
            assert_eq!(found, survey);
            (Arc::new(held), found)
        }
        other => panic!("{other:?}"),
    };
    assert!((MIN_FRAME_LEN..=MAX_FRAME_LEN).contains(&found.shortest) && found.longest <= MAX_FRAME_LEN);

    let mut tape = HeldTape::new(held, &nothing, Some(PASSES));
    let mut player = Player::new(Cursor::new(bytes), Gap::Captured, None, Some(PASSES)).expect("it was read before");
    let mut pacer = Pacer::new(0, Speed { distance: 3, nanoseconds: 2 }, 5);
    let (mut read, mut taken, mut last) = (Vec::new(), Vec::new(), 0);
    let flow = Changes { flow: true, fix_checksums: true, ..Changes::default() };
    let mut flow = Rewrite::new(&flow).expect("a trailer can be written");
    while let Some(gap) = player.next(&mut read).expect("it was read before") {
        assert_eq!(tape.peek(), Some((gap, read.len())));
        taken.resize(read.len(), 0);
        tape.take(&mut taken);
        assert_eq!(taken, read);
        pacer.go_on(gap);
        let due = pacer.due_ns().expect("it goes");
        assert!(due >= last + 5 || due == u64::MAX);
        last = due.min(u64::MAX - 5);
        if flow.check(&read).is_ok() {
            let fixup = flow.write(0, &mut read);
            Rewrite::write_trailer(true, fixup, STAMP, &mut read);
            assert_eq!(Trailer::decode(&read), Some(STAMP));
            if let Some(Headers { version: Version::V4, at, .. }) = Headers::find(&read) {
                let header = at..at + usize::from(read[at] & 15) * 4;
                assert_eq!(checksum::fold(checksum::sum(&read[header])), 0xffff);
            }
        }
    }
    assert_eq!(tape.peek(), None);
    for by in [SplitBy::Mac, SplitBy::Ip, SplitBy::Interface] {
        let packets = |responder| {
            let half = Some(Half { by, responder });
            let held = Held::read(bytes, Gap::Captured, half, &nothing, |_| Ok(())).map(|(_, survey)| survey);
            assert_eq!(held, Survey::of(bytes, half, &nothing, |_| Ok(())));
            held.map_or(0, |survey| survey.packets)
        };
        assert_eq!(packets(false) + packets(true), found.packets, "{by:?}");
    }
});
