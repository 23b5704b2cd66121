// SPDX-License-Identifier: Apache-2.0
//! Indices of the parts of a plan and of an engine: a type for each, so that one is not taken for another, and the path of those that a
//! plan lists.
use std::ops::Range;

use spate_stateful::FieldPath;

macro_rules! index {
    ($($(#[$meaning:meta])* $name:ident $(at $list:literal)?),+ $(,)?) => {$(
        $(#[$meaning])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub usize);

        $(impl $name {
            /// Its path in the plan.
            pub fn path(self) -> FieldPath {
                FieldPath::from($list).index(self.0)
            }
        })?
    )+};
}

index! {
    /// A stream in the plan's order.
    StreamIndex at "streams",
    /// A template in the order of the plan, and of its scenario.
    TemplateIndex at "stateful.templates",
    /// A pool in the order of the scenario, which begins with the plan's.
    PoolIndex at "stateful.pools",
    /// A stream in the order of those that its port sends on a schedule.
    PortStreamIndex,
    /// A receiver in the order of its run.
    ReceiverIndex,
    /// A port in the order of the engine's configuration.
    PortIndex,
    /// A worker in the order of the engine's configuration.
    WorkerIndex,
    /// A group of workers in the order of the engine's configuration.
    WorkerGroupIndex at "worker_groups",
    /// The slot that a run has in all workers of an engine.
    RunSlot,
    /// The tracker of a sequence in the order of those that its worker owns.
    TrackerIndex,
}

/// Workers with successive indices: those of a group, or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRange(Range<usize>);

impl WorkerRange {
    /// A range of this many workers from one on.
    pub fn new(first: WorkerIndex, count: usize) -> Self {
        Self(first.0..first.0 + count)
    }

    /// The first of them.
    pub fn first(&self) -> WorkerIndex {
        WorkerIndex(self.0.start)
    }

    /// Number of workers.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether a worker is in the range.
    pub fn contains(&self, worker: WorkerIndex) -> bool {
        self.0.contains(&worker.0)
    }

    /// The part of a list by worker that belongs to the range.
    ///
    /// # Panics
    /// If the list is shorter.
    pub fn of<'a, T>(&self, by_worker: &'a [T]) -> &'a [T] {
        &by_worker[self.0.clone()]
    }

    /// The worker at a place in their order, counted from the first again behind the last.
    ///
    /// # Panics
    /// If there are none.
    pub fn at(&self, place: usize) -> WorkerIndex {
        WorkerIndex(self.0.start + place % self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_its_own_workers_in_turn_and_no_other() {
        let group = WorkerRange::new(WorkerIndex(2), 3);
        assert_eq!((group.first(), group.count()), (WorkerIndex(2), 3));
        let inside: Vec<_> = (0..7).filter(|worker| group.contains(WorkerIndex(*worker))).collect();
        assert_eq!(inside, [2, 3, 4]);
        assert_eq!([0, 2, 3, 7].map(|place| group.at(place).0), [2, 4, 2, 3]);
        assert_eq!(group.of(&[10, 11, 12, 13, 14, 15]), [12, 13, 14]);
    }

    #[test]
    fn an_index_has_the_path_of_its_list() {
        assert_eq!(WorkerGroupIndex(1).path().field("ports").to_string(), "worker_groups[1].ports");
    }
}
