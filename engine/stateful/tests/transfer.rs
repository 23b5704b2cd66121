// SPDX-License-Identifier: Apache-2.0
//! Connections between two ends over a network of every kind: all complete, every byte arrives once, counters agree, and
//! nothing is left.
mod net;

use net::{MS, Net, Path, request_response, scenario};
use spate_stateful::{Count, Protocol};

fn transfer(flows: u64, request: u64, response: u64, path: Path, length_ns: u64) -> Net {
    let (client, server, payloads) = request_response(request, response);
    let mut net = Net::new(scenario(Protocol::Tcp, client, server, payloads), path);
    for _ in 0..flows {
        net.open(0);
    }
    net.run_for(length_ns);
    net
}

fn complete(net: &Net, flows: u64, request: u64, response: u64, path: Path) {
    let told = || format!("{path:?}\n{}", net.told());
    for client in [true, false] {
        assert_eq!(net.count(client, Count::Connects), flows, "{}", told());
        assert_eq!(net.count(client, Count::Closed), flows, "{}", told());
        let (sent, received) = if client { (request, response) } else { (response, request) };
        assert_eq!(net.count(client, Count::ReceivedDataBytes), flows * received, "{}", told());
        assert_eq!(net.count(client, Count::AckedBytes), flows * sent, "{}", told());
        assert_eq!(net.count(client, Count::SentDataBytes), flows * sent, "{}", told());
    }
    assert_eq!(net.stack.flows(), 0, "{}", told());
}

#[test]
fn a_connection_completes() {
    let path = Path::default();
    let net = transfer(1, 100, 32_000, path, 5_000 * MS);
    complete(&net, 1, 100, 32_000, path);
    assert_eq!(net.count(true, Count::RetransmittedPackets), 0);
    assert_eq!(net.count(false, Count::RetransmittedPackets), 0, "{}", net.told());
}

#[test]
fn all_complete_whatever_the_network_does() {
    let mut seed = 0;
    for loss in [0, 10_000, 50_000, 200_000] {
        for (delay_ms, jitter_ms) in [(0, 0), (1, 0), (10, 3), (100, 10)] {
            for (late, duplicates) in [(0, 0), (50_000, 0), (0, 50_000), (100_000, 100_000)] {
                for (request, response) in [(100, 1000), (10_000, 200_000)] {
                    seed += 1;
                    let path = Path {
                        delay_ns: delay_ms * MS,
                        jitter_ns: jitter_ms * MS,
                        loss,
                        late,
                        duplicates,
                        seed,
                        ..Path::default()
                    };
                    let net = transfer(5, request, response, path, 2_000_000 * MS);
                    complete(&net, 5, request, response, path);
                }
            }
        }
    }
}
