// SPDX-License-Identifier: Apache-2.0
//! The traffic engine.
//!
//! [`datapath`] owns ports and workers and sends; [`plan`] turns a plan into what it can send; `control` serves the
//! contract; [`index`] has the types of indices; [`machine`] reads what the engine runs on; `version` says which release
//! it is of; `cli` holds the commands.
#![forbid(unsafe_code)]

pub mod cli;
pub mod control;
pub mod datapath;
pub mod index;
pub mod machine;
pub mod metrics;
pub mod plan;
mod version;
