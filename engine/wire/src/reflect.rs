// SPDX-License-Identifier: Apache-2.0
//! Sending a packet back to where it came from: addresses change places. No checksum changes: each covers the same words.
use crate::headers::{Headers, TCP, UDP};

/// What changes places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// Source and destination MAC.
    Mac,
    /// IP addresses and TCP or UDP ports too, where there are some.
    Addresses,
}

/// Turns a frame round. False, and nothing is changed, if it must not be sent back: it went to a group of stations, which
/// cannot be a source (IEEE 802.3), or it has no whole Ethernet header.
#[inline]
pub fn reflect(frame: &mut [u8], swap: Swap) -> bool {
    if frame.len() < 14 || frame[0] & 1 != 0 {
        return false;
    }
    exchange(frame, 0, 6);
    if swap == Swap::Addresses
        && let Some(headers) = Headers::find(frame)
    {
        let (at, len) = headers.addresses();
        exchange(frame, at, len);
        if let Some((TCP | UDP, at)) = headers.transport
            && at + 4 <= frame.len()
        {
            exchange(frame, at, 2);
        }
    }
    true
}

/// Two neighbours of `len` bytes change places.
fn exchange(frame: &mut [u8], at: usize, len: usize) {
    let (first, second) = frame[at..at + 2 * len].split_at_mut(len);
    first.swap_with_slice(second);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checksum, headers::samples};
    use proptest::prelude::*;

    #[test]
    fn all_addresses_change_places_and_checksums_stay() {
        let mut frame = samples::v4(2, 1, UDP, &[0, 80, 0x13, 0x88, 0, 8, 0, 0]);
        let before = frame.clone();
        assert!(reflect(&mut frame, Swap::Addresses));
        assert_eq!((&frame[..6], &frame[6..12]), (&before[6..12], &before[..6]));
        assert_eq!((&frame[34..38], &frame[38..42]), (&before[38..42], &before[34..38]));
        assert_eq!(frame[46..50], [0x13, 0x88, 0, 80]);
        assert_eq!(checksum::fold(checksum::sum(&frame[22..46])), 0xffff);
        assert_eq!(checksum::fold(checksum::sum(&frame[14..])), checksum::fold(checksum::sum(&before[14..])));
        // With MACs alone nothing else does.
        let mut macs = before.clone();
        assert!(reflect(&mut macs, Swap::Mac));
        assert_eq!((&macs[..12], &macs[12..]), (&frame[..12], &before[12..]));
    }

    #[test]
    fn what_went_to_a_group_is_not_sent_back() {
        let mut frame = samples::v4(0, 0, UDP, &[0; 8]);
        frame[..6].fill(0xff);
        let before = frame.clone();
        assert!(!reflect(&mut frame, Swap::Addresses));
        assert_eq!(frame, before);
        assert!(!reflect(&mut [0; 13], Swap::Mac));
    }

    proptest! {
        #[test]
        fn twice_is_as_it_was(kind in prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806]), rest in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut frame = samples::ethernet(0, kind);
            frame.extend(rest);
            let before = frame.clone();
            prop_assert!(reflect(&mut frame, Swap::Addresses));
            prop_assert!(reflect(&mut frame, Swap::Addresses) == (before[6] & 1 == 0));
            if before[6] & 1 == 0 {
                prop_assert_eq!(frame, before);
            }
        }
    }
}
