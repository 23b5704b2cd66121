// SPDX-License-Identifier: Apache-2.0
//! Engines that share a run's pools: each answers for its own addresses alone, and flows go between all of them.
use std::collections::BTreeMap;

use spate_engine::{
    control::next_hop,
    datapath::{Datapath, PollMode, PortDevice, RunState, TemplateCounters},
};
use spate_stateful::{Count, Part, Protocol, Scenario};

use crate::{
    answers::on_link,
    kernel::{answered, run, run_inside},
    setup::{MS, open, wait_for},
    slow::{link, output},
    stateful::{emulated, scenario, v4},
};

const ENGINES: u32 = 2;
const CLIENTS: u8 = 7;
const SERVERS: u8 = 3;

#[test]
fn engines_on_one_link_share_pools_and_reach_each_others_servers() {
    run_inside("shared::inside_bridge", "1500");
}

/// A bridge with a link for each port of each engine, `p0` to `p3`, and an address of its own.
fn bridge() {
    let all = |commands: &[&str]| commands.iter().for_each(|command| run(&command.split(' ').collect::<Vec<_>>()));
    all(&[
        "ip link add br0 type bridge",
        "sysctl -qw net.ipv6.conf.br0.disable_ipv6=1",
        "ip address add 10.9.200.1/16 dev br0",
        "ip link set br0 up",
    ]);
    for n in 0..2 * ENGINES {
        all(&[
            &format!("ip link add p{n} type veth peer name q{n}"),
            &format!("sysctl -qw net.ipv6.conf.p{n}.disable_ipv6=1"),
            &format!("sysctl -qw net.ipv6.conf.q{n}.disable_ipv6=1"),
            &format!("ip link set q{n} master br0 up"),
            &format!("ip link set p{n} up"),
        ]);
    }
}

fn engine(index: u32) -> Datapath {
    let port = |n: u32| PortDevice::Kernel(format!("p{}", 2 * index + n));
    let mut datapath = open(&[("east", port(0)), ("west", port(1))], 1, PollMode::Auto);
    let address = |port: u32| format!("10.9.{port}.{}/16", index + 1);
    let links = [("east", address(0)), ("west", address(1))];
    datapath.join(links.map(|(port, address)| (port.into(), link(&[&address], None))).into()).unwrap();
    datapath
}

/// An engine's part of clients in the east and servers in the west.
fn part(index: u32) -> Scenario {
    let (clients, servers) =
        ([v4(10, 9, 4, 0), v4(10, 9, 4, CLIENTS - 1)], [v4(10, 9, 8, 0), v4(10, 9, 8, SERVERS - 1)]);
    let mut scenario = scenario(Protocol::Tcp, 300, clients, servers);
    scenario.templates[0].looped = false;
    scenario.templates[0].server.as_mut().unwrap().port = 1;
    for pool in &mut scenario.pools {
        *pool = pool.part_of(Part { index, of: ENGINES });
    }
    scenario
}

/// At which MACs the kernel finds addresses, after it has pinged them.
fn macs_of(addresses: impl Iterator<Item = String>) -> BTreeMap<String, String> {
    let found = |address: String| {
        let answer = output(&["busybox", "ping", "-c", "3", "-i", "0.2", "-W", "2", &address]);
        assert!(answered(&answer), "{address}: {answer}");
        let text = output(&["ip", "neighbour", "show", "dev", "br0", &address]);
        (address, text.split(' ').skip_while(|word| *word != "lladdr").nth(1).unwrap_or("").to_owned())
    };
    addresses.map(found).collect()
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_bridge() {
    bridge();
    let engines: Vec<_> = (0..ENGINES).map(engine).collect();
    let held: Vec<_> = (0..ENGINES).map(|index| engines[index as usize].hold(&part(index)).unwrap()).collect();
    let mac = |engine: u8, port: usize| {
        let [a, b, c, d, e, f] = engines[usize::from(engine)].ports()[port].mac;
        format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    };
    for (port, net, count) in [(0, 4, CLIENTS), (1, 8, SERVERS)] {
        let expected: BTreeMap<_, _> =
            (0..count).map(|n| (format!("10.9.{net}.{n}"), mac(n % ENGINES as u8, port))).collect();
        assert_eq!(macs_of(expected.keys().cloned()), expected);
    }

    let runs: Vec<_> = (0..ENGINES)
        .map(|index| {
            let datapath = &engines[index as usize];
            let found = next_hop::links(&part(index), datapath).unwrap();
            let mut spec = emulated(datapath, 5, Some(1000 * MS), part(index));
            spec.share = (index, ENGINES);
            let stateful = spec.stateful.as_mut().unwrap();
            stateful.links.clone_from(&found.links);
            stateful.on_link = on_link(found);
            datapath.prepare(spec).unwrap()
        })
        .collect();
    drop(held);
    let at = engines[0].clock().now_wall_ns() + 200 * MS;
    runs.iter().for_each(|run| run.start(at).unwrap());
    let sides: Vec<_> = runs
        .iter()
        .map(|run| {
            wait_for(run, RunState::Complete, 10);
            run.template_counters()
        })
        .collect();
    let of = |side: &TemplateCounters, started: Count| {
        [started, Count::FlowsEstablished, Count::FlowsClosed, Count::FlowsAborted, Count::ResetsReceived]
            .map(|count| side.get(count))
    };
    // Each begins half. Servers are taken in turn: two of three are the first engine's.
    assert_eq!([0, 1].map(|n| of(&sides[n][0], Count::FlowsAttempted)), [[150, 150, 150, 0, 0]; 2]);
    assert_eq!([0, 1].map(|n| of(&sides[n][1], Count::FlowsAccepted)), [[200, 200, 200, 0, 0], [100, 100, 100, 0, 0]]);
    assert_eq!(runs.iter().flat_map(|run| run.contradictions()).collect::<Vec<_>>(), Vec::<String>::new());
}
