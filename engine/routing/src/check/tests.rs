// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::{Community, LargeCommunity, Learn, OspfVersion, Prefixes, Range, RipVersion, Share};

/// A change of a router, the field that is wrong then, and what is said of it.
type Case = (fn(&mut Router), &'static str, &'static str);
/// The same of a set.
type SetCase = (fn(&mut RouteSet), &'static str, &'static str);

fn east() -> Router {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let timers = BfdTimers { interval_us: 50_000, multiplier: 3 };
    let bgp = |name: &str, neighbor: &str| Bgp::new(name, 65001, address(neighbor), 65002, [Family::V4, Family::V6]);
    let addresses = ["10.99.0.1/24", "2001:db8:99::1/64"].map(|text| text.parse().unwrap());
    let dut = Bgp { bfd: Some(timers), ..bgp("dut", "10.99.0.2") };
    let far = Bgp { multihop: Some(2), families: vec![Family::V4], ..bgp("far", "192.0.2.1") };
    let inside = Bgp { neighbor_as: 65001, ..bgp("inside", "10.99.0.7") };
    Router {
        gateways: vec![address("10.99.0.254")],
        ospf: vec![Ospf {
            name: "core".into(),
            version: OspfVersion::V2,
            area: [0; 4].into(),
            link: LinkType::PointToPoint,
            hello_s: 1,
            dead_s: 4,
            password: None,
            learn: Learn::Count,
        }],
        rip: vec![Rip {
            name: "old".into(),
            version: RipVersion::V2,
            update_s: 30,
            timeout_s: 180,
            password: None,
            learn: Learn::Count,
        }],
        bfd: vec![Bfd { name: "alive".into(), neighbor: address("10.99.0.3"), timers }],
        ..Router::new("east", "rt-east", addresses).with_bgp([dut, far, inside])
    }
}

fn west() -> Router {
    let session = Bgp::new("other", 65001, "10.98.0.2".parse().unwrap(), 65002, [Family::V4]);
    Router::new("west", "rt-west", ["10.98.0.1/24".parse().unwrap()]).with_bgp([session])
}

fn customers() -> RouteSet {
    RouteSet {
        name: "customers".into(),
        run: 1,
        port: "east".into(),
        sessions: vec!["dut".into(), "core".into()],
        prefixes: Prefixes::Range(Range { first: "20.0.0.0/24".parse().unwrap(), count: 1000, step: 1 }),
        share: Share::ALL,
        attributes: Attributes::default(),
        advertised: true,
    }
}

#[track_caller]
fn assert_found(found: &[Violation], field: &str, description: &str) {
    let expected = |violation: &Violation| violation.field == field && violation.description.starts_with(description);
    assert!(found.iter().any(expected), "{field}: {description}; found {found:#?}");
}

#[test]
fn what_is_wrong_with_a_router_is_found_with_its_field() {
    assert_eq!(check(&[east(), west()]), []);
    let cases: &[Case] = &[
        (|r| r.port.clear(), "routers[0].port", "missing"),
        (
            |r| r.interface = "an-interface-of-17".into(),
            "routers[0].interface",
            "\"an-interface-of-17\" must be at most 15 letters",
        ),
        (|r| r.addresses.clear(), "routers[0].addresses", "missing; a router needs an address"),
        (
            |r| r.addresses.retain(|own| own.address.is_ipv6()),
            "routers[0].router_id",
            "missing; the port has no IPv4 address that could be it",
        ),
        (|r| r.router_id = Some([0; 4].into()), "routers[0].router_id", "0.0.0.0 is no router ID"),
        (|r| r.bgp[0].name = "a b".into(), "routers[0].bgp[0].name", "\"a b\" must be at most 40 letters, digits"),
        (|r| r.bgp[0].name = "x".repeat(41), "routers[0].bgp[0].name", "\"xxx"),
        (|r| r.ospf[0].name = "dut".into(), "routers[0].ospf[0].name", "\"dut\" is another session of the port, too"),
        (|r| r.bgp[0].local_as = 0, "routers[0].bgp[0].local_as", "AS 0 is reserved"),
        (|r| r.bgp[0].neighbor_as = 23456, "routers[0].bgp[0].neighbor_as", "AS 23456 stands for others"),
        (
            |r| r.bgp[0].neighbor = [10, 98, 0, 2].into(),
            "routers[0].bgp[0].neighbor",
            "10.98.0.2 is in no subnet of the port (10.99.0.1/24, 2001:db8:99::1/64)",
        ),
        (
            |r| r.bgp[0].neighbor = [10, 99, 0, 1].into(),
            "routers[0].bgp[0].neighbor",
            "10.99.0.1 is the port's own address",
        ),
        (
            |r| r.bgp[0].neighbor = [224, 0, 0, 5].into(),
            "routers[0].bgp[0].neighbor",
            "224.0.0.5 is no address of a neighbor",
        ),
        (
            |r| r.bgp[0].neighbor = "fe80::2".parse().unwrap(),
            "routers[0].bgp[0].neighbor",
            "fe80::2 is no address of a neighbor",
        ),
        (
            |r| r.bgp[1].neighbor = [10, 99, 0, 2].into(),
            "routers[0].bgp[1].neighbor",
            "10.99.0.2 has another session of the port",
        ),
        (
            |r| r.bgp[1].neighbor = "2001:db8::9".parse().unwrap(),
            "routers[0].bgp[1].neighbor",
            "2001:db8::9 is in no subnet of the port, which has no IPv6 gateway",
        ),
        (
            |r| r.gateways.clear(),
            "routers[0].bgp[1].neighbor",
            "192.0.2.1 is in no subnet of the port, which has no IPv4 gateway",
        ),
        (|r| r.bgp[0].families.clear(), "routers[0].bgp[0].families", "missing; must be IPv4 unicast"),
        (|r| r.bgp[0].families = vec![Family::V4; 2], "routers[0].bgp[0].families[1]", "IPv4 is there twice"),
        (
            |r| r.addresses.truncate(1),
            "routers[0].bgp[0].families[1]",
            "the port has no IPv6 address, which would be the next hop",
        ),
        (|r| r.bgp[0].hold_time_s = 2, "routers[0].bgp[0].hold_time_s", "must be 0 (never) or 3"),
        (|r| r.bgp[1].multihop = Some(0), "routers[0].bgp[1].multihop", "0; must be 1 to 255 hops"),
        (
            |r| r.bgp[0].bfd.as_mut().unwrap().interval_us = 9_999,
            "routers[0].bgp[0].bfd.interval_us",
            "9999; must be 10000 (10 ms)",
        ),
        (|r| r.bgp[0].bfd.as_mut().unwrap().multiplier = 0, "routers[0].bgp[0].bfd.multiplier", "0; must be 1 to 255"),
        (|r| r.ospf[0].version = OspfVersion::V3, "routers[0].ospf[0].version", "the port has no IPv6 address"),
        (
            |r| r.ospf.push(Ospf { name: "two".into(), ..r.ospf[0].clone() }),
            "routers[0].ospf[1].version",
            "another session of the port has this version",
        ),
        (|r| r.ospf[0].hello_s = 0, "routers[0].ospf[0].hello_s", "0; must be at least 1 s"),
        (
            |r| r.ospf[0].hello_s = 4,
            "routers[0].ospf[0].dead_s",
            "4 s; must be at least 2 s, and more than the 4 s of hello",
        ),
        (
            |r| {
                r.addresses[0] = "10.99.0.1/31".parse().unwrap();
                r.ospf[0].link = LinkType::Broadcast;
            },
            "routers[0].ospf[0].link",
            "the port has an address without a broadcast subnet",
        ),
        (|r| r.rip[0].update_s = 0, "routers[0].rip[0].update_s", "0; must be at least 1 s"),
        (
            |r| r.rip[0].timeout_s = 30,
            "routers[0].rip[0].timeout_s",
            "30 s; must be more than the 30 s from one update to the next",
        ),
        (
            |r| {
                r.rip[0].version = RipVersion::Ng;
                r.rip[0].password = Some(crate::Secret::new("pa55").unwrap());
            },
            "routers[0].rip[0].password",
            "RIPng has no authentication of its own",
        ),
        (
            |r| r.rip.push(Rip { name: "two".into(), ..r.rip[0].clone() }),
            "routers[0].rip[1].family",
            "another session of the port has this family",
        ),
        (
            |r| r.bfd[0].neighbor = [10, 99, 0, 2].into(),
            "routers[0].bfd[0].neighbor",
            "BGP's session dut has BFD with 10.99.0.2",
        ),
        (
            |r| r.bfd.push(Bfd { name: "two".into(), ..r.bfd[0].clone() }),
            "routers[0].bfd[1].neighbor",
            "10.99.0.3 has another session of the port",
        ),
        (
            |r| {
                let timers = BfdTimers { interval_us: 10_000, multiplier: 3 };
                r.bfd.push(Bfd { name: "two".into(), neighbor: [10, 99, 0, 4].into(), timers });
            },
            "routers[0].bfd[1].timers",
            "other timers than the port's first session",
        ),
        (
            |r| r.extra_config = "\nprotocol kernel { }".into(),
            "routers[0].extra_config",
            "line 2: protocol kernel: BIRD must not change",
        ),
    ];
    for (change, field, description) in cases {
        let mut router = east();
        if field.ends_with("ospf[0].version") {
            router.addresses.truncate(1);
        }
        change(&mut router);
        assert_found(&check(&[router, west()]), field, description);
    }
}

#[test]
fn ports_do_not_get_in_each_others_way() {
    let found = |change: fn(&mut Router)| {
        let mut second = west();
        change(&mut second);
        check(&[east(), second])
    };
    assert_found(&found(|r| r.port = "east".into()), "routers[1].port", "port east is there twice");
    assert_found(
        &found(|r| r.interface = "rt-east".into()),
        "routers[1].interface",
        "rt-east is also the interface of port east",
    );
    for address in ["10.99.0.9/24", "10.99.0.200/28", "10.0.0.1/8"] {
        let mut second = west();
        second.addresses[0] = address.parse().unwrap();
        assert_found(
            &check(&[east(), second]),
            "routers[1].addresses[0]",
            &format!("{address} is in a subnet of port east"),
        );
    }
}

#[test]
fn what_is_wrong_with_routes_is_found_with_its_field() {
    let reserved = ["10.244.0.0/16".parse().unwrap()];
    let routers = [east(), west()];
    let other = RouteSet { name: "other".into(), prefixes: of("30.0.0.0/24", 9, 3), ..customers() };
    assert_eq!(check_routes(&[customers(), other.clone()], &[], &routers, &reserved), []);
    let cases: &[SetCase] = &[
        (|s| s.name.clear(), "routes[1].name", "missing"),
        (|s| s.name = "other".into(), "routes[1].name", "\"other\" is another set, too"),
        (|s| s.port = "north".into(), "routes[1].port", "port \"north\" has no routing"),
        (
            |s| s.sessions.clear(),
            "routes[1].sessions",
            "missing; must name sessions of port east: core, dut, far, inside, old",
        ),
        (|s| s.sessions = vec!["dut".into(); 2], "routes[1].sessions[1]", "\"dut\" is there twice"),
        (
            |s| s.sessions = vec!["dux".into()],
            "routes[1].sessions[0]",
            "\"dux\" is no session of port east; they are: core, dut",
        ),
        (
            |s| s.sessions = vec!["other".into()],
            "routes[1].sessions[0]",
            "\"other\" is a session of port west; those of port east are: core",
        ),
        (
            |s| s.sessions = vec!["alive".into()],
            "routes[1].sessions[0]",
            "\"alive\" is a session of BFD, which has no routes",
        ),
        (
            |s| s.prefixes = of("20.0.0.0/24", 0, 1),
            "routes[1].prefixes.range.count",
            "0 prefixes; must be 1 to 10000000",
        ),
        (
            |s| s.prefixes = of("255.255.0.0/24", 257, 1),
            "routes[1].prefixes.range.count",
            "257 prefixes from 255.255.0.0/24 by steps of 1 lead beyond",
        ),
        (|s| s.prefixes = Prefixes::List([].into()), "routes[1].prefixes.list", "0 prefixes"),
        (
            |s| s.prefixes = of("2001:db8:1::/48", 9, 1),
            "routes[1].sessions[1]",
            "\"core\" has no IPv6 routes, which those of the set are",
        ),
        (
            |s| s.prefixes = of("10.98.255.0/24", 2, 1),
            "routes[1].prefixes",
            "10.99.0.0/24 lies in the port's own subnet 10.99.0.0/24",
        ),
        (
            |s| s.prefixes = of("10.0.0.0/25", 1000, 173),
            "routes[1].prefixes",
            "10.99.0.128/25 lies in the port's own subnet",
        ),
        (
            |s| s.prefixes = of("10.244.7.0/24", 1, 1),
            "routes[1].prefixes",
            "10.244.7.0/24 lies in the pod's own network 10.244.0.0/16",
        ),
        (
            |s| s.prefixes = of("30.0.1.0/24", 9, 2),
            "routes[1].prefixes",
            "30.0.3.0/24 is in set \"other\" of the port, too",
        ),
        (|s| s.attributes.as_path = vec![1, 0], "routes[1].attributes.as_path[1]", "AS 0 is reserved"),
        (
            |s| s.attributes.as_path = vec![1; 201],
            "routes[1].attributes.as_path",
            "201 entries; a message of BGP has room for 200",
        ),
        (|s| s.attributes.communities = vec![Community(1, 2); 201], "routes[1].attributes.communities", "201 entries"),
        (
            |s| s.attributes.large_communities = vec![LargeCommunity(1, 2, 3); 101],
            "routes[1].attributes.large_communities",
            "101 entries",
        ),
        (
            |s| s.attributes.next_hop = hop("10.99.0.2"),
            "routes[1].attributes.next_hop",
            "10.99.0.2 is the neighbor of session dut itself",
        ),
        (|s| s.attributes.next_hop = hop("2001:db8::1"), "routes[1].attributes.next_hop", "2001:db8::1 is not IPv4"),
        (
            |s| s.attributes.next_hop = hop("224.0.0.1"),
            "routes[1].attributes.next_hop",
            "224.0.0.1 is no address of a next hop",
        ),
        (
            |s| s.attributes.local_preference = Some(200),
            "routes[1].attributes.local_preference",
            "no neighbor of the set's sessions is of the port's AS",
        ),
        (|s| s.attributes.metric = Some(0), "routes[1].attributes.metric", "0; must be 1 to 16777214 in OSPF"),
        (
            |s| {
                s.sessions = vec!["old".into(), "dut".into()];
                s.attributes.metric = Some(16);
            },
            "routes[1].attributes.metric",
            "16; must be 1 to 15 in RIP",
        ),
        (
            |s| {
                s.sessions = vec!["dut".into()];
                s.attributes.metric = Some(1);
            },
            "routes[1].attributes.metric",
            "no session of the set is of OSPF or RIP",
        ),
        (
            |s| {
                s.sessions = vec!["core".into()];
                s.attributes.med = Some(1);
            },
            "routes[1].attributes.med",
            "no session of the set is of BGP",
        ),
    ];
    for (change, field, description) in cases {
        let mut set = customers();
        change(&mut set);
        assert_found(&check_routes(&[other.clone(), set], &[], &routers, &reserved), field, description);
    }
    // What is right of these.
    for change in [
        (|s| s.prefixes = of("0.0.0.0/0", 1, 1)) as fn(&mut RouteSet),
        |s| {
            s.sessions = vec!["inside".into()];
            s.attributes.local_preference = Some(200);
        },
        |s| s.attributes.next_hop = hop("10.99.0.77"),
    ] {
        let mut set = customers();
        change(&mut set);
        assert_eq!(check_routes(&[other.clone(), set], &[], &routers, &reserved), []);
    }
}

#[test]
fn a_port_has_one_route_to_each_prefix_over_all_runs() {
    let routers = [east(), west()];
    let running = [customers()];
    let next = |change: fn(&mut RouteSet)| {
        let mut set = RouteSet { run: 2, ..customers() };
        change(&mut set);
        [set]
    };
    let apart = next(|set| set.prefixes = of("30.0.0.0/24", 9, 1));
    assert_eq!(check_routes(&apart, &running, &routers, &[]), []);
    let elsewhere = next(|set| (set.port, set.sessions) = ("west".into(), vec!["other".into()]));
    assert_eq!(check_routes(&elsewhere, &running, &routers, &[]), []);
    let same = next(|_| {});
    assert_found(
        &check_routes(&same, &running, &routers, &[]),
        "routes[0].prefixes",
        "20.0.0.0/24 is in set \"customers\" of the port of another run, too; a router has one route to each prefix",
    );
}

fn of(first: &str, count: u32, step: u32) -> Prefixes {
    Prefixes::Range(Range { first: first.parse().unwrap(), count, step })
}

fn hop(address: &str) -> NextHop {
    NextHop::Address(address.parse().unwrap())
}
