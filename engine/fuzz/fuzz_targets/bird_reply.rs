// SPDX-License-Identifier: Apache-2.0
//! Any bytes as what BIRD's control socket says: replies are read without a panic, the same in one piece and in two, and so are the
//! protocols, neighbors and routes in them.
#![no_main]
use libfuzzer_sys::fuzz_target;
use spate_routing::{
    Bgp, Decoder, Family, History, LearnedRoutes, Observation, Reply, ReplyError, Router, bfd_sessions, ospf_neighbors,
    protocols, rip_neighbors, sessions,
};

fuzz_target!(|given: (u16, &[u8])| {
    let (at, bytes) = given;
    let (first, second) = bytes.split_at(usize::from(at).min(bytes.len()));
    let whole = read(&[bytes]);
    assert_eq!(whole, read(&[first, second]));

    let dut = Bgp::new("dut", 65001, [10, 99, 0, 2].into(), 65002, [Family::V4]);
    let routers = [Router::new("east", "rt-east", []).with_bgp([dut])];
    let mut history = History::default();
    for reply in whole.0 {
        let _ = reply.done();
        let seen = Observation {
            protocols: protocols(&reply),
            bfd: bfd_sessions(&reply),
            ospf: ospf_neighbors(&reply),
            rip: rip_neighbors(&reply),
        };
        let sessions = sessions(&routers, &seen);
        assert_eq!(sessions.len(), 1);
        history.note(&sessions);
        let mut learned = LearnedRoutes::of("east");
        let routes = reply.lines.iter().filter(|line| learned.push(line).is_some()).count();
        assert!(routes + usize::from(learned.end().is_some()) <= reply.lines.len());
    }
});

/// The replies in pieces of bytes, and what ends them.
fn read(pieces: &[&[u8]]) -> (Vec<Reply>, Option<ReplyError>) {
    let (mut decoder, mut replies) = (Decoder::default(), Vec::new());
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.reply() {
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => break,
                Err(error) => return (replies, Some(error)),
            }
        }
    }
    (replies, None)
}
