// SPDX-License-Identifier: Apache-2.0
//! The header that the Linux kernel's packet generator (pktgen) writes into a UDP payload: magic, sequence, and the wall
//! clock's seconds and microseconds when the packet was made, 32 bits each, big endian.
use crate::headers::{Headers, UDP};

const MAGIC: u32 = 0xbe9b_e955;

/// When pktgen made the packet, in nanoseconds since the epoch, to the microsecond; none if it is not one of its.
#[inline]
pub fn sent_at_ns(frame: &[u8], headers: &Headers) -> Option<u64> {
    let (UDP, at) = headers.transport? else { return None };
    let header: &[u8; 16] = frame.get(at + 8..)?.first_chunk()?;
    let word = |i: usize| u32::from_be_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
    if word(0) != MAGIC || word(12) >= 1_000_000 {
        return None;
    }
    Some(u64::from(word(8)) * 1_000_000_000 + u64::from(word(12)) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::samples;

    #[test]
    fn the_time_stamp_is_read_where_the_magic_is() {
        let mut payload = [0; 24];
        payload[8..12].copy_from_slice(&MAGIC.to_be_bytes());
        payload[16..20].copy_from_slice(&1_700_000_000u32.to_be_bytes());
        payload[20..24].copy_from_slice(&999_999u32.to_be_bytes());
        let read = |frame: &[u8]| sent_at_ns(frame, &Headers::find(frame).unwrap());
        assert_eq!(read(&samples::v4(1, 0, UDP, &payload)), Some(1_700_000_000_999_999_000));
        assert_eq!(read(&samples::v6(UDP, &payload)), Some(1_700_000_000_999_999_000));
        assert_eq!(read(&samples::v4(1, 0, UDP, &payload[..23])), None);
        assert_eq!(read(&samples::v4(1, 0, 6, &payload)), None);
        payload[20] = 1;
        assert_eq!(read(&samples::v4(1, 0, UDP, &payload)), None);
        payload[8] = 0;
        assert_eq!(read(&samples::v6(UDP, &payload)), None);
    }
}
