// SPDX-License-Identifier: Apache-2.0
//! ICMP (RFC 792): errors about packets, and echo.
use crate::{
    checksum::{fold, sum},
    field::{be16, be32},
    ip::{Address, TCP, UDP},
    ipv4,
    reject::Reject,
};

/// Type of echo requests.
pub const ECHO_REQUEST: u8 = 8;
/// Type of echo replies.
pub const ECHO_REPLY: u8 = 0;
/// Offset of the checksum, and bytes of the header: type, code, checksum and four that depend on the type.
pub const CHECKSUM: usize = 2;
/// See `CHECKSUM`.
pub const HEADER: usize = 8;

/// An ICMP error: which packet of ours it is about, and what happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// Kind of the error.
    pub kind: ErrorKind,
    /// Protocol of the packet that the error is about: TCP, else UDP.
    pub tcp: bool,
    /// Source of the packet that the error is about.
    pub source: Address,
    /// Destination of the packet that the error is about.
    pub destination: Address,
    /// Source port of the packet that the error is about.
    pub source_port: u16,
    /// Destination port of the packet that the error is about.
    pub destination_port: u16,
    /// Sequence number of the packet that the error is about, if it is of TCP.
    pub seq: u32,
}

/// What happened to the packet that an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Longer than a link's MTU, which may be given (else 0), and must not be fragmented.
    TooBig(u16),
    /// Port or protocol unreachable, or prohibited.
    Refused,
    /// Network or host unreachable, time exceeded: may pass.
    Transient,
}

impl Error {
    /// Reads one that is all of an IPv4 packet's payload: behind its header are that of the packet it is about and at least 8 bytes
    /// of what follows that.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Reject> {
        if body.len() < HEADER + ipv4::HEADER + 8 {
            return Err(Reject::Other);
        }
        let kind = match (body[0], body[1]) {
            (3, 4) => ErrorKind::TooBig(be16(body, 6)),
            (3, 2 | 3 | 9 | 10 | 13) => ErrorKind::Refused,
            (3 | 11, _) => ErrorKind::Transient,
            _ => return Err(Reject::Other),
        };
        if fold(sum(body)) != 0xffff {
            return Err(Reject::Checksum);
        }
        let about = &body[HEADER..];
        let header = usize::from(about[0] & 15) * 4;
        if about[0] >> 4 != 4 || header < ipv4::HEADER || about.len() < header + 8 {
            return Err(Reject::Truncated);
        }
        let addresses = (Address::v4(be32(about, 12)), Address::v4(be32(about, 16)));
        Error::about(kind, about[9], addresses, &about[header..])
    }

    pub(crate) fn about(
        kind: ErrorKind,
        protocol: u8,
        addresses: (Address, Address),
        body: &[u8],
    ) -> Result<Self, Reject> {
        if !matches!(protocol, TCP | UDP) {
            return Err(Reject::Other);
        }
        Ok(Self {
            kind,
            tcp: protocol == TCP,
            source: addresses.0,
            destination: addresses.1,
            source_port: be16(body, 0),
            destination_port: be16(body, 2),
            seq: be32(body, 4),
        })
    }
}
