// SPDX-License-Identifier: Apache-2.0
//! GTP-U (3GPP TS 29.281) as a kind of tunnel: near ends are gNBs, the remote end is a UPF, identifiers are TEIDs. Answers to echo
//! requests are all that an end sends of its own.
use spate_net::{
    encap::{Carries, Encap},
    gtpu::{EXTENDED, G_PDU, Message as Read, NUMBERED, OPTIONAL, SESSION_CONTAINER, VERSION_1},
};

pub use spate_net::gtpu::PORT;

use crate::{
    counters::Count,
    tunnel::{Answer, Malformed, Message, Over, TunnelDirection, Tunnelling},
};

/// Types of messages (TS 29.281 section 6.1).
const ECHO_REQUEST: u8 = 1;
const ECHO_RESPONSE: u8 = 2;
const ERROR_INDICATION: u8 = 26;
const END_MARKER: u8 = 254;
/// Information element of echo responses; its value is always 0 (TS 29.281 section 8.2).
const RECOVERY: [u8; 2] = [14, 0];

/// Settings of GTP-U.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gtpu {
    /// QoS flow identifier of a PDU session container; none: there is no such header.
    pub qfi: Option<u8>,
}

impl Tunnelling for Gtpu {
    fn over(&self) -> Over {
        Over::Udp(PORT)
    }

    fn carries(&self) -> Carries {
        Carries::Packet
    }

    fn encap(&self, way: TunnelDirection, v6: bool) -> Encap {
        // The container's type: 0 of downlink, 1 of uplink.
        let kind = if way == TunnelDirection::Up { 0x10 } else { 0 };
        let session = self.qfi.map(|qfi| [0, 0, 0, SESSION_CONTAINER, 1, kind, qfi & 0x3f, 0]);
        let flags = VERSION_1 | if session.is_some() { EXTENDED } else { 0 };
        let mut header = vec![flags, G_PDU, 0, 0, 0, 0, 0, 0];
        header.extend(session.into_iter().flatten());
        Encap::over_udp(v6, self.carries(), &header).with_length(2).with_id(4)
    }

    fn read<'a>(&self, message: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let message = Read::read(message).map_err(|_| Malformed)?;
        Ok(match message.kind {
            G_PDU => Message::Carried { id: Some(message.teid), data: message.payload },
            ECHO_REQUEST => Message::Request(echo_response(message.sequence.unwrap_or(0))),
            ERROR_INDICATION => Message::Other(Count::GtpuErrorIndications),
            END_MARKER => Message::Other(Count::GtpuEndMarkers),
            _ => Message::Other(Count::GtpuOthers),
        })
    }

    fn counts(&self) -> (Count, Count) {
        (Count::GtpuUnknownTunnel, Count::GtpuMalformed)
    }
}

/// TS 29.281 section 7.2.2.
fn echo_response(sequence: u16) -> Answer {
    let fields = (OPTIONAL + RECOVERY.len()) as u8;
    let [high, low] = sequence.to_be_bytes();
    let [kind, value] = RECOVERY;
    let message = [VERSION_1 | NUMBERED, ECHO_RESPONSE, 0, fields, 0, 0, 0, 0, high, low, 0, 0, kind, value];
    Answer { message, count: Count::GtpuEchoes }
}
