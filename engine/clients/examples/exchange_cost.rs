// SPDX-License-Identifier: Apache-2.0
//! What an exchange of DHCP costs: DISCOVER, OFFER, REQUEST, ACK, and with `gateway` the ARP request and reply that find the gateway. The
//! server is a few instructions that turn a client's message into the answer, in the same thread, and is counted apart.
//!
//! ```sh
//! cargo run --release -p spate-clients --example exchange_cost -- 200000 gateway     # exchanges a second of CPU time
//! cargo build --release -p spate-clients --example exchange_cost
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='exchange_cost::clients*' \
//!   target/release/examples/exchange_cost 20000 gateway 2>&1 | grep Collected     # instructions of clients; the same with 40000: the rest
//! ```
use std::{env, fs, hint::black_box};

use spate_clients::{Config, Count, Group, Output, Rate, State};
use spate_net::{checksum, vlan::Tags};

const SERVER: [u8; 4] = [10, 0, 0, 1];
const SERVER_MAC: [u8; 6] = [2, 0x20, 0, 0, 0, 1];
const FIRST: u32 = 0x0a01_0000;
/// Of the first option, behind Ethernet, IPv4, UDP and the fixed fields.
const OPTIONS: usize = 14 + 20 + 8 + 240;

/// The frames of one call.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    lens: Vec<usize>,
}

impl Output for Frames {
    fn room(&self) -> usize {
        64 - self.lens.len()
    }

    fn send(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.lens.push(frame.len());
    }
}

/// What is counted: all that the group does.
#[inline(never)]
fn clients(group: &mut Group, frame: Option<&[u8]>, now_ns: u64, out: &mut Frames) {
    match frame {
        Some(frame) => group.receive(frame, Tags::NONE, now_ns, out),
        None => group.poll(now_ns, out),
    }
}

/// Turns a client's frame into the answer to it; false: there is none.
fn answer(frame: &mut [u8]) -> bool {
    let (from, number) = (frame[6..12].to_vec(), u32::from_be_bytes([frame[8], frame[9], frame[10], frame[11]]));
    frame[..6].copy_from_slice(&from);
    frame[6..12].copy_from_slice(&SERVER_MAC);
    if frame[12..14] == [8, 6] {
        frame[21] = 2;
        frame.copy_within(28..32, 38);
        frame.copy_within(22..28, 32);
        frame[22..28].copy_from_slice(&SERVER_MAC);
        frame[28..32].copy_from_slice(&SERVER);
        return true;
    }
    let kind = match frame[OPTIONS + 2] {
        1 => 2,
        3 => 5,
        _ => return false,
    };
    frame[42] = 2;
    let address = (FIRST + number).to_be_bytes();
    frame[58..62].copy_from_slice(&address);
    let options = [53, 1, kind, 54, 4, 10, 0, 0, 1, 51, 4, 0, 0, 14, 16, 1, 4, 255, 0, 0, 0, 3, 4, 10, 0, 0, 1, 255];
    frame[OPTIONS..OPTIONS + options.len()].copy_from_slice(&options);
    // From the server, to the client.
    frame[24..34].copy_from_slice(&[
        0, 0, SERVER[0], SERVER[1], SERVER[2], SERVER[3], address[0], address[1], address[2], address[3],
    ]);
    let sum = checksum::checksum(checksum::sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[34..38].copy_from_slice(&[0, 67, 0, 68]);
    // Without a checksum, as IPv4 allows it.
    frame[40..42].fill(0);
    true
}

/// Nanoseconds for which the thread had a CPU.
fn cpu_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn main() {
    let mut args = env::args().skip(1);
    let count: u32 = args.next().and_then(|count| count.parse().ok()).unwrap_or(100_000);
    let resolve_gateway = args.next().is_some_and(|arg| arg == "gateway");
    let config = Config::dhcp([2, 0x10, 0, 0, 0, 0], count, Rate::per_second(20_000));
    let mut group = Group::new(Config { resolve_gateway, ..config }, 0).unwrap();
    group.start_all(0);
    let (mut out, mut next, mut frame) = (Frames::default(), Frames::default(), Vec::new());
    let started_ns = cpu_ns();
    let mut now_ns = 0;
    while group.counters().clients(State::Bound) < u64::from(count) {
        clients(&mut group, None, now_ns, &mut out);
        while !out.lens.is_empty() {
            let mut at = 0;
            for len in &out.lens {
                frame.clear();
                frame.extend_from_slice(&out.bytes[at..at + len]);
                at += len;
                if answer(&mut frame) {
                    clients(&mut group, Some(&frame), now_ns, &mut next);
                }
            }
            out.bytes.clear();
            out.lens.clear();
            std::mem::swap(&mut out, &mut next);
        }
        now_ns += 50_000;
    }
    let took_ns = cpu_ns() - started_ns;
    black_box(&group);
    let frames =
        [Count::Dhcp4Discover, Count::Dhcp4Request, Count::ArpRequestsSent].map(|count| group.counters().get(count));
    let rate = f64::from(count) * 1e9 / took_ns as f64;
    println!(
        "{count} clients bound, {frames:?} DISCOVER, REQUEST, ARP: {rate:.0} exchanges a second of CPU time, server included"
    );
}
