// SPDX-License-Identifier: Apache-2.0
//! Frames that a port's device finishes: what they must hold for it, and where their layers end.
//!
//! It is DPDK's rule (rte_mbuf_core.h at RTE_MBUF_F_TX_TCP_CKSUM and RTE_MBUF_F_TX_TCP_SEG): no checksum in the IPv4 header, and in
//! that of TCP or UDP the sum of the pseudo header, not complemented; the sum has no length if segments are to be cut.
use crate::{
    checksum::fold,
    field::put_be16,
    headers::{Headers, Version},
    ip::{TCP, UDP},
    ipv4, tcp, udp,
};

/// What is left of a frame for its port's device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffloadRequest {
    /// Nothing: the frame is complete.
    #[default]
    Nothing,
    /// The device completes the checksums.
    Checksums,
    /// The device cuts the frame into segments, and completes the checksums of each.
    Segments,
}

/// Where the layers of a frame end, for a device that finishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLengths {
    /// Bytes of the Ethernet header with tags.
    pub l2: u8,
    /// Bytes of the IP header.
    pub l3: u8,
    /// Bytes of the transport's header.
    pub l4: u8,
    /// IPv6, else IPv4.
    pub v6: bool,
    /// TCP, else UDP.
    pub tcp: bool,
}

/// Leaves the checksums of a packet of TCP (else UDP), whose IP header of this many bytes it begins with, to the device. `pseudo` is
/// the sum of its pseudo header, of which `len` is the length.
#[inline(never)]
pub(crate) fn prepare_checksums(
    packet: &mut [u8],
    header: usize,
    finish: OffloadRequest,
    tcp: bool,
    pseudo: u64,
    len: usize,
) {
    if header == ipv4::HEADER {
        put_be16(packet, ipv4::CHECKSUM, 0);
    }
    let sum = if finish == OffloadRequest::Segments { pseudo - len as u64 } else { pseudo };
    put_be16(packet, header + if tcp { tcp::CHECKSUM } else { udp::CHECKSUM }, fold(sum));
}

impl HeaderLengths {
    /// Lengths of a frame's headers; none if its first IP header carries neither TCP nor UDP.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let headers = Headers::find(frame)?;
        let (tcp, start, l4) = match headers.transport? {
            (TCP, start) => (true, start, tcp::header_len(&frame[start..])?),
            (UDP, start) => (false, start, udp::HEADER),
            _ => return None,
        };
        let v6 = headers.version == Version::V6;
        Some(Self { l2: headers.at as u8, l3: (start - headers.at) as u8, l4: l4 as u8, v6, tcp })
    }
}
