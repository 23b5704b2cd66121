// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a routing table in the MRT format: prefixes of the family are read, each once, or an error; never a panic. Fewer
//! are the first of more.
#![no_main]
use libfuzzer_sys::fuzz_target;
use spate_routing::{Family, mrt_prefixes};
use std::collections::HashSet;

fuzz_target!(|given: (bool, u8, &[u8])| {
    let (v6, most, bytes) = given;
    let family = if v6 { Family::V6 } else { Family::V4 };
    let Ok(all) = mrt_prefixes(bytes, family, u32::MAX) else { return };
    assert!(!all.is_empty() && all.iter().all(|net| net.family() == family));
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    if most > 0 {
        let first = mrt_prefixes(bytes, family, most.into()).unwrap();
        assert_eq!(first, all[..all.len().min(most.into())]);
    }
});
