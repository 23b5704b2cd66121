// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

#[test]
fn the_way_to_a_message_is_read_as_the_standard_has_it() {
    let all = [0x37, 255, 0, 16, 1, 2, 3, 4, 0xaa, 0xbb, 7, 0x20, 1, 5, 6, 0x85, 1, 0x10, 9, 0, 0x45, 0, 0, 9];
    let read = message(9, &all).unwrap();
    assert_eq!((read.source_port, read.kind, read.teid, read.sequence), (9, 255, 0x0102_0304, Some(0xaabb)));
    assert_eq!(read.payload, [0x45, 0, 0, 9]);
    // The fields are there if any of the three flags is set, and only count with their own.
    let fields = message(9, &[0x31, 254, 0, 4, 0, 0, 0, 1, 0xaa, 0xbb, 7, 0x85]).unwrap();
    assert_eq!((fields.sequence, fields.payload), (None, &[][..]));
}

#[test]
fn ipv6_addresses_that_stand_for_ipv4_are_not_taken_for_it() {
    let mut packet = [0; 40];
    packet[0] = 0x60;
    (packet[8], packet[24]) = (0x20, 0x20);
    assert!(inner_header(&packet).is_some());
    packet[24..].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 16, 0, 0, 0]);
    assert!(inner_header(&packet).is_none());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), whole: bool) {
        if let (true, Some(header)) = (whole, bytes.first_chunk_mut::<8>()) {
            header[0] = 0x30 | header[0] & 7;
            header[2..4].fill(0);
            header[3] = 30;
        }
        if let Ok(read) = message(1, &bytes) {
            prop_assert!(read.payload.len() + 8 <= bytes.len());
        }
        let _ = inner_header(&bytes);
    }
}
