// SPDX-License-Identifier: Apache-2.0
//! The reference of counters is what the code says.
#[path = "../examples/counters.rs"]
mod reference;

use std::{collections::BTreeSet, fs, path::Path};

use spate_stateful::COUNTERS;

#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/counters.md");
    let there = fs::read_to_string(&path).unwrap();
    assert!(there == reference::page(), "docs/reference/counters.md is not what the code says: run make generate-docs");
}

#[test]
fn names_are_unique_and_meanings_are_sentences() {
    let names: BTreeSet<_> = COUNTERS.iter().map(|(name, ..)| name).collect();
    assert_eq!(names.len(), COUNTERS.len());
    for (name, _, meaning) in COUNTERS {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert!(meaning.ends_with('.') && !meaning.contains('|'), "{name}: {meaning}");
    }
}
