// SPDX-License-Identifier: Apache-2.0
//! Ports on AF_XDP sockets, over the pair of veth interfaces that the tests of kernel ports make. Here the kernel copies.
use std::{
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use spate_dpdk::{Burst, Device, Eal, Port, QueueSizes, UseOffloads};
use spate_engine::datapath::{CopyMode, Datapath, PollMode, PortDevice, RunState};

use crate::{
    kernel::{run, run_inside, run_inside_by},
    setup::{MEMORY, MS, assert_all_received, open, open_config, pps, spec, start, stream, wait_for},
    stateful::serve_clients_by_the_kernel,
};

fn xdp(interface: &str) -> PortDevice {
    PortDevice::Xdp(interface.into())
}

/// Why an interface is refused.
fn refusal(interface: &str) -> String {
    let config = open_config(&[("east", xdp(interface))], 1, PollMode::Auto);
    Datapath::open(config).map(|_| ()).unwrap_err().to_string()
}

/// What the kernel says of an interface.
fn described(interface: &str) -> String {
    let output = Command::new("ip").args(["-details", "link", "show", interface]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn is_promiscuous(interface: &str) -> bool {
    !described(interface).contains("promiscuity 0 ")
}

#[test]
fn twenty_thousand_a_second_both_ways_by_af_xdp_are_all_received() {
    run_inside("xdp::inside_both_ways", "1500");
}

#[test]
fn the_rights_of_an_engine_pod_are_enough_for_af_xdp() {
    let rights = "-all,+net_raw,+net_admin,+bpf,+ipc_lock";
    run_inside_by(&["setpriv", "--bounding-set", rights, "--inh-caps", "-all"], "xdp::inside_both_ways", "1500");
}

#[test]
#[ignore = "runs in the namespace that the tests above make"]
fn inside_both_ways() {
    for workers in [1, 2] {
        let datapath = open(&[("east", xdp("sp0")), ("west", xdp("sp1"))], workers, PollMode::Auto);
        assert!(datapath.ports().iter().all(|p| p.link_up && p.mtu == 1500 && p.line_rate_bps.is_some()));
        assert!(datapath.ports().iter().all(|p| p.driver == "net_af_xdp" && p.copy_mode == Some(CopyMode::Copy)));
        assert!(is_promiscuous("sp0") && described("sp0").contains("prog/xdp id"), "{}", described("sp0"));
        let streams = vec![
            stream(1, 0, Some(1), 60, pps(20_000)),
            stream(2, 1, Some(0), 60, pps(20_000)),
            stream(3, 0, Some(1), 1514, pps(100)),
        ];
        let run = start(&datapath, spec(1, 200 * MS, Some(2000 * MS), streams));
        wait_for(&run, RunState::Complete, 10);
        let counters = run.counters();
        for (counters, rate) in counters.iter().zip([20_000, 20_000, 100]) {
            assert_all_received(&counters.warmup, rate / 5);
            assert_all_received(&counters.measured, rate * 2);
        }
        for port in datapath.port_counters() {
            assert_eq!((port.tx_dropped, port.rx_missed, port.rx_errors, port.foreign_packets), (0, 0, 0, 0));
            assert!(port.link_up);
        }
        println!("{workers} workers: max departure delay {} us", counters[0].measured.max_departure_delay_ns / 1000);
        println!("{:?}", datapath.worker_counters());
        drop((run, datapath));
        // As they were found.
        for interface in ["sp0", "sp1"] {
            assert!(!is_promiscuous(interface) && !described(interface).contains("xdp"), "{}", described(interface));
        }
    }
}

#[test]
fn workers_sleep_until_an_af_xdp_socket_has_a_packet() {
    run_inside("xdp::inside_sleeping", "3438");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_sleeping() {
    // The greatest MTU, with frames as long as it lets them be.
    let datapath = open(&[("east", xdp("sp0")), ("west", xdp("sp1"))], 1, PollMode::Auto);
    let streams = vec![stream(1, 0, Some(1), 3452, pps(1000)), stream(2, 1, Some(0), 60, pps(1000))];
    let run_ = start(&datapath, spec(1, 0, Some(500 * MS), streams));
    wait_for(&run_, RunState::Complete, 5);
    for counters in run_.counters() {
        assert_all_received(&counters.measured, 500);
    }
    // With nothing to send it sleeps for long: far less often than once in the 50 us that it does where nothing can wake it.
    let before = datapath.worker_counters()[0].sleeps;
    thread::sleep(Duration::from_millis(500));
    let sleeps = datapath.worker_counters()[0].sleeps - before;
    assert!(sleeps < 2000, "{sleeps}");
    assert!(before > 100, "{before}");
}

#[test]
fn what_the_kernel_drops_for_an_af_xdp_socket_is_not_hidden() {
    run_inside("xdp::inside_link_down", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_link_down() {
    // Sent into a peer that is taken down in mid-run.
    let datapath = open(&[("east", xdp("sp0"))], 1, PollMode::Auto);
    let run_ = start(&datapath, spec(1, 0, Some(2000 * MS), vec![stream(1, 0, None, 60, pps(10_000))]));
    thread::sleep(Duration::from_millis(200));
    run(&["ip", "link", "set", "sp1", "down"]);
    wait_for(&run_, RunState::Complete, 5);
    let c = run_.counters()[0].measured;
    let port = &datapath.port_counters()[0];
    println!("{c:?} {port:?}");
    assert_eq!(c.tx_packets + c.tx_dropped, 20_000);
    assert!((100..19_000).contains(&port.tx_dropped), "{port:?}");
    let sent: u64 =
        std::fs::read_to_string("/sys/class/net/sp0/statistics/tx_packets").unwrap().trim().parse().unwrap();
    assert_eq!(sent + port.tx_dropped, c.tx_packets, "each that was taken was sent or is counted as dropped");
    assert!(!port.link_up);
}

#[test]
fn packets_that_an_af_xdp_socket_has_no_room_for_are_all_counted() {
    run_inside("xdp::inside_overflow", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_overflow() {
    const SENT: u64 = 5000;
    let device = Device::Xdp("sp0".into());
    let memory = spate_dpdk::Memory::Normal { bytes: MEMORY };
    let eal = Eal::init(memory, std::slice::from_ref(&device), &[0], &[&[0]]).unwrap();
    let port = Port::open(&eal, &device, 1, 1, UseOffloads::Auto).unwrap();
    let pool = port.receive_pool(&eal, None, 1023, port.rx_room()).unwrap();
    let (port, mut rx, _tx) = port.start(QueueSizes { rx: 1024, tx: 1024 }, &pool).unwrap();
    let sender = open(&[("west", PortDevice::Kernel("sp1".into()))], 1, PollMode::Auto);
    let send = |tag, packets| {
        let run_ = start(&sender, spec(tag, 0, Some(packets * 50_000), vec![stream(1, 0, None, 60, pps(20_000))]));
        wait_for(&run_, RunState::Complete, 5);
        let c = run_.counters()[0].measured;
        assert_eq!((c.tx_packets, sender.port_counters()[0].tx_dropped), (packets, 0));
        run_.remove();
    };
    let mut read = || {
        let (mut burst, mut received) = (Burst::new(), 0);
        loop {
            let now = burst.receive(&mut rx[0]) as u64;
            burst.clear();
            if now == 0 {
                return received;
            }
            received += now;
        }
    };
    // Nobody reads until more was sent than the rings hold.
    send(1, SENT);
    let received = read();
    let stats = port.stats();
    println!("{received} received, {stats:?}");
    assert_eq!((received + stats.rx_missed, stats.rx_errors), (SENT, 0));
    assert!(received >= 2000 && stats.rx_missed >= 2000, "{received}: {stats:?}");
    // Then it goes on.
    send(2, 100);
    assert_eq!((read(), port.stats().rx_missed), (100, stats.rx_missed));
}

#[test]
fn nothing_of_an_engine_that_crashed_is_left_on_the_interface() {
    run_inside("xdp::inside_crash", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_crash() {
    let this = std::env::current_exe().unwrap();
    let crashed = Command::new(this)
        .args(["--exact", "xdp::inside_crashing", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    assert!(!crashed.status.success());
    let printed = String::from_utf8_lossy(&crashed.stdout);
    assert!(printed.contains("opened with prog/xdp"), "{printed}");
    assert!(!described("sp0").contains("xdp") && !is_promiscuous("sp0"), "{}", described("sp0"));
    let datapath = open(&[("east", xdp("sp0")), ("west", xdp("sp1"))], 1, PollMode::Auto);
    let run_ = start(&datapath, spec(1, 0, Some(500 * MS), vec![stream(1, 0, Some(1), 60, pps(1000))]));
    wait_for(&run_, RunState::Complete, 5);
    assert_all_received(&run_.counters()[0].measured, 500);
}

#[test]
#[ignore = "runs in a process of its own, which it ends"]
fn inside_crashing() {
    let _datapath = open(&[("east", xdp("sp0")), ("west", xdp("sp1"))], 1, PollMode::Auto);
    assert!(described("sp0").contains("prog/xdp id"), "{}", described("sp0"));
    println!("opened with prog/xdp");
    std::process::abort();
}

#[test]
fn interfaces_that_af_xdp_cannot_use_are_refused_with_the_remedy() {
    run_inside("xdp::inside_refused", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_refused() {
    run(&["ip", "link", "set", "sp0", "mtu", "3439"]);
    let error = refusal("sp0");
    assert!(error.contains("its MTU is 3439") && error.contains("make it 3438 or less"), "{error}");
    run(&["ip", "link", "set", "sp0", "mtu", "1500"]);

    assert!(refusal("nonesuch").contains("no interface nonesuch"), "{}", refusal("nonesuch"));

    run(&["ip", "link", "add", "q0", "numrxqueues", "2", "numtxqueues", "2", "type", "veth", "peer", "name", "q1"]);
    run(&["ethtool", "-L", "q0", "rx", "2"]);
    let error = refusal("q0");
    assert!(error.contains("2 receive queues") && error.contains("ethtool -L q0 combined 1, or rx 1"), "{error}");

    // Another's program.
    let file = "/usr/lib/x86_64-linux-gnu/bpf/xsk_def_xdp_prog.o";
    run(&["ip", "link", "set", "dev", "sp0", "xdp", "object", file, "section", "xdp"]);
    let shown = described("sp0");
    let id = shown.split("prog/xdp id ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("an id");
    let error = refusal("sp0");
    assert!(error.contains(&format!("XDP program {id} is attached")) && error.contains("dev sp0 xdp off"), "{error}");
    assert_eq!(described("sp0"), shown, "it stays");
    run(&["ip", "link", "set", "dev", "sp0", "xdp", "off"]);

    let datapath = open(&[("east", xdp("sp0")), ("west", xdp("sp1"))], 1, PollMode::Auto);
    assert_eq!(datapath.ports().len(), 2);
}

#[test]
fn rights_that_af_xdp_lacks_are_named() {
    let without = |right: &str| {
        let all = ["net_raw", "net_admin", "bpf", "ipc_lock"].iter().filter(|name| **name != right);
        all.fold("-all".to_owned(), |all, name| format!("{all},+{name}"))
    };
    for (right, test) in [("net_raw", "xdp::inside_without_raw"), ("bpf", "xdp::inside_without_bpf")] {
        run_inside_by(&["setpriv", "--bounding-set", &without(right), "--inh-caps", "-all"], test, "1500");
    }
}

#[test]
#[ignore = "runs with the rights that the test above leaves"]
fn inside_without_raw() {
    let error = refusal("sp0");
    assert!(error.contains("give the container NET_RAW"), "{error}");
}

#[test]
#[ignore = "runs with the rights that the test above leaves"]
fn inside_without_bpf() {
    let error = refusal("sp0");
    assert!(error.contains("loading an XDP program") && error.contains("give the container BPF"), "{error}");
}

#[test]
fn the_kernel_serves_clients_of_an_af_xdp_port() {
    run_inside("xdp::inside_clients_of_the_kernel", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_clients_of_the_kernel() {
    serve_clients_by_the_kernel(&open(&[("east", xdp("sp0"))], 1, PollMode::Auto));
}
