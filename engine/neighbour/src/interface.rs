// SPDX-License-Identifier: Apache-2.0
//! A port with addresses on its link: what reaches the protocols that it speaks and comes from them.
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::{
    Config, ConfigError, Interest, Mac, NeighborQuery, Neighbour, NextHop, NoRoute, Output, Ping, PingError, Range,
    TableFull, Target,
    address::group_mac,
    frame::Frame,
    interest::Wanted,
    link::Link,
    message::Message,
    stations::{Protocols, Received, membership::Group},
};

/// Groups of all OSPF routers, of designated ones, and of all RIP routers (RFC 2328 and RFC 5340 appendix A.1, RFC 2453 section 4.5,
/// RFC 2080). The program behind the port joins them by the kernel, which reports membership where hosts do.
const ROUTING_GROUPS: [IpAddr; 6] = [
    IpAddr::V4(Ipv4Addr::new(224, 0, 0, 5)),
    IpAddr::V4(Ipv4Addr::new(224, 0, 0, 6)),
    IpAddr::V4(Ipv4Addr::new(224, 0, 0, 9)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 6)),
    IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 9)),
];

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
    pub fn normalize_outer_ethertype(&mut self) {
        self.link.normalize_outer_ethertype();
    }

    /// Which frames to pass to `receive`.
    pub fn interest(&self) -> Interest {
        let mut wanted = Wanted::default();
        if self.config().routing {
            wanted.groups.extend(ROUTING_GROUPS.map(group_mac));
        }
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
    pub fn want_for(&mut self, owner: u64, sought: &NeighborQuery, now_ns: u64) -> Result<(), TableFull> {
        self.link.want_for(owner, sought, now_ns)
    }

    /// What is known of a neighbor that is, or was, wanted for a station.
    pub fn found_for(&self, sought: &NeighborQuery) -> Option<Neighbour> {
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

#[cfg(test)]
mod tests;
