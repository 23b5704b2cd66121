// SPDX-License-Identifier: Apache-2.0
//! Programs with one thing wrong each; dialogues that end and that do not; and whatever programs there may be.
use super::super::{Comparison, Until, idle};
use super::*;
use Instruction::*;
use proptest::prelude::*;

const PAYLOADS: [u64; 4] = [100, 1, 0, 70_000];

fn program(instructions: Vec<Instruction>) -> Program {
    Program { instructions: instructions.into(), counters: vec!["seen".to_owned()].into() }
}

fn tcp(client: Vec<Instruction>, server: Vec<Instruction>) -> Vec<Fault> {
    both(Protocol::Tcp, client, server)
}

fn both(protocol: Protocol, client: Vec<Instruction>, server: Vec<Instruction>) -> Vec<Fault> {
    let (client, server) = (program(client), program(server));
    check(&[Programs { protocol, client: Some(&client), server: Some(&server) }], &PAYLOADS)
}

/// The faults of a client alone, behind its `Connect`.
fn client(rest: Vec<Instruction>) -> Vec<(usize, Problem)> {
    alone(Protocol::Tcp, [vec![Connect], rest].concat())
}

fn alone(protocol: Protocol, instructions: Vec<Instruction>) -> Vec<(usize, Problem)> {
    let client = program(instructions);
    let faults = check(&[Programs { protocol, client: Some(&client), server: None }], &PAYLOADS);
    faults.into_iter().map(|fault| (fault.at, fault.problem)).collect()
}

fn send(payload: u32) -> Instruction {
    Send { payload, wait: false }
}

fn receive(bytes: u64) -> Instruction {
    Receive { bytes, clear: false }
}

fn messages(messages: u32) -> Instruction {
    ReceiveMessages { messages, clear: false }
}

fn delay(ns: u64) -> Instruction {
    Delay { min_ns: ns, max_ns: ns }
}

fn jump(to: u32) -> Instruction {
    Jump { to, variable: 0, comparison: Comparison::NotEqual, value: 0 }
}

#[test]
fn what_is_wrong_with_an_instruction_is_reported() {
    let pattern = |len| ReceiveUntil(Until::Pattern(vec![b'x'; len].into()));
    let other = |remedy| Problem::OtherProtocol("UDP", remedy);
    let cases = [
        (send(4), Problem::Payload { index: 4, count: 4 }),
        (send(2), Problem::Empty(2)),
        (SendMessage { payload: 0 }, other("send sends bytes")),
        (messages(1), other("receive waits for bytes")),
        (Keepalive(5), other("tunables set the keepalive of TCP")),
        (receive(0), Problem::Nothing),
        (pattern(0), Problem::Pattern(0)),
        (pattern(65), Problem::Pattern(65)),
        (Delay { min_ns: 2, max_ns: 1 }, Problem::Delay { min_ns: 2, max_ns: 1 }),
        (Set { variable: 4, value: 0 }, Problem::Variable(4)),
        (Add { variable: 255, value: 0 }, Problem::Variable(255)),
        (Mark { variable: 4 }, Problem::Variable(4)),
        (Count { counter: 1 }, Problem::Counter { index: 1, count: 1 }),
        (Loop { to: 3, since: 0, duration_ns: 1 }, Problem::Target { to: 3, first: 1, end: 2 }),
        // A connection is opened once.
        (jump(0), Problem::Target { to: 0, first: 1, end: 2 }),
        (Connect, Problem::NotFirst),
        (Accept, Problem::OtherSide(Side::Server)),
        (SwitchTemplate { template: 1 }, Problem::Template(1)),
    ];
    for (instruction, problem) in cases {
        assert_eq!(client(vec![instruction.clone()]), [(1, problem)], "{instruction:?}");
    }
    for good in [send(3), pattern(1), pattern(64), delay(0), Count { counter: 0 }, jump(2), Mark { variable: 3 }] {
        assert_eq!(client(vec![good.clone()]), [], "{good:?}");
    }
}

#[test]
fn udp_has_messages_and_no_connections() {
    let over_tcp = |remedy| Problem::OtherProtocol("TCP", remedy);
    let cases = [
        (Connect, over_tcp("leave it out: UDP has no connections")),
        (send(0), over_tcp("send_message sends a datagram")),
        (receive(1), over_tcp("receive_messages waits for datagrams")),
        (WaitForPeerClose, over_tcp("leave it out: datagrams have no end")),
        (SendMessage { payload: 3 }, Problem::LongMessage { index: 3, len: 70_000 }),
        (SendMessage { payload: 2 }, Problem::Empty(2)),
        (messages(0), Problem::Nothing),
        (Keepalive(0), Problem::Nothing),
    ];
    for (instruction, problem) in cases {
        assert_eq!(alone(Protocol::Udp, vec![instruction.clone()]), [(0, problem)], "{instruction:?}");
    }
    assert_eq!(alone(Protocol::Udp, vec![Keepalive(9), SendMessage { payload: 0 }, messages(1), Close]), []);
}

#[test]
fn tcp_programs_begin_with_their_opening() {
    assert_eq!(alone(Protocol::Tcp, vec![send(0)]), [(0, Problem::First("connect"))]);
    assert_eq!(alone(Protocol::Tcp, vec![]), [(0, Problem::First("connect"))]);
    let faults = tcp(vec![Connect], vec![receive(1)]);
    assert_eq!((faults[0].side, faults[0].at, &faults[0].problem), (Side::Server, 0, &Problem::First("accept")));
}

#[test]
fn instructions_that_nothing_leads_to_are_reported() {
    for end in [Close, Reset, LeaveOpen] {
        assert_eq!(client(vec![end, send(0), send(0)]), [(2, Problem::Unreachable), (3, Problem::Unreachable)]);
    }
    // Jumped over, and jumped to.
    assert_eq!(client(vec![jump(3), Close, send(0)]), []);
}

#[test]
fn loops_take_time_or_count() {
    let set = |value| Set { variable: 0, value };
    let add = |value| Add { variable: 0, value };
    let mark = Mark { variable: 1 };
    let until = |to| Loop { to, since: 1, duration_ns: 1_000_000_000 };
    let message = || SendMessage { payload: 0 };
    let clear = || ReceiveMessages { messages: 1, clear: true };
    let good = [
        vec![set(10), message(), add(-1), jump(1)],
        vec![add(-3), message(), add(1), jump(1)],
        vec![mark.clone(), message(), delay(1), until(1)],
        vec![mark.clone(), message(), clear(), until(1)],
        // Inner and outer, each with a reason to end.
        vec![mark.clone(), set(3), message(), add(-1), jump(2), delay(5), until(1)],
        vec![set(10), add(-1), Jump { to: 1, variable: 0, comparison: Comparison::Greater, value: 0 }],
    ];
    for instructions in good {
        assert_eq!(alone(Protocol::Udp, instructions.clone()), [], "{instructions:?}");
    }
    let bad = [
        (vec![mark.clone(), message(), until(1)], 2, 1),
        // Waits once only: what has come is not taken off.
        (vec![mark.clone(), message(), messages(1), until(1)], 3, 1),
        (vec![set(1), message(), jump(1)], 2, 1),
        // Never exactly 0, or not for a long time.
        (vec![set(9), add(-2), jump(1)], 2, 1),
        (vec![set(10), add(1), jump(1)], 2, 1),
        (vec![set(1_000_000), add(-1), jump(1)], 2, 1),
        // The inner count is not what it was the second time around.
        (vec![set(3), mark.clone(), message(), add(-1), jump(2), delay(5), until(1)], 4, 2),
        (vec![set(3), message(), add(-1), add(1), jump(1)], 4, 1),
        (vec![delay(0), jump(0)], 1, 0),
    ];
    for (instructions, at, to) in bad {
        let found = alone(Protocol::Udp, instructions.clone());
        assert_eq!(found, [(at, Problem::NoTime { to })], "{instructions:?}");
    }
}

#[test]
fn templates_that_go_on_with_each_other_take_time() {
    let switch = |template| SwitchTemplate { template };
    let programs = |first: Vec<Instruction>, second: Vec<Instruction>| {
        let (first, second) = (program(first), program(second));
        let of = |program| Programs { protocol: Protocol::Udp, client: Some(program), server: None };
        let udp = check(&[of(&first), of(&second)], &PAYLOADS);
        udp.into_iter().map(|fault| (fault.template, fault.problem)).collect::<Vec<_>>()
    };
    let message = || SendMessage { payload: 0 };
    assert_eq!(programs(vec![message(), switch(1)], vec![delay(1), message(), switch(0)]), []);
    let found = programs(vec![message(), switch(1)], vec![message(), switch(0)]);
    assert_eq!(found, [(1, Problem::NoTime { to: 0 })]);
    // It may be gone on with at any count.
    let count = vec![jump(3), Set { variable: 1, value: 0 }, message(), Add { variable: 0, value: -1 }, jump(3)];
    assert_eq!(programs(vec![switch(1)], count), [(1, Problem::NoTime { to: 3 })]);
}

#[test]
fn dialogues_that_stand_still_are_reported_where() {
    let never = |wanted, unit, peer, sent| Problem::NeverMet { wanted, unit, peer, sent };
    let cases = [
        (vec![Connect, send(0), receive(1)], vec![Accept, receive(100), send(1)], None),
        (vec![Connect, receive(1), send(0)], vec![Accept, send(1), receive(100), WaitForPeerClose], None),
        // Counted from the start, unless it is cleared.
        (vec![Connect, send(0), send(1)], vec![Accept, receive(100), receive(101)], None),
        (
            vec![Connect, send(0), send(1)],
            vec![Accept, Receive { bytes: 100, clear: true }, receive(2)],
            Some((Side::Server, 2, never(2, "bytes", Side::Client, 1))),
        ),
        (
            vec![Connect, send(0), receive(2)],
            vec![Accept, receive(100), send(1)],
            Some((Side::Client, 2, never(2, "bytes", Side::Server, 1))),
        ),
        (
            vec![Connect, receive(1), send(0)],
            vec![Accept, receive(1), send(1)],
            Some((Side::Client, 1, never(1, "bytes", Side::Server, 0))),
        ),
        (
            vec![Connect, WaitForPeerClose],
            vec![Accept, WaitForPeerClose],
            Some((Side::Client, 1, Problem::NeverClosed(Side::Server))),
        ),
        // A reset ends both, whatever the other waits for.
        (vec![Connect, Reset], vec![Accept, receive(100)], None),
        // It is not known.
        (vec![Connect, LeaveOpen], vec![Accept, receive(100)], None),
        (vec![Connect, ReceiveUntil(Until::HttpMessage)], vec![Accept, receive(100)], None),
    ];
    for (client, server, expected) in cases {
        let found = tcp(client.clone(), server.clone());
        let found: Vec<_> = found.into_iter().map(|fault| (fault.side, fault.at, fault.problem)).collect();
        let first = found.first().cloned();
        assert_eq!((first, found.len()), (expected.clone(), usize::from(expected.is_some())), "{client:?} {server:?}");
    }
}

#[test]
fn a_server_over_udp_comes_with_the_first_message() {
    let message = || SendMessage { payload: 0 };
    assert_eq!(both(Protocol::Udp, vec![message(), messages(1)], vec![messages(1), message()]), []);
    let found = both(Protocol::Udp, vec![messages(1), message()], vec![message(), messages(1)]);
    assert_eq!((found.len(), found[0].side, found[0].at), (1, Side::Client, 0));
    // A side without a peer that sends is absent, and waits for nothing.
    assert_eq!(both(Protocol::Udp, vec![delay(1)], vec![messages(1)]), []);
}

#[test]
fn dialogues_are_followed_through_loops_that_count() {
    let count = |rounds| {
        let step = Add { variable: 0, value: 1 };
        [step, Jump { to: 1, variable: 0, comparison: Comparison::Less, value: rounds }]
    };
    let take = |bytes| Receive { bytes, clear: true };
    let talk = |wanted, of_client, of_server| {
        let client = [vec![Connect, send(0), take(wanted)], count(of_client).to_vec()].concat();
        let server = [vec![Accept, take(100), send(1)], count(of_server).to_vec(), vec![WaitForPeerClose]].concat();
        tcp(client, server).first().map(|fault| (fault.side, fault.at, fault.problem.clone()))
    };
    let never = |wanted, unit, peer, sent| Problem::NeverMet { wanted, unit, peer, sent };
    assert_eq!(talk(1, 1000, 1000), None);
    assert_eq!(talk(2, 3, 3), Some((Side::Client, 2, never(2, "bytes", Side::Server, 1))));
    assert_eq!(talk(1, 4, 3), Some((Side::Client, 2, never(1, "bytes", Side::Server, 0))));
    assert_eq!(talk(1, 3, 4), Some((Side::Server, 1, never(100, "bytes", Side::Client, 0))));
    // Longer than is looked at: nothing is certain.
    assert_eq!(talk(1, 10_000_000, 9_999_999), None);
    // A way that depends on time, or on what is received.
    for unknown in [
        vec![Mark { variable: 1 }, delay(1), Loop { to: 2, since: 1, duration_ns: 5 }],
        vec![Mark { variable: 0 }, delay(1), jump(2)],
        vec![ReceiveUntil(Until::HttpMessage)],
    ] {
        let client = [vec![Connect], unknown, vec![receive(500)]].concat();
        assert_eq!(tcp(client, vec![Accept, send(0), WaitForPeerClose]), []);
    }
    // What comes before it is not.
    let found =
        tcp(vec![Connect, receive(500), ReceiveUntil(Until::HttpMessage)], vec![Accept, send(0), WaitForPeerClose]);
    assert_eq!((found.len(), found[0].side, found[0].at), (1, Side::Client, 1));
}

#[test]
fn receives_that_wait_for_nothing_are_reported() {
    let found = |protocol, instructions: Vec<Instruction>| {
        let client = program(instructions);
        let faults = idle(&[Programs { protocol, client: Some(&client), server: None }]);
        faults.into_iter().map(|fault| (fault.at, fault.problem)).next()
    };
    let of_tcp = |rest: Vec<Instruction>| found(Protocol::Tcp, [vec![Connect], rest].concat());
    let take = |bytes| Receive { bytes, clear: true };
    let waits_not = |counted, unit, on_to| Problem::Idle { counted, unit, on_to };
    assert_eq!(of_tcp(vec![receive(12_000), send(0), receive(6000)]), Some((3, waits_not(12_000, "bytes", 18_000))));
    assert_eq!(of_tcp(vec![take(12_000), send(0), receive(6000)]), None);
    assert_eq!(of_tcp(vec![receive(12_000), send(0), receive(18_000)]), None);
    // It clears, which is something.
    assert_eq!(of_tcp(vec![receive(10), take(10), receive(10)]), None);
    // The second time around.
    let again = [Add { variable: 0, value: 1 }, Jump { to: 1, variable: 0, comparison: Comparison::Less, value: 3 }];
    assert_eq!(of_tcp([vec![send(0), receive(10)], again.to_vec()].concat()), Some((2, waits_not(10, "bytes", 20))));
    assert_eq!(of_tcp([vec![send(0), take(10)], again.to_vec()].concat()), None);
    // A pattern may have taken what was counted.
    assert_eq!(of_tcp(vec![receive(10), ReceiveUntil(Until::HttpMessage), receive(10)]), None);
    let of_udp = found(Protocol::Udp, vec![messages(2), SendMessage { payload: 0 }, messages(1)]);
    assert_eq!(of_udp, Some((2, waits_not(2, "messages", 3))));
}

fn any_instruction() -> impl Strategy<Value = Instruction> {
    let index = || prop_oneof![9 => 0u32..6, 1 => any::<u32>()];
    let variable = || prop_oneof![9 => 0u8..5, 1 => any::<u8>()];
    let value = || prop_oneof![-4i64..5, any::<i64>()];
    prop_oneof![
        Just(Connect),
        Just(Accept),
        (index(), any::<bool>()).prop_map(|(payload, wait)| Send { payload, wait }),
        (0u64..300, any::<bool>()).prop_map(|(bytes, clear)| Receive { bytes, clear }),
        (0usize..70).prop_map(|len| ReceiveUntil(Until::Pattern(vec![0; len].into()))),
        index().prop_map(|payload| SendMessage { payload }),
        (0u32..5, any::<bool>()).prop_map(|(messages, clear)| ReceiveMessages { messages, clear }),
        (0u64..3, 0u64..3).prop_map(|(min_ns, max_ns)| Delay { min_ns, max_ns }),
        prop_oneof![Just(Close), Just(Reset), Just(WaitForPeerClose), Just(LeaveOpen)],
        (0u64..3).prop_map(Keepalive),
        (variable(), value()).prop_map(|(variable, value)| Set { variable, value }),
        (variable(), value()).prop_map(|(variable, value)| Add { variable, value }),
        (index(), variable(), value()).prop_map(|(to, variable, value)| Jump {
            to,
            variable,
            comparison: Comparison::NotEqual,
            value
        }),
        (index(), variable()).prop_map(|(to, since)| Loop { to, since, duration_ns: 5 }),
        variable().prop_map(|variable| Mark { variable }),
        any::<bool>().prop_map(|c| Count { counter: c.into() }),
        index().prop_map(|template| SwitchTemplate { template }),
    ]
}

/// Executes one side's programs with a peer that never lets it wait; false if it stays at one instant for too long.
fn lets_go(templates: &[Programs], start: usize, turns: &mut impl Iterator<Item = bool>) -> bool {
    let (mut template, mut at, mut variables) = (start, 0, [0i64; VARIABLES]);
    let (mut cleared, mut busy, mut total) = (false, 0u64, 0u64);
    while let Some(instruction) = templates[template].client.and_then(|p| p.instructions.get(at)) {
        (busy, total) = (busy + 1, total + 1);
        if busy > 3_000_000 {
            return false;
        }
        if total > 4_000_000 {
            return true;
        }
        at += 1;
        match *instruction {
            Connect | Accept | Send { .. } | ReceiveUntil(_) => busy = 0,
            Receive { clear, .. } | ReceiveMessages { clear, .. } if clear || !cleared => {
                cleared = true;
                busy = if clear { 0 } else { busy };
            }
            Delay { max_ns, .. } if max_ns > 0 => busy = 0,
            Set { variable, value } => variables[usize::from(variable)] = value,
            Add { variable, value } => {
                variables[usize::from(variable)] = variables[usize::from(variable)].wrapping_add(value);
            }
            Mark { variable } => variables[usize::from(variable)] = total as i64,
            Jump { to, variable, comparison, value } if comparison.holds(variables[usize::from(variable)], value) => {
                at = to as usize;
            }
            // Time passes only where something waits.
            Loop { to, .. } if busy > 0 && (busy == total || turns.next().unwrap_or(true)) => at = to as usize,
            Close | Reset | LeaveOpen => return true,
            SwitchTemplate { template: to } => {
                let first = usize::from(templates[template].protocol == Protocol::Tcp);
                (template, at) = (to as usize, first);
            }
            _ => {}
        }
    }
    true
}

/// A client and a server that are in turn, with counts that are right or nearly so.
fn straight() -> impl Strategy<Value = (Vec<Instruction>, Vec<Instruction>)> {
    let turn = (any::<bool>(), 0u32..2, 0u64..3, prop_oneof![8 => Just(0i64), 1 => -3i64..4]);
    (prop::collection::vec(turn, 0..12), 0..5).prop_map(|(turns, end)| {
        let (mut client, mut server) = (vec![Connect], vec![Accept]);
        let mut sent = [0u64; 2];
        for (from_client, payload, wait, error) in turns {
            let (from, to) = if from_client { (&mut client, &mut server) } else { (&mut server, &mut client) };
            let sent = &mut sent[usize::from(from_client)];
            *sent += PAYLOADS[payload as usize];
            from.extend([delay(wait), send(payload)]);
            to.push(receive(sent.saturating_add_signed(error).max(1)));
        }
        match end {
            0 => client.push(WaitForPeerClose),
            1 => server.push(WaitForPeerClose),
            2 => [&mut client, &mut server].into_iter().for_each(|side| side.push(WaitForPeerClose)),
            3 => client.push(Reset),
            _ => server.push(Close),
        }
        (client, server)
    })
}

/// Whether both come to their end: in each iteration, a side that can execute one instruction does.
fn ends(client: &[Instruction], server: &[Instruction]) -> bool {
    let (sides, mut at, mut sent) = ([client, server], [0, 0], [0u64; 2]);
    loop {
        let mut moved = false;
        for side in 0..2 {
            let Some(instruction) = sides[side].get(at[side]) else { continue };
            let peer = 1 - side;
            let peer_ended = at[peer] == sides[peer].len();
            match instruction {
                Receive { bytes, .. } if sent[peer] < *bytes => continue,
                WaitForPeerClose if !peer_ended => continue,
                Send { payload, .. } => sent[side] += PAYLOADS[*payload as usize],
                // Whatever the other does.
                Reset => return true,
                _ => {}
            }
            at[side] += 1;
            moved = true;
        }
        if !moved {
            return at == [client.len(), server.len()];
        }
    }
}

proptest! {
    #[test]
    fn no_program_is_too_odd_to_be_checked(
        templates in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(any_instruction(), 0..12), prop::collection::vec(any_instruction(), 0..12)),
            1..3,
        ),
        opened in any::<bool>(),
        turns in prop::collection::vec(any::<bool>(), 0..64),
    ) {
        let held: Vec<_> = templates.into_iter().map(|(tcp, client, server)| {
            let open = |first: Instruction, rest: Vec<Instruction>| {
                program(if tcp && opened { [vec![first], rest].concat() } else { rest })
            };
            let protocol = if tcp { Protocol::Tcp } else { Protocol::Udp };
            (protocol, open(Connect, client), open(Accept, server))
        }).collect();
        let templates: Vec<_> = held.iter()
            .map(|(protocol, client, server)| Programs { protocol: *protocol, client: Some(client), server: Some(server) })
            .collect();
        let faults = check(&templates, &PAYLOADS);
        for fault in &faults {
            let program = templates[fault.template].of(fault.side).expect("it has one");
            prop_assert!(fault.at < program.instructions.len().max(1), "{}", fault);
        }
        if faults.is_empty() {
            let mut turns = turns.into_iter();
            prop_assert!((0..templates.len()).all(|start| lets_go(&templates, start, &mut turns)), "{held:?}");
        }
    }

    #[test]
    fn loops_that_are_taken_let_go_of_the_worker(
        instructions in prop::collection::vec(prop_oneof![
            (-3i64..4).prop_map(|value| Set { variable: 0, value }),
            (-2i64..3).prop_map(|value| Add { variable: 0, value }),
            (0u32..8).prop_map(jump),
            (0u32..8).prop_map(|to| Loop { to, since: 1, duration_ns: 5 }),
            (0u64..2).prop_map(delay),
            Just(SendMessage { payload: 0 }),
        ], 8..9),
        turns in prop::collection::vec(any::<bool>(), 0..64),
    ) {
        let held = program(instructions);
        let templates = [Programs { protocol: Protocol::Udp, client: Some(&held), server: None }];
        if check(&templates, &PAYLOADS).is_empty() {
            prop_assert!(lets_go(&templates, 0, &mut turns.into_iter()), "{held:?}");
        }
    }

    #[test]
    fn straight_dialogues_are_taken_if_and_only_if_they_end((client, server) in straight()) {
        let found = tcp(client.clone(), server.clone());
        prop_assert_eq!(found.is_empty(), ends(&client, &server), "{:?} {:?} {:?}", client, server, found);
    }
}
