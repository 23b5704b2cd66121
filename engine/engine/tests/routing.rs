// SPDX-License-Identifier: Apache-2.0
//! A port as a router: BIRD beside an engine speaks with another BIRD at the other end of a link, through the port.
mod serving;

use contract::engine_client::EngineClient;
use contract::observer_client::ObserverClient;
use contract::{
    AddressFamily, BfdSession, BfdTimers, BgpSession, ConfigureRequest, GetInfoRequest, GetInfoResponse, Learn,
    LearnedRoute, LinkType, ListRoutesRequest, OspfSession, Plan, PrefixRange, Prefixes, RemoveRequest, RipSession,
    RouteAttributes, RouteSet, Router, Routing, RoutingSession, RunRoutes, RunState, Share, StartRequest,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tonic::Code;
use tonic::transport::Channel;
use tonic_types::StatusExt;

/// As long as that of OSPFv2 can be.
const PASSWORD: &str = "pa55 w=rd#;pa55 ";
/// The device under test. It takes all that it is sent, and sends three routes.
const DEVICE: &str = r#"
log stderr all;
router id 10.99.0.2;
ipv4 table table4;
ipv6 table table6;
protocol device { scan time 1; }
protocol bfd { interface "sp1" { interval 100 ms; multiplier 10; }; neighbor 10.99.0.1 dev "sp1" local 10.99.0.2; }
protocol static my_routes { ipv4 { table table4; }; route 203.0.113.0/26 blackhole; route 203.0.113.64/26 blackhole; }
protocol static my_routes6 { ipv6 { table table6; }; route 2001:db8:113::/48 blackhole; }
template bgp to_engine {
  connect delay time 1; error wait time 1, 5;
  ipv4 { table table4; import all; export where proto = "my_routes"; };
  ipv6 { table table6; import all; export where proto = "my_routes6"; next hop address 2001:db8:99::2; };
}
protocol bgp four_ from to_engine {
  local 10.99.0.2 as 65002; neighbor 10.99.0.1 as 65001; interface "sp1"; password "LONG"; ttl security yes; bfd { interval 100 ms; multiplier 10; };
}
protocol bgp six_ from to_engine { local 2001:db8:99::2 as 65002; neighbor 2001:db8:99::1 as 65001; interface "sp1"; }
protocol ospf v2 {
  ipv4 { table table4; import all; export where proto = "my_routes"; };
  area 0 { interface "sp1" { type ptp; hello 1; dead 4; authentication cryptographic; password "PASSWORD"; }; };
}
protocol ospf v3 {
  ipv6 { table table6; import all; export where proto = "my_routes6"; };
  area 0 { interface "sp1" { type broadcast; hello 1; dead 4; wait 2; }; };
}
protocol rip { ipv4 { table table4; import all; export where proto = "my_routes"; }; interface "sp1" { update time 2; }; }
protocol rip ng { ipv6 { table table6; import all; export where proto = "my_routes6"; }; interface "sp1" { update time 2; }; }
"#;

/// A device with a table for each session and family, in which is what it was sent. It sends three routes.
const COUNTING_DEVICE: &str = r#"
log stderr all;
router id 10.99.0.2;
ipv4 table four4; ipv6 table four6; ipv4 table six4; ipv4 table core4;
protocol device { scan time 1; }
protocol static routes4 { ipv4 { table four4; }; route 203.0.113.0/26 blackhole; route 203.0.113.64/26 blackhole; }
protocol static routes6 { ipv6 { table four6; }; route 2001:db8:113::/48 blackhole; }
protocol bgp four {
  local 10.99.0.2 as 65002; neighbor 10.99.0.1 as 65001; interface "sp1"; connect delay time 1; error wait time 1, 5;
  ipv4 { table four4; import all; export where proto = "routes4"; };
  ipv6 { table four6; import all; export where proto = "routes6"; next hop address 2001:db8:99::2; };
}
protocol bgp six {
  local 2001:db8:99::2 as 65002; neighbor 2001:db8:99::1 as 65001; interface "sp1"; connect delay time 1; error wait time 1, 5;
  ipv4 { table six4; import all; export none; next hop address 10.99.0.2; };
}
protocol ospf v2 core { ipv4 { table core4; import all; export none; }; area 0 { interface "sp1" { type ptp; hello 1; dead 8; }; }; }
"#;
/// What the device has by itself: its own routes, and that to the link in OSPF.
const OWN: [u64; 4] = [2, 1, 0, 1];
const TABLES: [&str; 4] = ["four4", "four6", "six4", "core4"];

/// Two network namespaces with a link, `sp0` to `sp1`, and a folder; all of it is gone at the end.
struct Place {
    here: String,
    there: String,
    folder: tempfile::TempDir,
}

impl Place {
    fn new(name: &str) -> Self {
        let [here, there] = ["rt", "dut"].map(|end| format!("spate-{end}-{name}-{}", std::process::id()));
        let this = Self { here, there, folder: tempfile::tempdir().unwrap() };
        for namespace in [&this.here, &this.there] {
            run(&["ip", "netns", "add", namespace]);
            run(&["ip", "-n", namespace, "link", "set", "lo", "up"]);
        }
        run(&[
            "ip",
            "-n",
            &this.here,
            "link",
            "add",
            "sp0",
            "type",
            "veth",
            "peer",
            "name",
            "sp1",
            "netns",
            &this.there,
        ]);
        run(&["ip", "-n", &this.here, "link", "set", "sp0", "up"]);
        run(&["ip", "-n", &this.there, "link", "set", "sp1", "up"]);
        // A kernel would leave checksums of what it sends to a veth to a device that is none.
        run(&["ip", "netns", "exec", &this.there, "ethtool", "-K", "sp1", "tx", "off"]);
        for address in ["10.99.0.2/24", "2001:db8:99::2/64"] {
            run(&["ip", "-n", &this.there, "address", "add", address, "dev", "sp1"]);
        }
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program in a namespace. Its errors go to a file.
    fn start(&self, namespace: &str, program: &str, arguments: &[&str], log: &str) -> Running {
        let log = fs::File::create(self.path(log)).unwrap();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, program]).args(arguments);
        Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    /// The other BIRD.
    fn device(&self) -> Running {
        self.device_with(DEVICE)
    }

    fn device_with(&self, text: &str) -> Running {
        let (configuration, socket) = (self.path("device.conf"), self.path("device.ctl"));
        let text = text.replace("LONG", &long_password()).replace("PASSWORD", PASSWORD);
        fs::write(&configuration, text).unwrap();
        let arguments = ["-f", "-c", configuration.to_str().unwrap(), "-s", socket.to_str().unwrap()];
        self.start(&self.there, &bird(), &arguments, "device.log")
    }

    /// BIRD in a container beside the engine.
    fn bird_beside(&self) -> Running {
        let configuration = concat!(env!("CARGO_MANIFEST_DIR"), "/../image/bird.conf");
        let socket = self.path("routing").join("bird.ctl");
        self.start(&self.here, &bird(), &["-f", "-c", configuration, "-s", socket.to_str().unwrap()], "bird.log")
    }

    /// An engine, with BIRD as its child or not.
    async fn engine(&self, child: bool) -> (Running, EngineClient<Channel>) {
        let (socket, folder, passwords) = (self.path("engine.sock"), self.path("routing"), self.path("passwords"));
        fs::create_dir(&passwords).unwrap();
        fs::write(passwords.join("bgp"), long_password()).unwrap();
        fs::write(passwords.join("ospf"), PASSWORD).unwrap();
        let listen = serving::unix(&socket);
        let bird = bird();
        let child = if child { &["--bird", &bird][..] } else { &[] };
        let arguments = [
            "serve",
            "--port=east=kernel:sp0",
            "--hugepages=none",
            "--memory=128M",
            "--metrics=127.0.0.1:7471",
            "--address=east=10.99.0.1/24",
            "--address=east=2001:db8:99::1/64",
            "--router=east=rt-east",
            "--routing-dir",
            folder.to_str().unwrap(),
            "--routing-passwords",
            passwords.to_str().unwrap(),
            "--listen",
            &listen,
        ];
        let arguments = [&arguments[..], child].concat();
        let running = self.start(&self.here, serving::ENGINE, &arguments, "engine.log");
        (running, EngineClient::new(serving::channel(&socket).await))
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// What the device says.
    fn ask_device(&self, command: &str) -> String {
        let socket = self.path("device.ctl");
        self.output(&self.there, &[&format!("{}c", bird()), "-s", socket.to_str().unwrap(), command])
    }

    /// Routes that it has in a table.
    fn count(&self, table: &str) -> u64 {
        let said = self.ask_device(&format!("show route count table {table}"));
        // "9 of 9 routes for 9 networks in table ..."
        let line = said.lines().find(|line| line.contains("routes for")).unwrap_or_else(|| panic!("{said}"));
        line.split(' ').next().unwrap().parse().unwrap()
    }

    /// Routes that it was sent, by table.
    fn counts(&self) -> [u64; 4] {
        std::array::from_fn(|n| self.count(TABLES[n]).wrapping_sub(OWN[n]))
    }

    /// What a command in a namespace prints.
    fn output(&self, namespace: &str, command: &[&str]) -> String {
        let output = Command::new("ip").args(["netns", "exec", namespace]).args(command).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for namespace in [&self.here, &self.there] {
            let _ = Command::new("ip").args(["netns", "delete", namespace]).status();
        }
    }
}

/// It ends with the test: `ip netns exec` becomes the program.
struct Running(Child);

impl Running {
    /// By SIGTERM; true if it ends by itself then.
    fn end(&mut self) -> bool {
        run(&["kill", "-TERM", &self.0.id().to_string()]);
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(10) {
            if self.0.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) && !self.end() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

fn run(command: &[&str]) {
    let status = Command::new(command[0]).args(&command[1..]).status().unwrap();
    assert!(status.success(), "{command:?}");
}

fn bird() -> String {
    let places = [std::env::var("SPATE_BIRD").unwrap_or_default(), "/usr/sbin/bird".into()];
    let found = places.into_iter().find(|path| Path::new(path).is_file());
    found.expect("no BIRD: `make deps` installs it (package bird2), or name its program in SPATE_BIRD")
}

/// As long as a key of TCP's MD5 signatures can be (TCP_MD5SIG_MAXKEYLEN).
fn long_password() -> String {
    PASSWORD.repeat(5)
}

/// Slow enough for a machine that does other work as well.
fn timers() -> BfdTimers {
    BfdTimers { interval_us: 100_000, multiplier: 10 }
}

/// Sessions of all kinds with the device.
fn east() -> Router {
    let families = vec![AddressFamily::Ipv4.into(), AddressFamily::Ipv6.into()];
    let bgp = |name: &str, neighbor: &str| BgpSession {
        name: name.into(),
        local_as: 65001,
        neighbor: neighbor.into(),
        neighbor_as: 65002,
        families: families.clone(),
        hold_time_s: 90,
        learn: Learn::Count.into(),
        ..BgpSession::default()
    };
    let ospf = |name: &str, version, link: LinkType, password: &str| OspfSession {
        name: name.into(),
        version,
        link: link.into(),
        hello_s: 1,
        dead_s: 4,
        password_file: password.into(),
        learn: Learn::Keep.into(),
        ..OspfSession::default()
    };
    let rip = |name: &str, family: AddressFamily| RipSession {
        name: name.into(),
        family: family.into(),
        update_s: 2,
        timeout_s: 7,
        learn: Learn::Count.into(),
        ..RipSession::default()
    };
    Router {
        port: "east".into(),
        bgp: vec![
            BgpSession {
                password_file: "bgp".into(),
                bfd: Some(timers()),
                ttl_security: true,
                ..bgp("four", "10.99.0.2")
            },
            bgp("six", "2001:db8:99::2"),
        ],
        ospf: vec![ospf("core", 2, LinkType::PointToPoint, "ospf"), ospf("core6", 3, LinkType::Broadcast, "")],
        rip: vec![rip("old", AddressFamily::Ipv4), rip("old6", AddressFamily::Ipv6)],
        bfd: vec![],
        ..Router::default()
    }
}

async fn configure(client: &mut EngineClient<Channel>, router: Router) -> Result<(), tonic::Status> {
    client.configure(ConfigureRequest { routing: Some(Routing { routers: vec![router] }) }).await.map(drop)
}

async fn info(client: &mut EngineClient<Channel>) -> GetInfoResponse {
    client.get_info(GetInfoRequest {}).await.unwrap().into_inner()
}

async fn sessions(client: &mut EngineClient<Channel>) -> Vec<RoutingSession> {
    info(client).await.ports.remove(0).sessions
}

/// The sessions as soon as they are as they shall be.
async fn await_sessions(
    client: &mut EngineClient<Channel>,
    limit: Duration,
    done: impl Fn(&[RoutingSession]) -> bool,
) -> Result<Vec<RoutingSession>, String> {
    let since = Instant::now();
    loop {
        let sessions = sessions(client).await;
        if done(&sessions) {
            return Ok(sessions);
        }
        if since.elapsed() > limit {
            return Err(format!("{sessions:#?}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn all_up(sessions: &[RoutingSession]) -> bool {
    !sessions.is_empty() && sessions.iter().all(|session| session.up)
}

#[tokio::test]
async fn sessions_of_all_kinds_come_up_through_a_port_and_come_back() {
    let place = Place::new("child");
    let device = place.device();
    let (mut engine, mut client) = place.engine(true).await;
    let explained = |problem: String| {
        let logs = ["engine.log", "device.log"].map(|name| place.log(name));
        panic!("{problem}\n{}\n{}", logs[0], logs[1]);
    };
    let since = Instant::now();
    configure(&mut client, east()).await.unwrap();
    let up = await_sessions(&mut client, Duration::from_secs(30), all_up).await.unwrap_or_else(explained);
    println!("all up after {:?}", since.elapsed());
    let names: Vec<&str> = up.iter().map(|session| session.name.as_str()).collect();
    assert_eq!(names, ["four", "six", "core", "core6", "old", "old6"]);

    // What the device sends: two routes of IPv4 and one of IPv6, in OSPF also the link's.
    let counted = |sessions: &[RoutingSession]| {
        sessions[..2].iter().all(|session| session.routes_received == 3)
            && sessions[2..].iter().all(|session| session.routes_received > 0)
    };
    let received = await_sessions(&mut client, Duration::from_secs(10), counted).await.unwrap_or_else(explained);
    let steady = |session: &RoutingSession| session.flaps == 0 && session.updates_received >= session.routes_received;
    assert!(received.iter().all(steady), "{received:#?}");
    let state = |session: &RoutingSession| (session.state.clone(), session.routes_sent);
    assert_eq!(state(&received[0]), ("Established".into(), 0));
    assert_eq!(state(&received[2]), ("Full".into(), 0));
    let metrics = place.output(&place.here, &["curl", "-s", "http://127.0.0.1:7471/metrics"]);
    for line in [
        "spate_routing_session_up{port=\"east\",protocol=\"bgp\",session=\"four\"} 1",
        "spate_routing_session_flaps_total{port=\"east\",protocol=\"ospf\",session=\"core6\"} 0",
        "spate_routing_routes{port=\"east\",protocol=\"bgp\",session=\"six\",kind=\"received\"} 3",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    // The namespace's own routes are as before: neither the device's nor the link's are among them.
    let routes = place.output(&place.here, &["ip", "route"]);
    assert_eq!(routes.lines().count(), 0, "{routes}");

    // The same again changes nothing; another session does not disturb those that stay.
    configure(&mut client, east()).await.unwrap();
    let alive = BfdSession { name: "alive".into(), neighbor: "10.99.0.2".into(), timers: Some(timers()) };
    let mut router = east();
    router.bgp[0].bfd = None;
    router.bfd = vec![alive];
    configure(&mut client, router.clone()).await.unwrap();
    let up = await_sessions(&mut client, Duration::from_secs(20), |all| all.len() == 7 && all_up(all))
        .await
        .unwrap_or_else(explained);
    assert_eq!(up[6].state, "Up");
    assert!(up[1..6].iter().all(|session| session.flaps == 0), "{up:#?}");

    // What is wrong is refused with its field, and what was goes on.
    router.bgp[0].neighbor = "10.99.0.1".into();
    let refused = configure(&mut client, router.clone()).await.unwrap_err();
    let fields = refused.get_error_details().bad_request().unwrap().field_violations.clone();
    assert_eq!(
        (refused.code(), fields[0].field.as_str()),
        (Code::InvalidArgument, "routing.routers[0].bgp[0].neighbor")
    );
    router.bgp[0].neighbor = "10.99.0.2".into();
    router.extra_config = "# fine\nprotocol static { nonsense; }".into();
    let refused = configure(&mut client, router.clone()).await.unwrap_err();
    let fields = refused.get_error_details().bad_request().unwrap().field_violations.clone();
    assert_eq!(fields[0].field, "routing.routers[0].extra_config");
    assert!(fields[0].description.starts_with("BIRD refuses it: line 2: "), "{}", fields[0].description);
    assert!(info(&mut client).await.routing.unwrap().problem.starts_with("BIRD refuses its configuration: line 2: "));
    configure(&mut client, east()).await.unwrap();
    assert_eq!(info(&mut client).await.routing.unwrap().problem, "");

    // A password that is missing is reported, and the sessions go on; another one is used as soon as it is there.
    let file = place.path("passwords").join("bgp");
    fs::remove_file(&file).unwrap();
    let refused = configure(&mut client, east()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let missing = "routing.routers[0].bgp[0].password_file: bgp: No such file or directory (os error 2)";
    assert_eq!(refused.message(), missing);
    assert!(sessions(&mut client).await[1..].iter().all(|session| session.up));
    fs::write(&file, "another").unwrap();
    configure(&mut client, east()).await.unwrap();
    let fallen = |all: &[RoutingSession]| !all[0].up;
    await_sessions(&mut client, Duration::from_secs(10), fallen).await.unwrap_or_else(explained);
    fs::write(&file, long_password()).unwrap();
    configure(&mut client, east()).await.unwrap();

    // BIRD is killed: it is run again, and its sessions come back by themselves.
    let mine = place.output(&place.here, &["pgrep", "-P", &engine.0.id().to_string()]);
    let before = await_sessions(&mut client, Duration::from_secs(20), |all| all.len() == 6 && all_up(all))
        .await
        .unwrap_or_else(explained);
    run(&["kill", "-KILL", mine.trim()]);
    await_sessions(&mut client, Duration::from_secs(10), |all| all.iter().any(|session| !session.up))
        .await
        .unwrap_or_else(explained);
    let back = await_sessions(&mut client, Duration::from_secs(30), all_up).await.unwrap_or_else(explained);
    for (before, back) in before.iter().zip(&back) {
        // More than once if the device notices only by the new BIRD that the old one has ended.
        assert!(back.flaps > before.flaps, "{back:?}");
    }

    // BIRD hangs: it is reported, and another one is run.
    let mine = place.output(&place.here, &["pgrep", "-P", &engine.0.id().to_string()]);
    run(&["kill", "-STOP", mine.trim()]);
    let since = Instant::now();
    while info(&mut client).await.routing.unwrap().problem
        != "BIRD's control socket: no reply within 15s; it is started again"
    {
        assert!(since.elapsed() < Duration::from_secs(25), "no problem is reported");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    await_sessions(&mut client, Duration::from_secs(40), all_up).await.unwrap_or_else(explained);
    assert!(!Path::new("/proc").join(mine.trim()).exists(), "the one that hangs goes on");

    // The device ends: the sessions fall, and the reason is reported.
    drop(device);
    let fell = await_sessions(&mut client, Duration::from_secs(40), |all| all.iter().all(|session| !session.up))
        .await
        .unwrap_or_else(explained);
    assert!(!fell[0].last_error.is_empty(), "{:?}", fell[0]);

    // No password is anywhere, since BIRD has read it; and BIRD ends with the engine.
    assert!(!place.log("engine.log").contains("pa55"), "{}", place.log("engine.log"));
    let files: Vec<_> = fs::read_dir(place.path("routing")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    let file = place.path("routing").join("bird.conf");
    assert!(!fs::read_to_string(&file).unwrap().contains("pa55"));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let mine = place.output(&place.here, &["pgrep", "-P", &engine.0.id().to_string()]);
    assert!(engine.end());
    assert!(!Path::new("/proc").join(mine.trim()).exists(), "BIRD goes on");
}

#[tokio::test]
async fn bird_beside_an_engine_has_the_sessions_again_when_it_was_restarted() {
    let place = Place::new("beside");
    fs::create_dir(place.path("routing")).unwrap();
    let mut bird = place.bird_beside();
    let _device = place.device();
    let (mut engine, mut client) = place.engine(false).await;
    let explained = |problem: String| {
        let logs = ["engine.log", "bird.log", "device.log"].map(|name| place.log(name));
        panic!("{problem}\n{}", logs.join("\n"));
    };
    configure(&mut client, east()).await.unwrap();
    await_sessions(&mut client, Duration::from_secs(30), all_up).await.unwrap_or_else(explained);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let steady = sessions(&mut client).await;
    assert!(all_up(&steady) && steady.iter().all(|session| session.flaps == 0), "{steady:#?}");

    assert!(bird.end());
    await_sessions(&mut client, Duration::from_secs(10), |all| all.iter().all(|session| !session.up))
        .await
        .unwrap_or_else(explained);
    // A BIRD that ends still responds for a while.
    let since = Instant::now();
    while !info(&mut client).await.routing.unwrap().problem.starts_with("BIRD ") {
        assert!(since.elapsed() < Duration::from_secs(10), "no problem is reported");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bird = place.bird_beside();
    await_sessions(&mut client, Duration::from_secs(40), all_up).await.unwrap_or_else(explained);
    assert_eq!(info(&mut client).await.routing.unwrap().problem, "");

    // The engine ends: the device is notified, and BIRD goes on without sessions.
    let (before, since) = (place.log("device.log").len(), Instant::now());
    assert!(engine.end());
    assert!(since.elapsed() < Duration::from_secs(5), "it ends after {:?}", since.elapsed());
    for session in ["four_", "six_"] {
        let said = format!("{session}: Received: Peer de-configured");
        let log = place.log("device.log");
        assert!(log[before..].contains(&said), "{log}\n{}", place.log("engine.log"));
    }
    assert!(bird.0.try_wait().unwrap().is_none(), "{}", place.log("bird.log"));
    assert!(bird.end());
}

/// Sessions of BGP over IPv4 and IPv6, and of OSPF, with a device that counts.
fn advertiser() -> Router {
    let mut router = east();
    (router.bgp[0].password_file, router.bgp[0].bfd, router.bgp[0].ttl_security) = (String::new(), None, false);
    router.bgp[1].families = vec![AddressFamily::Ipv4.into()];
    router.ospf.truncate(1);
    (router.ospf[0].password_file, router.ospf[0].dead_s) = (String::new(), 8);
    router.rip = vec![];
    router
}

fn range(first: &str, count: u32) -> Prefixes {
    Prefixes { range: Some(PrefixRange { first: first.into(), count, step: 1 }), ..Prefixes::default() }
}

fn set(name: &str, sessions: &[&str], prefixes: Prefixes) -> RouteSet {
    RouteSet {
        name: name.into(),
        port: "east".into(),
        sessions: sessions.iter().map(ToString::to_string).collect(),
        prefixes: Some(prefixes),
        attributes: None,
        advertised: true,
    }
}

/// A run of a second with these routes and a stream of 10 packets.
fn run_with(id: &str, tag: u32, routes: Vec<RouteSet>) -> Plan {
    let text = r#"{"timing": {"durationNs": 1000000000}, "lateAfterNs": 10000000000, "streams": [{
        "name": "s", "txPort": "east",
        "packet": {"frame": "AgAAAAABAgAAAAAACABFAAAyAAAAAEARAAAKAAABCgAAAgABAAIAHgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="},
        "continuous": {"rate": {"packetsPerSecond": {"numerator": 10, "denominator": 1}}}
    }]}"#;
    let plan: Plan = serde_json::from_str(text).unwrap();
    Plan { run_id: id.into(), run_tag: tag, routes, ..plan }
}

async fn run_state(client: &mut EngineClient<Channel>, id: &str) -> (RunState, Option<RunRoutes>) {
    let run = info(client).await.runs.into_iter().find(|run| run.run_id == id).unwrap();
    (run.state(), run.routes)
}

/// What a run reports of its routes as soon as they are as they shall be.
async fn await_routes(
    client: &mut EngineClient<Channel>,
    id: &str,
    limit: Duration,
    done: impl Fn(&RunRoutes) -> bool,
) -> Result<RunRoutes, String> {
    let since = Instant::now();
    loop {
        let routes = run_state(client, id).await.1.expect("the run has routes");
        if done(&routes) {
            return Ok(routes);
        }
        if since.elapsed() > limit {
            return Err(format!("{routes:#?}"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn session(routes: &RunRoutes, name: &str) -> RoutingSession {
    let sessions = routes.sessions.iter().filter_map(|session| session.session.clone());
    sessions.into_iter().find(|session| session.name == name).unwrap()
}

/// Until the device has these routes.
async fn await_counts(place: &Place, limit: Duration, expected: [u64; 4]) {
    let since = Instant::now();
    while place.counts() != expected {
        assert!(since.elapsed() < limit, "{:?}, not {expected:?}: {}", place.counts(), place.log("engine.log"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn first_violation(refused: &tonic::Status) -> (Code, String, String) {
    let found = refused.get_error_details().bad_request().map(|request| request.field_violations[0].clone());
    let found = found.unwrap_or_else(|| panic!("{refused}"));
    (refused.code(), found.field, found.description)
}

#[tokio::test]
async fn a_device_has_exactly_the_routes_of_the_runs_that_last() {
    let place = Place::new("routes");
    let _device = place.device_with(COUNTING_DEVICE);
    let (_engine, mut client) = place.engine(true).await;
    let explained = |problem: String| -> RunRoutes {
        let logs = ["engine.log", "device.log"].map(|name| place.log(name));
        panic!("{problem}\n{}\n{}", logs[0], logs[1]);
    };
    let limit = Duration::from_secs(60);
    let early = run_with("early", 9, vec![set("a", &["four"], range("20.0.0.0/24", 1))]);
    let refused = serving::prepare(&mut client, &early).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    configure(&mut client, advertiser()).await.unwrap();
    await_sessions(&mut client, limit, all_up).await.unwrap_or_else(|problem| panic!("{problem}"));

    let attributes = RouteAttributes {
        as_path: vec![64512, 4_200_000_001],
        communities: vec!["65001:100".into()],
        large_communities: vec!["65001:1:2".into()],
        med: Some(10),
        metric: Some(7),
        ..RouteAttributes::default()
    };
    let listed = ["30.0.0.0/16", "30.1.0.0/24", "30.2.3.4/32"].map(Into::into).into();
    let routes = vec![
        set("customers", &["four", "six"], range("20.0.0.0/24", 10_000)),
        set("v6", &["four"], range("2001:db8:1000::/48", 10_000)),
        RouteSet {
            attributes: Some(attributes),
            ..set("listed", &["four", "core"], Prefixes { list: listed, ..Prefixes::default() })
        },
        RouteSet { advertised: false, ..set("later", &["four"], range("40.0.0.0/24", 5)) },
    ];
    serving::prepare(&mut client, &run_with("first", 1, routes.clone())).await.unwrap();
    let ready = await_routes(&mut client, "first", limit, |routes| routes.ready).await.unwrap_or_else(explained);
    assert_eq!(place.counts()[..3], [10_003, 10_000, 10_000], "at once when they are ready");
    // A router that speaks OSPF computes its routes a while later.
    await_counts(&place, limit, [10_003, 10_000, 10_000, 3]).await;
    let counted = |name| {
        let RoutingSession { routes_configured, routes_sent, routes_received, all_sent, .. } = session(&ready, name);
        (routes_configured, routes_sent, routes_received, all_sent)
    };
    assert_eq!(counted("four"), (20_003, 20_003, 3, true));
    assert_eq!(counted("six"), (10_000, 10_000, 0, true));
    assert_eq!((counted("core").0, counted("core").1, counted("core").3), (3, 3, true));
    let said = place.ask_device("show route table four4 all 30.1.0.0/24");
    for line in [
        "BGP.as_path: 65001 64512 4200000001",
        "BGP.next_hop: 10.99.0.1",
        "BGP.med: 10",
        "BGP.community: (65001,100)",
        "BGP.large_community: (65001, 1, 2)",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(place.ask_device("show route table core4 all 30.2.3.4/32").contains("OSPF.metric2: 7"));
    let metrics = place.output(&place.here, &["curl", "-s", "http://127.0.0.1:7471/metrics"]);
    for (kind, count) in [("configured", 20_003), ("sent", 20_003), ("received", 3)] {
        let labels = format!("port=\"east\",protocol=\"bgp\",session=\"four\",kind=\"{kind}\"");
        let line = format!("spate_routing_routes{{{labels}}} {count}");
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }

    // Another run at the same time: not the same prefixes, but the same name, and its share of them.
    let refused = serving::prepare(&mut client, &run_with("second", 2, routes[..1].to_vec())).await.unwrap_err();
    let problem =
        "20.0.0.0/24 is in set \"customers\" of the port of another run, too; a router has one route to each prefix";
    assert_eq!(first_violation(&refused), (Code::InvalidArgument, "routes[0].prefixes".into(), problem.into()));
    let unknown = run_with("second", 2, vec![set("other", &["dut"], range("50.0.0.0/24", 9))]);
    let refused = serving::prepare(&mut client, &unknown).await.unwrap_err();
    assert_eq!(first_violation(&refused).1, "routes[0].sessions[0]");
    let second = run_with("second", 2, vec![set("customers", &["six"], range("50.0.0.0/24", 1001))]);
    let second = Plan { share: Some(Share { index: 1, count: 2 }), ..second };
    serving::prepare(&mut client, &second).await.unwrap();
    await_routes(&mut client, "second", limit, |routes| routes.ready).await.unwrap_or_else(explained);
    assert_eq!(place.counts()[..3], [10_003, 10_000, 10_500]);
    client.remove(RemoveRequest { run_id: "second".into() }).await.unwrap();
    await_counts(&place, limit, [10_003, 10_000, 10_000, 3]).await;

    // The run is there until its end; then the device has none of its routes, and its next one has others with the same names.
    let at_ns = info(&mut client).await.now_ns + 200_000_000;
    client.start(StartRequest { run_id: "first".into(), at_ns, ..StartRequest::default() }).await.unwrap();
    let since = Instant::now();
    while run_state(&mut client, "first").await.0 != RunState::Complete {
        assert!(since.elapsed() < limit, "{:?}", run_state(&mut client, "first").await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    await_counts(&place, limit, [0; 4]).await;
    assert!(run_state(&mut client, "first").await.1.is_none());
    let steady = sessions(&mut client).await;
    assert!(all_up(&steady) && steady.iter().all(|session| session.flaps == 0), "{steady:#?}");
    let attributes = Some(RouteAttributes { med: Some(20), ..RouteAttributes::default() });
    let again = RouteSet { attributes, ..routes[2].clone() };
    serving::prepare(&mut client, &run_with("third", 3, vec![again])).await.unwrap();
    await_routes(&mut client, "third", limit, |routes| routes.ready).await.unwrap_or_else(explained);
    assert_eq!(place.counts()[..3], [3, 0, 0]);
    assert!(place.ask_device("show route table four4 all 30.1.0.0/24").contains("BGP.med: 20"));

    // A session that has the routes is left out: the run reports it.
    let mut router = advertiser();
    router.ospf.clear();
    configure(&mut client, router).await.unwrap();
    let problem = |routes: &RunRoutes| !routes.problem.is_empty();
    let lost = await_routes(&mut client, "third", limit, problem).await.unwrap_or_else(explained);
    assert_eq!(
        (lost.ready, lost.problem.as_str()),
        (false, "port east has no session core any more; configure it again")
    );
}

#[tokio::test]
async fn routes_are_not_ready_while_the_device_has_not_acknowledged_them() {
    const COUNT: u32 = 100_000;
    let place = Place::new("slow");
    let device = place.device_with(COUNTING_DEVICE);
    let (_engine, mut client) = place.engine(true).await;
    let explained = |problem: String| -> RunRoutes { panic!("{problem}\n{}", place.log("engine.log")) };
    let limit = Duration::from_secs(60);
    let mut router = advertiser();
    (router.bgp, router.ospf) = (router.bgp[..1].to_vec(), vec![]);
    configure(&mut client, router).await.unwrap();
    await_sessions(&mut client, limit, all_up).await.unwrap_or_else(|problem| panic!("{problem}"));

    // It reads nothing, and its kernel's buffer is full before the last route.
    let device_pid = device.0.id().to_string();
    run(&["kill", "-STOP", &device_pid]);
    let plan = run_with("r", 1, vec![set("customers", &["four"], range("20.0.0.0/24", COUNT))]);
    serving::prepare(&mut client, &plan).await.unwrap();
    let counted = |routes: &RunRoutes| session(routes, "four").routes_sent == u64::from(COUNT);
    await_routes(&mut client, "r", limit, counted).await.unwrap_or_else(explained);
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(2500) {
        let routes = run_state(&mut client, "r").await.1.unwrap();
        let four = session(&routes, "four");
        assert!(!routes.ready && !four.all_sent && four.up, "{routes:#?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let four = session(&run_state(&mut client, "r").await.1.unwrap(), "four");
    assert!(four.unacknowledged_bytes > 0, "{four:#?}");
    run(&["kill", "-CONT", &device_pid]);
    await_routes(&mut client, "r", limit, |routes| routes.ready).await.unwrap_or_else(explained);
    await_counts(&place, limit, [COUNT.into(), 0, 0, 0]).await;
}

#[tokio::test]
async fn a_device_that_restarts_under_a_run_is_sent_the_routes_again_and_they_are_not_ready_until_then() {
    const COUNT: u32 = 5000;
    let place = Place::new("restart");
    let device = place.device_with(COUNTING_DEVICE);
    let (_engine, mut client) = place.engine(true).await;
    let explained = |problem: String| -> RunRoutes { panic!("{problem}\n{}", place.log("engine.log")) };
    let limit = Duration::from_secs(60);
    let mut router = advertiser();
    router.ospf = vec![];
    configure(&mut client, router).await.unwrap();
    await_sessions(&mut client, limit, all_up).await.unwrap_or_else(|problem| panic!("{problem}"));
    let mut plan = run_with("r", 1, vec![set("customers", &["four", "six"], range("20.0.0.0/24", COUNT))]);
    plan.timing.as_mut().unwrap().duration_ns = 600_000_000_000;
    serving::prepare(&mut client, &plan).await.unwrap();
    await_routes(&mut client, "r", limit, |routes| routes.ready).await.unwrap_or_else(explained);
    let at_ns = info(&mut client).await.now_ns + 200_000_000;
    client.start(StartRequest { run_id: "r".into(), at_ns, ..StartRequest::default() }).await.unwrap();

    drop(device);
    let lost = |routes: &RunRoutes| !routes.ready && routes.sessions.iter().flat_map(|of| &of.session).all(|of| !of.up);
    let lost = await_routes(&mut client, "r", limit, lost).await.unwrap_or_else(explained);
    let four = session(&lost, "four");
    assert_eq!((four.routes_configured, four.routes_sent, four.all_sent), (COUNT.into(), 0, false), "{four:#?}");
    assert_eq!(lost.problem, "", "BIRD still has the routes");

    let _device = place.device_with(COUNTING_DEVICE);
    let ready = await_routes(&mut client, "r", limit, |routes| routes.ready).await.unwrap_or_else(explained);
    assert_eq!(place.counts()[..3], [COUNT.into(), 0, COUNT.into()], "at once when they are ready again");
    for name in ["four", "six"] {
        let RoutingSession { routes_sent, flaps, all_sent, .. } = session(&ready, name);
        assert_eq!((routes_sent, flaps, all_sent), (COUNT.into(), 1, true), "{name}");
    }
    assert_eq!(run_state(&mut client, "r").await.0, RunState::Running, "the run goes on all the while");
}

#[tokio::test]
async fn routes_of_neighbors_are_listed_whether_they_are_kept_or_counted() {
    let place = Place::new("learned");
    let _device = place.device_with(COUNTING_DEVICE);
    let (_engine, mut client) = place.engine(true).await;
    let mut observer = ObserverClient::new(serving::channel(&place.path("engine.sock")).await);
    let mut list = async |request: ListRoutesRequest| -> Result<(Vec<LearnedRoute>, bool), tonic::Status> {
        let (mut routes, mut more) = (Vec::new(), false);
        let mut answers = observer.list_routes(request).await?.into_inner();
        while let Some(answer) = answers.message().await? {
            routes.extend(answer.routes);
            more = answer.more;
        }
        Ok((routes, more))
    };
    for learn in [Learn::Count, Learn::Keep] {
        let mut router = advertiser();
        router.bgp[0].learn = learn.into();
        configure(&mut client, router).await.unwrap();
        let received = |all: &[RoutingSession]| all_up(all) && all[0].routes_received == 3;
        let limit = Duration::from_secs(60);
        await_sessions(&mut client, limit, received).await.unwrap_or_else(|problem| panic!("{problem}"));
        let of_four = ListRoutesRequest { session: "four".into(), ..ListRoutesRequest::default() };
        let route = |prefix: &str, next_hop: &str| LearnedRoute {
            port: "east".into(),
            session: "four".into(),
            prefix: prefix.into(),
            next_hop: next_hop.into(),
            as_path: "65002".into(),
            kept: learn == Learn::Keep,
        };
        let expected = [
            route("2001:db8:113::/48", "2001:db8:99::2"),
            route("203.0.113.0/26", "10.99.0.2"),
            route("203.0.113.64/26", "10.99.0.2"),
        ];
        // Those that are learned in another way than before are sent again.
        let since = Instant::now();
        loop {
            let (mut routes, more) = list(of_four.clone()).await.unwrap();
            routes.sort_by(|one, other| one.prefix.cmp(&other.prefix));
            if (&routes[..], more) == (&expected[..], false) {
                break;
            }
            assert!(since.elapsed() < limit, "{routes:#?}, {more}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let up = await_sessions(&mut client, limit, received).await.unwrap_or_else(|problem| panic!("{problem}"));
        assert!(up.iter().all(|session| session.flaps == 0), "{up:#?}");
        let first = ListRoutesRequest { family: AddressFamily::Ipv4.into(), most: 1, ..of_four };
        let (routes, more) = list(first).await.unwrap();
        assert_eq!((routes.len(), more), (1, true));
        let (all, _) = list(ListRoutesRequest::default()).await.unwrap();
        assert!(all.iter().any(|route| route.session == "core" && route.prefix == "10.99.0.0/24"), "{all:#?}");
    }
    let refused = list(ListRoutesRequest { port: "west".into(), ..ListRoutesRequest::default() }).await.unwrap_err();
    assert_eq!(first_violation(&refused).1, "port");
}

/// Resident memory of a process, in MiB.
fn resident_mib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("VmRSS: 0 kB");
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// A million routes through a port, beside the same sent by BIRD straight over the link. Prints times and memory; with SPATE_ROUTES, as many.
#[tokio::test]
#[ignore = "measures (`make bench-routes`): it takes a minute, and 700 MB"]
async fn a_million_routes_are_sent_about_as_fast_as_by_bird_alone() {
    let count: u32 = std::env::var("SPATE_ROUTES").map_or(1_000_000, |text| text.parse().unwrap());
    let limit = Duration::from_secs(300);
    let all = 2 + u64::from(count);
    let per_route = |mib: u64| mib * (1 << 20) / u64::from(count);
    let wait_for_all = async |place: &Place, since: Instant| {
        while place.count("four4") != all {
            assert!(since.elapsed() < limit, "{} of {all}", place.count("four4"));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        since.elapsed()
    };

    let direct = {
        use spate_routing::{Attributes, Bgp, Configuration, Family, Prefixes, Range, RouteSet, Router, Share};
        let place = Place::new("direct");
        run(&["ip", "-n", &place.here, "address", "add", "10.99.0.1/24", "dev", "sp0"]);
        let device = place.device_with(COUNTING_DEVICE);
        let dut = Bgp::new("four", 65001, [10, 99, 0, 2].into(), 65002, [Family::V4]);
        let routers = [Router::new("east", "sp0", ["10.99.0.1/24".parse().unwrap()]).with_bgp([dut])];
        let set = RouteSet {
            name: "customers".into(),
            run: 1,
            port: "east".into(),
            sessions: vec!["four".into()],
            prefixes: Prefixes::Range(Range { first: "20.0.0.0/24".parse().unwrap(), count, step: 1 }),
            share: Share::ALL,
            attributes: Attributes::default(),
            advertised: true,
        };
        let (configuration, socket) = (place.path("router.conf"), place.path("router.ctl"));
        fs::write(&configuration, Configuration { routers: &routers, routes: &[] }.to_string()).unwrap();
        let [file, socket] = [&configuration, &socket].map(|path| path.to_str().unwrap().to_owned());
        let mut router = place.start(&place.here, &bird(), &["-f", "-c", &file, "-s", &socket], "bird.log");
        let since = Instant::now();
        let birdc = format!("{}c", bird());
        let ask = |command: &str| place.output(&place.here, &[&birdc, "-s", &socket, command]);
        while !ask("show protocols").contains("Established") {
            assert!(since.elapsed() < limit, "{}", ask("show protocols"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let text = Configuration { routers: &routers, routes: &[set] }.to_string();
        println!("text: {} bytes a route", text.len() / count as usize);
        let before = resident_mib(router.0.id());
        let since = Instant::now();
        fs::write(&configuration, text).unwrap();
        ask(&format!("configure soft \"{file}\""));
        let direct = wait_for_all(&place, since).await;
        let (mine, devices) = (resident_mib(router.0.id()), resident_mib(device.0.id()));
        println!(
            "BIRD alone: {direct:.2?}; {mine} MiB, {} bytes a route; as the device {devices} MiB, {} bytes a route",
            per_route(mine - before),
            per_route(devices)
        );
        drop(device);
        router.end();
        direct
    };

    let place = Place::new("million");
    let _device = place.device_with(COUNTING_DEVICE);
    let (engine, mut client) = place.engine(true).await;
    let mut router = advertiser();
    (router.bgp, router.ospf) = (router.bgp[..1].to_vec(), vec![]);
    configure(&mut client, router).await.unwrap();
    await_sessions(&mut client, limit, all_up).await.unwrap_or_else(|problem| panic!("{problem}"));
    let before = resident_mib(engine.0.id());
    let child = place.output(&place.here, &["pgrep", "-P", &engine.0.id().to_string()]).trim().parse().unwrap();
    let of_bird = resident_mib(child);
    let plan = run_with("r", 1, vec![set("customers", &["four"], range("20.0.0.0/24", count))]);
    let since = Instant::now();
    serving::prepare(&mut client, &plan).await.unwrap();
    let prepared = since.elapsed();
    // GetInfo responds all the while.
    let (mut slowest, mut grown) = (Duration::ZERO, 0);
    let ready = loop {
        let asked = Instant::now();
        let routes = run_state(&mut client, "r").await.1.unwrap();
        slowest = slowest.max(asked.elapsed());
        grown = grown.max(resident_mib(engine.0.id()).saturating_sub(before));
        if routes.ready {
            break since.elapsed();
        }
        assert!(since.elapsed() < limit, "{routes:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let has = place.count("four4");
    let bird = resident_mib(child);
    println!(
        "Prepare: {prepared:.2?}; ready: {ready:.2?}, of which nothing was sent for 1 s; GetInfo at most {slowest:.2?}; engine + {grown} MiB; \
         BIRD {bird} MiB, {} bytes a route",
        per_route(bird - of_bird)
    );
    let log = place.log("engine.log");
    // BIRD's own are in it as "<WARN>": that it took long to read a million routes.
    let lost: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ") || line.contains("ERROR")).collect();
    assert_eq!(has, all, "routes when they are ready");
    assert!(lost.is_empty(), "{lost:#?}");
    let ratio = ready.as_secs_f64() / direct.as_secs_f64();
    println!("ready: {ratio:.2} x BIRD alone");
    assert!(ready <= Duration::from_secs(30) && ratio <= 1.5, "ready after {ready:.2?}, {ratio:.2} x BIRD alone");
}

#[tokio::test]
async fn an_engine_without_routers_refuses_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let (_engine, mut client) = serving::Engine::serve(&folder.path().join("engine.sock"), "east").await;
    let refused = configure(&mut client, east()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.message(), "no port of this engine is a router; start it with --router");
    assert!(info(&mut client).await.routing.is_none());
}

#[test]
fn options_that_do_not_fit_are_refused_with_the_remedy() {
    for (arguments, problem) in [
        (
            &["--address=east=10.0.0.1/8", "--router=east=rt"][..],
            "--router east: give --routing-dir, a folder for BIRD's files",
        ),
        (&["--routing-dir=/tmp/x"], "--routing-dir /tmp/x: no port is a router; give --router"),
        (&["--bird=/usr/sbin/bird"], "--routing-dir <DIR>"),
    ] {
        let output = Command::new(serving::ENGINE)
            .args([
                "serve",
                "--port=east=null",
                "--hugepages=none",
                "--memory=128M",
                "--metrics=127.0.0.1:0",
                "--listen=unix:/nonexistent/x",
            ])
            .args(arguments)
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && printed.contains(problem), "{arguments:?}: {printed}");
    }
}
