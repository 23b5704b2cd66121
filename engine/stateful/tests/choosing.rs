// SPDX-License-Identifier: Apache-2.0
//! Servers of several templates on one port: the first bytes of a client choose the template of its flow.
mod net;

use net::{MS, Net, Path, scenario};
use spate_stateful::{Count, Instruction, Payload, Protocol, Scenario};

const FLOWS: u64 = 50;

/// What clients of each template send first, and how many bytes its servers answer with. The last takes what is left.
const KINDS: [(&[u8], u64); 3] = [(b"GET / HTTP/1.1\r\n\r\n", 5000), (b"EHLO a\r\n", 300), (b"anything", 20)];

/// A template for each; clients do this before they send anything.
fn kinds(before: &[Instruction]) -> Scenario {
    let first = |n: usize| Payload::bytes(KINDS[n].0);
    let answer = |n: usize| Payload::pattern(KINDS[n].1);
    let mut all = scenario(Protocol::Tcp, vec![], vec![], vec![]);
    all.payloads = (0..KINDS.len()).flat_map(|n| [first(n), answer(n)]).collect();
    let template = all.templates.remove(0);
    for (n, (first, answer)) in KINDS.into_iter().enumerate() {
        let send = |payload: usize| Instruction::Send { payload: payload as u32, wait: true };
        let receive = |bytes| Instruction::Receive { bytes, clear: true };
        let mut template = template.clone();
        let client = template.client.as_mut().expect("clients");
        let rest = [send(2 * n), receive(answer), Instruction::Close];
        client.program.instructions = [&[Instruction::Connect], before, &rest].concat().into();
        let server = template.server.as_mut().expect("servers");
        let until_close = Instruction::WaitForPeerClose;
        server.program.instructions =
            [Instruction::Accept, receive(first.len() as u64), send(2 * n + 1), until_close].into();
        server.matches = if n + 1 < KINDS.len() { vec![(0, first[..4].into())] } else { vec![] };
        all.templates.push(template);
    }
    all
}

fn each_gets_the_answer_of_its_template(before: &[Instruction], path: Path) {
    let mut net = Net::new(kinds(before), path);
    for n in 0..FLOWS as usize * KINDS.len() {
        net.open(n % KINDS.len());
    }
    net.run_for(300_000 * MS);
    for (n, (first, answer)) in KINDS.into_iter().enumerate() {
        let of = |client: bool, count: Count| net.counters(n, client).get(count);
        assert_eq!((of(true, Count::FlowsEstablished), of(true, Count::FlowsClosed)), (FLOWS, FLOWS), "{first:?}");
        assert_eq!((of(true, Count::ReceivedDataBytes), of(true, Count::FlowsClosedEarly)), (FLOWS * answer, 0));
        assert_eq!(
            (of(false, Count::FlowsClosed), of(false, Count::QueuedBytes)),
            (FLOWS, FLOWS * answer),
            "{first:?}"
        );
    }
}

#[test]
fn first_bytes_that_come_with_the_handshakes_last_segment_choose() {
    each_gets_the_answer_of_its_template(&[], Path::default());
}

#[test]
fn first_bytes_that_come_behind_the_handshake_choose_whatever_is_lost() {
    let path = Path { loss: 50_000, late: 20_000, duplicates: 20_000, ..Path::default() };
    let pause = Instruction::Delay { min_ns: 100 * MS, max_ns: 100 * MS };
    each_gets_the_answer_of_its_template(&[pause], path);
    each_gets_the_answer_of_its_template(&[], path);
}

#[test]
fn a_connection_whose_first_bytes_nobody_knows_is_reset_and_counted() {
    let pause = Instruction::Delay { min_ns: 100 * MS, max_ns: 100 * MS };
    for before in [&[][..], &[pause]] {
        let mut of = kinds(before);
        of.templates[2].server.as_mut().expect("servers").matches = vec![(0, (*b"some").into())];
        let mut net = Net::new(of, Path::default());
        for n in 0..FLOWS as usize * KINDS.len() {
            net.open(n % KINDS.len());
        }
        net.run_for(10_000 * MS);
        for n in 0..KINDS.len() {
            let of = |count| net.counters(n, true).get(count);
            assert_eq!((of(Count::FlowsClosed), of(Count::ResetsReceived)), (FLOWS, if n == 2 { FLOWS } else { 0 }));
        }
        let unmatched: u64 = (0..KINDS.len()).map(|n| net.counters(n, false).get(Count::Unmatched)).sum();
        let open: u64 = (0..KINDS.len()).map(|n| net.stack.open_flows(n, false)).sum();
        assert_eq!((unmatched, open), (FLOWS, 0));
    }
}

#[test]
fn a_datagram_whose_first_bytes_nobody_knows_is_counted() {
    let client = vec![Instruction::SendMessage { payload: 0 }];
    let server = vec![Instruction::ReceiveMessages { messages: 1, clear: true }];
    let mut of = scenario(Protocol::Udp, client, server, vec![Payload::bytes(*b"hello")]);
    of.templates[0].server.as_mut().expect("servers").matches = vec![(0, (*b"GET").into())];
    let mut net = Net::new(of, Path::default());
    net.open(0);
    net.run_for(100 * MS);
    assert_eq!((net.count(false, Count::Unmatched), net.count(false, Count::FlowsAccepted)), (1, 0));
}
