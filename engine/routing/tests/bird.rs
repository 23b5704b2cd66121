// SPDX-License-Identifier: Apache-2.0
//! BIRD itself (`bird -p`) accepts every configuration in which nothing was found to be wrong.
mod programs;

use std::{
    env,
    fmt::Write,
    fs,
    net::{IpAddr, Ipv4Addr},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use proptest::prelude::*;
use spate_routing::{
    Attributes, Bfd, BfdTimers, Bgp, Community, Configuration, Family, LargeCommunity, Learn, LinkType, Net, NextHop,
    Origin, Ospf, OspfVersion, Prefixes, Range, Rip, RipVersion, RouteSet, Router, Secret, Share, check, check_routes,
};

/// What BIRD says of a configuration that it does not accept.
fn refusal(text: &str) -> Option<String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("spate-routing-{}-{}.conf", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = env::temp_dir().join(name);
    fs::write(&path, text).unwrap();
    let output = Command::new(programs::bird()).arg("-p").arg("-c").arg(&path).output().unwrap();
    fs::remove_file(&path).unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn text(routers: &[Router], routes: &[RouteSet]) -> String {
    let mut text = String::new();
    write!(text, "{}", Configuration { routers, routes }).unwrap();
    text
}

/// A router with sessions of all kinds and with all that they can have.
fn east() -> Router {
    let addresses = ["10.99.0.1/24", "2001:db8:99::1/64"].map(|text| text.parse().unwrap());
    let timers = BfdTimers { interval_us: 50_000, multiplier: 3 };
    let secret = || Some(Secret::new("pa55 'w=rd'#;{}\\%").unwrap());
    let both = [Family::V4, Family::V6];
    let dut = Bgp {
        bfd: Some(timers),
        password: secret(),
        ttl_security: true,
        ..Bgp::new("dut", 65001, "10.99.0.2".parse().unwrap(), 4_200_000_000, both)
    };
    let v6 = Bgp {
        passive: true,
        hold_time_s: 0,
        learn: Learn::Keep,
        ..Bgp::new("v6", 65001, "2001:db8:99::2".parse().unwrap(), 65001, both)
    };
    let far = Bgp {
        multihop: Some(2),
        bfd: Some(timers),
        learn: Learn::None,
        ..Bgp::new("far", 65001, "192.0.2.1".parse().unwrap(), 65003, both)
    };
    let ospf = |name: &str, version, link| Ospf {
        name: name.into(),
        version,
        area: Ipv4Addr::new(0, 0, 0, 1),
        link,
        hello_s: 1,
        dead_s: 4,
        password: secret(),
        learn: Learn::Keep,
    };
    let rip = |name: &str, version, password| Rip {
        name: name.into(),
        version,
        update_s: 5,
        timeout_s: 30,
        password,
        learn: Learn::Count,
    };
    let bfd = |name: &str, neighbor: &str| Bfd { name: name.into(), neighbor: neighbor.parse().unwrap(), timers };
    Router {
        gateways: ["10.99.0.254", "2001:db8:99::fe"].map(|text| text.parse().unwrap()).into(),
        ospf: vec![
            ospf("core", OspfVersion::V2, LinkType::PointToPoint),
            ospf("core6", OspfVersion::V3, LinkType::Broadcast),
        ],
        rip: vec![rip("old", RipVersion::V2, secret()), rip("old6", RipVersion::Ng, None)],
        bfd: vec![bfd("alive", "10.99.0.3"), bfd("alive6", "2001:db8:99::3")],
        extra_config: "protocol static 'extra' { ipv4 { table '4:east'; }; route 192.0.2.0/24 blackhole; }".into(),
        ..Router::new("east", "rt-east", addresses).with_bgp([dut, v6, far])
    }
}

fn set(name: &str, sessions: &[&str], first: &str) -> RouteSet {
    RouteSet {
        name: name.into(),
        run: u32::MAX,
        port: "east".into(),
        sessions: sessions.iter().map(ToString::to_string).collect(),
        prefixes: Prefixes::Range(Range { first: first.parse().unwrap(), count: 100, step: 3 }),
        share: Share::ALL,
        attributes: Attributes::default(),
        advertised: true,
    }
}

#[test]
fn sessions_of_all_kinds_and_routes_with_all_attributes_are_accepted() {
    let west = Router {
        router_id: Some([1, 1, 1, 1].into()),
        ..Router::new("a-port-of-15-ch", "rt-west", ["2001:db8:98::1/64".parse().unwrap()])
    };
    let long = "a-session-whose-name-has-forty-characters";
    let west = west.with_bgp([Bgp::new(&long[..40], 1, "2001:db8:98::2".parse().unwrap(), 2, [Family::V6])]);
    let routers = [east(), west];
    assert_eq!(check(&routers), []);
    let attributes = Attributes {
        as_path: vec![64512, 4_200_000_001],
        communities: vec![Community(65001, 100), Community(65535, 65281)],
        large_communities: vec![LargeCommunity(4_200_000_000, 1, 2)],
        med: Some(10),
        local_preference: Some(200),
        origin: Origin::Incomplete,
        next_hop: NextHop::Address("10.99.0.77".parse().unwrap()),
        metric: Some(7),
    };
    let list = Prefixes::List(["2001:db8:1::/48", "::/0"].map(|text| text.parse().unwrap()).into());
    let routes = [
        RouteSet { attributes, ..set("customers", &["dut", "v6", "far", "core", "old"], "20.0.0.0/24") },
        RouteSet { prefixes: list, advertised: false, ..set("six", &["dut", "core6", "old6"], "2001:db8:1::/48") },
        RouteSet {
            port: "a-port-of-15-ch".into(),
            attributes: Attributes { origin: Origin::Egp, ..Attributes::default() },
            ..set(&long[..40], &[&long[..40]], "2001:db8:1::/48")
        },
    ];
    assert_eq!(check_routes(&routes, &[], &routers, &["10.244.0.0/16".parse().unwrap()]), []);
    assert_eq!(refusal(&text(&routers, &routes)), None);
}

/// BIRD is the one who knows its language: what it says has the line of the text.
#[test]
fn extra_text_that_bird_refuses_is_refused_with_its_line() {
    let mut router = east();
    router.extra_config = "protocol static {\n  route 1.2.3.4/99 blackhole;\n}".into();
    let routers = [router];
    assert_eq!(check(&routers), []);
    let text = text(&routers, &[]);
    let line = 1 + text.lines().position(|line| line.contains("1.2.3.4/99")).unwrap();
    let refusal = refusal(&text).unwrap();
    assert!(refusal.contains(&format!(".conf:{line}:")), "{refusal}");
    let configuration = Configuration { routers: &routers, routes: &[] };
    assert_eq!((configuration.line_of_extra(line), configuration.line_of_extra(line - 2)), (Some((0, 2)), None));
    assert_eq!(configuration.line_of_extra(line + 9), Some((0, 11)));
}

#[test]
fn a_route_has_no_more_text_than_its_prefix_needs() {
    let mut large = set("large", &["dut"], "20.0.0.0/24");
    large.prefixes = Prefixes::Range(Range { first: "20.0.0.0/24".parse().unwrap(), count: 10_000, step: 1 });
    let (without, with) = (text(&[east()], &[]), text(&[east()], &[large]));
    let bytes = (with.len() - without.len()) / 10_000;
    assert!(bytes <= 36, "{bytes} bytes a route");
    assert_eq!(refusal(&with), None);
}

fn name() -> impl Strategy<Value = String> {
    // Keywords of BIRD are names, too.
    prop_oneof!["[a-z0-9][a-z0-9_.-]{0,39}", Just("protocol".to_owned()), Just("ipv4".to_owned()), Just("1".to_owned())]
}

fn neighbor() -> impl Strategy<Value = IpAddr> {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    prop_oneof![
        (2u8..6).prop_map(|last| IpAddr::from([10, 99, 0, last])),
        Just(address("2001:db8:99::2")),
        Just(address("192.0.2.1")),
        Just(address("fe80::2")),
        any::<u32>().prop_map(|address| Ipv4Addr::from(address).into()),
    ]
}

fn secret() -> impl Strategy<Value = Option<Secret>> {
    prop::option::of(
        "[\t\r\x01 -~äö]{1,80}".prop_filter_map("BIRD has no such strings", |text| Secret::new(&text).ok()),
    )
}

fn learn() -> impl Strategy<Value = Learn> {
    prop::sample::select(vec![Learn::Count, Learn::Keep, Learn::None])
}

fn timers() -> impl Strategy<Value = BfdTimers> {
    (0u32..70_000_000, any::<u8>()).prop_map(|(interval_us, multiplier)| BfdTimers { interval_us, multiplier })
}

fn asn() -> impl Strategy<Value = u32> {
    prop_oneof![Just(65001), Just(0), Just(23456), any::<u32>()]
}

fn bgp() -> impl Strategy<Value = Bgp> {
    let families = prop::collection::vec(prop::sample::select(vec![Family::V4, Family::V6]), 0..3);
    let first = (name(), asn(), neighbor(), asn(), families, prop::option::of(timers()));
    let second = (secret(), any::<u16>(), prop::option::of(any::<u8>()), any::<bool>(), any::<bool>(), learn());
    (first, second).prop_map(|(first, second)| {
        let (name, local_as, neighbor, neighbor_as, families, bfd) = first;
        let (password, hold_time_s, multihop, passive, ttl_security, learn) = second;
        let fixed = Bgp::new(name, local_as, neighbor, neighbor_as, families);
        Bgp { bfd, password, hold_time_s, multihop, passive, ttl_security, learn, ..fixed }
    })
}

fn ospf() -> impl Strategy<Value = Ospf> {
    let version = prop::sample::select(vec![OspfVersion::V2, OspfVersion::V3]);
    let link = prop::sample::select(vec![LinkType::Broadcast, LinkType::PointToPoint]);
    (name(), version, any::<u32>(), link, 0u16..5, 0u16..9, secret(), learn()).prop_map(
        |(name, version, area, link, hello_s, dead_s, password, learn)| Ospf {
            name,
            version,
            area: area.into(),
            link,
            hello_s,
            dead_s,
            password,
            learn,
        },
    )
}

fn rip() -> impl Strategy<Value = Rip> {
    let version = prop::sample::select(vec![RipVersion::V2, RipVersion::Ng]);
    (name(), version, 0u16..5, 0u16..9, secret(), learn()).prop_map(
        |(name, version, update_s, timeout_s, password, learn)| Rip {
            name,
            version,
            update_s,
            timeout_s,
            password,
            learn,
        },
    )
}

prop_compose! {
    fn router()(
        v6 in any::<bool>(),
        id in prop::option::of(any::<u32>()),
        bgp in prop::collection::vec(bgp(), 0..3),
        ospf in prop::collection::vec(ospf(), 0..3),
        rip in prop::collection::vec(rip(), 0..2),
        bfd in prop::collection::vec((name(), neighbor(), timers()), 0..3),
    ) -> Router {
        let addresses = ["10.99.0.1/24", "2001:db8:99::1/64"].map(|text| text.parse().unwrap());
        let addresses = addresses.into_iter().take(if v6 { 2 } else { 1 });
        let bfd = bfd.into_iter().map(|(name, neighbor, timers)| Bfd { name, neighbor, timers }).collect();
        let gateways = ["10.99.0.254", "2001:db8:99::fe"].map(|text| text.parse().unwrap()).into();
        Router { router_id: id.map(Into::into), gateways, ospf, rip, bfd, ..Router::new("east", "rt-east", addresses).with_bgp(bgp) }
    }
}

prop_compose! {
    fn routes()(
        name in name(),
        sessions in prop::sample::subsequence(vec!["1", "ipv4", "protocol"], 0..=3),
        v6 in any::<bool>(),
        length in 1u8..=32,
        count in 0u32..50,
        step in 0u32..5,
        path in prop::collection::vec(asn(), 0..4),
        med in prop::option::of(any::<u32>()),
        next_hop in prop::option::of(neighbor()),
        metric in prop::option::of(0u32..20),
        communities in prop::collection::vec(any::<(u16, u16)>(), 0..3),
        large in prop::collection::vec(any::<(u32, u32, u32)>(), 0..3),
    ) -> RouteSet {
        let family = if v6 { Family::V6 } else { Family::V4 };
        let attributes = Attributes {
            as_path: path,
            communities: communities.into_iter().map(|(asn, value)| Community(asn, value)).collect(),
            large_communities: large.into_iter().map(|(asn, one, two)| LargeCommunity(asn, one, two)).collect(),
            med,
            metric,
            next_hop: next_hop.map_or(NextHop::Own, NextHop::Address),
            ..Attributes::default()
        };
        RouteSet {
            name,
            run: 1,
            port: "east".into(),
            sessions: sessions.into_iter().map(Into::into).collect(),
            prefixes: Prefixes::Range(Range { first: Net::from_number(family, length, 1).unwrap(), count, step }),
            share: Share::ALL,
            attributes,
            advertised: true,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    /// What is wrong is left out of what is written: each router and set by itself is right or reported.
    #[test]
    fn what_is_found_right_is_accepted(
        mut router in router(),
        sets in prop::collection::vec(routes(), 0..4),
    ) {
        for violation in check(&[router.clone()]) {
            prop_assert!(violation.field.starts_with("routers[0]") && !violation.description.is_empty());
        }
        keep_right(&mut router);
        let routers = [router];
        prop_assert_eq!(check(&routers), []);
        let mut routes: Vec<RouteSet> = Vec::new();
        for set in sets {
            routes.push(set);
            if !check_routes(&routes, &[], &routers, &[]).is_empty() {
                routes.pop();
            }
        }
        let text = text(&routers, &routes);
        let refusal = refusal(&text);
        prop_assert!(refusal.is_none(), "{}\n{}", refusal.unwrap_or_default(), text);
    }
}

/// Leaves out the sessions of a router that are wrong, beside those before them.
fn keep_right(router: &mut Router) {
    if router.router_id == Some(Ipv4Addr::UNSPECIFIED) {
        router.router_id = None;
    }
    let all = router.clone();
    (router.bgp, router.ospf, router.rip, router.bfd) = Default::default();
    for session in all.bgp {
        router.bgp.push(session);
        if !check(std::slice::from_ref(router)).is_empty() {
            router.bgp.pop();
        }
    }
    for session in all.ospf {
        router.ospf.push(session);
        if !check(std::slice::from_ref(router)).is_empty() {
            router.ospf.pop();
        }
    }
    for session in all.rip {
        router.rip.push(session);
        if !check(std::slice::from_ref(router)).is_empty() {
            router.rip.pop();
        }
    }
    for session in all.bfd {
        router.bfd.push(session);
        if !check(std::slice::from_ref(router)).is_empty() {
            router.bfd.pop();
        }
    }
}
