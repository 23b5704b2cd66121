// SPDX-License-Identifier: Apache-2.0
//! Captures made by hand: what becomes a session, and what is refused at which packet.
use super::*;
use crate::reader::tests::pcap;
use proptest::prelude::*;

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;
const RST: u8 = 4;
const MS: u64 = 1_000_000;

/// Ethernet, IPv4 from .1 to .2 or back, and what it carries.
fn ipv4(from_client: bool, protocol: u8, carried: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    let len = (20 + carried.len()) as u16;
    let (source, destination) = if from_client { (1, 2) } else { (2, 1) };
    frame.extend([0x45, 0, (len >> 8) as u8, len as u8, 0, 1, 0, 0, 64, protocol, 0, 0]);
    frame.extend([10, 0, 0, source, 10, 0, 0, destination]);
    frame.extend(carried);
    // Padding of short frames is no payload.
    frame.resize(frame.len().max(60), 0xee);
    frame
}

/// The same behind two VLAN tags, over IPv6.
fn ipv6(from_client: bool, protocol: u8, carried: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x86, 0xdd];
    let len = carried.len() as u16;
    let (source, destination) = if from_client { (1, 2) } else { (2, 1) };
    frame.extend([0x60, 0, 0, 0, (len >> 8) as u8, len as u8, protocol, 64]);
    frame.extend([&[0xfd; 15][..], &[source], &[0xfd; 15], &[destination]].concat());
    frame.extend(carried);
    frame
}

fn ports(from_client: bool) -> [u8; 4] {
    if from_client { [0x9c, 0x40, 0, 80] } else { [0, 80, 0x9c, 0x40] }
}

fn segment(from_client: bool, flags: u8, sequence: u32, acknowledgement: u32, payload: &[u8]) -> Vec<u8> {
    let mut tcp = ports(from_client).to_vec();
    tcp.extend(sequence.to_be_bytes());
    tcp.extend(acknowledgement.to_be_bytes());
    // With four bytes of options.
    tcp.extend([0x60, flags, 0x20, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
    tcp.extend(payload);
    tcp
}

fn tcp(from_client: bool, flags: u8, sequence: u32, acknowledgement: u32, payload: &[u8]) -> Vec<u8> {
    ipv4(from_client, 6, &segment(from_client, flags, sequence, acknowledgement, payload))
}

fn udp(from_client: bool, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len()) as u16;
    ipv4(from_client, 17, &[&ports(from_client)[..], &len.to_be_bytes(), &[0, 0], payload].concat())
}

/// SYN, SYN+ACK and ACK: the client's first byte has number 1, the server's `SERVER`, so that it goes around soon.
const SERVER: u32 = 0xffff_fffe;

fn handshake() -> Vec<Vec<u8>> {
    vec![
        tcp(true, SYN, 0, 0, &[]),
        tcp(false, SYN | ACK, SERVER.wrapping_sub(1), 1, &[]),
        tcp(true, ACK, 1, SERVER, &[]),
    ]
}

fn client(at: u32, payload: &[u8]) -> Vec<u8> {
    tcp(true, ACK, 1 + at, SERVER, payload)
}

fn server(at: u32, payload: &[u8]) -> Vec<u8> {
    tcp(false, ACK, SERVER.wrapping_add(at), 1, payload)
}

fn read(frames: &[Vec<u8>]) -> Result<Session, ReadError> {
    let packets: Vec<_> = frames.iter().enumerate().map(|(n, frame)| (n as u64 * MS, frame.clone())).collect();
    Session::read(&pcap(&packets)[..], 1500)
}

fn opened(rest: &[Vec<u8>]) -> Result<Session, ReadError> {
    read(&[&handshake()[..], rest].concat())
}

/// Which side sent what.
fn dialogue(session: &Session) -> Vec<(Sender, String)> {
    session.dialogue.iter().map(|s| (s.by, String::from_utf8_lossy(&s.bytes).into_owned())).collect()
}

fn message(result: Result<Session, ReadError>) -> String {
    result.expect_err("it is refused").to_string()
}

use Sender::{Client as C, Server as S};

#[test]
fn sides_take_turns_and_what_one_says_in_a_row_is_one() {
    let session = opened(&[
        client(0, b"GET "),
        client(4, b"/ "),
        server(0, b"20"),
        server(2, b"0 OK"),
        client(6, b"bye"),
        tcp(true, FIN | ACK, 10, SERVER.wrapping_add(6), &[]),
        tcp(false, FIN | ACK, SERVER.wrapping_add(6), 11, &[]),
        tcp(true, ACK, 11, SERVER.wrapping_add(7), &[]),
    ])
    .unwrap();
    assert_eq!((session.transport, session.destination_port, session.end), (Transport::Tcp, 80, End::Closed(C)));
    assert_eq!(dialogue(&session), [(C, "GET / ".into()), (S, "200 OK".into()), (C, "bye".into())]);
    assert_eq!(session.dialogue.iter().map(|s| s.packet).collect::<Vec<_>>(), [4, 6, 8]);
}

#[test]
fn what_is_repeated_or_out_of_order_is_put_right() {
    let session = opened(&[
        handshake()[0].clone(),
        client(2, b"cd"),
        client(4, b"ef"),
        client(0, b"abc"),
        client(0, b"abcdef"),
        client(5, b"fgh"),
        // A keepalive probe.
        client(7, b"\0"),
        server(4, b"4567"),
        server(0, b"0123"),
    ])
    .unwrap();
    assert_eq!(dialogue(&session), [(C, "abcdefgh".into()), (S, "01234567".into())]);
    assert_eq!(session.end, End::Open);
}

#[test]
fn the_way_it_ends_is_kept() {
    let fin = |from_client, at| {
        if from_client {
            tcp(true, FIN | ACK, 1 + at, SERVER, &[])
        } else {
            tcp(false, FIN | ACK, SERVER.wrapping_add(at), 1, &[])
        }
    };
    let rst = |from_client| tcp(from_client, RST, 77, 0, &[]);
    let cases: [(Vec<Vec<u8>>, End); 8] = [
        (vec![], End::Open),
        (vec![fin(false, 0)], End::Closed(S)),
        (vec![fin(false, 0), fin(true, 1)], End::Closed(S)),
        (vec![rst(true)], End::Reset { by: C, closed: false }),
        (vec![fin(false, 0), rst(true)], End::Reset { by: C, closed: true }),
        // It closed already; what follows is its stack's answer.
        (vec![fin(true, 1), rst(true)], End::Closed(C)),
        (vec![fin(true, 1), fin(false, 0), rst(false)], End::Closed(C)),
        // What is in flight when a reset comes is not received.
        (vec![rst(true), server(0, b"late")], End::Reset { by: C, closed: false }),
    ];
    for (rest, end) in cases {
        let session = opened(&[vec![client(0, b"x")], rest].concat()).unwrap();
        assert_eq!((session.end, dialogue(&session)), (end, vec![(C, "x".into())]));
    }
    // The probe behind the end has no data.
    let session = opened(&[client(0, b"x"), fin(true, 1), client(1, b"\0"), fin(false, 0)]).unwrap();
    assert_eq!((session.end, dialogue(&session)), (End::Closed(C), vec![(C, "x".into())]));
}

#[test]
fn messages_stay_apart_and_keep_their_times() {
    let frames = [
        (0, udp(true, b"who")),
        (5 * MS, udp(false, b"me")),
        (7 * MS, udp(false, b"and me")),
        (6 * MS, udp(true, b"!")),
    ];
    let session = Session::read(&pcap(&frames)[..], 1500).unwrap();
    assert_eq!((session.transport, session.destination_port, session.end), (Transport::Udp, 80, End::Open));
    assert_eq!(dialogue(&session), [(C, "who".into()), (S, "me".into()), (S, "and me".into()), (C, "!".into())]);
    assert_eq!(session.dialogue.iter().map(|s| s.gap_ns).collect::<Vec<_>>(), [0, 5 * MS, 2 * MS, 0]);
}

#[test]
fn ipv6_and_tags_are_looked_through() {
    let frames: Vec<_> =
        [(true, SYN, 5, 0, ""), (false, SYN | ACK, 8, 6, ""), (true, ACK, 6, 9, "hi"), (false, ACK, 9, 8, "ho")]
            .map(|(from_client, flags, at, ack, text)| {
                ipv6(from_client, 6, &segment(from_client, flags, at, ack, text.as_bytes()))
            })
            .into();
    assert_eq!(dialogue(&read(&frames).unwrap()), [(C, "hi".into()), (S, "ho".into())]);
}

#[test]
fn what_is_no_whole_session_is_refused_at_its_packet() {
    let other = ipv4(true, 6, &[&[0x9c, 0x41, 0, 80][..], &segment(true, SYN, 9, 0, &[])[4..]].concat());
    let mut fragment = client(0, b"x");
    fragment[20] = 0x20;
    let mut short = client(0, b"x");
    short[17] = 200;
    let mut no_length = client(0, b"x");
    no_length[16..18].copy_from_slice(&[0, 0]);
    let mut broken = client(0, b"x");
    broken[14 + 20 + 12] = 0xf0;
    let mut icmp = client(0, b"x");
    icmp[23] = 1;
    let mut arp = client(0, b"x");
    arp[12..14].copy_from_slice(&[8, 6]);
    let acked = tcp(false, ACK, SERVER, 1 + 9, &[]);
    let fin = tcp(true, FIN | ACK, 1 + 3, SERVER, &[]);
    let cases = [
        (
            opened(&[other]),
            "packet 4: its pair of ports is not of the session that packet 1 begins; a capture must have one session only: filter it",
        ),
        (opened(&[udp(true, b"x")]), "packet 4: its transport is not of the session that packet 1 begins"),
        (opened(&[tcp(true, SYN, 7, 0, &[])]), "packet 4: it opens a second connection between those of packet 1"),
        (
            opened(&[client(0, b"a"), client(3, b"b"), client(4, b"c")]),
            "packet 5: 2 bytes of the client in front of it are missing",
        ),
        (opened(&[fin]), "packet 4: 3 bytes of the client in front of it are missing"),
        (opened(&[client(0, b"ab"), acked]), "packet 5: it acknowledges 7 bytes of the client that are missing"),
        (
            opened(&[tcp(true, FIN | ACK, 1, SERVER, &[]), client(0, b"ab")]),
            "packet 5: it has bytes behind the FIN of packet 4",
        ),
        (opened(&[client(0, b"ab"), tcp(true, FIN | ACK, 2, SERVER, &[])]), "packet 5: its FIN is in front of bytes"),
        (opened(&[fragment]), "packet 4: it is a fragment"),
        (opened(&[short]), "packet 4: its IP header says more bytes than were captured"),
        (opened(&[no_length]), "packet 4: its IP header says no length"),
        (opened(&[broken]), "packet 4: its header says lengths that are not possible"),
        (opened(&[icmp]), "packet 4: it is neither TCP nor UDP"),
        (opened(&[arp]), "packet 4: it is no IP packet"),
        (read(&[client(0, b"x")]), "packet 1: the session begins without SYN"),
        (read(&[tcp(true, SYN | ACK, 0, 0, &[])]), "packet 1: the session begins without SYN"),
        (read(&[handshake()[0].clone(), client(0, b"x")]), "packet 2: there is no SYN+ACK of the server"),
        (read(&[handshake()[0].clone(), tcp(false, SYN, 0, 0, &[])]), "packet 2: both sides open"),
        (
            read(&[handshake()[0].clone(), tcp(false, SYN | ACK, 0, 9, &[])]),
            "packet 2: its SYN+ACK answers another SYN",
        ),
        (read(&handshake()[..1]), "packet 1: its SYN was never answered"),
        (read(&[]), "it has no packets"),
        (read(&[udp(true, b"x"), udp(false, b"")]), "packet 2: its message is empty"),
        (
            read(&[udp(true, &[1; 1473])]),
            "packet 1: it has 1501 bytes from its IP header on; messages over UDP must fit an MTU of 1500",
        ),
    ];
    for (result, words) in cases {
        let message = message(result);
        assert!(message.starts_with(words), "{message:?} does not start with {words:?}");
    }
    assert_eq!(read(&[udp(true, &[1; 1472])]).unwrap().dialogue.len(), 1);
    // Segments may be as long as offloads made them.
    assert_eq!(opened(&[client(0, &[7; 40_000])]).unwrap().dialogue[0].bytes.len(), 40_000);
}

proptest! {
    #[test]
    fn streams_come_out_as_they_went_in_whatever_the_order_of_segments(
        turns in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 1..200)), 1..6),
        cuts in prop::collection::vec(1usize..60, 1..8),
        order in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..10),
        lose in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (mut frames, mut sent, mut expected) = (handshake(), [0u32; 2], Vec::<(Sender, Vec<u8>)>::new());
        let mut cut = cuts.iter().cycle();
        let mut lost = false;
        for (from_client, bytes) in turns {
            let start = frames.len();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let len = (*cut.next().unwrap()).min(rest.len());
                let at = sent[usize::from(from_client)];
                frames.push(if from_client { client(at, &rest[..len]) } else { server(at, &rest[..len]) });
                sent[usize::from(from_client)] += len as u32;
                rest = &rest[len..];
            }
            match expected.last_mut() {
                Some((by, dialogue)) if (*by == C) == from_client => dialogue.extend_from_slice(&bytes),
                _ => expected.push((if from_client { C } else { S }, bytes.clone())),
            }
            // Within a turn: swapped and repeated.
            let turn = frames.len() - start;
            for (index, repeat) in &order {
                let (a, b) = (start + index.index(turn), start + index.index(turn.div_ceil(2)));
                if *repeat { frames.push(frames[a].clone()) } else { frames.swap(a, b) }
            }
            if let Some(lose) = lose.filter(|_| order.is_empty() && !lost) {
                frames.remove(start + lose.index(turn));
                lost = true;
            }
        }
        // What was received.
        frames.push(tcp(true, ACK, 1 + sent[1], SERVER.wrapping_add(sent[0]), &[]));
        frames.push(tcp(false, ACK, SERVER.wrapping_add(sent[0]), 1 + sent[1], &[]));
        match read(&frames) {
            Ok(session) => {
                prop_assert!(!lost);
                let found: Vec<_> = session.dialogue.into_iter().map(|s| (s.by, s.bytes)).collect();
                prop_assert_eq!(found, expected);
            }
            Err(error) => prop_assert!(lost, "{}", error),
        }
    }

    #[test]
    fn any_change_is_survived(
        over_tcp: bool,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut: prop::sample::Index,
    ) {
        let frames = if over_tcp {
            [handshake(), vec![client(0, b"hello"), server(0, b"hello too"), tcp(true, FIN | ACK, 6, SERVER, &[])]].concat()
        } else {
            vec![udp(true, b"hello"), udp(false, b"hello too"), udp(false, b"and again")]
        };
        let packets: Vec<_> = frames.into_iter().map(|frame| (0, frame)).collect();
        let mut file = pcap(&packets);
        for (at, byte) in changes {
            let at = 24 + at.index(file.len() - 24);
            file[at] = byte;
        }
        file.truncate(file.len() - cut.index(60));
        if let Ok(session) = Session::read(&file[..], 1500) {
            prop_assert!(session.dialogue.iter().all(|dialogue| !dialogue.bytes.is_empty() && dialogue.packet > 0));
        }
    }
}
