// SPDX-License-Identifier: Apache-2.0
//! Where messages end: the matcher, which sees bytes in pieces, finds what a simple reader of the whole finds.
mod oracle;

use oracle::compare;
use proptest::prelude::*;
use spate_stateful::{
    message::{Fault, Fed, MAX_HEADER_BYTES, Matcher},
    program::Until,
};

/// Parts that messages are made of, right and wrong.
const PARTS: &[&str] = &[
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 404\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 100 Continue\r\n",
    "HTTP/1.1 30",
    "4 Not Modified\r\n",
    "HTTP/1.1 2x0\r\n",
    "HTTPS",
    "GET / HTTP/1.1\r\n",
    "POST /x HTTP/1.1\n",
    "Host: a\r\n",
    "Content-Length: 5\r\n",
    "content-LENGTH:\t5 \r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 6\r\n",
    "Content-Length: 5, 5\r\n",
    "Content-Length: -1\r\n",
    "Content-Length:\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Content-Lengths: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "transfer-encoding: gzip, Chunked \r\n",
    "Transfer-Encoding: chunked, gzip\r\n",
    "Transfer-Encoding:\r\n",
    "Transfer-Encoding: chunked;q=1\r\n",
    " folded\r\n",
    "\tchunked\r\n",
    "Name : x\r\n",
    "\r\n",
    "\n",
    "\r",
    "hello",
    "5\r\n",
    "5;ext=\"x\"\r\n",
    "0\r\n",
    "00\n",
    "A\r\n0123456789\r\n",
    "fffffffffffffffff\r\n",
    "Trailer: t\r\n",
    ":",
    " ",
    "x",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]
    #[test]
    fn messages_of_right_and_wrong_parts(
        parts in prop::collection::vec(prop::sample::select(PARTS), 0..12), pieces in prop::collection::vec(any::<u8>(), 1..8),
    ) {
        compare(&Until::HttpMessage, parts.concat().as_bytes(), &pieces);
    }

    #[test]
    fn patterns_of_few_letters(
        pattern in prop::collection::vec(b'a'..=b'b', 1..10), bytes in prop::collection::vec(b'a'..=b'c', 0..200), pieces: Vec<u8>,
    ) {
        compare(&Until::Pattern(pattern.into()), &bytes, &pieces);
    }

    #[test]
    fn messages_with_bodies_end_behind_them(
        response: bool, chunked: bool, body in prop::collection::vec(any::<u8>(), 0..300), cut in 1usize..40, pieces: Vec<u8>,
    ) {
        let mut message = if response { b"HTTP/1.1 200 OK\r\n".to_vec() } else { b"PUT / HTTP/1.1\r\n".to_vec() };
        if chunked {
            message.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            for chunk in body.chunks(cut) {
                message.extend([format!("{:x}\r\n", chunk.len()).as_bytes(), chunk, b"\r\n"].concat());
            }
            message.extend(b"0\r\nDigest: none\r\n\r\n");
        } else {
            message.extend([format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat());
        }
        prop_assert_eq!(oracle::http(&message), oracle::Verdict::Ends(message.len()));
        message.extend(b"GET / HTTP/1.1\r\n");
        compare(&Until::HttpMessage, &message, &pieces);
    }
}

fn http(bytes: &[u8]) -> Fed {
    let matcher = Matcher::new(&Until::HttpMessage);
    matcher.feed(&mut matcher.begin(), bytes)
}

#[test]
fn a_line_that_is_a_part_of_a_version_is_no_status_line() {
    for bytes in ["H\n\n", "HTTP\r\n\r\n", "H\nContent-Length: 2\n\nab"] {
        oracle::compare(&Until::HttpMessage, bytes.as_bytes(), &[0, 3]);
    }
}

#[test]
fn what_has_no_end_that_can_be_known_is_reported_by_its_fault() {
    for (bytes, fault) in [
        ("HTTP/1.1 abc\r\n", Fault::Status),
        ("HTTP/1.1\r\n", Fault::Status),
        ("GET / HTTP/1.1\r\nno colon\r\n", Fault::Name),
        ("GET / HTTP/1.1\r\nContent-Length : 5\r\n", Fault::Name),
        ("GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n", Fault::Length),
        ("GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", Fault::Coding),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Fault::Chunk),
        ("HTTP/1.1 200 OK\rX", Fault::Cr),
    ] {
        assert_eq!(http(bytes.as_bytes()), Fed::Broken(fault), "{bytes:?}");
    }
}

#[test]
fn a_header_without_an_end_is_given_up() {
    let endless = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'x'; MAX_HEADER_BYTES as usize]].concat();
    assert_eq!(http(&endless), Fed::Broken(Fault::TooLong));
    assert_eq!(http(&endless[..MAX_HEADER_BYTES as usize]), Fed::More);
    // The lines of chunks are as many as there are chunks.
    let chunks =
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(), b"1\r\nx\r\n".repeat(20_000)].concat();
    assert_eq!(http(&chunks), Fed::More);
}
