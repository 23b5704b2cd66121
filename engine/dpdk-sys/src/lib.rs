// SPDX-License-Identifier: Apache-2.0
//! Raw bindings of DPDK (22.11 or later). Names starting with `spate_` are the shim's, documented in `shim.h`; the
//! others are DPDK's own.
//!
//! ```
//! // SAFETY: it returns a constant string.
//! let version = unsafe { std::ffi::CStr::from_ptr(spate_dpdk_sys::rte_version()) };
//! assert!(version.to_string_lossy().starts_with("DPDK "));
//! ```
#![allow(missing_docs, non_camel_case_types, non_upper_case_globals, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
