// SPDX-License-Identifier: Apache-2.0
//! An HTTP/1.1 message as a sink (RFC 9112).
//!
//! A message is a response if it begins with `HTTP/`, else a request. Its body ends by its chunks, by `Content-Length`, or, of a
//! response without either, with the connection; requests without either, and responses 1xx, 204 and 304, have none (RFC 9112
//! section 6.3). An interim response (1xx) is a message by itself. What a response answers is not known: one to HEAD that has a
//! `Content-Length` is waited for as if it had that body.
use super::{Fed, Sink};

/// Bytes of a start line with its header, of a chunk's line, or of a trailer, at most.
pub const MAX_HEADER_BYTES: u32 = 65_536;
/// Digits of a chunk's length lead to no more than this.
const MAX_CHUNK_BYTES: u64 = 1 << 60;

const VERSION: &[u8] = b"HTTP/";
const LENGTH: &[u8] = b"content-length";
const CODING: &[u8] = b"transfer-encoding";
const CHUNKED: &[u8] = b"chunked";

/// Why a message is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// CR without LF, where lines are.
    Cr,
    /// A response's first line has no status.
    Status,
    /// A line of the header has no name.
    Name,
    /// The message has no length, or several.
    Length,
    /// The body of a request ends nowhere.
    Coding,
    /// A chunk's line or end is malformed.
    Chunk,
    /// Lines are longer than `MAX_HEADER_BYTES`.
    TooLong,
}

/// A sink that finds the end of one HTTP message, a request or a response.
#[derive(Clone, Debug)]
pub struct Http;

impl Sink for Http {
    type Progress = Parser;

    fn begin(&self) -> Parser {
        Parser::BEGIN
    }

    fn feed(&self, progress: &mut Parser, bytes: &[u8]) -> Fed {
        progress.feed(bytes)
    }

    fn ends_with_connection(progress: &Parser) -> bool {
        progress.phase == Phase::UntilClose
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// In front of the first line; empty ones may come before (RFC 9112 section 2.2).
    Front,
    FirstLine,
    /// At the first byte of a line of the header.
    Line,
    Name,
    Value,
    Body,
    UntilClose,
    /// In the digits of a chunk's length.
    ChunkSize,
    /// Behind the digits, in the rest of the line.
    ChunkRest,
    Chunk,
    /// At the line's end behind a chunk.
    ChunkEnd,
    /// At the first byte of a line of the trailer.
    TrailerLine,
    Trailer,
}

/// The header field whose value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Other,
    Length,
    Coding,
}

/// Where a value's word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Before,
    In,
    Behind,
}

/// Progress of a message.
#[derive(Clone, Copy, Debug)]
pub struct Parser {
    /// Bytes of the body or of the chunk that are still to come; while the header is read, the value of `Content-Length`.
    left: u64,
    /// The number being read.
    number: u64,
    /// Bytes of lines so far.
    lines: u32,
    /// Status code of a response.
    status: u16,
    phase: Phase,
    name: Name,
    word: Word,
    /// Bytes of the first line, up to 255.
    position: u8,
    /// Bytes of a name, or of a coding, that are as looked for.
    length_like: Like,
    coding_like: Like,
    response: bool,
    /// A CR came; LF must follow.
    cr: bool,
    has_length: bool,
    has_coding: bool,
    /// The last coding was `chunked`.
    chunked: bool,
}

/// How many bytes are as in a word; none if one was not.
type Like = Option<u8>;

/// Compares one byte more with a word.
fn like(word: &[u8], so_far: Like, byte: u8) -> Like {
    let at = so_far?;
    (word.get(usize::from(at)) == Some(&byte.to_ascii_lowercase())).then_some(at + 1)
}

fn is_all(word: &[u8], like: Like) -> bool {
    like.map(usize::from) == Some(word.len())
}

impl Parser {
    const BEGIN: Self = Self {
        left: 0,
        number: 0,
        lines: 0,
        status: 0,
        phase: Phase::Front,
        name: Name::Other,
        word: Word::Before,
        position: 0,
        length_like: None,
        coding_like: None,
        response: false,
        cr: false,
        has_length: false,
        has_coding: false,
        chunked: false,
    };

    fn feed(&mut self, bytes: &[u8]) -> Fed {
        let mut at = 0;
        while at < bytes.len() {
            match self.phase {
                Phase::UntilClose => return Fed::More,
                Phase::Body | Phase::Chunk => {
                    let len = self.left.min((bytes.len() - at) as u64);
                    self.left -= len;
                    at += len as usize;
                    if self.left > 0 {
                        return Fed::More;
                    }
                    if self.phase == Phase::Body {
                        return Fed::Ends(at);
                    }
                    self.phase = Phase::ChunkEnd;
                }
                _ => {
                    let ended = self.byte(bytes[at]);
                    at += 1;
                    match ended {
                        Ok(false) => {}
                        Ok(true) => return Fed::Ends(at),
                        Err(fault) => return Fed::Broken(fault),
                    }
                }
            }
        }
        Fed::More
    }

    /// A byte of lines; whether the message ends behind it.
    fn byte(&mut self, byte: u8) -> Result<bool, Fault> {
        self.lines += 1;
        if self.lines > MAX_HEADER_BYTES {
            return Err(Fault::TooLong);
        }
        match byte {
            b'\n' => {
                self.cr = false;
                return self.line_ends();
            }
            _ if self.cr => return Err(Fault::Cr),
            b'\r' => {
                self.cr = true;
                return Ok(false);
            }
            _ => {}
        }
        match self.phase {
            Phase::Front | Phase::FirstLine => self.first_line(byte)?,
            Phase::Line => match byte {
                // The value before goes on (RFC 9112 section 5.2).
                b' ' | b'\t' if self.name == Name::Length => return Err(Fault::Length),
                b' ' | b'\t' => self.phase = Phase::Value,
                _ => {
                    (self.phase, self.length_like, self.coding_like) = (Phase::Name, Some(0), Some(0));
                    self.name_byte(byte)?;
                }
            },
            Phase::Name => self.name_byte(byte)?,
            Phase::Value => self.value(byte)?,
            Phase::ChunkSize => self.chunk_size(byte)?,
            Phase::TrailerLine => self.phase = Phase::Trailer,
            Phase::ChunkRest | Phase::Trailer => {}
            Phase::ChunkEnd => return Err(Fault::Chunk),
            Phase::Body | Phase::Chunk | Phase::UntilClose => unreachable!("no lines"),
        }
        Ok(false)
    }

    fn line_ends(&mut self) -> Result<bool, Fault> {
        match self.phase {
            Phase::Front => {}
            Phase::FirstLine => {
                // A line that ends before it says so is no status line.
                self.response &= usize::from(self.position) >= VERSION.len();
                // `HTTP/1.1 200`
                if self.response && self.position < 12 {
                    return Err(Fault::Status);
                }
                self.phase = Phase::Line;
            }
            Phase::Line => return self.header_ends(),
            Phase::Name => return Err(Fault::Name),
            Phase::Value => {
                self.value_ends()?;
                self.phase = Phase::Line;
            }
            Phase::ChunkSize if self.position == 0 => return Err(Fault::Chunk),
            Phase::ChunkSize | Phase::ChunkRest => {
                (self.left, self.lines) = (self.number, 0);
                self.phase = if self.number > 0 { Phase::Chunk } else { Phase::TrailerLine };
            }
            Phase::ChunkEnd => self.begin_chunk(),
            Phase::TrailerLine => return Ok(true),
            Phase::Trailer => self.phase = Phase::TrailerLine,
            Phase::Body | Phase::Chunk | Phase::UntilClose => unreachable!("no lines"),
        }
        Ok(false)
    }

    fn first_line(&mut self, byte: u8) -> Result<(), Fault> {
        let at = usize::from(self.position);
        self.phase = Phase::FirstLine;
        self.position = self.position.saturating_add(1);
        match at {
            0..5 => self.response = (at == 0 || self.response) && byte == VERSION[at],
            8 if self.response && byte != b' ' => return Err(Fault::Status),
            9..12 if self.response => {
                if !byte.is_ascii_digit() {
                    return Err(Fault::Status);
                }
                self.status = 10 * self.status + u16::from(byte - b'0');
            }
            _ => {}
        }
        Ok(())
    }

    fn name_byte(&mut self, byte: u8) -> Result<(), Fault> {
        match byte {
            b':' => {
                self.name = match (is_all(LENGTH, self.length_like), is_all(CODING, self.coding_like)) {
                    (true, _) => Name::Length,
                    (_, true) => Name::Coding,
                    _ => Name::Other,
                };
                self.has_coding |= self.name == Name::Coding;
                (self.phase, self.word, self.number, self.coding_like) = (Phase::Value, Word::Before, 0, Some(0));
            }
            // RFC 9112 section 5.1.
            b' ' | b'\t' => return Err(Fault::Name),
            _ => {
                self.length_like = like(LENGTH, self.length_like, byte);
                self.coding_like = like(CODING, self.coding_like, byte);
            }
        }
        Ok(())
    }

    fn value(&mut self, byte: u8) -> Result<(), Fault> {
        match self.name {
            Name::Other => {}
            Name::Length => match (byte, self.word) {
                (b'0'..=b'9', Word::Before | Word::In) => {
                    let number = self.number.checked_mul(10).and_then(|n| n.checked_add(u64::from(byte - b'0')));
                    (self.number, self.word) = (number.ok_or(Fault::Length)?, Word::In);
                }
                (b' ' | b'\t', Word::Before) => {}
                (b' ' | b'\t', _) => self.word = Word::Behind,
                _ => return Err(Fault::Length),
            },
            Name::Coding => match (byte, self.word) {
                (b',', _) => self.coding_ends(),
                (b' ' | b'\t', Word::Before) => {}
                (b' ' | b'\t', _) => self.word = Word::Behind,
                // A parameter, or another word: it is not `chunked` alone.
                (_, Word::Behind) => self.coding_like = None,
                _ => {
                    self.coding_like = like(CHUNKED, self.coding_like, byte);
                    self.word = Word::In;
                }
            },
        }
        Ok(())
    }

    fn value_ends(&mut self) -> Result<(), Fault> {
        match self.name {
            Name::Other => {}
            Name::Length => {
                let differs = self.has_length && self.left != self.number;
                if self.word == Word::Before || differs {
                    return Err(Fault::Length);
                }
                (self.left, self.has_length) = (self.number, true);
            }
            Name::Coding => self.coding_ends(),
        }
        Ok(())
    }

    fn coding_ends(&mut self) {
        if self.word != Word::Before {
            self.chunked = is_all(CHUNKED, self.coding_like);
        }
        (self.word, self.coding_like) = (Word::Before, Some(0));
    }

    /// RFC 9112 section 6.3.
    fn header_ends(&mut self) -> Result<bool, Fault> {
        if self.response && matches!(self.status, 100..=199 | 204 | 304) {
            return Ok(true);
        }
        if self.has_coding {
            if self.chunked {
                self.begin_chunk();
                return Ok(false);
            }
            if !self.response {
                return Err(Fault::Coding);
            }
            self.phase = Phase::UntilClose;
            return Ok(false);
        }
        if self.has_length {
            self.phase = Phase::Body;
            return Ok(self.left == 0);
        }
        self.phase = Phase::UntilClose;
        Ok(!self.response)
    }

    fn begin_chunk(&mut self) {
        (self.phase, self.lines, self.number, self.position) = (Phase::ChunkSize, 0, 0, 0);
    }

    fn chunk_size(&mut self, byte: u8) -> Result<(), Fault> {
        match (byte as char).to_digit(16) {
            Some(digit) => {
                self.number = 16 * self.number + u64::from(digit);
                self.position = 1;
                if self.number > MAX_CHUNK_BYTES {
                    return Err(Fault::Chunk);
                }
            }
            None if self.position > 0 && matches!(byte, b';' | b' ' | b'\t') => self.phase = Phase::ChunkRest,
            None => return Err(Fault::Chunk),
        }
        Ok(())
    }
}
