// SPDX-License-Identifier: Apache-2.0
//! Everything that is wrong with routers and routes, found before BIRD reads them. What depends on the machine (whether a port has a
//! link, what BIRD says of `extra_config`) is not known here.
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::IpAddr,
};

use crate::{
    Attributes, Bfd, BfdTimers, Bgp, Family, LinkType, Net, NextHop, Origin, Ospf, Rip, RouteSet, Router, extra,
};

/// Characters of a session's and a set's name: BIRD's names have 64, and other parts before them.
pub const MAX_NAME_CHARS: usize = 40;
/// Of a port's name and of an interface's (Linux's IFNAMSIZ).
const MAX_PORT_CHARS: usize = 15;
/// The AS that stands for those of more than two bytes (RFC 6793).
const AS_TRANS: u32 = 23456;
/// Entries of AS_PATH, of COMMUNITIES and of LARGE_COMMUNITY, so that all of them have room in a message of 4,096 bytes.
const MAX_ENTRIES: [usize; 3] = [200, 200, 100];
/// BFD's interval, in microseconds. Below, a thread that waits for a CPU would end sessions.
const BFD_INTERVAL_US: std::ops::RangeInclusive<u32> = 10_000..=60_000_000;
/// A route of this metric is not reachable in RIP.
const RIP_INFINITY: u32 = 16;
/// The greatest metric of OSPF (LSInfinity - 1).
const OSPF_METRIC: u32 = 0xff_fffe;

/// Something wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its path, such as `routers[0].bgp[1].neighbor_as`.
    pub field: String,
    /// What is wrong, and what would be right.
    pub description: String,
}

/// Violations as they are found.
#[derive(Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, field: impl Into<String>, description: impl Into<String>) {
        self.0.push(Violation { field: field.into(), description: description.into() });
    }
}

/// What is wrong with the routers of a pod, in the order of their fields; `routers[n]` is the nth.
pub fn check(routers: &[Router]) -> Vec<Violation> {
    let mut wrong = Violations::default();
    for (n, router) in routers.iter().enumerate() {
        let field = format!("routers[{n}]");
        check_router(&field, router, &mut wrong);
        for earlier in &routers[..n] {
            if earlier.port == router.port {
                wrong.add(
                    format!("{field}.port"),
                    format!("port {} is there twice; give all of its sessions at once", router.port),
                );
            }
            if earlier.interface == router.interface {
                wrong.add(
                    format!("{field}.interface"),
                    format!("{} is also the interface of port {}", router.interface, earlier.port),
                );
            }
            let meets = |prefix: &spate_neighbour::Prefix| {
                earlier.addresses.iter().any(|other| other.contains(prefix.address) || prefix.contains(other.address))
            };
            if let Some(at) = router.addresses.iter().position(meets) {
                let problem = format!(
                    "{} is in a subnet of port {}: the kernel would not know by which of them a neighbor is reached; give the ports \
                     subnets of their own",
                    router.addresses[at], earlier.port
                );
                wrong.add(format!("{field}.addresses[{at}]"), problem);
            }
        }
    }
    wrong.0
}

fn check_router(field: &str, router: &Router, wrong: &mut Violations) {
    check_name(&format!("{field}.port"), &router.port, MAX_PORT_CHARS, wrong);
    check_name(&format!("{field}.interface"), &router.interface, MAX_PORT_CHARS, wrong);
    if router.addresses.is_empty() {
        wrong.add(format!("{field}.addresses"), "missing; a router needs an address on its link");
    }
    match router.id() {
        None if !router.addresses.is_empty() => wrong.add(
            format!("{field}.router_id"),
            "missing; the port has no IPv4 address that could be it: give any number that no other router has, such as 1.1.1.1",
        ),
        Some(id) if id.is_unspecified() => wrong.add(format!("{field}.router_id"), "0.0.0.0 is no router ID; must be another number"),
        _ => {}
    }
    let mut names = BTreeSet::new();
    let mut named = |field: &str, name: &str, wrong: &mut Violations| {
        let field = format!("{field}.name");
        check_name(&field, name, MAX_NAME_CHARS, wrong);
        if !names.insert(name.to_owned()) {
            wrong.add(field, format!("{name:?} is another session of the port, too; must be a name of its own"));
        }
    };
    for (n, session) in router.bgp.iter().enumerate() {
        let field = format!("{field}.bgp[{n}]");
        named(&field, &session.name, wrong);
        check_bgp(&field, session, router, wrong);
        if router.bgp[..n].iter().any(|earlier| earlier.neighbor == session.neighbor) {
            let problem =
                format!("{} has another session of the port; a port has one with each neighbor", session.neighbor);
            wrong.add(format!("{field}.neighbor"), problem);
        }
    }
    for (n, session) in router.ospf.iter().enumerate() {
        let field = format!("{field}.ospf[{n}]");
        named(&field, &session.name, wrong);
        check_ospf(&field, session, router, wrong);
        if router.ospf[..n].iter().any(|earlier| earlier.version == session.version) {
            wrong.add(
                format!("{field}.version"),
                "another session of the port has this version; a port has one of each",
            );
        }
    }
    for (n, session) in router.rip.iter().enumerate() {
        let field = format!("{field}.rip[{n}]");
        named(&field, &session.name, wrong);
        check_rip(&field, session, router, wrong);
        if router.rip[..n].iter().any(|earlier| earlier.version == session.version) {
            wrong.add(format!("{field}.family"), "another session of the port has this family; a port has one of each");
        }
    }
    for (n, session) in router.bfd.iter().enumerate() {
        let field = format!("{field}.bfd[{n}]");
        named(&field, &session.name, wrong);
        check_bfd(&field, session, &router.bfd[..n], router, wrong);
    }
    if let Some((line, problem)) = extra::refused(&router.extra_config) {
        wrong.add(format!("{field}.extra_config"), format!("line {line}: {problem}"));
    }
}

fn check_bgp(field: &str, session: &Bgp, router: &Router, wrong: &mut Violations) {
    for (name, asn) in [("local_as", session.local_as), ("neighbor_as", session.neighbor_as)] {
        if let Some(problem) = reserved_as(asn) {
            wrong.add(format!("{field}.{name}"), problem);
        }
    }
    check_neighbor(&format!("{field}.neighbor"), session.neighbor, router, session.multihop.is_some(), wrong);
    if session.families.is_empty() {
        wrong.add(format!("{field}.families"), "missing; must be IPv4 unicast, IPv6 unicast or both");
    }
    for (n, family) in session.families.iter().enumerate() {
        let field = format!("{field}.families[{n}]");
        if session.families[..n].contains(family) {
            wrong.add(field, format!("{family} is there twice"));
        } else if router.address(*family).is_none() && !router.addresses.is_empty() {
            wrong.add(
                field,
                format!("the port has no {family} address, which would be the next hop of its routes; give it one"),
            );
        }
    }
    if let Some(timers) = &session.bfd {
        check_timers(&format!("{field}.bfd"), timers, wrong);
    }
    if matches!(session.hold_time_s, 1 | 2) {
        wrong.add(format!("{field}.hold_time_s"), "must be 0 (never) or 3 to 65535 seconds (RFC 4271 section 4.2)");
    }
    if session.multihop == Some(0) {
        wrong.add(format!("{field}.multihop"), "0; must be 1 to 255 hops, or absent for a neighbor on the link");
    }
}

fn check_ospf(field: &str, session: &Ospf, router: &Router, wrong: &mut Violations) {
    let family = session.version.family();
    if router.address(family).is_none() && !router.addresses.is_empty() {
        wrong.add(
            format!("{field}.version"),
            format!("the port has no {family} address; give it one, or take the other version"),
        );
    }
    if session.hello_s == 0 {
        wrong.add(format!("{field}.hello_s"), "0; must be at least 1 s");
    }
    if session.dead_s < 2 || session.dead_s <= session.hello_s {
        let problem =
            format!("{} s; must be at least 2 s, and more than the {} s of hello", session.dead_s, session.hello_s);
        wrong.add(format!("{field}.dead_s"), problem);
    }
    // With addresses of 31 and 32 bits there is no designated router to elect.
    let point_to_point = |prefix: &spate_neighbour::Prefix| prefix.address.is_ipv4() && prefix.length > 30;
    if family == Family::V4 && session.link == LinkType::Broadcast && router.addresses.iter().any(point_to_point) {
        wrong
            .add(format!("{field}.link"), "the port has an address without a broadcast subnet; must be point to point");
    }
}

fn check_rip(field: &str, session: &Rip, router: &Router, wrong: &mut Violations) {
    let family = session.version.family();
    if router.address(family).is_none() && !router.addresses.is_empty() {
        wrong.add(
            format!("{field}.family"),
            format!("the port has no {family} address; give it one, or take the other family"),
        );
    }
    if session.update_s == 0 {
        wrong.add(format!("{field}.update_s"), "0; must be at least 1 s");
    }
    if session.timeout_s <= session.update_s {
        let problem = format!(
            "{} s; must be more than the {} s from one update to the next",
            session.timeout_s, session.update_s
        );
        wrong.add(format!("{field}.timeout_s"), problem);
    }
    if session.password.is_some() && family == Family::V6 {
        wrong.add(format!("{field}.password"), "RIPng has no authentication of its own (RFC 2080); leave it out");
    }
}

fn check_bfd(field: &str, session: &Bfd, earlier: &[Bfd], router: &Router, wrong: &mut Violations) {
    check_neighbor(&format!("{field}.neighbor"), session.neighbor, router, false, wrong);
    check_timers(&format!("{field}.timers"), &session.timers, wrong);
    if earlier.iter().any(|other| other.neighbor == session.neighbor) {
        let problem =
            format!("{} has another session of the port; a port has one with each neighbor", session.neighbor);
        wrong.add(format!("{field}.neighbor"), problem);
    }
    if let Some(bgp) = router.bgp.iter().find(|bgp| bgp.neighbor == session.neighbor && bgp.bfd.is_some()) {
        wrong.add(
            format!("{field}.neighbor"),
            format!("BGP's session {} has BFD with {}; leave out one of them", bgp.name, session.neighbor),
        );
    }
    if earlier.first().is_some_and(|first| first.timers != session.timers) {
        wrong.add(
            format!("{field}.timers"),
            "other timers than the port's first session of BFD has; those that no other protocol uses share theirs",
        );
    }
}

/// A neighbor that a session can have.
fn check_neighbor(field: &str, neighbor: IpAddr, router: &Router, elsewhere: bool, wrong: &mut Violations) {
    let family = Family::of(neighbor);
    let link_local = matches!(neighbor, IpAddr::V6(address) if address.is_unicast_link_local());
    if neighbor.is_unspecified() || neighbor.is_multicast() || neighbor.is_loopback() || link_local {
        wrong.add(
            field,
            format!("{neighbor} is no address of a neighbor; must be a unicast address that is not link-local"),
        );
    } else if router.addresses.iter().any(|prefix| prefix.address == neighbor) {
        wrong.add(field, format!("{neighbor} is the port's own address; must be the neighbor's"));
    } else if router.addresses.is_empty() {
        // That is reported.
    } else if router.address_towards(neighbor).is_some() {
        // It is on the link.
    } else if elsewhere && router.address(family).is_none() {
        wrong.add(field, format!("{neighbor}: the port has no {family} address to speak from; give it one"));
    } else if elsewhere && !router.gateways.iter().any(|gateway| Family::of(*gateway) == family) {
        wrong.add(field, format!("{neighbor} is in no subnet of the port, which has no {family} gateway; give it one"));
    } else if !elsewhere {
        let subnets: Vec<String> = router.addresses.iter().map(ToString::to_string).collect();
        let problem = format!(
            "{neighbor} is in no subnet of the port ({}); give the port an address of the neighbor's subnet, or a session of BGP \
             `multihop`",
            subnets.join(", ")
        );
        wrong.add(field, problem);
    }
}

fn check_timers(field: &str, timers: &BfdTimers, wrong: &mut Violations) {
    if !BFD_INTERVAL_US.contains(&timers.interval_us) {
        wrong.add(
            format!("{field}.interval_us"),
            format!("{}; must be 10000 (10 ms) to 60000000 (60 s)", timers.interval_us),
        );
    }
    if timers.multiplier == 0 {
        wrong.add(format!("{field}.multiplier"), "0; must be 1 to 255");
    }
}

fn check_name(field: &str, name: &str, most: usize, wrong: &mut Violations) {
    let right = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if name.is_empty() {
        wrong.add(field, "missing");
    } else if name.len() > most || !name.bytes().all(right) {
        wrong.add(field, format!("{name:?} must be at most {most} letters, digits, '-', '_' or '.'"));
    }
}

fn reserved_as(asn: u32) -> Option<String> {
    match asn {
        0 => Some("AS 0 is reserved (RFC 7607); must be 1 to 4294967295".into()),
        AS_TRANS => Some("AS 23456 stands for others (RFC 6793); must be 1 to 4294967295, and not 23456".into()),
        _ => None,
    }
}

/// What is wrong with the routes of a run; `routes[n]` is the nth set. `others` are those of other runs on the same routers. No prefix may
/// lie in a network of `reserved`, such as the pod's own addresses.
pub fn check_routes(routes: &[RouteSet], others: &[RouteSet], routers: &[Router], reserved: &[Net]) -> Vec<Violation> {
    let mut wrong = Violations::default();
    let mut names = HashSet::new();
    // Only what is right in itself is compared with others.
    let mut compared: BTreeMap<&str, Vec<&RouteSet>> = BTreeMap::new();
    for (n, set) in routes.iter().enumerate() {
        let field = format!("routes[{n}]");
        check_name(&format!("{field}.name"), &set.name, MAX_NAME_CHARS, &mut wrong);
        if !names.insert(&set.name) {
            wrong
                .add(format!("{field}.name"), format!("{:?} is another set, too; must be a name of its own", set.name));
        }
        let router = routers.iter().find(|router| router.port == set.port);
        match router {
            None => wrong
                .add(format!("{field}.port"), format!("port {:?} has no routing; must be one with sessions", set.port)),
            Some(router) => check_advertisers(&field, set, router, routers, &mut wrong),
        }
        if let Err(error) = set.prefixes.check() {
            wrong.add(format!("{field}.prefixes.{}", error.field), error.problem);
            continue;
        }
        check_attributes(&format!("{field}.attributes"), &set.attributes, &mut wrong);
        let subnets = router.into_iter().flat_map(|router| &router.addresses);
        let subnets = subnets.map(|prefix| (Net::around(prefix.address, prefix.length), "the port's own subnet"));
        for (network, what) in subnets.chain(reserved.iter().map(|net| (*net, "the pod's own network"))) {
            if let Some(prefix) = set.prefixes.first_within(network) {
                let problem = format!(
                    "{prefix} lies in {what} {network}, the stations of which neighbors would no longer reach; leave it out"
                );
                wrong.add(format!("{field}.prefixes"), problem);
                break;
            }
        }
        let of_port = compared.entry(&set.port).or_default();
        let of_others = others.iter().filter(|other| other.port == set.port).map(|other| (other, " of another run"));
        let mut all = of_port.iter().map(|other| (*other, "")).chain(of_others);
        if let Some((other, of, prefix)) =
            all.find_map(|(other, of)| Some((other, of, other.prefixes.common(&set.prefixes)?)))
        {
            let problem = format!(
                "{prefix} is in set {:?} of the port{of}, too; a router has one route to each prefix",
                other.name
            );
            wrong.add(format!("{field}.prefixes"), problem);
        }
        of_port.push(set);
    }
    wrong.0
}

/// The sessions of a set are the port's, and can have its routes.
fn check_advertisers(field: &str, set: &RouteSet, router: &Router, routers: &[Router], wrong: &mut Violations) {
    let sessions: BTreeMap<&str, Vec<Family>> = router.advertisers().collect();
    let known = || sessions.keys().copied().collect::<Vec<_>>().join(", ");
    if set.sessions.is_empty() {
        wrong
            .add(format!("{field}.sessions"), format!("missing; must name sessions of port {}: {}", set.port, known()));
        return;
    }
    let mut all_known = true;
    for (n, name) in set.sessions.iter().enumerate() {
        let field = format!("{field}.sessions[{n}]");
        if set.sessions[..n].contains(name) {
            wrong.add(field, format!("{name:?} is there twice"));
        } else if !sessions.contains_key(name.as_str()) {
            all_known = false;
            let elsewhere = routers.iter().find(|other| other.advertisers().any(|(other, _)| other == name));
            let problem = match (router.bfd.iter().any(|bfd| bfd.name == *name), elsewhere) {
                (true, _) => format!("{name:?} is a session of BFD, which has no routes; must be of BGP, OSPF or RIP"),
                (false, Some(other)) => {
                    format!("{name:?} is a session of port {}; those of port {} are: {}", other.port, set.port, known())
                }
                (false, None) => format!("{name:?} is no session of port {}; they are: {}", set.port, known()),
            };
            wrong.add(field, problem);
        }
    }
    let Some(family) = set.prefixes.family().filter(|_| all_known) else { return };
    let bgp: Vec<&Bgp> = router.bgp.iter().filter(|bgp| set.sessions.contains(&bgp.name)).collect();
    let takes = |name: &String| sessions.get(name.as_str()).is_some_and(|families| families.contains(&family));
    if let Some(at) = set.sessions.iter().position(|name| !takes(name)) {
        let problem = format!(
            "{:?} has no {family} routes, which those of the set are; add the family to the session, or leave it out",
            set.sessions[at]
        );
        wrong.add(format!("{field}.sessions[{at}]"), problem);
    }
    if let NextHop::Address(next_hop) = set.attributes.next_hop {
        let field = format!("{field}.attributes.next_hop");
        if Family::of(next_hop) != family {
            wrong.add(
                field,
                format!("{next_hop} is not {family}, which the set's prefixes are; must be of their family"),
            );
        } else if next_hop.is_unspecified() || next_hop.is_multicast() || next_hop.is_loopback() {
            wrong.add(field, format!("{next_hop} is no address of a next hop; must be a unicast address"));
        } else if let Some(session) = bgp.iter().find(|session| session.neighbor == next_hop) {
            let problem = format!(
                "{next_hop} is the neighbor of session {} itself, which would not accept the routes; must be the port's address, or \
                 another station's",
                session.name
            );
            wrong.add(field, problem);
        }
    }
    check_use(&format!("{field}.attributes"), &set.attributes, &bgp, wrong);
    check_metric(field, set, router, wrong);
}

/// Attributes that no session of a set would send.
fn check_use(field: &str, attributes: &Attributes, bgp: &[&Bgp], wrong: &mut Violations) {
    if attributes.local_preference.is_some() && !bgp.is_empty() && bgp.iter().all(|bgp| bgp.local_as != bgp.neighbor_as)
    {
        let problem = "no neighbor of the set's sessions is of the port's AS, and others are not sent it (RFC 4271); leave it out";
        wrong.add(format!("{field}.local_preference"), problem);
    }
    if !bgp.is_empty() {
        return;
    }
    for (name, is_set) in [
        ("as_path", !attributes.as_path.is_empty()),
        ("communities", !attributes.communities.is_empty()),
        ("large_communities", !attributes.large_communities.is_empty()),
        ("med", attributes.med.is_some()),
        ("local_preference", attributes.local_preference.is_some()),
        ("origin", attributes.origin != Origin::default()),
        ("next_hop", attributes.next_hop != NextHop::default()),
    ] {
        if is_set {
            wrong.add(format!("{field}.{name}"), "no session of the set is of BGP, which alone has it; leave it out");
        }
    }
}

/// OSPF and RIP have different metrics.
fn check_metric(field: &str, set: &RouteSet, router: &Router, wrong: &mut Violations) {
    let Some(metric) = set.attributes.metric else { return };
    let field = format!("{field}.attributes.metric");
    let in_rip = router.rip.iter().any(|session| set.sessions.contains(&session.name));
    let in_ospf = router.ospf.iter().any(|session| set.sessions.contains(&session.name));
    if !in_rip && !in_ospf {
        wrong.add(field, "no session of the set is of OSPF or RIP, which have metrics; BGP has `med`");
    } else if in_rip && !(1..RIP_INFINITY).contains(&metric) {
        wrong.add(field, format!("{metric}; must be 1 to {} in RIP", RIP_INFINITY - 1));
    } else if in_ospf && !(1..=OSPF_METRIC).contains(&metric) {
        wrong.add(field, format!("{metric}; must be 1 to {OSPF_METRIC} in OSPF"));
    }
}

fn check_attributes(field: &str, attributes: &Attributes, wrong: &mut Violations) {
    for (n, asn) in attributes.as_path.iter().enumerate() {
        if *asn == 0 {
            wrong.add(format!("{field}.as_path[{n}]"), "AS 0 is reserved (RFC 7607); must be 1 to 4294967295");
        }
    }
    let lists = [
        ("as_path", attributes.as_path.len()),
        ("communities", attributes.communities.len()),
        ("large_communities", attributes.large_communities.len()),
    ];
    for ((name, len), most) in lists.into_iter().zip(MAX_ENTRIES) {
        if len > most {
            wrong.add(format!("{field}.{name}"), format!("{len} entries; a message of BGP has room for {most}"));
        }
    }
}

#[cfg(test)]
mod tests;
