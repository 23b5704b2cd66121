// SPDX-License-Identifier: Apache-2.0
//! Whatever arrives, whenever: a stack neither panics nor loops, and nothing is left of it.
mod drive;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
    #[test]
    fn any_segments_at_any_time(bytes in prop::collection::vec(any::<u8>(), 0..1500)) {
        drive::drive(&bytes);
    }
}

#[test]
fn what_is_driven_gets_far() {
    use spate_stateful::{COUNTERS, Count};
    let mut counts = drive::drive(&[]);
    let mut state = 1u64;
    for _ in 0..600 {
        // Over IPv6 too, with `receiveUntil`.
        let mut bytes = vec![0; 3000];
        bytes[2..].fill_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        let more = drive::drive(&bytes);
        counts.iter_mut().flatten().zip(more.iter().flatten()).for_each(|(sum, more)| *sum += more);
    }
    use Count::*;
    let tcp =
        [FlowsEstablished, QueuedBytes, ReceivedDataBytes, AckedBytes, OutOfOrderPackets, IcmpErrors, ResetsReceived];
    let udp = [MessagesReceived, MessagesSent, FlowsRefused, IcmpErrors, FlowsIdleTimeouts];
    let of = |count: Count, templates: &[usize]| {
        let sum: u64 = templates.iter().map(|&template| counts[template][count as usize]).sum();
        assert!(sum > 0, "{} of {templates:?}", COUNTERS[count as usize].0);
    };
    (0..4).for_each(|template| tcp.iter().for_each(|&count| of(count, &[template])));
    (4..6).for_each(|template| udp.iter().for_each(|&count| of(count, &[template])));
    of(HttpErrors, &[2, 3]);
    of(MtuReductions, &[0, 2]);
    of(MtuReductions, &[1, 3]);
}
