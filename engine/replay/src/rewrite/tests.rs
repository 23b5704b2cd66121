// SPDX-License-Identifier: Apache-2.0
use proptest::prelude::*;
use spate_net::checksum::{fold, sum};
use spate_stateless::Sequence;

use super::*;

/// Ethernet, IPv4 or IPv6, the protocol's header as far as it matters, payload, then Ethernet padding.
fn packet(v6: bool, protocol: u8, payload: usize, padding: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    let header = match protocol {
        TCP => 20,
        _ => 8,
    };
    let len = (header + payload) as u16;
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(len.to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend((1..33).collect::<Vec<u8>>());
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((len + 20).to_be_bytes());
        frame.extend([0, 1, 0, 0, 64, protocol, 0x55, 0x55, 10, 0, 0, 1, 10, 0, 0, 2]);
    }
    let at = frame.len();
    frame.resize(at + header, 0);
    if protocol == TCP {
        frame[at + 12] = 0x50;
    }
    let offset = at
        + match protocol {
            TCP => 16,
            UDP => 6,
            _ => 2,
        };
    frame[offset..offset + 2].copy_from_slice(&[0x12, 0x34]);
    frame.extend((0..payload).map(|i| (i * 7) as u8));
    frame.extend(vec![0; padding]);
    frame
}

/// Sums that are all ones where the checksums are right.
fn sums(frame: &[u8]) -> (u16, u16) {
    let headers = Headers::find(frame).unwrap();
    let (protocol, start) = headers.transport.unwrap();
    let word = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    let (header, end) = match headers.version {
        spate_net::headers::Version::V4 => (fold(sum(&frame[headers.at..start])), headers.at + word(headers.at + 2)),
        spate_net::headers::Version::V6 => (u16::MAX, start + word(headers.at + 4)),
    };
    let (addresses, len) = headers.addresses();
    let pseudo = match protocol {
        1 => 0,
        _ => sum(&frame[addresses..addresses + 2 * len]) + u64::from(protocol) + (end - start) as u64,
    };
    (header, fold(pseudo + sum(&frame[start..end])))
}

fn counter(offset: usize, size: usize) -> FieldProgram {
    let sequence = Sequence::Counter { min: 0, max: 9, step: 1, first: 3, down: false };
    FieldProgram {
        variables: vec![Variable { sequence, after: None, limit: 0, per_worker: false }],
        writes: vec![Write { variable: 0, offset, size, add: 1, shift: 4, mask: 0xff0, little_endian: false }],
    }
}

#[test]
fn fields_are_written_by_number_and_only_their_bits() {
    let program = counter(20, 2);
    let mut rewrite = Rewrite::new(&Changes { program, ..Changes::default() }).unwrap();
    for (number, value) in [(0, 4), (1, 5), (6, 10), (7, 1), (1, 5)] {
        let mut frame = vec![0xff; 60];
        assert_eq!(rewrite.write(number, &mut frame), ChecksumFixup::NOTHING);
        assert_eq!(frame[20..22], (0xf00f_u16 | value << 4).to_be_bytes(), "{number}");
        assert!(frame[..20].iter().chain(&frame[22..]).all(|byte| *byte == 0xff));
    }
    let mut little = counter(0, 3);
    little.writes[0].little_endian = true;
    let mut frame = vec![0; 60];
    Rewrite::new(&Changes { program: little, ..Changes::default() }).unwrap().write(0, &mut frame);
    assert_eq!(frame[..3], [0x40, 0, 0]);
}

#[test]
fn packets_that_cannot_be_written_into_are_refused() {
    let refused = |changes: Changes, frame: &[u8]| Rewrite::new(&changes).unwrap().check(frame).unwrap_err();
    let fields = Changes { program: counter(59, 2), ..Changes::default() };
    assert!(Rewrite::new(&fields).unwrap().check(&[0; 61]).is_ok());
    assert!(refused(fields.clone(), &[0; 60]).starts_with("it has 60 bytes, and program.writes[0] needs 61: write"));
    let both = Changes { flow: true, ..fields };
    assert!(refused(both, &[0; 76]).starts_with("it has 76 bytes, and program.writes[0] needs 61 beside the trailer"));
    let mark = Changes { mark: Some(Mark::Ipv6FlowLabel(5)), ..Changes::default() };
    assert!(refused(mark, &packet(false, UDP, 20, 0)).starts_with("the packet's first IP header is not IPv6"));
    let mark = Changes { mark: Some(Mark::Ipv4Identification(5)), program: counter(19, 1), ..Changes::default() };
    assert!(refused(mark, &packet(false, UDP, 20, 0)).starts_with("program.writes[0] changes its mark, bytes 18..20"));
    let flow = Changes { flow: true, ..Changes::default() };
    assert!(refused(flow.clone(), &packet(false, TCP, 0, 6)).starts_with("its headers take 54 of its 60 bytes"));
    // Fragments other than the first: options, and extension headers, are headers too.
    let mut v4 = packet(false, UDP, 30, 0);
    (v4[14], v4[21]) = (0x4c, 5);
    assert!(refused(flow.clone(), &v4).starts_with("its headers take 62 of its 72 bytes"));
    let mut v6 = packet(true, 0, 20, 0);
    v6[54..64].copy_from_slice(&[44, 0, 0, 0, 0, 0, 0, 0, 17, 0]);
    v6[64..66].copy_from_slice(&[0, 8]);
    assert!(refused(flow.clone(), &v6).starts_with("its headers take 70 of its 82 bytes"));
    for fits in [packet(false, UDP, 16, 2), packet(true, TCP, 16, 0), packet(false, TCP, 0, 16), vec![0; 60]] {
        assert_eq!(Rewrite::new(&flow).unwrap().check(&fits), Ok(()));
    }
    let wrong = Rewrite::new(&Changes { program: counter(20, 5), ..Changes::default() }).unwrap_err();
    assert!(wrong.to_string().starts_with("program.writes[0]: "), "{wrong}");
}

proptest! {
    #[test]
    fn checksums_hold_whatever_is_written(
        v6: bool, kind in 0usize..3, payload in 0usize..60, padding in 0usize..40, flow: bool,
        offset in 26usize..34, trailer: [u8; 8], number: u64,
    ) {
        let protocol = [TCP, UDP, if v6 { 58 } else { 1 }][kind];
        let before = packet(v6, protocol, payload, padding);
        let changes = Changes { program: counter(offset, 1), flow, fix_checksums: true, mark: None };
        let mut rewrite = Rewrite::new(&changes).unwrap();
        prop_assume!(before.len() >= 60 && rewrite.check(&before).is_ok());
        let mut frame = before.clone();
        let fixup = rewrite.write(number % 10, &mut frame);
        prop_assert_eq!(ChecksumFixup::from_bits(fixup.to_bits()), fixup);
        let stamp = Trailer {
            run_tag: 1 + u16::from(trailer[0]), stream: u16::from(trailer[1]), sender: trailer[2], measured: true,
            sequence: u32::from(trailer[3]) << 20, timestamp: u64::from_be_bytes(trailer) >> 16,
        };
        Rewrite::write_trailer(flow, fixup, stamp, &mut frame);
        prop_assert_eq!(sums(&frame), (u16::MAX, u16::MAX));
        if flow {
            prop_assert_eq!(Trailer::decode(&frame), Some(stamp));
        } else {
            // Not `decode`: its 8 bits of check sum take some bytes that are no trailer for one.
            let end = before.len() - payload - padding;
            prop_assert_eq!(&frame[end..], &before[end..]);
        }
    }
}

#[test]
fn bytes_stay_where_nothing_is_written_and_an_absent_checksum_stays_absent() {
    let before = packet(false, UDP, 30, 0);
    let mut frame = before.clone();
    let fix = Changes { fix_checksums: true, ..Changes::default() };
    Rewrite::new(&fix).unwrap().write(0, &mut frame);
    assert_eq!(frame, before);
    frame[40..42].fill(0);
    let mut rewrite = Rewrite::new(&Changes { flow: true, ..fix }).unwrap();
    assert_eq!(rewrite.write(0, &mut frame), ChecksumFixup::NOTHING);
    assert_eq!(frame[40..42], [0, 0]);
}
