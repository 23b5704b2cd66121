// SPDX-License-Identifier: Apache-2.0
//! Which engines of a run do something that not all of them do.
use super::Violations;
use contract::{Engines, Share};
use spate_stateful::{FieldPath, Part};

/// Checks a range of engines.
pub fn check(at: &FieldPath, engines: &Engines, share: Option<&Share>, wrong: &mut Violations) {
    let end = u64::from(engines.first) + u64::from(engines.count);
    if engines.count == 0 {
        wrong.add(at.field("count"), "0; must be at least 1");
    } else if let Some(share) = share.filter(|share| end > share.count.into()) {
        let problem = format!("engines from {} to {}; there are {}, from 0 on", engines.first, end - 1, share.count);
        wrong.add(at, problem);
    }
}

/// Whether no engine is in both; absent ones have all.
pub fn disjoint(one: Option<&Engines>, other: Option<&Engines>) -> bool {
    let end = |engines: &Engines| u64::from(engines.first) + u64::from(engines.count);
    one.zip(other).is_some_and(|(a, b)| end(a) <= b.first.into() || end(b) <= a.first.into())
}

/// The first two that have some engines in common, and are not equal: an engine does such things by one schedule for all.
pub fn half_in_common<'a>(all: impl Iterator<Item = (usize, Option<&'a Engines>)>) -> Option<(usize, usize)> {
    let mut distinct: Vec<(usize, Option<&Engines>)> = Vec::new();
    for (index, engines) in all {
        if let Some((other, _)) = distinct.iter().find(|(_, o)| *o != engines && !disjoint(*o, engines)) {
            return Some((*other, index));
        }
        if !distinct.iter().any(|(_, other)| *other == engines) {
            distinct.push((index, engines));
        }
    }
    None
}

/// Which part an engine has of what these have together; none if it is not among them. One that shares with no other has all.
pub fn part_of(engine: Part, engines: Option<&Engines>) -> Option<Part> {
    let Some(engines) = engines.filter(|_| engine != Part::WHOLE) else { return Some(engine) };
    let index = engine.index.checked_sub(engines.first).filter(|index| *index < engines.count)?;
    Some(Part { index, of: engines.count })
}
