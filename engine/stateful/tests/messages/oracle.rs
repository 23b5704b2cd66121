// SPDX-License-Identifier: Apache-2.0
//! The end of a message found in the simplest way, all bytes at hand: what the matcher, which sees them in pieces, must agree
//! with.
use spate_stateful::{
    message::{Fed, MAX_HEADER_BYTES, Matcher},
    program::Until,
};

/// What bytes come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The end is not among them; whether it comes with the connection.
    More(bool),
    /// It is behind this many.
    Ends(usize),
    /// No end can be known.
    Broken,
}

use Verdict::{Broken, Ends, More};

/// Where a pattern ends first.
pub fn pattern(pattern: &[u8], bytes: &[u8]) -> Verdict {
    let at = bytes.windows(pattern.len()).position(|window| window == pattern);
    at.map_or(More(false), |at| Ends(at + pattern.len()))
}

/// A line without its end, and where the next begins; bare CRs are wrong.
fn line(bytes: &[u8], from: usize) -> Result<(&[u8], usize), Verdict> {
    let end = bytes[from..].iter().position(|byte| *byte == b'\n').map(|len| from + len);
    let all = &bytes[from..end.unwrap_or(bytes.len())];
    if let Some(cr) = all.iter().position(|byte| *byte == b'\r')
        && cr + 1 < all.len()
    {
        return Err(Broken);
    }
    let text = all.strip_suffix(b"\r").unwrap_or(all);
    match end {
        Some(end) => Ok((text, end + 1)),
        None => Err(More(false)),
    }
}

/// Where an HTTP/1.1 message ends that is shorter than any bound (RFC 9112).
pub fn http(bytes: &[u8]) -> Verdict {
    read(bytes).unwrap_or_else(|verdict| verdict)
}

fn read(bytes: &[u8]) -> Result<Verdict, Verdict> {
    let mut at = 0;
    let mut first = line(bytes, at)?;
    while first.0.is_empty() {
        at = first.1;
        first = line(bytes, at)?;
    }
    let (start, mut at) = first;
    let response = start.starts_with(b"HTTP/");
    let mut status = 0;
    if response {
        let code = start.get(8..12).ok_or(Broken)?;
        if code[0] != b' ' || !code[1..].iter().all(u8::is_ascii_digit) {
            return Err(Broken);
        }
        status = std::str::from_utf8(&code[1..]).map_err(|_| Broken)?.parse().map_err(|_| Broken)?;
    }
    let (mut lengths, mut codings): (Vec<u64>, Option<Vec<u8>>) = (vec![], None);
    let mut last: Vec<u8> = vec![];
    loop {
        let (text, next) = line(bytes, at)?;
        at = next;
        if text.is_empty() {
            break;
        }
        if matches!(text[0], b' ' | b'\t') {
            match &last[..] {
                b"content-length" => return Err(Broken),
                b"transfer-encoding" => codings.get_or_insert_default().extend([b",", text].concat()),
                _ => {}
            }
            continue;
        }
        let colon = text.iter().position(|byte| *byte == b':').ok_or(Broken)?;
        if text[..colon].iter().any(|byte| matches!(byte, b' ' | b'\t')) {
            return Err(Broken);
        }
        last = text[..colon].to_ascii_lowercase();
        let value = &text[colon + 1..];
        if last == b"content-length" {
            let value = value.trim_ascii();
            if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
                return Err(Broken);
            }
            lengths.push(std::str::from_utf8(value).map_err(|_| Broken)?.parse().map_err(|_| Broken)?);
            if lengths[0] != lengths[lengths.len() - 1] {
                return Err(Broken);
            }
        } else if last == b"transfer-encoding" {
            codings.get_or_insert_default().extend([b",", value].concat());
        }
    }
    if response && matches!(status, 100..=199 | 204 | 304) {
        return Ok(Ends(at));
    }
    if let Some(codings) = codings {
        let mut words = codings.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|word| !word.is_empty());
        return match (words.next_back().is_some_and(|word| word.eq_ignore_ascii_case(b"chunked")), response) {
            (true, _) => chunks(bytes, at),
            (false, true) => Ok(More(true)),
            (false, false) => Err(Broken),
        };
    }
    Ok(match (lengths.first(), response) {
        (Some(len), _) if *len <= (bytes.len() - at) as u64 => Ends(at + *len as usize),
        (Some(_), _) => More(false),
        (None, true) => More(true),
        (None, false) => Ends(at),
    })
}

fn chunks(bytes: &[u8], mut at: usize) -> Result<Verdict, Verdict> {
    loop {
        // What is wrong with the digits is found before the line ends.
        let rest = &bytes[at..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let number = rest[..digits].iter().try_fold(0u64, |number, digit| {
            let more = 16 * number + u64::from((*digit as char).to_digit(16)?);
            (more <= 1 << 60).then_some(more)
        });
        let number = number.ok_or(Broken)?;
        match rest.get(digits) {
            None => return Ok(More(false)),
            Some(b'\r' | b'\n') if digits > 0 => {}
            Some(b';' | b' ' | b'\t') if digits > 0 => {}
            Some(b'\r') if rest.len() == digits + 1 => return Ok(More(false)),
            Some(_) => return Err(Broken),
        }
        at = line(bytes, at)?.1;
        if number == 0 {
            loop {
                let (text, next) = line(bytes, at)?;
                at = next;
                if text.is_empty() {
                    return Ok(Ends(at));
                }
            }
        }
        if (bytes.len() - at) as u64 <= number {
            return Ok(More(false));
        }
        at += number as usize;
        match &bytes[at..] {
            [b'\n', ..] => at += 1,
            [b'\r', b'\n', ..] => at += 2,
            [b'\r'] => return Ok(More(false)),
            _ => return Err(Broken),
        }
    }
}

/// Gives bytes to a matcher in pieces, whose lengths are drawn from others, and compares.
pub fn compare(until: &Until, bytes: &[u8], pieces: &[u8]) {
    assert!(bytes.len() < MAX_HEADER_BYTES as usize, "shorter than any bound");
    let expected = match until {
        Until::Pattern(wanted) => pattern(wanted, bytes),
        Until::HttpMessage => http(bytes),
    };
    let matcher = Matcher::new(until);
    let mut progress = matcher.begin();
    let mut lens = pieces.iter().map(|len| usize::from(*len % 16) + 1).cycle();
    let mut at = 0;
    let found = loop {
        let len = lens.next().unwrap_or(usize::MAX).min(bytes.len() - at);
        if len == 0 {
            break More(progress.ends_with_connection());
        }
        match matcher.feed(&mut progress, &bytes[at..at + len]) {
            Fed::More => at += len,
            Fed::Ends(behind) => break Ends(at + behind),
            Fed::Broken(_) => break Broken,
        }
    };
    // Bytes may be wrong in a line that has not ended; a reader of whole lines does not see it yet.
    let early = found == Broken && expected == More(false);
    assert!(found == expected || early, "{found:?}, not {expected:?}, of {:?}", String::from_utf8_lossy(bytes));
}
