// SPDX-License-Identifier: Apache-2.0
//! Announcements of the port's own addresses (RFC 5227 section 2.3, RFC 4861 section 7.2.6): stations that know them at another MAC learn
//! where they are now.
use std::net::IpAddr;

use crate::{
    Output,
    address::{ALL_NODES, BROADCAST, group_mac},
    link::Link,
    stations::Protocol,
};

/// Announcements of own addresses, and between them (RFC 5227 §2.3: two; one more for links that come up late).
const ANNOUNCEMENTS: u32 = 3;
const ANNOUNCE_NS: u64 = 1_000_000_000;

/// Announces the port's own addresses when it is new.
#[derive(Clone, Debug)]
pub(crate) struct Announcements {
    sent: u32,
    /// When the next announcement is due.
    at_ns: u64,
}

impl Protocol for Announcements {
    fn new(_: &Link, now_ns: u64) -> Self {
        Self { sent: 0, at_ns: now_ns }
    }

    fn poll(&mut self, link: &mut Link, now_ns: u64, output: &mut Output) {
        if self.sent < ANNOUNCEMENTS && now_ns >= self.at_ns {
            self.sent += 1;
            self.at_ns = now_ns.saturating_add(ANNOUNCE_NS);
            output.frames.extend(link.own().map(|own| announcement(link, own)));
        }
    }

    fn next_due_ns(&self, _: &Link) -> Option<u64> {
        (self.sent < ANNOUNCEMENTS).then_some(self.at_ns)
    }
}

fn announcement(link: &Link, own: IpAddr) -> Vec<u8> {
    match own {
        IpAddr::V4(own) => link.station.arp(BROADCAST, 1, own, [0; 6], own),
        IpAddr::V6(own) => link.station.advertisement(group_mac(ALL_NODES.into()), own, ALL_NODES, false),
    }
}
