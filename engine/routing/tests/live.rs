// SPDX-License-Identifier: Apache-2.0
//! Two BIRDs at the ends of a link: one does what the crate has written for it, and the other is a neighbor that says what it was sent.
mod programs;

use std::{
    fs,
    io::{Read, Write},
    net::IpAddr,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use spate_routing::{
    Attributes, Bgp, Command, Community, Configuration, Decoder, Family, LargeCommunity, Learn, LinkType, NextHop,
    Observation, Origin, Ospf, OspfVersion, Prefixes, Range, Reply, Rip, RipVersion, RouteSet, Router, Secret, Session,
    Share, check, check_routes, ospf_neighbors, protocols, rip_neighbors, sessions,
};

/// The neighbor: another AS by IPv4, the same AS by IPv6, OSPF and RIP, with a table for each.
const NEIGHBOR: &str = r#"
router id 10.99.0.2;
protocol device { scan time 1; }
ipv4 table external4; ipv6 table external6; ipv6 table internal6; ipv4 table ospf4; ipv4 table rip4;
protocol static my_routes { ipv4 { table external4; }; route 203.0.113.0/26 blackhole; route 203.0.113.64/26 blackhole; }
protocol bgp as_other {
  local 10.99.0.2 as 65002; neighbor 10.99.0.1 as 65001; connect delay time 1; password "a # key"; ttl security yes;
  ipv4 { table external4; import all; export where proto = "my_routes"; };
  ipv6 { table external6; import all; export none; next hop address 2001:db8:99::2; };
}
protocol bgp as_same {
  local 2001:db8:99::2 as 65001; neighbor 2001:db8:99::1 as 65001; direct; connect delay time 1; ipv6 { table internal6; import all; export none; };
}
protocol ospf v2 { ipv4 { table ospf4; import all; export none; }; area 0 { interface "sp1" { type ptp; hello 1; dead 4; }; }; }
protocol rip { ipv4 { table rip4; import all; export none; }; interface "sp1" { update time 1; }; }
"#;

/// Two namespaces of a user namespace, with a link from the one to the other; BIRD in both.
const START: &str = r#"
set -e
unshare --net sleep 300 &
there=$!
while [ "$(readlink /proc/$there/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link set lo up
ip link add sp0 type veth peer name sp1 netns $there
ip address add 10.99.0.1/24 dev sp0
ip address add 2001:db8:99::1/64 dev sp0 nodad
ip link set sp0 up
inside="nsenter --target $there --net"
$inside ip address add 10.99.0.2/24 dev sp1
$inside ip address add 2001:db8:99::2/64 dev sp1 nodad
$inside ip link set sp1 up
$inside "$BIRD" -f -c neighbor.conf -s neighbor.ctl &
"$BIRD" -f -c router.conf -s router.ctl &
wait
"#;

/// Both, until the end of the test.
struct Link {
    folder: PathBuf,
    shell: Child,
}

impl Link {
    fn new(router: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("spate-routing-live-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("router.conf"), router).unwrap();
        fs::write(folder.join("neighbor.conf"), NEIGHBOR).unwrap();
        // All end with the first process of the namespace.
        let shell = std::process::Command::new("unshare")
            .args(["--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", START])
            .env("BIRD", programs::bird())
            .current_dir(&folder)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { folder, shell }
    }

    fn bird(&self, name: &str) -> Bird {
        Bird::new(&self.folder.join(name))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A connection to a BIRD.
struct Bird {
    stream: UnixStream,
    decoder: Decoder,
}

impl Bird {
    fn new(socket: &Path) -> Self {
        let started_at = Instant::now();
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(started_at.elapsed() < Duration::from_secs(20), "{}: {error}", socket.display()),
            }
            thread::sleep(Duration::from_millis(20));
        };
        let mut this = Self { stream, decoder: Decoder::default() };
        assert!(this.reply().last.text.contains("BIRD"));
        this
    }

    fn reply(&mut self) -> Reply {
        let mut bytes = [0; 4096];
        loop {
            if let Some(reply) = self.decoder.reply().unwrap() {
                return reply;
            }
            let len = self.stream.read(&mut bytes).unwrap();
            assert!(len > 0, "BIRD has ended");
            self.decoder.push(&bytes[..len]);
        }
    }

    fn say(&mut self, command: &impl ToString) -> Reply {
        writeln!(self.stream, "{}", command.to_string()).unwrap();
        self.reply()
    }

    fn done(&mut self, command: &Command) -> Reply {
        let reply = self.say(command);
        reply.done().unwrap();
        reply
    }

    fn sessions(&mut self, router: &Router) -> Vec<Session> {
        let seen = Observation {
            protocols: protocols(&self.done(&Command::ShowProtocols)),
            ospf: ospf_neighbors(&self.done(&Command::ShowOspf)),
            rip: rip_neighbors(&self.done(&Command::ShowRip)),
            ..Observation::default()
        };
        sessions(std::slice::from_ref(router), &seen)
    }

    /// Routes of a protocol in a table.
    fn count(&mut self, table: &str) -> u64 {
        let reply = self.say(&format!("show route count table {table}"));
        // "9 of 9 routes for 9 networks in table ..."
        let line = reply.lines.iter().chain([&reply.last]).find(|line| line.text.contains("routes for")).unwrap();
        line.text.split(' ').next().unwrap().parse().unwrap()
    }

    /// All that is known of a route.
    fn route(&mut self, table: &str, prefix: &str) -> String {
        let reply = self.say(&format!("show route table {table} {prefix} all"));
        reply.lines.iter().map(|line| line.text.trim().to_owned() + "\n").collect()
    }
}

#[track_caller]
fn wait_for(what: &str, limit: u64, mut holds: impl FnMut() -> Result<(), String>) {
    let started_at = Instant::now();
    while let Err(problem) = holds() {
        assert!(started_at.elapsed() < Duration::from_secs(limit), "{what}: {problem}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(one: &T, other: &T) -> Result<(), String> {
    if one == other { Ok(()) } else { Err(format!("{one:?}, not {other:?}")) }
}

fn router() -> Router {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let external = Bgp {
        password: Some(Secret::new("a # key").unwrap()),
        ttl_security: true,
        ..Bgp::new("external", 65001, address("10.99.0.2"), 65002, [Family::V4, Family::V6])
    };
    let internal = Bgp::new("internal", 65001, address("2001:db8:99::2"), 65001, [Family::V6]);
    let core = Ospf {
        name: "core".into(),
        version: OspfVersion::V2,
        area: [0; 4].into(),
        link: LinkType::PointToPoint,
        hello_s: 1,
        dead_s: 4,
        password: None,
        learn: Learn::Count,
    };
    let old = Rip {
        name: "old".into(),
        version: RipVersion::V2,
        update_s: 1,
        timeout_s: 30,
        password: None,
        learn: Learn::Count,
    };
    let addresses = ["10.99.0.1/24", "2001:db8:99::1/64"].map(|text| text.parse().unwrap());
    Router { ospf: vec![core], rip: vec![old], ..Router::new("east", "sp0", addresses).with_bgp([external, internal]) }
}

fn set(name: &str, sessions: &[&str], first: &str, count: u32, attributes: Attributes) -> RouteSet {
    RouteSet {
        name: name.into(),
        port: "east".into(),
        sessions: sessions.iter().map(ToString::to_string).collect(),
        prefixes: Prefixes::Range(Range { first: first.parse().unwrap(), count, step: 1 }),
        attributes,
        advertised: true,
    }
}

fn routes() -> Vec<RouteSet> {
    let attributes = Attributes {
        as_path: vec![64512, 4_200_000_001],
        communities: vec![Community(65001, 100)],
        large_communities: vec![LargeCommunity(65001, 1, 2)],
        med: Some(10),
        origin: Origin::Incomplete,
        metric: Some(7),
        ..Attributes::default()
    };
    let elsewhere = Attributes { next_hop: NextHop::Address([10, 99, 0, 77].into()), ..Attributes::default() };
    let preferred = Attributes { local_preference: Some(250), ..Attributes::default() };
    vec![
        set("customers", &["external", "core", "old"], "20.0.0.0/24", 1000, attributes),
        set("elsewhere", &["external"], "30.0.0.0/16", 3, elsewhere),
        set("six", &["external", "internal"], "2001:db8:1000::/48", 10, preferred),
        RouteSet { advertised: false, ..set("later", &["external"], "40.0.0.0/24", 5, Attributes::default()) },
    ]
}

#[test]
fn a_neighbor_is_sent_exactly_what_is_advertised() {
    let (routers, routes) = ([router()], routes());
    assert_eq!((check(&routers), check_routes(&routes, &routers, &[])), (vec![], vec![]));
    let configuration = Configuration { routers: &routers, routes: &routes, share: Share::new(1, 2).unwrap() };
    let link = Link::new(&configuration.to_string());
    let (mut router, mut neighbor) = (link.bird("router.ctl"), link.bird("neighbor.ctl"));

    wait_for("sessions", 30, || {
        let sessions = router.sessions(&routers[0]);
        if sessions.iter().all(|session| session.up) { Ok(()) } else { Err(format!("{sessions:#?}")) }
    });
    // The second of two pods has every second route.
    let tables = ["external4", "external6", "internal6", "ospf4", "rip4"];
    let mut counts = |expected: [u64; 5]| {
        wait_for("routes", 20, || equal(&tables.map(|table| neighbor.count(table)), &expected));
    };
    counts([500 + 1 + 2, 5, 5, 500 + 1, 500]);
    wait_for("counts", 5, || {
        let sessions = router.sessions(&routers[0]);
        let counted: Vec<_> = sessions.iter().map(|session| (session.sent, session.received)).collect();
        equal(&counted, &vec![(506, 2), (5, 0), (500, 1), (500, 0)])
    });

    let mut route = |table, prefix, expected: &[&str]| {
        let said = neighbor.route(table, prefix);
        for line in expected {
            assert!(said.lines().any(|said| said.contains(line)), "{line}: {said}");
        }
    };
    let of_customers = [
        "BGP.origin: Incomplete",
        "BGP.as_path: 65001 64512 4200000001",
        "BGP.next_hop: 10.99.0.1",
        "BGP.med: 10",
        "BGP.community: (65001,100)",
        "BGP.large_community: (65001, 1, 2)",
    ];
    route("external4", "20.0.1.0/24", &of_customers);
    route("external4", "20.3.231.0/24", &of_customers);
    route("external4", "30.1.0.0/16", &["BGP.origin: IGP", "BGP.as_path: 65001", "BGP.next_hop: 10.99.0.77"]);
    route("external6", "2001:db8:1001::/48", &["BGP.as_path: 65001", "BGP.next_hop: 2001:db8:99::1"]);
    route("internal6", "2001:db8:1001::/48", &["BGP.local_pref: 250", "BGP.next_hop: 2001:db8:99::1"]);
    route("ospf4", "20.0.1.0/24", &["OSPF.metric2: 7"]);
    route("rip4", "20.0.1.0/24", &["RIP.metric: 8"]);

    // One command withdraws a set from all of its sessions, and no other.
    let mut counts = |expected: [u64; 5]| {
        wait_for("routes", 60, || equal(&tables.map(|table| neighbor.count(table)), &expected));
    };
    router.done(&Command::Advertise { set: "later".into() });
    counts([500 + 1 + 2 + 2, 5, 5, 501, 500]);
    router.done(&Command::Withdraw { set: "customers".into() });
    counts([1 + 2 + 2, 5, 5, 1, 0]);
    router.done(&Command::Advertise { set: "customers".into() });
    counts([500 + 1 + 2 + 2, 5, 5, 501, 500]);
    router.done(&Command::StopBgp { port: "east".into(), session: "external".into() });
    counts([2, 0, 5, 501, 500]);
    let down = router.sessions(&routers[0]);
    assert_eq!((down[0].up, down[0].state.as_str(), down[0].sent, down[1].up), (false, "Down", 0, true));
    router.done(&Command::StartBgp { port: "east".into(), session: "external".into() });
    counts([500 + 1 + 2 + 2, 5, 5, 501, 500]);

    // Another configuration: sets come and go, and those that stay are not sent again.
    let before = router.sessions(&routers[0])[0].updates_sent;
    let fewer = Configuration { routes: &routes[1..3], ..configuration };
    let file = link.folder.join("next.conf");
    fs::write(&file, fewer.to_string()).unwrap();
    router.done(&Command::ConfigureSoft { file: file.display().to_string() });
    let mut counts = |expected: [u64; 5]| {
        wait_for("routes", 60, || equal(&tables.map(|table| neighbor.count(table)), &expected));
    };
    counts([1 + 2, 5, 5, 1, 0]);
    let sessions = router.sessions(&routers[0]);
    assert_eq!(sessions[0].updates_sent, before + 502, "withdrawals only");
    assert!(sessions.iter().all(|session| session.up), "{sessions:#?}");

    // What BIRD refuses is said, and it goes on as before.
    fs::write(&file, "protocol nonsense { }\n").unwrap();
    let refusal = router.say(&Command::Configure { file: file.display().to_string() }).done().unwrap_err();
    assert_eq!(refusal.code, 8002);
    assert!(refusal.text.contains("next.conf:1:"), "{refusal}");
    assert!(router.sessions(&routers[0]).iter().all(|session| session.up));
}
