// SPDX-License-Identifier: Apache-2.0
//! Membership of multicast groups for a port and the stations emulated behind it: IGMP for IPv4, MLD for IPv6. `groups` decides what is sent
//! and when, for both; `igmp` and `mld` read and write messages.
mod groups;
pub(crate) mod igmp;
pub(crate) mod mld;

use std::net::IpAddr;

use crate::{
    Event, Output,
    address::{group_mac, is_reported, link_local},
    interest::Wanted,
    link::Link,
    stations::{Protocol, Received},
};

pub use groups::{Group, MAX_GROUPS, MAX_SOURCES};
use groups::{Groups, Query, Report, Version};

/// The owner of groups that the port's configuration names.
pub(crate) const OWN: u64 = 0;

/// The groups that a port is a member of.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    /// Groups of IPv4 and of IPv6.
    families: [Groups; 2],
}

impl Protocol for Membership {
    fn new(link: &Link, now_ns: u64) -> Self {
        let mut this = Self { families: Default::default() };
        for group in &link.config.groups {
            // `Config::check` has counted them.
            let _ = this.join(OWN, group, now_ns);
        }
        this
    }

    fn interest(&self, wanted: &mut Wanted) {
        let [v4, v6] = &self.families;
        wanted.queries |= v4.len() + v6.len() > 0;
        wanted.groups.extend(v4.groups().chain(v6.groups()).map(group_mac));
        wanted.groups.extend((v4.len() > 0).then(igmp::all_hosts_mac));
    }

    fn receive(&mut self, link: &mut Link, received: &Received<'_>, output: &mut Output) {
        if received.tags != link.station.tags {
            return;
        }
        if let Some(query) = igmp::query(&received.frame) {
            self.asked(0, &query, received.now_ns, output);
        } else if let Some(query) = mld::query(&received.frame) {
            self.asked(1, &query, received.now_ns, output);
        }
    }

    fn poll(&mut self, link: &mut Link, now_ns: u64, output: &mut Output) {
        for (family, groups) in self.families.iter_mut().enumerate() {
            output.frames.extend(groups.poll(now_ns).iter().flat_map(|report| frames(link, report, family)));
        }
    }

    fn next_due_ns(&self, _: &Link) -> Option<u64> {
        self.families.iter().filter_map(Groups::next_ns).min()
    }
}

impl Membership {
    /// Becomes a member of a group until an owner `leave`s. False if it is a member of as many as it can be.
    #[must_use]
    pub(crate) fn join(&mut self, owner: u64, group: &Group, now_ns: u64) -> bool {
        // Hosts receive these without a report (RFC 3376 section 6, RFC 3810 section 6).
        if !is_reported(group.address) {
            return true;
        }
        let family = usize::from(group.address.is_ipv6());
        let room = self.families.iter().map(Groups::len).sum::<usize>() < MAX_GROUPS;
        let room = room || self.families[family].has(group.address);
        if room {
            self.families[family].join(owner, group, now_ns);
        }
        room
    }

    /// Leaves the groups that an owner has joined.
    pub(crate) fn leave(&mut self, owner: u64, now_ns: u64) {
        self.families.iter_mut().for_each(|groups| groups.leave(owner, now_ns));
    }

    /// A querier asks for groups of IPv4 (0) or IPv6 (1).
    fn asked(&mut self, family: usize, query: &Query, now_ns: u64, output: &mut Output) {
        let groups = &mut self.families[family];
        let before = groups.version(now_ns);
        groups.asked(query, now_ns);
        let version = groups.version(now_ns);
        if version != before {
            let name = match (family, version) {
                (0, Version::Reports) => "IGMPv1",
                (0, Version::Leaves) => "IGMPv2",
                (0, Version::Sources) => "IGMPv3",
                (_, Version::Sources) => "MLDv2",
                _ => "MLDv1",
            };
            output.events.push(Event::Reports(name));
        }
    }
}

/// The frames of a report of membership.
fn frames(link: &Link, report: &Report, family: usize) -> Vec<Vec<u8>> {
    if family == 1 {
        return mld::frames(&link.station, Some(link_local(link.station.mac)), report);
    }
    let v4 = link.config.addresses.iter().find_map(|own| match own.address {
        IpAddr::V4(own) => Some(own),
        IpAddr::V6(_) => None,
    });
    igmp::frames(&link.station, v4, report)
}
