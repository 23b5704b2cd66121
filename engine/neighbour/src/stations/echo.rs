// SPDX-License-Identifier: Apache-2.0
//! Answers to echo requests (RFC 792, RFC 4443 section 4.2) for the port's addresses and those of emulated stations.
use crate::{
    Output,
    link::Link,
    message::{Message, Station},
    stations::{Protocol, Received},
};

/// Answers echo requests.
#[derive(Clone, Debug)]
pub(crate) struct Echo;

impl Protocol for Echo {
    fn new(_: &Link, _: u64) -> Self {
        Self
    }

    fn receive(&mut self, link: &mut Link, received: &Received<'_>, output: &mut Output) {
        let Some(Message::Echo { from, to, mac, data }) = received.message else { return };
        let (station_mac, tags) = (received.frame.destination, received.tags);
        if link.here(tags, to) == Some(station_mac) {
            output.frames.extend(Station { mac: station_mac, tags }.echo_reply(mac, to, from, data));
        }
    }
}
