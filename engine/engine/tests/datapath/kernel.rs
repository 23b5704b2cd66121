// SPDX-License-Identifier: Apache-2.0
//! Kernel-backed ports, over a pair of veth interfaces in a network namespace of the test's own.
use std::process::{Command, Stdio};

use spate_engine::datapath::{
    ClockError, Config, Datapath, Memory, OpenError, PollMode, PortConfig, PortDevice, RunState, StampedBy, UseOffloads,
};

use crate::setup::{MS, assert_all_received, open, pps, spec, start, stream, turn, wait_for};

/// A network namespace with interfaces `sp0` and `sp1` linked to each other, deleted at the end.
struct Namespace(String);

impl Namespace {
    fn new(mtu: &str) -> Self {
        let this = Self(format!("spate-test-{}", std::process::id()));
        run(&["ip", "netns", "add", &this.0]);
        this.run(&["ip", "link", "add", "sp0", "type", "veth", "peer", "name", "sp1"]);
        for interface in ["sp0", "sp1"] {
            // The host's own neighbor discovery would be foreign packets.
            this.run(&["sysctl", "-qw", &format!("net.ipv6.conf.{interface}.disable_ipv6=1")]);
            this.run(&["ip", "link", "set", interface, "mtu", mtu, "up"]);
        }
        this
    }

    fn run(&self, command: &[&str]) {
        run(&self.inside(command));
    }

    /// The command that runs another one in the namespace.
    fn inside<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        [&["ip", "netns", "exec", &self.0], command].concat()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        run(&["ip", "netns", "delete", &self.0]);
    }
}

pub fn run(command: &[&str]) {
    let status = Command::new(command[0]).args(&command[1..]).status().unwrap();
    assert!(status.success(), "{command:?}");
}

/// Whether a ping of busybox had at least one answer: of a few requests on a busy machine, one may be lost without a fault.
pub fn answered(printed: &str) -> bool {
    printed.contains("% packet loss") && !printed.contains(" 100% packet loss")
}

/// Runs an ignored test in a namespace of its own. That it was run is checked: a name that no test has runs none, and passes.
pub fn run_inside(test: &str, mtu: &str) {
    run_inside_by(&[], test, mtu);
}

/// The same by a command that runs another one, such as with fewer rights.
pub fn run_inside_by(prefix: &[&str], test: &str, mtu: &str) {
    let _turn = turn();
    let namespace = Namespace::new(mtu);
    let this = std::env::current_exe().unwrap();
    let program = [prefix, &[this.to_str().unwrap(), "--exact", test, "--ignored", "--nocapture"]].concat();
    let command = namespace.inside(&program);
    let ended = Command::new(command[0]).args(&command[1..]).stderr(Stdio::inherit()).output().unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    print!("{printed}");
    assert!(ended.status.success(), "{test} failed in its namespace");
    assert!(printed.contains("test result: ok. 1 passed; 0 failed;"), "{test}: not exactly one test has this name");
}

#[test]
#[should_panic(expected = "not exactly one test has this name")]
fn a_test_that_is_not_there_does_not_pass() {
    run_inside("kernel::inside_nothing", "1500");
}

#[test]
fn twenty_thousand_a_second_both_ways_over_veth_are_all_received() {
    run_inside("kernel::inside_both_ways", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_both_ways() {
    for workers in [1, 2] {
        let ports = [("east", PortDevice::Kernel("sp0".into())), ("west", PortDevice::Kernel("sp1".into()))];
        let datapath = open(&ports, workers, PollMode::Auto);
        assert!(datapath.ports().iter().all(|p| p.link_up && p.mtu == 1500 && p.line_rate_bps.is_some()));
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
    }
}

#[test]
fn long_frames_pass_where_the_mtu_lets_them() {
    run_inside("kernel::inside_long_frames", "9000");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_long_frames() {
    let ports = [("east", PortDevice::Kernel("sp0".into())), ("west", PortDevice::Kernel("sp1".into()))];
    let datapath = open(&ports, 1, PollMode::Auto);
    let streams = vec![stream(1, 0, Some(1), 9014, pps(1000)), stream(2, 1, Some(0), 60, pps(1000))];
    let run = start(&datapath, spec(1, 0, Some(500 * MS), streams));
    wait_for(&run, RunState::Complete, 5);
    for counters in run.counters() {
        assert_all_received(&counters.measured, 500);
    }
    let error = datapath.prepare(spec(2, 0, None, vec![stream(1, 0, None, 9015, pps(1))])).map(|_| ()).unwrap_err();
    assert_eq!(error.field.to_string(), "streams[0].packet");
    assert!(error.problem.contains("port east takes 9014: raise the MTU"), "{error}");
    let sleeps = datapath.worker_counters()[0].sleeps;
    assert!(sleeps > 100, "{sleeps}");
}

#[test]
fn what_the_kernel_drops_is_not_hidden() {
    run_inside("kernel::inside_drops", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_drops() {
    // Sent into a peer that is taken down in mid-run: the interface drops, the port says so.
    let datapath = open(&[("east", PortDevice::Kernel("sp0".into()))], 1, PollMode::Auto);
    let run_ = start(&datapath, spec(1, 0, Some(2000 * MS), vec![stream(1, 0, None, 60, pps(10_000))]));
    std::thread::sleep(std::time::Duration::from_millis(200));
    run(&["ip", "link", "set", "sp1", "down"]);
    wait_for(&run_, RunState::Complete, 5);
    let c = run_.counters()[0].measured;
    let port = &datapath.port_counters()[0];
    println!("{c:?} {port:?}");
    assert_eq!(c.tx_packets + c.tx_dropped, 20_000);
    assert!((100..19_000).contains(&port.tx_dropped), "{port:?}");
    assert!(!port.link_up);
}

#[test]
fn interfaces_that_are_not_there_are_named() {
    run_inside("kernel::inside_not_there", "1500");
}

#[test]
#[ignore = "runs in a process of its own: in it, DPDK is not up yet"]
fn inside_not_there() {
    let config = Config {
        ports: vec![PortConfig {
            name: "east".into(),
            device: PortDevice::Kernel("nonesuch".into()),
            line_rate_bps: None,
            offloads: UseOffloads::Auto,
            mac: None,
            any_mac: false,
            stamped_by: StampedBy::Cpu,
        }],
        worker_cpus: vec![0],
        worker_groups: Vec::new(),
        control_cpus: vec![0],
        memory: Memory::Normal { bytes: 192 << 20 },
        poll: PollMode::Auto,
        clock_error: ClockError::default(),
    };
    let error = Datapath::open(config.clone()).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "port east: no interface nonesuch in this network namespace (ip link lists them)");
    let mut pci = config;
    pci.ports[0].device = PortDevice::Pci("00:77.0".into());
    let error = Datapath::open(pci.clone()).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with("port east: no PCI device 0000:00:77.0 here"), "{error}");
    pci.ports[0].device = PortDevice::Null;
    pci.memory = Memory::Huge { bytes: 1 << 50, page: None };
    let error = Datapath::open(pci.clone()).map(|_| ()).unwrap_err();
    assert!(matches!(&error, OpenError::System { message, .. } if message.contains("MiB are free")), "{error}");
}
