// SPDX-License-Identifier: Apache-2.0
//! What a port's device does of the work on frames: it completes their checksums, and cuts long frames into segments.
//!
//! What a frame must hold for it is DPDK's rule (rte_mbuf_core.h at RTE_MBUF_F_TX_TCP_CKSUM and RTE_MBUF_F_TX_TCP_SEG): no
//! checksum in its IPv4 header, and in that of TCP or UDP the sum of the pseudo header, not complemented; the sum has no length
//! if segments are to be cut.
use spate_net::checksum::fold;

use super::packet::{ETHERNET, IPV4, IPV6};

/// What is left of a frame for its port's device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// Nothing: it leaves as it is.
    #[default]
    Nothing,
    /// Its checksums.
    Checksums,
    /// To be cut into segments, each with its checksums.
    Segments,
}

/// Where the layers of a frame end, for a device that finishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
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

/// Where checksums lie in the headers of IPv4, TCP and UDP.
const IPV4_CHECKSUM: usize = 10;
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// Leaves the checksums of a frame of TCP (else UDP) to the device. `pseudo` is the sum of its pseudo header, of which `len` is
/// the length.
#[inline(never)]
pub fn leave_checksums(frame: &mut [u8], finish: Finish, tcp: bool, pseudo: u64, len: usize) {
    let v6 = frame[ETHERNET] >> 4 == 6;
    if !v6 {
        frame[ETHERNET + IPV4_CHECKSUM..][..2].fill(0);
    }
    let sum = if finish == Finish::Segments { pseudo - len as u64 } else { pseudo };
    let at = ETHERNET + if v6 { IPV6 } else { IPV4 } + if tcp { TCP_CHECKSUM } else { UDP_CHECKSUM };
    frame[at..at + 2].copy_from_slice(&fold(sum).to_be_bytes());
}

impl Layers {
    /// Of a frame that a flow has written, behind a tag of so many bytes or none. None if it is of neither TCP nor UDP.
    pub fn of(frame: &[u8], tag: usize) -> Option<Self> {
        let l2 = ETHERNET + tag;
        let (v6, l3, protocol) = match frame.get(l2)? >> 4 {
            4 => (false, 4 * usize::from(frame[l2] & 15), *frame.get(l2 + 9)?),
            _ => (true, IPV6, *frame.get(l2 + 6)?),
        };
        let (tcp, l4) = match protocol {
            6 => (true, 4 * (*frame.get(l2 + l3 + 12)? >> 4)),
            17 => (false, 8),
            _ => return None,
        };
        Some(Self { l2: l2 as u8, l3: l3 as u8, l4, v6, tcp })
    }
}
