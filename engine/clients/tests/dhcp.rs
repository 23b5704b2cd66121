// SPDX-License-Identifier: Apache-2.0
//! Clients of DHCP against a server and a gateway, in virtual time: leases and their lives, faults of servers and of the link.
mod access;

use std::{collections::HashMap, net::Ipv4Addr};

use access::{
    Ends, FIRST_MAC, MS, Net, Peer, SECOND,
    peer4::{FIRST, GATEWAY, GATEWAY_MAC, SERVER_MAC, Server, arp_frame},
    udp4,
};
use spate_clients::{Cause, Config, Count, Dhcp4, Ipv4, Leave, Probe, Rate, Retry, State, Static4, VlanRange};
use spate_net::{
    arp::{self, Arp},
    dhcp4,
    ethernet::Mac,
    vlan::{CUSTOMER, SERVICE, Tags},
};

const OTHER_MAC: Mac = [2, 0x30, 0, 0, 0, 9];

fn config(count: u32, rate: u64) -> Config {
    Config::dhcp(FIRST_MAC, count, Rate::per_second(rate))
}

fn dhcp(dhcp: Dhcp4) -> Option<Ipv4> {
    Some(Ipv4::Dhcp(Box::new(dhcp)))
}

fn mac(number: u32) -> Mac {
    let [a, b, c, d] = number.to_be_bytes();
    [2, 0x10, a, b, c, d]
}

/// One client, which starts at once.
fn one(server: Server) -> Net<Server> {
    Net::new(config(1, 1), server)
}

fn is_dhcp(frame: &[u8]) -> bool {
    frame[12..14] == [8, 0] && frame[23] == 17
}

#[test]
fn a_hundred_thousand_clients_are_bound_and_have_the_addresses_that_the_server_gave() {
    let count = 100_000;
    let mut net = Net::new(Config { max_outstanding: Some(2000), ..config(count, 5000) }, Server::default());
    net.keeps = |_| false;
    net.run(21 * SECOND);
    assert_eq!((net.clients(State::Bound), net.count(Count::Setups)), (100_000, 100_000));
    net.check_states();
    let found: HashMap<(Tags, Mac), u32> =
        net.group.sources4().map(|source| ((source.tags, source.mac), source.address.as_v4().unwrap())).collect();
    assert_eq!(found.len(), count as usize);
    assert!(found == net.peer.leases, "the tables differ");
    assert!(net.group.sources4().all(|source| source.next_hop == Some(GATEWAY_MAC)));
    let messages = [Count::Dhcp4Discover, Count::Dhcp4Offer, Count::Dhcp4Request, Count::Dhcp4Ack];
    assert_eq!(messages.map(|count| net.count(count)), [100_000; 4]);
    let others = [Count::Malformed, Count::Unexpected, Count::Unsent, Count::Throttled, Count::Dhcp4Retransmitted];
    assert_eq!(others.map(|count| net.count(count)), [0; 5]);
    let (least, mean, most) = net.group.counters().rate().get().unwrap();
    assert!((4990..=5000).contains(&least) && (5000..=5010).contains(&most) && (mean - 5000.0).abs() < 5.0);
}

#[test]
fn leases_are_prolonged_at_t1_at_the_server_and_from_t2_on_at_all() {
    let mut net = one(Server { lease_s: 600, ..Server::default() });
    net.run(299 * SECOND);
    let setup = [dhcp4::DISCOVER, dhcp4::DHCPREQUEST];
    assert_eq!(net.peer.kinds(), setup);
    net.run(301 * SECOND);
    let renewed = net.peer.seen[2].clone();
    assert_eq!((renewed.kind, renewed.to, renewed.ciaddr), (dhcp4::DHCPREQUEST, SERVER_MAC, FIRST));
    assert_eq!((renewed.requested, renewed.server, renewed.secs), (None, None, 0));
    assert_eq!((net.count(Count::Renewals), net.clients(State::Bound)), (1, 1));
    // The lease starts with the request for it.
    assert!((300 * SECOND..300 * SECOND + 2 * MS).contains(&renewed.at_ns), "{}", renewed.at_ns);
    net.peer.is_up = false;
    net.run(900 * SECOND - MS);
    assert_eq!(net.clients(State::Rebinding), 1);
    assert_eq!(net.group.sources4().count(), 1, "it has its address until the lease ends");
    // Half of what is left to T2 (525 s) and to the end (600 s), but a minute at least.
    let later: Vec<_> = net.peer.seen[3..]
        .iter()
        .map(|seen| ((seen.at_ns - renewed.at_ns + 50 * MS) / (100 * MS), seen.broadcast))
        .collect();
    assert_eq!(later, [(3000, false), (4125, false), (4725, false), (5250, true), (5850, true)]);
    net.run(901 * SECOND);
    assert_eq!((net.count(Count::LeasesLost), net.clients(State::Discovering)), (1, 1));
    assert_eq!((net.group.sources4().count(), net.peer.seen.last().unwrap().kind), (0, dhcp4::DISCOVER));
}

#[test]
fn times_that_the_server_gives_are_kept_and_impossible_ones_are_not() {
    for (times, t1) in
        [(Some((100, 200)), 100), (Some((400, 200)), 300), (Some((0, 200)), 300), (Some((100, 601)), 300)]
    {
        let mut net = one(Server { lease_s: 600, times, ..Server::default() });
        net.run(400 * SECOND);
        assert_eq!(net.peer.seen[2].at_ns / SECOND, t1, "{times:?}");
    }
    let mut net = one(Server { lease_s: u32::MAX, ..Server::default() });
    net.run(40 * 365 * 86_400 * SECOND);
    assert_eq!((net.peer.seen.len(), net.clients(State::Bound)), (2, 1), "an endless lease");
    assert_eq!(net.group.details(0, 0).ipv4.unwrap().lease_left_ns, None);
}

#[test]
fn all_clients_are_bound_again_when_a_server_comes_back() {
    let mut net = Net::new(config(500, 100), Server { lease_s: 120, ..Server::default() });
    net.keeps = |_| false;
    net.run(30 * SECOND);
    assert_eq!(net.clients(State::Bound), 500);
    net.peer.is_up = false;
    net.run(600 * SECOND);
    assert_eq!((net.clients(State::Failed), net.failed(Cause::NoOffer)), (500, 500));
    assert_eq!(net.count(Count::LeasesLost), 500);
    net.check_states();
    net.peer.is_up = true;
    net.run(670 * SECOND);
    assert_eq!((net.clients(State::Bound), net.group.sources4().count()), (500, 500));
    net.check_states();
}

#[test]
fn a_silent_server_is_asked_after_4_8_16_32_and_64_seconds_more_or_less_and_then_the_client_has_failed() {
    let mut net = Net::new(config(50, 1_000_000), Server { is_up: false, ..Server::default() });
    net.run(400 * SECOND);
    for number in 0..50 {
        let times: Vec<u64> =
            net.peer.seen.iter().filter(|seen| seen.mac == mac(number)).map(|seen| seen.at_ns).collect();
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (gap, expected) in gaps.iter().zip([4, 8, 16, 32, 64, 64, 64, 64]) {
            assert!(gap.abs_diff(expected * SECOND) <= SECOND + MS, "{gap} instead of {expected} s");
        }
        assert!(gaps.len() >= 7);
    }
    let spread: Vec<u64> = net.peer.seen[50..100].iter().map(|seen| seen.at_ns / (100 * MS)).collect();
    assert!(spread.iter().any(|at| *at < 35) && spread.iter().any(|at| *at > 45), "{spread:?}");
    assert_eq!((net.failed(Cause::NoOffer), net.group.outstanding()), (50, 0));
    let seen = net.peer.seen.last().unwrap();
    assert!((300..400).contains(&seen.secs), "{}", seen.secs);
}

#[test]
fn a_server_that_offers_and_does_not_give_is_left_and_at_last_the_client_has_failed() {
    let mut net = one(Server { is_mute: true, ..Server::default() });
    net.run(3 * 62 * SECOND + 20 * SECOND);
    assert_eq!((net.state(), net.count(Count::Dhcp4Offer)), ((State::Failed, Some(Cause::NoAck)), 3));
    assert_eq!(net.count(Count::Dhcp4Request), 12);
    net.peer.is_mute = false;
    net.run(400 * SECOND);
    assert_eq!(net.state(), (State::Bound, None));
}

#[test]
fn refused_clients_begin_again_at_once_then_later_and_fail() {
    let mut net = one(Server { naks: 1, ..Server::default() });
    net.run(SECOND);
    assert_eq!(
        (net.state(), net.count(Count::Dhcp4Nak), net.count(Count::Dhcp4Discover)),
        ((State::Bound, None), 1, 2)
    );
    let mut net = one(Server { naks: 1000, ..Server::default() });
    net.run(30 * SECOND);
    assert_eq!(net.state(), (State::Failed, Some(Cause::Nak)));
    assert_eq!(net.count(Count::Dhcp4Nak), 3, "a server that refuses is not asked in a loop");
    net.peer.naks = 0;
    net.run(100 * SECOND);
    assert_eq!(net.state(), (State::Bound, None));
    // A lease that is not prolonged is lost at once.
    net.peer.naks = 1;
    net.run(2200 * SECOND);
    assert_eq!((net.count(Count::LeasesLost), net.state()), (1, (State::Bound, None)));
}

#[test]
fn an_address_that_another_station_has_is_declined() {
    let probed = |probe| Config { ipv4: dhcp(Dhcp4 { probe: Some(probe), ..Dhcp4::default() }), ..config(1, 1) };
    let mut net = Net::new(probed(Probe::RFC5227), Server { taken: [FIRST].into(), ..Server::default() });
    net.run(30 * SECOND);
    assert_eq!(net.peer.kinds()[..3], [dhcp4::DISCOVER, dhcp4::DHCPREQUEST, dhcp4::DECLINE]);
    let declined = &net.peer.seen[2];
    assert_eq!((declined.requested, declined.server, declined.ciaddr), (Some(FIRST), Some(net.peer.address), 0));
    assert!(declined.broadcast && net.peer.seen[3].at_ns >= declined.at_ns + 10 * SECOND, "{:?}", net.peer.seen);
    assert_eq!((net.state(), net.count(Count::Duplicates)), ((State::Bound, None), 1));
    assert_eq!(net.group.details(0, 0).ipv4.unwrap().address, Ipv4Addr::from(FIRST + 1));
    // Three probes, one to two seconds apart, then it announces the address twice, 2 s apart.
    let arps: Vec<(u64, Arp)> = net
        .sent
        .iter()
        .filter(|(_, frame)| frame[12..14] == [8, 6])
        .map(|(at, frame)| (*at, Arp::read(&frame[14..]).unwrap()))
        .filter(|(_, arp)| arp.target == Ipv4Addr::from(FIRST + 1))
        .collect();
    let (probes, announcements) = arps.split_at(3);
    assert!(probes.iter().all(|(_, arp)| arp.sender.is_unspecified() && arp.operation == arp::REQUEST));
    for pair in probes.windows(2) {
        assert!((SECOND..2 * SECOND + MS).contains(&(pair[1].0 - pair[0].0)));
    }
    assert!(announcements[0].0 - probes[2].0 >= 2 * SECOND && announcements.len() == 2);
    assert!((2 * SECOND - 40 * MS..2 * SECOND + 40 * MS).contains(&(announcements[1].0 - announcements[0].0)));
    assert!(announcements.iter().all(|(_, arp)| arp.sender == arp.target));
    // All addresses are taken.
    let mut net = Net::new(probed(Probe::ONE), Server { taken: (FIRST..FIRST + 99).collect(), ..Server::default() });
    net.run(40 * SECOND);
    assert_eq!((net.state(), net.peer.declined.len()), ((State::Failed, Some(Cause::Declined)), 3));
}

#[test]
fn an_address_that_two_clients_are_given_is_the_first_ones_and_the_other_says_whose_it_is() {
    let mut net = Net::new(config(2, 10), Server { same: Some(FIRST + 7), ..Server::default() });
    net.run(5 * SECOND);
    assert_eq!(net.group.state(0), (State::Bound, None));
    assert_eq!(net.group.state(1), (State::Failed, Some(Cause::AddressGivenTwice)));
    let details = net.group.details(1, net.now_ns);
    assert_eq!((details.given_twice, details.ipv4.unwrap().address), (Some(0), (FIRST + 7).into()));
    assert_eq!((net.count(Count::GivenTwice), net.count(Count::Dhcp4Decline)), (1, 1));
    assert_eq!(net.group.sources4().count(), 1);
    net.check_states();
    net.peer.same = None;
    net.run(100 * SECOND);
    assert_eq!(net.clients(State::Bound), 2);
    // In different VLANs both can have it.
    let vlans = vec![VlanRange { ethertype: CUSTOMER, first: 5, count: 2 }];
    let mut net = Net::new(Config { vlans, ..config(2, 10) }, Server { same: Some(FIRST), ..Server::default() });
    net.run(5 * SECOND);
    assert_eq!((net.clients(State::Bound), net.count(Count::GivenTwice)), (2, 0));
}

#[test]
fn clients_are_bound_over_a_link_that_loses_and_delays() {
    let mut net = Net::new(config(2000, 500), Server::default());
    (net.loss, net.delay_ns) = (200_000, 500 * MS);
    net.keeps = |_| false;
    net.run(900 * SECOND);
    assert_eq!(net.clients(State::Bound), 2000);
    assert!(net.count(Count::Dhcp4Retransmitted) > 500);
    assert_eq!(net.count(Count::Malformed), 0);
    net.check_states();
    let found: HashMap<_, _> =
        net.group.sources4().map(|source| ((source.tags, source.mac), source.address.as_v4().unwrap())).collect();
    assert!(found == net.peer.leases);
}

#[test]
fn no_more_clients_begin_in_a_time_than_the_rate_says_even_after_they_were_held_back() {
    let most = Some(200);
    let mut net = Net::new(Config { max_outstanding: most, ..config(5000, 5000) }, Server::default());
    // A round trip of 80 ms: 200 under way are 2,500 a second.
    net.delay_ns = 20 * MS;
    net.keeps = |frame| is_dhcp(frame) && frame[284] == dhcp4::DISCOVER;
    let mut greatest = 0;
    for ms in 0..6000 {
        net.run(ms * MS);
        greatest = greatest.max(net.group.outstanding());
    }
    assert_eq!((net.clients(State::Bound), greatest), (5000, 200));
    // Each time that 200 are under way, the next one waits.
    assert!((10..100).contains(&net.count(Count::Throttled)), "{}", net.count(Count::Throttled));
    let started: Vec<u64> = net.sent.iter().map(|(at, _)| *at).collect();
    assert_eq!(started.len(), 5000);
    for first in 0..started.len() {
        let within = started[first..].iter().take_while(|at| **at < started[first] + 10 * MS).count();
        assert!(within <= 51, "{within} in 10 ms from {}", started[first]);
    }
}

#[test]
fn clients_that_leave_give_their_leases_back_or_keep_them() {
    let mut net = Net::new(config(3, 1000), Server::default());
    net.run(SECOND);
    let mut out = Vec::new();
    for (index, how) in [(0, Leave::Release), (1, Leave::Forget), (2, Leave::Keep)] {
        net.group.leave(index, how, net.now_ns, &mut out);
    }
    net.send(out);
    net.run(2 * SECOND);
    assert_eq!((net.clients(State::Released), net.group.sources4().count()), (3, 0));
    assert_eq!((net.count(Count::Dhcp4Release), net.peer.leases.len()), (1, 2));
    let released = net.peer.seen.last().unwrap().clone();
    assert_eq!((released.kind, released.ciaddr, released.to), (dhcp4::RELEASE, FIRST, SERVER_MAC));
    // They come back: the last requests its address.
    let (before, mut out) = (net.peer.seen.len(), Vec::new());
    (0..3).for_each(|index| net.group.start(index, net.now_ns, &mut out));
    net.send(out);
    net.run(3 * SECOND);
    assert_eq!((net.clients(State::Bound), net.count(Count::Setups)), (3, 6));
    let kept: Vec<_> = net.peer.seen[before..].iter().filter(|seen| seen.mac == mac(2)).collect();
    let [request] = kept[..] else { panic!("{kept:?}") };
    assert_eq!((request.kind, request.requested, request.server), (dhcp4::DHCPREQUEST, Some(FIRST + 2), None));
    net.check_states();
    // All leave, at a pace.
    net.group.leave_all(Leave::Release, Rate::per_second(10), net.now_ns);
    net.run(3 * SECOND + 150 * MS);
    assert_eq!((net.clients(State::Released), net.group.has_left()), (2, false));
    net.run(4 * SECOND);
    assert!(net.group.has_left());
    assert_eq!((net.clients(State::Released), net.peer.leases.len()), (3, 0));
}

#[test]
fn a_kept_address_that_is_refused_or_not_answered_for_is_not_insisted_on() {
    for (naks, is_up) in [(1, true), (0, false)] {
        let mut net = one(Server::default());
        net.run(SECOND);
        net.group.leave(0, Leave::Keep, net.now_ns, &mut Vec::new());
        (net.peer.naks, net.peer.is_up) = (naks, is_up);
        let mut out = Vec::new();
        net.group.start(0, net.now_ns, &mut out);
        net.send(out);
        net.run(100 * SECOND);
        net.peer.is_up = true;
        net.run(200 * SECOND);
        let kinds = &net.peer.kinds()[2..];
        assert_eq!((kinds[0], *kinds.last().unwrap()), (dhcp4::DHCPREQUEST, dhcp4::DHCPREQUEST));
        assert!(kinds.contains(&dhcp4::DISCOVER) && net.clients(State::Bound) == 1, "{kinds:?}");
    }
}

#[test]
fn a_server_beyond_a_relay_is_reached_through_the_gateway() {
    let relay_mac = [2, 0x20, 0, 0, 0, 3];
    let server = Server { address: 0xc0a8_0001, relay: GATEWAY, mac: relay_mac, lease_s: 100, ..Server::default() };
    let mut net = one(server);
    net.run(60 * SECOND);
    let to: Vec<Mac> = net.peer.seen.iter().map(|seen| seen.to).collect();
    assert_eq!(to, [[0xff; 6], [0xff; 6], GATEWAY_MAC]);
    assert_eq!(net.count(Count::Renewals), 1);
    // One that does not know the gateway answers the relay.
    let config = Config { resolve_gateway: false, ..config(1, 1) };
    let server = Server { address: 0xc0a8_0001, relay: GATEWAY, mac: relay_mac, lease_s: 100, ..Server::default() };
    let mut net = Net::new(config, server);
    net.run(60 * SECOND);
    assert_eq!((net.peer.seen[2].to, net.count(Count::ArpRequestsSent)), (relay_mac, 0));
}

#[test]
fn clients_that_check_their_gateway_are_bound_when_it_has_answered() {
    let config = Config { ping_gateway: true, ..config(1, 1) };
    let mut net = Net::new(config.clone(), Server::default());
    net.run(500_000);
    assert_eq!(net.state(), (State::Requesting, None));
    net.run(SECOND);
    assert_eq!(net.state(), (State::Bound, None));
    assert_eq!((net.count(Count::EchoRequestsSent), net.count(Count::EchoRepliesReceived)), (1, 1));
    for (answers, pings) in [(false, true), (true, false)] {
        let server = Server { gateway_answers: answers, gateway_pings: pings, ..Server::default() };
        let mut net = Net::new(config.clone(), server);
        net.run(2 * SECOND);
        assert_eq!(net.state(), (State::Requesting, None));
        net.run(4 * SECOND);
        assert_eq!(net.state(), (State::Failed, Some(Cause::GatewaySilent)));
        assert_eq!(net.group.sources4().count(), 0);
        (net.peer.gateway_answers, net.peer.gateway_pings) = (true, true);
        net.run(70 * SECOND);
        assert_eq!((net.state(), net.group.sources4().count()), ((State::Bound, None), 1));
    }
    let mut net = Net::new(config, Server { gateway: None, ..Server::default() });
    net.run(SECOND);
    assert_eq!(net.state(), (State::Failed, Some(Cause::NoRouter)));
}

#[test]
fn a_gateway_that_announces_another_mac_is_followed() {
    let vlans = vec![VlanRange { ethertype: CUSTOMER, first: 5, count: 2 }];
    let mut net = Net::new(Config { vlans, ..config(6, 1000) }, Server::default());
    net.run(SECOND);
    let generation = net.group.generation();
    let announce =
        |tags| arp_frame(Ends { to: [0xff; 6], from: [2, 0x20, 0, 0, 0, 0x22], tags }, arp::REQUEST, GATEWAY, GATEWAY);
    net.answer(announce(Tags::from(Some(6))));
    net.answer(announce(Tags::from(Some(9))));
    net.run(2 * SECOND);
    let last: Vec<u8> = net.group.sources4().map(|source| source.next_hop.unwrap()[5]).collect();
    assert_eq!(last, [2, 0x22, 2, 0x22, 2, 0x22]);
    assert_ne!(net.group.generation(), generation);
}

#[test]
fn an_address_is_defended_once_and_then_given_up() {
    let mut net = one(Server::default());
    net.run(SECOND);
    let claim = || arp_frame(Ends { to: [0xff; 6], from: OTHER_MAC, tags: Tags::NONE }, arp::REQUEST, FIRST, FIRST);
    net.answer(claim());
    net.run(2 * SECOND);
    assert_eq!((net.state(), net.count(Count::ArpAnnouncementsSent)), ((State::Bound, None), 1));
    net.run(20 * SECOND);
    net.answer(claim());
    net.run(21 * SECOND);
    assert_eq!((net.state(), net.count(Count::ArpAnnouncementsSent)), ((State::Bound, None), 2));
    net.answer(claim());
    net.run(22 * SECOND);
    assert_eq!(net.state(), (State::Discovering, None));
    assert_eq!((net.count(Count::LeasesLost), net.count(Count::Dhcp4Decline)), (1, 1));
    net.run(40 * SECOND);
    assert_eq!(
        (net.state(), net.group.details(0, 0).ipv4.unwrap().address),
        ((State::Bound, None), (FIRST + 1).into())
    );
}

#[test]
fn clients_answer_for_their_addresses_in_their_own_vlans_only() {
    let vlans = vec![
        VlanRange { ethertype: SERVICE, first: 100, count: 2 },
        VlanRange { ethertype: CUSTOMER, first: 1, count: 2 },
    ];
    let mut net = Net::new(Config { vlans, ..config(4, 1000) }, Server::default());
    net.run(SECOND);
    assert_eq!(net.clients(State::Bound), 4);
    let tags = net.group.details(2, 0).tags;
    assert_eq!(tags.to_string(), "in VLAN 802.1ad 101, 802.1Q 1");
    let asks = |to, tags, address| arp_frame(Ends { to, from: OTHER_MAC, tags }, arp::REQUEST, GATEWAY + 9, address);
    let mut answered = |frame: Vec<u8>| {
        let mut out: Vec<Vec<u8>> = Vec::new();
        net.group.receive(&frame, Tags::of(&frame).unwrap(), net.now_ns, &mut out);
        out
    };
    let answer = answered(asks([0xff; 6], tags, FIRST + 2));
    assert_eq!(answer[0][..12], [&OTHER_MAC[..], &mac(2)].concat());
    assert_eq!(Arp::read(&answer[0][22..]).unwrap().sender, Ipv4Addr::from(FIRST + 2));
    assert_eq!(answered(asks(mac(2), tags, FIRST + 2)), answer);
    for (to, tags, address) in [
        ([0xff; 6], tags, FIRST + 1),
        ([0xff; 6], Tags::NONE, FIRST + 2),
        (mac(1), tags, FIRST + 2),
        ([0xff; 6], tags, FIRST + 9),
    ] {
        assert_eq!(answered(asks(to, tags, address)), Vec::<Vec<u8>>::new(), "{to:?} {tags} {address:#x}");
    }
    let echo = |to, tags, address| {
        access::icmp4(Ends { to, from: OTHER_MAC, tags }, (GATEWAY + 9, address), &[8, 0, 0, 0, 1, 2, 3, 4, 5])
    };
    let answer = answered(echo(mac(2), tags, FIRST + 2));
    assert_eq!(answer[0][22..][20..29], [0, 0, answer[0][44], answer[0][45], 1, 2, 3, 4, 5]);
    assert!(answered(echo(mac(1), tags, FIRST + 2)).is_empty() && answered(echo(mac(2), tags, FIRST + 3)).is_empty());
}

#[test]
fn clients_with_fixed_addresses_look_for_others_with_them() {
    let fixed = |probe| Static4 { first: FIRST.into(), prefix_len: 8, gateway: Some(GATEWAY.into()), probe };
    let statics = |probe| Config { ipv4: Some(Ipv4::Static(fixed(probe))), ..config(3, 1000) };
    let mut net = Net::new(statics(None), Server::default());
    net.run(10 * MS);
    assert_eq!((net.clients(State::Bound), net.peer.seen.len()), (3, 0));
    let addresses: Vec<u32> = net.group.sources4().map(|source| source.address.as_v4().unwrap()).collect();
    assert_eq!(addresses, [FIRST, FIRST + 1, FIRST + 2]);
    let mut net = Net::new(statics(Some(Probe::ONE)), Server { taken: [FIRST + 1].into(), ..Server::default() });
    net.run(2 * SECOND);
    assert_eq!((net.clients(State::Bound), net.failed(Cause::DuplicateAddress)), (2, 1));
    net.peer.taken.clear();
    net.run(70 * SECOND);
    assert_eq!(net.clients(State::Bound), 3);
    net.check_states();
}

#[test]
fn answers_that_no_client_waits_for_are_dropped_and_counted() {
    let mut net = one(Server { is_up: false, ..Server::default() });
    net.run(MS);
    let discover = net.sent[0].1.clone();
    let message = dhcp4::Message::read(&discover[42..]).unwrap();
    let answer = |xid, kind, server: Option<u32>, lease: Option<u32>, mac, address: u32| {
        let fixed = dhcp4::Fixed { op: dhcp4::REPLY, xid, mac, yiaddr: address.into(), ..dhcp4::Fixed::default() };
        let mut bytes = [0; 400];
        let mut reply = dhcp4::Builder::new(&mut bytes, &fixed, kind).unwrap();
        let mut number = |code, number: Option<u32>| {
            if let Some(number) = number {
                reply.option(code, &number.to_be_bytes());
            }
        };
        number(dhcp4::option::SERVER_ID, server);
        number(dhcp4::option::LEASE_TIME, lease);
        let len = reply.finish().unwrap();
        let ends = Ends { to: [0xff; 6], from: SERVER_MAC, tags: Tags::NONE };
        udp4(ends, (GATEWAY, u32::MAX), (67, 68), &bytes[..len])
    };
    let (xid, server, lease, own) = (message.xid(), Some(GATEWAY), Some(600), mac(0));
    let give = |net: &mut Net<Server>, frame: Vec<u8>| {
        let before = (net.count(Count::Unexpected), net.count(Count::Malformed));
        let mut out: Vec<Vec<u8>> = Vec::new();
        net.group.receive(&frame, Tags::NONE, net.now_ns, &mut out);
        (net.count(Count::Unexpected) - before.0, net.count(Count::Malformed) - before.1, out.len())
    };
    let cases = [
        (answer(xid ^ 1, dhcp4::OFFER, server, lease, own, FIRST), (1, 0, 0)),
        (answer(xid, dhcp4::ACK, server, lease, own, FIRST), (1, 0, 0)),
        (answer(xid, 9, server, lease, own, FIRST), (1, 0, 0)),
        (answer(xid, dhcp4::OFFER, server, lease, [2; 6], FIRST), (0, 0, 0)),
        (answer(xid, dhcp4::OFFER, None, lease, own, FIRST), (0, 1, 0)),
        (answer(xid, dhcp4::OFFER, server, lease, own, 0), (0, 1, 0)),
        (answer(xid, dhcp4::OFFER, server, lease, own, 0xe000_0001), (0, 1, 0)),
        (answer(xid, dhcp4::OFFER, server, lease, own, FIRST), (0, 0, 1)),
        (answer(xid, dhcp4::OFFER, server, lease, own, FIRST + 1), (1, 0, 0)),
        (answer(xid, dhcp4::ACK, server, Some(0), own, FIRST), (0, 1, 0)),
        (answer(xid, dhcp4::ACK, server, None, own, FIRST), (0, 1, 0)),
        (answer(xid, dhcp4::ACK, None, lease, own, FIRST), (0, 1, 0)),
        (answer(xid, dhcp4::ACK, Some(GATEWAY + 1), lease, own, FIRST), (1, 0, 0)),
        (answer(xid, dhcp4::NAK, Some(GATEWAY + 1), None, own, 0), (1, 0, 0)),
        (answer(xid, dhcp4::ACK, server, lease, own, FIRST), (0, 0, 0)),
    ];
    for (number, (frame, expected)) in cases.into_iter().enumerate() {
        assert_eq!(give(&mut net, frame), expected, "case {number}");
    }
    assert_eq!(net.state(), (State::Bound, None));
}

#[test]
fn frames_that_find_no_room_are_sent_when_they_are_due_again() {
    struct Full;
    impl spate_clients::Output for Full {
        fn room(&self) -> usize {
            0
        }
        fn send(&mut self, _: &[u8]) {
            panic!("there is no room");
        }
    }
    let mut net = one(Server::default());
    net.group.poll(0, &mut Full);
    assert_eq!((net.count(Count::Started), net.group.next_due_ns()), (0, Some(0)), "it waits for room");
    let mut out: Vec<Vec<u8>> = Vec::new();
    net.group.poll(0, &mut out);
    let offer = net.peer.receive(&out[0], 0).remove(0);
    net.group.receive(&offer, Tags::NONE, 1, &mut Full);
    assert_eq!((net.count(Count::Unsent), net.state()), (1, (State::Requesting, None)));
    net.run(6 * SECOND);
    assert_eq!(net.state(), (State::Bound, None));
}

#[test]
fn the_same_seed_sends_the_same_frames_and_another_one_others() {
    let frames = |seed| {
        let retry = Retry { attempts: 3, ..Retry::default() };
        let mut net = Net::new(Config { seed, retry, ..config(20, 1000) }, Server { lease_s: 60, ..Server::default() });
        (net.loss, net.delay_ns) = (100_000, 3 * MS);
        net.run(200 * SECOND);
        net.sent
    };
    let first = frames(1);
    assert!(first.len() > 100 && first == frames(1) && first != frames(2));
}
