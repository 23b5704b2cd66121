// SPDX-License-Identifier: Apache-2.0
//! Pools on their links: ports answer for them, clients find servers without a gateway, flows carry a port's VLAN.
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use spate_engine::{
    control::next_hop,
    datapath::{Datapath, OnLink, PollMode, PortDevice, RunSpec, RunState},
};
use spate_stateful::{Address, Count, Instruction, Pool, Protocol, Scenario, WeightedPool, pool::Order};

use crate::{
    kernel::{answered, run, run_inside},
    setup::{MS, open, start, wait_for},
    slow::{east, link, mac_bytes, mac_of, output},
    stateful::{REQUEST, RESPONSE, assert_all_complete, emulated, program, scenario, v4, v6},
};

pub fn all(commands: &[&str]) {
    for command in commands {
        run(&command.split(' ').collect::<Vec<_>>());
    }
}

/// Clients or servers alone.
pub fn one_side(mut scenario: Scenario, client: bool) -> Scenario {
    let template = &mut scenario.templates[0];
    if client {
        template.server = None;
    } else {
        template.client = None;
        template.clients.clear();
    }
    scenario
}

fn ping(address: &str) -> bool {
    answered(&output(&["busybox", "ping", "-c", "3", "-i", "0.2", "-W", "2", address]))
}

/// The MAC at which the kernel has found an address.
fn found(address: &str) -> String {
    let text = output(&["ip", "neighbour", "show", "dev", "sp1", address]);
    text.split(' ').skip_while(|word| *word != "lladdr").nth(1).unwrap_or("").to_owned()
}

#[test]
fn pools_of_a_prepared_run_are_found_pinged_and_connected_to() {
    run_inside("answers::inside_pools", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_pools() {
    all(&[
        "sysctl -qw net.ipv6.conf.sp1.disable_ipv6=0",
        "ip address add 10.9.255.254/16 dev sp1",
        "ip address add 2001:db8:0:2::ffff:fffe/64 dev sp1 nodad",
        "ethtool -K sp1 tx off",
    ]);
    // A port without any address of its own.
    let datapath = open(&[("east", PortDevice::Kernel("sp0".into()))], 1, PollMode::Auto);
    let client = [v4(10, 9, 255, 254); 2];
    let mut servers = one_side(scenario(Protocol::Tcp, 1, client, [v4(10, 9, 1, 0), v4(10, 9, 200, 255)]), false);
    // A million addresses more.
    servers.pools.push(Pool::new(v6(2, 1), v6(2, 1 << 20), Order::Sequential).unwrap());
    servers.templates[0].server.as_mut().unwrap().tunables.mss = 1440;
    servers.templates[0].servers.push(WeightedPool { pool: 2, weight: 1 });
    let mut spec = emulated(&datapath, 5, None, servers);
    let stateful = spec.stateful.as_mut().unwrap();
    stateful.links[0].next_hop = mac_bytes(&mac_of("sp1"));
    let run_ = start(&datapath, spec);
    for address in ["10.9.1.0", "10.9.77.7", "10.9.200.255", "2001:db8:0:2::1", "2001:db8:0:2::10:0"] {
        assert!(ping(address), "{address}");
        assert_eq!(found(address), mac_of("sp0"), "{address}");
        let to = if address.contains(':') { format!("[{address}]:80") } else { format!("{address}:80") };
        let mut stream = TcpStream::connect(&to).unwrap();
        stream.write_all(&[b'x'; REQUEST as usize]).unwrap();
        let mut response = Vec::new();
        stream.take(RESPONSE).read_to_end(&mut response).unwrap();
        assert_eq!(response.len() as u64, RESPONSE, "{to}");
    }
    for address in ["10.9.0.255", "10.9.201.0", "2001:db8:0:2::10:1"] {
        assert!(!ping(address), "{address}");
    }
    run_.stop("enough");
    wait_for(&run_, RunState::Complete, 10);
    let server = &run_.template_counters()[0];
    let counts = [Count::FlowsAccepted, Count::FlowsClosed].map(|count| server.get(count));
    assert_eq!(counts, [5, 5]);
    run_.remove();
    assert!(!ping("10.9.77.7"), "the run is gone");
}

#[test]
fn clients_with_macs_of_their_own_are_found_at_them() {
    run_inside("answers::inside_client_macs", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_client_macs() {
    all(&["ip address add 10.9.0.2/16 dev sp1", "ethtool -K sp1 tx off"]);
    let datapath = east(link(&["10.9.0.1/16"], None));
    let mut clients = scenario(Protocol::Tcp, 200, [v4(10, 9, 4, 0), v4(10, 9, 4, 49)], [v4(10, 9, 0, 2); 2]);
    clients.pools[0].first_mac = Some([2, 0x77, 0, 0, 0, 0]);
    let listener = TcpListener::bind("10.9.0.2:80").unwrap();
    let served = thread::spawn(move || serve(&listener, 100));
    let run_ = start(&datapath, resolved(&datapath, one_side(clients, true)));
    wait_for(&run_, RunState::Complete, 10);
    served.join().unwrap();
    let client = &run_.template_counters()[0];
    let counts = [Count::FlowsAttempted, Count::FlowsEstablished, Count::FlowsClosed].map(|count| client.get(count));
    assert_eq!((counts, client.get(Count::ReceivedDataBytes)), ([100; 3], 100 * RESPONSE));
    assert_eq!(found("10.9.4.49"), "02:77:00:00:00:31");
    run_.remove();
    let again = datapath.prepare(emulated(&datapath, 6, None, with_client_macs())).unwrap();
    assert!(ping("10.9.5.9"));
    assert_eq!(found("10.9.5.9"), "02:77:00:00:00:09");
    again.remove();
}

fn with_client_macs() -> Scenario {
    let mut clients = scenario(Protocol::Udp, 1, [v4(10, 9, 5, 0), v4(10, 9, 5, 255)], [v4(10, 9, 0, 2); 2]);
    clients.pools[0].first_mac = Some([2, 0x77, 0, 0, 0, 0]);
    one_side(clients, true)
}

/// Half a second of a scenario whose clients' next hops are found as for any plan.
pub fn resolved(datapath: &Datapath, scenario: Scenario) -> RunSpec {
    let mut spec = resolved_until_stopped(datapath, scenario);
    spec.timing.duration_ns = Some(500 * MS);
    spec
}

fn resolved_until_stopped(datapath: &Datapath, scenario: Scenario) -> RunSpec {
    let found = next_hop::links(&scenario, datapath).unwrap();
    assert_eq!(found.warnings, Vec::<String>::new());
    let mut spec = emulated(datapath, 5, None, scenario);
    let stateful = spec.stateful.as_mut().unwrap();
    stateful.links.clone_from(&found.links);
    stateful.on_link = on_link(found);
    spec
}

/// The links that were found, on which nothing answers for the scenario yet.
pub fn on_link(found: next_hop::Links) -> OnLink {
    let next_hop::Links { neighbours, hops, gateways, resolution_guard, .. } = found;
    OnLink { neighbours, hops, gateways, address_guard: None, resolution_guard: resolution_guard.map(Arc::new) }
}

/// Answers this many requests, one after another.
fn serve(listener: &TcpListener, requests: usize) {
    for _ in 0..requests {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; REQUEST as usize]).unwrap();
        stream.write_all(&[b'x'; RESPONSE as usize]).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    }
}

#[test]
fn servers_on_one_link_are_reached_each_at_its_mac_without_a_gateway() {
    run_inside("answers::inside_neighbours", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_neighbours() {
    // Three stations on a link: an interface with an address, and two more on it with MACs of their own.
    all(&[
        "sysctl -qw net.ipv4.conf.all.arp_ignore=1",
        "sysctl -qw net.ipv4.conf.all.rp_filter=0",
        "ethtool -K sp1 tx off",
        "ip address add 10.9.0.10/16 dev sp1",
        "ip link add link sp1 name mv1 type macvlan mode bridge",
        "ip link add link sp1 name mv2 type macvlan mode bridge",
        "ip address add 10.9.0.11/32 dev mv1",
        "ip address add 10.9.0.12/32 dev mv2",
        "ip link set mv1 up",
        "ip link set mv2 up",
    ]);
    let datapath = east(link(&["10.9.0.1/16"], None));
    let servers = [v4(10, 9, 0, 10), v4(10, 9, 0, 12)];
    let clients = one_side(scenario(Protocol::Tcp, 600, [v4(10, 9, 4, 0), v4(10, 9, 4, 49)], servers), true);
    let found = next_hop::links(&clients, &datapath).unwrap();
    let macs = ["sp1", "mv1", "mv2"].map(|interface| mac_bytes(&mac_of(interface)));
    let towards = |server: Address| {
        let known = found.neighbours[0].iter().find(|(address, _)| *address == server);
        known.map_or(found.links[0].next_hop, |(_, mac)| *mac)
    };
    assert_eq!([10, 11, 12].map(|n| towards(v4(10, 9, 0, n))), macs);

    let listener = TcpListener::bind("0.0.0.0:80").unwrap();
    let served = thread::spawn(move || serve(&listener, 300));
    let run_ = start(&datapath, resolved(&datapath, clients));
    wait_for(&run_, RunState::Complete, 10);
    served.join().unwrap();
    let client = &run_.template_counters()[0];
    let counts = [Count::FlowsAttempted, Count::FlowsEstablished, Count::FlowsClosed].map(|count| client.get(count));
    assert_eq!((counts, client.get(Count::ReceivedDataBytes)), ([300; 3], 300 * RESPONSE));
    for interface in ["mv1", "mv2"] {
        let counter = format!("/sys/class/net/{interface}/statistics/rx_packets");
        let received: u64 = std::fs::read_to_string(counter).unwrap().trim().parse().unwrap();
        assert!(received >= 100 * 4, "{interface} received {received}");
    }

    // One of them is silent: it is reported by its name.
    let beyond = [v4(10, 9, 0, 10), v4(10, 9, 0, 13)];
    let clients = one_side(scenario(Protocol::Tcp, 1, [v4(10, 9, 4, 0); 2], beyond), true);
    let violation = next_hop::links(&clients, &datapath).unwrap_err().0.remove(0);
    assert_eq!(violation.field.to_string(), "stateful.templates[0].client_port");
    assert!(
        violation.description.contains("next hop 10.9.0.13 did not answer 4 ARP requests"),
        "{}",
        violation.description
    );
}

#[test]
fn flows_follow_their_server_to_another_mac() {
    run_inside("answers::inside_moved", "1500");
}

/// A kernel that is a server of the port's clients, and a router for a client of its servers. It has three MACs one after the other, and
/// takes no frames to another.
#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_moved() {
    all(&[
        "sysctl -qw net.ipv4.conf.sp1.arp_notify=1",
        "ip address add 10.9.0.2/16 dev sp1",
        "ip address add 10.77.0.1/32 dev sp1",
        "ip route add 10.9.1.0/24 dev sp1 src 10.77.0.1",
        "ethtool -K sp1 tx off",
    ]);
    let mut port = link(&["10.9.0.1/16"], None);
    port.config.gateway_v4 = Some("10.9.0.2".parse().unwrap());
    let datapath = east(port);
    clients_follow_their_server(&datapath);
    servers_follow_their_clients_router(&datapath);
    assert_eq!(datapath.neighbor_moves().collect::<Vec<_>>(), [("east", 2)]);
}

/// A neighbor that was heard a moment ago is not replaced.
const LONG_AGO: Duration = Duration::from_millis(1500);

fn clients_follow_their_server(datapath: &Datapath) {
    const FLOWS: u64 = 20;
    const REQUESTS: usize = 10;
    let mut clients = scenario(Protocol::Tcp, 2 * FLOWS, [v4(10, 9, 4, 0), v4(10, 9, 4, 19)], [v4(10, 9, 0, 2); 2]);
    let ask = [
        Instruction::Send { payload: 0, wait: true },
        Instruction::Receive { bytes: RESPONSE, clear: true },
        Instruction::Delay { min_ns: 400 * MS, max_ns: 400 * MS },
    ];
    let asks = std::iter::repeat_n(ask, REQUESTS).flatten();
    let instructions = [Instruction::Connect].into_iter().chain(asks).chain([Instruction::Close]).collect();
    clients.templates[0].client.as_mut().unwrap().program = program(instructions);
    let listener = TcpListener::bind("10.9.0.2:80").unwrap();
    let served = thread::spawn(move || {
        let answer = |mut stream: TcpStream| {
            while stream.read_exact(&mut [0; REQUEST as usize]).is_ok() {
                stream.write_all(&[b'x'; RESPONSE as usize]).unwrap();
            }
        };
        let accepted = (0..FLOWS).map(|_| listener.accept().unwrap().0);
        let answering: Vec<_> = accepted.map(|stream| thread::spawn(move || answer(stream))).collect();
        answering.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let mut spec = resolved(datapath, one_side(clients, true));
    spec.timing.drain_ns = 20_000 * MS;
    let run_ = start(datapath, spec);
    thread::sleep(Duration::from_millis(500) + LONG_AGO);
    let open = run_.template_counters()[0].open;
    assert_eq!(open, FLOWS, "all are under way");
    all(&["ip link set sp1 address 02:99:00:00:00:01"]);
    wait_for(&run_, RunState::Complete, 30);
    served.join().unwrap();
    let client = &run_.template_counters()[0];
    let counts = [Count::FlowsAttempted, Count::FlowsEstablished, Count::FlowsClosed].map(|count| client.get(count));
    assert_eq!((counts, client.get(Count::FlowsAborted)), ([FLOWS; 3], 0));
    assert_eq!(client.get(Count::ReceivedDataBytes), FLOWS * REQUESTS as u64 * RESPONSE);
    run_.remove();
}

fn servers_follow_their_clients_router(datapath: &Datapath) {
    let mut servers = scenario(Protocol::Tcp, 1, [v4(10, 77, 0, 1); 2], [v4(10, 9, 1, 0), v4(10, 9, 1, 9)]);
    let answer = [Instruction::Receive { bytes: REQUEST, clear: true }, Instruction::Send { payload: 1, wait: true }];
    let answers = std::iter::repeat_n(answer, 2).flatten();
    let end = [Instruction::WaitForPeerClose, Instruction::Close];
    let instructions = [Instruction::Accept].into_iter().chain(answers).chain(end).collect();
    servers.templates[0].server.as_mut().unwrap().program = program(instructions);
    let run_ = start(datapath, resolved_until_stopped(datapath, one_side(servers, false)));
    let mut stream = TcpStream::connect("10.9.1.7:80").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(stream.local_addr().unwrap().ip().to_string(), "10.77.0.1", "behind the router");
    let ask = |stream: &mut TcpStream| {
        stream.write_all(&[b'x'; REQUEST as usize]).unwrap();
        stream.read_exact(&mut [0; RESPONSE as usize]).unwrap();
    };
    ask(&mut stream);
    thread::sleep(LONG_AGO);
    all(&["ip link set sp1 address 02:99:00:00:00:02"]);
    ask(&mut stream);
    drop(stream);
    thread::sleep(Duration::from_millis(500));
    run_.stop("enough");
    wait_for(&run_, RunState::Complete, 10);
    let server = &run_.template_counters()[0];
    let counts = [Count::FlowsAccepted, Count::FlowsClosed, Count::FlowsAborted].map(|count| server.get(count));
    assert_eq!(counts, [1, 1, 0]);
    run_.remove();
}

/// Ports on both ends of a link, each in a VLAN or in none.
fn both_ends(vlans: [Option<u16>; 2]) -> Datapath {
    let ports = [("east", PortDevice::Kernel("sp0".into())), ("west", PortDevice::Kernel("sp1".into()))];
    let mut datapath = open(&ports, 1, PollMode::Auto);
    let links = [("east", "10.9.0.1/16"), ("west", "10.9.0.2/16")].into_iter().zip(vlans);
    datapath.join(links.map(|((port, address), vlan)| (port.into(), link(&[address], vlan))).collect()).unwrap();
    datapath
}

/// Clients on one end, servers on the other.
fn across(protocol: Protocol, servers: [Address; 2]) -> Scenario {
    let mut scenario = scenario(protocol, 200, [v4(10, 9, 4, 0), v4(10, 9, 4, 49)], servers);
    scenario.templates[0].looped = false;
    scenario.templates[0].server.as_mut().unwrap().port = 1;
    scenario
}

#[test]
fn clients_find_a_thousand_servers_of_another_port_on_their_link() {
    run_inside("answers::inside_large_pool", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_large_pool() {
    let datapath = both_ends([None, None]);
    let scenario = across(Protocol::Tcp, [v4(10, 9, 8, 0), v4(10, 9, 11, 255)]);
    let address_guard = datapath.hold(&scenario).unwrap();
    let found = next_hop::links(&scenario, &datapath).unwrap();
    assert_eq!(found.links[0].next_hop, mac_bytes(&mac_of("sp1")));
    let warning = format!(
        "servers from 10.9.8.0 to 10.9.11.255 are on the link of port east: 64 of them, from end to end, were asked for, and \
         frames to all go where those are, {}",
        mac_of("sp1")
    );
    assert_eq!(found.warnings, [warning]);
    drop(address_guard);
    let mut spec = emulated(&datapath, 5, Some(500 * MS), scenario);
    spec.stateful.as_mut().unwrap().links = found.links;
    let run_ = start(&datapath, spec);
    wait_for(&run_, RunState::Complete, 10);
    assert_all_complete(&run_.template_counters(), 100);
}

/// A router on a stick: the kernel returns frames to the port that they came from, between clients and servers of one port.
#[test]
fn clients_and_servers_of_one_port_are_connected_by_a_router() {
    run_inside("answers::inside_one_arm", "1504");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_one_arm() {
    all(&[
        "ip address add 10.10.0.2/16 dev sp1",
        "ip address add 10.9.0.2/16 dev sp1",
        "sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.sp1.send_redirects=0",
        // The engine's end of the link is the kernel's, too.
        "sysctl -qw net.ipv4.conf.sp0.forwarding=0",
    ]);
    let mut port = link(&["10.9.0.1/16"], None);
    port.config.gateway_v4 = Some("10.9.0.2".parse().unwrap());
    let datapath = east(port);
    let servers = [v4(10, 10, 8, 0), v4(10, 10, 8, 9)];
    for (protocol, least) in [(Protocol::Tcp, 700), (Protocol::Udp, 200)] {
        let mut scenario = scenario(protocol, 200, [v4(10, 9, 4, 0), v4(10, 9, 4, 49)], servers);
        scenario.templates[0].looped = false;
        let forwarded = || output(&["cat", "/sys/class/net/sp1/statistics/tx_packets"]).trim().parse::<u64>().unwrap();
        let before = forwarded();
        let _holding = datapath.hold(&scenario).unwrap();
        let run_ = start(&datapath, resolved(&datapath, scenario));
        wait_for(&run_, RunState::Complete, 10);
        assert_all_complete(&run_.template_counters(), 100);
        assert!(forwarded() - before >= least, "{protocol:?}");
        run_.remove();
    }

    // Nothing returns frames between stations of one port and one subnet.
    let own = [v4(10, 9, 8, 0), v4(10, 9, 8, 9)];
    let mut scenario = scenario(Protocol::Tcp, 200, [v4(10, 9, 4, 0), v4(10, 9, 4, 49)], own);
    scenario.templates[0].looped = false;
    let _holding = datapath.hold(&scenario).unwrap();
    let wrong = next_hop::links(&scenario, &datapath).unwrap_err().0.remove(0);
    assert_eq!(
        (&*wrong.field.to_string(), wrong.description.as_str()),
        (
            "stateful.templates[0].client_port",
            "server 10.9.8.0 is at this port itself, east, and what it sends does not come back to it: use a gateway that returns it, or \
             another port for servers"
        )
    );
}

#[test]
fn flows_carry_the_vlan_of_their_port_and_hear_no_other() {
    run_inside("answers::inside_vlans", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_vlans() {
    let tcpdump = Command::new("timeout")
        .args(["60", "tcpdump", "-e", "-n", "-l", "-i", "sp0", "-c", "4", "vlan 100 and tcp port 80"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let servers = [v4(10, 9, 8, 0), v4(10, 9, 8, 9)];
    for (vlans, heard) in [
        ([Some(100), Some(100)], true),
        ([None, None], true),
        ([Some(100), None], false),
        ([None, Some(100)], false),
        ([Some(100), Some(101)], false),
    ] {
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let datapath = both_ends(vlans);
            let mut spec = emulated(&datapath, 5, Some(500 * MS), across(protocol, servers));
            let links = &mut spec.stateful.as_mut().unwrap().links;
            (links[0].next_hop, links[1].next_hop) = (links[1].mac, links[0].mac);
            let run_ = start(&datapath, spec);
            wait_for(&run_, RunState::Complete, 10);
            let sides = run_.template_counters();
            if heard {
                assert_all_complete(&sides, 100);
            } else {
                let started = [sides[0].get(Count::FlowsAttempted), sides[1].get(Count::FlowsAccepted)];
                assert_eq!(started, [100, 0], "{vlans:?}");
                assert_eq!(sides[0].get(Count::ReceivedPackets), 0, "{vlans:?}");
            }
            run_.remove();
        }
    }
    let seen = String::from_utf8_lossy(&tcpdump.wait_with_output().unwrap().stdout).into_owned();
    assert!(seen.lines().count() == 4 && seen.lines().all(|line| line.contains("vlan 100")), "{seen}");
}
