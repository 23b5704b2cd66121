// SPDX-License-Identifier: Apache-2.0
//! GRE (RFC 2784) as a kind of tunnel: packets follow a header that names their protocol and may have a key (RFC 2890), which then is the
//! identifier. Neither checksums nor sequence numbers are sent.
use spate_net::{
    encap::{Carries, Encap},
    ethernet::{IPV4, IPV6},
    gre::{Header, KEY, PROTOCOL, PROTOCOL_TYPE, header},
    ip::Version,
};

use crate::{
    counters::Count,
    tunnel::{Malformed, Message, Over, TunnelDirection, Tunnelling},
};

/// Settings of GRE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gre {
    /// Whether packets have a key.
    pub keyed: bool,
}

impl Tunnelling for Gre {
    fn over(&self) -> Over {
        Over::Ip(PROTOCOL)
    }

    fn carries(&self) -> Carries {
        Carries::Packet
    }

    fn has_id(&self) -> bool {
        self.keyed
    }

    fn encap(&self, _: TunnelDirection, v6: bool) -> Encap {
        let encap = Encap::over_ip(v6, PROTOCOL, self.carries(), header(self.keyed)).with_ethertype(PROTOCOL_TYPE);
        if self.keyed { encap.with_id(KEY) } else { encap }
    }

    fn read<'a>(&self, message: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let Header { protocol_type, key, len } = Header::read(message).map_err(|_| Malformed)?;
        let version = match protocol_type {
            IPV4 => Version::V4,
            IPV6 => Version::V6,
            _ => return Ok(Message::Other(Count::GreOthers)),
        };
        let data = &message[len..];
        if Version::of_packet(data) != Some(version) {
            return Err(Malformed);
        }
        Ok(Message::Carried { id: key, data })
    }

    fn counts(&self) -> (Count, Count) {
        (Count::GreUnknownTunnel, Count::GreMalformed)
    }
}
