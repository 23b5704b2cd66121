// SPDX-License-Identifier: Apache-2.0
//! DHCPv6 (RFC 8415) in UDP datagrams: messages read without copying, and written.
//!
//! ```
//! use spate_net::dhcp6::{self, Builder, Ia, Message, option};
//!
//! let mut bytes = [0; 128];
//! let mut message = Builder::new(&mut bytes, dhcp6::SOLICIT, 7);
//! message.ia(option::IA_NA, 1, (0, 0), |_| ());
//! let len = message.finish().unwrap();
//! let read = Message::read(&bytes[..len]).unwrap();
//! let ia = Ia::read(read.options().find(|(code, _)| *code == option::IA_NA).unwrap().1).unwrap();
//! assert_eq!((read.kind, read.xid, ia.iaid), (dhcp6::SOLICIT, 7, 1));
//! ```
use crate::field::{be16, be32, put_be16};

/// UDP port of clients.
pub const CLIENT_PORT: u16 = 546;
/// UDP port of servers and relays.
pub const SERVER_PORT: u16 = 547;
/// All servers and relays of a link: ff02::1:2 (RFC 8415 section 7.1).
pub const SERVERS: u128 = 0xff02_0000_0000_0000_0000_0000_0001_0002;
/// A lifetime without an end (RFC 8415 section 7.7).
pub const INFINITE: u32 = u32::MAX;
/// Bytes of the longest DUID (RFC 8415 section 11.1).
pub const MAX_DUID: usize = 130;

/// Message types (RFC 8415 section 7.3).
pub const SOLICIT: u8 = 1;
/// See `SOLICIT`.
pub const ADVERTISE: u8 = 2;
/// See `SOLICIT`.
pub const REQUEST: u8 = 3;
/// See `SOLICIT`.
pub const RENEW: u8 = 5;
/// See `SOLICIT`.
pub const REBIND: u8 = 6;
/// See `SOLICIT`.
pub const REPLY: u8 = 7;
/// See `SOLICIT`.
pub const RELEASE: u8 = 8;
/// See `SOLICIT`.
pub const DECLINE: u8 = 9;

/// Codes of options (RFC 8415 section 21).
#[expect(missing_docs, reason = "the names of the RFC")]
pub mod option {
    pub const CLIENT_ID: u16 = 1;
    pub const SERVER_ID: u16 = 2;
    pub const IA_NA: u16 = 3;
    pub const IA_ADDRESS: u16 = 5;
    pub const REQUESTED_OPTIONS: u16 = 6;
    pub const PREFERENCE: u16 = 7;
    pub const ELAPSED_TIME: u16 = 8;
    pub const STATUS_CODE: u16 = 13;
    pub const RAPID_COMMIT: u16 = 14;
    pub const IA_PD: u16 = 25;
    pub const IA_PREFIX: u16 = 26;
}

/// Status codes (RFC 8415 section 21.13).
#[expect(missing_docs, reason = "the names of the RFC")]
pub mod status {
    pub const SUCCESS: u16 = 0;
    pub const NO_ADDRESSES: u16 = 2;
    pub const NO_BINDING: u16 = 3;
    pub const NOT_ON_LINK: u16 = 4;
    pub const NO_PREFIXES: u16 = 6;
}

/// Bytes of a message before its options.
const HEADER: usize = 4;
/// Bytes of an option before its value.
const OPTION: usize = 4;

/// A message, of which the options are known to lie within it. Those within options are not yet looked at.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its type.
    pub kind: u8,
    /// Transaction identifier, 24 bits.
    pub xid: u32,
    options: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads a datagram's payload; none if it or an option is cut short, or if it is a relay's.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        const RELAYED: [u8; 2] = [12, 13];
        let (header, options) = bytes.split_at_checked(HEADER)?;
        Options::read(options)?;
        let (kind, xid) = (header[0], be32(header, 0) & 0xff_ffff);
        (!RELAYED.contains(&kind)).then_some(Self { kind, xid, options })
    }

    /// Its options, in their order.
    pub fn options(&self) -> Options<'a> {
        Options(self.options)
    }

    /// The value of the first option with this code.
    pub fn option(&self, code: u16) -> Option<&'a [u8]> {
        self.options().first(code)
    }
}

/// Options, each of which lies within the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// Reads what is all options; none if one is cut short.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = take(rest)?.2;
        }
        Some(Self(bytes))
    }

    /// The value of the first with this code.
    pub fn first(mut self, code: u16) -> Option<&'a [u8]> {
        self.find(|(found, _)| *found == code).map(|(_, value)| value)
    }

    /// The status that a status code option has; success without one. None if the option is cut short.
    pub fn status(self) -> Option<u16> {
        match self.first(option::STATUS_CODE) {
            None => Some(status::SUCCESS),
            Some(value) => value.first_chunk::<2>().map(|code| u16::from_be_bytes(*code)),
        }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (code, value, rest) = take(self.0)?;
        self.0 = rest;
        Some((code, value))
    }
}

/// The first option, and what follows it.
fn take(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(OPTION)?;
    let (value, rest) = rest.split_at_checked(usize::from(be16(head, 2)))?;
    Some((be16(head, 0), value, rest))
}

/// An identity association for addresses or for prefixes (RFC 8415 sections 21.4 and 21.21).
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of the option's fields")]
pub struct Ia<'a> {
    pub iaid: u32,
    /// Seconds; 0: the client may choose.
    pub t1: u32,
    /// As `t1`.
    pub t2: u32,
    pub options: Options<'a>,
}

impl<'a> Ia<'a> {
    /// Reads an option's value.
    pub fn read(value: &'a [u8]) -> Option<Self> {
        let (head, options) = value.split_at_checked(12)?;
        Some(Self { iaid: be32(head, 0), t1: be32(head, 4), t2: be32(head, 8), options: Options::read(options)? })
    }
}

/// An address of an identity association (RFC 8415 section 21.6), or a prefix (section 21.22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the options' fields")]
pub struct Leased {
    pub address: u128,
    /// Of a prefix; 128 of an address.
    pub length: u8,
    /// Seconds.
    pub preferred: u32,
    /// Seconds.
    pub valid: u32,
    /// See [`status`].
    pub status: u16,
}

impl Leased {
    /// Reads an address option's value.
    pub fn read_address(value: &[u8]) -> Option<Self> {
        let (head, options) = value.split_at_checked(24)?;
        let address = u128::from_be_bytes(*head.first_chunk()?);
        let status = Options::read(options)?.status()?;
        Some(Self { address, length: 128, preferred: be32(head, 16), valid: be32(head, 20), status })
    }

    /// Reads a prefix option's value.
    pub fn read_prefix(value: &[u8]) -> Option<Self> {
        let (head, options) = value.split_at_checked(25)?;
        let address = u128::from_be_bytes(*head[9..].first_chunk()?);
        let (preferred, valid, length) = (be32(head, 0), be32(head, 4), head[8]);
        let status = Options::read(options)?.status()?;
        (length <= 128).then_some(Self { address, length, preferred, valid, status })
    }
}

/// Writes a message into a buffer.
#[derive(Debug)]
pub struct Builder<'a> {
    bytes: &'a mut [u8],
    len: usize,
    /// An option did not fit.
    is_full: bool,
}

impl<'a> Builder<'a> {
    /// Writes the header: the message's type and the lower 24 bits of its transaction identifier.
    pub fn new(bytes: &'a mut [u8], kind: u8, xid: u32) -> Self {
        let mut message = Self { bytes, len: 0, is_full: false };
        message.put(&(u32::from(kind) << 24 | xid & 0xff_ffff).to_be_bytes());
        message
    }

    fn put(&mut self, value: &[u8]) {
        match self.bytes.get_mut(self.len..self.len + value.len()) {
            Some(place) => {
                place.copy_from_slice(value);
                self.len += value.len();
            }
            None => self.is_full = true,
        }
    }

    /// Adds an option whose value another call writes.
    fn nested(&mut self, code: u16, write: impl FnOnce(&mut Self)) {
        self.put(&code.to_be_bytes());
        self.put(&[0; 2]);
        let start = self.len;
        write(self);
        match u16::try_from(self.len - start) {
            Ok(len) if !self.is_full => put_be16(self.bytes, start - 2, len),
            _ => self.is_full = true,
        }
    }

    /// Adds an option.
    pub fn option(&mut self, code: u16, value: &[u8]) {
        self.nested(code, |message| message.put(value));
    }

    /// Adds an identity association with T1 and T2, and what `within` writes into it.
    pub fn ia(&mut self, code: u16, iaid: u32, (t1, t2): (u32, u32), within: impl FnOnce(&mut Self)) {
        self.nested(code, |message| {
            [iaid, t1, t2].iter().for_each(|number| message.put(&number.to_be_bytes()));
            within(message);
        });
    }

    /// Adds an address, or a prefix if its length is not 128; its status, if that is not success.
    pub fn leased(&mut self, leased: &Leased) {
        let Leased { address, length, preferred, valid, status } = *leased;
        let times = [preferred.to_be_bytes(), valid.to_be_bytes()];
        let code = if length == 128 { option::IA_ADDRESS } else { option::IA_PREFIX };
        self.nested(code, |message| {
            if length == 128 {
                message.put(&address.to_be_bytes());
                message.put(times.as_flattened());
            } else {
                message.put(times.as_flattened());
                message.put(&[length]);
                message.put(&address.to_be_bytes());
            }
            message.status(status);
        });
    }

    /// Adds a status code, if that is not success.
    pub fn status(&mut self, status: u16) {
        if status != status::SUCCESS {
            self.option(option::STATUS_CODE, &status.to_be_bytes());
        }
    }

    /// Ends the message. Gives its length; none if something did not fit.
    pub fn finish(self) -> Option<usize> {
        (!self.is_full).then_some(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_cut_short_is_refused_at_every_length() {
        let mut bytes = [0; 200];
        let mut message = Builder::new(&mut bytes, REPLY, 0x12_3456);
        let leased = Leased { address: 1, length: 128, preferred: 2, valid: 3, status: 0 };
        message.option(option::SERVER_ID, &[7; 10]);
        message.ia(option::IA_NA, 9, (4, 5), |ia| ia.leased(&leased));
        let len = message.finish().unwrap();
        for cut in 0..len {
            // Between two options a message may end.
            assert_eq!(Message::read(&bytes[..cut]).is_some(), cut == 4 || cut == 18, "{cut}");
        }
        let ia = Message::read(&bytes[..len]).unwrap().option(option::IA_NA).unwrap();
        for cut in 0..ia.len() {
            assert_eq!(Ia::read(&ia[..cut]).is_some(), cut == 12, "{cut}");
        }
        let value = Ia::read(ia).unwrap().options.first(option::IA_ADDRESS).unwrap();
        assert_eq!((Leased::read_address(value), Leased::read_address(&value[..23])), (Some(leased), None));
        bytes[0] = 13;
        assert!(Message::read(&bytes[..len]).is_none(), "of a relay");
    }

    #[test]
    fn a_buffer_that_is_too_short_gives_no_message() {
        let whole = |len: usize| {
            let mut bytes = vec![0; len];
            let mut message = Builder::new(&mut bytes, SOLICIT, 1);
            message.ia(option::IA_PD, 1, (0, 0), |ia| {
                ia.leased(&Leased { address: 0, length: 56, preferred: 0, valid: 0, status: status::NO_PREFIXES });
            });
            message.finish()
        };
        let most = 4 + 4 + 12 + 4 + 25 + 6;
        (0..most).for_each(|len| assert_eq!(whole(len), None, "{len}"));
        assert_eq!(whole(most), Some(most));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            kind in prop::sample::select(vec![SOLICIT, REPLY, DECLINE]), xid in 0u32..1 << 24, iaid: u32, times: (u32, u32),
            address: u128, length in 0u8..=128, preferred: u32, valid: u32, status: u16,
        ) {
            let leased = Leased { address, length, preferred, valid, status };
            let mut bytes = [0; 200];
            let mut message = Builder::new(&mut bytes, kind, xid);
            message.ia(if length == 128 { option::IA_NA } else { option::IA_PD }, iaid, times, |ia| ia.leased(&leased));
            let len = message.finish().unwrap();
            let read = Message::read(&bytes[..len]).unwrap();
            prop_assert_eq!((read.kind, read.xid), (kind, xid));
            let ia = Ia::read(read.options().next().unwrap().1).unwrap();
            prop_assert_eq!((ia.iaid, (ia.t1, ia.t2)), (iaid, times));
            let value = ia.options.into_iter().next().unwrap().1;
            let found = if length == 128 { Leased::read_address(value) } else { Leased::read_prefix(value) };
            prop_assert_eq!(found, Some(leased));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(prop_oneof![0u8..30, any::<u8>()], 0..200)) {
            let all = Message::read(&bytes).into_iter().flat_map(|message| message.options());
            for (_, value) in all {
                let _ = Ia::read(value).map(|ia| ia.options.for_each(|(_, value)| {
                    let _ = (Leased::read_address(value), Leased::read_prefix(value));
                }));
            }
        }
    }
}
