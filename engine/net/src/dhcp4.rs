// SPDX-License-Identifier: Apache-2.0
//! DHCP (RFC 2131) with its options (RFC 2132) in UDP datagrams: messages read without copying, and written.
//!
//! ```
//! use spate_net::dhcp4::{self, Builder, Fixed, Message, option};
//!
//! let fixed = Fixed { op: dhcp4::REQUEST, xid: 7, mac: [2, 0, 0, 0, 0, 1], ..Fixed::default() };
//! let mut bytes = [0; 512];
//! let mut message = Builder::new(&mut bytes, &fixed, dhcp4::DISCOVER).unwrap();
//! message.option(option::HOST_NAME, b"a");
//! let len = message.finish().unwrap();
//! let read = Message::read(&bytes[..len]).unwrap();
//! assert_eq!((read.kind(), read.option(option::HOST_NAME)), (Some(dhcp4::DISCOVER), Some(&b"a"[..])));
//! ```
use core::net::Ipv4Addr;

use crate::{
    ethernet::Mac,
    field::{be16, be32, put_be16},
};

/// UDP port of servers and relays.
pub const SERVER_PORT: u16 = 67;
/// UDP port of clients.
pub const CLIENT_PORT: u16 = 68;

/// Operation of what clients send.
pub const REQUEST: u8 = 1;
/// Operation of what servers send.
pub const REPLY: u8 = 2;

/// Bytes up to the options: the fixed fields and the magic cookie.
pub const HEADER: usize = 240;
/// Bytes of the shortest message: what BOOTP's relays and servers take for granted (RFC 1542 section 2.1).
pub const MIN_LEN: usize = 300;
/// Flag: answers are to be broadcast (RFC 2131 section 2).
pub const BROADCAST: u16 = 0x8000;
/// A lease without an end (RFC 2131 section 3.3).
pub const INFINITE: u32 = u32::MAX;

/// Message types (RFC 2132 section 9.6).
pub const DISCOVER: u8 = 1;
/// See `DISCOVER`.
pub const OFFER: u8 = 2;
/// `DHCPREQUEST`; see `DISCOVER`.
pub const DHCPREQUEST: u8 = 3;
/// See `DISCOVER`.
pub const DECLINE: u8 = 4;
/// See `DISCOVER`.
pub const ACK: u8 = 5;
/// See `DISCOVER`.
pub const NAK: u8 = 6;
/// See `DISCOVER`.
pub const RELEASE: u8 = 7;

/// Codes of options.
#[expect(missing_docs, reason = "the names of RFC 2132 and RFC 3046")]
pub mod option {
    pub const PAD: u8 = 0;
    pub const SUBNET_MASK: u8 = 1;
    pub const ROUTER: u8 = 3;
    pub const HOST_NAME: u8 = 12;
    pub const VENDOR_SPECIFIC: u8 = 43;
    pub const REQUESTED_ADDRESS: u8 = 50;
    pub const LEASE_TIME: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const MESSAGE_TYPE: u8 = 53;
    pub const SERVER_ID: u8 = 54;
    pub const PARAMETER_LIST: u8 = 55;
    pub const MAX_SIZE: u8 = 57;
    pub const RENEWAL_TIME: u8 = 58;
    pub const REBINDING_TIME: u8 = 59;
    pub const VENDOR_CLASS: u8 = 60;
    pub const CLIENT_ID: u8 = 61;
    pub const RELAY_AGENT: u8 = 82;
    pub const END: u8 = 255;
}

const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Ethernet, with addresses of 6 bytes.
const HARDWARE: [u8; 2] = [1, 6];
const SNAME: core::ops::Range<usize> = 44..108;
const FILE: core::ops::Range<usize> = 108..236;

/// A message, of which the options are known to lie within it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    /// Of option overload (RFC 2132 section 9.3): 1 file, 2 sname, 3 both have options, too.
    overload: u8,
}

impl<'a> Message<'a> {
    /// Reads a datagram's payload. None if it is cut short, has no magic cookie, or has an option that does not end within its field. The
    /// last option need not be "end": some servers omit it.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        if bytes.get(HEADER - COOKIE.len()..HEADER)? != COOKIE {
            return None;
        }
        let mut message = Self { bytes, overload: 0 };
        let mut overload = 0;
        message.walk(|code, value| {
            if code == option::OVERLOAD {
                overload = if let [value @ 1..=3] = value { *value } else { u8::MAX };
            }
        })?;
        if overload == u8::MAX {
            return None;
        }
        message.overload = overload;
        message.walk(|_, _| ())?;
        Some(message)
    }

    fn fields(&self) -> [&'a [u8]; 3] {
        let file: &'a [u8] = if self.overload & 1 == 0 { &[] } else { &self.bytes[FILE] };
        let sname: &'a [u8] = if self.overload & 2 == 0 { &[] } else { &self.bytes[SNAME] };
        [&self.bytes[HEADER..], file, sname]
    }

    fn walk(&self, mut each: impl FnMut(u8, &'a [u8])) -> Option<()> {
        for mut field in self.fields() {
            while let Some((code, value)) = take(&mut field).ok()? {
                each(code, value);
            }
        }
        Some(())
    }

    /// Its options in the order of RFC 2131 section 4.1: those of the options field, of `file`, of `sname`.
    pub fn options(&self) -> Options<'a> {
        Options { fields: self.fields(), at: 0 }
    }

    /// The value of the first option with this code.
    pub fn option(&self, code: u8) -> Option<&'a [u8]> {
        self.options().find(|(found, _)| *found == code).map(|(_, value)| value)
    }

    /// Its type (option 53), if it has one.
    pub fn kind(&self) -> Option<u8> {
        self.option(option::MESSAGE_TYPE).and_then(|value| value.first().copied())
    }

    /// Operation: `REQUEST` or `REPLY`.
    pub fn op(&self) -> u8 {
        self.bytes[0]
    }

    /// Transaction identifier.
    pub fn xid(&self) -> u32 {
        be32(self.bytes, 4)
    }

    /// Seconds since the client began.
    pub fn secs(&self) -> u16 {
        be16(self.bytes, 8)
    }

    /// Flags: see `BROADCAST`.
    pub fn flags(&self) -> u16 {
        be16(self.bytes, 10)
    }

    /// The address that the client has.
    pub fn ciaddr(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.bytes, 12))
    }

    /// The address that the client is given.
    pub fn yiaddr(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.bytes, 16))
    }

    /// The address of the relay agent.
    pub fn giaddr(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(be32(self.bytes, 24))
    }

    /// The client's MAC; none if the hardware address is no Ethernet's.
    pub fn mac(&self) -> Option<Mac> {
        (self.bytes[1..3] == HARDWARE).then(|| self.bytes[28..].first_chunk().copied())?
    }
}

/// The options of a message.
#[derive(Clone, Debug)]
pub struct Options<'a> {
    fields: [&'a [u8]; 3],
    at: usize,
}

impl<'a> Iterator for Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(field) = self.fields.get_mut(self.at) {
            if let Ok(Some(option)) = take(field) {
                return Some(option);
            }
            self.at += 1;
        }
        None
    }
}

/// An option does not end within its field.
struct BeyondEnd;

/// Takes the next option off a field; none at its end.
fn take<'a>(field: &mut &'a [u8]) -> Result<Option<(u8, &'a [u8])>, BeyondEnd> {
    loop {
        let bytes: &'a [u8] = field;
        match bytes {
            [] | [option::END, ..] => {
                *field = &[];
                return Ok(None);
            }
            [option::PAD, rest @ ..] => *field = rest,
            [code, len, rest @ ..] if rest.len() >= usize::from(*len) => {
                let (value, rest) = rest.split_at(usize::from(*len));
                *field = rest;
                return Ok(Some((*code, value)));
            }
            _ => return Err(BeyondEnd),
        }
    }
}

/// The fixed fields of a message that is written; those that are not here are 0.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of the message's fields")]
pub struct Fixed {
    pub op: u8,
    pub xid: u32,
    pub secs: u16,
    pub flags: u16,
    pub ciaddr: Ipv4Addr,
    pub yiaddr: Ipv4Addr,
    pub giaddr: Ipv4Addr,
    /// The client's hardware address.
    pub mac: Mac,
}

impl Default for Fixed {
    fn default() -> Self {
        let none = Ipv4Addr::UNSPECIFIED;
        Self { op: REQUEST, xid: 0, secs: 0, flags: 0, ciaddr: none, yiaddr: none, giaddr: none, mac: [0; 6] }
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
    /// Writes the fixed fields and the message's type; none if the buffer is shorter than `MIN_LEN`.
    pub fn new(bytes: &'a mut [u8], fixed: &Fixed, kind: u8) -> Option<Self> {
        let header = bytes.get_mut(..MIN_LEN)?;
        header.fill(0);
        header[0] = fixed.op;
        header[1..3].copy_from_slice(&HARDWARE);
        header[4..8].copy_from_slice(&fixed.xid.to_be_bytes());
        put_be16(header, 8, fixed.secs);
        put_be16(header, 10, fixed.flags);
        header[12..16].copy_from_slice(&fixed.ciaddr.octets());
        header[16..20].copy_from_slice(&fixed.yiaddr.octets());
        header[24..28].copy_from_slice(&fixed.giaddr.octets());
        header[28..34].copy_from_slice(&fixed.mac);
        header[HEADER - COOKIE.len()..HEADER].copy_from_slice(&COOKIE);
        let mut message = Self { bytes, len: HEADER, is_full: false };
        message.option(option::MESSAGE_TYPE, &[kind]);
        Some(message)
    }

    /// Adds an option of at most 255 bytes.
    pub fn option(&mut self, code: u8, value: &[u8]) {
        let Ok(len) = u8::try_from(value.len()) else {
            self.is_full = true;
            return;
        };
        let end = self.len + 2 + value.len();
        // The end's option must fit, too.
        let Some(place) = self.bytes.get_mut(self.len..end + 1) else {
            self.is_full = true;
            return;
        };
        place[..2].copy_from_slice(&[code, len]);
        place[2..2 + value.len()].copy_from_slice(value);
        self.len = end;
    }

    /// Ends the message. Gives its length, at least `MIN_LEN`; none if an option did not fit.
    pub fn finish(self) -> Option<usize> {
        if self.is_full {
            return None;
        }
        self.bytes[self.len] = option::END;
        let end = self.len + 1;
        let len = end.max(MIN_LEN);
        self.bytes[end..len].fill(0);
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(options: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER];
        bytes[HEADER - 4..].copy_from_slice(&COOKIE);
        bytes.extend_from_slice(options);
        bytes
    }

    #[test]
    fn options_of_an_overloaded_message_are_those_of_all_three_fields_in_their_order() {
        let mut bytes = message(&[option::OVERLOAD, 1, 3, option::PAD, 1, 1, 11, option::END, 9, 9]);
        bytes[FILE.start..FILE.start + 4].copy_from_slice(&[2, 1, 12, option::END]);
        bytes[SNAME.start..SNAME.start + 4].copy_from_slice(&[3, 1, 13, option::END]);
        let read = |bytes: &[u8]| {
            let message = Message::read(bytes)?;
            Some(message.options().map(|(code, value)| (code, value[0])).collect::<Vec<_>>())
        };
        assert_eq!(read(&bytes), Some(vec![(option::OVERLOAD, 3), (1, 11), (2, 12), (3, 13)]));
        for (overload, seen) in
            [(1, vec![(option::OVERLOAD, 1), (1, 11), (2, 12)]), (2, vec![(option::OVERLOAD, 2), (1, 11), (3, 13)])]
        {
            bytes[HEADER + 2] = overload;
            assert_eq!(read(&bytes), Some(seen), "{overload}");
        }
        for wrong in [0, 4, 255] {
            bytes[HEADER + 2] = wrong;
            assert_eq!(read(&bytes), None, "{wrong}");
        }
        // An option of `file` that runs on into what is behind it.
        bytes[HEADER + 2] = 1;
        bytes[FILE.end - 2..FILE.end].copy_from_slice(&[5, 1]);
        bytes[FILE.start..FILE.end - 2].fill(0);
        assert_eq!(read(&bytes), None);
    }

    #[test]
    fn options_beyond_the_end_are_refused_and_the_end_option_is_not_needed() {
        for (options, valid) in [
            (&[][..], true),
            (&[53, 1, 2][..], true),
            (&[53, 1][..], false),
            (&[53][..], false),
            (&[0, 0, 0][..], true),
            (&[255, 53][..], true),
        ] {
            assert_eq!(Message::read(&message(options)).is_some(), valid, "{options:?}");
        }
        assert!(Message::read(&message(&[])[..HEADER - 1]).is_none());
        let mut other = message(&[255]);
        other[HEADER - 1] = 0;
        assert!(Message::read(&other).is_none());
    }

    #[test]
    fn what_does_not_fit_is_no_message() {
        let mut bytes = [0; MIN_LEN];
        assert!(Builder::new(&mut bytes[1..], &Fixed::default(), DISCOVER).is_none());
        for (value, fits) in [(54, true), (55, false), (256, false)] {
            let mut message = Builder::new(&mut bytes, &Fixed::default(), DISCOVER).unwrap();
            message.option(option::HOST_NAME, &vec![7; value]);
            assert_eq!(message.finish(), fits.then_some(MIN_LEN), "{value}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            xid: u32, secs: u16, broadcast: bool, addresses: [u32; 3], mac: [u8; 6], kind: u8,
            options in prop::collection::vec((1u8..=51, prop::collection::vec(any::<u8>(), 0..40)), 0..8),
        ) {
            let [ciaddr, yiaddr, giaddr] = addresses.map(Ipv4Addr::from_bits);
            let flags = if broadcast { BROADCAST } else { 0 };
            let fixed = Fixed { op: REPLY, xid, secs, flags, ciaddr, yiaddr, giaddr, mac };
            let mut bytes = [0xee; 1024];
            let mut builder = Builder::new(&mut bytes, &fixed, kind).unwrap();
            options.iter().for_each(|(code, value)| builder.option(*code, value));
            let len = builder.finish().unwrap();
            let read = Message::read(&bytes[..len]).unwrap();
            prop_assert_eq!((read.op(), read.xid(), read.secs(), read.flags()), (REPLY, xid, secs, flags));
            prop_assert_eq!((read.ciaddr(), read.yiaddr(), read.giaddr(), read.mac()), (ciaddr, yiaddr, giaddr, Some(mac)));
            prop_assert_eq!(read.kind(), Some(kind));
            let found: Vec<_> = read.options().skip(1).map(|(code, value)| (code, value.to_vec())).collect();
            prop_assert_eq!(found, options);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(
            start in prop::collection::vec(any::<u8>(), HEADER - 4),
            options in prop::collection::vec(prop_oneof![Just(52u8), 0u8..4, Just(255), any::<u8>()], 0..100),
        ) {
            let bytes = [&start[..], &COOKIE, &options].concat();
            if let Some(message) = Message::read(&bytes) {
                let all: usize = message.options().map(|(_, value)| value.len() + 2).sum();
                prop_assert!(all <= options.len() + SNAME.len() + FILE.len());
            }
        }
    }
}
