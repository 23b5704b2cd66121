// SPDX-License-Identifier: Apache-2.0
//! The traffic engine.
//!
//! [`datapath`] owns ports and workers and sends; [`plan`] turns a plan into what it can send; `control` serves the
//! contract; [`index`] has the types of indices; `lock` locks what threads share; [`machine`] reads what the engine runs
//! on; `version` says which release it is of; `cli` holds the commands.
//!
//! ```
//! use spate_engine::plan::{Site, decode, validate::validate};
//!
//! let plan = r#"{"runId": "r", "runTag": 1, "timing": {"durationNs": 1000000000}, "streams": [{
//!     "name": "s", "id": 0, "txPort": "east", "continuous": {"rate": {"packetsPerSecond": {"numerator": 1000, "denominator": 1}}},
//!     "packet": {"frame": "AgAAAAABAgAAAAAACABFAAAuAAAAAEARZr0KAAABCgAAAgABAAIAGgAAAAAAAAAAAAAAAAAAAAAAAAAA"}
//! }]}"#;
//! let mut plan = decode::plan(plan.into(), decode::Format::Json).unwrap();
//! let checked = validate(&plan, &Site::of_plan(&plan)).unwrap();
//! assert_eq!(checked.streams[0].longest_and_shortest(), (60, 60));
//!
//! plan.streams[0].tx_port.clear();
//! let wrong = validate(&plan, &Site::of_plan(&plan)).unwrap_err();
//! assert_eq!(wrong.0[0].field.to_string(), "streams[0].tx_port");
//! ```
#![forbid(unsafe_code)]

pub mod cli;
pub mod control;
pub mod datapath;
pub mod index;
mod lock;
pub mod machine;
pub mod metrics;
pub mod plan;
mod version;
