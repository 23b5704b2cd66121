// SPDX-License-Identifier: Apache-2.0
//! Clients of IPv6 against a router and DHCPv6 servers, in virtual time: addresses of advertised prefixes, leases, and their faults.
mod access;

use std::collections::HashSet;

use access::{
    Ends, FIRST_MAC, MS, Net, Peer, SECOND, icmp6,
    peer6::{DELEGATED, LEASED, PREFIX, ROUTER_MAC, Router},
};
use spate_clients::{Cause, Config, Count, Dhcp6, Dhcp6When, Ipv6, Leave, Rate, State, VlanRange};
use spate_net::{Address, dhcp6, ethernet::Mac, ndp, vlan::CUSTOMER, vlan::Tags};

const LINK_LOCAL: u128 = 0xfe80 << 112;
/// The interface identifier of the client with number 0.
const INTERFACE: u128 = 0x0010_00ff_fe00_0000;

fn config(count: u32, slaac: bool, dhcp: Option<Dhcp6>) -> Config {
    let ipv6 = Some(Ipv6 { slaac, dhcp, dad_transmits: 1 });
    Config { ipv4: None, ipv6, ..Config::dhcp(FIRST_MAC, count, Rate::per_second(1000)) }
}

fn leases() -> Dhcp6 {
    Dhcp6 { when: Dhcp6When::Always, prefix: Some(56), ..Dhcp6::default() }
}

fn mac(number: u8) -> Mac {
    [2, 0x10, 0, 0, 0, number]
}

fn source(net: &Net<Router>, index: u32) -> Option<u128> {
    net.group.sources6().find(|source| source.index == index).map(|source| source.address.0)
}

#[test]
fn clients_form_addresses_of_the_prefix_that_their_router_advertises() {
    let vlans = vec![VlanRange { ethertype: CUSTOMER, first: 10, count: 10 }];
    for multicast in [false, true] {
        let mut net = Net::new(
            Config { vlans: vlans.clone(), ..config(2000, true, None) },
            Router { multicast, ..Router::default() },
        );
        net.keeps = |_| false;
        net.run(30 * SECOND);
        assert_eq!((net.clients(State::Bound), net.count(Count::Malformed)), (2000, 0));
        net.check_states();
        let found: Vec<_> = net.group.sources6().collect();
        for source in &found {
            let expected = u128::from(PREFIX) << 64 | u128::from(ndp::interface_id(source.mac));
            assert_eq!((source.address, source.next_hop), (Address(expected), Some(ROUTER_MAC)));
        }
        // Both addresses of each are looked for, once.
        let probed: HashSet<u128> = net.peer.probed.iter().map(|(_, target)| *target).collect();
        assert_eq!((found.len(), probed.len(), net.peer.probed.len()), (2000, 4000, 4000));
        let advertised = net.count(Count::RouterAdvertisements);
        // One each 3 s in each of 10 VLANs reaches all that wait.
        assert!(if multicast { advertised < 60 } else { advertised == 2000 }, "{advertised}");
    }
}

#[test]
fn addresses_that_other_stations_have_are_duplicates() {
    for taken in [LINK_LOCAL | INTERFACE, u128::from(PREFIX) << 64 | INTERFACE] {
        let mut net = Net::new(config(2, true, None), Router { taken: [taken].into(), ..Router::default() });
        net.run(10 * SECOND);
        assert_eq!(net.state(), (State::Failed, Some(Cause::DuplicateAddress)));
        assert_eq!((net.clients(State::Bound), net.count(Count::Duplicates)), (1, 1));
        assert_eq!(source(&net, 0), None);
    }
    // Another station that looks for duplicates of the same address at the same time.
    let mut net = Net::new(config(1, true, None), Router::default());
    net.run(100 * MS);
    let mut icmp = [0; 32];
    let target = (LINK_LOCAL | INTERFACE).into();
    let len = ndp::write_solicitation(&mut icmp, target, None);
    let group = ndp::solicited_node(target).to_bits();
    let ends = Ends { to: [0x33, 0x33, 0xff, 0, 0, 0], from: [2; 6], tags: Tags::NONE };
    net.answer(icmp6(ends, 255, (0, group), &icmp[..len]));
    net.run(10 * SECOND);
    assert_eq!(net.state(), (State::Failed, Some(Cause::DuplicateAddress)));
}

#[test]
fn a_client_without_a_router_fails_and_goes_on_when_one_comes() {
    let mut net = Net::new(config(1, true, None), Router { is_up: false, ..Router::default() });
    net.run(12 * SECOND);
    assert_eq!(net.state(), (State::Discovering, None));
    net.run(14 * SECOND);
    assert_eq!(net.state(), (State::Failed, Some(Cause::NoRouter)));
    let times: Vec<u64> = net.peer.solicited.iter().map(|(at, _)| at / SECOND).collect();
    assert_eq!(times, [1, 5, 9, 13]);
    let advertisement = net.peer.advertisement(None, Tags::NONE);
    net.answer(advertisement);
    net.run(16 * SECOND);
    assert_eq!(net.state(), (State::Bound, None));
}

#[test]
fn what_routers_advertise_ends_when_they_say() {
    let mut net =
        Net::new(config(1, true, None), Router { prefix: Some((100, 50)), lifetime_s: 50, ..Router::default() });
    net.run(5 * SECOND);
    assert_eq!(
        (net.state(), net.group.details(0, 0).ipv6.unwrap().router),
        ((State::Bound, None), Some(Router::address().into()))
    );
    net.run(55 * SECOND);
    // The router is one no more, the address is still there.
    let details = net.group.details(0, net.now_ns).ipv6.unwrap();
    assert_eq!((net.state().0, details.router, details.slaac.is_some()), (State::Bound, None, true));
    net.peer.is_up = false;
    net.run(105 * SECOND);
    assert_eq!((net.state(), net.count(Count::LeasesLost), source(&net, 0)), ((State::Discovering, None), 1, None));
    net.peer.is_up = true;
    net.run(130 * SECOND);
    assert_eq!(net.state(), (State::Bound, None));
    // Advertisements prolong both.
    for _ in 0..10 {
        let advertisement = net.peer.advertisement(None, Tags::NONE);
        net.answer(advertisement);
        net.run(net.now_ns + 40 * SECOND);
    }
    assert_eq!((net.count(Count::LeasesLost), net.group.details(0, 0).ipv6.unwrap().router.is_some()), (1, true));
    // One that leaves says so; it cannot take the address away.
    (net.peer.lifetime_s, net.peer.prefix) = (0, Some((1, 1)));
    let advertisement = net.peer.advertisement(None, Tags::NONE);
    net.answer(advertisement);
    net.run(net.now_ns + 5 * SECOND);
    assert_eq!((net.state().0, net.group.details(0, 0).ipv6.unwrap().router), (State::Bound, None));
}

#[test]
fn clients_answer_for_their_addresses() {
    let mut net = Net::new(config(2, true, None), Router::default());
    net.run(5 * SECOND);
    let (own, other) = (u128::from(PREFIX) << 64 | INTERFACE, 0x2001_0db8 << 96 | 9);
    let mut answered = |frame: Vec<u8>, tags| {
        let mut out: Vec<Vec<u8>> = Vec::new();
        net.group.receive(&frame, tags, net.now_ns, &mut out);
        out
    };
    let asks = |from: u128, target: u128| {
        let mut icmp = [0; 32];
        let group = ndp::solicited_node(target.into()).to_bits();
        let len = ndp::write_solicitation(&mut icmp, target.into(), (from != 0).then_some(ROUTER_MAC));
        let ends = Ends { to: [0x33, 0x33, 0xff, 0, 0, 0], from: ROUTER_MAC, tags: Tags::NONE };
        icmp6(ends, 255, (from, group), &icmp[..len])
    };
    for target in [own, LINK_LOCAL | INTERFACE] {
        let answer = answered(asks(other, target), Tags::NONE).remove(0);
        assert_eq!(answer[..12], [&ROUTER_MAC[..], &mac(0)].concat());
        let message = ndp::Message::read(Address(target), Address(other), 255, &answer[54..86]);
        let flags = ndp::SOLICITED | ndp::OVERRIDE;
        assert_eq!(message, Ok(Some(ndp::Message::Advertisement { target: target.into(), flags, mac: Some(mac(0)) })));
        // A probe of another station is answered to all.
        let answer = answered(asks(0, target), Tags::NONE).remove(0);
        assert_eq!(answer[..6], [0x33, 0x33, 0, 0, 0, 1]);
    }
    assert!(answered(asks(other, own), Tags::from(Some(5))).is_empty());
    assert!(answered(asks(other, own + 9), Tags::NONE).is_empty());
    let echo = |to, address| {
        icmp6(Ends { to, from: ROUTER_MAC, tags: Tags::NONE }, 64, (other, address), &[128, 0, 0, 0, 1, 2, 3, 4, 5])
    };
    let answer = answered(echo(mac(0), own), Tags::NONE).remove(0);
    assert_eq!((answer[54], &answer[58..63]), (129, &[1, 2, 3, 4, 5][..]));
    assert!(answered(echo(mac(1), own), Tags::NONE).is_empty());
    let mut broken = echo(mac(0), own);
    broken[60] ^= 1;
    assert!(answered(broken, Tags::NONE).is_empty());
}

#[test]
fn clients_get_addresses_and_prefixes_that_the_server_gave() {
    let mut net = Net::new(config(1000, false, Some(leases())), Router::default());
    net.keeps = |_| false;
    net.run(10 * SECOND);
    assert_eq!(net.clients(State::Bound), 1000);
    net.check_states();
    for details in net.group.list(net.now_ns) {
        let six = details.ipv6.unwrap();
        let (address, prefix) = net.peer.leases[&details.mac];
        assert_eq!((six.leased, six.delegated), (Some(address.into()), Some((prefix.into(), 56))));
        assert_eq!(six.router_mac, Some(ROUTER_MAC));
    }
    let messages = [Count::Dhcp6Solicit, Count::Dhcp6Advertise, Count::Dhcp6Request, Count::Dhcp6Reply];
    assert_eq!(messages.map(|count| net.count(count)), [1000; 4]);
    assert_eq!((net.count(Count::Malformed), net.count(Count::Unexpected)), (0, 0));
}

#[test]
fn leases_come_when_routers_say_so_and_with_the_servers_of_the_greatest_preference() {
    let servers = vec![(vec![1; 10], 5), (vec![2; 14], 9), (vec![3; 130], 1)];
    let dhcp = Dhcp6 { when: Dhcp6When::Managed, ..leases() };
    let mut net = Net::new(config(1, false, Some(dhcp)), Router { servers: servers.clone(), ..Router::default() });
    net.run(5 * SECOND);
    assert_eq!((net.state(), net.peer.seen.len()), ((State::Discovering, None), 0));
    net.peer.managed = true;
    net.run(10 * SECOND);
    assert_eq!((net.state(), net.peer.kinds()), ((State::Bound, None), vec![dhcp6::SOLICIT, dhcp6::REQUEST]));
    assert_eq!(net.peer.seen[1].server, Some(vec![2; 14]));
    // It waits for others between 1 and 1.1 s.
    let waited = net.peer.seen[1].at_ns - net.peer.seen[0].at_ns;
    assert!((SECOND..=1100 * MS + MS).contains(&waited), "{waited}");
    // Unless one has the greatest preference that there is, or it is not to wait.
    for (preference, collect) in [(255, true), (9, false)] {
        let dhcp = Dhcp6 { collect, ..leases() };
        let servers = vec![(vec![2; 14], preference), servers[0].clone()];
        let mut net = Net::new(config(1, false, Some(dhcp)), Router { servers, ..Router::default() });
        net.run(5 * SECOND);
        let seen = &net.peer.seen;
        assert!(seen[1].at_ns - seen[0].at_ns < MS && seen[1].server == Some(vec![2; 14]));
    }
}

#[test]
fn a_server_may_give_leases_with_two_messages() {
    let dhcp = Dhcp6 { rapid_commit: true, ..leases() };
    for (rapid, kinds) in [(true, vec![dhcp6::SOLICIT]), (false, vec![dhcp6::SOLICIT, dhcp6::REQUEST])] {
        let mut net = Net::new(config(1, false, Some(dhcp)), Router { rapid, ..Router::default() });
        net.run(10 * SECOND);
        assert_eq!((net.state(), net.peer.kinds()), ((State::Bound, None), kinds));
    }
}

#[test]
fn leases_of_ipv6_are_prolonged_at_t1_and_at_t2_and_lost_at_their_end() {
    let mut net = Net::new(config(1, false, Some(leases())), Router { times: (100, 200), ..Router::default() });
    net.run(10 * SECOND);
    let bound = net.peer.seen[1].at_ns;
    net.run(70 * SECOND);
    // Half of the preferred time.
    let renew = net.peer.seen[2].clone();
    assert!(renew.kind == dhcp6::RENEW && (renew.at_ns - bound).abs_diff(50 * SECOND) < 40 * MS, "{renew:?}");
    assert!(renew.server.is_some() && net.count(Count::Renewals) == 1);
    net.peer.server_is_up = false;
    net.run(renew.at_ns + 190 * SECOND);
    assert_eq!(net.state().0, State::Rebinding);
    let later = &net.peer.seen[3..];
    let after = |n: usize| (later[n].at_ns - renew.at_ns) / (100 * MS);
    // T1 at 50 s; again after 10 s, a tenth more or less; T2 at 80 s.
    assert!((499..=501).contains(&after(0)) && (588..=612).contains(&after(1)), "{later:?}");
    let rebind = later.iter().find(|seen| seen.kind == dhcp6::REBIND).unwrap();
    assert!((rebind.at_ns - renew.at_ns).abs_diff(80 * SECOND) < 40 * MS && rebind.server.is_none());
    assert!(later.iter().all(|seen| seen.elapsed == 0 || seen.xid == later[0].xid || seen.kind == dhcp6::REBIND));
    net.run(renew.at_ns + 201 * SECOND);
    assert_eq!((net.state().0, net.count(Count::LeasesLost), source(&net, 0)), (State::Discovering, 1, None));
    net.peer.server_is_up = true;
    net.run(renew.at_ns + 220 * SECOND);
    assert_eq!(net.state(), (State::Bound, None));
    // A server that does not know the lease is asked for it again.
    net.peer.no_binding = true;
    let before = net.peer.seen.len();
    net.run(net.now_ns + 60 * SECOND);
    assert_eq!(net.peer.kinds()[before..before + 2], [dhcp6::RENEW, dhcp6::REQUEST]);
    assert_eq!((net.state().0, net.count(Count::LeasesLost)), (State::Bound, 1));
}

#[test]
fn silent_servers_are_asked_twice_as_late_each_time() {
    let dhcp = Dhcp6 { max_solicit_ns: 60 * SECOND, ..leases() };
    let mut net = Net::new(config(30, false, Some(dhcp)), Router { server_is_up: false, ..Router::default() });
    net.run(300 * SECOND);
    for number in 0..30 {
        let seen: Vec<_> = net.peer.seen.iter().filter(|seen| seen.mac == mac(number)).collect();
        let gaps: Vec<f64> = seen.windows(2).map(|pair| (pair[1].at_ns - pair[0].at_ns) as f64 / 1e9).collect();
        assert!((1.0..=1.101).contains(&gaps[0]), "{gaps:?}");
        for pair in gaps.windows(2).take(4) {
            assert!((1.89..=2.11).contains(&(pair[1] / pair[0])), "{gaps:?}");
        }
        assert!(gaps.iter().all(|gap| *gap <= 66.1) && gaps.len() >= 8, "{gaps:?}");
        let elapsed = (seen[3].at_ns - seen[0].at_ns) / (10 * MS);
        assert!(elapsed.abs_diff(u64::from(seen[3].elapsed)) <= 1 && seen.iter().all(|one| one.xid == seen[0].xid));
    }
    assert_eq!(net.failed(Cause::NoOffer), 30);
    net.peer.server_is_up = true;
    net.run(370 * SECOND);
    assert_eq!(net.clients(State::Bound), 30);
}

#[test]
fn leases_are_given_back_until_the_server_says_that_it_has_them() {
    let mut net = Net::new(config(2, false, Some(leases())), Router::default());
    net.run(5 * SECOND);
    net.loss = 1_000_000;
    let mut out = Vec::new();
    net.group.leave(0, Leave::Release, net.now_ns, &mut out);
    net.send(out);
    net.run(net.now_ns + 500 * MS);
    assert_eq!((net.clients(State::Released), net.count(Count::Dhcp6Release), net.peer.released.len()), (1, 1, 0));
    net.loss = 0;
    net.run(net.now_ns + 60 * SECOND);
    assert_eq!((net.count(Count::Dhcp6Release), &net.peer.released), (2, &vec![mac(0)]));
    net.peer.server_is_up = false;
    let mut out = Vec::new();
    net.group.leave(1, Leave::Release, net.now_ns, &mut out);
    net.send(out);
    net.run(net.now_ns + 60 * SECOND);
    assert_eq!((net.clients(State::Released), net.count(Count::Dhcp6Release)), (2, 6));
    // They come back.
    net.peer.server_is_up = true;
    let mut out = Vec::new();
    (0..2).for_each(|index| net.group.start(index, net.now_ns, &mut out));
    net.send(out);
    net.run(net.now_ns + 10 * SECOND);
    assert_eq!(net.clients(State::Bound), 2);
    net.check_states();
}

#[test]
fn a_leased_address_that_another_station_or_client_has_is_declined() {
    let mut net =
        Net::new(config(1, false, Some(leases())), Router { taken: [LEASED + 1].into(), ..Router::default() });
    net.run(30 * SECOND);
    assert_eq!((net.peer.declined.clone(), net.state()), (vec![LEASED + 1], (State::Bound, None)));
    assert_eq!(source(&net, 0), Some(LEASED + 2));
    let mut net = Net::new(config(2, false, Some(leases())), Router { same: Some(LEASED + 7), ..Router::default() });
    net.run(30 * SECOND);
    // Who has it is a matter of chance.
    let bound = u32::from(net.group.state(0).0 != State::Bound);
    assert_eq!(net.group.state(bound), (State::Bound, None));
    assert_eq!(net.group.state(1 - bound), (State::Failed, Some(Cause::AddressGivenTwice)));
    let given_twice = net.group.details(1 - bound, 0).given_twice;
    assert_eq!((net.count(Count::GivenTwice), given_twice), (1, Some(u64::from(bound))));
    net.peer.same = None;
    net.run(120 * SECOND);
    assert_eq!(net.clients(State::Bound), 2);
    net.check_states();
}

#[test]
fn a_server_without_addresses_makes_clients_fail() {
    let mut net = Net::new(config(1, false, Some(leases())), Router { no_addresses: true, ..Router::default() });
    net.run(60 * SECOND);
    assert_eq!((net.state(), net.count(Count::Dhcp6Request)), ((State::Failed, Some(Cause::NoOffer)), 0));
    let mut net = Net::new(config(1, false, Some(leases())), Router { status: 4, ..Router::default() });
    net.run(60 * SECOND);
    assert_eq!(net.state(), (State::Failed, Some(Cause::NoOffer)));
    net.peer.status = 0;
    net.run(200 * SECOND);
    assert_eq!(net.state(), (State::Bound, None));
}

#[test]
fn clients_of_both_families_are_bound_when_both_are() {
    let both = |count| {
        let six = config(count, true, Some(Dhcp6 { when: Dhcp6When::Managed, ..leases() }));
        Config { ipv6: six.ipv6, ping_gateway: true, ..Config::dhcp(FIRST_MAC, count, Rate::per_second(1000)) }
    };
    struct Both(access::peer4::Server, Router);
    impl Peer for Both {
        fn receive(&mut self, frame: &[u8], now_ns: u64) -> Vec<Vec<u8>> {
            if frame[12..14] == [0x86, 0xdd] { self.1.receive(frame, now_ns) } else { self.0.receive(frame, now_ns) }
        }
    }
    let router = Router { managed: true, pings: false, ..Router::default() };
    let mut net = Net::new(both(100), Both(access::peer4::Server::default(), router));
    net.run(SECOND / 2);
    assert_eq!((net.clients(State::Discovering), net.group.sources4().count()), (100, 0));
    net.run(10 * SECOND);
    assert_eq!(net.failed(Cause::GatewaySilent), 100);
    net.peer.1.pings = true;
    net.run(100 * SECOND);
    assert_eq!(net.clients(State::Bound), 100);
    assert_eq!((net.group.sources4().count(), net.group.sources6().count()), (100, 100));
    let details = net.group.details(3, 0).ipv6.unwrap();
    assert!(details.slaac.is_some() && details.leased.is_some() && details.delegated.is_some());
    assert_eq!(source6(&net), Some(details.leased.unwrap().to_bits()));
    net.check_states();

    fn source6<P>(net: &Net<P>) -> Option<u128> {
        net.group.sources6().find(|source| source.index == 3).map(|source| source.address.0)
    }
}

#[test]
fn delegated_prefixes_alone_are_leases_too() {
    let dhcp = Dhcp6 { address: false, ..leases() };
    let mut net = Net::new(config(3, true, Some(dhcp)), Router::default());
    net.run(10 * SECOND);
    assert_eq!(net.clients(State::Bound), 3);
    let details = net.group.details(2, net.now_ns).ipv6.unwrap();
    assert_eq!((details.leased, details.slaac.is_some()), (None, true));
    assert!(details.delegated.is_some_and(|(prefix, len)| prefix.to_bits() >= DELEGATED && len == 56));
    assert!(details.lease_left_ns.is_some_and(|left| left > 3980 * SECOND));
}
