// SPDX-License-Identifier: Apache-2.0
//! What is counted of a group: written by the thread that runs it, read by any.
use spate_stats::{Counter, Times};

use crate::client::{Cause, State};

macro_rules! counters {
    ($($variant:ident $name:literal $meaning:literal;)*) => {
        /// Something that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Count {
            $(#[doc = $meaning] $variant,)*
        }

        /// All, in order: name, meaning.
        pub const COUNTERS: &[(&str, &str)] = &[$(($name, $meaning),)*];
    };
}

counters! {
    Started "started" "Clients that started, again each time that they did.";
    Throttled "throttled" "Clients that were due and had to wait because too many were under way.";
    Setups "setups" "Clients that were bound, the first time after they started.";
    Renewals "renewals" "Leases that were prolonged.";
    LeasesLost "leases_lost" "Addresses that clients had and have no more, without having left: expired, refused, or another station's.";
    Duplicates "duplicates" "Times that another station had a client's address.";
    GivenTwice "given_twice" "Addresses that a server gave to a client while another had them.";
    Malformed "malformed" "Messages to clients that were dropped because they are cut short, or say what cannot be.";
    Unexpected "unexpected" "Valid messages to clients that were dropped because no client waits for them: late or second answers, those of other servers.";
    Unsent "unsent" "Frames that were not sent because there was no room.";
    ArpRequestsSent "arp_requests_sent" "ARP requests for gateways.";
    ArpProbesSent "arp_probes_sent" "ARP probes (RFC 5227).";
    ArpAnnouncementsSent "arp_announcements_sent" "ARP announcements (RFC 5227).";
    ArpRepliesSent "arp_replies_sent" "ARP requests answered.";
    EchoRequestsSent "echo_requests_sent" "Pings of gateways.";
    EchoRepliesReceived "echo_replies_received" "Answers to them.";
    EchoRepliesSent "echo_replies_sent" "Pings of clients answered.";
    RouterSolicitationsSent "router_solicitations_sent" "Router solicitations.";
    RouterAdvertisements "router_advertisements" "Router advertisements, of any number of clients.";
    RouterAdvertisementsDropped "router_advertisements_dropped" "Router advertisements dropped because several that came before them have not reached all clients yet.";
    TooManyRouters "too_many_routers" "Times that a client could not have a router, or server of DHCPv6, because 255 others are in use.";
    SolicitationsSent "solicitations_sent" "Neighbor solicitations for duplicate address detection.";
    AdvertisementsSent "advertisements_sent" "Neighbor solicitations answered.";
    Dhcp4Discover "dhcp4_discover" "DHCPDISCOVER sent.";
    Dhcp4Offer "dhcp4_offer" "DHCPOFFER received.";
    Dhcp4Request "dhcp4_request" "DHCPREQUEST sent.";
    Dhcp4Ack "dhcp4_ack" "DHCPACK received.";
    Dhcp4Nak "dhcp4_nak" "DHCPNAK received.";
    Dhcp4Decline "dhcp4_decline" "DHCPDECLINE sent.";
    Dhcp4Release "dhcp4_release" "DHCPRELEASE sent.";
    Dhcp4Retransmitted "dhcp4_retransmitted" "Of the messages of DHCP sent, those that repeat one.";
    Dhcp6Solicit "dhcp6_solicit" "SOLICIT sent.";
    Dhcp6Advertise "dhcp6_advertise" "ADVERTISE received.";
    Dhcp6Request "dhcp6_request" "REQUEST sent.";
    Dhcp6Reply "dhcp6_reply" "REPLY received.";
    Dhcp6Renew "dhcp6_renew" "RENEW sent.";
    Dhcp6Rebind "dhcp6_rebind" "REBIND sent.";
    Dhcp6Decline "dhcp6_decline" "DECLINE sent.";
    Dhcp6Release "dhcp6_release" "RELEASE sent.";
    Dhcp6Retransmitted "dhcp6_retransmitted" "Of the messages of DHCPv6 sent, those that repeat one.";
}

const COUNTS: usize = COUNTERS.len();
const STATES: usize = State::ALL.len();
const CAUSES: usize = Cause::ALL.len();

/// The counters of a group.
#[derive(Debug)]
pub struct Counters {
    counts: [Counter; COUNTS],
    states: [Counter; STATES],
    causes: [Counter; CAUSES],
    setup: Times,
    offer: Times,
    ack: Times,
    rate: SetupRate,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            counts: core::array::from_fn(|_| Counter::default()),
            states: core::array::from_fn(|_| Counter::default()),
            causes: core::array::from_fn(|_| Counter::default()),
            setup: Times::default(),
            offer: Times::default(),
            ack: Times::default(),
            rate: SetupRate::default(),
        }
    }
}

impl Counters {
    /// How often.
    pub fn get(&self, count: Count) -> u64 {
        self.counts[count as usize].get()
    }

    /// All counts, in the order of [`COUNTERS`].
    pub fn all(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().map(Counter::get)
    }

    /// Clients that are in a state now.
    pub fn clients(&self, state: State) -> u64 {
        self.states[state as usize].get()
    }

    /// Clients that have failed for a cause.
    pub fn failed(&self, cause: Cause) -> u64 {
        self.causes[cause as usize].get()
    }

    /// From when clients started until they were bound.
    pub fn setup(&self) -> &Times {
        &self.setup
    }

    /// From DHCPDISCOVER to DHCPOFFER, and from SOLICIT to ADVERTISE: of the last message sent to the first answer.
    pub fn offer(&self) -> &Times {
        &self.offer
    }

    /// From DHCPREQUEST to DHCPACK, and from REQUEST to REPLY.
    pub fn ack(&self) -> &Times {
        &self.ack
    }

    /// Setups a second.
    pub fn rate(&self) -> &SetupRate {
        &self.rate
    }

    #[inline]
    pub(crate) fn one(&self, count: Count) {
        self.counts[count as usize].add(1);
    }

    /// A client is in another state, or failed for another cause.
    pub(crate) fn moved(&self, from: (State, Option<Cause>), to: (State, Option<Cause>)) {
        let adjust = |(state, cause): (State, Option<Cause>), by: u64| {
            self.states[state as usize].add(by);
            if let Some(cause) = cause {
                self.causes[cause as usize].add(by);
            }
        };
        adjust(from, 0_u64.wrapping_sub(1));
        adjust(to, 1);
    }

    pub(crate) fn set_idle(&self, clients: u64) {
        self.states[State::Idle as usize].set(clients);
    }

    pub(crate) fn offered(&self, after_ns: u64) {
        self.offer.record(after_ns);
    }

    pub(crate) fn acknowledged(&self, after_ns: u64) {
        self.ack.record(after_ns);
    }

    pub(crate) fn set_up(&self, after_ns: u64, since_start_ns: u64) {
        self.one(Count::Setups);
        self.setup.record(after_ns);
        self.rate.record(since_start_ns);
    }
}

/// Setups a second, by whole seconds since the first client started: the first with a setup to the last that is over.
#[derive(Debug, Default)]
pub struct SetupRate {
    /// The second of the last setup, and those in it so far; the second is one more than it is, 0: there was none.
    second: Counter,
    current: Counter,
    /// Of seconds that are over.
    seconds: Counter,
    sum: Counter,
    min: Counter,
    max: Counter,
}

impl SetupRate {
    fn record(&self, since_start_ns: u64) {
        let second = since_start_ns / 1_000_000_000 + 1;
        let last = self.second.get();
        if last != second {
            if last > 0 {
                self.over(self.current.get());
                // Seconds without any.
                let empty = second.saturating_sub(last + 1);
                if empty > 0 {
                    self.seconds.add(empty);
                    self.min.set(0);
                }
            }
            self.second.set(second);
            self.current.set(0);
        }
        self.current.add(1);
    }

    fn over(&self, count: u64) {
        let first = self.seconds.get() == 0;
        self.seconds.add(1);
        self.sum.add(count);
        self.min.set(if first { count } else { self.min.get().min(count) });
        self.max.set(self.max.get().max(count));
    }

    /// Least, mean and greatest number of setups in a second; none before a second is over.
    pub fn get(&self) -> Option<(u64, f64, u64)> {
        let seconds = self.seconds.get();
        (seconds > 0).then(|| (self.min.get(), self.sum.get() as f64 / seconds as f64, self.max.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_whole_seconds() {
        let rate = SetupRate::default();
        let at = |ms: u64| rate.record(ms * 1_000_000);
        assert_eq!(rate.get(), None);
        [100, 200, 300].into_iter().for_each(at);
        assert_eq!(rate.get(), None, "the second is not over");
        [1000, 1999].into_iter().for_each(at);
        assert_eq!(rate.get(), Some((3, 3.0, 3)));
        at(4000);
        assert_eq!(rate.get(), Some((0, 1.25, 3)));
    }

    #[test]
    fn counters_have_unique_names() {
        let mut names: Vec<_> = COUNTERS.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COUNTERS.len());
        assert_eq!(COUNTERS[Count::Dhcp6Retransmitted as usize].0, "dhcp6_retransmitted");
    }
}
