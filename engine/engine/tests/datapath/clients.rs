// SPDX-License-Identifier: Apache-2.0
//! Emulated clients against Kea, the DHCP server of ISC: its table of leases and ours agree address by address.
use std::{
    collections::BTreeMap,
    fs::{self, File},
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use contract::observer_client::ObserverClient;
use contract::{EmulatedClient, ListClientsRequest};
use spate_clients::{Cause, Config, Count, Dhcp4, Ipv4, Rate, Retry, State};
use spate_engine::control::runs::{Engine, Held};
use spate_engine::control::status::Refusal;
use spate_engine::control::{client_list, stats};
use spate_engine::datapath::{AtEnd, ClientSpec, Clients, ClientsError, Datapath, PollMode, PortDevice};
use spate_engine::index::PortIndex;
use spate_engine::metrics;
use spate_engine::plan::decode;
use spate_neighbour::{Mac, mac_text};
use spate_stats::Timed;
use tokio::sync::Semaphore;
use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::{
    kernel::{answered, run, run_inside},
    serving,
    setup::open,
    slow::output,
};

const FIRST_MAC: Mac = [2, 0x10, 0, 0, 0, 0xf0];
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const SECOND: u64 = 1_000_000_000;

/// Kea on the kernel's end of the link, with a folder for what it writes.
pub struct Kea {
    program: Child,
    folder: tempfile::TempDir,
}

impl Kea {
    /// Leases are valid for some seconds, and renewed after some.
    pub fn start(valid_s: u32, renew_s: u32) -> Self {
        // Through this the kernel reaches its own addresses.
        run(&["ip", "link", "set", "lo", "up"]);
        run(&["ip", "address", "replace", &format!("{GATEWAY}/12"), "dev", "sp1"]);
        let folder = tempfile::tempdir().unwrap();
        let leases = folder.path().join("leases.csv");
        let config = format!(
            r#"{{"Dhcp4": {{
                "interfaces-config": {{"interfaces": ["sp1"], "dhcp-socket-type": "raw"}},
                "lease-database": {{"type": "memfile", "persist": true, "lfc-interval": 0, "name": "{leases}"}},
                "valid-lifetime": {valid_s}, "renew-timer": {renew_s}, "rebind-timer": {rebind_s},
                "subnet4": [{{"id": 1, "subnet": "10.96.0.0/12", "pools": [{{"pool": "10.99.1.0 - 10.103.255.250"}}],
                    "option-data": [{{"name": "routers", "data": "{GATEWAY}"}}]}}],
                "loggers": [{{"name": "kea-dhcp4", "severity": "INFO", "output_options": [{{"output": "stdout", "flush": true}}]}}]
            }}}}"#,
            leases = leases.display(),
            rebind_s = (valid_s + renew_s) / 2,
        );
        fs::write(folder.path().join("kea.json"), config).unwrap();
        let program = Self::spawn(&folder);
        Self { program, folder }
    }

    fn spawn(folder: &tempfile::TempDir) -> Child {
        let log = folder.path().join("log");
        let mut command = Command::new(own_copy(folder));
        command.arg("-c").arg(folder.path().join("kea.json"));
        for folder_of in ["KEA_LOCKFILE_DIR", "KEA_PIDFILE_DIR", "KEA_LOG_FILE_DIR", "KEA_DHCP_DATA_DIR"] {
            command.env(folder_of, folder.path());
        }
        let child = command.stdout(File::create(&log).unwrap()).stderr(Stdio::inherit()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !fs::read_to_string(&log).unwrap().contains("DHCP4_STARTED") {
            assert!(Instant::now() < deadline, "{}", fs::read_to_string(&log).unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    }

    pub fn kill(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }

    /// Starts it again, with the leases it had.
    pub fn start_again(&mut self) {
        self.program = Self::spawn(&self.folder);
    }

    /// Addresses by MAC that are leased, as its file says: of an address, the last line counts.
    pub fn leases(&self) -> BTreeMap<String, Ipv4Addr> {
        let text = fs::read_to_string(self.folder.path().join("leases.csv")).unwrap();
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap().split(',').collect();
        let column = |name: &str| names.iter().position(|other| *other == name).unwrap();
        let (address, mac, valid, state) =
            (column("address"), column("hwaddr"), column("valid_lifetime"), column("state"));
        let mut by_address = BTreeMap::new();
        for fields in lines.map(|line| line.split(',').collect::<Vec<_>>()) {
            let leased = fields[valid] != "0" && fields[state] == "0";
            by_address.insert(fields[address].parse::<Ipv4Addr>().unwrap(), (fields[mac].to_owned(), leased));
        }
        let leased = by_address.into_iter().filter(|(_, (_, leased))| *leased);
        leased.map(|(address, (mac, _))| (mac, address)).collect()
    }

    /// Messages that its socket had no room for, as it had no CPU.
    fn dropped() -> usize {
        let sockets = output(&["ss", "--packet", "--memory", "--oneline", "--numeric"]);
        let of_kea = sockets.lines().filter(|line| line.contains(":sp1 "));
        let dropped = |line: &str| line.split_once(",d")?.1.split(')').next()?.parse::<usize>().ok();
        of_kea.map(|line| dropped(line).unwrap_or_else(|| panic!("no count of drops: {line}"))).sum()
    }

    /// Waits until nothing is leased. A lease whose RELEASE it has dropped stays: that message is not repeated.
    fn await_given_back(&self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.leases().len() > Self::dropped() {
            let (leased, dropped) = (self.leases().len(), Self::dropped());
            assert!(Instant::now() < deadline, "{leased} leases were not given back, {dropped} messages dropped");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A copy of Kea's program in its folder: the package's AppArmor profile, which knows the program by its path, has it read and write nothing
/// of this folder.
fn own_copy(folder: &tempfile::TempDir) -> PathBuf {
    let places = [std::env::var("SPATE_KEA").unwrap_or_default(), "/usr/sbin/kea-dhcp4".into()];
    let found = places
        .iter()
        .find(|path| Path::new(path).is_file())
        .expect("no Kea: `make deps` installs it (package kea-dhcp4-server), or name its program in SPATE_KEA");
    let copy = folder.path().join("kea-dhcp4");
    if !copy.exists() {
        fs::copy(found, &copy).unwrap();
    }
    copy
}

impl Drop for Kea {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spec(count: u32) -> ClientSpec {
    let config = Config::dhcp(FIRST_MAC, count, Rate::per_second(1000));
    ClientSpec { name: "subs".into(), port: PortIndex(0), config, at_end: AtEnd::Release }
}

pub fn east() -> Datapath {
    open(&[("east", PortDevice::Kernel("sp0".into()))], 1, PollMode::Auto)
}

fn await_all(clients: &Clients, state: State, seconds: u64) {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let counters = clients.counters();
    while counters.clients(state) < u64::from(clients.count()) {
        let states: Vec<_> = State::ALL.iter().map(|state| (state, counters.clients(*state))).collect();
        assert!(Instant::now() < deadline, "{states:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Addresses by MAC, of all clients that have one.
pub fn addresses(clients: &Clients) -> BTreeMap<String, Ipv4Addr> {
    let all = clients.list();
    all.iter().filter_map(|client| Some((mac_text(client.mac), client.ipv4?.address))).collect()
}

#[test]
fn clients_have_the_addresses_that_kea_has_leased_to_them_until_they_give_them_back() {
    run_inside("clients::inside_kea", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_kea() {
    const COUNT: u32 = 500;
    let kea = Kea::start(60, 3);
    let datapath = east();
    let started = Instant::now();
    let clients = datapath.emulate(spec(COUNT)).unwrap();
    await_all(&clients, State::Bound, 30);
    let counters = clients.counters();
    let count = |count| counters.get(count);
    assert!(started.elapsed() > Duration::from_millis(499), "the last one starts 499 ms after the first");
    assert_eq!(count(Count::Setups), u64::from(COUNT));
    assert_eq!(Cause::ALL.iter().map(|cause| counters.failed(*cause)).sum::<u64>(), 0);
    assert_eq!(Timed::read([counters.setup()].into_iter()).distribution.total(), u64::from(COUNT));

    let (ours, theirs) = (addresses(&clients), kea.leases());
    assert_eq!(ours.len(), COUNT as usize);
    assert_eq!(ours, theirs);

    // The kernel has the gateway's address: each client finds its MAC.
    let gateway = fs::read_to_string("/sys/class/net/sp1/address").unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    let found = || clients.group().sources4().iter().filter(|source| source.next_hop.is_some()).count();
    while found() < COUNT as usize {
        assert!(Instant::now() < deadline, "{} of {COUNT} know where their gateway is", found());
        std::thread::sleep(Duration::from_millis(50));
    }
    let sources = clients.group().sources4();
    assert!(sources.iter().all(|source| source.next_hop.map(mac_text).as_deref() == Some(gateway.trim())));

    let (first, last) = (&ours[&mac_text(FIRST_MAC)], &ours[&mac_text([2, 0x10, 0, 0, 2, 0xe3])]);
    for address in [first, last] {
        let ping = output(&["busybox", "ping", "-c", "3", "-i", "0.2", "-W", "2", &address.to_string()]);
        assert!(answered(&ping), "{ping}");
    }

    let deadline = Instant::now() + Duration::from_secs(15);
    while count(Count::Renewals) < u64::from(COUNT) {
        assert!(Instant::now() < deadline, "{} leases renewed", count(Count::Renewals));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((count(Count::LeasesLost), count(Count::Dhcp4Nak), count(Count::Malformed)), (0, 0, 0));
    assert_eq!(addresses(&clients), ours, "renewed leases have the same addresses");
    assert_eq!(clients.frames_lost(), 0);

    drop(clients);
    datapath.await_left(Duration::from_secs(20));
    kea.await_given_back();
}

#[test]
#[ignore = "takes 5 minutes: make clients"]
fn a_hundred_thousand_clients_have_the_addresses_that_kea_has_leased_to_them() {
    run_inside("clients::inside_many", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_many() {
    const COUNT: u32 = 100_000;
    const RATE: Rate = Rate::per_second(1000);
    let kea = Kea::start(400, 100);
    let datapath = east();
    // The kernel, which has the gateway's address, keeps no 100,000 neighbors.
    let config = Config { resolve_gateway: false, max_outstanding: Some(2000), ..Config::dhcp(FIRST_MAC, COUNT, RATE) };
    let clients = datapath.emulate(ClientSpec { config, ..spec(COUNT) }).unwrap();
    let counters = clients.counters();
    let count = |count| counters.get(count);
    // The first renew their leases before the last have one: they are not all bound at one instant.
    let deadline = Instant::now() + Duration::from_secs(300);
    while count(Count::Setups) < u64::from(COUNT) {
        assert!(Instant::now() < deadline, "{} were bound", count(Count::Setups));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(Cause::ALL.iter().map(|cause| counters.failed(*cause)).sum::<u64>(), 0);
    let ours = addresses(&clients);
    assert_eq!(ours.len(), COUNT as usize);
    assert!(ours == kea.leases(), "its table and ours differ");

    let deadline = Instant::now() + Duration::from_secs(240);
    while count(Count::Renewals) < u64::from(COUNT) {
        assert!(Instant::now() < deadline, "{} leases renewed", count(Count::Renewals));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!((count(Count::LeasesLost), count(Count::Dhcp4Nak), count(Count::Malformed)), (0, 0, 0));
    assert!(addresses(&clients) == ours && kea.leases() == ours, "renewed leases have the same addresses");
    drop(clients);
    datapath.await_left(Duration::from_secs(150));
    kea.await_given_back();
}

#[test]
fn clients_lose_their_leases_while_kea_is_gone_and_are_bound_again_when_it_is_back() {
    run_inside("clients::inside_restart", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_restart() {
    let mut kea = Kea::start(4, 1);
    let datapath = east();
    let retry = Retry { first_ns: SECOND, max_ns: 2 * SECOND, spread_ns: SECOND / 2, ..Retry::default() };
    let ClientSpec { config, .. } = spec(50);
    let clients = ClientSpec { config: Config { retry, ..config }, at_end: AtEnd::Forget, ..spec(50) };
    let clients = datapath.emulate(clients).unwrap();
    await_all(&clients, State::Bound, 20);
    kea.kill();
    let lost = |clients: &Clients| clients.counters().get(Count::LeasesLost);
    let deadline = Instant::now() + Duration::from_secs(10);
    while lost(&clients) < 50 {
        assert!(Instant::now() < deadline, "{} leases lost", lost(&clients));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((lost(&clients), clients.group().sources4().len()), (50, 0));
    await_all(&clients, State::Failed, 20);
    assert_eq!(clients.counters().failed(Cause::NoOffer), 50);
    kea.start_again();
    await_all(&clients, State::Bound, 20);
    assert_eq!(clients.counters().get(Count::Setups), 50, "setups are counted once a start");
    assert_eq!(addresses(&clients), kea.leases());
    // They are gone without a message.
    let leases = kea.leases();
    drop(clients);
    datapath.await_left(Duration::from_secs(1));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(kea.leases(), leases);
}

/// The clients of a run that a request chooses.
fn listed(held: &Held, request: ListClientsRequest) -> Result<Vec<EmulatedClient>, Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let mut answers = client_list::list(held, request, permit)?;
        let mut all = Vec::new();
        while let Some(answer) = answers.next().await {
            all.extend(answer.unwrap().clients);
        }
        Ok(all)
    })
}

const PLAN: &str = r#"{"runId": "first", "runTag": 1, "timing": {"durationNs": 1000000000}, "clients": [{
    "name": "subs", "port": "east", "count": 100, "mac": {"first": "AhAAAADw"}, "hostname": "sub-{n:04}", "ipv4": {"dhcp": {}},
    "rate": {"numerator": 1000, "denominator": 1}, "maxOutstanding": 20
}]}"#;

#[test]
fn clients_of_a_plan_are_counted_and_leave_when_its_run_is_removed() {
    run_inside("clients::inside_plan", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_plan() {
    let kea = Kea::start(60, 30);
    let engine = Arc::new(Engine::new(east()));
    let (held, _) = engine.prepare("first", PLAN.into(), decode::Format::Json).unwrap();
    let group = held.clients().remove(0);
    assert!(!group.is_ready());
    let started = group.to_string();
    assert!(started.contains(" of 100 are bound, at least 100 must be; "), "{started}");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !group.is_ready() {
        assert!(Instant::now() < deadline, "{group}");
        let under_way = [State::Discovering, State::Requesting].map(|state| group.clients().counters().clients(state));
        assert!(under_way.iter().sum::<u64>() <= 21, "{under_way:?}: a state may be read between two changes");
        std::thread::sleep(Duration::from_millis(1));
    }
    let read = stats::read(&engine, &held, stats::Grouping::ByGroup);
    let [clients] = &read.clients[..] else { panic!("{:?}", read.clients) };
    assert_eq!((&*clients.name, clients.wanted, clients.ready, clients.frames_lost), ("subs", 100, true, 0));
    assert_eq!(clients.states.iter().map(|state| state.value).sum::<u64>(), 100);
    assert!(clients.states.iter().any(|state| state.name == "Bound" && state.value == 100));
    assert_eq!((clients.causes.len(), clients.setup_time.as_ref().unwrap().count), (0, 100));
    let acks = clients.counters.iter().find(|counter| counter.name == "dhcp4_ack").unwrap().value;
    assert_eq!(acks, 100);
    let page = metrics::page(&engine, metrics::Format::OpenMetrics).unwrap();
    let page = String::from_utf8(page.body.to_vec()).unwrap();
    let labels = r#"profile_namespace="",profile="",run="first",clients="subs",port="east""#;
    for line in [
        format!("spate_clients{{{labels},state=\"Bound\"}} 100"),
        format!("spate_client_events_total{{{labels},event=\"dhcp4_ack\"}} 100"),
        format!("spate_client_setup_seconds_count{{{labels}}} 100"),
    ] {
        assert!(page.lines().any(|other| other == line), "{line} is not in\n{page}");
    }
    let leases = kea.leases();
    assert_eq!(addresses(group.clients()), leases);

    let request = ListClientsRequest { states: vec!["Bound".into()], limit: 20, ..ListClientsRequest::default() };
    let listed = listed(&held, request).unwrap();
    assert_eq!(listed.iter().map(|client| client.number).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    for client in &listed {
        let (mac, ipv4) = (Mac::try_from(&client.mac[..]).unwrap(), client.ipv4.as_ref().unwrap());
        assert_eq!((&*client.group, &*client.state, &*client.cause), ("subs", "Bound", ""));
        assert_eq!(ipv4.address[..], leases[&mac_text(mac)].octets());
        assert_eq!(
            (&ipv4.gateway[..], &ipv4.server[..], ipv4.prefix_len),
            (&[10, 99, 0, 1][..], &[10, 99, 0, 1][..], 12)
        );
        assert!(ipv4.lease_left_ns.is_some_and(|left| left <= 60 * SECOND) && client.setup_ns > 0);
    }
    for (clients, state, message) in [
        ("subs", "bound", "states: \"bound\" is no state; must be one of Idle, "),
        ("others", "Bound", "clients: \"others\" is no group of the run; must be one of subs"),
    ] {
        let (clients, states) = (clients.into(), vec![state.into()]);
        let refused = self::listed(&held, ListClientsRequest { clients, states, ..ListClientsRequest::default() });
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with(message), "{refused}");
    }

    let second = PLAN.replace("first\", \"runTag\": 1", "second\", \"runTag\": 2");
    let refused = engine.prepare("second", second.into(), decode::Format::Json).map(drop).unwrap_err().to_string();
    assert!(refused.starts_with("clients[0].mac.first: clients \"subs\" of port east have some"), "{refused}");

    drop(group);
    engine.remove("first");
    assert!(held.clients().is_empty());
    kea.await_given_back();
    drop(held);
    Arc::into_inner(engine).unwrap().close();
}

/// What `spate-engine run` of a plan prints.
fn command(plan: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.json");
    fs::write(&path, plan).unwrap();
    let args = "run --port east=kernel:sp0 --hugepages none --memory 128M --output json --plan";
    let mut command = Command::new(env!("CARGO_BIN_EXE_spate-engine"));
    command.args(args.split(' ')).arg(&path).output().unwrap()
}

#[test]
fn run_waits_for_clients_and_ends_with_their_states_if_they_are_not_bound_in_time() {
    run_inside("clients::inside_command", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_command() {
    let hurried = PLAN.replace("20\n", "20, \"ready\": {\"timeoutNs\": 1500000000}\n");
    let ended = command(&hurried);
    let printed = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success());
    let message = "0 of 100 are bound, at least 100 must be; Idle 80; Discovering 20, after 1.5s";
    assert!(printed.contains(message), "{printed}");

    let kea = Kea::start(60, 30);
    let ended = command(PLAN);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let read: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let group = &read["clients"][0];
    let read = serde_json::json!([group["name"], group["wanted"], group["ready"]]);
    assert_eq!(read, serde_json::json!(["subs", 100, true]));
    kea.await_given_back();
}

/// Clients of the run that is under way, as an observer of an engine is told.
async fn observed(
    observer: &mut ObserverClient<Channel>,
    request: ListClientsRequest,
) -> Result<Vec<EmulatedClient>, Status> {
    let mut answers = observer.list_clients(request).await?.into_inner();
    let mut all = Vec::new();
    while let Some(answer) = answers.message().await? {
        all.extend(answer.clients);
    }
    Ok(all)
}

#[test]
fn observers_of_a_served_engine_are_told_each_client() {
    run_inside("clients::inside_served", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_served() {
    let kea = Kea::start(60, 30);
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("engine");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (_engine, mut control) = serving::Engine::serve_port(&socket, "east=kernel:sp0").await;
        let mut observer = ObserverClient::new(serving::channel(&serving::records_beside(&socket)).await);
        let none = observed(&mut observer, ListClientsRequest::default()).await.unwrap_err();
        assert_eq!(
            (none.code(), none.message()),
            (Code::FailedPrecondition, "no run is under way; ask again when one is")
        );
        let plan = decode::plan(PLAN.into(), decode::Format::Json).unwrap();
        serving::prepare(&mut control, &plan).await.unwrap();
        let bound = || ListClientsRequest { states: vec!["Bound".into()], ..ListClientsRequest::default() };
        let deadline = Instant::now() + Duration::from_secs(20);
        while observed(&mut observer, bound()).await.unwrap().len() < 100 {
            assert!(Instant::now() < deadline, "{:?}", observed(&mut observer, ListClientsRequest::default()).await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let all = observed(&mut observer, ListClientsRequest::default()).await.unwrap();
        let address = |client: &EmulatedClient| {
            let mac = Mac::try_from(&client.mac[..]).unwrap();
            let address = <[u8; 4]>::try_from(&client.ipv4.as_ref().unwrap().address[..]).unwrap();
            (mac_text(mac), Ipv4Addr::from(address))
        };
        assert_eq!(all.iter().map(address).collect::<BTreeMap<_, _>>(), kea.leases());
        assert!(all.iter().map(|client| client.number).eq(0..100));
        let few = ListClientsRequest { limit: 3, clients: "subs".into(), run_id: "first".into(), ..bound() };
        let few = observed(&mut observer, few).await.unwrap();
        assert!(
            few.iter().map(address).eq(all[..3].iter().map(address)) && few.iter().map(|client| client.number).eq(0..3)
        );
        let failed = ListClientsRequest { states: vec!["Failed".into()], ..ListClientsRequest::default() };
        assert_eq!(observed(&mut observer, failed).await.unwrap(), []);
        let others = ListClientsRequest { clients: "others".into(), ..ListClientsRequest::default() };
        assert_eq!(observed(&mut observer, others).await.unwrap_err().code(), Code::InvalidArgument);
        let absent = ListClientsRequest { run_id: "absent".into(), ..ListClientsRequest::default() };
        assert_eq!(observed(&mut observer, absent).await.unwrap_err().code(), Code::NotFound);
    });
}

#[test]
fn clients_with_macs_of_others_are_refused() {
    run_inside("clients::inside_refused", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_refused() {
    let datapath = east();
    let own = datapath.ports()[0].mac;
    let with = |mac, count| {
        let config = Config::dhcp(mac, count, Rate::per_second(1));
        datapath.emulate(ClientSpec { config, ..spec(1) })
    };
    assert_eq!(with(own, 1).unwrap_err(), ClientsError::PortMac { port: "east".into(), mac: own });
    let clients = with(FIRST_MAC, 10).unwrap();
    let last = [2, 0x10, 0, 0, 0, 0xf9];
    let overlap = with(last, 1).unwrap_err();
    assert_eq!(overlap, ClientsError::Overlap { port: "east".into(), other: "subs".into() });
    assert!(with([2, 0x10, 0, 0, 0, 0xfa], 1).is_ok());
    drop(clients);
    assert!(with(last, 1).is_ok(), "clients that leave make room");
    let vendor_class = vec![0; 256];
    let config = Config {
        ipv4: Some(Ipv4::Dhcp(Box::new(Dhcp4 { vendor_class, ..Dhcp4::default() }))),
        ..Config::dhcp(FIRST_MAC, 1, Rate::per_second(1))
    };
    let refused = datapath.emulate(ClientSpec { config, ..spec(1) }).unwrap_err().to_string();
    assert!(refused.starts_with("ipv4.dhcp.vendor_class"), "{refused}");
}
