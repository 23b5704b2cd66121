// SPDX-License-Identifier: Apache-2.0
//! A plan's groups of emulated clients: what of them is this engine's.
use super::limits::MAX_NAME_CHARS;
use super::rate::positive;
use super::{Site, Violations};
use crate::datapath::{AtEnd, ClientSpec};
use crate::index::PortIndex;
use contract::{ClientDhcp, ClientFixed, ClientGroup, ClientIpv6, ClientVlans, ClientsAtEnd, Plan, client_ipv4};
use spate_clients::{Config, ConfigError, Dhcp4, Dhcp6, Dhcp6When, Ipv4, Ipv6, Pattern, Probe, Rate, Retry, Static4};
use spate_net::vlan::{CUSTOMER, SERVICE};
use spate_stateful::FieldPath;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

/// Clients of a group on one engine: they take 320 MB.
const MAX_CLIENTS: u64 = 1_000_000;
/// Parts of a whole.
const MILLION: u64 = 1_000_000;
/// Parameters that clients request unless the plan says others: subnet mask, router, DNS servers, lease, server, T1, T2.
const REQUESTED: [u8; 7] = [1, 3, 6, 51, 54, 58, 59];
/// Time of `run` until its groups are ready, unless the plan says another.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A group without fault.
#[derive(Clone, Debug)]
pub struct CheckedClients {
    /// This engine's part of it.
    pub spec: ClientSpec,
    /// Clients that must be bound before the group is ready.
    pub least: u32,
    /// The time until the group must be ready.
    pub timeout: Duration,
}

/// Finds everything wrong with the groups of clients of `plan` at `site`, of which this engine has the part `share`.
pub fn clients(plan: &Plan, site: &Site, share: (u32, u32), wrong: &mut Violations) -> Vec<CheckedClients> {
    let mut names = HashMap::new();
    let mut found = Vec::new();
    for (i, group) in plan.clients.iter().enumerate() {
        let at = FieldPath::from("clients").index(i);
        name(&at, group, wrong);
        if let Some(first) = names.insert(group.name.as_str(), i) {
            wrong.add(at.field("name"), format!("{:?} is clients[{first}]'s already; must be unique", group.name));
        }
        let port = port(&at, group, site, wrong);
        let config = config(&at, group, share, wrong);
        let (Some(port), Some(config)) = (port, config) else { continue };
        if let Err(ConfigError { field, problem }) = config.check() {
            wrong.add(at.join(&field), problem);
        }
        let ready = group.ready.unwrap_or_default();
        if u64::from(ready.least_ppm) > MILLION {
            wrong.add(at.field("ready.least_ppm"), format!("{}; must be at most {MILLION}", ready.least_ppm));
        }
        let least_ppm = if ready.least_ppm == 0 { MILLION } else { ready.least_ppm.into() };
        let least = (u64::from(config.count) * least_ppm).div_ceil(MILLION);
        let timeout = if ready.timeout_ns == 0 { READY_TIMEOUT } else { Duration::from_nanos(ready.timeout_ns) };
        let at_end = match group.at_end() {
            ClientsAtEnd::Unspecified | ClientsAtEnd::Release => AtEnd::Release,
            ClientsAtEnd::Forget => AtEnd::Forget,
        };
        let spec = ClientSpec { name: group.name.clone(), port, config, at_end };
        found.push(CheckedClients { spec, least: least as u32, timeout });
    }
    found
}

fn name(at: &FieldPath, group: &ClientGroup, wrong: &mut Violations) {
    let chars = group.name.chars().count();
    if !(1..=MAX_NAME_CHARS).contains(&chars) {
        wrong.add(at.field("name"), format!("{chars} characters; must be 1..{MAX_NAME_CHARS}"));
    } else if group.name.chars().any(char::is_control) {
        wrong.add(at.field("name"), "holds a control character; use letters, digits and punctuation");
    }
}

fn port(at: &FieldPath, group: &ClientGroup, site: &Site, wrong: &mut Violations) -> Option<PortIndex> {
    let port = site.port(&at.field("port"), &group.port, wrong)?;
    if site[port].loops == Some(true) {
        let problem = format!("{:?} leads to no other station, so to no server; name a port with a link", group.port);
        wrong.add(at.field("port"), problem);
    }
    Some(port)
}

/// The configuration of this engine's clients; none, with what is wrong noted, if it cannot be read.
fn config(at: &FieldPath, group: &ClientGroup, (index, of): (u32, u32), wrong: &mut Violations) -> Option<Config> {
    let before = wrong.0.len();
    let of = of.max(1);
    let own = u64::from(group.count).saturating_sub(index.into()).div_ceil(of.into());
    if own == 0 {
        wrong.add(at.field("count"), format!("{}; must be at least {of}, one for each engine", group.count));
    } else if own > MAX_CLIENTS {
        let problem = format!("{own} clients on one engine; must be at most {MAX_CLIENTS}; use more engines");
        wrong.add(at.field("count"), problem);
    }
    let mac = group.mac.as_ref().map(|macs| &macs.first[..]).unwrap_or_default();
    let mac = <[u8; 6]>::try_from(mac).unwrap_or_else(|_| {
        wrong.add(at.field("mac.first"), format!("{} bytes; must be 6", mac.len()));
        [2, 0, 0, 0, 0, 0]
    });
    let rate = rate(at, group, of, wrong);
    let max_outstanding = (group.max_outstanding > 0).then(|| group.max_outstanding.div_ceil(of));
    let ipv4 = match group.ipv4.as_ref().and_then(|ipv4| ipv4.kind.as_ref()) {
        Some(client_ipv4::Kind::Dhcp(dhcp)) => dhcp4(&at.field("ipv4.dhcp"), dhcp, wrong),
        Some(client_ipv4::Kind::Fixed(fixed)) => fixed4(&at.field("ipv4.fixed"), fixed, wrong),
        None => {
            if group.ipv4.is_some() {
                wrong.add(at.field("ipv4"), "neither dhcp nor fixed; one of them must be given");
            }
            None
        }
    };
    let config = Config {
        mac,
        first: index.into(),
        stride: of.into(),
        count: own.min(u32::MAX.into()) as u32,
        vlans: vlans(at, &group.vlans, wrong),
        hostname: pattern(&at.field("hostname"), &group.hostname, wrong),
        ipv4,
        ipv6: group.ipv6.as_ref().and_then(|six| ipv6(&at.field("ipv6"), six, wrong)),
        ping_gateway: group.ping_gateway,
        resolve_gateway: true,
        rate: rate?,
        max_outstanding,
        retry: retry(at, group, wrong),
        seed: u64::from_be_bytes([0, 0, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]]) ^ u64::from(index) << 48,
    };
    (wrong.0.len() == before).then_some(config)
}

/// This engine's part of a group's rate.
fn rate(at: &FieldPath, group: &ClientGroup, of: u32, wrong: &mut Violations) -> Option<Rate> {
    let Some(rate) = &group.rate else {
        wrong.add(at.field("rate"), "missing; must be clients a second, such as 1000");
        return None;
    };
    let rate = positive(rate).map_err(|error| wrong.add(at.field("rate"), error.to_string())).ok()?;
    let nanoseconds = u128::from(rate.denominator()) * u128::from(of) * 1_000_000_000;
    let Ok(nanoseconds) = u64::try_from(nanoseconds) else {
        wrong.add(at.field("rate"), "is too low to be exact; its denominator must be at most 10,000,000");
        return None;
    };
    Some(Rate { clients: rate.numerator(), nanoseconds })
}

fn vlans(at: &FieldPath, asked: &[ClientVlans], wrong: &mut Violations) -> Vec<spate_clients::VlanRange> {
    let mut ranges = Vec::new();
    for (i, range) in asked.iter().enumerate() {
        let mut number = |field: &'static str, value: u32| {
            u16::try_from(value).unwrap_or_else(|_| {
                wrong.add(at.field("vlans").index(i).field(field), format!("{value}; must be at most 4094"));
                1
            })
        };
        let usual = if i == 0 && asked.len() == 2 { SERVICE } else { CUSTOMER };
        let ethertype = if range.tpid == 0 { usual } else { number("tpid", range.tpid) };
        let (first, count) = (number("first", range.first), number("count", range.count));
        ranges.push(spate_clients::VlanRange { ethertype, first, count });
    }
    ranges
}

/// A text with the client's number in it; none if it is empty, or wrong.
fn pattern(at: &FieldPath, text: &str, wrong: &mut Violations) -> Option<Pattern> {
    if text.is_empty() {
        return None;
    }
    text.parse().map_err(|error: spate_clients::PatternError| wrong.add(at, format!("{text:?}: {error}"))).ok()
}

fn dhcp4(at: &FieldPath, asked: &ClientDhcp, wrong: &mut Violations) -> Option<Ipv4> {
    if asked.requested_options.iter().any(|code| matches!(code, 0 | 255)) {
        wrong.add(at.field("requested_options"), "has code 0 or 255, which are no parameters; must be 1..254");
    }
    let requested = if asked.requested_options.is_empty() { &REQUESTED[..] } else { &asked.requested_options[..] };
    Some(Ipv4::Dhcp(Box::new(Dhcp4 {
        vendor_class: asked.vendor_class.clone().into_bytes(),
        vendor_specific: asked.vendor_specific.to_vec(),
        requested_options: requested.to_vec(),
        client_id: pattern(&at.field("client_id"), &asked.client_id, wrong),
        circuit_id: pattern(&at.field("circuit_id"), &asked.circuit_id, wrong),
        remote_id: pattern(&at.field("remote_id"), &asked.remote_id, wrong),
        lease_time: (asked.lease_time_s > 0).then_some(asked.lease_time_s),
        broadcast: asked.broadcast,
        probe: probe(at, asked.probes, wrong),
    })))
}

fn fixed4(at: &FieldPath, asked: &ClientFixed, wrong: &mut Violations) -> Option<Ipv4> {
    let mut address = |field: &'static str, bytes: &[u8]| {
        let address = <[u8; 4]>::try_from(bytes).map(Ipv4Addr::from);
        address.map_err(|_| wrong.add(at.field(field), format!("{} bytes; must be 4", bytes.len()))).ok()
    };
    let first = address("first", &asked.first);
    let gateway = if asked.gateway.is_empty() { None } else { address("gateway", &asked.gateway) };
    let prefix_len = u8::try_from(asked.prefix_len).unwrap_or(u8::MAX);
    let probe = probe(at, asked.probes, wrong);
    Some(Ipv4::Static(Static4 { first: first?, prefix_len, gateway, probe }))
}

fn probe(at: &FieldPath, count: u32, wrong: &mut Violations) -> Option<Probe> {
    if count > 3 {
        wrong.add(at.field("probes"), format!("{count}; must be at most 3 (RFC 5227)"));
    }
    (count > 0).then(|| Probe { count: count.min(3) as u8, ..Probe::ONE })
}

fn ipv6(at: &FieldPath, asked: &ClientIpv6, wrong: &mut Violations) -> Option<Ipv6> {
    if asked.dad_transmits > 10 {
        wrong.add(at.field("dad_transmits"), format!("{}; must be at most 10", asked.dad_transmits));
    }
    let dhcp = asked.dhcp.as_ref().map(|dhcp| Dhcp6 {
        when: if dhcp.always { Dhcp6When::Always } else { Dhcp6When::Managed },
        address: dhcp.address,
        prefix: dhcp.prefix.map(|length| u8::try_from(length).unwrap_or(u8::MAX)),
        rapid_commit: dhcp.rapid_commit,
        ..Dhcp6::default()
    });
    Some(Ipv6 { slaac: asked.slaac, dhcp, dad_transmits: asked.dad_transmits.min(10) as u8 })
}

fn retry(at: &FieldPath, group: &ClientGroup, wrong: &mut Violations) -> Retry {
    let usual = Retry::default();
    let Some(asked) = &group.retry else { return usual };
    if asked.attempts > u32::from(u8::MAX) {
        wrong.add(at.field("retry.attempts"), format!("{}; must be at most 255", asked.attempts));
    }
    let or = |value: u64, usual: u64| if value == 0 { usual } else { value };
    Retry {
        first_ns: or(asked.first_ns, usual.first_ns),
        max_ns: or(asked.max_ns, usual.max_ns),
        spread_ns: asked.spread_ns.unwrap_or(usual.spread_ns),
        attempts: if asked.attempts == 0 { usual.attempts } else { asked.attempts.min(255) as u8 },
        ..usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::decode;

    const PLAN: &str = r#"{"runId": "r", "runTag": 1, "timing": {"durationNs": 1000000000}, "clients": [{
        "name": "subs", "port": "east", "count": 10, "mac": {"first": "AhAAAAAA"}, "hostname": "sub-{n}",
        "vlans": [{"first": 100, "count": 2}, {"first": 1, "count": 3}],
        "ipv4": {"dhcp": {"circuitId": "eth0/{n:03}", "probes": 1}}, "ipv6": {"slaac": true, "dadTransmits": 1},
        "rate": {"numerator": 1000, "denominator": 1}, "maxOutstanding": 5, "ready": {"leastPpm": 990000}
    }]}"#;

    fn plan() -> Plan {
        decode::plan(PLAN.into(), decode::Format::Json).unwrap()
    }

    fn checked(plan: &Plan, share: (u32, u32)) -> Result<Vec<CheckedClients>, Violations> {
        let mut wrong = Violations::default();
        let found = clients(plan, &Site::of_plan(plan), share, &mut wrong);
        wrong.or(found)
    }

    #[test]
    fn engines_have_every_nth_client_and_their_parts_of_the_rate() {
        let parts: Vec<_> = (0..3).map(|index| checked(&plan(), (index, 3)).unwrap().remove(0)).collect();
        let counts: Vec<_> = parts.iter().map(|part| (part.spec.config.first, part.spec.config.count)).collect();
        assert_eq!(counts, [(0, 4), (1, 3), (2, 3)]);
        let config = &parts[1].spec.config;
        assert_eq!((config.stride, config.max_outstanding), (3, Some(2)));
        assert_eq!(config.rate, Rate { clients: 1000, nanoseconds: 3_000_000_000 });
        assert_eq!(config.vlans.iter().map(|range| range.ethertype).collect::<Vec<_>>(), [SERVICE, CUSTOMER]);
        assert_eq!((parts[0].least, parts[1].least), (4, 3), "99 % are rounded up");
        assert_eq!((parts[0].timeout, parts[0].spec.at_end), (READY_TIMEOUT, AtEnd::Release));
        let Some(Ipv4::Dhcp(dhcp)) = &config.ipv4 else { panic!("{config:?}") };
        assert_eq!((&dhcp.requested_options[..], dhcp.probe.map(|probe| probe.count)), (&REQUESTED[..], Some(1)));
    }

    /// A change of the group, and the error that it leads to.
    type Case = (fn(&mut ClientGroup), &'static str);

    #[test]
    fn what_is_wrong_is_reported_with_its_field() {
        let cases: [Case; 18] = [
            (|group| group.name.clear(), "clients[0].name: 0 characters"),
            (|group| group.port = "west".into(), ""),
            (|group| group.port.clear(), "clients[0].port: missing"),
            (|group| group.count = 0, "clients[0].count: 0; must be at least 1, one for each engine"),
            (|group| group.count = 2_000_001, "clients[0].count: 2000001 clients on one engine"),
            (|group| group.mac = None, "clients[0].mac.first: 0 bytes; must be 6"),
            (|group| group.mac.as_mut().unwrap().first = vec![3; 6].into(), "clients[0].mac.first: 03:03:03"),
            (|group| group.vlans[1].first = 4093, "clients[0].vlans[1]: 3 identifiers from 4093"),
            (|group| group.vlans[0].count = 70_000, "clients[0].vlans[0].count: 70000"),
            (|group| group.vlans[0].tpid = 0x800, "clients[0].vlans[0].tpid: 0x0800"),
            (|group| group.hostname = "{x}".into(), "clients[0].hostname: \"{x}\": {x} is not known"),
            (|group| (group.ipv4, group.ipv6) = (None, None), "clients[0].ipv4: is missing"),
            (|group| group.rate = None, "clients[0].rate: missing"),
            (|group| group.rate.as_mut().unwrap().numerator = 0, "clients[0].rate: "),
            (|group| group.ready.as_mut().unwrap().least_ppm = 1_000_001, "clients[0].ready.least_ppm: 1000001"),
            (|group| group.ipv6.as_mut().unwrap().slaac = false, "clients[0].ipv6: neither slaac nor dhcp"),
            (
                |group| group.retry = Some(contract::ClientRetry { first_ns: 1, ..Default::default() }),
                "clients[0].retry.spread_ns: 1000000000",
            ),
            (
                |group| {
                    let fixed = ClientFixed { first: vec![10, 0, 0, 1].into(), prefix_len: 33, ..Default::default() };
                    group.ipv4.as_mut().unwrap().kind = Some(client_ipv4::Kind::Fixed(fixed));
                },
                "clients[0].ipv4.fixed.prefix_len: 33",
            ),
        ];
        for (change, expected) in cases {
            let mut plan = plan();
            change(&mut plan.clients[0]);
            let found = checked(&plan, (0, 1)).map(drop).map_err(|wrong| wrong.to_string()).err().unwrap_or_default();
            assert!(
                found.starts_with(expected) && found.is_empty() == expected.is_empty(),
                "{found:?}, not {expected:?}"
            );
        }
        let mut twice = plan();
        twice.clients.push(twice.clients[0].clone());
        let wrong = checked(&twice, (0, 1)).unwrap_err().to_string();
        assert_eq!(wrong, "clients[1].name: \"subs\" is clients[0]'s already; must be unique");
    }
}
