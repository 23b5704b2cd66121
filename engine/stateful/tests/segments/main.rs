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
