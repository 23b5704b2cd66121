// SPDX-License-Identifier: Apache-2.0
//! Shared memory interfaces: two ports over a socket exchange exact counts, and a client finds its server again.
//!
//! Processes of their own: two ends of one socket in one process are more than DPDK's driver closes without a race.
use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use spate_engine::datapath::{Datapath, Memif, PollMode, PortDevice, RunState};

use crate::{
    kernel::run_inside,
    setup::{MS, assert_all_received, open, pps, spec, start, stream, wait_for},
};

/// A folder of the test's own, for sockets.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let this = Self(std::env::temp_dir().join(format!("spate-{name}-{}", std::process::id())));
        std::fs::create_dir(&this.0).unwrap();
        this
    }

    fn end(&self, server: bool) -> PortDevice {
        PortDevice::Memif(Memif { socket: self.0.join("memif.sock"), id: 3, server })
    }

    /// An engine that is the server.
    fn server(&self) -> Child {
        let path = |name: &str| self.0.join(name).display().to_string();
        let control = format!("unix:{}", path("control.sock"));
        let port = format!("memif=memif:{},id=3", path("memif.sock"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_spate-engine"));
        command.args(["serve", "--port", &port, "--memory", "64M", "--hugepages", "none", "--poll-mode", "adaptive"]);
        command.args(["--listen", &control]).stderr(Stdio::null()).spawn().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn wait_for_link(datapath: &Datapath, up: bool) {
    let since = Instant::now();
    while datapath.ports().iter().any(|port| port.link_up != up) {
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", datapath.ports());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn both_ends_of_shared_memory_receive_exactly_what_the_other_sends() {
    run_inside("memif::inside_exact", "1500");
}

#[test]
#[ignore = "runs in the process that the test above makes"]
fn inside_exact() {
    let folder = Folder::new("exact");
    let datapath = open(&[("server", folder.end(true)), ("client", folder.end(false))], 1, PollMode::Busy);
    wait_for_link(&datapath, true);
    let ports = datapath.ports();
    assert!(ports.iter().all(|port| port.driver == "net_memif" && port.line_rate_bps.is_none()), "{ports:?}");
    let streams = vec![
        stream(1, 0, Some(1), 60, pps(100_000)),
        stream(2, 1, Some(0), 60, pps(100_000)),
        stream(3, 1, Some(0), 1514, pps(10_000)),
    ];
    let run = start(&datapath, spec(1, 0, Some(500 * MS), streams));
    wait_for(&run, RunState::Complete, 5);
    for (counters, packets) in run.counters().iter().zip([50_000, 50_000, 5_000]) {
        assert_all_received(&counters.measured, packets);
    }
    for port in datapath.port_counters() {
        assert_eq!((port.tx_dropped, port.rx_missed, port.rx_errors, port.foreign_packets), (0, 0, 0, 0));
    }
    // Both ends at once: see above.
    std::mem::forget(datapath);
}

#[test]
fn a_client_connects_again_when_its_server_is_back() {
    run_inside("memif::inside_again", "1500");
}

#[test]
#[ignore = "runs in the process that the test above makes"]
fn inside_again() {
    let folder = Folder::new("again");
    let mut server = folder.server();
    let client = open(&[("client", folder.end(false))], 1, PollMode::Adaptive);
    wait_for_link(&client, true);
    // Its socket stays.
    server.kill().unwrap();
    server.wait().unwrap();
    wait_for_link(&client, false);
    let mut server = folder.server();
    wait_for_link(&client, true);
    server.kill().unwrap();
    server.wait().unwrap();
}
