// SPDX-License-Identifier: Apache-2.0
//! Connections of emulated clients to nginx, from the addresses that Kea has leased to them.
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{Ipv4Addr, TcpStream},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use spate_engine::control::runs::{Engine, Held};
use spate_engine::datapath::{RunState, TemplateCounters};
use spate_engine::plan::decode;
use spate_stateful::Count;

use crate::{
    clients::{GATEWAY, Kea, addresses, east},
    kernel::{run, run_inside},
    slow::output,
};

const MS: u64 = 1_000_000;

/// nginx on the kernel's end of the link.
struct Nginx {
    program: Child,
    folder: tempfile::TempDir,
}

impl Nginx {
    fn start() -> Self {
        // The kernel completes checksums itself.
        run(&["ethtool", "-K", "sp1", "tx", "off"]);
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        let config = format!(
            "daemon off; user root; worker_processes 1; pid {at}/pid; error_log {at}/error.log;\n\
             events {{ worker_connections 4096; }}\n\
             http {{ log_format client '$remote_addr $status'; access_log {at}/access.log client;\n\
             client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;\n\
             uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;\n\
             server {{ listen {GATEWAY}:80 backlog=4096; location / {{ return 200 ok; }} }} }}\n"
        );
        fs::write(folder.path().join("nginx.conf"), config).unwrap();
        let mut command = Command::new("nginx");
        command.arg("-c").arg(folder.path().join("nginx.conf")).stdin(Stdio::null()).stderr(Stdio::null());
        let program = command.spawn().unwrap_or_else(|e| panic!("nginx: {e}; make deps installs it (nginx-light)"));
        let nginx = Self { program, folder };
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect((GATEWAY, 80)).is_err() {
            assert!(Instant::now() < deadline, "nginx does not listen: {}", nginx.read("error.log"));
            std::thread::sleep(Duration::from_millis(20));
        }
        nginx
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// Answered requests by address of the client.
    fn requests(&self) -> BTreeMap<Ipv4Addr, u64> {
        let mut requests = BTreeMap::new();
        for line in self.read("access.log").lines() {
            let (address, status) = line.split_once(' ').unwrap();
            assert_eq!(status, "200", "{line}");
            *requests.entry(address.parse().unwrap()).or_default() += 1;
        }
        requests
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its master tells its worker to end.
        let _ = Command::new("kill").arg(self.program.id().to_string()).status();
        let _ = self.program.wait();
    }
}

/// Requests of HTTP from clients with leased addresses, as many a second as said, with what comes behind the answer.
fn plan(clients: u32, rate: u32, behind: &str) -> String {
    format!(
        r#"{{"runId": "web", "runTag": 1, "timing": {{"durationNs": 6000000000, "drainNs": 10000000000}}, "clients": [{{
            "name": "subs", "port": "east", "count": {clients}, "mac": {{"first": "AhAAAADw"}}, "ipv4": {{"dhcp": {{}}}},
            "retry": {{"firstNs": 1000000000, "maxNs": 2000000000, "spreadNs": 500000000}},
            "rate": {{"numerator": 1000, "denominator": 1}}, "atEnd": "CLIENTS_AT_END_FORGET"
        }}], "stateful": {{
            "payloads": [{{"bytes": "R0VUIC8gSFRUUC8xLjENCkhvc3Q6IGENCg0K"}}],
            "pools": [{{"name": "subs", "fromClients": {{"group": "subs"}}}}, {{"name": "web", "first": "CmMAAQ==", "last": "CmMAAQ=="}}],
            "templates": [{{
                "name": "web", "protocol": "TRANSPORT_PROTOCOL_TCP", "clientPort": "east", "destinationPort": 80,
                "flowsPerSecond": {{"numerator": {rate}, "denominator": 1}},
                "clients": [{{"pool": 0, "weight": 1}}], "servers": [{{"pool": 1, "weight": 1}}],
                "client": {{"instructions": [
                    {{"send": {{"payload": 0, "wait": true}}}}, {{"receiveUntil": {{"httpMessage": {{}}}}}}, {behind} {{"close": {{}}}}
                ]}}
            }}]
        }}}}"#
    )
}

/// Prepares a plan, and starts it when its clients are ready.
fn start(engine: &Engine, plan: String) -> Arc<Held> {
    let (held, warnings) = engine.prepare("web", plan.into(), decode::Format::Json).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
    let group = held.clients().remove(0);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !group.is_ready() {
        assert!(Instant::now() < deadline, "{group}");
        std::thread::sleep(Duration::from_millis(5));
    }
    engine.start(&held, engine.now_ns() + 50 * MS).unwrap();
    held
}

fn counters(held: &Held) -> TemplateCounters {
    held.run().template_counters().remove(0)
}

#[test]
fn connections_come_from_leased_addresses_and_their_clients_macs_alone() {
    run_inside("leased::inside_http", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_http() {
    const CLIENTS: u32 = 200;
    let (kea, engine) = (Kea::start(60, 2), Engine::new(east()));
    let nginx = Nginx::start();
    let held = start(&engine, plan(CLIENTS, 100, ""));
    let deadline = Instant::now() + Duration::from_secs(20);
    while held.run().state() != RunState::Complete {
        assert!(Instant::now() < deadline, "{:?}", held.run().state());
        std::thread::sleep(Duration::from_millis(20));
    }
    let clients = counters(&held);
    let count = |count| clients.get(count);
    assert_eq!((count(Count::FlowsAttempted), count(Count::FlowsEstablished)), (600, 600));
    for failure in [
        Count::ResetsReceived,
        Count::ResetsSent,
        Count::ConnectDrops,
        Count::TimeoutDrops,
        Count::FlowsClosedEarly,
        Count::FlowsAborted,
        Count::FlowsClientLost,
        Count::FlowsWithoutClient,
        Count::PortsExhausted,
    ] {
        assert_eq!(count(failure), 0, "{failure:?}");
    }
    let renewals = held.clients()[0].clients().counters().get(spate_clients::Count::Renewals);
    assert!(renewals >= u64::from(2 * CLIENTS), "{renewals}: leases are kept beside connections");

    let (leases, requests) = (kea.leases(), nginx.requests());
    assert_eq!(leases, addresses(held.clients()[0].clients()));
    let leased: BTreeSet<Ipv4Addr> = leases.values().copied().collect();
    assert_eq!(requests.keys().copied().collect::<BTreeSet<_>>(), leased, "each client, and nobody else");
    assert_eq!(requests.values().sum::<u64>(), 600);
    assert!(requests.values().all(|count| *count == 3), "{requests:?}");
    // The kernel has learned each address from packets of its client, or by asking it.
    let neighbours = output(&["ip", "neigh", "show", "dev", "sp1"]);
    let by_address: BTreeMap<Ipv4Addr, &String> = leases.iter().map(|(mac, address)| (*address, mac)).collect();
    let mut known = 0;
    for line in neighbours.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, "lladdr", mac, ..] = words[..] else { continue };
        assert_eq!(by_address[&address.parse().unwrap()], mac, "{line}");
        known += 1;
    }
    assert_eq!(known, CLIENTS, "{neighbours}");
    engine.remove("web");
    drop(held);
    engine.close();
}

#[test]
fn connections_of_clients_that_lose_their_leases_end_and_no_other_begins() {
    run_inside("leased::inside_lost", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_lost() {
    let (mut kea, engine) = (Kea::start(4, 1), Engine::new(east()));
    let nginx = Nginx::start();
    let pause = r#"{"delay": {"minNs": 60000000000, "maxNs": 60000000000}},"#;
    let held = start(&engine, plan(20, 10, pause).replace("6000000000", "60000000000"));
    let deadline = Instant::now() + Duration::from_secs(20);
    while counters(&held).open < 15 {
        assert!(Instant::now() < deadline, "{} connections", counters(&held).open);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(counters(&held).get(Count::FlowsClientLost), 0, "leases were renewed");
    let before = kea.leases();
    kea.kill();
    let lost = |count| held.clients()[0].clients().counters().get(count);
    let deadline = Instant::now() + Duration::from_secs(15);
    while counters(&held).open > 0 || lost(spate_clients::Count::LeasesLost) < 20 {
        assert!(Instant::now() < deadline, "{} connections are open", counters(&held).open);
        std::thread::sleep(Duration::from_millis(20));
    }
    let clients = counters(&held);
    let count = |count| clients.get(count);
    assert!(count(Count::FlowsAttempted) >= 15);
    assert_eq!(count(Count::FlowsClientLost), count(Count::FlowsAttempted));
    assert_eq!(count(Count::FlowsClosed), count(Count::FlowsAttempted));
    assert_eq!((count(Count::ResetsSent), count(Count::ResetsReceived), count(Count::TimeoutDrops)), (0, 0, 0));
    // Nothing begins without clients, and begins again with them.
    let attempted = count(Count::FlowsAttempted);
    let deadline = Instant::now() + Duration::from_secs(5);
    while counters(&held).get(Count::FlowsWithoutClient) < 5 {
        assert!(Instant::now() < deadline, "{:?}", counters(&held));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(counters(&held).get(Count::FlowsAttempted), attempted);
    kea.start_again();
    let deadline = Instant::now() + Duration::from_secs(20);
    while counters(&held).open < 5 {
        assert!(Instant::now() < deadline, "{} connections", counters(&held).open);
        std::thread::sleep(Duration::from_millis(20));
    }
    let leased: BTreeSet<Ipv4Addr> = before.into_values().chain(kea.leases().into_values()).collect();
    assert!(nginx.requests().keys().all(|address| leased.contains(address)));
    engine.remove("web");
    drop(held);
    engine.close();
}
