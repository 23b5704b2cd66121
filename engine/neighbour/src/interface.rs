// SPDX-License-Identifier: Apache-2.0
//! A port with addresses on its link: its configuration, and what reaches the protocols that it speaks and comes from them.
use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use spate_net::{Address, vlan::MAX_VLAN};

use crate::{
    Interest, Mac, Neighbour, NextHop, NoRoute, Ping, PingError, PingEvent, Prefix, Range, Sought, TableFull, Target,
    address::{is_link_local, is_reported},
    frame::Frame,
    interest::Wanted,
    link::Link,
    message::Message,
    stations::{
        Protocols, Received,
        membership::{Group, MOST_GROUPS, MOST_SOURCES},
    },
};

/// Addresses that a port can be given.
pub const MOST_ADDRESSES: usize = 64;

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
}

/// Why a configuration is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Too many.
    #[error("{0} addresses; a port can have {MOST_ADDRESSES}")]
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
    /// The address is no multicast group.
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
    #[error("{0} groups; a port can be a member of {MOST_GROUPS}")]
    TooManyGroups(usize),
    /// Too many.
    #[error("{1} sources of group {0}; a group can have {MOST_SOURCES}, or all if none is given")]
    TooManySources(IpAddr, usize),
    /// The VLAN identifier is not valid.
    #[error("VLAN {0} does not exist: they are 1..{MAX_VLAN}")]
    Vlan(u16),
}

/// Output of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Frames to send, without FCS.
    pub frames: Vec<Vec<u8>>,
    /// Frames to send, and where the time at which each leaves is to be written ([`crate::STAMP`]).
    pub stamped: Vec<(Vec<u8>, usize)>,
    /// Events to report.
    pub events: Vec<Event>,
}

/// Event on the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A neighbor was found.
    Found(Target, Mac),
    /// A neighbor has another MAC than before.
    Moved {
        /// The neighbor.
        target: Target,
        /// Its MAC until now.
        from: Mac,
        /// Its MAC from now on.
        to: Mac,
    },
    /// A neighbor does not answer.
    Lost(Target),
    /// A station with this MAC has an address of this port.
    Conflict(IpAddr, Mac),
    /// Membership is reported in this version from now on, as a querier on the link knows no other.
    Reports(&'static str),
    /// Event of the ping with this number.
    Ping(u64, PingEvent),
}

/// A port on its link.
#[derive(Clone, Debug)]
pub struct Interface {
    link: Link,
    protocols: Protocols,
}

impl Interface {
    /// A port with this MAC, at an instant. It wants its gateways at once.
    ///
    /// # Errors
    /// If a port cannot be what the configuration says.
    pub fn new(mac: Mac, config: Config, now_ns: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let link = Link::new(mac, config, now_ns);
        Ok(Self { protocols: Protocols::new(&link, now_ns), link })
    }

    /// From now on the outermost tag of a frame that is received is seen as a customer's, whatever it was.
    pub fn lose_outer_ethertype(&mut self) {
        self.link.lose_outer_ethertype();
    }

    /// Which frames to pass to `receive`.
    pub fn interest(&self) -> Interest {
        let mut wanted = Wanted::default();
        self.protocols.iter().for_each(|protocol| protocol.interest(&mut wanted));
        self.link.interest(wanted)
    }

    /// Answers for the addresses of emulated stations from now on, until `release`d for the same owner. The first owner
    /// keeps addresses that several hold.
    pub fn hold(&mut self, owner: u64, ranges: &[Range]) {
        self.link.hold(owner, ranges);
    }

    /// Answers no more for what an owner holds, and leaves the groups that it has joined.
    pub fn release(&mut self, owner: u64, now_ns: u64) {
        self.link.release(owner);
        self.protocols.membership.leave(owner, now_ns);
    }

    /// Becomes a member of a group until `release`d for the same owner. False if it is a member of as many as it can be.
    #[must_use]
    pub fn join(&mut self, owner: u64, group: &Group, now_ns: u64) -> bool {
        self.protocols.membership.join(owner, group, now_ns)
    }

    /// Its configuration.
    pub fn config(&self) -> &Config {
        &self.link.config
    }

    /// Its gateways.
    pub fn gateways(&self) -> Vec<IpAddr> {
        self.link.gateways()
    }

    /// Takes a frame that arrives now.
    pub fn receive(&mut self, bytes: &[u8], now_ns: u64, output: &mut Output) {
        self.receive_arrived(bytes, now_ns, now_ns, output);
    }

    /// Takes a frame that arrived at an instant of the clock by which requests of pings are stamped.
    pub fn receive_arrived(&mut self, bytes: &[u8], arrived_ns: u64, now_ns: u64, output: &mut Output) {
        let Some(frame) = Frame::parse(bytes) else { return };
        // Frames of the port itself may come back from a hub.
        if frame.source == self.link.station.mac {
            return;
        }
        let (tags, message) = (self.link.written(frame.tags), Message::parse(&frame));
        let received = Received { frame, tags, message, arrived_ns, now_ns };
        for protocol in self.protocols.iter_mut() {
            protocol.receive(&mut self.link, &received, output);
        }
    }

    /// Does what is due at an instant: announces the port's addresses, asks for neighbors, reports groups, sends echo requests.
    pub fn poll(&mut self, now_ns: u64, output: &mut Output) {
        for protocol in self.protocols.iter_mut() {
            protocol.poll(&mut self.link, now_ns, output);
        }
    }

    /// When to call `poll` next.
    pub fn next_ns(&self) -> Option<u64> {
        self.protocols.iter().filter_map(|protocol| protocol.next_due_ns(&self.link)).min()
    }

    /// Sends echo requests from now on, until it has had all replies or is stopped by its number.
    ///
    /// # Errors
    /// If nothing leads to the destination, the port has no such address, or as many pings are under way as can be.
    pub fn ping(&mut self, id: u64, ping: Ping, now_ns: u64) -> Result<(), PingError> {
        self.protocols.pings.start(&mut self.link, id, ping, now_ns)
    }

    /// Sends no more requests of a ping.
    pub fn stop_ping(&mut self, id: u64) {
        self.protocols.pings.stop(&mut self.link, id);
    }

    /// Where a packet of this content has to go.
    ///
    /// # Errors
    /// If nothing leads there.
    pub fn next_hop(&self, packet: &[u8]) -> Result<NextHop, NoRoute> {
        self.link.next_hop(packet)
    }

    /// Resolves a neighbor from now on; resolves again one that did not answer.
    ///
    /// # Errors
    /// If as many are looked for as can be.
    pub fn want(&mut self, neighbour: IpAddr, now_ns: u64) -> Result<(), TableFull> {
        self.link.want(neighbour, now_ns)
    }

    /// What is known of a neighbor; none if it was never wanted.
    pub fn neighbour(&self, address: IpAddr) -> Option<Neighbour> {
        self.link.neighbour(address)
    }

    /// Looks for a neighbor in the place of an emulated station and in its VLAN, from now on until its owner `forget`s it. The station's
    /// MAC is the port's if none is given.
    ///
    /// # Errors
    /// If as many are looked for as can be.
    pub fn want_for(&mut self, owner: u64, sought: &Sought, now_ns: u64) -> Result<(), TableFull> {
        self.link.want_for(owner, sought, now_ns)
    }

    /// What is known of a neighbor that is, or was, wanted for a station.
    pub fn found_for(&self, sought: &Sought) -> Option<Neighbour> {
        self.link.found_for(sought)
    }

    /// What is known of a neighbor in any tags; none if it is not wanted.
    pub fn known(&self, target: Target) -> Option<Neighbour> {
        self.link.table.get(target)
    }

    /// Looks no more for the neighbors that an owner wanted for stations.
    pub fn forget(&mut self, owner: u64) {
        self.link.forget(owner);
    }
}

impl Config {
    /// Checks the configuration.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (config, addresses) = (self, &self.addresses);
        if addresses.len() > MOST_ADDRESSES {
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
        if groups.len() > MOST_GROUPS {
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
            if sources.len() > MOST_SOURCES {
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

#[cfg(test)]
mod tests;
