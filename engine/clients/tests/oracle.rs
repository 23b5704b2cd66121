// SPDX-License-Identifier: Apache-2.0
//! What clients send, and what they read, as another implementation of DHCP sees it: `dhcproto`.
mod access;

use access::{
    FIRST_MAC, MS, Net, SECOND,
    peer4::{FIRST, SERVER, Server},
    peer6::Router,
};
use dhcproto::{Decodable, Decoder, Encodable, Encoder, v4, v6};
use proptest::prelude::*;
use spate_clients::{Config, Dhcp4, Dhcp6, Dhcp6When, Ipv4, Ipv6, Leave, Probe, Rate};
use spate_net::{Headers, dhcp4, dhcp6, ip::UDP};

/// Payloads of the datagrams that were sent.
fn payloads(sent: &[(u64, Vec<u8>)]) -> Vec<Vec<u8>> {
    let payload = |frame: &Vec<u8>| {
        let headers = Headers::find(frame)?;
        let (protocol, at) = headers.transport?;
        (protocol == UDP).then(|| frame[at + 8..headers.packet_end(frame)].to_vec())
    };
    sent.iter().filter_map(|(_, frame)| payload(frame)).collect()
}

#[test]
fn messages_of_clients_are_read_by_others_as_they_are_meant() {
    let dhcp = Dhcp4 {
        vendor_class: b"spate".into(),
        vendor_specific: vec![1, 2, 3],
        requested_options: vec![1, 3, 6, 51, 121],
        client_id: Some("id-{n}".parse().unwrap()),
        circuit_id: Some("eth0/{n:03}".parse().unwrap()),
        remote_id: Some("r{n}".parse().unwrap()),
        lease_time: Some(600),
        broadcast: true,
        probe: Some(Probe::ONE),
    };
    let config = Config::dhcp(FIRST_MAC, 1, Rate::per_second(1));
    let hostname = Some("sub-{n}".parse().unwrap());
    let config = Config { first: 42, hostname, ipv4: Some(Ipv4::Dhcp(Box::new(dhcp))), ..config };
    let mut net = Net::new(config, Server { taken: [FIRST].into(), lease_s: 60, ..Server::default() });
    net.run(50 * SECOND);
    let mut out = Vec::new();
    net.group.leave(0, Leave::Release, net.now_ns, &mut out);
    net.send(out);
    let mac = [2, 0x10, 0, 0, 0, 42];
    let mut kinds = Vec::new();
    for payload in payloads(&net.sent) {
        let message = v4::Message::decode(&mut Decoder::new(&payload)).unwrap();
        let opts = message.opts();
        let kind = opts.msg_type().unwrap();
        kinds.push(kind);
        assert_eq!(
            (message.opcode(), message.htype(), message.chaddr()),
            (v4::Opcode::BootRequest, v4::HType::Eth, &mac[..])
        );
        let is = |option: v4::DhcpOption| opts.get((&option).into()) == Some(&option);
        let lacks = |code| opts.get(code).is_none();
        assert!(is(v4::DhcpOption::ClientIdentifier([&[0], &b"id-42"[..]].concat())));
        let mut agent = v4::relay::RelayAgentInformation::default();
        agent.insert(v4::relay::RelayInfo::AgentCircuitId(b"eth0/042".to_vec()));
        agent.insert(v4::relay::RelayInfo::AgentRemoteId(b"r42".to_vec()));
        assert!(is(v4::DhcpOption::RelayAgentInformation(agent)));
        let renews = !message.ciaddr().is_unspecified();
        let asks = matches!(kind, v4::MessageType::Discover | v4::MessageType::Request);
        assert_eq!(message.flags().broadcast(), asks && !renews);
        if asks {
            assert!(is(v4::DhcpOption::Hostname("sub-42".into())) && is(v4::DhcpOption::AddressLeaseTime(600)));
            assert!(is(v4::DhcpOption::ClassIdentifier(b"spate".to_vec())));
            assert!(is(v4::DhcpOption::VendorExtensions(vec![1, 2, 3])));
            let codes = [1, 3, 6, 51, 121].map(v4::OptionCode::from).to_vec();
            assert!(is(v4::DhcpOption::ParameterRequestList(codes)));
        } else {
            assert!(lacks(v4::OptionCode::Hostname) && lacks(v4::OptionCode::ParameterRequestList));
        }
        // Table 5 of RFC 2131.
        let server = is(v4::DhcpOption::ServerIdentifier(SERVER.into()));
        match kind {
            v4::MessageType::Discover => assert!(lacks(v4::OptionCode::ServerIdentifier) && !renews),
            v4::MessageType::Request if renews => {
                assert!(lacks(v4::OptionCode::ServerIdentifier) && lacks(v4::OptionCode::RequestedIpAddress));
            }
            v4::MessageType::Request | v4::MessageType::Decline => {
                assert!(server && !lacks(v4::OptionCode::RequestedIpAddress) && !renews);
            }
            _ => assert!(server && lacks(v4::OptionCode::RequestedIpAddress) && renews),
        }
    }
    use v4::MessageType::{Decline, Discover, Release, Request};
    assert_eq!(kinds, [Discover, Request, Decline, Discover, Request, Request, Release]);
}

#[test]
fn messages_of_ipv6_clients_are_read_by_others_as_they_are_meant() {
    let dhcp = Dhcp6 { when: Dhcp6When::Always, prefix: Some(56), rapid_commit: true, ..Dhcp6::default() };
    let ipv6 = Some(Ipv6 { slaac: false, dhcp: Some(dhcp), dad_transmits: 0 });
    let config = Config { ipv4: None, ipv6, ..Config::dhcp(FIRST_MAC, 1, Rate::per_second(1)) };
    let mut net = Net::new(config, Router { times: (20, 40), ..Router::default() });
    net.run(15 * SECOND);
    net.peer.server_is_up = false;
    net.run(40 * SECOND);
    net.peer.server_is_up = true;
    net.run(60 * SECOND);
    let mut out = Vec::new();
    net.group.leave(0, Leave::Release, net.now_ns, &mut out);
    net.send(out);
    let mut kinds = Vec::new();
    for payload in payloads(&net.sent) {
        let message = v6::Message::decode(&mut Decoder::new(&payload)).unwrap();
        let opts = message.opts();
        kinds.push(message.msg_type());
        let client = v6::DhcpOption::ClientId([&[0, 3, 0, 1][..], &FIRST_MAC].concat());
        assert_eq!(opts.get(v6::OptionCode::ClientId), Some(&client));
        assert!(opts.get(v6::OptionCode::ElapsedTime).is_some());
        let solicits = message.msg_type() == v6::MessageType::Solicit;
        assert_eq!(opts.get(v6::OptionCode::RapidCommit).is_some(), solicits);
        let rebinds = message.msg_type() == v6::MessageType::Rebind;
        assert_eq!(opts.get(v6::OptionCode::ServerId).is_some(), !solicits && !rebinds);
        let (Some(v6::DhcpOption::IANA(address)), Some(v6::DhcpOption::IAPD(prefix))) =
            (opts.get(v6::OptionCode::IANA), opts.get(v6::OptionCode::IAPD))
        else {
            panic!("{message:?}");
        };
        let Some(v6::DhcpOption::IAPrefix(prefix)) = prefix.opts.get(v6::OptionCode::IAPrefix) else {
            panic!("{prefix:?}")
        };
        assert_eq!(prefix.prefix_len, 56);
        match address.opts.get(v6::OptionCode::IAAddr) {
            None => assert!(solicits),
            Some(v6::DhcpOption::IAAddr(address)) => {
                let (given, delegated) = net.peer.leases[&FIRST_MAC];
                assert_eq!((address.addr.to_bits(), prefix.prefix_ip.to_bits()), (given, delegated));
            }
            other => panic!("{other:?}"),
        }
        // What is read is written again as it was.
        let mut again = Vec::new();
        message.encode(&mut Encoder::new(&mut again)).unwrap();
        assert_eq!(again.len(), payload.len());
    }
    kinds.dedup();
    use v6::MessageType::{Rebind, Release, Renew, Request, Solicit};
    assert_eq!(kinds[..4], [Solicit, Request, Renew, Rebind]);
    assert_eq!(kinds.last(), Some(&Release));
    assert!(net.now_ns > 50 * MS);
}

proptest! {
    #[test]
    fn messages_of_servers_are_read_as_others_write_them(
        xid: u32, yiaddr: u32, server: u32, lease: u32, times: (u32, u32), router: u32, broadcast: bool,
        kind in prop::sample::select(vec![v4::MessageType::Offer, v4::MessageType::Ack, v4::MessageType::Nak]),
        name in prop::collection::vec(any::<u8>(), 1..255),
    ) {
        let none = std::net::Ipv4Addr::UNSPECIFIED;
        let mut message = v4::Message::new_with_id(xid, none, yiaddr.into(), none, none, &FIRST_MAC);
        message.set_opcode(v4::Opcode::BootReply);
        if broadcast {
            message.set_flags(v4::Flags::default().set_broadcast());
        }
        let opts = message.opts_mut();
        opts.insert(v4::DhcpOption::MessageType(kind));
        opts.insert(v4::DhcpOption::ServerIdentifier(server.into()));
        opts.insert(v4::DhcpOption::AddressLeaseTime(lease));
        opts.insert(v4::DhcpOption::Renewal(times.0));
        opts.insert(v4::DhcpOption::Rebinding(times.1));
        opts.insert(v4::DhcpOption::Router(vec![router.into()]));
        opts.insert(v4::DhcpOption::ClassIdentifier(name.clone()));
        let mut bytes = Vec::new();
        message.encode(&mut Encoder::new(&mut bytes)).unwrap();
        let read = dhcp4::Message::read(&bytes).unwrap();
        let number = |code| read.option(code).map(|value| u32::from_be_bytes(value.try_into().unwrap()));
        prop_assert_eq!((read.op(), read.xid(), read.yiaddr(), read.mac()), (dhcp4::REPLY, xid, yiaddr.into(), Some(FIRST_MAC)));
        prop_assert_eq!((read.kind(), read.flags() == dhcp4::BROADCAST), (Some(kind.into()), broadcast));
        for (code, value) in [(54, server), (51, lease), (58, times.0), (59, times.1), (3, router)] {
            prop_assert_eq!(number(code), Some(value));
        }
        prop_assert_eq!(read.option(60), Some(&name[..]));
    }

    #[test]
    fn messages_of_ipv6_servers_are_read_as_others_write_them(
        xid in prop::array::uniform3(any::<u8>()), address: u128, prefix: u128, length in 0u8..=128, lives: (u32, u32), times: (u32, u32),
        client in prop::collection::vec(any::<u8>(), 1..130),
    ) {
        let none = v6::DhcpOptions::default;
        let leased = v6::IAAddr { addr: address.into(), preferred_life: lives.0, valid_life: lives.1, opts: none() };
        let delegated = v6::IAPrefix {
            preferred_lifetime: lives.0, valid_lifetime: lives.1, prefix_len: length, prefix_ip: prefix.into(), opts: none(),
        };
        let (mut addresses, mut prefixes) = (none(), none());
        addresses.insert(v6::DhcpOption::IAAddr(leased));
        prefixes.insert(v6::DhcpOption::IAPrefix(delegated));
        let mut message = v6::Message::new_with_id(v6::MessageType::Reply, xid);
        let opts = message.opts_mut();
        opts.insert(v6::DhcpOption::ClientId(client.clone()));
        opts.insert(v6::DhcpOption::IANA(v6::IANA { id: 1, t1: times.0, t2: times.1, opts: addresses }));
        opts.insert(v6::DhcpOption::IAPD(v6::IAPD { id: 1, t1: times.0, t2: times.1, opts: prefixes }));
        let mut bytes = Vec::new();
        message.encode(&mut Encoder::new(&mut bytes)).unwrap();
        let read = dhcp6::Message::read(&bytes).unwrap();
        let [a, b, c] = xid;
        prop_assert_eq!((read.kind, read.xid), (dhcp6::REPLY, u32::from_be_bytes([0, a, b, c])));
        prop_assert_eq!(read.option(1), Some(&client[..]));
        let ia = |code| dhcp6::Ia::read(read.option(code).unwrap()).unwrap();
        let leased = dhcp6::Leased::read_address(ia(3).options.first(5).unwrap()).unwrap();
        let delegated = dhcp6::Leased::read_prefix(ia(25).options.first(26).unwrap()).unwrap();
        for (found, expected, len) in [(leased, address, 128), (delegated, prefix, length)] {
            prop_assert_eq!((found.address, found.length, found.preferred, found.valid), (expected, len, lives.0, lives.1));
        }
        prop_assert_eq!((ia(3).t1, ia(25).t2), times);
    }
}
