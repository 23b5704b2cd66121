// SPDX-License-Identifier: Apache-2.0
//! Neighbors as BIRD lists them: of BFD, of OSPF and of RIP. Lines that end with a colon name the protocol of those that follow.
use std::net::{IpAddr, Ipv4Addr};

use crate::{Reply, protocols::Words};

/// Codes of the lines.
const OSPF: u16 = 1013;
const BFD: u16 = 1020;
const RIP: u16 = 1022;

/// A session of BFD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BfdSession {
    /// The peer.
    pub neighbor: IpAddr,
    /// The interface; none for a peer that is not on a link.
    pub interface: Option<String>,
    /// Its state (RFC 5880 section 4.1): AdminDown, Down, Init or Up.
    pub state: String,
    /// When that changed, as BIRD writes it.
    pub since: String,
}

/// A neighbor in OSPF.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OspfNeighbor {
    /// The protocol's name in BIRD's configuration.
    pub protocol: String,
    /// The neighbor.
    pub router_id: Ipv4Addr,
    /// Its state (RFC 2328 section 10.1), such as Full.
    pub state: String,
}

/// A neighbor in RIP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RipNeighbor {
    /// The protocol's name in BIRD's configuration.
    pub protocol: String,
    /// The neighbor.
    pub address: IpAddr,
}

/// The sessions in a reply to [`crate::Command::ShowBfd`].
pub fn bfd_sessions(reply: &Reply) -> Vec<BfdSession> {
    rows(reply, BFD, |_, row| {
        let mut words = Words(row);
        let neighbor = words.next()?.parse().ok()?;
        let interface = Some(words.next()?).filter(|name| *name != "---").map(ToOwned::to_owned);
        Some(BfdSession { neighbor, interface, state: words.next()?.to_owned(), since: words.time()? })
    })
}

/// The neighbors in a reply to [`crate::Command::ShowOspf`].
pub fn ospf_neighbors(reply: &Reply) -> Vec<OspfNeighbor> {
    rows(reply, OSPF, |protocol, row| {
        let mut words = Words(row);
        let router_id = words.next()?.parse().ok()?;
        let (state, _position) = words.nth(1)?.split_once('/')?;
        Some(OspfNeighbor { protocol: protocol.to_owned(), router_id, state: state.to_owned() })
    })
}

/// The neighbors in a reply to [`crate::Command::ShowRip`].
pub fn rip_neighbors(reply: &Reply) -> Vec<RipNeighbor> {
    rows(reply, RIP, |protocol, row| {
        Some(RipNeighbor { protocol: protocol.to_owned(), address: Words(row).next()?.parse().ok()? })
    })
}

/// What is read of the rows of a code, which come behind the line that names their protocol. Headings are none.
fn rows<T>(reply: &Reply, code: u16, read: impl Fn(&str, &str) -> Option<T>) -> Vec<T> {
    let mut protocol = "";
    let mut found = Vec::new();
    for line in reply.lines.iter().filter(|line| line.code == code) {
        match line.text.strip_suffix(':').filter(|name| !name.contains(' ')) {
            Some(name) => protocol = name,
            None => found.extend(read(protocol, &line.text)),
        }
    }
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::protocols::tests::reply;

    pub(crate) const BFD_SESSIONS: &str = "\
1020-bfd:all:
 IP address                Interface  State      Since         Interval  Timeout
 10.99.0.2                 rt-east    Up         2026-11-28 10:11:12.345    0.050    0.150
 2001:db8::2               ---        Down       2026-11-28 10:11:11.000    1.000    0.000
0000\x20
";
    pub(crate) const OSPF_NEIGHBORS: &str = "\
1013-ospf:east:core:
 Router ID   \tPri\t     State     \tDTime\tInterface  Router IP
 10.99.0.2   \t  1\tFull/PtP  \t 3.412\trt-east    10.99.0.2
 10.99.0.3   \t  1\t2-Way/Other\t 3.412\trt-east    10.99.0.3
 ospf:east:v6:
 Router ID   \tPri\t     State     \tDTime\tInterface  Router IP
 ospf:west:core: is not up
0000\x20
";
    pub(crate) const RIP_NEIGHBORS: &str = "\
1022-rip:east:old:
 IP address                Interface  Metric Routes    Seen
 10.99.0.2                 rt-east         1      3   2.311
0000\x20
";

    #[test]
    fn neighbors_are_read_with_their_protocol() {
        let sessions = bfd_sessions(&reply(BFD_SESSIONS));
        let read: Vec<_> =
            sessions.iter().map(|s| (s.neighbor.to_string(), s.interface.as_deref(), s.state.as_str())).collect();
        assert_eq!(read, [("10.99.0.2".into(), Some("rt-east"), "Up"), ("2001:db8::2".into(), None, "Down")]);
        assert_eq!(sessions[0].since, "2026-11-28 10:11:12.345");

        let neighbors = ospf_neighbors(&reply(OSPF_NEIGHBORS));
        let neighbor = |last: u8, state: &str| OspfNeighbor {
            protocol: "ospf:east:core".into(),
            router_id: [10, 99, 0, last].into(),
            state: state.into(),
        };
        assert_eq!(neighbors, [neighbor(2, "Full"), neighbor(3, "2-Way")]);

        let neighbors = rip_neighbors(&reply(RIP_NEIGHBORS));
        assert_eq!(neighbors, [RipNeighbor { protocol: "rip:east:old".into(), address: [10, 99, 0, 2].into() }]);
    }
}
