// SPDX-License-Identifier: Apache-2.0
//! A protocol of tests alone, which shows that one is a file and a line of the registration: a port in its VLAN answers a beacon that it
//! receives, and sends one of its own a second later.
use spate_net::ethernet;

use crate::{
    Config, Interface, Mac, Output,
    interest::Wanted,
    link::Link,
    stations::{Protocol, Received},
};

/// For local experiments (IEEE 802).
const ETHERTYPE: u16 = 0x88b5;
const GROUP: Mac = [0x03, 0, 0, 0, 0, 0x88];
/// Ports in other VLANs do not speak the protocol.
const VLAN: u16 = 4094;
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Beacon {
    enabled: bool,
    due_ns: Option<u64>,
}

impl Protocol for Beacon {
    fn new(link: &Link, _: u64) -> Self {
        Self { enabled: link.config.vlan == Some(VLAN), due_ns: None }
    }

    fn interest(&self, wanted: &mut Wanted) {
        wanted.ethertypes.extend(self.enabled.then_some(ETHERTYPE));
        wanted.groups.extend(self.enabled.then_some(GROUP));
    }

    fn receive(&mut self, link: &mut Link, received: &Received<'_>, output: &mut Output) {
        if self.enabled && received.frame.ethertype == ETHERTYPE && received.tags == link.station.tags {
            output.frames.push(link.station.frame(received.frame.source, ETHERTYPE, b"answer"));
            self.due_ns = Some(received.now_ns + SECOND);
        }
    }

    fn poll(&mut self, link: &mut Link, now_ns: u64, output: &mut Output) {
        if self.due_ns.take_if(|due| *due <= now_ns).is_some() {
            output.frames.push(link.station.frame(GROUP, ETHERTYPE, b"beacon"));
        }
    }

    fn next_due_ns(&self, _: &Link) -> Option<u64> {
        self.due_ns
    }
}

const EAST: Mac = [2, 0, 0, 0, 0, 1];
const WEST: Mac = [2, 0, 0, 0, 0, 2];

fn port(vlan: u16) -> Interface {
    Interface::new(EAST, Config { vlan: Some(vlan), ..Config::default() }, 0).unwrap()
}

fn beacon(to: Mac, from: Mac, payload: &[u8]) -> Vec<u8> {
    ethernet::build(to, from, Some(VLAN).into(), ETHERTYPE, payload)
}

#[test]
fn a_protocol_that_is_registered_receives_its_frames_answers_them_and_is_polled_when_it_is_due() {
    let mut port = port(VLAN);
    let frame = beacon(GROUP, WEST, b"hello");
    assert!(port.interest().concerns(&frame) && port.interest().group_macs(9).0.contains(&GROUP));
    // The port has no addresses to announce.
    let mut output = Output::default();
    port.poll(0, &mut output);
    assert_eq!(output, Output::default());
    port.receive(&frame, 5, &mut output);
    assert_eq!(output.frames, [beacon(WEST, EAST, b"answer")]);
    let mut polled = Vec::new();
    while let Some(due_ns) = port.next_ns() {
        let mut output = Output::default();
        port.poll(due_ns - 1, &mut output);
        assert_eq!(output, Output::default());
        port.poll(due_ns, &mut output);
        polled.extend(output.frames.into_iter().map(|frame| (due_ns, frame)));
    }
    assert_eq!(polled, [(5 + SECOND, beacon(GROUP, EAST, b"beacon"))]);
}

#[test]
fn frames_of_an_ethertype_concern_only_ports_with_a_protocol_that_wants_it() {
    let concerns = |port: &Interface, vlan: u16, ethertype| {
        port.interest().concerns(&ethernet::build(GROUP, WEST, Some(vlan).into(), ethertype, b"hello"))
    };
    let (with, mut without) = (port(VLAN), port(7));
    for (vlan, ethertype, expected) in [(VLAN, ETHERTYPE, true), (VLAN, ETHERTYPE + 1, false), (7, ETHERTYPE, false)] {
        assert_eq!(concerns(&with, vlan, ethertype), expected, "{vlan} {ethertype:#x}");
        assert!(!concerns(&without, vlan, ethertype), "{vlan} {ethertype:#x}");
    }
    let mut output = Output::default();
    without.receive(&ethernet::build(GROUP, WEST, Some(7).into(), ETHERTYPE, b"hello"), 0, &mut output);
    assert_eq!(output, Output::default());
}
