// SPDX-License-Identifier: Apache-2.0
//! Raw bindings of DPDK's C libraries. Use `spate-dpdk`, which is safe.
#![allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, unsafe_op_in_unsafe_fn, clippy::all)]
include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
