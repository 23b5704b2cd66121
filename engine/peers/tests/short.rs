// SPDX-License-Identifier: Apache-2.0
//! The short set of trials: our TCP against the kernel's, nginx and wrk through a router that loses, reorders and lies.
use std::process::Command;

#[test]
fn connections_with_kernels_through_a_bad_network_complete() {
    let status = Command::new(env!("CARGO_BIN_EXE_spate-peers")).args(["--set", "short"]).status().unwrap();
    assert!(status.success(), "what failed is printed above");
}
