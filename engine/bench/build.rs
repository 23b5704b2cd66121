// SPDX-License-Identifier: Apache-2.0
//! Passes the compiler's version to the program: instructions per packet depend on it.
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = std::env::var("RUSTC").expect("cargo sets RUSTC");
    let output = Command::new(rustc).arg("--version").output().expect("rustc prints its version");
    let text = String::from_utf8(output.stdout).expect("its version is text");
    // "rustc 1.88.0 (hash date)"
    let version: Vec<&str> = text.split_whitespace().take(2).collect();
    println!("cargo:rustc-env=SPATE_RUSTC_VERSION={}", version.join(" "));
}
