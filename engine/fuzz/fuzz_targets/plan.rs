// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a plan: reading and validating never panics, however wrong it is, and what is found wrong has a field.
#![no_main]
use libfuzzer_sys::fuzz_target;
use spate_engine::plan::decode::{self, Format};
use spate_engine::plan::{Site, validate::validate};

fuzz_target!(|bytes: &[u8]| {
    let bytes = bytes.to_vec();
    let Ok(plan) = decode::plan(bytes.into(), Format::Auto) else { return };
    if let Err(violations) = validate(&plan, &Site::of_plan(&plan)) {
        assert!(!violations.0.is_empty());
        assert!(violations.0.iter().all(|v| !v.field.is_empty() && !v.description.is_empty()));
    }
});
