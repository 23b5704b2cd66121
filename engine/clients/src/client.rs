// SPDX-License-Identifier: Apache-2.0
//! What a group keeps of each client, and the states in which clients are.
use core::fmt;

use spate_net::ethernet::Mac;
use spate_stateful::wheel::{TimerNode, TimerNodes};

use crate::interned;

macro_rules! named {
    ($(#[$of:meta])* $name:ident { $($(#[$meta:meta])* $variant:ident,)+ }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$meta])* $variant,)+ }

        impl $name {
            /// All, in order.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => stringify!($variant),)+ })
            }
        }
    };
}

named! {
    /// The state of a client. One with two families is in the earlier of both states: bound only when both are.
    State {
        /// Has not started.
        Idle,
        /// Looks for servers or routers.
        Discovering,
        /// Requests an address, or checks one.
        Requesting,
        /// A server that gave the address does not answer; requests go to all servers.
        Rebinding,
        /// Asks for a longer lease.
        Renewing,
        /// Has its addresses.
        Bound,
        /// Has left.
        Released,
        /// Has no address, for a [`Cause`]; or has one that cannot be used. It goes on to try.
        Failed,
    }
}

named! {
    /// Why a client has failed.
    Cause {
        /// No server offered an address.
        NoOffer,
        /// A server offered an address, and did not give it.
        NoAck,
        /// Servers refused the address.
        Nak,
        /// Other stations had the addresses that servers gave.
        Declined,
        /// No router answered, or none was named.
        NoRouter,
        /// Another station has the address that it gave itself, or that it was configured with.
        DuplicateAddress,
        /// The gateway does not answer pings.
        GatewaySilent,
        /// A server gave it an address that another client has.
        AddressGivenTwice,
    }
}

impl State {
    /// Whether a client has its addresses, and packets can be sent from them.
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Bound | Self::Renewing | Self::Rebinding)
    }

    /// Whether it has started and is neither bound nor failed.
    pub fn is_under_way(self) -> bool {
        matches!(self, Self::Discovering | Self::Requesting)
    }
}

/// Never.
pub(crate) const NEVER: u64 = u64::MAX;

/// An instant to 17 ms, around after two years.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(u32);

impl Moment {
    const SHIFT: u32 = 24;
    /// Lifetimes of more than a year do not end.
    const LONGEST_S: u32 = 365 * 86_400;
    pub(crate) const NEVER: Self = Self(u32::MAX);

    pub(crate) fn at(ns: u64) -> Self {
        match (ns >> Self::SHIFT) as u32 {
            u32::MAX => Self(u32::MAX - 1),
            units => Self(units),
        }
    }

    /// The end of a lifetime that starts now.
    pub(crate) fn after(now_ns: u64, seconds: u32) -> Self {
        if seconds > Self::LONGEST_S { Self::NEVER } else { Self::at(now_ns + u64::from(seconds) * 1_000_000_000) }
    }

    /// The instant, which is at most a year away.
    pub(crate) fn ns(self, now_ns: u64) -> u64 {
        if self == Self::NEVER {
            return NEVER;
        }
        let now = now_ns >> Self::SHIFT;
        let ahead = self.0.wrapping_sub(now as u32) as i32;
        now.saturating_add_signed(i64::from(ahead)) << Self::SHIFT
    }
}

/// Where a client is in what IPv4 needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase4 {
    /// It has no IPv4.
    Unused,
    Idle,
    Discovering,
    Requesting,
    /// Requests an address that it had (INIT-REBOOT).
    Rebooting,
    /// Looks for other stations with the address.
    Probing,
    /// Has the address, and waits for the gateway.
    Verifying,
    Bound,
    Renewing,
    Rebinding,
    /// Before it starts again.
    Waiting,
    Left,
}

/// A client's IPv4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct V4 {
    /// When the phase goes on by itself.
    pub(crate) due_ns: u64,
    /// When the next announcement, or request to the gateway, is due.
    pub(crate) aux_ns: u64,
    /// When the lease started.
    pub(crate) from_ns: u64,
    /// When the last message of the exchange was sent.
    pub(crate) sent_ns: u64,
    /// When the next announcement is due.
    pub(crate) announce_at: Moment,
    /// When another station had the address last.
    pub(crate) conflict_at: Moment,
    /// Seconds from the lease's start.
    pub(crate) lease_s: u32,
    pub(crate) t1_s: u32,
    pub(crate) t2_s: u32,
    /// 0: none, as of all addresses.
    pub(crate) address: u32,
    pub(crate) server: u32,
    pub(crate) gateway: u32,
    pub(crate) xid: u32,
    /// From which the server's messages came.
    pub(crate) server_mac: Mac,
    /// All zeros: not known.
    pub(crate) gateway_mac: Mac,
    /// 0: not known.
    pub(crate) prefix_len: u8,
    pub(crate) phase: Phase4,
    /// Messages of the exchange without an answer.
    pub(crate) tries: u8,
    /// Times that it started again since it was bound.
    pub(crate) restarts: u8,
    /// Announcements that are left.
    pub(crate) announcements: u8,
    /// Requests to the gateway without an answer.
    pub(crate) gateway_tries: u8,
}

impl V4 {
    const BLANK: Self = Self {
        due_ns: NEVER,
        aux_ns: NEVER,
        from_ns: 0,
        sent_ns: 0,
        announce_at: Moment::NEVER,
        conflict_at: Moment::NEVER,
        lease_s: 0,
        t1_s: 0,
        t2_s: 0,
        address: 0,
        server: 0,
        gateway: 0,
        xid: 0,
        server_mac: [0; 6],
        gateway_mac: [0; 6],
        prefix_len: 0,
        phase: Phase4::Unused,
        tries: 0,
        restarts: 0,
        announcements: 0,
        gateway_tries: 0,
    };

    /// Whether it has its address: it answers for it.
    #[inline]
    pub(crate) fn has_address(&self) -> bool {
        matches!(self.phase, Phase4::Verifying | Phase4::Bound | Phase4::Renewing | Phase4::Rebinding)
    }

    /// The end of a part of the lease; `NEVER` of an endless one.
    pub(crate) fn at(&self, seconds: u32) -> u64 {
        if seconds == u32::MAX { NEVER } else { self.from_ns + u64::from(seconds) * 1_000_000_000 }
    }

    /// When a bound client requests a longer lease: a server with short ones gets no requests in a loop.
    pub(crate) fn renew_ns(&self, now_ns: u64) -> u64 {
        self.at(self.t1_s).max(now_ns + 1_000_000_000)
    }

    pub(crate) fn state(&self) -> State {
        match self.phase {
            Phase4::Unused | Phase4::Idle => State::Idle,
            Phase4::Discovering | Phase4::Waiting => State::Discovering,
            Phase4::Requesting | Phase4::Rebooting | Phase4::Probing | Phase4::Verifying => State::Requesting,
            Phase4::Bound => State::Bound,
            Phase4::Renewing => State::Renewing,
            Phase4::Rebinding => State::Rebinding,
            Phase4::Left => State::Released,
        }
    }
}

/// A client; its IPv6 is apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client {
    /// Its entry in the wheel.
    pub(crate) link: TimerNode,
    pub(crate) v4: V4,
    /// When it started, or, once that was measured, started to look for servers again.
    pub(crate) started_ns: u64,
    /// When the phase of IPv6 goes on by itself.
    pub(crate) due6_ns: u64,
    /// When the exchange of DHCPv6 started, in units of 2^20 ns.
    pub(crate) exchange6: u32,
    /// From when it started until it was bound, in microseconds; 0: not yet.
    pub(crate) setup_us: u32,
    /// See [`is`].
    pub(crate) flags: u16,
    pub(crate) cause4: Option<Cause>,
    pub(crate) cause6: Option<Cause>,
}

/// Flags of clients.
pub(crate) mod is {
    /// Counted among those that have started and are neither bound nor failed.
    pub(crate) const OUTSTANDING: u16 = 1;
    /// Its setup is being measured.
    pub(crate) const TIMED: u16 = 1 << 1;
    /// The gateway has answered a ping.
    pub(crate) const PINGED: u16 = 1 << 2;
    /// The same of IPv6.
    pub(crate) const PINGED6: u16 = 1 << 3;
    /// The link-local address is its own.
    pub(crate) const LINK_LOCAL: u16 = 1 << 4;
    /// The address of the advertised prefix is its own.
    pub(crate) const SLAAC: u16 = 1 << 5;
    /// DHCPv6 has given what was requested.
    pub(crate) const LEASED6: u16 = 1 << 6;
    /// The last router advertisement said that addresses come by DHCPv6.
    pub(crate) const MANAGED: u16 = 1 << 7;
    /// The leased IPv6 address is its own.
    pub(crate) const ADDRESS6: u16 = 1 << 8;
    /// The address it had before is requested again when it starts.
    pub(crate) const REMEMBERS: u16 = 1 << 9;
    /// The upper four bits: times that DHCPv6 started again since it was bound.
    pub(crate) const RESTARTS6: u32 = 12;
}

impl Client {
    pub(crate) const BLANK: Self = Self {
        link: TimerNode::FREE,
        v4: V4::BLANK,
        started_ns: 0,
        due6_ns: NEVER,
        exchange6: 0,
        setup_us: 0,
        flags: 0,
        cause4: None,
        cause6: None,
    };

    #[inline]
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, flag: u16, value: bool) {
        self.flags = if value { self.flags | flag } else { self.flags & !flag };
    }

    /// Times that DHCPv6 started again since it was bound, at most 15.
    pub(crate) fn restarts6(&self) -> u8 {
        (self.flags >> is::RESTARTS6) as u8
    }

    pub(crate) fn set_restarts6(&mut self, times: u8) {
        let others = self.flags & ((1 << is::RESTARTS6) - 1);
        self.flags = others | u16::from(times.min(15)) << is::RESTARTS6;
    }
}

/// Where a client is in what IPv6 needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase6 {
    Idle,
    /// Looks for other stations with its link-local address.
    LinkLocal,
    /// Looks for routers.
    Soliciting,
    /// Looks for other stations with the address of the advertised prefix.
    Slaac,
    /// Looks for servers of DHCPv6.
    Solicit,
    Request,
    /// Looks for other stations with the leased address.
    Address,
    /// Has its addresses, and waits for the router.
    Verifying,
    Bound,
    Renewing,
    Rebinding,
    /// Gives its lease back.
    Releasing,
    /// Gives an address back that another station has.
    Declining,
    /// Before it looks for servers again.
    Waiting,
    /// Another station has an address that it gave itself.
    Duplicate,
    Left,
}

/// A client's IPv6.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Client6 {
    /// The leased address, or the one that is offered; 0: none.
    pub(crate) address: u128,
    /// The first 64 bits of the delegated prefix.
    pub(crate) delegated: u64,
    /// The advertised prefix; 0: none.
    pub(crate) prefix: u64,
    /// When the lease started.
    pub(crate) from: Moment,
    /// Seconds from the lease's start.
    pub(crate) t1_s: u32,
    pub(crate) t2_s: u32,
    pub(crate) valid_s: u32,
    /// End of the advertised prefix.
    pub(crate) prefix_until: Moment,
    /// End of the router.
    pub(crate) router_until: Moment,
    /// Transaction identifier, 24 bits, and above it the length of the delegated prefix.
    pub(crate) xid_and_length: u32,
    pub(crate) phase: Phase6,
    pub(crate) tries: u8,
    /// See [`interned`].
    pub(crate) router: u8,
    /// The same, of the server of the lease or of the best offer.
    pub(crate) server: u8,
}

impl Client6 {
    pub(crate) const BLANK: Self = Self {
        address: 0,
        delegated: 0,
        prefix: 0,
        from: Moment::NEVER,
        t1_s: 0,
        t2_s: 0,
        valid_s: 0,
        prefix_until: Moment::NEVER,
        router_until: Moment::NEVER,
        xid_and_length: 0,
        phase: Phase6::Idle,
        tries: 0,
        router: interned::NONE,
        server: interned::NONE,
    };

    pub(crate) fn xid(&self) -> u32 {
        self.xid_and_length & 0xff_ffff
    }

    pub(crate) fn set_xid(&mut self, xid: u32) {
        self.xid_and_length = self.xid_and_length & 0xff00_0000 | xid & 0xff_ffff;
    }

    pub(crate) fn delegated_len(&self) -> u8 {
        (self.xid_and_length >> 24) as u8
    }

    pub(crate) fn set_delegated(&mut self, bits: u64, len: u8) {
        self.delegated = bits;
        self.xid_and_length = self.xid_and_length & 0xff_ffff | u32::from(len) << 24;
    }

    pub(crate) fn state(&self) -> State {
        match self.phase {
            Phase6::Idle => State::Idle,
            Phase6::LinkLocal | Phase6::Soliciting | Phase6::Solicit | Phase6::Declining | Phase6::Waiting => {
                State::Discovering
            }
            Phase6::Slaac | Phase6::Request | Phase6::Address | Phase6::Verifying => State::Requesting,
            Phase6::Bound => State::Bound,
            Phase6::Renewing => State::Renewing,
            Phase6::Rebinding => State::Rebinding,
            Phase6::Duplicate => State::Failed,
            Phase6::Releasing | Phase6::Left => State::Released,
        }
    }
}

/// All clients: the wheel's entries are in them.
#[derive(Debug)]
pub(crate) struct Clients(pub(crate) Box<[Client]>);

impl TimerNodes for Clients {
    #[inline]
    fn link(&mut self, index: u32) -> &mut TimerNode {
        &mut self.0[index as usize].link
    }
}

impl core::ops::Index<u32> for Clients {
    type Output = Client;

    #[inline]
    fn index(&self, index: u32) -> &Client {
        &self.0[index as usize]
    }
}

impl core::ops::IndexMut<u32> for Clients {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Client {
        &mut self.0[index as usize]
    }
}

/// Bytes of a client, and of its IPv6.
const _: () = assert!(size_of::<Client>() <= 128 && size_of::<Client6>() <= 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_instant_to_17_ms_up_to_a_year_away() {
        const YEAR: u64 = Moment::LONGEST_S as u64 * 1_000_000_000;
        for now in [0, 1, 123_456_789_012_345, YEAR, 5 * YEAR + 7] {
            for ahead in [0, 1, 20_000_000, 3_600_000_000_000, YEAR - 1] {
                let found = Moment::at(now + ahead).ns(now);
                assert!((now + ahead).abs_diff(found) < 2 << Moment::SHIFT, "{now} {ahead} {found}");
            }
            assert!(Moment::at(now.saturating_sub(1_000_000_000)).ns(now) <= now);
            assert_eq!(Moment::after(now, u32::MAX).ns(now), NEVER);
        }
    }

    #[test]
    fn states_and_causes_have_the_names_of_the_interface() {
        let names: Vec<_> = State::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(names[0], "Idle");
        assert_eq!(State::ALL.len(), State::Failed as usize + 1);
        assert_eq!(Cause::AddressGivenTwice.to_string(), "AddressGivenTwice");
    }
}
