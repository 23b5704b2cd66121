// SPDX-License-Identifier: Apache-2.0
//! Prefixes of networks, such as 20.0.0.0/24, and their numbers.
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A prefix; no bit behind its length is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Net {
    address: IpAddr,
    length: u8,
}

/// Why a text or an address with a length is no prefix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// No text of a prefix.
    #[error("{0:?} is no prefix; must be such as 20.0.0.0/24 or 2001:db8::/48")]
    Text(String),
    /// A length that the family does not have.
    #[error("{0}/{1} has too long a prefix; must be 0 to {most}", most = Family::of(*.0).bits())]
    Length(IpAddr, u8),
    /// Bits behind the length are set.
    #[error("{0}/{1} has bits behind its prefix; the network is {2}")]
    HostBits(IpAddr, u8, Net),
}

impl Family {
    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Bits of an address.
    pub fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

impl Net {
    /// # Errors
    /// If the family has no such length, or bits behind it are set.
    pub fn new(address: IpAddr, length: u8) -> Result<Self, NetError> {
        let family = Family::of(address);
        if length > family.bits() {
            return Err(NetError::Length(address, length));
        }
        let net = Self::around(address, length);
        match net.address == address {
            true => Ok(net),
            false => Err(NetError::HostBits(address, length, net)),
        }
    }

    /// The network of this length that an address is in; the family has such a length.
    pub(crate) fn around(address: IpAddr, length: u8) -> Self {
        let family = Family::of(address);
        let behind = u32::from(family.bits() - length);
        let number = number(address).checked_shr(behind).unwrap_or(0);
        Self { address: self::address(family, number.checked_shl(behind).unwrap_or(0)), length }
    }

    /// The prefix of a length with this number, counted from that of all zeros; none if there are less.
    pub fn from_number(family: Family, length: u8, number: u128) -> Option<Self> {
        let behind = u32::from(family.bits().checked_sub(length)?);
        if number.checked_shr(length.into()).unwrap_or(0) > 0 {
            return None;
        }
        Some(Self { address: address(family, number.checked_shl(behind).unwrap_or(0)), length })
    }

    /// How many prefixes of its length are before it.
    pub fn number(&self) -> u128 {
        number(self.address).checked_shr(u32::from(self.family().bits() - self.length)).unwrap_or(0)
    }

    /// Its first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Leading bits that its addresses share.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// The family of its addresses.
    pub fn family(&self) -> Family {
        Family::of(self.address)
    }

    /// Whether all addresses of another are its own, too.
    pub fn contains(&self, other: Self) -> bool {
        self.family() == other.family()
            && self.length <= other.length
            && Self::around(other.address, self.length) == *self
    }
}

impl FromStr for Net {
    type Err = NetError;

    fn from_str(text: &str) -> Result<Self, NetError> {
        let wrong = || NetError::Text(text.to_owned());
        let (address, length) = text.split_once('/').ok_or_else(wrong)?;
        let digits = (1..=3).contains(&length.len()) && length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse().ok().filter(|_| digits).ok_or_else(wrong)?;
        Self::new(address.parse().map_err(|_| wrong())?, length)
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// The address with a number, of which IPv4 has the last 32 bits.
fn address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from(number as u32).into(),
        Family::V6 => Ipv6Addr::from(number).into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> Net {
        text.parse().unwrap()
    }

    #[test]
    fn prefixes_are_read_or_refused_with_the_right_one() {
        for right in ["0.0.0.0/0", "20.0.0.0/24", "10.0.0.1/32", "::/0", "2001:db8::/48", "2001:db8::1/128"] {
            assert_eq!(net(right).to_string(), right);
        }
        for (wrong, problem) in [
            ("20.0.0.1/24", "20.0.0.1/24 has bits behind its prefix; the network is 20.0.0.0/24"),
            ("2001:db8::1/64", "2001:db8::1/64 has bits behind its prefix; the network is 2001:db8::/64"),
            ("1.0.0.0/0", "1.0.0.0/0 has bits behind its prefix; the network is 0.0.0.0/0"),
            ("20.0.0.0/33", "20.0.0.0/33 has too long a prefix; must be 0 to 32"),
            ("::/129", "::/129 has too long a prefix; must be 0 to 128"),
            ("20.0.0.0", "\"20.0.0.0\" is no prefix; must be such as 20.0.0.0/24 or 2001:db8::/48"),
            ("20.0.0/24", "\"20.0.0/24\" is no prefix; must be such as 20.0.0.0/24 or 2001:db8::/48"),
            ("20.0.0.0/+8", "\"20.0.0.0/+8\" is no prefix; must be such as 20.0.0.0/24 or 2001:db8::/48"),
            ("20.0.0.0/", "\"20.0.0.0/\" is no prefix; must be such as 20.0.0.0/24 or 2001:db8::/48"),
        ] {
            assert_eq!(wrong.parse::<Net>().unwrap_err().to_string(), problem);
        }
    }

    #[test]
    fn a_prefix_contains_longer_ones_of_its_own() {
        for (one, other, contains) in [
            ("20.0.0.0/23", "20.0.1.0/24", true),
            ("20.0.0.0/24", "20.0.0.0/24", true),
            ("20.0.1.0/24", "20.0.0.0/23", false),
            ("20.0.0.0/24", "20.0.1.0/24", false),
            ("0.0.0.0/0", "20.0.1.0/24", true),
            ("0.0.0.0/0", "::/0", false),
            ("::/0", "2001:db8::1/128", true),
        ] {
            assert_eq!(net(one).contains(net(other)), contains, "{one} {other}");
        }
    }

    #[test]
    fn numbers_end_where_the_family_does() {
        assert_eq!(Net::from_number(Family::V4, 24, (1 << 24) - 1), Some(net("255.255.255.0/24")));
        assert_eq!(Net::from_number(Family::V4, 24, 1 << 24), None);
        assert_eq!(Net::from_number(Family::V4, 0, 0), Some(net("0.0.0.0/0")));
        assert_eq!(Net::from_number(Family::V6, 0, 1), None);
        assert_eq!(
            Net::from_number(Family::V6, 128, u128::MAX),
            Some(net("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128"))
        );
        assert_eq!(Net::from_number(Family::V4, 33, 0), None);
    }

    proptest! {
        #[test]
        fn a_prefix_has_the_number_that_makes_it(v6: bool, address: u128, length in 0u8..=128) {
            let (address, length): (IpAddr, u8) = match v6 {
                true => (Ipv6Addr::from(address).into(), length),
                false => (Ipv4Addr::from(address as u32).into(), length % 33),
            };
            let net = Net::around(address, length);
            prop_assert_eq!(Net::from_number(net.family(), length, net.number()), Some(net));
            prop_assert_eq!(net.to_string().parse::<Net>().unwrap(), net);
            prop_assert!(net.contains(Net::around(address, net.family().bits())));
        }
    }
}
