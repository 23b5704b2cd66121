// SPDX-License-Identifier: Apache-2.0
//! As many payloads and instructions as flows can number: the last of them are sent and executed.
mod net;

use net::{MS, Net, Path, scenario};
use spate_stateful::{Comparison, Count, Instruction, Payload, Protocol, program::Until};

/// The greatest number of a payload, and of a position in a program.
const LAST: u16 = u16::MAX;

#[test]
fn the_last_payload_is_sent() {
    // Of one length, so that only the bytes distinguish them.
    let payloads: Vec<_> = (0..=LAST).map(|n| Payload::bytes(format!("payload {n:05};").into_bytes())).collect();
    let (last, len) = (u32::from(LAST), payloads[0].len());
    let tcp = |payload| Instruction::Send { payload, wait: true };
    let udp = |payload| Instruction::SendMessage { payload };
    let stream = Instruction::Receive { bytes: len, clear: true };
    let message = Instruction::ReceiveMessages { messages: 1, clear: true };
    for (protocol, client, server) in [
        (
            Protocol::Tcp,
            vec![Instruction::Connect, tcp(last), stream.clone()],
            vec![Instruction::Accept, stream, tcp(last - 1), Instruction::WaitForPeerClose],
        ),
        (Protocol::Udp, vec![udp(last), message.clone()], vec![message, udp(last - 1)]),
    ] {
        let mut net = Net::new(scenario(protocol, client, server, payloads.clone()), Path::default());
        net.record = true;
        net.open(0);
        net.run_for(1000 * MS);
        for (client, port, payload) in [(true, net::CLIENT_PORT, last), (false, net::SERVER_PORT, last - 1)] {
            assert_eq!(net.count(client, Count::FlowsClosed), 1, "{protocol:?}\n{}", net.summary());
            let bytes = format!("payload {payload:05};").into_bytes();
            let sent = net.sent.iter().filter(|(_, from, frame)| *from == port && frame.ends_with(&bytes));
            assert_eq!(sent.count(), 1, "{protocol:?}: payload {payload}");
        }
    }
}

/// A program whose end is the last position, with instructions between that nothing comes of.
fn filled(first: &[Instruction], last: &[Instruction]) -> Vec<Instruction> {
    let between = vec![Instruction::Set { variable: 0, value: 0 }; usize::from(LAST) - first.len() - last.len()];
    [first, &between, last].concat()
}

#[test]
fn a_program_ends_at_the_last_position() {
    const BYTES: u64 = 200;
    let begin = [Instruction::Connect, Instruction::Send { payload: 0, wait: true }];
    let receive = Instruction::Receive { bytes: BYTES, clear: true };
    let end_of_it = Until::Pattern([BYTES as u8 - 2, BYTES as u8 - 1].into());
    let to_end = Instruction::Jump { to: LAST.into(), variable: 0, comparison: Comparison::Equal, value: 0 };
    let early = [&begin[..], &[receive.clone(), to_end]].concat();
    let server = filled(
        &[Instruction::Accept, receive.clone(), Instruction::Send { payload: 0, wait: true }],
        &[Instruction::WaitForPeerClose],
    );
    for (way, client) in [
        ("behind the last instruction", filled(&begin, &[receive])),
        ("behind the end of a message", filled(&begin, &[Instruction::ReceiveUntil(end_of_it)])),
        ("by a jump", filled(&early, &[Instruction::Reset])),
    ] {
        let scenario = scenario(Protocol::Tcp, client, server.clone(), vec![Payload::pattern(BYTES)]);
        let mut net = Net::new(scenario, Path::default());
        net.open(0);
        net.run_for(1000 * MS);
        for client in [true, false] {
            let counted =
                [Count::FlowsClosed, Count::ReceivedDataBytes, Count::FlowsClosedEarly].map(|c| net.count(client, c));
            assert_eq!(counted, [1, BYTES, 0], "{way}\n{}", net.summary());
        }
    }
}
