// SPDX-License-Identifier: Apache-2.0
//! Replies of BIRD's control socket.
//!
//! A reply is lines of a four-digit code and text. The code is followed by '-' if more lines come, and by a space in the last one. A line
//! that starts with a space has the code of the line before it. Lines that start with '+' belong to no reply. The first digit of a code says
//! whether it is done (0), an entry or a heading of a table (1, 2), or was refused (8, 9).
use std::mem;

/// The longest line that is read; BIRD's own have 512 bytes.
const MAX_LINE_BYTES: usize = 4096;
/// The longest reply that is read.
const MAX_REPLY_BYTES: usize = 16 << 20;

/// A line of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its code.
    pub code: u16,
    /// Its text, with the spaces that it starts with.
    pub text: String,
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// All lines but the last one.
    pub lines: Vec<Line>,
    /// The last one.
    pub last: Line,
}

/// BIRD did not do what a command says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} (BIRD's code {code})")]
pub struct Refusal {
    /// Its code.
    pub code: u16,
    /// Why.
    pub text: String,
}

/// Why what was read is no reply. There is nothing to read behind it: connect again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// Too long a line.
    #[error("a line of more than {MAX_LINE_BYTES} bytes")]
    Line,
    /// Too long a reply.
    #[error("a reply of more than {MAX_REPLY_BYTES} bytes")]
    Length,
    /// A line without a code, and no line of the reply before it.
    #[error("{0:?} is no line of a reply of BIRD")]
    Form(String),
}

/// Reads replies from bytes as they come.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    /// Bytes of lines that were not read yet, of which the first `read` were.
    bytes: Vec<u8>,
    read: usize,
    /// Code of the line before, in the same reply.
    before: Option<u16>,
    lines: Vec<Line>,
    /// Bytes of `lines`.
    len: usize,
}

/// A line of a reply, and whether others follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Others follow.
    More(Line),
    /// It is the last one.
    Last(Line),
}

impl Decoder {
    /// Takes bytes that came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..mem::take(&mut self.read));
        self.bytes.extend_from_slice(bytes);
    }

    /// The next reply, as soon as it is there whole.
    ///
    /// # Errors
    /// If what came is none.
    pub fn reply(&mut self) -> Result<Option<Reply>, ReplyError> {
        while let Some(entry) = self.entry()? {
            match entry {
                Entry::More(line) => {
                    self.len += line.text.len();
                    if self.len > MAX_REPLY_BYTES {
                        return Err(ReplyError::Length);
                    }
                    self.lines.push(line);
                }
                Entry::Last(last) => {
                    self.len = 0;
                    return Ok(Some(Reply { lines: mem::take(&mut self.lines), last }));
                }
            }
        }
        Ok(None)
    }

    /// The next line of a reply that may be longer than fits in memory, as soon as the line is there.
    ///
    /// # Errors
    /// If what came is none.
    pub fn entry(&mut self) -> Result<Option<Entry>, ReplyError> {
        loop {
            let left = &self.bytes[self.read..];
            let Some(len) = left.iter().take(MAX_LINE_BYTES + 1).position(|byte| *byte == b'\n') else {
                return if left.len() > MAX_LINE_BYTES { Err(ReplyError::Line) } else { Ok(None) };
            };
            let line = String::from_utf8_lossy(&left[..len]);
            let entry = parse(&line, self.before)?;
            self.read += len + 1;
            match &entry {
                None => continue,
                Some(Entry::More(line)) => self.before = Some(line.code),
                Some(Entry::Last(_)) => self.before = None,
            }
            return Ok(entry);
        }
    }
}

/// A line without its newline, none if it belongs to no reply; `before` is the code of the line before it.
fn parse(line: &str, before: Option<u16>) -> Result<Option<Entry>, ReplyError> {
    let wrong = || ReplyError::Form(line.chars().take(80).collect());
    if line.starts_with('+') {
        return Ok(None);
    }
    if let Some(text) = line.strip_prefix(' ') {
        let code = before.ok_or_else(wrong)?;
        return Ok(Some(Entry::More(Line { code, text: text.to_owned() })));
    }
    let (code, rest) = line.split_at_checked(4).ok_or_else(wrong)?;
    if !code.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let code = code.parse().map_err(|_| wrong())?;
    match (rest.strip_prefix('-'), rest.strip_prefix(' ')) {
        (Some(text), _) => Ok(Some(Entry::More(Line { code, text: text.to_owned() }))),
        (None, Some(text)) => Ok(Some(Entry::Last(Line { code, text: text.to_owned() }))),
        (None, None) => Err(wrong()),
    }
}

impl Reply {
    /// Whether BIRD did what the command says.
    ///
    /// # Errors
    /// The first line that says otherwise.
    pub fn done(&self) -> Result<(), Refusal> {
        let refused = self.lines.iter().chain([&self.last]).find(|line| line.code >= 8000);
        match refused {
            Some(line) => Err(Refusal { code: line.code, text: line.text.trim().to_owned() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(code: u16, text: &str) -> Line {
        Line { code, text: text.to_owned() }
    }

    fn decode(bytes: &[u8]) -> Result<Vec<Reply>, ReplyError> {
        let mut decoder = Decoder::default();
        decoder.push(bytes);
        let mut replies = Vec::new();
        while let Some(reply) = decoder.reply()? {
            replies.push(reply);
        }
        Ok(replies)
    }

    #[test]
    fn a_reply_ends_with_the_line_whose_code_a_space_follows() {
        let bytes = b"0001 BIRD 2.0.12 ready.\n2002-Name\n1002-one\n two\n1006-  Description:\n   deep\n \n+said aside\n0000 \n0003 Rec";
        let mut decoder = Decoder::default();
        decoder.push(bytes);
        assert_eq!(decoder.reply(), Ok(Some(Reply { lines: vec![], last: line(1, "BIRD 2.0.12 ready.") })));
        let lines = vec![
            line(2002, "Name"),
            line(1002, "one"),
            line(1002, "two"),
            line(1006, "  Description:"),
            line(1006, "  deep"),
            line(1006, ""),
        ];
        assert_eq!(decoder.reply(), Ok(Some(Reply { lines, last: line(0, "") })));
        assert_eq!(decoder.reply(), Ok(None));
        decoder.push(b"onfigured\n");
        assert_eq!(decoder.reply(), Ok(Some(Reply { lines: vec![], last: line(3, "Reconfigured") })));
    }

    #[test]
    fn what_bird_did_not_do_is_said_with_its_reason() {
        let refused = |bytes: &[u8]| decode(bytes).unwrap()[0].done().map_err(|refusal| refusal.to_string());
        assert_eq!(refused(b"0009-routes:a: disabled\n0000 \n"), Ok(()));
        assert_eq!(
            refused(b"0002-Reading configuration from /r/bird.conf\n8002 /r/bird.conf:7:3 syntax error\n"),
            Err("/r/bird.conf:7:3 syntax error (BIRD's code 8002)".to_owned())
        );
        assert_eq!(refused(b"8006-x: reload failed\n0000 \n"), Err("x: reload failed (BIRD's code 8006)".to_owned()));
        assert_eq!(refused(b"9001 syntax error\n"), Err("syntax error (BIRD's code 9001)".to_owned()));
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        for wrong in ["\n", " first\n", "12 x\n", "0001\n", "00x1 x\n", "+001", "0001_x\n", "\u{e9}\u{e9}\u{e9}x\n"] {
            let decoded = decode(wrong.as_bytes());
            match wrong {
                "+001" => assert_eq!(decoded, Ok(vec![])),
                _ => assert!(matches!(decoded, Err(ReplyError::Form(_))), "{wrong:?}"),
            }
        }
        assert_eq!(decode(&[b'0'; MAX_LINE_BYTES + 1]), Err(ReplyError::Line));
        let long = format!("1000-{}\n", "x".repeat(4000)).repeat(MAX_REPLY_BYTES / 4000 + 1);
        assert_eq!(decode(long.as_bytes()), Err(ReplyError::Length));
    }

    proptest! {
        #[test]
        fn replies_are_the_same_in_whatever_pieces_they_come(
            replies in prop::collection::vec((prop::collection::vec((1000u16..1004, "[ -~]{0,20}"), 0..6), 0u16..30, "[ -~]{0,20}"), 0..5),
            pieces in prop::collection::vec(1usize..30, 1..20),
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (lines, code, text) in &replies {
                let mut before = None;
                for (code, text) in lines {
                    // As BIRD writes it.
                    let prefix = if before == Some(*code) { " ".to_owned() } else { format!("{code:04}-") };
                    bytes.extend(format!("{prefix}{text}\n").into_bytes());
                    before = Some(*code);
                }
                bytes.extend(format!("{code:04} {text}\n").into_bytes());
                let lines = lines.iter().map(|(code, text)| line(*code, text)).collect();
                expected.push(Reply { lines, last: line(*code, text) });
            }
            prop_assert_eq!(&decode(&bytes).unwrap(), &expected);
            let (mut decoder, mut read, mut rest) = (Decoder::default(), Vec::new(), &bytes[..]);
            for len in pieces.iter().cycle() {
                let (piece, left) = rest.split_at((*len).min(rest.len()));
                decoder.push(piece);
                rest = left;
                while let Some(reply) = decoder.reply().unwrap() {
                    read.push(reply);
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn any_bytes_are_replies_or_an_error(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
