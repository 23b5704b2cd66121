// SPDX-License-Identifier: Apache-2.0
//! What is sent again although it was only late, over paths that delay every packet by another time: `cargo test --test
//! reordering -- --nocapture` prints it.
mod net;

use net::{MS, Net, Path, request_response, with};
use spate_stateful::{Count, Protocol, Tunables, random::Numbers};

/// Bytes of an answer, answers of a connection's kind, and networks.
const ANSWER: u64 = 400_000;
const FLOWS: u64 = 4;
const NETWORKS: u64 = 24;

#[derive(Clone, Copy, Default)]
struct Seen {
    lost: u64,
    again: u64,
    undone: u64,
    timeouts: u64,
    dsacks: u64,
    spent_ms: u64,
}

fn one(path: Path, timestamps: bool, sack: bool) -> Seen {
    let (client, server, payloads) = request_response(100, ANSWER);
    let tunables = Tunables { timestamps, sack, time_wait_ns: MS, ..Tunables::default() };
    let mut net = Net::new(with(Protocol::Tcp, client, server, payloads, tunables.clone(), tunables), path);
    let start = net.now;
    for _ in 0..FLOWS {
        net.open(0);
    }
    while net.stack.open_flows(0, true) > 0 {
        net.run_for(MS);
        assert!(net.now < start + 600_000 * MS, "{path:?}\n{}", net.summary());
    }
    let spent_ms = (net.now - start) / MS;
    net.run_for(100_000 * MS);
    assert_eq!(net.count(true, Count::ReceivedDataBytes), FLOWS * ANSWER, "{}", net.summary());
    assert_eq!((net.stack.flows(), net.stack.held()), (0, (0, 0)), "{}", net.summary());
    // What was sent twice by a duplicate of the network's is none of ours.
    let of = |count| net.count(false, count);
    Seen {
        lost: net.lost,
        again: of(Count::RetransmittedPackets),
        undone: of(Count::SpuriousRecoveries) + of(Count::SpuriousTimeouts),
        timeouts: of(Count::RetransmitTimeouts),
        dsacks: of(Count::DsackReceived),
        spent_ms,
    }
}

/// The sum over networks drawn with a share of packets lost, of a million.
fn drawn(loss: u32, jitter: u64, timestamps: bool, sack: bool) -> Seen {
    let mut all = Seen::default();
    for seed in 0..NETWORKS {
        let mut random = Numbers::new(seed);
        let delay_ns = (5 + random.below(45)) * MS;
        let bandwidth = [0, 20_000_000, 100_000_000][random.below(3) as usize];
        let path =
            Path { delay_ns, jitter_ns: delay_ns * jitter / 100, loss, bandwidth, seed: seed + 1, ..Path::default() };
        let seen = one(path, timestamps, sack);
        all.lost += seen.lost;
        all.again += seen.again;
        all.undone += seen.undone;
        all.timeouts += seen.timeouts;
        all.dsacks += seen.dsacks;
        all.spent_ms += seen.spent_ms;
    }
    println!(
        "loss {:>4} %, jitter {jitter:>2} %, timestamps {timestamps:>5}, SACK {sack:>5}: {:>5} sent again of {:>5} lost, {:>4} undone, {:>3} time-outs, {:>4} reported twice, {:>6} ms",
        f64::from(loss) / 1e4,
        all.again,
        all.lost,
        all.undone,
        all.timeouts,
        all.dsacks,
        all.spent_ms,
    );
    all
}

#[test]
fn little_more_is_sent_again_than_is_lost_though_packets_come_in_disorder() {
    // Packets that ends send: about this many segments of answers.
    const SENT: u64 = NETWORKS * FLOWS * ANSWER / 1448;
    for timestamps in [true, false] {
        for jitter in [0, 5, 20, 50] {
            for loss in [0, 1_000, 10_000] {
                let seen = drawn(loss, jitter, timestamps, true);
                let most = seen.lost * 5 / 4 + SENT / 50;
                assert!(seen.again <= most, "{} sent again, more than {most}", seen.again);
            }
        }
    }
}
