// SPDX-License-Identifier: Apache-2.0
//! Routers as the contract has them to what BIRD can be given; all that is wrong with them, by field.
use super::RouterPort;
use super::passwords::Passwords;
use crate::control::status::Refusal;
use crate::plan::Violations;
use contract::{AddressFamily, Learn, LinkType};
use spate_routing::{
    self as routing, Bfd, BfdTimers, Bgp, Family, Ospf, OspfVersion, Rip, RipVersion, Router, Secret, check,
};
use spate_stateful::FieldPath;
use std::net::{IpAddr, Ipv4Addr};

/// A field of the request.
pub(super) fn field(path: &str) -> FieldPath {
    FieldPath::from("routing").key(path.to_owned())
}

/// The routers of a request.
///
/// # Errors
/// All that is wrong with them; or, if nothing is, the passwords that are missing.
pub(super) fn routers(
    routing: &contract::Routing,
    ports: &[RouterPort],
    passwords: &Passwords,
) -> Result<Vec<Router>, Refusal> {
    let (mut wrong, mut missing) = (Violations::default(), Vec::new());
    let read = |(n, router)| {
        let at = format!("routers[{n}]");
        Reader { at, passwords, wrong: &mut wrong, missing: &mut missing }.router(router, ports)
    };
    let routers: Vec<Router> = routing.routers.iter().enumerate().filter_map(read).collect();
    if wrong.is_empty() {
        for violation in check(&routers) {
            wrong.add(field(&violation.field), violation.description);
        }
    }
    let routers = wrong.or(routers)?;
    if missing.is_empty() { Ok(routers) } else { Err(Refusal::State(missing.join("; "))) }
}

/// Reads a message and notes what is wrong with it.
struct Reader<'a> {
    /// The message's path.
    at: String,
    passwords: &'a Passwords,
    wrong: &'a mut Violations,
    /// Passwords that cannot be used now, each with its field.
    missing: &'a mut Vec<String>,
}

impl Reader<'_> {
    fn within(&mut self, name: &str) -> Reader<'_> {
        let at = format!("{}.{name}", self.at);
        Reader { at, passwords: self.passwords, wrong: self.wrong, missing: self.missing }
    }

    fn add(&mut self, name: &str, problem: impl Into<String>) {
        self.wrong.add(field(&format!("{}.{name}", self.at)), problem);
    }

    fn router(&mut self, router: &contract::Router, ports: &[RouterPort]) -> Option<Router> {
        let Some(port) = ports.iter().find(|port| port.name == router.port) else {
            let known = ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
            self.add("port", format!("{:?} is no router of this engine; known are {known} (--router)", router.port));
            return None;
        };
        let router_id = match router.router_id.as_str() {
            "" => None,
            text => self.parsed("router_id", text, "must be such as 10.99.0.1"),
        };
        let bgp = (0..).zip(&router.bgp).filter_map(|(n, s)| self.within(&format!("bgp[{n}]")).bgp(s)).collect();
        let ospf = (0..).zip(&router.ospf).filter_map(|(n, s)| self.within(&format!("ospf[{n}]")).ospf(s)).collect();
        let rip = (0..).zip(&router.rip).filter_map(|(n, s)| self.within(&format!("rip[{n}]")).rip(s)).collect();
        let bfd = (0..).zip(&router.bfd).filter_map(|(n, s)| self.within(&format!("bfd[{n}]")).bfd(s)).collect();
        Some(Router {
            port: port.name.clone(),
            interface: port.interface.clone(),
            addresses: port.addresses.clone(),
            gateways: port.gateways.clone(),
            router_id,
            bgp,
            ospf,
            rip,
            bfd,
            extra_config: router.extra_config.clone(),
        })
    }

    fn bgp(&mut self, session: &contract::BgpSession) -> Option<Bgp> {
        let neighbor: Option<IpAddr> =
            self.parsed("neighbor", &session.neighbor, "must be an address such as 10.99.0.2");
        let password = self.password(&session.password_file);
        let family = |family: &i32| AddressFamily::try_from(*family).unwrap_or_default();
        let families = (0..).zip(session.families.iter().map(family));
        let families = families.filter_map(|(n, family)| self.family(&format!("families[{n}]"), family)).collect();
        let bfd = session.bfd.as_ref().map(|timers| self.timers("bfd", timers));
        let hold_time_s = self.number("hold_time_s", session.hold_time_s, "must be 0 (never) or 3 to 65535 seconds");
        let multihop: Option<u8> =
            self.number("multihop", session.multihop, "must be 1 to 255 hops, or 0 for a neighbor on the link");
        let learn = self.learn(session.learn());
        Some(Bgp {
            name: session.name.clone(),
            local_as: session.local_as,
            neighbor: neighbor?,
            neighbor_as: session.neighbor_as,
            families,
            bfd: bfd.flatten(),
            password,
            hold_time_s: hold_time_s?,
            multihop: multihop.filter(|hops| *hops > 0),
            passive: session.passive,
            ttl_security: session.ttl_security,
            learn: learn?,
        })
    }

    fn ospf(&mut self, session: &contract::OspfSession) -> Option<Ospf> {
        let version = match session.version {
            2 => Some(OspfVersion::V2),
            3 => Some(OspfVersion::V3),
            other => {
                self.add("version", format!("{other}; must be 2 or 3"));
                None
            }
        };
        let area = match session.area.as_str() {
            "" => Some(Ipv4Addr::UNSPECIFIED),
            text => self.parsed("area", text, "must be such as 0.0.0.0"),
        };
        let link = match session.link() {
            LinkType::Broadcast => Some(routing::LinkType::Broadcast),
            LinkType::PointToPoint => Some(routing::LinkType::PointToPoint),
            LinkType::Unspecified => {
                self.add("link", "missing; must be broadcast or point to point");
                None
            }
        };
        let hello_s = self.number("hello_s", session.hello_s, "must be 1 to 65535 seconds");
        let dead_s = self.number("dead_s", session.dead_s, "must be 2 to 65535 seconds");
        let password = self.password(&session.password_file);
        let learn = self.learn(session.learn());
        Some(Ospf {
            name: session.name.clone(),
            version: version?,
            area: area?,
            link: link?,
            hello_s: hello_s?,
            dead_s: dead_s?,
            password,
            learn: learn?,
        })
    }

    fn rip(&mut self, session: &contract::RipSession) -> Option<Rip> {
        let family = self.family("family", session.family());
        let update_s = self.number("update_s", session.update_s, "must be 1 to 65535 seconds");
        let timeout_s = self.number("timeout_s", session.timeout_s, "must be 2 to 65535 seconds");
        let password = self.password(&session.password_file);
        let learn = self.learn(session.learn());
        Some(Rip {
            name: session.name.clone(),
            version: match family? {
                Family::V4 => RipVersion::V2,
                Family::V6 => RipVersion::Ng,
            },
            update_s: update_s?,
            timeout_s: timeout_s?,
            password,
            learn: learn?,
        })
    }

    fn bfd(&mut self, session: &contract::BfdSession) -> Option<Bfd> {
        let neighbor = self.parsed("neighbor", &session.neighbor, "must be an address such as 10.99.0.2");
        let timers = self.timers("timers", session.timers.as_ref().unwrap_or(&contract::BfdTimers::default()));
        Some(Bfd { name: session.name.clone(), neighbor: neighbor?, timers: timers? })
    }

    fn timers(&mut self, name: &str, timers: &contract::BfdTimers) -> Option<BfdTimers> {
        let multiplier = self.within(name).number("multiplier", timers.multiplier, "must be 1 to 255")?;
        Some(BfdTimers { interval_us: timers.interval_us, multiplier })
    }

    fn family(&mut self, name: &str, family: AddressFamily) -> Option<Family> {
        match family {
            AddressFamily::Ipv4 => Some(Family::V4),
            AddressFamily::Ipv6 => Some(Family::V6),
            AddressFamily::Unspecified => {
                self.add(name, "missing; must be IPv4 or IPv6");
                None
            }
        }
    }

    fn learn(&mut self, learn: Learn) -> Option<routing::Learn> {
        match learn {
            Learn::Count => Some(routing::Learn::Count),
            Learn::Keep => Some(routing::Learn::Keep),
            Learn::None => Some(routing::Learn::None),
            Learn::Unspecified => {
                self.add("learn", "missing; must be count, keep or none");
                None
            }
        }
    }

    /// The password in a file; none if there is no file, or it is noted what is wrong with it.
    fn password(&mut self, file: &str) -> Option<Secret> {
        if file.is_empty() {
            return None;
        }
        match self.passwords.read(file) {
            Ok(password) => Some(password),
            Err(error) if error.may_pass() => {
                self.missing.push(format!("{}: {error}", field(&format!("{}.password_file", self.at))));
                None
            }
            Err(error) => {
                self.add("password_file", error.to_string());
                None
            }
        }
    }

    fn parsed<T: std::str::FromStr>(&mut self, name: &str, text: &str, right: &str) -> Option<T> {
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.add(name, format!("{text:?}; {right}"));
        }
        parsed
    }

    fn number<T: TryFrom<u32>>(&mut self, name: &str, number: u32, right: &str) -> Option<T> {
        let fits = T::try_from(number).ok();
        if fits.is_none() {
            self.add(name, format!("{number}; {right}"));
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{BgpSession, OspfSession, RipSession};

    fn ports() -> Vec<RouterPort> {
        let addresses = ["10.99.0.1/24", "2001:db8:99::1/64"].map(|text| text.parse().unwrap()).into();
        vec![RouterPort { name: "east".into(), interface: "rt-east".into(), addresses, gateways: Vec::new() }]
    }

    fn dut() -> BgpSession {
        BgpSession {
            name: "dut".into(),
            local_as: 65001,
            neighbor: "10.99.0.2".into(),
            neighbor_as: 65002,
            families: vec![AddressFamily::Ipv4.into(), AddressFamily::Ipv6.into()],
            hold_time_s: 90,
            learn: Learn::Count.into(),
            ..BgpSession::default()
        }
    }

    fn core() -> OspfSession {
        OspfSession {
            name: "core".into(),
            version: 2,
            link: LinkType::PointToPoint.into(),
            hello_s: 1,
            dead_s: 4,
            learn: Learn::Count.into(),
            ..OspfSession::default()
        }
    }

    fn old() -> RipSession {
        RipSession {
            name: "old".into(),
            family: AddressFamily::Ipv6.into(),
            update_s: 5,
            timeout_s: 30,
            learn: Learn::Count.into(),
            ..RipSession::default()
        }
    }

    fn east() -> contract::Router {
        contract::Router {
            port: "east".into(),
            bgp: vec![dut()],
            ospf: vec![core()],
            rip: vec![old()],
            ..contract::Router::default()
        }
    }

    #[test]
    fn a_router_has_the_addresses_of_its_port() {
        let routing = contract::Routing { routers: vec![east()] };
        let routers = routers(&routing, &ports(), &Passwords(None)).unwrap();
        let [router] = &routers[..] else { panic!("{routers:?}") };
        assert_eq!((router.interface.as_str(), router.addresses.len()), ("rt-east", 2));
        assert_eq!(router.bgp[0].families, [Family::V4, Family::V6]);
        assert_eq!((router.bgp[0].multihop, router.rip[0].version), (None, RipVersion::Ng));
    }

    #[test]
    fn what_is_wrong_has_the_contracts_field_and_no_password() {
        type Change = fn(&mut contract::Router);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("dut"), "pa55").unwrap();
        std::fs::write(folder.path().join("newline"), "pa55\n").unwrap();
        let passwords = Passwords(Some(folder.path().to_owned()));
        let of = |change: Change| {
            let mut router = east();
            change(&mut router);
            let wrong = routers(&contract::Routing { routers: vec![router] }, &ports(), &passwords).unwrap_err();
            assert!(!wrong.to_string().contains("pa55"), "{wrong}");
            wrong.to_string()
        };
        let cases: [(Change, &str); 20] = [
            (
                |r| r.port = "north".into(),
                "routing.routers[0].port: \"north\" is no router of this engine; known are east (--router)",
            ),
            (|r| r.router_id = "x".into(), "routing.routers[0].router_id: \"x\"; must be such as 10.99.0.1"),
            (
                |r| r.bgp[0].neighbor = "dut".into(),
                "routing.routers[0].bgp[0].neighbor: \"dut\"; must be an address such as 10.99.0.2",
            ),
            (|r| r.bgp[0].neighbor_as = 0, "routing.routers[0].bgp[0].neighbor_as: AS 0 is reserved"),
            (|r| r.bgp[0].families = vec![0], "routing.routers[0].bgp[0].families[0]: missing; must be IPv4 or IPv6"),
            (|r| r.bgp[0].families = vec![9], "routing.routers[0].bgp[0].families[0]: missing; must be IPv4 or IPv6"),
            (
                |r| r.bgp[0].hold_time_s = 70_000,
                "routing.routers[0].bgp[0].hold_time_s: 70000; must be 0 (never) or 3 to 65535",
            ),
            (|r| r.bgp[0].multihop = 256, "routing.routers[0].bgp[0].multihop: 256; must be 1 to 255 hops"),
            (
                |r| r.bgp[0].password_file = "newline".into(),
                "routing.routers[0].bgp[0].password_file: newline: has a quotation mark, a newline",
            ),
            (
                |r| r.ospf[0].password_file = "later".into(),
                "routing.routers[0].ospf[0].password_file: later: No such file or directory",
            ),
            (
                |r| r.ospf[0].password_file = "../dut".into(),
                "routing.routers[0].ospf[0].password_file: \"../dut\"; must be the path of a file",
            ),
            (
                |r| r.bgp[0].bfd = Some(contract::BfdTimers { interval_us: 50_000, multiplier: 300 }),
                "routing.routers[0].bgp[0].bfd.multiplier: 300; must be 1 to 255",
            ),
            (|r| r.bgp[0].learn = 0, "routing.routers[0].bgp[0].learn: missing; must be count, keep or none"),
            (|r| r.ospf[0].version = 1, "routing.routers[0].ospf[0].version: 1; must be 2 or 3"),
            (|r| r.ospf[0].area = "x".into(), "routing.routers[0].ospf[0].area: \"x\"; must be such as 0.0.0.0"),
            (|r| r.ospf[0].link = 0, "routing.routers[0].ospf[0].link: missing; must be broadcast or point to point"),
            (
                |r| r.rip[0].password_file = "dut".into(),
                "routing.routers[0].rip[0].password: RIPng has no authentication of its own",
            ),
            (|r| r.rip[0].family = 0, "routing.routers[0].rip[0].family: missing; must be IPv4 or IPv6"),
            (
                |r| r.bfd = vec![contract::BfdSession { name: "b".into(), neighbor: "10.99.0.3".into(), timers: None }],
                "routing.routers[0].bfd[0].timers.interval_us: 0; must be 10000 (10 ms)",
            ),
            (
                |r| r.extra_config = "\ninclude \"x\";".into(),
                "routing.routers[0].extra_config: line 2: include: BIRD must not use files",
            ),
        ];
        for (change, problem) in cases {
            let wrong = of(change);
            assert!(wrong.contains(problem), "{wrong}");
        }
    }
}
