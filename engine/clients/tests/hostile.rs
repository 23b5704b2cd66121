// SPDX-License-Identifier: Apache-2.0
//! Any messages of servers, routers and other stations to clients in any state: see `drive`.
use proptest::prelude::*;

#[path = "hostile/drive.rs"]
mod drive;

use drive::{Protocol, drive};

/// Steps that are more often frames, and whose bytes are more often such as messages have.
fn script() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![0u8..8, 50u8..60, Just(255), any::<u8>()];
    let frame = (80u8.., any::<u8>(), any::<u8>(), prop::collection::vec(byte, 0..60))
        .prop_map(|(kind, shape, client, body)| [&[kind, shape, client, body.len() as u8], &body[..]].concat());
    let step =
        prop_oneof![4 => frame, 1 => (0u8..64).prop_map(|step| vec![step]), 1 => any::<[u8; 3]>().prop_map(Vec::from)];
    prop::collection::vec(step, 1..60).prop_map(|steps| steps.concat())
}

proptest! {
    #[test]
    fn answers_of_dhcp_servers_never_panic(script in script()) {
        drive(Protocol::Dhcp4, &script);
    }

    #[test]
    fn answers_of_dhcp6_servers_never_panic(script in script()) {
        drive(Protocol::Dhcp6, &script);
    }

    #[test]
    fn neighbor_discovery_never_panics(script in script()) {
        drive(Protocol::Nd, &script);
    }
}
