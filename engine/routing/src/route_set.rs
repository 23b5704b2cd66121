// SPDX-License-Identifier: Apache-2.0
//! Routes that are advertised together: their prefixes, by which sessions, and with which attributes.
use std::{fmt, net::IpAddr, str::FromStr};

use crate::{Prefixes, Share};

/// Routes that are advertised, and withdrawn, together.
#[derive(Clone, Debug)]
pub struct RouteSet {
    /// Its name, which no other set of its run has.
    pub name: String,
    /// The run that it is of: a number that no run had before, since BIRD takes a set of the same name for the one that it has.
    pub run: u32,
    /// The port that advertises them.
    pub port: String,
    /// The sessions of that port by which they are advertised: of BGP, OSPF or RIP.
    pub sessions: Vec<String>,
    /// The prefixes.
    pub prefixes: Prefixes,
    /// Those of them that this pod advertises.
    pub share: Share,
    /// What is said of all of them.
    pub attributes: Attributes,
    /// They are advertised from the start; else when they are enabled.
    pub advertised: bool,
}

/// What a route has besides its prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// ASes of BGP's AS_PATH behind the port's own, which BGP itself adds to peers of other ASes.
    pub as_path: Vec<u32>,
    /// BGP's COMMUNITIES (RFC 1997).
    pub communities: Vec<Community>,
    /// BGP's LARGE_COMMUNITY (RFC 8092).
    pub large_communities: Vec<LargeCommunity>,
    /// BGP's MULTI_EXIT_DISC.
    pub med: Option<u32>,
    /// BGP's LOCAL_PREF, which is sent to peers of the same AS only.
    pub local_preference: Option<u32>,
    /// BGP's ORIGIN.
    pub origin: Origin,
    /// BGP's next hop.
    pub next_hop: NextHop,
    /// The metric in OSPF (of an external route of type 2), and in RIP; theirs if none is given.
    pub metric: Option<u32>,
}

/// A community, such as 65001:100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Community(pub u16, pub u16);

/// A large community, such as 65001:1:2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeCommunity(pub u32, pub u32, pub u32);

/// BGP's ORIGIN (RFC 4271 section 5.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// IGP.
    #[default]
    Igp,
    /// EGP.
    Egp,
    /// INCOMPLETE.
    Incomplete,
}

/// The next hop of routes in BGP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NextHop {
    /// The port's address.
    #[default]
    Own,
    /// Another station's.
    Address(IpAddr),
}

impl RouteSet {
    /// Routes that the pod has of it.
    pub fn count(&self) -> u64 {
        self.prefixes.count_of(self.share)
    }

    /// Whether a session advertises it.
    pub(crate) fn is_of(&self, port: &str, session: &str) -> bool {
        self.port == port && self.sessions.iter().any(|name| name == session)
    }
}

/// Why a text is no community.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {what}")]
pub struct TextError {
    text: String,
    what: &'static str,
}

/// `N` numbers with colons between them.
fn numbers<const N: usize, T: FromStr>(text: &str) -> Option<[T; N]> {
    let digits = |part: &str| (!part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())).then(|| part.parse().ok());
    let parts: Option<Vec<T>> = text.split(':').map(|part| digits(part).flatten()).collect();
    parts?.try_into().ok()
}

impl FromStr for Community {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let what = "community; must be two numbers of 0 to 65535, such as 65001:100";
        let [asn, value] = numbers(text).ok_or_else(|| TextError { text: text.to_owned(), what })?;
        Ok(Self(asn, value))
    }
}

impl FromStr for LargeCommunity {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let what = "large community; must be three numbers of 0 to 4294967295, such as 65001:1:2";
        let [asn, one, two] = numbers(text).ok_or_else(|| TextError { text: text.to_owned(), what })?;
        Ok(Self(asn, one, two))
    }
}

impl fmt::Display for Community {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

impl fmt::Display for LargeCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn communities_are_read_or_refused_with_what_would_be_right() {
        assert_eq!("65001:100".parse(), Ok(Community(65001, 100)));
        assert_eq!("4200000000:1:0".parse(), Ok(LargeCommunity(4_200_000_000, 1, 0)));
        assert_eq!(Community(0, 65535).to_string(), "0:65535");
        assert_eq!(LargeCommunity(1, 2, 3).to_string(), "1:2:3");
        for wrong in ["65536:1", "1", "1:2:3", "a:1", "1:", "+1:2", ""] {
            let problem = format!("{wrong:?} is no community; must be two numbers of 0 to 65535, such as 65001:100");
            assert_eq!(wrong.parse::<Community>().unwrap_err().to_string(), problem);
        }
        for wrong in ["4294967296:1:1", "1:2", "1:2:3:4", "1:-2:3"] {
            assert!(wrong.parse::<LargeCommunity>().is_err(), "{wrong}");
        }
    }
}
