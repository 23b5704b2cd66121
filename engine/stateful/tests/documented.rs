// SPDX-License-Identifier: Apache-2.0
//! docs/stateful.md states what the code does: the memory of flows, the defaults of tunables.
mod net;

use std::{fs, time::Duration};

use net::{request_response, scenario};
use spate_stateful::{
    Address, Instruction, Pool, Protocol, Scenario, Stack, Tunables, pool::Order, program::Until, records,
};

fn states(row: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/stateful.md");
    let page = fs::read_to_string(path).unwrap();
    assert!(page.lines().any(|line| line.starts_with(row)), "docs/stateful.md has no line that begins with {row:?}");
}

fn plain() -> Scenario {
    let (client, server, payloads) = request_response(100, 100);
    scenario(Protocol::Tcp, client, server, payloads)
}

fn bytes(scenario: &Scenario, most_flows: usize) -> usize {
    Stack::bytes(&Scenario { most_flows, ..scenario.clone() })
}

#[test]
fn so_much_memory_do_flows_take() {
    let plain = plain();
    let v6 = |s: &mut Scenario| s.pools[0] = Pool::new(Address(1 << 64), Address(2 << 64), Order::Sequential).unwrap();

    const FLOWS: usize = 2_000_000;
    let each = |scenario: &Scenario| (bytes(scenario, 2 * FLOWS) - bytes(scenario, FLOWS)).div_ceil(FLOWS);
    let mut over_v6 = plain.clone();
    v6(&mut over_v6);
    states(&format!("| over IPv4 | {} |", each(&plain)));
    states(&format!("| over IPv6 too, if a pool has it | {} |", each(&over_v6)));
    assert!(each(&over_v6) <= 256, "an idle end costs that at most");
    let with = |change: &dyn Fn(&mut Scenario)| {
        let mut other = plain.clone();
        change(&mut other);
        let more = |flows| bytes(&other, flows) - bytes(&plain, flows);
        let each = (more(2 * FLOWS) - more(FLOWS)) / FLOWS;
        (each, more(FLOWS) - each * FLOWS)
    };
    let program = |scenario: &mut Scenario, instruction| {
        let program = &mut scenario.templates[0].client.as_mut().unwrap().program;
        program.instructions = [&program.instructions[..], &[instruction]].concat().into();
    };
    let (variable, _) = with(&|s| program(s, Instruction::Set { variable: 0, value: 1 }));
    let four = with(&|s| program(s, Instruction::Set { variable: 3, value: 1 })).0;
    assert_eq!(four, 4 * variable);
    states(&format!(
        "| for each variable, including those of `setTime`, of the program with most variables | {variable} more |"
    ));
    let (until, chunks) = with(&|s| program(s, Instruction::ReceiveUntil(Until::HttpMessage)));
    let mib = chunks.div_ceil(1 << 20);
    states(&format!("| if a program has `receiveUntil` | {until} more, and up to {mib} MiB for each worker |"));
    states(&format!("| if a template has `latency` | {} more |", with(&|s| s.templates[0].latency = true).0));
    let leased = with(&|s| s.pools[0] = Pool::leased(false, 256, Order::Sequential, [2; 6])).0;
    states(&format!("| if clients have [leased addresses](slow-path.md#emulated-clients) | {leased} more |"));
    states(&format!("| with `records` | {} more |", records::bytes(1)));

    let mib = bytes(&plain, FLOWS) >> 20;
    let (before, after) = ("concurrent connections with both ends in one pod", "which with one worker results in");
    states(&format!("{before} are 2,000,000 places over IPv4, {mib} MiB, {after} {} MiB:", 256 + 32 + mib));
}

#[test]
fn so_are_tunables_that_say_nothing() {
    // By name, so that none is omitted.
    let Tunables {
        tos,
        ttl,
        mss,
        initial_window,
        receive_buffer,
        send_buffer,
        duplicate_ack_threshold,
        delayed_ack_ns,
        minimum_rto_ns,
        connect_timeout_ns,
        keepalive_idle_ns,
        keepalive_interval_ns,
        no_delay,
        congestion_control,
        timestamps,
        sack,
        window_scale,
        ecn,
        time_wait_ns,
        blackhole,
    } = Tunables::default();
    let time = |ns| format!("{:?}", Duration::from_nanos(ns));
    let never = if keepalive_idle_ns == 0 { "0s (never)".into() } else { time(keepalive_idle_ns) };
    for (names, defaults) in [
        ("`tos`, `ttl`", format!("{tos}, {ttl} |")),
        ("`mss`", format!("{mss}; ")),
        ("`initialWindow`", format!("{initial_window} |")),
        ("`receiveBuffer`, `sendBuffer`", format!("{receive_buffer}, {send_buffer} |")),
        ("`duplicateAckThreshold`", format!("{duplicate_ack_threshold} |")),
        ("`delayedAck`", format!("{} |", time(delayed_ack_ns))),
        ("`minRTO`", format!("{} |", time(minimum_rto_ns))),
        ("`connectTimeout`", format!("{} |", time(connect_timeout_ns))),
        ("`keepaliveIdle`, `keepaliveInterval`", format!("{never}, {} |", time(keepalive_interval_ns))),
        ("`noDelay`", format!("{no_delay} |")),
        ("`congestionControl`", format!("{congestion_control:?} |")),
        ("`timestamps`, `sack`, `windowScale`, `ecn`", format!("{timestamps}, {sack}, {window_scale}, {ecn} |")),
        ("`timeWait`", format!("{} |", time(time_wait_ns))),
        ("`blackhole`", format!("{blackhole} |")),
    ] {
        states(&format!("| {names} | {defaults}"));
    }
}
