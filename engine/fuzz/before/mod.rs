// SPDX-License-Identifier: Apache-2.0
//! The header walkers that were replaced by `spate_net`, as they were: what the target `layers` compares it with.
#![allow(dead_code, missing_docs, reason = "kept as they were")]
pub mod gtpu;
pub mod headers;
pub mod links;
pub mod offload;
pub mod packet;
