// SPDX-License-Identifier: Apache-2.0
//! Routes that neighbors have sent, as BIRD lists them (`show route ... all`): a line of code 1007 for each, and details behind it.
use std::{mem, net::IpAddr};

use crate::{Line, Net, SessionKind, protocols::Words};

/// Codes of the lines.
const ROUTE: u16 = 1007;
const ATTRIBUTES: u16 = 1012;

/// A route that a neighbor has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The protocol of its session.
    pub kind: SessionKind,
    /// The session's name.
    pub session: String,
    /// Its prefix.
    pub prefix: Net,
    /// Its next hop; none if it has none, as routes to the link itself.
    pub next_hop: Option<IpAddr>,
    /// BGP's AS_PATH, as BIRD writes it.
    pub as_path: String,
}

/// Reads the routes of a port line by line: there may be more than fit in memory. Those that no neighbor has sent are left out.
#[derive(Clone, Debug)]
pub struct LearnedRoutes {
    port: String,
    /// That of the lines that come.
    prefix: Option<Net>,
    route: Option<Learned>,
}

impl LearnedRoutes {
    /// Of this port.
    pub fn of(port: &str) -> Self {
        Self { port: port.to_owned(), prefix: None, route: None }
    }

    /// Takes the next line; the route before it, if the line begins another.
    pub fn push(&mut self, line: &Line) -> Option<Learned> {
        match line.code {
            // "203.0.113.0/26       unicast [bgp:east:dut 22:09:11.022 from 10.99.0.2] (100) [AS65002i]", without the prefix if it is the same
            // as before; "\tvia 10.99.0.2 on rt-east"; "Table 4:east:".
            ROUTE if line.text.starts_with('\t') => {
                let mut words = Words(&line.text);
                if let (Some("via"), Some(hop), Some(route)) = (words.next(), words.next(), &mut self.route) {
                    route.next_hop = route.next_hop.or_else(|| hop.parse().ok());
                }
                None
            }
            ROUTE => {
                let before = mem::take(&mut self.route);
                self.begin(&line.text);
                before
            }
            ATTRIBUTES => {
                if let (Some(route), Some((key, value))) = (&mut self.route, line.text.trim().split_once(": ")) {
                    match key {
                        "BGP.as_path" => value.trim().clone_into(&mut route.as_path),
                        // In IPv6 also a link-local one, which the first is reached by.
                        "BGP.next_hop" => {
                            let first = value.split(' ').next().and_then(|hop| hop.parse().ok());
                            route.next_hop = first.or(route.next_hop);
                        }
                        _ => {}
                    }
                }
                None
            }
            _ => None,
        }
    }

    /// The last route.
    pub fn end(self) -> Option<Learned> {
        self.route
    }

    fn begin(&mut self, text: &str) {
        let Some((before, rest)) = text.split_once('[') else {
            self.prefix = None;
            return;
        };
        if !text.starts_with(' ') {
            self.prefix = Words(before).next().and_then(|prefix| prefix.parse().ok());
        }
        let protocol = Words(rest).next().unwrap_or_default();
        let mut parts = protocol.splitn(3, ':');
        let kind = match parts.next() {
            Some("bgp") => SessionKind::Bgp,
            Some("ospf") => SessionKind::Ospf,
            Some("rip") => SessionKind::Rip,
            _ => return,
        };
        if let (Some(port), Some(session), Some(prefix)) = (parts.next(), parts.next(), self.prefix)
            && port == self.port
        {
            let session = session.to_owned();
            self.route = Some(Learned { kind, session, prefix, next_hop: None, as_path: String::new() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Decoder, Entry};

    /// Of BIRD 2.0.12.
    const ROUTES: &str = "\
1007-Table 4:east:
 203.0.113.64/26      unicast [rip:east:old 22:09:10.319] * (120/2)
 \tvia 10.99.0.7 on rt-east
1008-\tType: RIP univ
1012-\tRIP.metric: 2
 \tRIP.tag: 0000
1007-                     unicast [bgp:east:dut 22:09:11.113 from 2001:db8:99::2] (100) [AS64512i]
 \tvia 10.99.0.2 on rt-east
1008-\tType: BGP univ
1012-\tBGP.origin: IGP
 \tBGP.as_path: 65002 65009 64512
 \tBGP.next_hop: 10.99.0.2
 \tBGP.local_pref: 100
1007-20.0.0.0/24          blackhole [routes:1:customers 22:09:10.319] * (200)
1008-\tType: static univ
1007-2001:db8:113::/48    unreachable [bgp:east:dut 22:09:11.113] (100) [AS65002i]
1008-\tType: BGP univ
1012-\tBGP.as_path: 65002
 \tBGP.next_hop: 2001:db8:99::2 fe80::50c6:fff:fe00:a5d4
1007-10.99.0.0/24         unicast [ospf:east:core 22:09:15.351] * I (150/10) [10.99.0.1]
 \tdev rt-east
1008-\tType: OSPF univ
1007-10.98.0.0/24         unicast [ospf:west:core 22:09:15.351] * I (150/10) [10.99.0.1]
 \tvia 10.98.0.2 on rt-west
0000\x20
";

    #[test]
    fn routes_of_neighbors_have_their_session_next_hop_and_path() {
        let mut decoder = Decoder::default();
        decoder.push(ROUTES.as_bytes());
        let (mut reader, mut found) = (LearnedRoutes::of("east"), Vec::new());
        while let Some(Entry::More(line)) = decoder.entry().unwrap() {
            found.extend(reader.push(&line));
        }
        found.extend(reader.end());
        let route = |kind, session: &str, prefix: &str, next_hop: &str, as_path: &str| Learned {
            kind,
            session: session.into(),
            prefix: prefix.parse().unwrap(),
            next_hop: next_hop.parse().ok(),
            as_path: as_path.into(),
        };
        assert_eq!(
            found,
            [
                route(SessionKind::Rip, "old", "203.0.113.64/26", "10.99.0.7", ""),
                route(SessionKind::Bgp, "dut", "203.0.113.64/26", "10.99.0.2", "65002 65009 64512"),
                route(SessionKind::Bgp, "dut", "2001:db8:113::/48", "2001:db8:99::2", "65002"),
                route(SessionKind::Ospf, "core", "10.99.0.0/24", "", ""),
            ]
        );
    }
}
