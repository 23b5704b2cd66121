// SPDX-License-Identifier: Apache-2.0
//! Texts that differ from client to client: "sub-{n}", "port/{n:06}".
use std::str::FromStr;

/// Bytes of the longest text: an option of DHCP has no more.
pub const MAX_TEXT: usize = 255;
/// Digits of the greatest number.
const MAX_DIGITS: usize = 20;

/// A text with a client's number in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Box<[Part]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<str>),
    /// The client's number, with zeros in front up to this many digits.
    Number(usize),
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Something else between braces.
    #[error("{{{0}}} is not known; must be {{n}}, or {{n:08}} for at least 8 digits")]
    Unknown(String),
    /// No brace at the end.
    #[error("a {{ has no }}")]
    Open,
    /// Too long with the greatest number.
    #[error("can be longer than {MAX_TEXT} bytes")]
    TooLong,
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once('{') {
            let (field, after) = behind.split_once('}').ok_or(PatternError::Open)?;
            let unknown = || PatternError::Unknown(field.to_owned());
            let digits = match field.strip_prefix('n').ok_or_else(unknown)? {
                "" => 1,
                width => {
                    let width = width.strip_prefix(":0").and_then(|width| width.parse().ok()).ok_or_else(unknown)?;
                    Some(width).filter(|width| (1..=MAX_DIGITS).contains(width)).ok_or_else(unknown)?
                }
            };
            parts.push(Part::Text(before.into()));
            parts.push(Part::Number(digits));
            rest = after;
        }
        parts.push(Part::Text(rest.into()));
        let pattern = Self(parts.into());
        if pattern.max_len() > MAX_TEXT { Err(PatternError::TooLong) } else { Ok(pattern) }
    }
}

impl Pattern {
    /// Bytes of the longest text of it.
    pub fn max_len(&self) -> usize {
        let len = |part: &Part| match part {
            Part::Text(text) => text.len(),
            Part::Number(_) => MAX_DIGITS,
        };
        self.0.iter().map(len).sum()
    }

    /// The text of a client.
    pub fn write<'a>(&self, number: u64, into: &'a mut [u8; MAX_TEXT]) -> &'a [u8] {
        let mut len = 0;
        for part in &self.0 {
            match part {
                Part::Text(text) => {
                    into[len..len + text.len()].copy_from_slice(text.as_bytes());
                    len += text.len();
                }
                Part::Number(digits) => {
                    let count = number.checked_ilog10().map_or(1, |log| log as usize + 1).max(*digits);
                    let mut left = number;
                    for digit in into[len..len + count].iter_mut().rev() {
                        *digit = b'0' + (left % 10) as u8;
                        left /= 10;
                    }
                    len += count;
                }
            }
        }
        &into[..len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_the_clients_number_where_it_says() {
        let text = |pattern: &str, number| {
            let mut buffer = [0; MAX_TEXT];
            String::from_utf8(pattern.parse::<Pattern>().unwrap().write(number, &mut buffer).to_vec()).unwrap()
        };
        for (pattern, number, expected) in [
            ("", 7, ""),
            ("plain", 7, "plain"),
            ("sub-{n}", 0, "sub-0"),
            ("{n:08}", 123, "00000123"),
            ("{n:02}", 12_345, "12345"),
            ("a{n}b{n:03}c", 42, "a42b042c"),
            ("{n}", u64::MAX, "18446744073709551615"),
        ] {
            assert_eq!(text(pattern, number), expected, "{pattern}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_the_reason() {
        let error = |pattern: &str| pattern.parse::<Pattern>().unwrap_err();
        for unknown in ["x", "", "n8", "n:8", "n:00", "n:021", "n:0x"] {
            assert_eq!(error(&format!("a{{{unknown}}}")), PatternError::Unknown(unknown.into()), "{unknown}");
        }
        assert_eq!(error("sub-{n"), PatternError::Open);
        assert_eq!(error(&"x".repeat(256)), PatternError::TooLong);
        assert_eq!(error(&format!("{}{{n}}", "x".repeat(236))), PatternError::TooLong);
        assert!(format!("{}{{n}}", "x".repeat(235)).parse::<Pattern>().is_ok());
    }
}
