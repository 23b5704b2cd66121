// SPDX-License-Identifier: Apache-2.0
//! When has a flow begun late? After the time that its port may take.
mod net;

use std::sync::Arc;

use net::{CLIENT_PORT, MS, request_response, scenario};
use spate_stateful::{
    Count, Emulation, PortLink, Protocol,
    tuples::{Dealing, Share},
};

/// Of flows due each millisecond from 0 on, how many are late if the worker looks for the first time at 10 ms.
fn late(late_after_ns: Option<u64>) -> (u64, u64) {
    let (client, server, payloads) = request_response(10, 10);
    let mut of = scenario(Protocol::Tcp, client, server, payloads);
    of.templates[0].client.as_mut().expect("clients").rate = (1000, 1);
    let links = [PortLink { mac: [2; 6], next_hop: [4; 6] }; CLIENT_PORT + 2];
    let share = Share { worker: 0, workers: 1 };
    let emulation = Emulation::new(Arc::new(of), share, Dealing::ByNumber, Box::new(|_, _, _| true), &links, 1, 0)
        .expect("a share");
    let mut emulation = match late_after_ns {
        Some(late_after_ns) => emulation.late_after(late_after_ns),
        None => emulation,
    };
    emulation.start(0);
    emulation.advance(10 * MS, 10 * MS, false);
    let counters = emulation.counters(0, true);
    (counters.get(Count::ConnectAttempts), counters.get(Count::LateFlows))
}

#[test]
fn a_flow_is_late_after_the_time_given() {
    let (begun, late_of_default) = late(None);
    assert!((10..=11).contains(&begun), "{begun} flows");
    // Those due at 0 to 8 ms began more than 1 ms after their time.
    assert!((8..=9).contains(&late_of_default), "{late_of_default} late");
    let (begun, late_of_kernel) = late(Some(20 * MS));
    assert!((10..=11).contains(&begun), "{begun} flows");
    assert_eq!(late_of_kernel, 0);
}
