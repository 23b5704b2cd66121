// SPDX-License-Identifier: Apache-2.0
//! Addresses with the length of their subnet's prefix, and what follows from them.
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

pub use spate_net::ndp::link_local;
pub(crate) use spate_net::ndp::{ALL_NODES, solicited_node};

use crate::Mac;

/// All stations of a link.
pub(crate) const BROADCAST: Mac = [0xff; 6];

/// An address and the prefix length of its subnet, such as 198.18.0.1/24 or 2001:db8::1/64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The address itself.
    pub address: IpAddr,
    /// Leading bits that all addresses of the subnet share.
    pub length: u8,
}

/// Why a text is no address with a prefix length.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} {problem}; must be such as 198.18.0.1/24 or 2001:db8::1/64")]
pub struct AddressError {
    text: String,
    problem: &'static str,
}

impl FromStr for Prefix {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong = |problem| AddressError { text: text.to_owned(), problem };
        let (address, length) = text.split_once('/').ok_or_else(|| wrong("has no prefix length"))?;
        let address: IpAddr = address.parse().map_err(|_| wrong("has no IP address before the /"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let digits = !length.is_empty() && length.len() <= 3 && length.bytes().all(|b| b.is_ascii_digit());
        let length = length.parse().ok().filter(|length| digits && *length >= 1 && *length <= most);
        let prefix = Self { address, length: length.ok_or_else(|| wrong("has a wrong prefix length"))? };
        if address.is_unspecified() || address.is_loopback() || is_group(address) {
            return Err(wrong("is not an address that a station can have"));
        }
        if prefix.is_broadcast(address) || prefix.is_network(address) {
            return Err(wrong("is its subnet's own or its broadcast address"));
        }
        Ok(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Prefix {
    /// Whether an address lies in the subnet.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a) ^ u32::from(b)).leading_zeros() >= u32::from(self.length),
            (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a) ^ u128::from(b)).leading_zeros() >= u32::from(self.length),
            _ => false,
        }
    }

    /// Whether an address is the subnet's broadcast address. Prefixes of 31 and 32 bits have none (RFC 3021).
    pub(crate) fn is_broadcast(&self, address: IpAddr) -> bool {
        self.host_bits(address).is_some_and(|(bits, mask)| bits == mask)
    }

    fn is_network(&self, address: IpAddr) -> bool {
        self.host_bits(address).is_some_and(|(bits, _)| bits == 0)
    }

    /// An IPv4 address's bits behind the prefix, and their mask.
    fn host_bits(&self, address: IpAddr) -> Option<(u32, u32)> {
        match address {
            IpAddr::V4(address) if self.length < 31 && self.contains(address.into()) => {
                let mask = u32::MAX >> self.length;
                Some((u32::from(address) & mask, mask))
            }
            _ => None,
        }
    }
}

/// Multicast, or the limited broadcast address.
pub(crate) fn is_group(address: IpAddr) -> bool {
    address.is_multicast() || address == IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Whether hosts report that they are members of a group (RFC 3376 section 6, RFC 3810 section 6): not of all hosts, which all are, nor
/// of groups within a host.
pub(crate) fn is_reported(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(v4) => v4.is_multicast() && v4 != Ipv4Addr::new(224, 0, 0, 1),
        IpAddr::V6(v6) => v6.is_multicast() && v6.octets()[1] & 15 > 1 && v6 != ALL_NODES,
    }
}

/// fe80::/10 (RFC 4291 §2.5.6).
pub(crate) fn is_link_local(address: Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// Where frames to a group go: RFC 1112 §6.4, RFC 2464 §7, and ff:ff:ff:ff:ff:ff for broadcast.
pub(crate) fn group_mac(address: IpAddr) -> Mac {
    match address {
        IpAddr::V4(a) if a.is_multicast() => {
            let o = a.octets();
            [0x01, 0x00, 0x5e, o[1] & 0x7f, o[2], o[3]]
        }
        IpAddr::V4(_) => BROADCAST,
        IpAddr::V6(a) => {
            let o = a.octets();
            [0x33, 0x33, o[12], o[13], o[14], o[15]]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_or_refused_with_the_reason() {
        for right in ["198.18.0.1/24", "10.0.0.0/31", "10.0.0.1/32", "2001:db8::1/64", "fe80::1/64"] {
            assert_eq!(right.parse::<Prefix>().unwrap().to_string(), right);
        }
        for (wrong, problem) in [
            ("198.18.0.1", "has no prefix length"),
            ("x/24", "has no IP address before the /"),
            ("198.18.0.1/", "has a wrong prefix length"),
            ("198.18.0.1/33", "has a wrong prefix length"),
            ("198.18.0.1/0", "has a wrong prefix length"),
            ("198.18.0.1/+8", "has a wrong prefix length"),
            ("2001:db8::1/129", "has a wrong prefix length"),
            ("224.0.0.1/24", "is not an address that a station can have"),
            ("127.0.0.1/8", "is not an address that a station can have"),
            ("::/64", "is not an address that a station can have"),
            ("198.18.0.0/24", "is its subnet's own or its broadcast address"),
            ("198.18.0.255/24", "is its subnet's own or its broadcast address"),
        ] {
            assert_eq!(wrong.parse::<Prefix>().unwrap_err().problem, problem, "{wrong}");
        }
    }

    #[test]
    fn subnets_contain_their_own() {
        let prefix: Prefix = "198.18.1.1/23".parse().unwrap();
        for (address, inside) in [("198.18.0.7", true), ("198.18.1.255", true), ("198.18.2.0", false), ("::1", false)] {
            assert_eq!(prefix.contains(address.parse().unwrap()), inside, "{address}");
        }
        assert!("10.0.0.1/32".parse::<Prefix>().unwrap().contains("10.0.0.1".parse().unwrap()));
    }

    /// RFC 4291 §2.7.1's example, and a link-local address as Linux makes it.
    #[test]
    fn derived_addresses_are_those_of_the_rfcs() {
        let group = solicited_node("4037::01:800:200e:8c6c".parse().unwrap());
        assert_eq!(group.to_string(), "ff02::1:ff0e:8c6c");
        assert_eq!(group_mac(group.into()), [0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c]);
        assert_eq!(group_mac("239.129.2.3".parse().unwrap()), [1, 0, 0x5e, 1, 2, 3]);
        assert_eq!(link_local([0x02, 0, 0, 0, 0, 1]).to_string(), "fe80::ff:fe00:1");
    }
}
