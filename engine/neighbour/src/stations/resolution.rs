// SPDX-License-Identifier: Apache-2.0
//! Address resolution by ARP (RFC 826) and IPv6 neighbor discovery (RFC 4861): answers for the port's addresses and those of emulated
//! stations, asks for the neighbors that are wanted, and learns from both where they are.
use std::net::IpAddr;

use spate_net::vlan::Tags;

use crate::{
    Event, Mac, Neighbour, Output, TableFull,
    address::{ALL_NODES, BROADCAST, group_mac, solicited_node},
    link::Link,
    message::{Message, Station},
    stations::{Protocol, Received},
    table::{Claim, Learned, Request, Requester, Target},
};

/// A neighbor that an emulated station looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighborQuery {
    /// The neighbor.
    pub address: IpAddr,
    /// The station: of the same family, and its address is held.
    pub station: IpAddr,
    /// Its MAC. None: the port's.
    pub station_mac: Option<Mac>,
    /// Its tags. None: those of the port.
    pub tags: Option<Tags>,
}

impl Link {
    /// See [`crate::Interface::want_for`].
    pub(crate) fn want_for(&mut self, owner: u64, sought: &NeighborQuery, now_ns: u64) -> Result<(), TableFull> {
        let mac = sought.station_mac.unwrap_or(self.station.mac);
        let requester = Requester { address: sought.station, mac };
        self.table.want_for(owner, requester, self.sought(sought), now_ns)
    }

    /// See [`crate::Interface::found_for`].
    pub(crate) fn found_for(&self, sought: &NeighborQuery) -> Option<Neighbour> {
        self.table.get(self.sought(sought))
    }

    /// See [`crate::Interface::forget`].
    pub(crate) fn forget(&mut self, owner: u64) {
        self.table.forget(owner);
    }

    fn sought(&self, sought: &NeighborQuery) -> Target {
        Target { tags: sought.tags.unwrap_or(self.station.tags), address: sought.address }
    }
}

/// Answers and asks which MAC has an address. What it learns is in the link's table, which other protocols read.
#[derive(Clone, Debug)]
pub(crate) struct Resolution;

impl Protocol for Resolution {
    fn new(_: &Link, _: u64) -> Self {
        Self
    }

    fn receive(&mut self, link: &mut Link, received: &Received<'_>, output: &mut Output) {
        let (tags, now_ns) = (received.tags, received.now_ns);
        match received.message {
            Some(Message::Request { target, sender, mac }) => {
                // A request has the sender's MAC, too.
                heard(link, Target { tags, address: sender }, Claim { mac, overrides: true }, now_ns, output);
                if let Some(own_mac) = link.here(tags, target) {
                    output.frames.extend(answer(&Station { mac: own_mac, tags }, target, sender, mac));
                }
            }
            Some(Message::Reply { address, mac, overrides }) => {
                heard(link, Target { tags, address }, Claim { mac, overrides }, now_ns, output);
            }
            _ => {}
        }
    }

    fn poll(&mut self, link: &mut Link, now_ns: u64, output: &mut Output) {
        let (mut requests, mut lost) = (Vec::new(), Vec::new());
        link.table.poll(now_ns, &mut requests, &mut lost);
        output.frames.extend(requests.iter().filter_map(|request| ask(link, request)));
        output.events.extend(lost.into_iter().map(Event::Lost));
    }

    fn next_due_ns(&self, link: &Link) -> Option<u64> {
        link.table.next_ns()
    }
}

/// A station says that it has an address.
fn heard(link: &mut Link, target: Target, claim: Claim, now_ns: u64, output: &mut Output) {
    let (Target { tags, address }, mac) = (target, claim.mac);
    if link.here(tags, address).is_some_and(|here| here != mac) {
        output.events.push(Event::Conflict(address, mac));
        return;
    }
    match link.table.learn(target, claim, now_ns) {
        Learned::First => output.events.push(Event::Found(target, mac)),
        Learned::Moved(from) => output.events.push(Event::Moved { target, from, to: mac }),
        Learned::Nothing => {}
    }
}

/// Answers a request for an address of the station.
fn answer(station: &Station, own: IpAddr, requester: IpAddr, mac: Mac) -> Option<Vec<u8>> {
    match (own, requester) {
        (IpAddr::V4(own), IpAddr::V4(requester)) => Some(station.arp(mac, 2, own, mac, requester)),
        // A sender without an address wants this one (duplicate address detection): all must receive that it is taken (RFC
        // 4861 §7.2.4).
        (IpAddr::V6(own), IpAddr::V6(requester)) if requester.is_unspecified() => {
            Some(station.advertisement(group_mac(ALL_NODES.into()), own, ALL_NODES, false))
        }
        (IpAddr::V6(own), IpAddr::V6(requester)) => Some(station.advertisement(mac, own, requester, true)),
        _ => None,
    }
}

/// The request for a neighbor; none if the port has no address of its family.
fn ask(link: &Link, request: &Request) -> Option<Vec<u8>> {
    let Target { tags, address } = request.target;
    let (mac, from) = match request.requester {
        Some(requester) => (requester.mac, requester.address),
        None => (link.station.mac, link.source_for(address)?),
    };
    let station = Station { mac, tags };
    match (address, from) {
        (IpAddr::V4(target), IpAddr::V4(from)) => {
            Some(station.arp(request.mac.unwrap_or(BROADCAST), 1, from, [0; 6], target))
        }
        (IpAddr::V6(target), IpAddr::V6(from)) => {
            let (mac, to) = match request.mac {
                Some(mac) => (mac, target),
                None => (group_mac(solicited_node(target).into()), solicited_node(target)),
            };
            Some(station.solicitation(mac, from, to, target))
        }
        _ => None,
    }
}
