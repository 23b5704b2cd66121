// SPDX-License-Identifier: Apache-2.0
//! `spate-engine`: see `spate_engine::cli`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use spate_dpdk::Allocator;
use spate_engine::cli;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

fn main() -> ExitCode {
    if let Some(missing) = spate_arch::missing() {
        eprintln!(
            "error: this CPU, or the hypervisor before it, has no {missing}; the engine needs x86-64-v3 (Intel Haswell, AMD \
             Excavator or later; QEMU: -cpu host)"
        );
        return ExitCode::FAILURE;
    }
    cli::main()
}
