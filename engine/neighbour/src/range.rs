// SPDX-License-Identifier: Apache-2.0
//! Ranges of addresses that a port answers for beside its own: stations that are emulated behind it, by the million.
use std::net::IpAddr;

use spate_net::{Address, vlan::Tags};

use crate::Mac;

/// Addresses of one family from `first` to `last`, both included: every `step`-th of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first of them.
    pub first: IpAddr,
    /// The last of them; not before the first.
    pub last: IpAddr,
    /// Distance from one address to the next; at least 1.
    pub step: u32,
    /// The MAC of the first address's station; that of the address n behind it is n higher, around at 2^48. None: the port's own
    /// for all.
    pub first_mac: Option<Mac>,
    /// The tags of the stations' frames. None: those of the port.
    pub tags: Option<Tags>,
}

impl Range {
    /// Its first and its last address.
    pub(crate) fn ends(&self) -> (Address, Address) {
        (self.first.into(), self.last.into())
    }

    /// Distance from the first to the last address.
    pub(crate) fn length(&self) -> u128 {
        let (first, last) = self.ends();
        last.0 - first.0
    }

    /// How far an address is from the first, if it is in the range.
    pub fn offset(&self, address: IpAddr) -> Option<u128> {
        let ((first, last), address) = (self.ends(), Address::from(address));
        let offset = (first..=last).contains(&address).then(|| address.0 - first.0)?;
        offset.is_multiple_of(self.step.into()).then_some(offset)
    }

    /// The MAC at which an address is, if it is in the range; `own` is the port's.
    pub(crate) fn mac(&self, address: IpAddr, own: Mac) -> Option<Mac> {
        let offset = self.offset(address)?;
        let Some(first) = self.first_mac else { return Some(own) };
        let [_, _, mac @ ..] = number(first).wrapping_add(offset as u64).to_be_bytes();
        Some(mac)
    }
}

/// A MAC as a number of 48 bits.
pub(crate) fn number([a, b, c, d, e, f]: Mac) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stations_have_the_ports_mac_or_count_up_from_their_own() {
        let own = [2, 0, 0, 0, 0, 1];
        let [first, last] = ["10.0.0.1", "10.0.2.0"].map(|address| address.parse().unwrap());
        let mut range = Range { first, last, step: 1, first_mac: None, tags: None };
        assert_eq!(range.mac("10.0.1.2".parse().unwrap(), own), Some(own));
        assert_eq!(range.mac("10.0.2.1".parse().unwrap(), own), None);
        assert_eq!(range.mac("::ffff:0:1".parse().unwrap(), own), None);
        range.first_mac = Some([2, 0, 0, 0, 0, 0xff]);
        assert_eq!(range.mac("10.0.1.2".parse().unwrap(), own), Some([2, 0, 0, 0, 2, 0]));
        range.first_mac = Some([0xff; 6]);
        assert_eq!(range.mac("10.0.0.2".parse().unwrap(), own), Some([0; 6]));
        (range.step, range.first_mac) = (3, Some([2, 0, 0, 0, 0, 1]));
        assert_eq!(range.mac("10.0.0.7".parse().unwrap(), own), Some([2, 0, 0, 0, 0, 7]));
        assert_eq!(range.mac("10.0.0.6".parse().unwrap(), own), None);
    }
}
