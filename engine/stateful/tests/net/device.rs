// SPDX-License-Identifier: Apache-2.0
//! A device that completes checksums and cuts frames into segments, as DPDK documents what a driver is given (rte_mbuf_core.h:
//! RTE_MBUF_F_TX_IP_CKSUM, RTE_MBUF_F_TX_L4_MASK, RTE_MBUF_F_TX_TCP_SEG; programmer's guide, "Meta Information" of mbufs) and as
//! devices do it. It knows the stack's frames by their bytes alone.
use spate_stateful::{HeaderLengths, Segmentation};

const FIN_PSH: u8 = 1 | 8;
const CWR: u8 = 128;

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// The one's complement sum of 16-bit words (RFC 1071), on top of another.
fn add_up(bytes: &[u8], from: u16) -> u16 {
    let mut total = u32::from(from);
    for pair in bytes.chunks(2) {
        total += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

/// Where layers end, read by the model itself, which must be what is passed to the driver.
fn layers(frame: &[u8]) -> (usize, usize, usize, bool, bool) {
    let v6 = word(frame, 12) == 0x86dd;
    assert!(v6 || word(frame, 12) == 0x0800, "IP");
    let (l3, protocol) = if v6 { (40, frame[20]) } else { (usize::from(frame[14] & 15) * 4, frame[23]) };
    assert!(matches!(protocol, 6 | 17), "TCP or UDP");
    let l4 = if protocol == 6 { usize::from(frame[14 + l3 + 12] >> 4) * 4 } else { 8 };
    (14, l3, l4, v6, protocol == 6)
}

/// Sum of the pseudo header, with a length or 0.
fn pseudo(frame: &[u8], v6: bool, tcp: bool, len: usize) -> u16 {
    let addresses = if v6 { &frame[22..54] } else { &frame[26..34] };
    let sum = add_up(addresses, if tcp { 6 } else { 17 });
    add_up(&(len as u16).to_be_bytes(), sum)
}

/// What goes on the wire for a frame; `segment` bytes of data each, if it is to be cut.
pub fn finish(frame: &[u8], segment: Option<usize>, cut: Option<Segmentation>) -> Vec<Vec<u8>> {
    let (l2, l3, l4, v6, tcp) = layers(frame);
    let ours = HeaderLengths::of(frame).expect("it is of TCP or UDP");
    assert_eq!((ours.l2.into(), ours.l3.into(), ours.l4.into(), ours.v6, ours.tcp), (l2, l3, l4, v6, tcp));
    let at = l2 + l3 + if tcp { 16 } else { 6 };
    let len = frame.len() - l2 - l3;
    assert!(v6 || word(frame, l2 + 10) == 0, "the IPv4 header's checksum is the device's");
    let Some(segment) = segment else {
        assert_eq!(word(frame, at), pseudo(frame, v6, tcp, len), "the sum of the pseudo header");
        return vec![complete(frame.to_vec(), 0)];
    };
    let cut = cut.expect("a device that cuts");
    let header = l2 + l3 + l4;
    let data = &frame[header..];
    assert!(tcp && (cut.v6 || !v6), "nothing else is cut");
    assert!(frame.len() <= cut.longest_frame as usize, "{} bytes", frame.len());
    assert!(header + segment <= cut.longest_segment as usize, "{header} and {segment} bytes");
    assert!(data.len() > segment, "nothing to cut: {} bytes, {segment} each", data.len());
    assert_eq!(word(frame, at), pseudo(frame, v6, tcp, 0), "the sum of the pseudo header without a length");
    let count = data.len().div_ceil(segment);
    let piece = |(index, data): (usize, &[u8])| {
        let mut piece = [&frame[..header], data].concat();
        let below = piece.len() - l2;
        if v6 {
            put(&mut piece, l2 + 4, (below - 40) as u16);
        } else {
            put(&mut piece, l2 + 2, below as u16);
            let id = word(&piece, l2 + 4).wrapping_add(index as u16);
            put(&mut piece, l2 + 4, id);
        }
        let seq = u32::from_be_bytes(piece[l2 + l3 + 4..][..4].try_into().expect("4 bytes"));
        let seq = seq.wrapping_add((index * segment) as u32);
        piece[l2 + l3 + 4..][..4].copy_from_slice(&seq.to_be_bytes());
        let flags = &mut piece[l2 + l3 + 13];
        *flags &= !(if index + 1 < count { FIN_PSH } else { 0 } | if index > 0 { CWR } else { 0 });
        let len = (piece.len() - l2 - l3) as u16;
        complete(piece, len)
    };
    data.chunks(segment).enumerate().map(piece).collect()
}

/// Fills in checksums: what stands in the transport's is summed up with the rest, and with so much more.
fn complete(mut frame: Vec<u8>, more: u16) -> Vec<u8> {
    let (l2, l3, _, v6, tcp) = layers(&frame);
    if !v6 {
        let check = !add_up(&frame[l2..l2 + l3], 0);
        put(&mut frame, l2 + 10, check);
    }
    let check = !add_up(&frame[l2 + l3..], more);
    let check = if check == 0 && !tcp { 0xffff } else { check };
    put(&mut frame, l2 + l3 + if tcp { 16 } else { 6 }, check);
    frame
}
