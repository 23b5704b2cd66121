// SPDX-License-Identifier: Apache-2.0
//! An IPv6 router and a DHCPv6 server, in one, with the faults that they have.
use std::collections::{HashMap, HashSet};

use spate_net::{
    Headers,
    dhcp6::{self, Builder, Ia, Leased, Message, option, status},
    ethernet::Mac,
    icmpv6,
    ip::{ICMPV6, UDP},
    ndp,
    vlan::Tags,
};

use super::{Ends, Peer, icmp6, udp6};

pub const ROUTER_MAC: Mac = [2, 0x20, 0, 0, 0, 6];
pub const PREFIX: u64 = 0x2001_0db8_0000_0001;
pub const LEASED: u128 = 0x2001_0db8_0000_00ff << 64;
pub const DELEGATED: u128 = 0x2001_0db8_8000 << 80;
const NOTHING: Leased = Leased { address: 0, length: 128, preferred: 0, valid: 0, status: 0 };

/// What a client of DHCPv6 sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub at_ns: u64,
    pub mac: Mac,
    pub kind: u8,
    pub elapsed: u16,
    pub xid: u32,
    pub server: Option<Vec<u8>>,
}

pub struct Router {
    pub is_up: bool,
    pub managed: bool,
    pub lifetime_s: u16,
    /// Valid and preferred time of the advertised prefix; none: it has none.
    pub prefix: Option<(u32, u32)>,
    /// Answers solicitations to all nodes, and not more often than each 3 s in a VLAN (RFC 4861 section 6.2.6).
    pub multicast: bool,
    pub advertised: HashMap<Tags, u64>,
    pub pings: bool,
    /// Addresses of other stations.
    pub taken: HashSet<u128>,
    /// Server identifiers with their preferences; all of them offer.
    pub servers: Vec<(Vec<u8>, u8)>,
    pub server_is_up: bool,
    pub rapid: bool,
    /// Preferred and valid time.
    pub times: (u32, u32),
    pub t1_t2: (u32, u32),
    pub status: u16,
    pub no_addresses: bool,
    pub no_binding: bool,
    pub same: Option<u128>,
    pub next: u128,
    pub leases: HashMap<Mac, (u128, u128)>,
    pub declined: Vec<u128>,
    pub released: Vec<Mac>,
    pub seen: Vec<Seen>,
    pub solicited: Vec<(u64, Mac)>,
    pub probed: Vec<(u64, u128)>,
}

impl Default for Router {
    fn default() -> Self {
        Self {
            is_up: true,
            managed: false,
            lifetime_s: 1800,
            prefix: Some((7200, 3600)),
            multicast: false,
            advertised: HashMap::new(),
            pings: true,
            taken: HashSet::new(),
            servers: vec![(vec![0, 3, 0, 1, 2, 0x20, 0, 0, 0, 7], 0)],
            server_is_up: true,
            rapid: false,
            times: (3000, 4000),
            t1_t2: (0, 0),
            status: 0,
            no_addresses: false,
            no_binding: false,
            same: None,
            next: 0,
            leases: HashMap::new(),
            declined: Vec::new(),
            released: Vec::new(),
            seen: Vec::new(),
            solicited: Vec::new(),
            probed: Vec::new(),
        }
    }
}

impl Router {
    pub fn address() -> u128 {
        ndp::link_local(ROUTER_MAC).to_bits()
    }

    pub fn kinds(&self) -> Vec<u8> {
        self.seen.iter().map(|seen| seen.kind).collect()
    }

    pub fn advertisement(&self, to: Option<Mac>, tags: Tags) -> Vec<u8> {
        let flags = if self.managed { ndp::MANAGED } else { 0 };
        let mut icmp = vec![ndp::ROUTER_ADVERTISEMENT, 0, 0, 0, 64, flags, 0, 0];
        icmp[6..8].copy_from_slice(&self.lifetime_s.to_be_bytes());
        icmp.extend([0; 8]);
        icmp.extend([ndp::SOURCE_MAC, 1]);
        icmp.extend(ROUTER_MAC);
        if let Some((valid, preferred)) = self.prefix {
            icmp.extend([3, 4, 64, 0xc0]);
            icmp.extend(valid.to_be_bytes());
            icmp.extend(preferred.to_be_bytes());
            icmp.extend([0; 4]);
            icmp.extend(PREFIX.to_be_bytes());
            icmp.extend([0; 8]);
        }
        let all = ndp::ALL_NODES.to_bits();
        let ends = Ends { to: to.unwrap_or([0x33, 0x33, 0, 0, 0, 1]), from: ROUTER_MAC, tags };
        let to = to.map_or(all, |mac| ndp::link_local(mac).to_bits());
        icmp6(ends, ndp::HOP_LIMIT, (Self::address(), to), &icmp)
    }

    /// A neighbor advertisement of another station to all.
    pub fn claim(address: u128, tags: Tags) -> Vec<u8> {
        let mac = [2, 0x30, 0, 0, 0, 6];
        let mut icmp = [0; 32];
        let len = ndp::write_advertisement(&mut icmp, address.into(), ndp::OVERRIDE, mac);
        let ends = Ends { to: [0x33, 0x33, 0, 0, 0, 1], from: mac, tags };
        icmp6(ends, ndp::HOP_LIMIT, (address, ndp::ALL_NODES.to_bits()), &icmp[..len])
    }

    fn icmp(&mut self, frame: &[u8], (from, to): (u128, u128), message: &[u8], now_ns: u64) -> Vec<Vec<u8>> {
        let (mac, tags): (Mac, _) = (frame[6..12].try_into().unwrap(), Tags::of(frame).unwrap());
        match message[0] {
            ndp::ROUTER_SOLICITATION => {
                self.solicited.push((now_ns, mac));
                if !self.is_up {
                    return Vec::new();
                }
                if !self.multicast {
                    return vec![self.advertisement(Some(mac), tags)];
                }
                let last = self.advertised.get(&tags).copied();
                if last.is_some_and(|last| now_ns < last + 3 * super::SECOND) {
                    return Vec::new();
                }
                self.advertised.insert(tags, now_ns);
                vec![self.advertisement(None, tags)]
            }
            ndp::SOLICITATION => {
                let target = u128::from_be_bytes(message[8..24].try_into().unwrap());
                if from == 0 {
                    self.probed.push((now_ns, target));
                }
                if self.taken.contains(&target) { vec![Self::claim(target, tags)] } else { Vec::new() }
            }
            icmpv6::ECHO_REQUEST if self.pings => {
                let mut reply = message.to_vec();
                reply[0] = icmpv6::ECHO_REPLY;
                vec![icmp6(Ends::answer(frame, ROUTER_MAC), 64, (to, from), &reply)]
            }
            _ => Vec::new(),
        }
    }

    fn leased(&mut self, mac: Mac) -> (Leased, Leased) {
        if !self.leases.contains_key(&mac) {
            self.next += 1;
            self.leases.insert(mac, (LEASED + self.next, DELEGATED + (self.next << 72)));
        }
        let (preferred, valid) = self.times;
        let (address, prefix) = self.leases[&mac];
        let address = self.same.unwrap_or(address);
        let times = Leased { preferred, valid, ..NOTHING };
        (Leased { address, ..times }, Leased { address: prefix, length: 56, ..times })
    }

    fn dhcp(&mut self, frame: &[u8], from: u128, message: &Message<'_>, now_ns: u64) -> Vec<Vec<u8>> {
        let mac: Mac = frame[6..12].try_into().unwrap();
        let client = message.option(option::CLIENT_ID).unwrap();
        assert_eq!(client, [&[0, 3, 0, 1][..], &mac].concat());
        let elapsed = u16::from_be_bytes(message.option(option::ELAPSED_TIME).unwrap().try_into().unwrap());
        let server = message.option(option::SERVER_ID).map(<[u8]>::to_vec);
        let (kind, xid) = (message.kind, message.xid);
        self.seen.push(Seen { at_ns: now_ns, mac, kind, elapsed, xid, server: server.clone() });
        if !self.server_is_up {
            return Vec::new();
        }
        match kind {
            dhcp6::RELEASE => self.released.push(mac),
            dhcp6::DECLINE => {
                let ia = Ia::read(message.option(option::IA_NA).unwrap()).unwrap();
                let declined = Leased::read_address(ia.options.first(option::IA_ADDRESS).unwrap()).unwrap();
                self.declined.push(declined.address);
                self.leases.remove(&mac);
            }
            _ => {}
        }
        let rapid = self.rapid && message.option(option::RAPID_COMMIT).is_some();
        let answer = if kind == dhcp6::SOLICIT && !rapid { dhcp6::ADVERTISE } else { dhcp6::REPLY };
        let servers = self.servers.clone();
        let answers = servers.into_iter().filter(|(duid, _)| server.as_ref().is_none_or(|server| server == duid));
        answers
            .map(|(duid, preference)| {
                let mut bytes = [0; 500];
                let mut reply = Builder::new(&mut bytes, answer, xid);
                reply.option(option::CLIENT_ID, client);
                reply.option(option::SERVER_ID, &duid);
                reply.option(option::PREFERENCE, &[preference]);
                if rapid {
                    reply.option(option::RAPID_COMMIT, &[]);
                }
                reply.status(self.status);
                if !matches!(kind, dhcp6::RELEASE | dhcp6::DECLINE) {
                    let (address, prefix) = self.leased(mac);
                    let refused = if self.no_binding { status::NO_BINDING } else { status::NO_ADDRESSES };
                    let refuses = self.no_addresses || self.no_binding && kind != dhcp6::REQUEST;
                    for (code, leased) in [(option::IA_NA, address), (option::IA_PD, prefix)] {
                        if message.option(code).is_some() {
                            reply.ia(code, 1, self.t1_t2, |ia| {
                                if refuses { ia.status(refused) } else { ia.leased(&leased) }
                            });
                        }
                    }
                }
                let len = reply.finish().unwrap();
                let ends = Ends::answer(frame, ROUTER_MAC);
                let ports = (dhcp6::SERVER_PORT, dhcp6::CLIENT_PORT);
                udp6(ends, (Self::address(), from), ports, &bytes[..len])
            })
            .collect()
    }
}

impl Peer for Router {
    fn receive(&mut self, frame: &[u8], now_ns: u64) -> Vec<Vec<u8>> {
        let headers = Headers::find(frame).unwrap();
        let end = headers.packet_end(frame);
        let addresses = (headers.source(frame).0, headers.destination(frame).0);
        match headers.transport {
            Some((ICMPV6, at)) => self.icmp(frame, addresses, &frame[at..end], now_ns),
            Some((UDP, at)) => {
                let message = Message::read(&frame[at + 8..end]).expect("clients send valid messages");
                self.dhcp(frame, addresses.0, &message, now_ns)
            }
            other => panic!("{other:?}"),
        }
    }
}
