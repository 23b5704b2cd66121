// SPDX-License-Identifier: Apache-2.0
//! Indices of the parts of a plan and of an engine: a type for each, so that one is not taken for another, and the path of those that a
//! plan lists.
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
    /// A port in the order of the engine's configuration.
    PortIndex,
}
