// SPDX-License-Identifier: Apache-2.0
//! Connections with segments that fill a link of MTU 9000, on a loopback and with the kernel over one.
use std::{net::TcpListener, thread};

use spate_engine::datapath::{PollMode, PortDevice, RunState};
use spate_stateful::{Count, Protocol, Scenario};

use crate::kernel::run_inside;
use crate::offload::{BYTES, CONNECTIONS, megabytes, talk};
use crate::setup::{MS, open, start, turn, wait_for};
use crate::stateful::{RESPONSE, assert_all_complete, emulated, link_with_kernel, loopback, over_v4};

const MSS: u16 = 8960;
/// Data beside timestamps.
const DATA: u64 = MSS as u64 - 12;

fn with_jumbo_segments(mut all: Scenario) -> Scenario {
    for template in &mut all.templates {
        template.client.iter_mut().for_each(|client| client.tunables.mss = MSS);
        template.server.iter_mut().for_each(|server| server.tunables.mss = MSS);
    }
    all
}

#[test]
fn jumbo_segments_pass_a_loopback() {
    let _turn = turn();
    let datapath = loopback(1, PollMode::Busy);
    let spec = emulated(&datapath, 9, Some(1000 * MS), with_jumbo_segments(over_v4(Protocol::Tcp, 200)));
    let run = start(&datapath, spec);
    wait_for(&run, RunState::Complete, 10);
    let sides = run.template_counters();
    let (_, server) = assert_all_complete(&sides, 200);
    assert_eq!(server.get(Count::SentDataPackets), 200 * RESPONSE.div_ceil(DATA));
    assert_eq!(run.contradictions(), Vec::<String>::new());
}

#[test]
fn jumbo_segments_pass_between_our_clients_and_the_kernel() {
    run_inside("jumbo::inside_clients_of_the_kernel", "9000");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_clients_of_the_kernel() {
    let datapath = open(&[("east", PortDevice::Kernel("sp0".into()))], 1, PollMode::Auto);
    let link = link_with_kernel(&datapath);
    let listener = TcpListener::bind(("10.9.0.2", 80)).unwrap();
    let served = thread::spawn(move || {
        let talking: Vec<_> =
            (0..CONNECTIONS).map(|_| listener.accept().unwrap().0).map(|s| thread::spawn(move || talk(s))).collect();
        talking.into_iter().for_each(|talking| talking.join().unwrap());
    });
    let mut clients = with_jumbo_segments(megabytes());
    clients.templates[0].server = None;
    let mut spec = emulated(&datapath, 5, Some(3000 * MS), clients);
    spec.stateful.as_mut().unwrap().links[0] = link;
    let run = start(&datapath, spec);
    wait_for(&run, RunState::Complete, 20);
    served.join().unwrap();
    let client = &run.template_counters()[0];
    let data = [Count::SentDataBytes, Count::AckedBytes, Count::ReceivedDataBytes].map(|count| client.get(count));
    assert_eq!(data, [CONNECTIONS * BYTES as u64; 3], "{client:?}");
    // A window may leave room for less than a segment now and then.
    let (fewest, packets) = (CONNECTIONS * (BYTES as u64).div_ceil(DATA), client.get(Count::SentDataPackets));
    assert!((fewest..fewest + fewest / 10).contains(&packets), "{packets} segments with data, at least {fewest}");
}
