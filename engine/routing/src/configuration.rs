// SPDX-License-Identifier: Apache-2.0
//! Routers and routes as the text that BIRD 2 reads (bird.conf).
//!
//! - A port has a table of each family. Sessions import into it and export of it; nothing else does, and no route reaches the kernel.
//! - A set of routes is one `protocol static`, so that it is withdrawn and advertised again by one command, and its text has nothing but
//!   prefixes. What is said of all of its routes is in the filters of the sessions that advertise it.
//! - Names have a colon, which no keyword of BIRD has, and are stable: a change of one session leaves the others as they are.
use std::{
    fmt::{self, Write as _},
    net::IpAddr,
};

use crate::{
    Attributes, Bfd, BfdTimers, Bgp, Family, Learn, LinkType, NextHop, Origin, Ospf, OspfVersion, Rip, RipVersion,
    RouteSet, Router, Secret, Share,
};

/// BFD's name in BIRD; there is one for all ports.
pub(crate) const BFD: &str = "bfd:all";

/// What BIRD shall do. Written by `Display`, a piece at a time: a million routes are 30 MB.
#[derive(Clone, Copy, Debug)]
pub struct Configuration<'a> {
    /// The routers of the pod, in which [`crate::check()`] found nothing.
    pub routers: &'a [Router],
    /// Their routes, in which [`crate::check_routes`] found nothing.
    pub routes: &'a [RouteSet],
    /// The pod's share of each set.
    pub share: Share,
}

/// What a session exchanges with a table of its port.
struct Channel<'a> {
    router: &'a Router,
    session: &'a str,
    family: Family,
    learn: Learn,
    /// Of its routes, if that is not the address from which the session is spoken.
    next_hop: Option<IpAddr>,
    /// Writes what is said of a set's routes.
    attributes: fn(&mut fmt::Formatter<'_>, &Attributes) -> fmt::Result,
}

impl<'a> Channel<'a> {
    /// With the address from which the session is spoken as the next hop.
    fn new(
        router: &'a Router,
        session: &'a str,
        family: Family,
        learn: Learn,
        attributes: fn(&mut fmt::Formatter<'_>, &Attributes) -> fmt::Result,
    ) -> Self {
        Self { router, session, family, learn, next_hop: None, attributes }
    }
}

/// The name in BIRD of a session of BGP.
pub(crate) fn bgp_name(port: &str, session: &str) -> String {
    format!("bgp:{port}:{session}")
}

/// The name in BIRD of a session of OSPF.
pub(crate) fn ospf_name(port: &str, session: &str) -> String {
    format!("ospf:{port}:{session}")
}

/// The name in BIRD of a session of RIP.
pub(crate) fn rip_name(port: &str, session: &str) -> String {
    format!("rip:{port}:{session}")
}

/// The name in BIRD of a set of routes.
pub(crate) fn routes_name(set: &str) -> String {
    format!("routes:{set}")
}

fn table(port: &str, family: Family) -> String {
    match family {
        Family::V4 => format!("4:{port}"),
        Family::V6 => format!("6:{port}"),
    }
}

/// The family's name in BIRD's language.
fn keyword(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

impl fmt::Display for Configuration<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_own(f)?;
        self.routers_with_text().try_for_each(|(_, router)| writeln!(f, "{}", router.extra_config))
    }
}

/// Counts lines, and keeps none.
struct Lines(usize);

impl fmt::Write for Lines {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.matches('\n').count();
        Ok(())
    }
}

impl Configuration<'_> {
    /// The router with the `extra_config` in which a line of the text is, and which of its lines that is; both are counted from 1. What is
    /// behind the last one is its own, too, such as the end of the text within its braces.
    pub fn line_of_extra(&self, line: usize) -> Option<(usize, usize)> {
        struct Own<'a>(&'a Configuration<'a>);
        impl fmt::Display for Own<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write_own(f)
            }
        }
        let mut before = Lines(0);
        let _ = write!(before, "{}", Own(self));
        let mut found = None;
        for (n, router) in self.routers_with_text() {
            if line > before.0 {
                found = Some((n, line - before.0));
            }
            before.0 += router.extra_config.matches('\n').count() + 1;
        }
        found
    }

    fn routers_with_text(&self) -> impl Iterator<Item = (usize, &Router)> {
        self.routers.iter().enumerate().filter(|(_, router)| !router.extra_config.is_empty())
    }

    /// All but the text that routers have themselves.
    fn write_own(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "log stderr {{ info, remote, warning, error, auth, fatal, bug }};")?;
        writeln!(f, "timeformat protocol iso long ms;")?;
        // Each session names its own; without a default BIRD would look for one on the pod's interfaces.
        writeln!(f, "router id {};", self.routers.iter().find_map(Router::id).unwrap_or([127, 0, 0, 1].into()))?;
        writeln!(f, "protocol device 'device:all' {{ scan time 10; }}")?;
        self.write_bfd(f)?;
        for router in self.routers {
            for family in [Family::V4, Family::V6] {
                writeln!(f, "{} table '{}';", keyword(family), table(&router.port, family))?;
            }
            for session in &router.bgp {
                self.write_bgp(f, router, session)?;
            }
            for session in &router.ospf {
                self.write_ospf(f, router, session)?;
            }
            for session in &router.rip {
                self.write_rip(f, router, session)?;
            }
        }
        for set in self.routes {
            self.write_routes(f, set)?;
        }
        Ok(())
    }

    /// BFD has one protocol for all ports: those of BGP's sessions have timers of their own.
    fn write_bfd(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = |router: &Router| !router.bfd.is_empty() || router.bgp.iter().any(|session| session.bfd.is_some());
        if !self.routers.iter().any(used) {
            return Ok(());
        }
        writeln!(f, "protocol bfd '{BFD}' {{\n  strict bind yes;")?;
        for router in self.routers {
            if let Some(Bfd { timers, .. }) = router.bfd.first() {
                writeln!(f, "  interface \"{}\" {{ {} }};", router.interface, bfd_items(timers))?;
            }
            for Bfd { neighbor, .. } in &router.bfd {
                write!(f, "  neighbor {neighbor} dev \"{}\"", router.interface)?;
                if let Some(own) = router.address_towards(*neighbor) {
                    write!(f, " local {own}")?;
                }
                writeln!(f, ";")?;
            }
        }
        writeln!(f, "}}")
    }

    fn write_bgp(&self, f: &mut fmt::Formatter<'_>, router: &Router, session: &Bgp) -> fmt::Result {
        writeln!(f, "protocol bgp '{}' {{", bgp_name(&router.port, &session.name))?;
        write_router_id(f, router)?;
        let own = match session.multihop {
            None => router.address_towards(session.neighbor),
            Some(_) => {
                router.address_towards(session.neighbor).or_else(|| router.address(Family::of(session.neighbor)))
            }
        };
        match own {
            Some(own) => writeln!(f, "  local {own} as {};", session.local_as)?,
            None => writeln!(f, "  local as {};", session.local_as)?,
        }
        writeln!(f, "  neighbor {} as {};", session.neighbor, session.neighbor_as)?;
        match session.multihop {
            Some(hops) => writeln!(f, "  multihop {hops};")?,
            None => writeln!(f, "  direct;\n  interface \"{}\";", router.interface)?,
        }
        writeln!(f, "  hold time {};", session.hold_time_s)?;
        // Or it would listen on the pod's own addresses, too.
        writeln!(f, "  strict bind yes;")?;
        // BIRD's own are made for the Internet: it waits 5 s before the first attempt, 2 min before the next, and 1 to 5 min after an error.
        writeln!(
            f,
            "  connect delay time 1;\n  connect retry time 5;\n  error wait time 1, 10;\n  error forget time 30;"
        )?;
        if session.passive {
            writeln!(f, "  passive yes;")?;
        }
        if session.ttl_security {
            writeln!(f, "  ttl security yes;")?;
        }
        if let Some(timers) = &session.bfd {
            writeln!(f, "  bfd {{ {} }};", bfd_items(timers))?;
        }
        if let Some(password) = &session.password {
            writeln!(f, "  password \"{}\";", password.text())?;
        }
        for family in &session.families {
            let next_hop = router.address(*family).filter(|_| *family != Family::of(session.neighbor));
            let channel = Channel::new(router, &session.name, *family, session.learn, bgp_attributes);
            self.write_channel(f, &Channel { next_hop, ..channel })?;
        }
        writeln!(f, "}}")
    }

    fn write_ospf(&self, f: &mut fmt::Formatter<'_>, router: &Router, session: &Ospf) -> fmt::Result {
        let version = match session.version {
            OspfVersion::V2 => "v2",
            OspfVersion::V3 => "v3",
        };
        writeln!(f, "protocol ospf {version} '{}' {{", ospf_name(&router.port, &session.name))?;
        write_router_id(f, router)?;
        let family = session.version.family();
        let channel = Channel::new(router, &session.name, family, session.learn, ospf_attributes);
        self.write_channel(f, &channel)?;
        writeln!(f, "  area {} {{\n    interface \"{}\" {{", session.area, router.interface)?;
        let link = match session.link {
            LinkType::Broadcast => "broadcast",
            LinkType::PointToPoint => "ptp",
        };
        writeln!(f, "      type {link};\n      hello {};\n      dead {};", session.hello_s, session.dead_s)?;
        write_authentication(f, session.password.as_ref())?;
        writeln!(f, "    }};\n  }};\n}}")
    }

    fn write_rip(&self, f: &mut fmt::Formatter<'_>, router: &Router, session: &Rip) -> fmt::Result {
        let version = match session.version {
            RipVersion::V2 => "rip",
            RipVersion::Ng => "rip ng",
        };
        writeln!(f, "protocol {version} '{}' {{", rip_name(&router.port, &session.name))?;
        write_router_id(f, router)?;
        let family = session.version.family();
        let channel = Channel::new(router, &session.name, family, session.learn, rip_attributes);
        self.write_channel(f, &channel)?;
        writeln!(f, "  interface \"{}\" {{", router.interface)?;
        writeln!(f, "      update time {};\n      timeout time {};", session.update_s, session.timeout_s)?;
        write_authentication(f, session.password.as_ref())?;
        writeln!(f, "  }};\n}}")
    }

    fn write_channel(&self, f: &mut fmt::Formatter<'_>, channel: &Channel<'_>) -> fmt::Result {
        let Channel { router, session, family, .. } = *channel;
        writeln!(f, "  {} {{\n    table '{}';", keyword(family), table(&router.port, family))?;
        if let Some(next_hop) = channel.next_hop {
            writeln!(f, "    next hop address {next_hop};")?;
        }
        match channel.learn {
            Learn::Count => writeln!(f, "    import keep filtered yes;\n    import none;")?,
            Learn::Keep => writeln!(f, "    import all;")?,
            Learn::None => writeln!(f, "    import none;")?,
        }
        writeln!(f, "    export filter {{")?;
        let is_of = |set: &&RouteSet| {
            set.port == router.port
                && set.prefixes.family() == Some(family)
                && set.sessions.iter().any(|name| name == session)
        };
        for set in self.routes.iter().filter(is_of) {
            writeln!(f, "      if proto = \"{}\" then {{", routes_name(&set.name))?;
            (channel.attributes)(f, &set.attributes)?;
            writeln!(f, "        accept;\n      }}")?;
        }
        writeln!(f, "      reject;\n    }};\n  }};")
    }

    fn write_routes(&self, f: &mut fmt::Formatter<'_>, set: &RouteSet) -> fmt::Result {
        let Some(family) = set.prefixes.family() else { return Ok(()) };
        writeln!(f, "protocol static '{}' {{", routes_name(&set.name))?;
        if !set.advertised {
            writeln!(f, "  disabled yes;")?;
        }
        writeln!(f, "  {} {{ table '{}'; }};", keyword(family), table(&set.port, family))?;
        for net in set.prefixes.share(self.share) {
            writeln!(f, "route {net} blackhole;")?;
        }
        writeln!(f, "}}")
    }
}

fn write_router_id(f: &mut fmt::Formatter<'_>, router: &Router) -> fmt::Result {
    match router.id() {
        Some(id) => writeln!(f, "  router id {id};"),
        None => Ok(()),
    }
}

fn write_authentication(f: &mut fmt::Formatter<'_>, password: Option<&Secret>) -> fmt::Result {
    match password {
        Some(password) => writeln!(f, "      authentication cryptographic;\n      password \"{}\";", password.text()),
        None => Ok(()),
    }
}

fn bfd_items(timers: &BfdTimers) -> String {
    format!("interval {} us; multiplier {};", timers.interval_us, timers.multiplier)
}

fn bgp_attributes(f: &mut fmt::Formatter<'_>, attributes: &Attributes) -> fmt::Result {
    // The last one is prepended first.
    for asn in attributes.as_path.iter().rev() {
        writeln!(f, "        bgp_path.prepend({asn});")?;
    }
    for community in &attributes.communities {
        writeln!(f, "        bgp_community.add(({}, {}));", community.0, community.1)?;
    }
    for community in &attributes.large_communities {
        writeln!(f, "        bgp_large_community.add(({}, {}, {}));", community.0, community.1, community.2)?;
    }
    if let Some(med) = attributes.med {
        writeln!(f, "        bgp_med = {med};")?;
    }
    if let Some(preference) = attributes.local_preference {
        writeln!(f, "        bgp_local_pref = {preference};")?;
    }
    let origin = match attributes.origin {
        Origin::Igp => "IGP",
        Origin::Egp => "EGP",
        Origin::Incomplete => "INCOMPLETE",
    };
    writeln!(f, "        bgp_origin = ORIGIN_{origin};")?;
    match attributes.next_hop {
        NextHop::Own => Ok(()),
        NextHop::Address(address) => writeln!(f, "        bgp_next_hop = {address};"),
    }
}

fn ospf_attributes(f: &mut fmt::Formatter<'_>, attributes: &Attributes) -> fmt::Result {
    match attributes.metric {
        Some(metric) => writeln!(f, "        ospf_metric2 = {metric};"),
        None => Ok(()),
    }
}

fn rip_attributes(f: &mut fmt::Formatter<'_>, attributes: &Attributes) -> fmt::Result {
    match attributes.metric {
        Some(metric) => writeln!(f, "        rip_metric = {metric};"),
        None => Ok(()),
    }
}
