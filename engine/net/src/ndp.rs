// SPDX-License-Identifier: Apache-2.0
//! Neighbor discovery for IPv6 (RFC 4861): messages of ICMPv6 read with all that receivers have to check, the addresses that follow from
//! a MAC address, and messages written.
use core::net::Ipv6Addr;

use crate::{
    Address,
    ethernet::Mac,
    field::{be16, be32},
    ip::{ICMPV6, is_right, pseudo_header_v6},
};

/// Types of messages.
pub const ROUTER_SOLICITATION: u8 = 133;
/// See `ROUTER_SOLICITATION`.
pub const ROUTER_ADVERTISEMENT: u8 = 134;
/// See `ROUTER_SOLICITATION`.
pub const SOLICITATION: u8 = 135;
/// See `ROUTER_SOLICITATION`.
pub const ADVERTISEMENT: u8 = 136;
/// Messages are valid only with this hop limit: no router has passed them on (RFC 4861 section 7.1).
pub const HOP_LIMIT: u8 = 255;

/// Flags of neighbor advertisements (RFC 4861 section 4.4).
pub const SOLICITED: u8 = 0x40;
/// See `SOLICITED`.
pub const OVERRIDE: u8 = 0x20;
/// Flag of router advertisements: addresses come by DHCPv6 (RFC 4861 section 4.2).
pub const MANAGED: u8 = 0x80;
/// A lifetime without an end.
pub const INFINITE: u32 = u32::MAX;

/// Options (RFC 4861 section 4.6).
pub const SOURCE_MAC: u8 = 1;
/// See `SOURCE_MAC`.
pub const TARGET_MAC: u8 = 2;
const PREFIX: u8 = 3;

/// All nodes of a link (RFC 4291 section 2.7.1).
pub const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// All routers of a link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

/// A message of neighbor discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// A router solicitation: of hosts.
    RouterSolicitation,
    /// A router advertisement.
    RouterAdvertisement(RouterAdvertisement),
    /// A neighbor solicitation. It comes from the unspecified address if it is for duplicate address detection.
    Solicitation {
        /// The address that is looked for.
        target: Ipv6Addr,
        /// The MAC of the sender, if it gives one.
        mac: Option<Mac>,
    },
    /// A neighbor advertisement.
    Advertisement {
        /// The address that the sender has.
        target: Ipv6Addr,
        /// See [`SOLICITED`] and [`OVERRIDE`].
        flags: u8,
        /// The MAC of the sender, if it gives one.
        mac: Option<Mac>,
    },
}

/// What a router says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvertisement {
    /// See [`MANAGED`].
    pub flags: u8,
    /// How long it is a default router, in seconds; 0: it is none.
    pub lifetime: u16,
    /// Its MAC, if it gives one.
    pub mac: Option<Mac>,
    /// The first prefix of which hosts may form addresses, if there is one.
    pub prefix: Option<Prefix>,
}

/// A prefix with an autonomous flag, of 64 bits: with others an interface identifier of 64 bits makes no address (RFC 4862 section
/// 5.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Its 64 bits.
    pub bits: u64,
    /// Seconds for which addresses are valid.
    pub valid: u32,
    /// Seconds for which they are preferred.
    pub preferred: u32,
}

impl Prefix {
    /// Reads a prefix information option (RFC 4861 section 4.6.2). None if addresses are not to be formed of it.
    fn read(option: &[u8]) -> Option<Self> {
        const AUTONOMOUS: u8 = 0x40;
        let option = option.first_chunk::<32>()?;
        let (valid, preferred) = (be32(option, 4), be32(option, 8));
        let bits = u64::from_be_bytes(*option[16..].first_chunk()?);
        let link_local = bits >> 54 == 0xfe80 >> 6;
        let usable = option[2] == 64 && option[3] & AUTONOMOUS != 0 && preferred <= valid && valid > 0;
        (usable && !link_local && bits >> 56 != 0xff).then_some(Self { bits, valid, preferred })
    }
}

impl Message {
    /// Reads the payload of an IPv6 packet. None if it is no message of neighbor discovery, and an error if it is one that is not valid.
    pub fn read(source: Address, destination: Address, hop_limit: u8, icmp: &[u8]) -> Result<Option<Self>, Invalid> {
        let Some(kind @ ROUTER_SOLICITATION..=ADVERTISEMENT) = icmp.first().copied() else { return Ok(None) };
        let pseudo = pseudo_header_v6(source, destination, ICMPV6, icmp.len());
        if hop_limit != HOP_LIMIT || icmp.len() < 8 || icmp[1] != 0 || !is_right(icmp, pseudo) {
            return Err(Invalid);
        }
        let (from, to) = (Ipv6Addr::from_bits(source.0), Ipv6Addr::from_bits(destination.0));
        let message = match kind {
            ROUTER_SOLICITATION => Options::read(icmp, 8).map(|_| Self::RouterSolicitation),
            ROUTER_ADVERTISEMENT => router(from, icmp).map(Self::RouterAdvertisement),
            SOLICITATION => solicitation(from, to, icmp),
            _ => advertisement(to, icmp),
        };
        message.map(Some).ok_or(Invalid)
    }
}

/// A message that receivers must discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

fn router(from: Ipv6Addr, icmp: &[u8]) -> Option<RouterAdvertisement> {
    let options = Options::read(icmp, 16).filter(|_| from.is_unicast_link_local())?;
    let prefix = options.clone().filter(|option| option[0] == PREFIX).find_map(Prefix::read);
    Some(RouterAdvertisement { flags: icmp[5], lifetime: be16(icmp, 6), mac: options.mac(SOURCE_MAC), prefix })
}

fn solicitation(from: Ipv6Addr, to: Ipv6Addr, icmp: &[u8]) -> Option<Message> {
    let (target, options) = target(icmp)?;
    let mac = options.mac(SOURCE_MAC);
    // A station that has no address yet must not claim a MAC, and asks the group (RFC 4861 section 7.1.1).
    let probe = from.is_unspecified();
    (!probe || mac.is_none() && to == solicited_node(target)).then_some(Message::Solicitation { target, mac })
}

fn advertisement(to: Ipv6Addr, icmp: &[u8]) -> Option<Message> {
    let (target, options) = target(icmp)?;
    let flags = icmp[4];
    let valid = !(to.is_multicast() && flags & SOLICITED != 0);
    valid.then(|| Message::Advertisement { target, flags, mac: options.mac(TARGET_MAC) })
}

/// The target of a neighbor solicitation or advertisement, and the options behind it.
fn target(icmp: &[u8]) -> Option<(Ipv6Addr, Options<'_>)> {
    let target = Ipv6Addr::from(*icmp.get(8..)?.first_chunk::<16>()?);
    let options = Options::read(icmp, 24)?;
    (!target.is_multicast()).then_some((target, options))
}

/// Options, each with its type and length.
#[derive(Clone)]
struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// Those from an offset on; none if one is cut short or has no length (RFC 4861 section 4.6).
    fn read(icmp: &'a [u8], at: usize) -> Option<Self> {
        let bytes = icmp.get(at..)?;
        let taken: usize = Self(bytes).map(<[u8]>::len).sum();
        (taken == bytes.len()).then_some(Self(bytes))
    }

    /// The MAC in the first option of a type, if a single station can have it.
    fn mac(&self, kind: u8) -> Option<Mac> {
        let option = self.clone().find(|option| option[0] == kind)?;
        option[2..].first_chunk::<6>().copied().filter(|mac| mac[0] & 1 == 0 && *mac != [0; 6])
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        let len = usize::from(*self.0.get(1)?) * 8;
        let (option, rest) = self.0.split_at_checked(len).filter(|_| len > 0)?;
        self.0 = rest;
        Some(option)
    }
}

/// The modified EUI-64 interface identifier of a MAC address (RFC 4291 appendix A).
pub const fn interface_id(mac: Mac) -> u64 {
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// The MAC address of a modified EUI-64 interface identifier, if it is one.
pub const fn mac_of(interface_id: u64) -> Option<Mac> {
    match interface_id.to_be_bytes() {
        [a, b, c, 0xff, 0xfe, d, e, f] => Some([a ^ 2, b, c, d, e, f]),
        _ => None,
    }
}

/// The link-local address that a station with this MAC gives itself (RFC 4862 section 5.3).
pub const fn link_local(mac: Mac) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xfe80 << 112 | interface_id(mac) as u128)
}

/// The group that the station of an IPv6 address listens to (RFC 4291 section 2.7.1).
pub const fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(0xff02_0000_0000_0000_0000_0001_ff00_0000 | address.to_bits() & 0xff_ffff)
}

/// Writes a router solicitation, with the sender's MAC if it has an address, without its checksum. Gives its length.
///
/// # Panics
/// If there is no room for 16 bytes.
pub fn write_router_solicitation(icmp: &mut [u8], mac: Option<Mac>) -> usize {
    icmp[..8].copy_from_slice(&[ROUTER_SOLICITATION, 0, 0, 0, 0, 0, 0, 0]);
    8 + write_mac(&mut icmp[8..], SOURCE_MAC, mac)
}

/// Writes a neighbor solicitation, without its checksum. Gives its length.
///
/// # Panics
/// If there is no room for 32 bytes.
pub fn write_solicitation(icmp: &mut [u8], target: Ipv6Addr, mac: Option<Mac>) -> usize {
    write_target(icmp, [SOLICITATION, 0], target) + write_mac(&mut icmp[24..], SOURCE_MAC, mac)
}

/// Writes a neighbor advertisement, without its checksum. Gives its length.
///
/// # Panics
/// If there is no room for 32 bytes.
pub fn write_advertisement(icmp: &mut [u8], target: Ipv6Addr, flags: u8, mac: Mac) -> usize {
    write_target(icmp, [ADVERTISEMENT, flags], target) + write_mac(&mut icmp[24..], TARGET_MAC, Some(mac))
}

fn write_target(icmp: &mut [u8], [kind, flags]: [u8; 2], target: Ipv6Addr) -> usize {
    icmp[..8].copy_from_slice(&[kind, 0, 0, 0, flags, 0, 0, 0]);
    icmp[8..24].copy_from_slice(&target.octets());
    24
}

fn write_mac(option: &mut [u8], kind: u8, mac: Option<Mac>) -> usize {
    let Some(mac) = mac else { return 0 };
    option[..2].copy_from_slice(&[kind, 1]);
    option[2..8].copy_from_slice(&mac);
    8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checksum, field::put_be16};
    use proptest::prelude::*;

    const MAC: Mac = [2, 0x10, 0, 0, 0, 9];

    fn address(address: Ipv6Addr) -> Address {
        Address(address.to_bits())
    }

    /// Reads it with its checksum.
    fn read(from: Ipv6Addr, to: Ipv6Addr, hop_limit: u8, icmp: &[u8]) -> Result<Option<Message>, Invalid> {
        let mut icmp = icmp.to_vec();
        if icmp.len() >= 4 {
            put_be16(&mut icmp, 2, 0);
            let pseudo = pseudo_header_v6(address(from), address(to), ICMPV6, icmp.len());
            let sum = checksum::checksum(pseudo + checksum::sum(&icmp));
            put_be16(&mut icmp, 2, sum);
        }
        Message::read(address(from), address(to), hop_limit, &icmp)
    }

    fn advertised(flags: u8, options: &[u8]) -> Vec<u8> {
        [&[ROUTER_ADVERTISEMENT, 0, 0, 0, 64, flags, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0], options].concat()
    }

    fn prefix(length: u8, flags: u8, valid: u32, preferred: u32, bits: u64) -> Vec<u8> {
        let mut option = vec![PREFIX, 4, length, flags];
        option.extend(valid.to_be_bytes());
        option.extend(preferred.to_be_bytes());
        option.extend([0; 4]);
        option.extend(bits.to_be_bytes());
        option.extend([0; 8]);
        option
    }

    #[test]
    fn the_first_prefix_of_which_addresses_can_be_formed_is_taken() {
        let from = link_local(MAC);
        let good = prefix(64, 0xc0, 600, 300, 0x2001_0db8_0000_0001);
        let expected = Some(Prefix { bits: 0x2001_0db8_0000_0001, valid: 600, preferred: 300 });
        for wrong in [
            prefix(56, 0xc0, 600, 300, 0x2001_0db8_0000_0002),
            prefix(64, 0x80, 600, 300, 0x2001_0db8_0000_0002),
            prefix(64, 0xc0, 600, 601, 0x2001_0db8_0000_0002),
            prefix(64, 0xc0, 0, 0, 0x2001_0db8_0000_0002),
            prefix(64, 0xc0, 600, 300, 0xfe80_0000_0000_0000),
            prefix(64, 0xc0, 600, 300, 0xff02_0000_0000_0000),
        ] {
            let icmp = advertised(MANAGED, &[&wrong[..], &good, &[SOURCE_MAC, 1, 2, 0, 0, 0, 0, 7]].concat());
            let Ok(Some(Message::RouterAdvertisement(found))) = read(from, ALL_NODES, HOP_LIMIT, &icmp) else {
                panic!("{wrong:?}");
            };
            assert_eq!((found.flags, found.lifetime, found.prefix), (MANAGED, 0x708, expected), "{wrong:?}");
            assert_eq!(found.mac, Some([2, 0, 0, 0, 0, 7]));
        }
    }

    #[test]
    fn messages_that_receivers_must_discard_are_invalid() {
        let (from, global) = (link_local(MAC), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));
        let group = solicited_node(global);
        let mut bytes = [0; 32];
        let len = write_solicitation(&mut bytes, global, Some(MAC));
        let solicitation = bytes[..len].to_vec();
        let len = write_solicitation(&mut bytes, global, None);
        let probe = bytes[..len].to_vec();
        let none = Ipv6Addr::UNSPECIFIED;
        assert!(read(from, group, HOP_LIMIT, &solicitation).is_ok());
        assert_eq!(read(none, group, HOP_LIMIT, &probe), Ok(Some(Message::Solicitation { target: global, mac: None })));
        let routed = read(from, group, 254, &solicitation);
        let code = read(from, group, HOP_LIMIT, &[&[SOLICITATION, 1][..], &solicitation[2..]].concat());
        let claims = read(none, group, HOP_LIMIT, &solicitation);
        let direct = read(none, global, HOP_LIMIT, &probe);
        let global_router = read(global, ALL_NODES, HOP_LIMIT, &advertised(0, &[]));
        let no_length = read(from, ALL_NODES, HOP_LIMIT, &advertised(0, &[SOURCE_MAC, 0, 2, 0, 0, 0, 0, 7]));
        let cut = read(from, ALL_NODES, HOP_LIMIT, &advertised(0, &[SOURCE_MAC, 2, 2, 0, 0, 0, 0, 7]));
        let short = read(from, ALL_NODES, HOP_LIMIT, &[ROUTER_ADVERTISEMENT, 0, 0, 0]);
        for (invalid, why) in [
            (routed, "routed"),
            (code, "code"),
            (claims, "claims"),
            (direct, "direct"),
            (global_router, "global"),
            (no_length, "no length"),
            (cut, "cut"),
            (short, "short"),
        ] {
            assert_eq!(invalid, Err(Invalid), "{why}");
        }
        let mut wrong = solicitation.clone();
        wrong[3] ^= 1;
        assert_eq!(Message::read(address(from), address(group), HOP_LIMIT, &wrong), Err(Invalid));
        assert_eq!(read(from, group, 64, &[128, 0, 0, 0, 0, 0, 0, 0]), Ok(None));
    }

    #[test]
    fn addresses_follow_from_the_mac() {
        assert_eq!(link_local([2, 0, 0, 0, 0, 1]).to_string(), "fe80::ff:fe00:1");
        assert_eq!(solicited_node("4037::01:800:200e:8c6c".parse().unwrap()).to_string(), "ff02::1:ff0e:8c6c");
        assert_eq!((mac_of(interface_id(MAC)), mac_of(1)), (Some(MAC), None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(
            kind in 130u8..140, from: u128, to: u128, bytes in prop::collection::vec(prop_oneof![0u8..5, any::<u8>()], 0..150),
        ) {
            let (from, to) = (Ipv6Addr::from_bits(from), Ipv6Addr::from_bits(to));
            for from in [from, link_local(MAC), Ipv6Addr::UNSPECIFIED] {
                let _ = read(from, to, HOP_LIMIT, &[&[kind, 0], &bytes[..]].concat());
            }
        }
    }
}
