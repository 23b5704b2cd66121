// SPDX-License-Identifier: Apache-2.0
//! VXLAN (RFC 7348) as a kind of tunnel: near ends and the remote end are VTEPs, identifiers are VNIs, in the upper 24 bits of their
//! field. Frames within are the clients': only IP to stations is taken from them.
use spate_net::{
    encap::{Carries, Encap},
    ethernet::{IPV4, IPV6, Link},
    vxlan::{Message as Read, VALID, VNI_SHIFT},
};

pub use spate_net::vxlan::PORT;

use crate::{
    counters::Count,
    tunnel::{Malformed, Message, Over, TunnelDirection, Tunnelling},
};

/// Settings of VXLAN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vxlan {
    /// MAC that frames of clients within go to; none: that of the port's next hop.
    pub gateway_mac: Option<[u8; 6]>,
}

impl Tunnelling for Vxlan {
    fn over(&self) -> Over {
        Over::Udp(PORT)
    }

    fn carries(&self) -> Carries {
        Carries::Frame
    }

    fn inner_gateway(&self) -> Option<[u8; 6]> {
        self.gateway_mac
    }

    fn encap(&self, _: TunnelDirection, v6: bool) -> Encap {
        Encap::over_udp(v6, self.carries(), &[VALID, 0, 0, 0, 0, 0, 0, 0]).with_id(4)
    }

    fn read<'a>(&self, message: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let Read { vni, frame: data } = Read::read(message).map_err(|_| Malformed)?;
        let link = Link::find(data).ok_or(Malformed)?;
        // Such as ARP. Frames with tags are dropped (RFC 7348 section 6.1).
        let to_station = data[0] & 1 == 0;
        if !to_station || link.tag.is_some() || !matches!(link.ethertype, IPV4 | IPV6) {
            return Ok(Message::Other(Count::VxlanOthers));
        }
        Ok(Message::Carried { id: Some(vni << VNI_SHIFT), data })
    }

    fn counts(&self) -> (Count, Count) {
        (Count::VxlanUnknownTunnel, Count::VxlanMalformed)
    }
}
