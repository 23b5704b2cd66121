// SPDX-License-Identifier: Apache-2.0
//! Which of the frames that a port receives concern its clients: the check that the data path makes of each frame that no run takes.
use spate_net::{
    dhcp4, dhcp6,
    ethernet::{ARP, IPV4, IPV6, Link, Mac},
    field::get_be16,
    ip::{ICMP, ICMPV6, UDP},
    ipv4, ipv6,
};

use crate::config::{Config, mac_number};

/// Frames for the clients of some groups. It may let through too much, never too little: a group drops what is for none of its clients.
#[derive(Clone, Debug, Default)]
pub struct Interest {
    /// MACs of clients, as numbers: the first and the last of each group.
    macs: Vec<(u64, u64)>,
    /// Some have IPv4,
    ipv4: bool,
    /// and some IPv6.
    ipv6: bool,
}

/// For whom a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// A client's own MAC.
    Client,
    /// A group or all stations: clients are some of them.
    Group,
    /// Another station.
    Other,
}

impl Interest {
    /// Frames for the clients of these groups.
    pub fn new<'a>(groups: impl IntoIterator<Item = &'a Config>) -> Self {
        let mut all = Self::default();
        for config in groups {
            let first = mac_number(config.mac).saturating_add(config.first);
            let more = u64::from(config.count.saturating_sub(1)).saturating_mul(config.stride);
            all.macs.push((first, first.saturating_add(more)));
            all.ipv4 |= config.ipv4.is_some();
            all.ipv6 |= config.ipv6.is_some();
        }
        all
    }

    /// Whether a MAC is in the range of a group.
    #[inline]
    pub fn has_mac(&self, mac: Mac) -> bool {
        let mac = mac_number(mac);
        self.macs.iter().any(|(first, last)| (*first..=*last).contains(&mac))
    }

    /// Whether ranges of MACs overlap with those of others.
    pub fn overlaps(&self, others: &Self) -> bool {
        let mut pairs = self.macs.iter().flat_map(|one| others.macs.iter().map(move |other| (one, other)));
        pairs.any(|(one, other)| one.0 <= other.1 && other.0 <= one.1)
    }

    /// For whom a frame is, by its destination MAC.
    #[inline]
    pub fn destination(&self, frame: &[u8]) -> For {
        match frame.first_chunk() {
            Some(mac) if mac[0] & 1 != 0 => For::Group,
            Some(mac) if self.has_mac(*mac) => For::Client,
            _ => For::Other,
        }
    }

    /// Whether a frame, which is not for another station, is of a protocol that clients speak.
    #[inline]
    pub fn is_spoken(&self, frame: &[u8]) -> bool {
        let Some(link) = Link::find(frame) else { return false };
        let packet = &frame[link.end..];
        match link.ethertype {
            ARP => self.ipv4,
            IPV4 if self.ipv4 => match packet.first_chunk::<{ ipv4::HEADER }>() {
                Some(header) if header[9] == UDP => {
                    get_be16(packet, ipv4::header_len(header) + 2) == Some(dhcp4::CLIENT_PORT)
                }
                Some(header) => header[9] == ICMP,
                None => false,
            },
            // Neither neighbor discovery nor DHCPv6 comes behind other headers (RFC 6980).
            IPV6 if self.ipv6 => match packet.get(6) {
                Some(&UDP) => get_be16(packet, ipv6::HEADER + 2) == Some(dhcp6::CLIENT_PORT),
                Some(&ICMPV6) => true,
                _ => false,
            },
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::Ipv6, pacing::Rate};
    use spate_net::{
        ethernet,
        ip::TCP,
        vlan::{CUSTOMER, SERVICE, Tag, Tags},
    };

    const FIRST: Mac = [2, 0x10, 0, 0, 0, 0xfe];
    const SERVER: Mac = [2, 0, 0, 0, 0, 1];

    fn config() -> Config {
        Config::dhcp(FIRST, 4, Rate::per_second(1))
    }

    #[test]
    fn frames_are_for_the_macs_of_the_engines_clients_or_for_groups() {
        let interest = Interest::new(&[Config { first: 1, stride: 3, ..config() }]);
        let to = |mac: Mac| interest.destination(&[&mac[..], &[0; 54]].concat());
        let last = |number: u64| {
            let [_, _, mac @ ..] = (mac_number(FIRST) + number).to_be_bytes();
            to(mac)
        };
        assert_eq!([0, 1, 4, 10, 11].map(last), [For::Other, For::Client, For::Client, For::Client, For::Other]);
        assert_eq!((to([0xff; 6]), to([0x33, 0x33, 0, 0, 0, 1]), to(SERVER)), (For::Group, For::Group, For::Other));
        assert_eq!((interest.destination(&[2; 5]), Interest::default().destination(&FIRST)), (For::Other, For::Other));
    }

    #[test]
    fn protocols_of_clients_are_spoken_in_any_vlan_and_those_of_flows_are_not() {
        let udp = |port: u16| [&[0, 67][..], &port.to_be_bytes(), &[0; 4]].concat();
        let v4 = |options: u8, protocol: u8, body: &[u8]| {
            let mut packet = vec![0; 20 + usize::from(options) * 4];
            (packet[0], packet[9]) = (0x45 + options, protocol);
            [&packet, body].concat()
        };
        let v6 = |next: u8, body: &[u8]| [&[0x60, 0, 0, 0, 0, 8, next, 255], &[0; 32][..], body].concat();
        let four = Interest::new(&[config()]);
        let six = Ipv6 { slaac: true, dhcp: None, dad_transmits: 1 };
        let six = Interest::new(&[Config { ipv4: None, ipv6: Some(six), ..config() }]);
        let cases = [
            (ARP, vec![0; 28], [true, false]),
            (IPV4, v4(0, UDP, &udp(68)), [true, false]),
            (IPV4, v4(3, UDP, &udp(68)), [true, false]),
            (IPV4, v4(0, UDP, &udp(53)), [false, false]),
            (IPV4, v4(0, ICMP, &[8, 0, 0, 0]), [true, false]),
            (IPV4, v4(0, TCP, &udp(68)), [false, false]),
            (IPV4, v4(15, UDP, &[]), [false, false]),
            (IPV4, vec![0x45; 7], [false, false]),
            (IPV6, v6(UDP, &udp(546)), [false, true]),
            (IPV6, v6(UDP, &udp(547)), [false, false]),
            (IPV6, v6(ICMPV6, &[134; 8]), [false, true]),
            (IPV6, v6(TCP, &[0; 20]), [false, false]),
            (0x88cc, vec![0; 28], [false, false]),
        ];
        let qinq = [Tag { ethertype: SERVICE, vlan: 7 }, Tag { ethertype: CUSTOMER, vlan: 5 }];
        for (ethertype, packet, expected) in cases {
            for tags in [Tags::NONE, Tags::from(Some(5)), Tags::new(&qinq).unwrap()] {
                let frame = ethernet::build(FIRST, SERVER, tags, ethertype, &packet);
                assert_eq!(
                    [four.is_spoken(&frame), six.is_spoken(&frame)],
                    expected,
                    "{ethertype:x} {tags} {packet:?}"
                );
            }
        }
        assert!(!four.is_spoken(&[2; 12]));
    }
}
