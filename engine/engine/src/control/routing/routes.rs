// SPDX-License-Identifier: Apache-2.0
//! Sets of routes as a plan has them to what BIRD can be given; all that is wrong with them, by field.
use crate::plan::Violations;
use contract::{AddressFamily, Plan, RouteOrigin};
use spate_routing::{
    Attributes, Family, MAX_PREFIXES, MrtError, Net, NextHop, Origin, Prefixes, Range, RouteSet, Share, mrt_prefixes,
};
use spate_stateful::FieldPath;
use std::fs::File;
use std::io::BufReader;
use std::str::FromStr;
use std::time::Duration;

/// The longest time in which nothing may be sent.
const MAX_QUIET: Duration = Duration::from_secs(3600);
/// That time where a plan has none.
const QUIET: Duration = Duration::from_secs(1);

/// A field of a plan.
pub(super) fn field(path: &str) -> FieldPath {
    FieldPath::default().key(path.to_owned())
}

/// The sets of a plan, and how long nothing must be sent until they count as sent. `run` is the number of the run.
pub(super) fn routes(plan: &Plan, run: u32) -> Result<(Vec<RouteSet>, Duration), Violations> {
    let mut wrong = Violations::default();
    let share = plan.share.unwrap_or(contract::Share { index: 0, count: 1 });
    let share = Share::new(share.index, share.count.max(1)).unwrap_or_else(|| {
        wrong.add("share.index", format!("{}; must be less than share.count, {}", share.index, share.count));
        Share::ALL
    });
    let quiet = Duration::from_nanos(plan.routes_ready.map_or(0, |ready| ready.quiet_ns));
    if quiet > MAX_QUIET {
        wrong.add("routes_ready.quiet_ns", format!("{quiet:?}; must be at most {MAX_QUIET:?}"));
    }
    let read = |(n, set): (usize, &contract::RouteSet)| {
        Reader { at: format!("routes[{n}]"), wrong: &mut wrong }.set(set, run, share)
    };
    let sets: Vec<RouteSet> = plan.routes.iter().enumerate().filter_map(read).collect();
    wrong.or((sets, if quiet.is_zero() { QUIET } else { quiet }))
}

/// Reads a set and notes what is wrong with it.
struct Reader<'a> {
    /// The set's path.
    at: String,
    wrong: &'a mut Violations,
}

impl Reader<'_> {
    fn add(&mut self, name: &str, problem: impl Into<String>) {
        self.wrong.add(field(&format!("{}.{name}", self.at)), problem);
    }

    fn set(&mut self, set: &contract::RouteSet, run: u32, share: Share) -> Option<RouteSet> {
        let prefixes = self.prefixes(&set.name, &set.prefixes.clone().unwrap_or_default());
        let attributes = self.attributes(&set.attributes.clone().unwrap_or_default());
        Some(RouteSet {
            name: set.name.clone(),
            run,
            port: set.port.clone(),
            sessions: set.sessions.clone(),
            prefixes: prefixes?,
            share,
            attributes: attributes?,
            advertised: set.advertised,
        })
    }

    fn prefixes(&mut self, set: &str, prefixes: &contract::Prefixes) -> Option<Prefixes> {
        match (&prefixes.range, &prefixes.list[..], &prefixes.mrt) {
            (Some(range), [], None) => {
                let first: Net = self.parsed("prefixes.range.first", &range.first)?;
                Some(Prefixes::Range(Range { first, count: range.count, step: range.step.max(1) }))
            }
            (None, list @ [_, ..], None) => {
                // A list may be long, and made by a program: the set's name and the number find the line.
                let net = |(n, text): (usize, &String)| {
                    let parsed = text.parse::<Net>().map_err(|error| format!("set {set:?}: {error}"));
                    parsed.map_err(|problem| self.add(&format!("prefixes.list[{n}]"), problem)).ok()
                };
                let nets: Vec<Net> = list.iter().enumerate().filter_map(net).collect();
                (nets.len() == list.len()).then(|| Prefixes::List(nets.into()))
            }
            (None, [], Some(mrt)) => self.mrt(mrt),
            (None, [], None) => {
                self.add("prefixes", "missing; must have a range, a list or a file (mrt)");
                None
            }
            _ => {
                self.add("prefixes", "must have one of range, list and mrt, not several");
                None
            }
        }
    }

    fn mrt(&mut self, file: &contract::MrtFile) -> Option<Prefixes> {
        let family = match file.family() {
            AddressFamily::Ipv4 => Family::V4,
            AddressFamily::Ipv6 => Family::V6,
            AddressFamily::Unspecified => {
                self.add("prefixes.mrt.family", "missing; must be IPv4 or IPv6");
                return None;
            }
        };
        let most = if file.most == 0 { MAX_PREFIXES } else { file.most };
        let open = File::open(&file.path).map_err(MrtError::from);
        match open.and_then(|open| mrt_prefixes(BufReader::new(open), family, most)) {
            Ok(nets) => Some(Prefixes::List(nets.into())),
            Err(error) => {
                self.add("prefixes.mrt.path", format!("{}: {error}", file.path));
                None
            }
        }
    }

    fn attributes(&mut self, attributes: &contract::RouteAttributes) -> Option<Attributes> {
        let next_hop = match attributes.next_hop.as_str() {
            "" => Some(NextHop::Own),
            text => {
                let parsed = text.parse().ok().map(NextHop::Address);
                if parsed.is_none() {
                    self.add("attributes.next_hop", format!("{text:?}; must be an address such as 10.99.0.7"));
                }
                parsed
            }
        };
        let communities = self.all("attributes.communities", &attributes.communities);
        let large_communities = self.all("attributes.large_communities", &attributes.large_communities);
        Some(Attributes {
            as_path: attributes.as_path.clone(),
            communities: communities?,
            large_communities: large_communities?,
            med: attributes.med,
            local_preference: attributes.local_preference,
            origin: match attributes.origin() {
                RouteOrigin::Unspecified | RouteOrigin::Igp => Origin::Igp,
                RouteOrigin::Egp => Origin::Egp,
                RouteOrigin::Incomplete => Origin::Incomplete,
            },
            next_hop: next_hop?,
            metric: attributes.metric,
        })
    }

    fn all<T: FromStr<Err: ToString>>(&mut self, name: &str, texts: &[String]) -> Option<Vec<T>> {
        let parsed = |(n, text): (usize, &String)| self.parsed(&format!("{name}[{n}]"), text);
        let all: Vec<T> = texts.iter().enumerate().filter_map(parsed).collect();
        (all.len() == texts.len()).then_some(all)
    }

    fn parsed<T: FromStr<Err: ToString>>(&mut self, name: &str, text: &str) -> Option<T> {
        text.parse().map_err(|error: T::Err| self.add(name, error.to_string())).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{PrefixRange, RouteAttributes, RoutesReady};
    use spate_routing::{Community, LargeCommunity};

    fn plan() -> Plan {
        let attributes = RouteAttributes {
            as_path: vec![64512],
            communities: vec!["65001:100".into()],
            large_communities: vec!["65001:1:2".into()],
            origin: RouteOrigin::Egp.into(),
            next_hop: "10.99.0.7".into(),
            ..RouteAttributes::default()
        };
        let set = contract::RouteSet {
            name: "customers".into(),
            port: "east".into(),
            sessions: vec!["dut".into()],
            prefixes: Some(contract::Prefixes {
                range: Some(PrefixRange { first: "20.0.0.0/24".into(), count: 10, step: 0 }),
                ..contract::Prefixes::default()
            }),
            attributes: Some(attributes),
            advertised: true,
        };
        let listed = vec!["2001:db8:1::/48".into(), "::/0".into()];
        let listed = contract::Prefixes { list: listed, ..contract::Prefixes::default() };
        let listed = contract::RouteSet { name: "six".into(), prefixes: Some(listed), attributes: None, ..set.clone() };
        Plan { routes: vec![set, listed], share: Some(contract::Share { index: 1, count: 3 }), ..Plan::default() }
    }

    #[test]
    fn a_set_has_the_share_of_its_engine_and_all_that_the_plan_says() {
        let (sets, quiet) = routes(&plan(), 7).unwrap();
        assert_eq!((quiet, sets.len()), (Duration::from_secs(1), 2));
        assert_eq!((sets[0].run, sets[0].count(), sets[1].count()), (7, 3, 1));
        let Attributes { communities, large_communities, origin, next_hop, .. } = sets[0].attributes.clone();
        assert_eq!((communities, large_communities), (vec![Community(65001, 100)], vec![LargeCommunity(65001, 1, 2)]));
        assert_eq!((origin, next_hop), (Origin::Egp, NextHop::Address([10, 99, 0, 7].into())));
        assert_eq!(sets[1].attributes, Attributes::default());
        let ready = Some(RoutesReady { quiet_ns: 250_000_000 });
        assert_eq!(routes(&Plan { routes_ready: ready, ..plan() }, 7).unwrap().1, Duration::from_millis(250));
    }

    #[test]
    fn prefixes_of_a_file_are_those_of_a_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rib");
        // A record of TABLE_DUMP_V2: header, sequence number, prefix.
        let record = |prefix: [u8; 4]| [&[0, 0, 0, 0, 0, 13, 0, 2, 0, 0, 0, 8][..], &[0; 4], &prefix].concat();
        std::fs::write(&path, [record([24, 1, 0, 0]), record([24, 1, 0, 1]), record([24, 1, 0, 2])].concat()).unwrap();
        let mrt = contract::MrtFile { path: path.display().to_string(), family: AddressFamily::Ipv4.into(), most: 2 };
        let mut plan = Plan { share: None, ..plan() };
        plan.routes.truncate(1);
        plan.routes[0].prefixes = Some(contract::Prefixes { mrt: Some(mrt), ..contract::Prefixes::default() });
        let expected = ["1.0.0.0/24", "1.0.1.0/24"].map(|text| text.parse().unwrap());
        assert_eq!(routes(&plan, 1).unwrap().0[0].prefixes, Prefixes::List(expected.into()));
        // A file that ends within a record has fewer routes than it should.
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        plan.routes[0].prefixes.as_mut().unwrap().mrt.as_mut().unwrap().most = 3;
        let problem = "the file ends within record 3: it is truncated, or no MRT file (RFC 6396)";
        let expected = format!("routes[0].prefixes.mrt.path: {}: {problem}", path.display());
        assert_eq!(routes(&plan, 1).unwrap_err().to_string(), expected);
    }

    #[test]
    fn what_is_wrong_has_the_plans_field() {
        type Change = fn(&mut Plan);
        let cases: [(Change, &str); 11] = [
            (|p| p.routes[0].prefixes = None, "routes[0].prefixes: missing; must have a range, a list or a file (mrt)"),
            (
                |p| p.routes[0].prefixes.as_mut().unwrap().list = vec!["20.0.0.0/24".into()],
                "routes[0].prefixes: must have one of range, list and mrt, not several",
            ),
            (
                |p| p.routes[0].prefixes.as_mut().unwrap().range.as_mut().unwrap().first = "20.0.0.1/24".into(),
                "routes[0].prefixes.range.first: 20.0.0.1/24 has bits behind its prefix; the network is 20.0.0.0/24",
            ),
            (
                |p| p.routes[1].prefixes.as_mut().unwrap().list[1] = "x".into(),
                "routes[1].prefixes.list[1]: set \"six\": \"x\" is no prefix; must be such as 20.0.0.0/24 or 2001:db8::/48",
            ),
            (
                |p| {
                    let mrt = contract::MrtFile { path: "/nowhere.mrt".into(), family: 1, most: 0 };
                    p.routes[0].prefixes = Some(contract::Prefixes { mrt: Some(mrt), ..Default::default() });
                },
                "routes[0].prefixes.mrt.path: /nowhere.mrt: No such file or directory",
            ),
            (
                |p| {
                    p.routes[0].prefixes =
                        Some(contract::Prefixes { mrt: Some(Default::default()), ..Default::default() })
                },
                "routes[0].prefixes.mrt.family: missing; must be IPv4 or IPv6",
            ),
            (
                |p| p.routes[0].attributes.as_mut().unwrap().communities.push("1".into()),
                "routes[0].attributes.communities[1]: \"1\" is no community; must be two numbers of 0 to 65535",
            ),
            (
                |p| p.routes[0].attributes.as_mut().unwrap().large_communities[0] = "1:2".into(),
                "routes[0].attributes.large_communities[0]: \"1:2\" is no large community; must be three numbers",
            ),
            (
                |p| p.routes[0].attributes.as_mut().unwrap().next_hop = "dut".into(),
                "routes[0].attributes.next_hop: \"dut\"; must be an address such as 10.99.0.7",
            ),
            (
                |p| p.share = Some(contract::Share { index: 3, count: 3 }),
                "share.index: 3; must be less than share.count, 3",
            ),
            (
                |p| p.routes_ready = Some(RoutesReady { quiet_ns: u64::MAX }),
                "routes_ready.quiet_ns: 18446744073.709551615s; must be at most 3600s",
            ),
        ];
        for (change, problem) in cases {
            let mut plan = plan();
            change(&mut plan);
            let wrong = routes(&plan, 1).unwrap_err().to_string();
            assert!(wrong.starts_with(problem), "{wrong}");
        }
    }
}
