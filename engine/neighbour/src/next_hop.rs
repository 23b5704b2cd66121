// SPDX-License-Identifier: Apache-2.0
//! Where packets of a port have to go: to a neighbor on its link, its gateway, or a group.
use std::net::IpAddr;

use crate::{
    Mac, TableFull,
    address::{group_mac, is_group, is_link_local},
    link::Link,
    message::ip_destination,
};

/// Next hop of a stream's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextHop {
    /// Known without asking: a group, or the port itself.
    Here(Mac),
    /// Packets go to this neighbor, which [`crate::Interface::want`] looks for.
    Neighbour(IpAddr),
}

/// Why a packet has no next hop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoute {
    /// The port has no address of that kind.
    #[error("the port has no IPv{0} address: give it one")]
    NoAddress(u8),
    /// The destination is not on the link, and there is no gateway.
    #[error("{to} is in no subnet of the port ({subnets}) and it has no gateway: give it one")]
    NoGateway {
        /// The packet's destination.
        to: IpAddr,
        /// The port's addresses.
        subnets: String,
    },
    /// The packet has no destination address that could be routed.
    #[error("the packet has no IP header behind Ethernet and VLAN, and the port has no gateway: give it one")]
    NoDestination,
    /// The table has no room.
    #[error(transparent)]
    TableFull(#[from] TableFull),
}

impl Link {
    /// Next hop of a packet.
    pub(crate) fn next_hop(&self, packet: &[u8]) -> Result<NextHop, NoRoute> {
        let Some(to) = ip_destination(packet) else {
            return self.gateways().first().map(|&gateway| NextHop::Neighbour(gateway)).ok_or(NoRoute::NoDestination);
        };
        self.hop_to(to)
    }

    /// Next hop of packets to an address.
    pub(crate) fn hop_to(&self, to: IpAddr) -> Result<NextHop, NoRoute> {
        if is_group(to) || self.config.addresses.iter().any(|own| own.is_broadcast(to)) {
            return Ok(NextHop::Here(group_mac(to)));
        }
        if self.own().any(|own| own == to) {
            return Ok(NextHop::Here(self.station.mac));
        }
        let linked = matches!(to, IpAddr::V6(to) if is_link_local(to)) && self.link_local.is_some();
        if linked || self.config.addresses.iter().any(|own| own.contains(to)) {
            // A station emulated behind this port itself would not receive a request.
            return Ok(self.here(self.station.tags, to).map_or(NextHop::Neighbour(to), NextHop::Here));
        }
        if let Some(gateway) = self.gateways().into_iter().find(|gateway| gateway.is_ipv4() == to.is_ipv4()) {
            return Ok(NextHop::Neighbour(gateway));
        }
        let subnets: Vec<String> = self.config.addresses.iter().map(ToString::to_string).collect();
        if !self.config.addresses.iter().any(|own| own.address.is_ipv4() == to.is_ipv4()) {
            return Err(NoRoute::NoAddress(if to.is_ipv4() { 4 } else { 6 }));
        }
        Err(NoRoute::NoGateway { to, subnets: subnets.join(", ") })
    }
}
