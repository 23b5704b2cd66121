// SPDX-License-Identifier: Apache-2.0
//! Whatever arrives at a port with tunnels: nothing panics, and only what came through its client's tunnel goes on.
mod drive;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        drive::drive(&bytes);
    }
}
