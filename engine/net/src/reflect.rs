// SPDX-License-Identifier: Apache-2.0
//! Sending a packet back to where it came from: addresses are swapped, and its hop limit is one less.
//!
//! The hop is what ends a loop: between two ports that both send back what they receive, a packet passes at most as often as
//! its TTL or hop limit allows. Frames without an IP header have no such count, and are not sent back.
use std::net::IpAddr;

use crate::{
    checksum,
    headers::{Headers, SCTP, TCP, UDP, Version},
    ip,
};

/// Protocol numbers of ICMP and ICMPv6.
const ICMP: [u8; 2] = [ip::ICMP, ip::ICMPV6];
/// UDP ports of tunnels: GTP-U, VXLAN, Geneve.
const TUNNELS: [u16; 3] = [2152, 4789, 6081];

/// Fields that are swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// Source and destination MAC.
    Mac,
    /// IP addresses and TCP or UDP ports too, where there are some.
    Addresses,
}

/// Which packets are sent back, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Fields that are swapped.
    pub swap: Swap,
    /// Only frames to this MAC are sent back; none: those to any station.
    pub own: Option<[u8; 6]>,
    /// Where packets may be sent back to.
    pub allowed: Allowed,
}

/// Destinations that packets may be sent back to; all, where a list is empty. Where one is not, packets whose destination is not
/// in their first IP header alone are not sent back: tunnels, and IPv4 options or IPv6 extension headers, which may name a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// First and last address of each range.
    pub addresses: Box<[(IpAddr, IpAddr)]>,
    /// First and last destination port of each range. Packets that are neither TCP nor UDP have none.
    pub ports: Box<[(u16, u16)]>,
}

/// Swaps a frame's source and destination. False, and nothing is changed, if it must not be sent back: it is for another
/// station, it went to a group or claims to come from one, which cannot be (IEEE 802.3), it carries no IP, its hops are used
/// up, or its destination is not allowed.
#[inline]
pub fn reflect(frame: &mut [u8], rules: &Rules) -> bool {
    if frame.len() < 14 || (frame[0] | frame[6]) & 1 != 0 || rules.own.is_some_and(|own| frame[..6] != own) {
        return false;
    }
    let Some(headers) = Headers::find(frame) else { return false };
    if !rules.allowed.is_any() && !rules.allows(frame, &headers) || !spend_hop(frame, &headers) {
        return false;
    }
    exchange(frame, 0, 6);
    if rules.swap == Swap::Addresses {
        let (at, len) = headers.addresses();
        exchange(frame, at, len);
        if let Some(at) = ports(frame, &headers) {
            exchange(frame, at, 2);
        }
    }
    true
}

/// Takes one from the TTL or hop limit, as a router does. False, and nothing is changed, if none would be left.
fn spend_hop(frame: &mut [u8], headers: &Headers) -> bool {
    let at = headers.at + if headers.version == Version::V4 { 8 } else { 7 };
    if frame[at] <= 1 {
        return false;
    }
    let before = u16::from_be_bytes([frame[at], frame[at + 1]]);
    frame[at] -= 1;
    if headers.version == Version::V4 {
        let after = u16::from_be_bytes([frame[at], frame[at + 1]]);
        let sum = u16::from_be_bytes([frame[at + 2], frame[at + 3]]);
        frame[at + 2..at + 4].copy_from_slice(&checksum::updated(sum, before, after).to_be_bytes());
    }
    true
}

/// Offset of the ports of TCP or UDP, if they are there.
fn ports(frame: &[u8], headers: &Headers) -> Option<usize> {
    headers.transport.filter(|(protocol, at)| matches!(*protocol, TCP | UDP) && at + 4 <= frame.len()).map(|(_, at)| at)
}

impl Allowed {
    /// Whether all destinations are allowed.
    pub fn is_any(&self) -> bool {
        self.addresses.is_empty() && self.ports.is_empty()
    }
}

impl Rules {
    /// Whether the packet may go where it would be sent back to.
    #[cold]
    fn allows(&self, frame: &[u8], headers: &Headers) -> bool {
        let fixed = headers.at + if headers.version == Version::V4 { 20 } else { 40 };
        let Some((protocol, _)) = headers.transport.filter(|(_, at)| *at == fixed) else { return false };
        let back = self.swap == Swap::Addresses;
        let pair =
            ports(frame, headers).map(|at| [at, at + 2].map(|at| u16::from_be_bytes([frame[at], frame[at + 1]])));
        let plain = match protocol {
            UDP => pair.is_some_and(|pair| !pair.iter().any(|port| TUNNELS.contains(port))),
            TCP => pair.is_some(),
            other => other == SCTP || ICMP.contains(&other),
        };
        let (at, len) = headers.addresses();
        let to = address(&frame[if back { at } else { at + len }..][..len]);
        let to_port = pair.map(|[source, destination]| if back { source } else { destination });
        let within =
            |(first, last): &(IpAddr, IpAddr)| first.is_ipv4() == to.is_ipv4() && (first..=last).contains(&&to);
        let open = |port: u16| self.allowed.ports.iter().any(|(first, last)| (first..=last).contains(&&port));
        plain
            && (self.allowed.addresses.is_empty() || self.allowed.addresses.iter().any(within))
            && (self.allowed.ports.is_empty() || to_port.is_some_and(open))
    }
}

/// An address of 4 or 16 bytes.
fn address(bytes: &[u8]) -> IpAddr {
    match <[u8; 4]>::try_from(bytes) {
        Ok(four) => four.into(),
        Err(_) => bytes.first_chunk::<16>().copied().unwrap_or_default().into(),
    }
}

/// Swaps two adjacent fields of `len` bytes.
fn exchange(frame: &mut [u8], at: usize, len: usize) {
    let (first, second) = frame[at..at + 2 * len].split_at_mut(len);
    first.swap_with_slice(second);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::samples;
    use proptest::prelude::*;

    fn rules(swap: Swap) -> Rules {
        Rules { swap, own: None, allowed: Allowed::default() }
    }

    /// From 10.0.0.1 port 5000 to 10.0.0.2 port 80.
    fn udp() -> Vec<u8> {
        samples::v4(2, 0, UDP, &[0x13, 0x88, 0, 80, 0, 8, 0, 0])
    }

    #[test]
    fn all_addresses_change_places_and_checksums_stay_right() {
        let mut frame = samples::v4(2, 1, UDP, &[0, 80, 0x13, 0x88, 0, 8, 0, 0]);
        let before = frame.clone();
        assert!(reflect(&mut frame, &rules(Swap::Addresses)));
        assert_eq!((&frame[..6], &frame[6..12]), (&before[6..12], &before[..6]));
        assert_eq!((&frame[34..38], &frame[38..42]), (&before[38..42], &before[34..38]));
        assert_eq!((frame[30], before[30]), (63, 64));
        assert_eq!(frame[46..50], [0x13, 0x88, 0, 80]);
        assert_eq!(checksum::fold(checksum::sum(&frame[22..46])), 0xffff);
        // With MACs alone nothing else changes but the TTL and its checksum.
        let mut macs = before.clone();
        assert!(reflect(&mut macs, &rules(Swap::Mac)));
        assert_eq!((&macs[..34], &macs[34..]), (&frame[..34], &before[34..]));
    }

    #[test]
    fn every_pass_costs_a_hop_until_none_is_left() {
        for mut frame in [samples::v4(0, 0, UDP, &[0; 8]), samples::v6(UDP, &[0; 8])] {
            let passes = (0..300).filter(|_| reflect(&mut frame, &rules(Swap::Addresses))).count();
            assert_eq!(passes, 63);
            let last = frame.clone();
            assert!(!reflect(&mut frame, &rules(Swap::Mac)));
            assert_eq!(frame, last);
        }
    }

    #[test]
    fn groups_other_stations_and_what_is_not_ip_are_not_sent_back() {
        let (own, any) = (Some([2, 0, 0, 0, 0, 2]), None);
        for (name, at, byte, own, sent) in [
            ("its own", 5, 2, own, true),
            ("another station's", 5, 3, own, false),
            ("another station's, which do not matter", 5, 3, any, true),
            ("to a group", 0, 3, any, false),
            ("from a group", 6, 3, any, false),
            ("no IP", 12, 9, any, false),
            ("of a wrong version", 14, 0x65, any, false),
        ] {
            let mut frame = samples::v4(0, 0, UDP, &[0; 8]);
            frame[at] = byte;
            let before = frame.clone();
            assert_eq!(reflect(&mut frame, &Rules { own, ..rules(Swap::Addresses) }), sent, "{name}");
            assert_eq!(frame != before, sent, "{name}");
        }
        assert!(!reflect(&mut [0; 13], &rules(Swap::Mac)));
    }

    #[test]
    fn only_allowed_destinations_are_sent_to() {
        let range = |first: &str, last: &str| (first.parse::<IpAddr>().unwrap(), last.parse::<IpAddr>().unwrap());
        let one = |last: u8| Box::from([range(&format!("10.0.0.{last}"), &format!("10.0.0.{last}"))]);
        let back = |frame: &[u8], swap, addresses: Box<[_]>, ports: &[(u16, u16)]| {
            let allowed = Allowed { addresses, ports: ports.into() };
            reflect(&mut frame.to_vec(), &Rules { allowed, ..rules(swap) })
        };
        assert!(back(&udp(), Swap::Addresses, one(1), &[]));
        assert!(!back(&udp(), Swap::Addresses, one(2), &[]));
        assert!(back(&udp(), Swap::Mac, one(2), &[]));
        assert!(!back(&udp(), Swap::Mac, one(1), &[]));
        assert!(back(&udp(), Swap::Addresses, Box::default(), &[(1, 2), (5000, 5000)]));
        assert!(!back(&udp(), Swap::Addresses, Box::default(), &[(80, 80)]));
        assert!(back(&udp(), Swap::Mac, one(2), &[(80, 90)]));
        let six = |first: &str, last: &str| {
            let frame = samples::v6(ICMP[1], &[0; 8]);
            back(&frame, Swap::Addresses, [range("10.0.0.0", "10.255.255.255"), range(first, last)].into(), &[])
        };
        assert!(six("0:203::", "2:203:405:607:809:a0b:c0d:e0f"));
        assert!(!six("::1", "::2"));
        // Where their destination is cannot be determined from the first header.
        let allowed = || Box::from([range("0.0.0.0", "255.255.255.255"), range("::", "ffff::")]);
        for (name, frame, sent) in [
            ("ICMP", samples::v4(0, 0, ICMP[0], &[0; 8]), true),
            ("VXLAN", samples::v4(0, 0, UDP, &[0x13, 0x88, 0x12, 0xb5, 0, 8, 0, 0]), false),
            ("GTP-U's answer", samples::v4(0, 0, UDP, &[0x08, 0x68, 0x13, 0x88, 0, 8, 0, 0]), false),
            ("IP in IP", samples::v4(0, 0, 4, &[0x45; 20]), false),
            ("IPv4 options", samples::v4(0, 1, TCP, &[0; 20]), false),
            ("IPv6 routing", samples::v6(43, &[TCP, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]), false),
            ("a header that is cut", samples::v4(0, 0, TCP, &[0; 3]), false),
        ] {
            assert_eq!(back(&frame, Swap::Addresses, allowed(), &[]), sent, "{name}");
        }
        assert!(!back(&samples::v4(0, 0, ICMP[0], &[0; 8]), Swap::Addresses, allowed(), &[(0, 65_535)]));
    }

    proptest! {
        #[test]
        fn twice_costs_two_hops_and_nothing_else(six: bool, mut rest in prop::collection::vec(any::<u8>(), 40..100), ttl in 3u8..) {
            let mut frame = samples::ethernet(0, if six { 0x86dd } else { 0x0800 });
            rest[0] = if six { 0x60 } else { 0x45 };
            rest[if six { 7 } else { 8 }] = ttl;
            if !six {
                rest[10..12].fill(0);
                let sum = checksum::checksum(checksum::sum(&rest[..20]));
                rest[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            frame.extend(rest);
            let mut before = frame.clone();
            prop_assert!(reflect(&mut frame, &rules(Swap::Addresses)));
            prop_assert!(reflect(&mut frame, &rules(Swap::Addresses)));
            if six {
                before[21] -= 2;
            } else {
                before[22] -= 2;
                prop_assert_eq!(checksum::fold(checksum::sum(&frame[14..34])), 0xffff);
                before[24..26].copy_from_slice(&frame[24..26]);
            }
            prop_assert_eq!(frame, before);
        }
    }
}
