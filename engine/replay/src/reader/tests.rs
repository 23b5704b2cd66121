// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;
use std::io::Cursor;

/// A pcap file with times in nanoseconds, of packets and when they were captured.
pub(crate) fn pcap(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d, 2 | 4 << 16, 0, 0, 65_535, 1u32] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    for (at_ns, bytes) in packets {
        let len = bytes.len() as u32;
        for word in [(at_ns / 1_000_000_000) as u32, (at_ns % 1_000_000_000) as u32, len, len] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(bytes);
    }
    file
}

/// The same in big endian and microseconds.
fn old_pcap(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 2 << 16 | 4, 0, 0, 65_535, 1u32] {
        file.extend_from_slice(&word.to_be_bytes());
    }
    for (at_ns, bytes) in packets {
        let len = bytes.len() as u32;
        for word in [(at_ns / 1_000_000_000) as u32, (at_ns % 1_000_000_000 / 1000) as u32, len, len] {
            file.extend_from_slice(&word.to_be_bytes());
        }
        file.extend_from_slice(bytes);
    }
    file
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut block = kind.to_le_bytes().to_vec();
    let len = (body.len().next_multiple_of(4) + 12) as u32;
    block.extend_from_slice(&len.to_le_bytes());
    block.extend_from_slice(body);
    block.resize(len as usize - 4, 0);
    block.extend_from_slice(&len.to_le_bytes());
    block
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The same in pcapng: an unknown block, then an interface with these options, then packets.
fn pcapng(options: &[u8], per_second: u64, packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    file.extend(block(0x4242, &[1, 2, 3]));
    let interface = [&words(&[1, 0]), options].concat();
    file.extend(block(1, &interface));
    for (at_ns, bytes) in packets {
        let ticks = (u128::from(*at_ns) * u128::from(per_second) / 1_000_000_000) as u64;
        let len = bytes.len() as u32;
        let header = words(&[0, (ticks >> 32) as u32, ticks as u32, len, len]);
        file.extend(block(6, &[header, bytes.clone()].concat()));
    }
    file
}

fn read(file: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, ReadError> {
    let mut reader = Reader::new(Cursor::new(file))?;
    let (mut all, mut frame) = (Vec::new(), Vec::new());
    while let Some(at_ns) = reader.next(&mut frame)? {
        all.push((at_ns, frame.clone()));
    }
    Ok(all)
}

fn packets() -> Vec<(u64, Vec<u8>)> {
    let second = 1_700_000_000_000_000_000u64;
    (0..50u64).map(|n| (second + n * 1_000_000_512_000, vec![n as u8; 60 + n as usize * 30])).collect()
}

#[test]
fn formats_byte_orders_and_units_of_time_are_read_alike() {
    let packets = packets();
    assert_eq!(read(&pcap(&packets)).unwrap(), packets);
    assert_eq!(read(&old_pcap(&packets)).unwrap(), packets);
    assert_eq!(read(&pcapng(&[], 1_000_000, &packets)).unwrap(), packets);
    assert_eq!(read(&pcapng(&[9, 0, 1, 0, 9, 0, 0, 0], 1_000_000_000, &packets)).unwrap(), packets);
    // Two sections, the second with times in 1/1024 s and an offset of a second.
    let options = [9, 0, 1, 0, 0x8a, 0, 0, 0, 14, 0, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let one = vec![(3_000_000_000, vec![1; 60])];
    let two = [pcap_of_two_sections(&one), pcapng(&options, 1024, &one)].concat();
    let times: Vec<u64> = read(&two).unwrap().iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [3_000_000_000, 4_000_000_000]);
}

fn pcap_of_two_sections(packets: &[(u64, Vec<u8>)]) -> Vec<u8> {
    pcapng(&[], 1_000_000, packets)
}

#[test]
fn the_interface_of_a_packet_is_known() {
    let mut file = pcapng(&[], 1_000_000, &packets()[..1]);
    file.extend(block(1, &words(&[1, 0])));
    file.extend(block(6, &[words(&[1, 0, 0, 60, 60]), vec![0; 60]].concat()));
    let mut reader = Reader::new(Cursor::new(&file)).unwrap();
    let (mut interfaces, mut frame) = (Vec::new(), Vec::new());
    while reader.next(&mut frame).unwrap().is_some() {
        interfaces.push(reader.interface());
    }
    assert_eq!(interfaces, [0, 1]);
}

#[test]
fn short_frames_are_padded() {
    assert_eq!(read(&pcap(&[(0, vec![7; 42])])).unwrap()[0].1, [vec![7; 42], vec![0; 18]].concat());
}

#[test]
fn what_cannot_be_sent_is_reported_with_the_packets_number() {
    let mut cut = pcap(&packets());
    let at = 24 + 16 + 60 + 12;
    cut[at..at + 4].copy_from_slice(&1500u32.to_le_bytes());
    let mut link = pcap(&[]);
    link[20] = 113;
    let mut fcs = pcap(&[]);
    fcs[23] = 0x24;
    let mut simple = pcapng(&[], 1, &packets()[..1]);
    simple.extend(block(3, &words(&[60, 0, 0])));
    // An offset of a second before the epoch.
    let early = pcapng(&[14, 0, 8, 0, 255, 255, 255, 255, 255, 255, 255, 255], 1_000_000, &[(5, vec![0; 60])]);
    let mut interface = pcapng(&[], 1, &[]);
    interface.extend(block(6, &words(&[1, 0, 0, 0, 0])));
    for (file, message) in [
        (cut, "packet 2: only 90 of its 1500 bytes were captured: capture whole packets (tcpdump -s 0)"),
        (link, "its link type is 113; only Ethernet (1) can be sent"),
        (fcs, "its frames end with their FCS, which would be sent as payload: rewrite the capture without it"),
        (vec![0x1f, 0x8b, 8, 0], "it is neither pcap nor pcapng (if it is compressed, decompress it)"),
        (vec![], "it is neither pcap nor pcapng (if it is compressed, decompress it)"),
        (pcap(&[])[..20].to_vec(), "the file ends within it"),
        (pcap(&packets())[..130].to_vec(), "packet 2: the file ends within it"),
        (pcap(&[(0, vec![0; 9231])]), "packet 1: it has 9231 bytes; at most 9230 can be sent"),
        (pcap(&[(0, vec![0; 13])]), "packet 1: it has 13 bytes, which is no Ethernet frame"),
        (simple, "packet 2: it has no time (a simple packet block): rewrite the capture with times"),
        (early, "packet 1: it was captured before 1970 or after 2554, which no clock says: the file is broken"),
        (interface, "packet 1: it names interface 1, which the file does not describe"),
    ] {
        assert_eq!(read(&file).unwrap_err().to_string(), message);
    }
    let mut long = pcap(&[(0, vec![0; 60])]);
    long[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(read(&long).unwrap_err().problem, Problem::Length(u32::MAX));
}

proptest! {
    #[test]
    fn any_bytes_are_survived_and_whatever_is_read_can_be_sent(
        ng: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut: prop::sample::Index, whole: bool, noise in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let packets = &packets()[..5];
        let mut file = if ng { pcapng(&[9, 0, 1, 0, 9, 0, 0, 0], 1_000_000_000, packets) } else { pcap(packets) };
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if !whole {
            file.truncate(cut.index(file.len()));
        }
        file.extend_from_slice(&noise);
        let mut frame = Vec::new();
        if let Ok(mut reader) = Reader::new(Cursor::new(&file)) {
            while let Ok(Some(_)) = reader.next(&mut frame) {
                prop_assert!((MIN_FRAME_LEN..=MAX_FRAME_LEN).contains(&frame.len()));
            }
        }
        let _ = Reader::new(Cursor::new(&noise));
    }
}
