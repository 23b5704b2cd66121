// SPDX-License-Identifier: Apache-2.0
//! The protocols that a port and the stations emulated behind it speak on their link, one file each, and their registration.
mod announcements;
mod echo;
pub(crate) mod membership;
pub(crate) mod ping;
pub(crate) mod resolution;

#[cfg(test)]
pub(crate) mod beacon;

use spate_net::vlan::Tags;

use crate::{Output, frame::Frame, interest::Wanted, link::Link, message::Message};

/// A protocol that answers and asks on a link. It runs in the slow path: some thousand frames a second.
pub(crate) trait Protocol {
    /// Its state on a port that is new.
    fn new(link: &Link, now_ns: u64) -> Self
    where
        Self: Sized;

    /// Adds which frames it wants besides those that are for addresses on the link: ARP, neighbor discovery and ICMP.
    fn interest(&self, _wanted: &mut Wanted) {}

    /// Takes a frame: any that the port receives, also those of other protocols.
    fn receive(&mut self, _link: &mut Link, _received: &Received<'_>, _output: &mut Output) {}

    /// Does what is due at an instant.
    fn poll(&mut self, _link: &mut Link, _now_ns: u64, _output: &mut Output) {}

    /// When `poll` has something to do next; none: not before a frame is received or a caller wants something.
    fn next_due_ns(&self, _link: &Link) -> Option<u64> {
        None
    }
}

/// A received frame.
#[derive(Clone, Debug)]
pub(crate) struct Received<'a> {
    pub(crate) frame: Frame<'a>,
    /// Its tags as its sender wrote them (`Link::written`).
    pub(crate) tags: Tags,
    /// What it says, if it is ARP, neighbor discovery, echo or an ICMP error about an echo request, and valid.
    pub(crate) message: Option<Message<'a>>,
    /// When the frame arrived.
    pub(crate) arrived_ns: u64,
    /// The present time: not before the frame arrived.
    pub(crate) now_ns: u64,
}

/// Makes the registry of protocols: a field each, polled in the order of the fields.
macro_rules! register {
    ($($(#[$attribute:meta])* $name:ident: $protocol:ty,)+) => {
        /// The protocols of a port.
        #[derive(Clone, Debug)]
        pub(crate) struct Protocols {
            $($(#[$attribute])* pub(crate) $name: $protocol,)+
        }

        impl Protocols {
            pub(crate) fn new(link: &Link, now_ns: u64) -> Self {
                Self { $($(#[$attribute])* $name: Protocol::new(link, now_ns),)+ }
            }

            pub(crate) fn iter(&self) -> impl Iterator<Item = &dyn Protocol> {
                let all = std::iter::empty();
                $($(#[$attribute])* let all = all.chain([&self.$name as &dyn Protocol]);)+
                all
            }

            pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut dyn Protocol> {
                let all = std::iter::empty();
                $($(#[$attribute])* let all = all.chain([&mut self.$name as &mut dyn Protocol]);)+
                all
            }
        }
    };
}

register! {
    announcements: announcements::Announcements,
    resolution: resolution::Resolution,
    echo: echo::Echo,
    membership: membership::Membership,
    pings: ping::Pings,
    #[cfg(test)]
    beacon: beacon::Beacon,
}
