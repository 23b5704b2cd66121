// SPDX-License-Identifier: Apache-2.0
//! How fast a long answer comes over a path that loses packets at random, beside what Mathis, Semke, Mahdavi and Ott (The
//! Macroscopic Behavior of the TCP Congestion Avoidance Algorithm, 1997) expect: 1.22 MSS / (RTT sqrt(p)). `cargo test
//! --test goodput -- --nocapture` prints it.
mod net;

use net::{MS, Net, Path, request_response, with};
use spate_stateful::{CongestionControl, Count, Protocol, Tunables};

/// Bytes of an answer.
const ANSWER: u64 = 1_000_000;
/// Connections, one after the other.
const FLOWS: u64 = 30;
/// There and back.
const ROUND_TRIP: f64 = 0.05;

/// What was seen: mean goodput as a share of what is expected, and timeouts for each lost packet.
struct Seen {
    share: f64,
    timeouts: f64,
}

fn measure(loss: u32, control: CongestionControl, sack: bool) -> Seen {
    let (client, server, payloads) = request_response(100, ANSWER);
    let tunables = Tunables {
        congestion_control: control,
        sack,
        receive_buffer: 4 << 20,
        send_buffer: 4 << 20,
        time_wait_ns: MS,
        ..Tunables::default()
    };
    let scenario = with(Protocol::Tcp, client, server, payloads, tunables.clone(), tunables);
    let mut net =
        Net::new(scenario, Path { delay_ns: 25 * MS, loss, bandwidth: 1_000_000_000, seed: 7, ..Path::default() });
    let mut spent = 0;
    for _ in 0..FLOWS {
        net.open(0);
        let start = net.now;
        while net.stack.open_flows(0, true) > 0 {
            net.run_for(MS);
            assert!(net.now < start + 600_000 * MS, "{}", net.summary());
        }
        spent += net.now - start;
        net.run_for(1000 * MS);
    }
    let goodput = (FLOWS * ANSWER) as f64 / (spent as f64 / 1e9);
    let expected = 1.22 * 1448.0 / (ROUND_TRIP * (f64::from(loss) / 1e6).sqrt());
    let timeouts = net.count(false, Count::RetransmitTimeouts) as f64 / net.lost as f64;
    println!(
        "loss {:>4} %, {control:?}, SACK {sack}: {:.0} kB/s of {:.0} kB/s, {timeouts:.3} time-outs for each loss",
        f64::from(loss) / 1e4,
        goodput / 1e3,
        expected / 1e3,
    );
    Seen { share: goodput / expected, timeouts }
}

#[test]
fn losses_at_random_cost_what_theory_says() {
    for control in [CongestionControl::NewReno, CongestionControl::Cubic] {
        for (loss, sack, share, timeouts) in [
            (10_000, true, 0.9, 0.02),
            (50_000, true, 0.6, 0.04),
            (10_000, false, 0.9, 0.05),
            (50_000, false, 0.5, 0.2),
        ] {
            let seen = measure(loss, control, sack);
            assert!(seen.share > share, "{:.2} of what is expected", seen.share);
            assert!(seen.timeouts < timeouts, "{:.3} time-outs for each loss", seen.timeouts);
        }
    }
}

/// Mean time of short answers in seconds, over a path that loses this many packets of a million in each direction; and
/// timeouts of data.
fn short_answers(loss: u32) -> (f64, u64) {
    const SHORT: u64 = 100_000;
    const MANY: u64 = 400;
    let (client, server, payloads) = request_response(300, SHORT);
    let tunables = Tunables { time_wait_ns: MS, ..Tunables::default() };
    let scenario = with(Protocol::Tcp, client, server, payloads, tunables.clone(), tunables);
    let mut net = Net::new(scenario, Path { delay_ns: 50 * MS, loss, seed: 11, ..Path::default() });
    let mut spent = 0;
    for flow in 1..=MANY {
        let start = net.now;
        net.open(0);
        while net.count(true, Count::ReceivedDataBytes) < flow * SHORT {
            net.run_for(MS);
            assert!(net.now < start + 600_000 * MS, "{}", net.summary());
        }
        spent += net.now - start;
        net.run_for(10_000 * MS);
    }
    let mean = spent as f64 / 1e9 / MANY as f64;
    let timeouts = net.count(false, Count::RetransmitTimeouts) - net.count(false, Count::SynTimeouts);
    let again = net.count(false, Count::RetransmittedPackets);
    println!(
        "{SHORT} bytes, loss {} %: {mean:.3} s, {timeouts} time-outs, {again} sent again of {} lost",
        f64::from(loss) / 1e4,
        net.lost
    );
    (mean, timeouts)
}

#[test]
fn short_answers_come_in_few_round_trips() {
    // Two round trips before the first byte, and three of slow start from ten segments: the last is not waited for.
    let (mean, timeouts) = short_answers(0);
    assert!((0.4..0.41).contains(&mean) && timeouts == 0, "{mean:.3} s, {timeouts} time-outs");
    let (mean, timeouts) = short_answers(10_000);
    assert!(mean < 0.62 && timeouts < 30, "{mean:.3} s, {timeouts} time-outs");
    let (mean, timeouts) = short_answers(50_000);
    assert!(mean < 1.25 && timeouts < 200, "{mean:.3} s, {timeouts} time-outs");
}
