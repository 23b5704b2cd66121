// SPDX-License-Identifier: Apache-2.0
//! The configuration of a port on its link, and what can be wrong with it.
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use spate_net::{Address, vlan::MAX_VLAN};

use crate::{
    Prefix,
    address::{is_link_local, is_reported},
    stations::membership::{Group, MAX_GROUPS, MAX_SOURCES},
};

/// Addresses that a port can be given.
pub const MAX_ADDRESSES: usize = 64;

/// Link-layer configuration of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Its addresses.
    pub addresses: Vec<Prefix>,
    /// Where IPv4 packets go that are for no subnet of its own.
    pub gateway_v4: Option<Ipv4Addr>,
    /// Gateway over IPv6.
    pub gateway_v6: Option<Ipv6Addr>,
    /// Multicast groups that it receives.
    pub groups: Vec<Group>,
    /// VLAN identifier (802.1Q) of all it sends; frames of other VLANs and without one do not concern it.
    pub vlan: Option<u16>,
    /// A program behind the port speaks OSPF and RIP on its link: their groups are received.
    pub routing: bool,
}

/// Why a configuration is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Too many.
    #[error("{0} addresses; a port can have {MAX_ADDRESSES}")]
    TooManyAddresses(usize),
    /// An address is given twice.
    #[error("address {0} is given twice; give each once")]
    Twice(IpAddr),
    /// The gateway is not on the link.
    #[error("gateway {0} is in no subnet of the port's addresses: give the port an address of the gateway's subnet")]
    GatewayOffLink(IpAddr),
    /// The port itself.
    #[error("gateway {0} is the port's own address")]
    GatewayIsOwn(IpAddr),
    /// Not multicast.
    #[error(
        "group {0} is no multicast address that hosts report; must be in 224.0.0.0/4 or ff00::/8, and not 224.0.0.1, ff02::1 or of a scope within a host"
    )]
    NoGroup(IpAddr),
    /// A group is given twice.
    #[error("group {0} is given twice; give all of its sources at once")]
    GroupTwice(IpAddr),
    /// A source that no packet can have.
    #[error("source {1} of group {0} is no address of a host of its family")]
    Source(IpAddr, IpAddr),
    /// Too many.
    #[error("{0} groups; a port can be a member of {MAX_GROUPS}")]
    TooManyGroups(usize),
    /// Too many.
    #[error("{1} sources of group {0}; a group can have {MAX_SOURCES}, or all if none is given")]
    TooManySources(IpAddr, usize),
    /// The VLAN identifier is not valid.
    #[error("VLAN {0} does not exist: they are 1..{MAX_VLAN}")]
    Vlan(u16),
}

impl Config {
    /// Checks the configuration.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (config, addresses) = (self, &self.addresses);
        if addresses.len() > MAX_ADDRESSES {
            return Err(ConfigError::TooManyAddresses(addresses.len()));
        }
        let twice =
            addresses.iter().enumerate().find(|(i, own)| addresses[..*i].iter().any(|a| a.address == own.address));
        if let Some((_, own)) = twice {
            return Err(ConfigError::Twice(own.address));
        }
        let gateways = [config.gateway_v4.map(IpAddr::V4), config.gateway_v6.map(IpAddr::V6)];
        for gateway in gateways.into_iter().flatten() {
            if addresses.iter().any(|own| own.address == gateway) {
                return Err(ConfigError::GatewayIsOwn(gateway));
            }
            // A router may be known by its link-local address only.
            let linked = matches!(gateway, IpAddr::V6(gateway) if is_link_local(gateway));
            if !linked && !addresses.iter().any(|own| own.contains(gateway)) {
                return Err(ConfigError::GatewayOffLink(gateway));
            }
        }
        self.check_groups()?;
        match config.vlan {
            Some(vlan) if !(1..=MAX_VLAN).contains(&vlan) => Err(ConfigError::Vlan(vlan)),
            _ => Ok(()),
        }
    }

    fn check_groups(&self) -> Result<(), ConfigError> {
        let groups = &self.groups;
        if groups.len() > MAX_GROUPS {
            return Err(ConfigError::TooManyGroups(groups.len()));
        }
        let mut seen = BTreeSet::new();
        for Group { address, sources } in groups {
            if !is_reported(*address) {
                return Err(ConfigError::NoGroup(*address));
            }
            if !seen.insert(*address) {
                return Err(ConfigError::GroupTwice(*address));
            }
            if sources.len() > MAX_SOURCES {
                return Err(ConfigError::TooManySources(*address, sources.len()));
            }
            let hosts = |source: &IpAddr| source.is_ipv4() == address.is_ipv4() && Address::from(*source).is_hosts();
            if let Some(source) = sources.iter().find(|source| !hosts(source)) {
                return Err(ConfigError::Source(*address, *source));
            }
        }
        Ok(())
    }
}
