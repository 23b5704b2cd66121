// SPDX-License-Identifier: Apache-2.0
//! No connection stands still: how long it takes follows from how many of its packets were lost. `cargo test --test stalls --
//! --nocapture` prints it.
mod net;

use net::{MS, Net, Path, over_ipv6, request_response, scenario, with};
use spate_stateful::{Count, Instruction, Payload, Protocol, Tunables};

/// A connection that lost fewer packets is held to a time.
const LOSSES: usize = 7;

/// By how many packets a connection lost: the longest time in ms, and of how many connections.
type Longest = [(u64, u64); LOSSES];

/// Connections one after the other, with an answer of this many bytes, over a path of 50 us that loses this many packets of a million.
fn longest(connections: u64, answer: u64, loss: u32, v6: bool) -> Longest {
    let (client, server, payloads) = request_response(100, answer);
    let tunables = Tunables { initial_window: 2, time_wait_ns: MS, ..Tunables::default() };
    let scenario = with(Protocol::Tcp, client, server, payloads, tunables.clone(), tunables);
    let path = Path { delay_ns: MS / 20, loss, seed: u64::from(loss) + answer + u64::from(v6), ..Path::default() };
    let mut net = Net::new(if v6 { over_ipv6(scenario) } else { scenario }, path);
    let mut longest = Longest::default();
    for _ in 0..connections {
        let (start, lost) = (net.now, net.lost);
        net.open(0);
        while net.stack.flows() > 0 && net.now < start + 1_000_000 * MS {
            net.run_for(10 * MS);
        }
        if let Some((longest, of)) = longest.get_mut((net.lost - lost) as usize) {
            *longest = (net.now - start).div_ceil(MS).max(*longest);
            *of += 1;
        }
    }
    longest
}

/// The first timeout is 1 s, the next is twice that (RFC 6298 section 5.5): if all losses are of one packet, the next leaves
/// after 2^losses - 1 s. Nothing else may take longer.
#[test]
fn time_follows_from_losses() {
    for v6 in [false, true] {
        for (loss, connections) in [(10_000, 10_000), (100_000, 5_000), (200_000, 3_000)] {
            for answer in [100, 32_768] {
                let longest = longest(connections, answer, loss, v6);
                println!(
                    "{} % lost, answer of {answer} bytes: longest in ms, and of how many {longest:?}",
                    loss / 10_000
                );
                for (losses, (longest, of)) in longest.into_iter().enumerate() {
                    assert!(longest <= 1000 << losses, "{losses} losses: {longest} ms, the longest of {of}");
                }
                assert!(longest[2].1 > 0, "too few were lost");
            }
        }
    }
}

/// After some hundred instructions without a wait a program goes on at the next tick, or with an acknowledgement that comes before;
/// what it then waits for does not come with the tick.
#[test]
fn a_program_that_went_on_before_its_tick_waits_for_what_comes_next() {
    const CONNECTIONS: u64 = 16;
    let send = |payload, wait| Instruction::Send { payload, wait };
    let client = [vec![Instruction::Connect], vec![send(0, false); 300], vec![send(1, true)]].concat();
    let server = vec![Instruction::Accept, Instruction::Receive { bytes: 300 * 20 + 100_000, clear: true }];
    let payloads = vec![Payload::pattern(20), Payload::pattern(100_000)];
    let path = Path { delay_ns: 3000, ..Path::default() }; // acknowledgements come within a tick of 2^14 ns
    let mut net = Net::new(scenario(Protocol::Tcp, client, server, payloads), path);
    for _ in 0..CONNECTIONS {
        net.open(0);
        net.run_for(16 * MS + (1 << 14) / CONNECTIONS); // each begins at another part of a tick
    }
    assert_eq!(net.count(true, Count::FlowsClosed), CONNECTIONS, "{}", net.summary());
}
