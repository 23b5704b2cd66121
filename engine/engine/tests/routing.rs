// SPDX-License-Identifier: Apache-2.0
//! A port as a router: BIRD beside an engine speaks with another BIRD at the other end of a link, through the port.
mod serving;

use contract::engine_client::EngineClient;
use contract::{
    AddressFamily, BfdSession, BfdTimers, BgpSession, ConfigureRequest, GetInfoRequest, GetInfoResponse, Learn,
    LinkType, OspfSession, RipSession, Router, Routing, RoutingSession,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tonic::Code;
use tonic::transport::Channel;
use tonic_types::StatusExt;

const PASSWORD: &str = "pa55 w=rd#;";
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
  local 10.99.0.2 as 65002; neighbor 10.99.0.1 as 65001; interface "sp1"; password "pa55 w=rd#;"; ttl security yes; bfd { interval 100 ms; multiplier 10; };
}
protocol bgp six_ from to_engine { local 2001:db8:99::2 as 65002; neighbor 2001:db8:99::1 as 65001; interface "sp1"; }
protocol ospf v2 {
  ipv4 { table table4; import all; export where proto = "my_routes"; };
  area 0 { interface "sp1" { type ptp; hello 1; dead 4; authentication cryptographic; password "pa55 w=rd#;"; }; };
}
protocol ospf v3 {
  ipv6 { table table6; import all; export where proto = "my_routes6"; };
  area 0 { interface "sp1" { type broadcast; hello 1; dead 4; wait 2; }; };
}
protocol rip { ipv4 { table table4; import all; export where proto = "my_routes"; }; interface "sp1" { update time 2; }; }
protocol rip ng { ipv6 { table table6; import all; export where proto = "my_routes6"; }; interface "sp1" { update time 2; }; }
"#;

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
        let (configuration, socket) = (self.path("device.conf"), self.path("device.ctl"));
        fs::write(&configuration, DEVICE).unwrap();
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
        for file in ["bgp", "ospf"] {
            fs::write(passwords.join(file), PASSWORD).unwrap();
        }
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
    // No route of the device's is in the namespace, which has but the link's.
    let routes = place.output(&place.here, &["ip", "route"]);
    assert_eq!(routes.lines().count(), 1, "{routes}");

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
    fs::write(&file, PASSWORD).unwrap();
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

    // The device ends: the sessions fall, and the reason is reported.
    drop(device);
    let fell = await_sessions(&mut client, Duration::from_secs(40), |all| all.iter().all(|session| !session.up))
        .await
        .unwrap_or_else(explained);
    assert!(!fell[0].last_error.is_empty(), "{:?}", fell[0]);

    // No password is anywhere but in BIRD's own file, which no other user can read; and BIRD ends with the engine.
    assert!(!place.log("engine.log").contains("pa55"), "{}", place.log("engine.log"));
    let file = place.path("routing").join("bird.conf");
    assert!(fs::read_to_string(&file).unwrap().contains(PASSWORD));
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
    let (_engine, mut client) = place.engine(false).await;
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
    assert!(bird.end());
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
