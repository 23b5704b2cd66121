// SPDX-License-Identifier: Apache-2.0
//! A port pings a station, in virtual time: replies with their round trips, none in time, changed ones, and a silent next hop.
use std::net::IpAddr;

use spate_neighbour::{Config, Event, Interface, MAX_PINGS, Output, Ping, PingError, PingEvent, Prefix, STAMP};

const MS: u64 = 1_000_000;
const EAST: [u8; 6] = [2, 0, 0, 0, 0, 1];
const WEST: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// One way.
const DELAY_NS: u64 = 2 * MS;

fn interface(mac: [u8; 6], addresses: &[&str]) -> Interface {
    configured(mac, addresses, Config::default())
}

fn configured(mac: [u8; 6], addresses: &[&str], config: Config) -> Interface {
    let addresses = addresses.iter().map(|address| address.parse::<Prefix>().unwrap()).collect();
    Interface::new(mac, Config { addresses, ..config }, 0).unwrap()
}

fn ping(to: &str, count: u64) -> Ping {
    let to: IpAddr = to.parse().unwrap();
    Ping { to, from: None, count, interval_ns: 100 * MS, timeout_ns: 50 * MS, size: 56, hop_limit: 64 }
}

/// What a worker does when a frame leaves.
fn stamped(mut frame: Vec<u8>, at: usize, now_ns: u64) -> Vec<u8> {
    frame[at..at + STAMP / 2].copy_from_slice(&now_ns.to_be_bytes());
    frame[at + STAMP / 2..at + STAMP].copy_from_slice(&(!now_ns).to_be_bytes());
    frame
}

/// What becomes of ping 7 of `east` in a time, in steps of 1 ms. Its requests leave at once; `path` changes or drops replies of `west`.
fn talk(
    east: &mut Interface,
    west: &mut Interface,
    for_ms: u64,
    mut path: impl FnMut(usize, Vec<u8>) -> Option<Vec<u8>>,
) -> Vec<PingEvent> {
    let mut events = Vec::new();
    let (mut to_west, mut to_east) = (Vec::<(u64, Vec<u8>)>::new(), Vec::<(u64, Vec<u8>)>::new());
    let mut replies = 0;
    for now in (0..for_ms).map(|ms| ms * MS) {
        let mut output = Output::default();
        for (_, frame) in to_east.extract_if(.., |(at, _)| *at == now) {
            // It is looked at later than it arrived.
            east.receive_arrived(&frame, now, now + MS / 2, &mut output);
        }
        east.poll(now, &mut output);
        events.extend(output.events.into_iter().filter_map(|event| match event {
            Event::Ping(7, event) => Some(event),
            _ => None,
        }));
        to_west.extend(output.frames.into_iter().map(|frame| (now + DELAY_NS, frame)));
        to_west.extend(output.stamped.into_iter().map(|(frame, at)| (now + DELAY_NS, stamped(frame, at, now))));
        let mut output = Output::default();
        for (_, frame) in to_west.extract_if(.., |(at, _)| *at == now) {
            west.receive(&frame, now, &mut output);
        }
        west.poll(now, &mut output);
        for frame in output.frames {
            // Address resolution passes.
            let at = if frame[12..14] == [0x81, 0] { 16 } else { 12 };
            let is_echo = frame[at..at + 2] == [8, 0] || frame[at..at + 2] == [0x86, 0xdd] && frame[at + 42] == 129;
            let frame = if is_echo { path(replies, frame) } else { Some(frame) };
            replies += usize::from(is_echo);
            to_east.extend(frame.map(|frame| (now + DELAY_NS, frame)));
        }
    }
    events
}

fn reply(sequence: u64) -> PingEvent {
    PingEvent::Reply { sequence, round_trip_ns: 2 * DELAY_NS, hop_limit: 64, corrupt: false }
}

#[test]
fn replies_have_the_round_trip_from_when_the_request_left() {
    for (own, other, to) in [("198.18.0.1/24", "198.18.0.2/24", "198.18.0.2"), ("fd00::1/64", "fd00::2/64", "fd00::2")]
    {
        let [mut east, mut west] = [interface(EAST, &[own]), interface(WEST, &[other])];
        east.ping(7, ping(to, 3), 0).unwrap();
        let events = talk(&mut east, &mut west, 1000, |_, frame| Some(frame));
        let from = own.split_once('/').unwrap().0.parse().unwrap();
        assert_eq!(events, [PingEvent::Started(from, WEST), reply(0), reply(1), reply(2), PingEvent::Over], "{to}");
    }
}

#[test]
fn requests_of_a_port_in_a_vlan_are_stamped_behind_the_tag() {
    let vlan = || Config { vlan: Some(100), ..Config::default() };
    for (own, other, to) in [("198.18.0.1/24", "198.18.0.2/24", "198.18.0.2"), ("fd00::1/64", "fd00::2/64", "fd00::2")]
    {
        let [mut east, mut west] = [configured(EAST, &[own], vlan()), configured(WEST, &[other], vlan())];
        east.ping(7, ping(to, 2), 0).unwrap();
        let events = talk(&mut east, &mut west, 1000, |_, frame| Some(frame));
        assert_eq!(events[1..], [reply(0), reply(1), PingEvent::Over], "{to}");
    }
}

#[test]
fn a_ping_beyond_a_link_local_gateway_comes_from_an_address_that_is_forwarded() {
    let gateway = Config { gateway_v6: Some("fe80::ff:fe00:2".parse().unwrap()), ..Config::default() };
    let mut east = configured(EAST, &["fd00::1/64"], gateway);
    let mut west = interface(WEST, &["fd00::2/64"]);
    east.ping(7, ping("2001:db8::9", 1), 0).unwrap();
    let from: IpAddr = "fd00::1".parse().unwrap();
    let events = talk(&mut east, &mut west, 100, |_, frame| Some(frame));
    assert_eq!(events[0], PingEvent::Started(from, WEST));
    let link_local = Ping { from: Some("fe80::ff:fe00:1".parse().unwrap()), ..ping("2001:db8::9", 1) };
    assert!(matches!(east.ping(8, link_local, 0), Err(PingError::StaysOnLink(..))));
}

#[test]
fn requests_that_are_late_are_not_sent_one_behind_the_other() {
    // The next hop is found 30 ms after the first request is due, three intervals later.
    let [mut east, mut west] = [interface(EAST, &["198.18.0.1/24"]), interface(WEST, &["198.18.0.2/24"])];
    east.ping(7, Ping { interval_ns: 10 * MS, ..ping("198.18.0.2", 3) }, 0).unwrap();
    let mut output = Output::default();
    east.poll(0, &mut output);
    let mut answer = Output::default();
    for frame in &output.frames {
        west.receive(frame, 0, &mut answer);
    }
    for frame in &answer.frames {
        east.receive(frame, 30 * MS, &mut output);
    }
    let mut sent = Vec::new();
    for now in 30 * 4..80 * 4 {
        let mut output = Output::default();
        east.poll(now * MS / 4, &mut output);
        sent.extend(output.stamped.iter().map(|_| now / 4));
    }
    assert_eq!(sent, [30, 40, 50]);
}

#[test]
fn a_sweep_of_silent_stations_leaves_nothing_behind() {
    let mut east = interface(EAST, &["10.0.0.1/8"]);
    for n in 0..5000_u32 {
        let to = std::net::Ipv4Addr::from(0x0a01_0000 + n).to_string();
        east.ping(u64::from(n), ping(&to, 1), 0).unwrap();
        east.stop_ping(u64::from(n));
    }
    // Those that end by themselves, too.
    east.ping(7, ping("10.2.0.1", 1), 0).unwrap();
    for ms in 0..4000 {
        east.poll(ms * MS, &mut Output::default());
    }
    assert_eq!(east.neighbour("10.2.0.1".parse().unwrap()), None);
}

#[test]
fn a_next_hop_that_answers_no_more_does_not_end_a_ping() {
    let [mut east, mut west] = [interface(EAST, &["198.18.0.1/24"]), interface(WEST, &["198.18.0.2/24"])];
    east.ping(7, Ping { interval_ns: 10_000 * MS, ..ping("198.18.0.2", 6) }, 0).unwrap();
    let mut events = talk(&mut east, &mut west, 10, |_, frame| Some(frame));
    for ms in 10..60_000 {
        let mut output = Output::default();
        east.poll(ms * MS, &mut output);
        events.extend(output.events.into_iter().filter_map(|event| match event {
            Event::Ping(7, event) => Some(event),
            _ => None,
        }));
    }
    let silence = (1..6).map(|sequence| PingEvent::Timeout { sequence });
    assert!(events[2..].iter().eq(silence.chain([PingEvent::Over]).collect::<Vec<_>>().iter()), "{events:?}");
}

#[test]
fn a_reply_that_is_lost_or_changed_is_reported_as_that() {
    let [mut east, mut west] = [interface(EAST, &["198.18.0.1/24"]), interface(WEST, &["198.18.0.2/24"])];
    east.ping(7, ping("198.18.0.2", 3), 0).unwrap();
    let events = talk(&mut east, &mut west, 1000, |reply, mut frame| match reply {
        0 => None,
        1 => {
            // Two bytes change places, so that the checksum stays right.
            let len = frame.len();
            frame.swap(len - 1, len - 3);
            Some(frame)
        }
        _ => Some(frame),
    });
    let corrupt = PingEvent::Reply { sequence: 1, round_trip_ns: 0, hop_limit: 64, corrupt: true };
    assert_eq!(events[1..], [PingEvent::Timeout { sequence: 0 }, corrupt, reply(2), PingEvent::Over]);
}

#[test]
fn a_silent_next_hop_is_reported_once_and_ends_the_ping() {
    let [mut east, mut nobody] = [interface(EAST, &["198.18.0.1/24"]), interface(WEST, &["198.18.9.2/24"])];
    east.ping(7, ping("198.18.0.2", 3), 0).unwrap();
    let events = talk(&mut east, &mut nobody, 6000, |_, frame| Some(frame));
    assert!(matches!(&events[..], [PingEvent::NoNextHop(problem)] if problem.contains("198.18.0.2")), "{events:?}");
}

#[test]
fn what_cannot_be_pinged_is_refused() {
    let mut east = interface(EAST, &["198.18.0.1/24", "fd00::1/64"]);
    let mut refused = |ping: Ping| east.ping(1, ping, 0).unwrap_err();
    let address = |text: &str| -> IpAddr { text.parse().unwrap() };
    assert_eq!(refused(ping("198.18.0.1", 1)), PingError::Own(address("198.18.0.1")));
    for group in ["198.18.0.255", "224.0.0.1", "255.255.255.255", "ff02::1", "0.0.0.0"] {
        assert_eq!(refused(ping(group, 1)), PingError::NoStation(address(group)), "{group}");
    }
    assert!(matches!(refused(ping("192.0.2.1", 1)), PingError::NoRoute(_)));
    let other = refused(Ping { from: Some(address("198.18.0.9")), ..ping("198.18.0.2", 1) }).to_string();
    assert!(other.contains("198.18.0.1, fd00::1"), "{other}");
    let other_family = Ping { from: Some(address("fd00::1")), ..ping("198.18.0.2", 1) };
    assert!(matches!(refused(other_family), PingError::NotOwn(..)));
    for id in 0..MAX_PINGS as u64 {
        east.ping(id, ping("198.18.0.2", 0), 0).unwrap();
    }
    assert_eq!(east.ping(99, ping("198.18.0.2", 0), 0), Err(PingError::TooMany));
    east.stop_ping(3);
    assert_eq!(east.ping(99, ping("198.18.0.2", 0), 0), Ok(()));
}
