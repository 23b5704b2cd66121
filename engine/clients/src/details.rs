// SPDX-License-Identifier: Apache-2.0
//! What there is to say of one client, and the addresses from which packets can be sent.
use core::net::{Ipv4Addr, Ipv6Addr};

use spate_net::{Address, ethernet::Mac, vlan::Tags};

use crate::{
    client::{Cause, NEVER, State, is},
    group::Group,
};

/// A client in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Details {
    /// Its number, over all engines.
    pub number: u64,
    /// Its MAC.
    pub mac: Mac,
    /// Its VLAN tags.
    pub tags: Tags,
    /// Its state.
    pub state: State,
    /// Why it has failed, if it has.
    pub cause: Option<Cause>,
    /// From when it started until it was bound, if it was.
    pub setup_ns: Option<u64>,
    /// Its IPv4, once a server or its configuration has given it an address.
    pub ipv4: Option<Details4>,
    /// Its IPv6, once it has an address.
    pub ipv6: Option<Details6>,
    /// The number of the client that has the address that this one was given, too.
    pub given_twice: Option<u64>,
}

/// A client's IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Details4 {
    /// Its address, be it offered only.
    pub address: Ipv4Addr,
    /// Length of its subnet's prefix, if that is known.
    pub prefix_len: Option<u8>,
    /// Its gateway.
    pub gateway: Option<Ipv4Addr>,
    /// Where that is.
    pub gateway_mac: Option<Mac>,
    /// The server that gave it the address.
    pub server: Option<Ipv4Addr>,
    /// What is left of its lease; none: it has no lease, or one without an end.
    pub lease_left_ns: Option<u64>,
}

/// A client's IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Details6 {
    /// Its link-local address.
    pub link_local: Ipv6Addr,
    /// Its address of the advertised prefix.
    pub slaac: Option<Ipv6Addr>,
    /// Its leased address.
    pub leased: Option<Ipv6Addr>,
    /// The prefix that is delegated to it.
    pub delegated: Option<(Ipv6Addr, u8)>,
    /// Its router.
    pub router: Option<Ipv6Addr>,
    /// Where that is.
    pub router_mac: Option<Mac>,
    /// What is left of its lease; none: it has no lease, or one without an end.
    pub lease_left_ns: Option<u64>,
}

/// An address of a client from which packets can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The client's index in its group.
    pub index: u32,
    /// The address.
    pub address: Address,
    /// The client's MAC.
    pub mac: Mac,
    /// Its VLAN tags.
    pub tags: Tags,
    /// The MAC of its gateway or router, once that is known.
    pub next_hop: Option<Mac>,
}

fn known(mac: Mac) -> Option<Mac> {
    Some(mac).filter(|mac| *mac != [0; 6])
}

fn given(address: u32) -> Option<Ipv4Addr> {
    (address != 0).then(|| Ipv4Addr::from_bits(address))
}

impl Group {
    /// A client in full.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn details(&self, index: u32, now_ns: u64) -> Details {
        let (state, cause) = self.state(index);
        let client = &self.clients[index];
        let twice = |(address, tags)| self.holder4(address, tags).filter(|other| *other != index);
        let twice6 = |(address, tags)| self.holder6(address, tags).filter(|other| *other != index);
        let tags = self.layout.tags(index);
        let given_twice = if cause == Some(Cause::AddressGivenTwice) {
            let leased = self.six.get(index as usize).map(|six| (six.address, tags));
            twice((client.v4.address, tags)).or_else(|| leased.and_then(twice6))
        } else {
            None
        };
        Details {
            number: self.layout.number(index),
            mac: self.layout.mac(index),
            tags,
            state,
            cause,
            setup_ns: (client.setup_us > 0).then(|| u64::from(client.setup_us) * 1000),
            ipv4: self.details4(index, now_ns),
            ipv6: self.details6(index, now_ns),
            given_twice: given_twice.map(|other| self.layout.number(other)),
        }
    }

    fn details4(&self, index: u32, now_ns: u64) -> Option<Details4> {
        let v4 = &self.clients[index].v4;
        let ends_ns = if v4.has_address() { v4.at(v4.lease_s) } else { NEVER };
        Some(Details4 {
            address: given(v4.address)?,
            prefix_len: Some(v4.prefix_len).filter(|len| *len > 0),
            gateway: given(v4.gateway),
            gateway_mac: known(v4.gateway_mac),
            server: given(v4.server),
            lease_left_ns: (ends_ns != NEVER).then(|| ends_ns.saturating_sub(now_ns)),
        })
    }

    fn details6(&self, index: u32, now_ns: u64) -> Option<Details6> {
        let (client, six) = (&self.clients[index], self.six.get(index as usize)?);
        let leased = client.has(is::LEASED6);
        let ends_ns = if leased { self.lease6_ns(index, six.valid_s, now_ns) } else { NEVER };
        let router = self.routers.get(six.router);
        client.has(is::LINK_LOCAL).then(|| Details6 {
            link_local: Ipv6Addr::from_bits(self.link_local(index)),
            slaac: client.has(is::SLAAC).then(|| Ipv6Addr::from_bits(self.slaac_address(index, six.prefix))),
            leased: client.has(is::ADDRESS6).then(|| Ipv6Addr::from_bits(six.address)),
            delegated: (leased && six.delegated_len() > 0)
                .then(|| (Ipv6Addr::from_bits(u128::from(six.delegated) << 64), six.delegated_len())),
            router: router.map(|router| Ipv6Addr::from_bits(router.address)),
            router_mac: router.map(|router| router.mac),
            lease_left_ns: (ends_ns != NEVER).then(|| ends_ns.saturating_sub(now_ns)),
        })
    }

    /// The clients in the order of their indices, in full.
    pub fn list(&self, now_ns: u64) -> impl Iterator<Item = Details> {
        (0..self.layout.count()).map(move |index| self.details(index, now_ns))
    }

    /// The IPv4 addresses of the clients that have theirs.
    pub fn sources4(&self) -> impl Iterator<Item = Source> {
        (0..self.layout.count()).filter_map(|index| self.source4(index))
    }

    /// The IPv4 address of a client that has its addresses.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn source4(&self, index: u32) -> Option<Source> {
        let v4 = &self.clients[index].v4;
        let address = v4.has_address().then(|| Address::v4(v4.address))?;
        self.is_usable(index).then(|| self.source(index, address, known(v4.gateway_mac)))
    }

    /// The IPv6 addresses of the clients that have theirs: the leased one, or that of an advertised prefix.
    pub fn sources6(&self) -> impl Iterator<Item = Source> {
        (0..self.layout.count()).filter_map(|index| self.source6(index))
    }

    /// The IPv6 address of a client that has its addresses.
    ///
    /// # Panics
    /// If there is no such client.
    pub fn source6(&self, index: u32) -> Option<Source> {
        let (client, six) = (&self.clients[index], self.six.get(index as usize)?);
        let address = if client.has(is::ADDRESS6) {
            six.address
        } else {
            client.has(is::SLAAC).then(|| self.slaac_address(index, six.prefix))?
        };
        let next_hop = self.routers.get(six.router).map(|router| router.mac);
        self.is_usable(index).then(|| self.source(index, Address(address), next_hop))
    }

    fn is_usable(&self, index: u32) -> bool {
        self.state(index).0.is_usable()
    }

    fn source(&self, index: u32, address: Address, next_hop: Option<Mac>) -> Source {
        Source { index, address, mac: self.layout.mac(index), tags: self.layout.tags(index), next_hop }
    }
}
