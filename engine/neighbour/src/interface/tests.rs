// SPDX-License-Identifier: Apache-2.0
use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::{
    Event,
    address::{ALL_NODES, BROADCAST, group_mac, link_local},
    message::Station,
    stations::membership::OWN,
};
use proptest::prelude::*;
use spate_net::{
    Address,
    vlan::{SERVICE, Tag, Tags},
};

const EAST: Mac = [2, 0, 0, 0, 0, 1];
const WEST: Mac = [2, 0, 0, 0, 0, 2];
const SECOND: u64 = 1_000_000_000;

fn config(addresses: &[&str], gateways: &[&str], vlan: Option<u16>) -> Config {
    let mut config = Config { addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(), ..Config::default() };
    for gateway in gateways {
        match gateway.parse().unwrap() {
            IpAddr::V4(gateway) => config.gateway_v4 = Some(gateway),
            IpAddr::V6(gateway) => config.gateway_v6 = Some(gateway),
        }
    }
    Config { vlan, ..config }
}

fn interface(mac: Mac, addresses: &[&str], gateways: &[&str]) -> Interface {
    Interface::new(mac, config(addresses, gateways, None), 0).unwrap()
}

/// Exchanges frames until neither side sends any more; a side sees what its `Interest` lets through.
fn talk(a: &mut Interface, b: &mut Interface, now: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut under_way = Vec::new();
    for turn in 0..20 {
        let side = if turn % 2 == 0 { &mut *a } else { &mut *b };
        let mut output = Output::default();
        side.poll(now, &mut output);
        let interest = side.interest();
        for frame in under_way.drain(..).filter(|frame: &Vec<u8>| interest.concerns(frame)) {
            side.receive(&frame, now, &mut output);
        }
        under_way = output.frames;
        events.append(&mut output.events);
    }
    events
}

fn untagged(address: IpAddr) -> Target {
    Target { tags: Tags::NONE, address }
}

#[test]
fn two_stations_find_each_other_by_arp_and_neighbour_discovery() {
    for (east, west, target) in [
        ("198.18.0.1/24", "198.18.0.2/24", "198.18.0.2"),
        ("2001:db8::1/64", "2001:db8::2/64", "2001:db8::2"),
        ("2001:db8::1/64", "2001:db8::2/64", "fe80::ff:fe00:2"),
    ] {
        for vlan in [None, Some(100)] {
            let mut a = Interface::new(EAST, config(&[east], &[target], vlan), 0).unwrap();
            let mut b = Interface::new(WEST, config(&[west], &[], vlan), 0).unwrap();
            let target: IpAddr = target.parse().unwrap();
            let found = Target { tags: vlan.into(), address: target };
            assert_eq!(talk(&mut a, &mut b, 0), [Event::Found(found, WEST)]);
            let found = a.neighbour(target).unwrap();
            assert_eq!((found.mac, found.settled, found.problem), (Some(WEST), true, None));
            // It answers the question whether it is still there.
            assert_eq!(talk(&mut a, &mut b, 40 * SECOND), []);
            assert_eq!(a.neighbour(target).unwrap().problem, None);
        }
    }
}

#[test]
fn stations_of_different_vlans_do_not_hear_each_other() {
    let target: IpAddr = "198.18.0.2".parse().unwrap();
    for (mine, theirs) in [(None, Some(7)), (Some(7), None), (Some(7), Some(8))] {
        let mut a = Interface::new(EAST, config(&["198.18.0.1/24"], &["198.18.0.2"], mine), 0).unwrap();
        let mut b = Interface::new(WEST, config(&["198.18.0.2/24"], &[], theirs), 0).unwrap();
        talk(&mut a, &mut b, 0);
        assert_eq!(a.neighbour(target).unwrap().mac, None);
    }
}

#[test]
fn addresses_are_announced_three_times_and_a_second_owner_is_reported() {
    let mut a = interface(EAST, &["198.18.0.1/24", "2001:db8::1/64"], &[]);
    let mut announced = 0;
    while let Some(at) = a.next_ns() {
        let mut output = Output::default();
        a.poll(at, &mut output);
        // IPv4, IPv6 and link-local.
        assert_eq!(output.frames.len(), 3);
        assert!(output.frames.iter().all(|frame| frame[0] & 1 == 1 && frame[6..12] == EAST));
        announced += 1;
    }
    assert_eq!(announced, 3);
    let mut other = interface(WEST, &["198.18.0.1/24"], &[]);
    let conflict = Event::Conflict("198.18.0.1".parse().unwrap(), WEST);
    assert!(talk(&mut a, &mut other, 10 * SECOND).contains(&conflict));
}

#[test]
fn a_neighbour_that_moves_is_followed_and_reported() {
    let gateway: IpAddr = "198.18.0.2".parse().unwrap();
    let mut a = interface(EAST, &["198.18.0.1/24"], &["198.18.0.2"]);
    talk(&mut a, &mut interface(WEST, &["198.18.0.2/24"], &[]), 0);
    let mut new = Interface::new([2; 6], config(&["198.18.0.2/24"], &[], None), SECOND).unwrap();
    let events = talk(&mut a, &mut new, SECOND);
    assert_eq!(events[0], Event::Moved { target: untagged(gateway), from: WEST, to: [2; 6] });
    assert_eq!(a.neighbour(gateway).unwrap().mac, Some([2; 6]));
}

/// By ARP announcements, requests and replies, and by advertisements with the flag to override; not by one without it.
#[test]
fn every_message_of_another_station_with_the_address_says_that_the_neighbour_has_moved() {
    let new = Station { mac: [2; 6], tags: Tags::NONE };
    let (own, gateway) = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2));
    let (own_v6, gateway_v6): (Ipv6Addr, Ipv6Addr) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
    let to_all = group_mac(ALL_NODES.into());
    let unflagged = {
        let mut icmp = vec![136, 0, 0, 0, 0, 0, 0, 0];
        icmp.extend(gateway_v6.octets());
        icmp.extend([2, 1]);
        icmp.extend(new.mac);
        icmp
    };
    let flagged = |flags| {
        let mut icmp = unflagged.clone();
        icmp[4] = flags;
        icmp
    };
    let advertised = |icmp| new.icmp_v6(to_all, gateway_v6, ALL_NODES, 255, icmp);
    for (frame, of, moves) in [
        (new.arp(BROADCAST, 1, gateway, [0; 6], gateway), IpAddr::V4(gateway), true),
        (new.arp(BROADCAST, 2, gateway, BROADCAST, gateway), gateway.into(), true),
        (new.arp(BROADCAST, 1, gateway, [0; 6], own), gateway.into(), true),
        (new.arp(EAST, 2, gateway, EAST, own), gateway.into(), true),
        (new.solicitation(EAST, gateway_v6, own_v6, own_v6), gateway_v6.into(), true),
        (new.advertisement(to_all, gateway_v6, ALL_NODES, false), gateway_v6.into(), true),
        (advertised(flagged(0x20)), gateway_v6.into(), true),
        (advertised(unflagged.clone()), gateway_v6.into(), false),
        // The flag without the option.
        (advertised(flagged(0x20)[..24].to_vec()), gateway_v6.into(), false),
    ] {
        let mut a = interface(EAST, &["198.18.0.1/24", "2001:db8::1/64"], &["198.18.0.2", "2001:db8::2"]);
        talk(&mut a, &mut interface(WEST, &["198.18.0.2/24", "2001:db8::2/64"], &[]), 0);
        let mut output = Output::default();
        assert!(a.interest().concerns(&frame));
        a.receive(&frame, 5 * SECOND, &mut output);
        let moved = Event::Moved { target: untagged(of), from: WEST, to: new.mac };
        assert_eq!(output.events, if moves { vec![moved] } else { vec![] }, "{frame:x?}");
    }
}

#[test]
fn echo_is_answered_to_the_byte_for_own_addresses_only() {
    let mut a = interface(EAST, &["198.18.0.1/24", "2001:db8::1/64"], &[]);
    let requester = Station { mac: WEST, tags: Tags::NONE };
    for (mine, theirs) in [("198.18.0.1", "10.0.0.9"), ("2001:db8::1", "2001:db8:9::9")] {
        let (mine, theirs): (IpAddr, IpAddr) = (mine.parse().unwrap(), theirs.parse().unwrap());
        let data: Vec<u8> = (0..200).collect();
        // A reply made into a request: type and checksum change by the same.
        let mut request = requester.echo_reply(EAST, theirs, mine, &data).unwrap();
        let at = if mine.is_ipv4() { 34 } else { 54 };
        let (kind, sum) = if mine.is_ipv4() { (8u8, -0x800i32) } else { (128, 0x100) };
        request[at] = kind;
        let old = i32::from(u16::from_be_bytes([request[at + 2], request[at + 3]]));
        let sum = old + sum;
        let sum = if sum < 0 { sum + 0xffff } else { sum };
        request[at + 2..at + 4].copy_from_slice(&(sum as u16).to_be_bytes());
        let mut output = Output::default();
        assert!(a.interest().concerns(&request));
        a.receive(&request, 0, &mut output);
        let expected = Station { mac: EAST, tags: Tags::NONE }.echo_reply(WEST, mine, theirs, &data).unwrap();
        assert_eq!(output.frames, [expected]);
        // Another's MAC, a broken checksum: no answer.
        for (offset, bit) in [(5, 4), (at + 10, 1)] {
            let mut wrong = request.clone();
            wrong[offset] ^= bit;
            let mut output = Output::default();
            a.receive(&wrong, 0, &mut output);
            assert_eq!(output, Output::default());
        }
    }
}

#[test]
fn packets_go_to_the_peer_the_gateway_or_the_group() {
    let a = interface(EAST, &["198.18.0.1/24", "2001:db8::1/64"], &["198.18.0.254", "fe80::1"]);
    let lonely = interface(EAST, &["198.18.0.1/24"], &[]);
    let packet = |to: &str| {
        let to: IpAddr = to.parse().unwrap();
        let from = if to.is_ipv4() { "198.18.0.1" } else { "2001:db8::1" };
        Station { mac: EAST, tags: Some(5).into() }.echo_reply([0; 6], from.parse().unwrap(), to, &[]).unwrap()
    };
    let neighbour = |text: &str| NextHop::Neighbour(text.parse().unwrap());
    for (to, hop) in [
        ("198.18.0.7", neighbour("198.18.0.7")),
        ("48.0.0.1", neighbour("198.18.0.254")),
        ("2001:db8::7", neighbour("2001:db8::7")),
        ("fe80::7", neighbour("fe80::7")),
        ("2001:db9::7", neighbour("fe80::1")),
        ("198.18.0.255", NextHop::Here([0xff; 6])),
        ("224.0.0.5", NextHop::Here([1, 0, 0x5e, 0, 0, 5])),
        ("ff02::5", NextHop::Here([0x33, 0x33, 0, 0, 0, 5])),
        ("198.18.0.1", NextHop::Here(EAST)),
    ] {
        assert_eq!(a.next_hop(&packet(to)), Ok(hop), "{to}");
    }
    let arp = Station { mac: EAST, tags: Tags::NONE }.arp(WEST, 1, Ipv4Addr::UNSPECIFIED, WEST, Ipv4Addr::UNSPECIFIED);
    assert_eq!(a.next_hop(&arp), Ok(neighbour("198.18.0.254")));
    assert_eq!(lonely.next_hop(&arp), Err(NoRoute::NoDestination));
    assert_eq!(lonely.next_hop(&packet("2001:db8::7")), Err(NoRoute::NoAddress(6)));
    assert_eq!(
        lonely.next_hop(&packet("48.0.0.1")).unwrap_err().to_string(),
        "48.0.0.1 is in no subnet of the port (198.18.0.1/24) and it has no gateway: give it one"
    );
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let refused = |addresses: &[&str], gateways: &[&str], vlan| {
        Interface::new(EAST, config(addresses, gateways, vlan), 0).unwrap_err()
    };
    let gateway: IpAddr = "198.18.1.254".parse().unwrap();
    assert_eq!(refused(&["198.18.0.1/24"], &["198.18.1.254"], None), ConfigError::GatewayOffLink(gateway));
    assert_eq!(refused(&[], &["198.18.1.254"], None), ConfigError::GatewayOffLink(gateway));
    assert_eq!(refused(&["198.18.1.254/24"], &["198.18.1.254"], None), ConfigError::GatewayIsOwn(gateway));
    assert_eq!(refused(&["198.18.1.254/24", "198.18.1.254/16"], &[], None), ConfigError::Twice(gateway));
    assert_eq!(refused(&[], &[], Some(4095)), ConfigError::Vlan(4095));
}

/// Frames that are nearly right: those of another station, changed in some places and cut.
fn nearly_right() -> impl Strategy<Value = Vec<u8>> {
    let station = Station { mac: WEST, tags: Tags::NONE };
    let own: (Ipv4Addr, Ipv6Addr) = ("198.18.0.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
    let frames = [
        station.arp(EAST, 1, Ipv4Addr::new(198, 18, 0, 2), [0; 6], own.0),
        station.solicitation(EAST, "2001:db8::2".parse().unwrap(), own.1, own.1),
        station.advertisement(EAST, "2001:db8::2".parse().unwrap(), own.1, true),
        station.echo_reply(EAST, "198.18.0.2".parse().unwrap(), own.0.into(), &[7; 32]).unwrap(),
        Station { mac: WEST, tags: Some(0).into() }
            .echo_reply(EAST, "::2".parse().unwrap(), own.1.into(), &[7; 9])
            .unwrap(),
        querier_v4("224.0.0.1", &[0x11, 1, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0]),
        querier_v6("ff02::1", &[&[130, 0, 0, 0, 0, 1, 0, 0][..], &[0; 20]].concat()),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (prop::sample::select(frames.to_vec()), changes, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |(mut frame, changes, cut, whole)| {
            for (at, byte) in changes {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            if !whole {
                frame.truncate(cut.index(frame.len()));
            }
            frame
        },
    )
}

proptest! {
    #[test]
    fn any_bytes_are_survived_and_leave_the_table_as_small_as_it_was(
        frames in prop::collection::vec(
            prop_oneof![prop::collection::vec(any::<u8>(), 0..200), nearly_right()], 0..20),
    ) {
        let mut a = interface(EAST, &["198.18.0.1/24", "2001:db8::1/64"], &["198.18.0.2"]);
        prop_assert!(a.join(1, &"239.1.1.1".parse().unwrap(), 0) && a.join(1, &"ff0e::1".parse().unwrap(), 0));
        let interest = a.interest();
        let mut output = Output::default();
        for frame in &frames {
            let before = output.frames.len();
            a.receive(frame, 0, &mut output);
            let _ = a.next_hop(frame);
            prop_assert!(output.frames.len() <= before + 1);
            if output.frames.len() > before {
                prop_assert!(interest.concerns(frame));
                prop_assert!(output.frames[before].len() <= frame.len().max(86));
            }
        }
        prop_assert_eq!(a.neighbour("198.18.0.3".parse().unwrap()), None);
        for frame in &output.frames {
            prop_assert!(frame.len() >= 60 && frame[6..12] == EAST);
        }
    }
}

/// Two pools of stations behind a port: with the port's MAC, and with MACs of their own.
fn holding() -> Interface {
    let mut a = interface(EAST, &["198.18.0.1/16", "2001:db8::1/64"], &[]);
    let range = |first: &str, last: &str, first_mac| Range {
        first: first.parse().unwrap(),
        last: last.parse().unwrap(),
        step: 1,
        first_mac,
        tags: None,
    };
    a.hold(1, &[range("198.18.1.0", "198.18.200.255", None), range("2001:db8::1:0", "2001:db8::ffff:ffff", None)]);
    let own = Some([2, 9, 0, 0, 0, 0]);
    a.hold(2, &[range("198.18.201.0", "198.18.201.255", own), range("2001:db8::1:0:0", "2001:db8::1:ffff:ffff", own)]);
    a
}

#[test]
fn stations_behind_a_port_are_found_each_at_its_mac_until_they_are_released() {
    let mut a = holding();
    let found = |a: &mut Interface, address: &str| {
        let address: IpAddr = address.parse().unwrap();
        let mut requester = interface(WEST, &["198.18.0.2/16", "2001:db8::2/64"], &[]);
        requester.want(address, 0).unwrap();
        talk(&mut requester, a, 0);
        requester.neighbour(address).unwrap().mac
    };
    for (address, mac) in [
        ("198.18.1.0", Some(EAST)),
        ("198.18.200.255", Some(EAST)),
        ("198.18.201.3", Some([2, 9, 0, 0, 0, 3])),
        ("198.18.202.0", None),
        ("2001:db8::1:0", Some(EAST)),
        ("2001:db8::1:1:0", Some([2, 9, 0, 1, 0, 0])),
        ("2001:db8::2:0:0", None),
    ] {
        assert_eq!(found(&mut a, address), mac, "{address}");
    }
    a.release(2, 0);
    assert_eq!([found(&mut a, "198.18.1.0"), found(&mut a, "198.18.201.3")], [Some(EAST), None]);
}

#[test]
fn stations_behind_a_port_answer_echo_at_their_own_mac_only() {
    let mut a = holding();
    for (to, mac, answered) in [
        ("198.18.1.9", EAST, true),
        ("198.18.201.9", [2, 9, 0, 0, 0, 9], true),
        ("198.18.201.9", EAST, false),
        ("198.18.202.9", EAST, false),
    ] {
        let (to, from): (IpAddr, IpAddr) = (to.parse().unwrap(), "198.18.0.2".parse().unwrap());
        let mut request = Station { mac: WEST, tags: Tags::NONE }.echo_reply(mac, from, to, &[0; 8]).unwrap();
        // Of zeros alone: the checksum is that of the type.
        request[34] = 8;
        request[36..38].copy_from_slice(&0xf7ff_u16.to_be_bytes());
        let mut output = Output::default();
        a.receive(&request, 0, &mut output);
        assert_eq!(output.frames.len(), usize::from(answered), "{to} at {mac:?}");
        if answered {
            assert_eq!((&output.frames[0][..6], &output.frames[0][6..12]), (&WEST[..], &mac[..]));
        }
    }
}

/// A station in two tags behind a port without addresses, and its router, which is a station behind the other port.
#[test]
fn a_station_finds_its_router_in_its_vlan_and_follows_it_to_another_mac_until_it_is_forgotten() {
    let tags = Tags::new(&[Tag { ethertype: SERVICE, vlan: 7 }, Tag::customer(5)]);
    for (station, router) in [("10.1.0.10", "10.1.0.1"), ("2001:db8::10", "2001:db8::1"), ("2001:db8::10", "fe80::1")] {
        for first_mac in [None, Some([2, 9, 0, 0, 0, 0])] {
            let range = |address: &str, first_mac, tags| {
                let address = address.parse().unwrap();
                Range { first: address, last: address, step: 1, first_mac, tags }
            };
            let mut a = interface(EAST, &[], &[]);
            a.hold(1, &[range(station, first_mac, tags)]);
            let found = |b_tags| {
                let mut a = a.clone();
                let mut b = interface(WEST, &[], &[]);
                b.hold(1, &[range(router, None, b_tags)]);
                let [address, station] = [router, station].map(|address| address.parse().unwrap());
                let sought = NeighborQuery { address, station, station_mac: first_mac, tags };
                a.want_for(1, &sought, 0).unwrap();
                let events = talk(&mut a, &mut b, 0);
                let mac = a.found_for(&sought).unwrap().mac;
                assert_eq!(events.is_empty(), mac.is_none());
                // As long as it is sought, it is followed to another MAC.
                let mut replaced = interface([2; 6], &[], &[]);
                replaced.hold(1, &[range(router, None, b_tags)]);
                let target = Target { tags: tags.unwrap_or_default(), address };
                let moved = Event::Moved { target, from: WEST, to: [2; 6] };
                let events = talk(&mut a, &mut replaced, 31 * SECOND);
                let events = [events, talk(&mut a, &mut replaced, 32 * SECOND)].concat();
                assert_eq!(events.contains(&moved), mac.is_some(), "{events:?}");
                a.forget(1);
                assert_eq!((a.found_for(&sought), a.neighbour(address)), (None, None));
                mac
            };
            assert_eq!([tags, None, Some(Tags::from(Some(5)))].map(found), [Some(WEST), None, None]);
        }
    }
}

/// As with packet sockets: the answer has the tags that the stations have.
#[test]
fn stations_answer_in_their_tags_also_where_the_ethertype_of_the_outermost_is_lost() {
    let tags = Tags::new(&[Tag { ethertype: SERVICE, vlan: 7 }, Tag::customer(5)]);
    let address = "10.1.0.10".parse().unwrap();
    let mut a = interface(EAST, &[], &[]);
    a.hold(1, &[Range { first: address, last: address, step: 1, first_mac: None, tags }]);
    let seen = tags.unwrap().with_customer_outermost();
    let (from, to) = ("10.1.0.1".parse().unwrap(), "10.1.0.10".parse().unwrap());
    let request = Station { mac: WEST, tags: seen }.arp(BROADCAST, 1, from, [0; 6], to);
    let answer = |a: &mut Interface| {
        let mut output = Output::default();
        if a.interest().concerns(&request) {
            a.receive(&request, 0, &mut output);
        }
        output.frames.pop()
    };
    assert_eq!(answer(&mut a), None);
    a.normalize_outer_ethertype();
    assert_eq!(Tags::of(&answer(&mut a).unwrap()), tags);
}

/// Three ports on a link that share a pool.
#[test]
fn each_station_of_a_pool_that_ports_share_is_found_at_one_of_them() {
    let macs = [EAST, [2, 0, 0, 0, 0, 7], [2, 0, 0, 0, 0, 8]];
    let mut sharing: Vec<_> = (0..3u8)
        .map(|index| {
            let mut port = interface(macs[usize::from(index)], &[&format!("198.18.0.{}/16", 10 + index)], &[]);
            let address = |last: u8| IpAddr::from([198, 18, 1, last]);
            port.hold(1, &[Range { first: address(index), last: address(255), step: 3, first_mac: None, tags: None }]);
            port
        })
        .collect();
    for last in 0..=255 {
        let address = IpAddr::from([198, 18, 1, last]);
        let mut requester = interface(WEST, &["198.18.0.2/16"], &[]);
        requester.want(address, 0).unwrap();
        let mut asked = Output::default();
        requester.poll(0, &mut asked);
        let mut answers = Vec::new();
        for port in &mut sharing {
            let mut output = Output::default();
            asked.frames.iter().for_each(|frame| port.receive(frame, 0, &mut output));
            answers.append(&mut output.frames);
        }
        let mut heard = Output::default();
        answers.iter().for_each(|frame| requester.receive(frame, 0, &mut heard));
        assert_eq!(answers.len(), 1, "{address}");
        assert_eq!(requester.neighbour(address).unwrap().mac, Some(macs[usize::from(last % 3)]), "{address}");
    }
}

#[test]
fn the_next_hop_to_a_station_behind_the_port_itself_is_its_mac() {
    let a = holding();
    let hop = |to: [u8; 4]| {
        let mut packet = vec![0; 60];
        packet[12..15].copy_from_slice(&[8, 0, 0x45]);
        packet[30..34].copy_from_slice(&to);
        a.next_hop(&packet).unwrap()
    };
    assert_eq!(hop([198, 18, 201, 1]), NextHop::Here([2, 9, 0, 0, 0, 1]));
    assert_eq!(hop([198, 18, 0, 9]), NextHop::Neighbour("198.18.0.9".parse().unwrap()));
}

/// A querier's message in a frame to a group.
fn querier_v4(to: &str, message: &[u8]) -> Vec<u8> {
    let to: std::net::Ipv4Addr = to.parse().unwrap();
    let mut message = message.to_vec();
    let sum = spate_net::checksum::checksum(spate_net::checksum::sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut header = [0; 20];
    let source = std::net::Ipv4Addr::new(198, 18, 0, 254).to_bits();
    spate_net::ipv4::Header { tos: 0xc0, id: 0, ttl: 1, protocol: 2, source, destination: to.to_bits() }
        .write(&mut header, message.len());
    let packet = [&header[..], &message].concat();
    spate_net::ethernet::build(group_mac(to.into()), WEST, Tags::NONE, 0x0800, &packet)
}

fn querier_v6(to: &str, message: &[u8]) -> Vec<u8> {
    let to: Ipv6Addr = to.parse().unwrap();
    let (source, destination) = (Address(link_local(WEST).to_bits()), Address(to.to_bits()));
    let mut message = message.to_vec();
    let pseudo = spate_net::ip::pseudo_header(source, destination, 58, message.len());
    let sum = spate_net::checksum::checksum(pseudo + spate_net::checksum::sum(&message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut header = [0; 40];
    spate_net::ipv6::Header { traffic_class: 0, flow_label: 0, next: 0, hop_limit: 1, source, destination }
        .write(&mut header, 8 + message.len());
    let packet = [&header[..], &[58, 0, 5, 2, 0, 0, 1, 0], &message].concat();
    spate_net::ethernet::build(group_mac(to.into()), WEST, Tags::NONE, 0x86dd, &packet)
}

/// The messages of membership that a port sends up to an instant: MAC and IP address they go to, and the message.
fn reports(interface: &mut Interface, until: u64) -> Vec<(Mac, IpAddr, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(next) = interface.next_ns().filter(|next| *next <= until) {
        let mut output = Output::default();
        interface.poll(next, &mut output);
        all.extend(output.frames.iter().filter_map(|frame| {
            let packet = &frame[14..];
            let fixed = spate_net::ip::Fixed::read(packet)?;
            let at = match packet[0] {
                0x46 if packet[9] == 2 => {
                    assert!(spate_net::ipv4::is_header_right(&packet[..24]));
                    assert_eq!((&packet[20..24], packet[8], fixed.header), (&[0x94, 4, 0, 0][..], 1, 24));
                    24
                }
                0x60 if packet[6] == 0 => {
                    assert_eq!((&packet[40..48], packet[7]), (&[58, 0, 5, 2, 0, 0, 1, 0][..], 1));
                    48
                }
                _ => return None,
            };
            let message = packet[at..fixed.len].to_vec();
            let pseudo = if at == 24 {
                0
            } else {
                spate_net::ip::pseudo_header(fixed.source, fixed.destination, 58, message.len())
            };
            assert!(spate_net::ip::is_right(&message, pseudo));
            Some((*frame.first_chunk().unwrap(), fixed.destination.into(), message))
        }));
    }
    all
}

fn member(addresses: &[&str], groups: &[&str]) -> Interface {
    let groups = groups.iter().map(|group| group.parse().unwrap()).collect();
    Interface::new(EAST, Config { groups, ..config(addresses, &[], None) }, 0).unwrap()
}

#[test]
fn a_port_reports_its_groups_and_answers_queriers_of_every_version_of_igmp() {
    let mut port = member(&["198.18.0.1/24"], &["239.1.1.1", "232.1.1.1,198.18.0.9"]);
    let [first] = reports(&mut port, 0).try_into().unwrap();
    let to_v3: (Mac, IpAddr) = ([1, 0, 0x5e, 0, 0, 0x16], "224.0.0.22".parse().unwrap());
    assert_eq!((first.0, first.1), to_v3);
    assert_eq!(first.2[4..], [0, 0, 0, 2, 5, 0, 0, 1, 232, 1, 1, 1, 198, 18, 0, 9, 4, 0, 0, 0, 239, 1, 1, 1]);
    reports(&mut port, 5 * SECOND);
    let mut output = Output::default();
    let mut ask = |port: &mut Interface, frame: Vec<u8>, at: u64| {
        assert!(port.interest().concerns(&frame));
        port.receive(&frame, at, &mut output);
        reports(port, at + 26 * SECOND)
    };
    // Version 3: a code of 0x80 + 3 is (16 | 3) << 3 tenths of a second.
    let v3 = |group: [u8; 4]| [&[0x11, 0x83, 0, 0][..], &group, &[2, 125, 0, 0]].concat();
    let answer = ask(&mut port, querier_v4("224.0.0.1", &v3([0; 4])), 100 * SECOND);
    assert_eq!(answer.len(), 1);
    assert_eq!(answer[0].2[4..], [0, 0, 0, 2, 1, 0, 0, 1, 232, 1, 1, 1, 198, 18, 0, 9, 2, 0, 0, 0, 239, 1, 1, 1]);
    let answer = ask(&mut port, querier_v4("239.1.1.1", &v3([239, 1, 1, 1])), 200 * SECOND);
    assert_eq!(answer[0].2[4..], [0, 0, 0, 1, 2, 0, 0, 0, 239, 1, 1, 1]);
    // Version 2 and 1.
    let mut answer = ask(&mut port, querier_v4("224.0.0.1", &[0x11, 100, 0, 0, 0, 0, 0, 0]), 300 * SECOND);
    // Each has an instant of its own.
    answer.sort_by_key(|report| report.1);
    let groups: Vec<IpAddr> = answer.iter().map(|report| report.1).collect();
    assert_eq!(groups, ["232.1.1.1", "239.1.1.1"].map(|group| group.parse::<IpAddr>().unwrap()));
    assert_eq!((answer[1].0, answer[1].2[0], &answer[1].2[4..]), ([1, 0, 0x5e, 1, 1, 1], 0x16, &[239, 1, 1, 1][..]));
    let answer = ask(&mut port, querier_v4("224.0.0.1", &[0x11, 0, 0, 0, 0, 0, 0, 0]), 400 * SECOND);
    assert_eq!(answer.iter().map(|report| report.2[0]).collect::<Vec<_>>(), [0x12, 0x12]);
    assert_eq!(output.events, [Event::Reports("IGMPv2"), Event::Reports("IGMPv1")]);
    // What is not valid: a wrong checksum, another destination, cut short.
    let mut wrong = querier_v4("224.0.0.1", &v3([0; 4]));
    wrong[36] ^= 1;
    let short = querier_v4("224.0.0.1", &[0x11, 0, 0, 0, 0, 0, 0, 0, 0]);
    for frame in [wrong, querier_v4("224.0.0.9", &v3([0; 4])), short] {
        port.receive(&frame, 500 * SECOND, &mut Output::default());
        assert_eq!(reports(&mut port, 600 * SECOND), []);
    }
}

#[test]
fn a_port_reports_its_groups_and_answers_queriers_of_both_versions_of_mld() {
    let mut port = member(&[], &["ff0e::1", "ff3e::2,2001:db8::9"]);
    let to_v2: (Mac, IpAddr) = ([0x33, 0x33, 0, 0, 0, 0x16], "ff02::16".parse().unwrap());
    let first = &reports(&mut port, 0)[0];
    assert_eq!(((first.0, first.1), &first.2[..8]), (to_v2, &[143, 0, first.2[2], first.2[3], 0, 0, 0, 2][..]));
    assert_eq!(first.2.len(), 8 + 20 + 20 + 16);
    reports(&mut port, 5 * SECOND);
    let mut output = Output::default();
    let v2 = [&[130, 0, 0, 0, 0x03, 0xe8, 0, 0][..], &[0; 16], &[2, 125, 0, 0]].concat();
    let v1 = [&[130, 0, 0, 0, 0x03, 0xe8, 0, 0][..], &[0; 16]].concat();
    for (query, kinds, at) in [(v2, vec![143], 100 * SECOND), (v1, vec![131, 131], 200 * SECOND)] {
        let frame = querier_v6("ff02::1", &query);
        assert!(port.interest().concerns(&frame));
        port.receive(&frame, at, &mut output);
        let answers = reports(&mut port, at + SECOND);
        assert_eq!(answers.iter().map(|report| report.2[0]).collect::<Vec<_>>(), kinds);
    }
    assert_eq!(output.events, [Event::Reports("MLDv1")]);
    port.release(OWN, 210 * SECOND);
    let done = reports(&mut port, 220 * SECOND);
    assert_eq!(
        done.iter().map(|report| (report.1, report.2[0])).collect::<Vec<_>>(),
        vec![("ff02::2".parse().unwrap(), 132); 4]
    );
    assert!(!port.interest().concerns(&querier_v6("ff02::1", &[130; 28])));
}

#[test]
fn many_groups_are_reported_in_frames_that_fit_on_a_link() {
    let groups: Vec<String> = (0..1000).map(|n: u32| format!("239.2.{}.{}", n >> 8, n & 255)).collect();
    let mut port = member(&[], &groups.iter().map(String::as_str).collect::<Vec<_>>());
    let all = reports(&mut port, 0);
    assert!(all.len() > 1 && all.iter().all(|report| report.2.len() <= 1400));
    let records: usize = all.iter().map(|report| usize::from(report.2[6]) << 8 | usize::from(report.2[7])).sum();
    assert_eq!(records, 1000);
    assert_eq!(port.interest().group_macs(2000).0.len(), 1000 + 2);
}

#[test]
fn the_groups_of_routing_protocols_are_received_where_they_are_spoken() {
    let macs = |routing| {
        let config = Config { routing, ..config(&["198.18.0.1/24"], &[], None) };
        Interface::new(EAST, config, 0).unwrap().interest().group_macs(30)
    };
    let all_nodes = [0x33, 0x33, 0, 0, 0, 1];
    assert_eq!(macs(false), (vec![all_nodes], true));
    let v4 = [5, 6, 9].map(|last| [1, 0, 0x5e, 0, 0, last]);
    let v6 = [5, 6, 9].map(|last| [0x33, 0x33, 0, 0, 0, last]);
    assert_eq!(macs(true), ([&[all_nodes][..], &v4, &v6].concat(), true));
}

#[test]
fn groups_that_no_host_reports_are_refused() {
    for (groups, problem) in [
        (&["10.0.0.1"][..], "group 10.0.0.1 is no multicast address"),
        (&["224.0.0.1"], "group 224.0.0.1 is no"),
        (&["ff01::5"], "group ff01::5 is no"),
        (&["239.1.1.1", "239.1.1.1,10.0.0.1"], "group 239.1.1.1 is given twice"),
        (&["239.1.1.1,2001:db8::1"], "source 2001:db8::1 of group 239.1.1.1"),
        (&["239.1.1.1,224.0.0.5"], "source 224.0.0.5 of group 239.1.1.1"),
    ] {
        let groups = groups.iter().map(|group| group.parse().unwrap()).collect();
        let error = Config { groups, ..Config::default() }.check().unwrap_err().to_string();
        assert!(error.starts_with(problem), "{error}");
    }
    assert!("239.1.1.1,x".parse::<Group>().is_err() && "".parse::<Group>().is_err());
}
