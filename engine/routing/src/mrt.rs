// SPDX-License-Identifier: Apache-2.0
//! Prefixes of a routing table that was dumped in the MRT format (RFC 6396): records of TABLE_DUMP_V2, and those of RFC 8050. What a record
//! has of routes besides the prefix is passed over.
use std::{
    collections::HashSet,
    io::{self, Read},
};

use crate::{Family, MAX_PREFIXES, Net};

/// MRT's type TABLE_DUMP_V2 (RFC 6396 section 4.3).
const TABLE_DUMP_V2: u16 = 13;
/// Its subtypes RIB_IPV4_UNICAST and RIB_IPV6_UNICAST, and the same with path identifiers (RFC 8050).
const IPV4_UNICAST: [u16; 2] = [2, 8];
const IPV6_UNICAST: [u16; 2] = [4, 10];
/// A sequence number is before the prefix.
const SEQUENCE_BYTES: usize = 4;
/// The longest record; one with the routes of a hundred peers has a few KiB.
const MAX_RECORD_BYTES: u32 = 16 << 20;

/// Why a file has no prefixes.
#[derive(Debug, thiserror::Error)]
pub enum MrtError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is compressed.
    #[error("the file is compressed; decompress it")]
    Compressed,
    /// It ends within a record.
    #[error("the file ends within record {record}: it is truncated, or no MRT file (RFC 6396)")]
    Truncated {
        /// The record, counted from 1.
        record: u64,
    },
    /// It is none.
    #[error("record {record} is none of an MRT file (RFC 6396): {problem}")]
    Form {
        /// The record, counted from 1.
        record: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// It has none of the family.
    #[error("the file has no {0} routes of a table (TABLE_DUMP_V2)")]
    None(Family),
}

/// The first prefixes of a family, at most so many, each once, in the order of the file.
///
/// # Errors
/// If the file cannot be read, is no MRT file, or has no such prefix.
pub fn mrt_prefixes(mut file: impl Read, family: Family, most: u32) -> Result<Vec<Net>, MrtError> {
    let most = most.min(MAX_PREFIXES) as usize;
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut record = 0;
    while found.len() < most {
        record += 1;
        let wrong = |problem| MrtError::Form { record, problem };
        let mut header = [0; 12];
        match read(&mut file, &mut header)? {
            0 => break,
            12 => {}
            len if record == 1 && is_compressed(&header[..len]) => return Err(MrtError::Compressed),
            _ => return Err(MrtError::Truncated { record }),
        }
        if record == 1 && is_compressed(&header) {
            return Err(MrtError::Compressed);
        }
        let [_, _, _, _, type1, type2, subtype1, subtype2, len @ ..] = header;
        let (kind, subtype) = (u16::from_be_bytes([type1, type2]), u16::from_be_bytes([subtype1, subtype2]));
        let len = u32::from_be_bytes(len);
        if len > MAX_RECORD_BYTES {
            return Err(wrong("it is longer than 16 MiB"));
        }
        let is_wanted = kind == TABLE_DUMP_V2
            && match family {
                Family::V4 => IPV4_UNICAST.contains(&subtype),
                Family::V6 => IPV6_UNICAST.contains(&subtype),
            };
        let mut body = file.by_ref().take(len.into());
        let net = if is_wanted { Some(prefix(&mut body, family)?) } else { None };
        let rest = body.limit();
        if io::copy(&mut body, &mut io::sink())? < rest {
            return Err(MrtError::Truncated { record });
        }
        if let Some(net) = net {
            let net = net.ok_or_else(|| wrong("it has no prefix"))?;
            if seen.insert(net) {
                found.push(net);
            }
        }
    }
    if found.is_empty() { Err(MrtError::None(family)) } else { Ok(found) }
}

/// Whether a file begins as those of gzip, bzip2, xz and zstd.
fn is_compressed(header: &[u8]) -> bool {
    [&[0x1f, 0x8b][..], b"BZh", &[0xfd, b'7', b'z'], &[0x28, 0xb5, 0x2f, 0xfd]]
        .iter()
        .any(|magic| header.starts_with(magic))
}

/// The prefix of a record; none if it has none. Bits behind its length do not matter (RFC 4271 section 4.3).
fn prefix(record: &mut impl Read, family: Family) -> io::Result<Option<Net>> {
    let mut start = [0; SEQUENCE_BYTES + 1];
    if read(record, &mut start)? < start.len() {
        return Ok(None);
    }
    let length = start[SEQUENCE_BYTES];
    if length > family.bits() {
        return Ok(None);
    }
    let mut address = [0; 16];
    let bytes = usize::from(length.div_ceil(8));
    if read(record, &mut address[..bytes])? < bytes {
        return Ok(None);
    }
    let address = match family {
        Family::V4 => [address[0], address[1], address[2], address[3]].into(),
        Family::V6 => address.into(),
    };
    Ok(Some(Net::around(address, length)))
}

/// As many bytes as there are, up to those that have room.
fn read(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < bytes.len() {
        match from.read(&mut bytes[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u16, subtype: u16, data: &[u8]) -> Vec<u8> {
        let header = [&[0; 4], &kind.to_be_bytes()[..], &subtype.to_be_bytes(), &(data.len() as u32).to_be_bytes()];
        [&header.concat(), data].concat()
    }

    /// A record of a table: sequence number, prefix, and a route of a peer.
    fn route(subtype: u16, prefix: &[u8]) -> Vec<u8> {
        record(
            TABLE_DUMP_V2,
            subtype,
            &[&[0, 0, 0, 7], prefix, &[0, 1, 0, 0, 1, 2, 3, 4, 0, 4, 0x40, 1, 1, 0]].concat(),
        )
    }

    fn table() -> Vec<u8> {
        [
            // The table of peers, and a message of BGP.
            record(TABLE_DUMP_V2, 1, &[192, 0, 2, 1, 0, 0, 0, 0]),
            record(16, 4, &[1, 2, 3]),
            route(2, &[24, 1, 0, 0]),
            route(2, &[0]),
            route(4, &[32, 0x20, 0x01, 0x0d, 0xb8]),
            route(8, &[22, 1, 0, 7]),
            route(2, &[24, 1, 0, 0]),
            route(10, &[128, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ]
        .concat()
    }

    #[test]
    fn prefixes_of_a_table_are_read_in_its_order_each_once() {
        let texts = |family, most| -> Vec<String> {
            mrt_prefixes(&table()[..], family, most).unwrap().iter().map(Net::to_string).collect()
        };
        assert_eq!(texts(Family::V4, 100), ["1.0.0.0/24", "0.0.0.0/0", "1.0.4.0/22"]);
        assert_eq!(texts(Family::V4, 2), ["1.0.0.0/24", "0.0.0.0/0"]);
        assert_eq!(texts(Family::V6, 100), ["2001:db8::/32", "2001:db8::1/128"]);
    }

    #[test]
    fn what_is_no_table_is_refused_with_the_reason() {
        let refused = |bytes: &[u8]| mrt_prefixes(bytes, Family::V4, 100).unwrap_err().to_string();
        assert_eq!(refused(b""), "the file has no IPv4 routes of a table (TABLE_DUMP_V2)");
        assert_eq!(refused(&record(16, 4, &[1])), "the file has no IPv4 routes of a table (TABLE_DUMP_V2)");
        assert_eq!(refused(b"\x1f\x8b\x08"), "the file is compressed; decompress it");
        assert_eq!(refused(b"BZh91AY&SY..."), "the file is compressed; decompress it");
        let of = |problem| format!("record 1 is none of an MRT file (RFC 6396): {problem}");
        assert_eq!(refused(b"20.0.0.0/24\n20.0.1.0/24\n"), of("it is longer than 16 MiB"));
        assert_eq!(refused(&route(2, &[33, 1, 2, 3, 4, 5])), of("it has no prefix"));
        assert_eq!(refused(&record(TABLE_DUMP_V2, 2, &[0, 0, 0, 7, 24, 1])), of("it has no prefix"));
    }

    #[test]
    fn a_file_that_ends_within_a_record_is_refused_wherever_it_ends() {
        let (one, two) = (route(2, &[24, 1, 0, 0]), route(2, &[24, 1, 0, 1]));
        for len in 1..two.len() {
            let bytes = [&one[..], &two[..len]].concat();
            let problem = mrt_prefixes(&bytes[..], Family::V4, 100).unwrap_err().to_string();
            let expected = "the file ends within record 2: it is truncated, or no MRT file (RFC 6396)";
            assert_eq!(problem, expected, "{len}");
        }
        let first = mrt_prefixes(b"20.0.0.0/24".as_slice(), Family::V4, 100).unwrap_err();
        assert!(matches!(first, MrtError::Truncated { record: 1 }), "{first}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_prefixes_or_an_error(bytes: Vec<u8>, v6: bool) {
            let family = if v6 { Family::V6 } else { Family::V4 };
            if let Ok(found) = mrt_prefixes(&bytes[..], family, 100) {
                prop_assert!(!found.is_empty() && found.iter().all(|net| net.family() == family));
            }
        }
    }
}
