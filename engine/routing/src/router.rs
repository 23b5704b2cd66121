// SPDX-License-Identifier: Apache-2.0
//! What a port is as a router: its sessions, and the timers, authentication and limits of each.
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr},
};

use spate_neighbour::Prefix;

use crate::Family;

/// The longest password of BGP (Linux's TCP_MD5SIG_MAXKEYLEN).
const MAX_SECRET_BYTES: usize = 80;

/// A port as a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    /// The port's name.
    pub port: String,
    /// The kernel's interface by which BIRD reaches the port's link.
    pub interface: String,
    /// The port's addresses, which the interface has, too.
    pub addresses: Vec<Prefix>,
    /// The port's gateways, through which neighbors are reached that are not on its link.
    pub gateways: Vec<IpAddr>,
    /// Its router ID; the first IPv4 address if none is given.
    pub router_id: Option<Ipv4Addr>,
    /// Sessions of BGP.
    pub bgp: Vec<Bgp>,
    /// Sessions of OSPF.
    pub ospf: Vec<Ospf>,
    /// Sessions of RIP.
    pub rip: Vec<Rip>,
    /// Sessions of BFD that no other protocol uses.
    pub bfd: Vec<Bfd>,
    /// Text in BIRD's language, which comes after all else.
    pub extra_config: String,
}

/// A session of BGP-4 (RFC 4271).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bgp {
    /// Its name, which no other session of the port has.
    pub name: String,
    /// The port's AS.
    pub local_as: u32,
    /// The peer.
    pub neighbor: IpAddr,
    /// The peer's AS.
    pub neighbor_as: u32,
    /// Of what routes it exchanges (RFC 4760), unicast.
    pub families: Vec<Family>,
    /// With BFD (RFC 5882).
    pub bfd: Option<BfdTimers>,
    /// The key of TCP's MD5 signatures (RFC 2385).
    pub password: Option<Secret>,
    /// Hold time in seconds; 0 for a session that never times out.
    pub hold_time_s: u16,
    /// The peer is this many hops away; none: on the link.
    pub multihop: Option<u8>,
    /// Waits for the peer to connect.
    pub passive: bool,
    /// Only packets that were sent with a hop limit of 255 count (RFC 5082).
    pub ttl_security: bool,
    /// What becomes of routes that the peer sends.
    pub learn: Learn,
}

/// A session of OSPF on the port's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ospf {
    /// Its name, which no other session of the port has.
    pub name: String,
    /// The version, and so the family of its routes.
    pub version: OspfVersion,
    /// The area, as addresses are written.
    pub area: Ipv4Addr,
    /// The type of the link.
    pub link: LinkType,
    /// From one hello to the next, in seconds.
    pub hello_s: u16,
    /// After this silence a neighbor is down, in seconds.
    pub dead_s: u16,
    /// The key of messages' authentication: MD5 (RFC 2328 appendix D) in version 2, HMAC-SHA-256 (RFC 7166) in version 3.
    pub password: Option<Secret>,
    /// What becomes of routes that neighbors send.
    pub learn: Learn,
}

/// A session of RIP on the port's link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rip {
    /// Its name, which no other session of the port has.
    pub name: String,
    /// The version, and so the family of its routes.
    pub version: RipVersion,
    /// From one update to the next, in seconds.
    pub update_s: u16,
    /// After this silence a route is invalid, in seconds.
    pub timeout_s: u16,
    /// The key of messages' authentication by MD5 (RFC 4822); RIPng has none.
    pub password: Option<Secret>,
    /// What becomes of routes that neighbors send.
    pub learn: Learn,
}

/// A session of BFD (RFC 5881) with a peer on the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bfd {
    /// Its name, which no other session of the port has.
    pub name: String,
    /// The peer.
    pub neighbor: IpAddr,
    /// Its timers, which all such sessions of a port share.
    pub timers: BfdTimers,
}

/// How fast BFD notices that packets do not arrive: after `multiplier` times `interval_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BfdTimers {
    /// From one packet to the next, sent and received, in microseconds.
    pub interval_us: u32,
    /// Packets that may be missed.
    pub multiplier: u8,
}

/// What becomes of routes that a neighbor sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Learn {
    /// They are counted: BIRD stores them, and does not use them.
    #[default]
    Count,
    /// They are in BIRD's table of the port, and can be listed.
    Keep,
    /// They are dropped, and not counted.
    None,
}

/// OSPF's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OspfVersion {
    /// OSPFv2 (RFC 2328): IPv4.
    V2,
    /// OSPFv3 (RFC 5340): IPv6.
    V3,
}

/// How OSPF treats a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    /// Any number of routers, with a designated one.
    Broadcast,
    /// Two routers.
    PointToPoint,
}

/// RIP's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RipVersion {
    /// RIPv2 (RFC 2453): IPv4.
    V2,
    /// RIPng (RFC 2080): IPv6.
    Ng,
}

/// A key or password. It is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

/// Why a password cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// None, or more than a TCP socket takes.
    #[error("has {0} bytes; must have 1 to {MAX_SECRET_BYTES}")]
    Length(usize),
    /// It cannot be written in BIRD's configuration.
    #[error(
        "has a quotation mark, a newline (such as at its end) or a null character, which BIRD cannot read; leave them out"
    )]
    Character,
}

impl Router {
    /// A router with these addresses and no session.
    pub fn new(
        port: impl Into<String>,
        interface: impl Into<String>,
        addresses: impl IntoIterator<Item = Prefix>,
    ) -> Self {
        Self {
            port: port.into(),
            interface: interface.into(),
            addresses: addresses.into_iter().collect(),
            gateways: Vec::new(),
            router_id: None,
            bgp: Vec::new(),
            ospf: Vec::new(),
            rip: Vec::new(),
            bfd: Vec::new(),
            extra_config: String::new(),
        }
    }

    /// The same with sessions of BGP.
    #[must_use]
    pub fn with_bgp(mut self, sessions: impl IntoIterator<Item = Bgp>) -> Self {
        self.bgp.extend(sessions);
        self
    }

    /// Its router ID; none if it has no IPv4 address, and none is given.
    pub fn id(&self) -> Option<Ipv4Addr> {
        self.router_id.or_else(|| match self.address(Family::V4)? {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        })
    }

    /// Its first address of a family.
    pub(crate) fn address(&self, family: Family) -> Option<IpAddr> {
        self.addresses.iter().map(|prefix| prefix.address).find(|address| Family::of(*address) == family)
    }

    /// Its address on the link with a neighbor, none if that is in none of its subnets.
    pub(crate) fn address_towards(&self, neighbor: IpAddr) -> Option<IpAddr> {
        self.addresses.iter().find(|prefix| prefix.contains(neighbor)).map(|prefix| prefix.address)
    }

    /// The address from which it speaks with a neighbor.
    pub fn source(&self, session: &Bgp) -> Option<IpAddr> {
        let on_link = self.address_towards(session.neighbor);
        on_link.or_else(|| session.multihop.and_then(|_| self.address(Family::of(session.neighbor))))
    }

    /// Whether it has a session of this name that can advertise routes.
    pub fn has_advertiser(&self, session: &str) -> bool {
        self.advertisers().any(|(name, _)| name == session)
    }

    /// The names of its sessions that can advertise routes, and of which families.
    pub(crate) fn advertisers(&self) -> impl Iterator<Item = (&str, Vec<Family>)> {
        let bgp = self.bgp.iter().map(|session| (session.name.as_str(), session.families.clone()));
        let ospf = self.ospf.iter().map(|session| (session.name.as_str(), vec![session.version.family()]));
        let rip = self.rip.iter().map(|session| (session.name.as_str(), vec![session.version.family()]));
        bgp.chain(ospf).chain(rip)
    }
}

impl Bgp {
    /// A session with a peer on the link, with a hold time of 90 s and nothing else.
    pub fn new(
        name: impl Into<String>,
        local_as: u32,
        neighbor: IpAddr,
        neighbor_as: u32,
        families: impl IntoIterator<Item = Family>,
    ) -> Self {
        Self {
            name: name.into(),
            local_as,
            neighbor,
            neighbor_as,
            families: families.into_iter().collect(),
            bfd: None,
            password: None,
            hold_time_s: 90,
            multihop: None,
            passive: false,
            ttl_security: false,
            learn: Learn::Count,
        }
    }
}

impl OspfVersion {
    /// That of its routes.
    pub fn family(self) -> Family {
        match self {
            Self::V2 => Family::V4,
            Self::V3 => Family::V6,
        }
    }
}

impl RipVersion {
    /// That of its routes.
    pub fn family(self) -> Family {
        match self {
            Self::V2 => Family::V4,
            Self::Ng => Family::V6,
        }
    }
}

impl Secret {
    /// # Errors
    /// If a session cannot have this password. The error does not contain it.
    pub fn new(text: &str) -> Result<Self, SecretError> {
        if !(1..=MAX_SECRET_BYTES).contains(&text.len()) {
            return Err(SecretError::Length(text.len()));
        }
        match text.contains(['"', '\n', '\0']) {
            true => Err(SecretError::Character),
            false => Ok(Self(text.into())),
        }
    }

    /// For BIRD's configuration only.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_id_is_the_first_ipv4_address_unless_it_is_given() {
        let router = |addresses: &[&str], router_id: Option<&str>| Router {
            router_id: router_id.map(|id| id.parse().unwrap()),
            ..Router::new("east", "rt-east", addresses.iter().map(|text| text.parse().unwrap()))
        };
        let id = |router: Router| router.id().map(|id| id.to_string());
        assert_eq!(id(router(&["2001:db8::1/64", "10.99.0.1/24", "10.98.0.1/24"], None)), Some("10.99.0.1".into()));
        assert_eq!(id(router(&["10.99.0.1/24"], Some("1.1.1.1"))), Some("1.1.1.1".into()));
        assert_eq!(id(router(&["2001:db8::1/64"], None)), None);
    }

    #[test]
    fn passwords_are_shown_nowhere_and_are_such_as_bird_can_read() {
        let secret = Secret::new("pa55 w=rd#;'}{").unwrap();
        let session = Bgp { password: Some(secret), ..Bgp::new("dut", 1, [10, 0, 0, 2].into(), 2, [Family::V4]) };
        let shown = format!("{:?}", Router::new("east", "rt-east", []).with_bgp([session]));
        assert!(shown.contains("Secret(..)") && !shown.contains("pa55"));
        // RIPv2 and OSPFv2 use 16 bytes, TCP up to 80.
        for right in ["x", &"x".repeat(16), &"x".repeat(17), &"x".repeat(80), "pä55 €", "tab\tand return\r"] {
            assert!(Secret::new(right).is_ok(), "{right:?}");
        }
        assert_eq!(Secret::new(""), Err(SecretError::Length(0)));
        assert_eq!(Secret::new(&"x".repeat(81)), Err(SecretError::Length(81)));
        for wrong in ["a\"b", "a\nb", "ab\n", "a\0b"] {
            assert_eq!(Secret::new(wrong), Err(SecretError::Character));
        }
    }
}
