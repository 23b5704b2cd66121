// SPDX-License-Identifier: Apache-2.0
//! Which received frames concern a port's addresses: the check that the data path makes.
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use spate_net::{
    Address, AddressRanges,
    ethernet::{ARP, IPV4, IPV6},
    ip::{ICMP, ICMPV6},
    vlan::Tags,
};

use crate::{
    Mac,
    address::{ALL_NODES, group_mac, solicited_node},
    frame::Frame,
    message::SOLICITATION,
    range::{Range, number},
    stations::membership::{igmp::IGMP, mld},
};

/// Which frames are for an [`crate::Interface`]. It may let through too much, never too little.
#[derive(Clone, Debug)]
pub struct Interest {
    /// VLAN tags of the port.
    tags: Tags,
    /// Stations in the port's tags.
    here: Stations,
    /// Emulated stations in other tags.
    elsewhere: BTreeMap<Tags, Stations>,
    /// MACs of emulated stations, where they are not the port's: the first of a range, and how many more there are.
    macs: Vec<(u64, u64)>,
}

/// The highest MAC, as a number.
const MACS: u64 = u64::MAX >> 16;

/// The stations of a port in one VLAN.
#[derive(Clone, Debug, Default)]
struct Stations {
    v4: Vec<[u8; 4]>,
    v6: Vec<[u8; 16]>,
    /// The groups of `v6`, and all nodes.
    groups: Vec<[u8; 16]>,
    /// Addresses of emulated stations.
    ranges: AddressRanges,
    /// By the port's protocols, in the port's tags.
    wanted: Wanted,
}

/// Frames that protocols want in the port's tags, besides ARP, neighbor discovery and ICMP for addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Queries for multicast groups, by IGMP and MLD.
    pub(crate) queries: bool,
    /// Frames of these EtherTypes, which are none of ARP, IPv4 and IPv6.
    pub(crate) ethertypes: Vec<u16>,
    /// MACs of groups that such frames, or those of programs behind the port, are for: a device may filter others.
    pub(crate) groups: Vec<Mac>,
}

impl Interest {
    pub(crate) fn new(
        tags: Tags,
        addresses: impl Iterator<Item = IpAddr>,
        ranges: impl Iterator<Item = Range>,
        wanted: Wanted,
        seen: impl Fn(Tags) -> Tags,
    ) -> Self {
        let groups = vec![ALL_NODES.octets()];
        let mut here = Stations { groups, wanted, ..Stations::default() };
        for address in addresses {
            match address {
                IpAddr::V4(address) => here.v4.push(Ipv4Addr::octets(&address)),
                IpAddr::V6(address) => {
                    here.v6.push(address.octets());
                    here.groups.push(solicited_node(address).octets());
                }
            }
        }
        let mut by_tags: BTreeMap<Tags, Vec<Range>> = BTreeMap::new();
        let ranges: Vec<Range> = ranges.collect();
        let macs = ranges.iter().filter_map(|range| {
            let more = range.length().min(MACS.into());
            Some((number(range.first_mac?), more as u64))
        });
        let macs = macs.collect();
        ranges.into_iter().for_each(|range| by_tags.entry(range.tags.map_or(tags, &seen)).or_default().push(range));
        let union = |ranges: Vec<Range>| AddressRanges::new(ranges.iter().map(Range::ends));
        here.ranges = union(by_tags.remove(&tags).unwrap_or_default());
        // A router's advertisement in a VLAN is for all nodes.
        let nodes = || vec![ALL_NODES.octets()];
        let stations = |ranges| Stations { groups: nodes(), ranges: union(ranges), ..Stations::default() };
        let elsewhere = by_tags.into_iter().map(|(tags, ranges)| (tags, stations(ranges))).collect();
        Self { tags, here, elsewhere, macs }
    }

    /// Whether a frame is for the MAC of an emulated station that has another than the port.
    pub fn is_for_emulated_mac(&self, frame: &[u8]) -> bool {
        let Some(mac) = frame.first_chunk().map(|mac| number(*mac)) else { return false };
        self.macs.iter().any(|(first, more)| mac.wrapping_sub(*first) & MACS <= *more)
    }

    /// Where frames for it go that are for groups (neighbor solicitations are), own addresses' first; and whether that is all: no
    /// more than `most` are given.
    pub fn group_macs(&self, most: usize) -> (Vec<Mac>, bool) {
        let own = self.here.groups.iter().map(|group| Ipv6Addr::from(*group));
        let in_all_vlans = [&self.here].into_iter().chain(self.elsewhere.values());
        let emulated = in_all_vlans.flat_map(|stations| stations.ranges.v6()).flat_map(|(first, last)| {
            // The addresses differ in the last 24 bits.
            let groups = (last.0 - first.0).min((1 << 24) - 1);
            (0..=groups).map(move |n| solicited_node(Ipv6Addr::from(first.0.wrapping_add(n))))
        });
        let mut macs = Vec::new();
        let own = own.map(|group| group_mac(group.into()));
        let emulated = emulated.map(|group| group_mac(group.into()));
        for mac in own.chain(self.here.wanted.groups.iter().copied()).chain(emulated) {
            if macs.contains(&mac) {
                continue;
            }
            if macs.len() == most {
                return (macs, false);
            }
            macs.push(mac);
        }
        (macs, true)
    }

    /// Whether a frame is ARP, neighbor discovery, ICMP, a query for multicast groups or of another protocol that this port may have to do
    /// something about.
    #[inline]
    pub fn concerns(&self, bytes: &[u8]) -> bool {
        let Some(frame) = Frame::parse(bytes) else { return false };
        if frame.tags == self.tags {
            return self.here.concerns(&frame);
        }
        self.elsewhere.get(&frame.tags).is_some_and(|stations| stations.concerns(&frame))
    }
}

impl Stations {
    #[inline]
    fn concerns(&self, frame: &Frame<'_>) -> bool {
        let payload = frame.payload;
        match frame.ethertype {
            // The target is an own address, or the sender announces itself.
            ARP => payload
                .get(24..)
                .and_then(|at| at.first_chunk())
                .is_some_and(|target| self.has_v4(target) || payload.get(14..18) == Some(target)),
            IPV4 => match payload.get(9) {
                Some(&ICMP) => payload.get(16..).and_then(|at| at.first_chunk()).is_some_and(|to| self.has_v4(to)),
                Some(&IGMP) => self.wanted.queries,
                _ => false,
            },
            IPV6 if payload.get(6) == Some(&ICMPV6) => self.concerns_v6(payload),
            IPV6 => self.wanted.queries && mld::may_be_query(payload),
            other => self.wanted.ethertypes.contains(&other),
        }
    }

    #[inline]
    fn has_v4(&self, address: &[u8; 4]) -> bool {
        self.v4.contains(address) || self.ranges.contains(Address::v4(u32::from_be_bytes(*address)))
    }

    /// Whether an ICMPv6 packet concerns the port. Groups of emulated stations are too many to be compared: the target of a solicitation is
    /// compared instead.
    #[inline]
    fn concerns_v6(&self, packet: &[u8]) -> bool {
        let address = |at: usize| packet.get(at..)?.first_chunk::<16>();
        let emulated = |address: &[u8; 16]| self.ranges.contains(Address(u128::from_be_bytes(*address)));
        address(24).is_some_and(|to| self.v6.contains(to) || self.groups.contains(to) || emulated(to))
            || (packet.get(40) == Some(&SOLICITATION) && address(48).is_some_and(emulated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spate_net::{
        arp::{self, Arp},
        ethernet,
        vlan::{SERVICE, Tag},
    };

    fn range(first: &str, last: &str) -> Range {
        Range { first: first.parse().unwrap(), last: last.parse().unwrap(), step: 1, first_mac: None, tags: None }
    }

    #[test]
    fn groups_are_those_of_own_addresses_then_of_emulated_ones_each_once() {
        let own = ["198.18.0.1", "2001:db8::1:2"].map(|address| address.parse().unwrap());
        let ranges = [
            range("198.18.1.0", "198.18.1.255"),
            range("2001:db8::1:1", "2001:db8::1:3"),
            range("fd00::1:2", "fd00::1:2"),
        ];
        let interest = Interest::new(Tags::NONE, own.into_iter(), ranges.into_iter(), Wanted::default(), |tags| tags);
        let all_nodes = [0x33, 0x33, 0, 0, 0, 1];
        let group = |last| [0x33, 0x33, 0xff, 1, 0, last];
        assert_eq!(interest.group_macs(30), (vec![all_nodes, group(2), group(1), group(3)], true));
        assert!(interest.group_macs(4).1);
        assert_eq!(interest.group_macs(3), (vec![all_nodes, group(2), group(1)], false));
    }

    #[test]
    fn frames_to_stations_with_macs_of_their_own_are_theirs() {
        let ranges = [
            range("10.0.0.1", "10.0.0.9"),
            Range { first_mac: Some([2, 0, 0, 0, 0, 0xfe]), ..range("10.0.1.1", "10.0.1.4") },
            Range {
                first_mac: Some([0xfe, 0xff, 0xff, 0xff, 0xff, 0xff]),
                ..range("fd00::1", "fd00::ff:ffff:ffff:ffff")
            },
        ];
        let none = std::iter::empty::<IpAddr>;
        let (all, two) = (ranges.to_vec(), ranges[..2].to_vec());
        let [all, two] = [all, two]
            .map(|ranges| Interest::new(Tags::NONE, none(), ranges.into_iter(), Wanted::default(), |tags| tags));
        let right =
            |mac: Mac| [&two, &all].map(|interest| interest.is_for_emulated_mac(&[&mac[..], &[0; 54]].concat()));
        assert_eq!(right([2, 0, 0, 0, 0, 0xfd]), [false, true]);
        assert_eq!(right([2, 0, 0, 0, 0, 0xfe]), [true, true]);
        assert_eq!(right([2, 0, 0, 0, 1, 1]), [true, true]);
        assert_eq!(right([2, 0, 0, 0, 1, 2]), [false, true]);
        assert!(!all.is_for_emulated_mac(&[2; 5]));
    }

    #[test]
    fn stations_are_asked_for_in_their_own_vlans() {
        let tags = Tags::new(&[Tag { ethertype: SERVICE, vlan: 7 }, Tag::customer(5)]).unwrap();
        let none = std::iter::empty::<IpAddr>;
        let ranges = [range("10.0.0.1", "10.0.0.9"), Range { tags: Some(tags), ..range("10.0.1.1", "10.0.1.9") }];
        let interest = Interest::new(Tags::from(Some(3)), none(), ranges.into_iter(), Wanted::default(), |tags| tags);
        let asks = |tags: Tags, last: [u8; 2]| {
            let (sender, target) = ([10, 0, 9, 9].into(), [10, 0, last[0], last[1]].into());
            let arp = Arp { operation: arp::REQUEST, sender_mac: [2; 6], sender, target_mac: [0; 6], target };
            interest.concerns(&ethernet::build([0xff; 6], [2; 6], tags, ARP, &arp.bytes()))
        };
        for (in_tags, expected) in
            [(Tags::from(Some(3)), [true, false]), (tags, [false, true]), (Tags::NONE, [false; 2])]
        {
            assert_eq!([asks(in_tags, [0, 5]), asks(in_tags, [1, 5])], expected, "{in_tags}");
        }
    }

    #[test]
    fn as_many_addresses_as_there_are_have_as_many_groups_as_they_need() {
        let interest = Interest::new(
            Tags::NONE,
            std::iter::empty(),
            [range("2001:db8::", "2001:db8:ffff::")].into_iter(),
            Wanted::default(),
            |tags| tags,
        );
        let (groups, all) = interest.group_macs(30);
        assert_eq!((groups.len(), all), (30, false));
    }
}
