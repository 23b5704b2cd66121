// SPDX-License-Identifier: Apache-2.0
//! A port on its link, as all protocols that it speaks know it: its addresses and tags, the stations emulated behind it, its neighbors.
use std::net::{IpAddr, Ipv6Addr};

use spate_net::vlan::Tags;

use crate::{
    Config, Interest, Mac, Neighbour, TableFull,
    address::{is_link_local, link_local},
    interest::Wanted,
    message::Station,
    range::Range,
    table::{Table, Target},
};

/// A port's addresses, those of the stations emulated behind it, and its neighbors.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// The port's own MAC and tags.
    pub(crate) station: Station,
    pub(crate) config: Config,
    /// Derived from the port's MAC, if it has IPv6.
    pub(crate) link_local: Option<Ipv6Addr>,
    /// See `normalize_outer_ethertype`.
    outer_ethertype_lost: bool,
    /// Address ranges of emulated stations, and their owners.
    ranges: Vec<(u64, Range)>,
    /// The neighbors that the port, its protocols and emulated stations look for.
    pub(crate) table: Table,
}

impl Link {
    /// A port with this MAC and a configuration that is checked. It wants its gateways at once.
    pub(crate) fn new(mac: Mac, config: Config, now_ns: u64) -> Self {
        let v6 = config.gateway_v6.is_some() || config.addresses.iter().any(|own| own.address.is_ipv6());
        let mut this = Self {
            station: Station { mac, tags: config.vlan.into() },
            link_local: v6.then(|| link_local(mac)),
            config,
            outer_ethertype_lost: false,
            ranges: Vec::new(),
            table: Table::default(),
        };
        for gateway in this.gateways() {
            // An empty table has room for two.
            let _ = this.want(gateway, now_ns);
        }
        this
    }

    /// From now on the outermost tag of a frame that is received is seen as a customer's, whatever it was.
    pub(crate) fn normalize_outer_ethertype(&mut self) {
        self.outer_ethertype_lost = true;
    }

    /// How tags of a frame are seen when it is received.
    fn seen(&self, tags: Tags) -> Tags {
        if self.outer_ethertype_lost { tags.with_customer_outermost() } else { tags }
    }

    /// The tags of a frame that is received with these, as its sender wrote them: those of stations here, if they are seen so.
    pub(crate) fn written(&self, seen: Tags) -> Tags {
        if seen == self.station.tags {
            return seen;
        }
        let mut known = self.ranges.iter().filter_map(|(_, range)| range.tags);
        known.find(|tags| self.seen(*tags) == seen).unwrap_or(seen)
    }

    /// Which frames concern its addresses, and those that protocols want besides.
    pub(crate) fn interest(&self, wanted: Wanted) -> Interest {
        let ranges = self.ranges.iter().map(|(_, range)| *range);
        Interest::new(self.station.tags, self.own(), ranges, wanted, |tags| self.seen(tags))
    }

    /// Answers for the addresses of emulated stations from now on, until `release`d for the same owner.
    pub(crate) fn hold(&mut self, owner: u64, ranges: &[Range]) {
        self.ranges.extend(ranges.iter().map(|range| (owner, *range)));
    }

    /// Answers no more for what an owner holds.
    pub(crate) fn release(&mut self, owner: u64) {
        self.ranges.retain(|(other, _)| *other != owner);
    }

    /// Where an address is in a VLAN, if it is the port's own or that of a station emulated behind it.
    pub(crate) fn here(&self, tags: Tags, address: IpAddr) -> Option<Mac> {
        let Station { mac: own, tags: own_tags } = self.station;
        let in_vlan = |range: &Range| range.tags.unwrap_or(own_tags) == tags;
        let emulated =
            || self.ranges.iter().filter(|(_, range)| in_vlan(range)).find_map(|(_, range)| range.mac(address, own));
        if tags == own_tags && self.own().any(|mine| mine == address) { Some(own) } else { emulated() }
    }

    /// Its gateways.
    pub(crate) fn gateways(&self) -> Vec<IpAddr> {
        let v4 = self.config.gateway_v4.map(IpAddr::V4);
        v4.into_iter().chain(self.config.gateway_v6.map(IpAddr::V6)).collect()
    }

    /// The port's own addresses.
    pub(crate) fn own(&self) -> impl Iterator<Item = IpAddr> {
        let given = self.config.addresses.iter().map(|own| own.address);
        given.chain(self.link_local.map(IpAddr::V6))
    }

    /// The own address from which a neighbor is requested: that of its subnet, else any of its kind.
    pub(crate) fn source_for(&self, neighbour: IpAddr) -> Option<IpAddr> {
        if let IpAddr::V6(address) = neighbour
            && is_link_local(address)
            && let Some(own) = self.link_local
        {
            return Some(own.into());
        }
        let of_kind = || self.config.addresses.iter().filter(|own| own.address.is_ipv4() == neighbour.is_ipv4());
        let own = of_kind().find(|own| own.contains(neighbour)).or_else(|| of_kind().next());
        let fallback = self.link_local.filter(|_| neighbour.is_ipv6()).map(IpAddr::V6);
        own.map(|own| own.address).or(fallback)
    }

    /// Resolves a neighbor from now on; resolves again one that did not answer.
    pub(crate) fn want(&mut self, neighbour: IpAddr, now_ns: u64) -> Result<(), TableFull> {
        self.table.want(self.target(neighbour), now_ns)
    }

    /// What is known of a neighbor; none if it was never wanted.
    pub(crate) fn neighbour(&self, address: IpAddr) -> Option<Neighbour> {
        self.table.get(self.target(address))
    }

    /// An address in the port's own tags.
    pub(crate) fn target(&self, address: IpAddr) -> Target {
        Target { tags: self.station.tags, address }
    }
}
