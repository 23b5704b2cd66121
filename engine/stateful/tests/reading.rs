// SPDX-License-Identifier: Apache-2.0
//! Programs that wait for the end of what they receive: over every kind of network they find it, whatever comes behind it.
mod net;

use net::{MS, Net, Path, scenario};
use spate_stateful::{Comparison, Count, Instruction, Payload, Protocol, Tunables, program::Until};

const HTTP: Instruction = Instruction::ReceiveUntil(Until::HttpMessage);

fn pattern(bytes: &[u8]) -> Instruction {
    Instruction::ReceiveUntil(Until::Pattern(bytes.into()))
}

fn send(payload: u32, wait: bool) -> Instruction {
    Instruction::Send { payload, wait }
}

fn response(body: usize) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {body}\r\n\r\n").into_bytes(), vec![b'b'; body]].concat()
}

fn chunked(body: usize) -> Vec<u8> {
    let mut message = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in vec![b'c'; body].chunks(777) {
        message.extend([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
    }
    message.extend(b"0\r\nX-Digest: 1\r\n\r\n");
    message
}

fn until_close(body: usize) -> Vec<u8> {
    [b"HTTP/1.0 200 OK\r\n\r\n".to_vec(), vec![b'd'; body]].concat()
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn run(client: Vec<Instruction>, server: Vec<Instruction>, payloads: &[Vec<u8>], flows: u64, path: Path) -> Net {
    let payloads = payloads.iter().map(|bytes| Payload::bytes(bytes.clone())).collect();
    let mut net = Net::new(scenario(Protocol::Tcp, client, server, payloads), path);
    for _ in 0..flows {
        net.open(0);
    }
    net.run_for(400_000 * MS);
    net
}

/// All flows end as programs say, and nothing is left.
#[track_caller]
fn complete(net: &Net, flows: u64) {
    for client in [true, false] {
        let of = |count| net.count(client, count);
        let summary = net.summary();
        assert_eq!((of(Count::FlowsEstablished), of(Count::FlowsClosed)), (flows, flows), "{summary}");
        let wrong = [Count::HttpErrors, Count::FlowsClosedEarly].map(of);
        assert_eq!(wrong, [0; 2], "{summary}");
        assert_eq!(of(Count::ReceivedDataBytes), net.count(!client, Count::QueuedBytes), "{summary}");
    }
    assert_eq!((net.stack.flows(), net.stack.held(), net.stack.held_chunks()), (0, (0, 0), 0), "{}", net.summary());
}

/// From none to much of everything.
fn paths() -> impl Iterator<Item = Path> {
    [(0, 0, 0, 0), (20_000, 0, 0, 0), (0, 3, 100_000, 50_000), (100_000, 5, 100_000, 100_000)].into_iter().zip(1..).map(
        |((loss, jitter_ms, late, duplicates), seed)| Path {
            loss,
            jitter_ns: jitter_ms * MS,
            late,
            duplicates,
            delay_ns: 5 * MS,
            seed,
            ..Path::default()
        },
    )
}

#[test]
fn messages_of_every_kind_end_where_they_do() {
    for path in paths() {
        let (get, one, two, three) = (GET.to_vec(), response(30_000), chunked(50_000), until_close(20_000));
        let client = vec![Instruction::Connect, send(0, false), HTTP, send(0, true), HTTP, send(0, false), HTTP];
        let server = vec![Instruction::Accept, HTTP, send(1, true), HTTP, send(2, false), HTTP, send(3, true)];
        complete(&run(client, server, &[get, one, two, three], 10, path), 10);
    }
}

/// `again` instructions behind the opening this many times, then `rest`.
fn times(open: Instruction, n: i64, again: &[Instruction], rest: &[Instruction]) -> Vec<Instruction> {
    let count = [
        Instruction::Add { variable: 0, value: 1 },
        Instruction::Jump { to: 1, variable: 0, comparison: Comparison::Less, value: n },
    ];
    [&[open][..], again, &count, rest].concat()
}

#[test]
fn requests_that_come_together_are_answered_one_by_one() {
    for path in paths() {
        // Twenty requests at once; the server waits until each answer is acknowledged.
        let requests = GET.repeat(20);
        let client = times(Instruction::Connect, 20, &[HTTP], &[]);
        let client = [&client[..1], &[send(0, false)], &client[1..]].concat();
        let client: Vec<_> = client
            .into_iter()
            .map(|instruction| match instruction {
                Instruction::Jump { variable, comparison, value, .. } => {
                    Instruction::Jump { to: 2, variable, comparison, value }
                }
                other => other,
            })
            .collect();
        let server = times(Instruction::Accept, 20, &[HTTP, send(1, true)], &[]);
        complete(&run(client, server, &[requests, response(3000)], 10, path), 10);
    }
}

#[test]
fn what_is_looked_for_next_may_depend_on_the_way() {
    for path in paths() {
        // Lines until the program has counted them, then something else: only the program knows what comes next.
        let lines = [b"line\r\n".repeat(50), vec![b'.'; 40_000], b"the end".to_vec(), b"line\r\n".to_vec()].concat();
        let pause = Instruction::Delay { min_ns: 3 * MS, max_ns: 3 * MS };
        let server = times(
            Instruction::Accept,
            50,
            &[pattern(b"\r\n"), pause],
            &[pattern(b"the end"), pattern(b"\n"), send(1, true)],
        );
        let client = vec![Instruction::Connect, send(0, false), pattern(b"bye")];
        complete(&run(client, server, &[lines, b"good bye".to_vec()], 10, path), 10);
    }
}

#[test]
fn counts_of_bytes_go_on_beside_ends() {
    let client = vec![Instruction::Connect, send(0, true), Instruction::Receive { bytes: 8, clear: true }];
    let server = vec![
        Instruction::Accept,
        pattern(b"5:"),
        Instruction::Receive { bytes: 7, clear: true },
        pattern(b"o"),
        Instruction::Receive { bytes: 2, clear: true },
        send(1, true),
    ];
    complete(&run(client, server, &[b"5:hello..".to_vec(), b"received".to_vec()], 3, Path::default()), 3);
}

#[test]
fn an_end_that_cannot_be_known_resets_the_flow_and_is_counted() {
    let client = vec![Instruction::Connect, send(0, true), HTTP];
    let server = vec![Instruction::Accept, HTTP, send(1, true), Instruction::WaitForPeerClose];
    let wrong = b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n".to_vec();
    let net = run(client, server, &[GET.to_vec(), wrong], 4, Path::default());
    let of = |client, count| net.count(client, count);
    assert_eq!((of(true, Count::HttpErrors), of(true, Count::ResetsSent), of(false, Count::ResetsReceived)), (4, 4, 4));
    assert_eq!(
        (of(true, Count::FlowsClosed), of(false, Count::FlowsClosed), net.stack.flows()),
        (4, 4, 0),
        "{}",
        net.summary()
    );
}

#[test]
fn a_peer_that_closes_in_the_middle_of_a_message_is_counted() {
    let client = vec![Instruction::Connect, send(0, true), HTTP];
    let server = vec![Instruction::Accept, HTTP, send(1, true)];
    let half = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec();
    let net = run(client, server, &[GET.to_vec(), half], 4, Path::default());
    assert_eq!(
        (net.count(true, Count::FlowsClosedEarly), net.count(true, Count::FlowsClosed)),
        (4, 4),
        "{}",
        net.summary()
    );
}

#[test]
fn without_memory_segments_come_again_and_all_end() {
    // More is out of order at a time over all flows than the pool holds (1.5 MB).
    let tunables = Tunables::default();
    let client = vec![Instruction::Connect, send(0, true), HTTP];
    let server = vec![Instruction::Accept, HTTP, send(1, true)];
    let payloads = vec![Payload::bytes(GET.to_vec()), Payload::bytes(response(1_000_000))];
    let path = Path { delay_ns: 100 * MS, loss: 5_000, seed: 3, ..Path::default() };
    let mut net = Net::new(net::with(Protocol::Tcp, client, server, payloads, tunables.clone(), tunables), path);
    for _ in 0..40 {
        net.open(0);
    }
    net.run_for(2_000_000 * MS);
    assert!(net.count(true, Count::OutOfOrderDropped) > 0, "{}", net.summary());
    complete(&net, 40);
}

#[test]
fn without_memory_what_is_next_in_order_is_taken_all_the_same() {
    // Which end follows the first lines only the program knows, so that what is in order may have to be held as well. The window
    // is wide, and much more is out of order than the pool holds.
    let lines = [b"line\r\n".repeat(3), vec![b'.'; 600_000], b"the end".to_vec()].concat();
    let server = times(Instruction::Accept, 3, &[pattern(b"\r\n")], &[pattern(b"the end"), send(1, true)]);
    let client = vec![Instruction::Connect, send(0, false), pattern(b"bye")];
    let payloads = vec![Payload::bytes(lines), Payload::bytes(b"good bye".to_vec())];
    let tunables =
        Tunables { send_buffer: 1 << 20, receive_buffer: 1 << 20, initial_window: 250, ..Tunables::default() };
    let path = Path { delay_ns: 20 * MS, loss: 20_000, seed: 5, ..Path::default() };
    let mut net = Net::new(net::with(Protocol::Tcp, client, server, payloads, tunables.clone(), tunables), path);
    for _ in 0..60 {
        net.open(0);
    }
    let start = net.now;
    while net.stack.open_flows(0, true) > 0 && net.now < start + 600_000 * MS {
        net.run_for(10 * MS);
    }
    println!("{} ms\n{}", (net.now - start) / MS, net.summary());
    net.run_for(200_000 * MS);
    assert!(net.count(false, Count::OutOfOrderDropped) > 0, "{}", net.summary());
    complete(&net, 60);
}
