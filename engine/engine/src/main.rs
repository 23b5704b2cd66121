// SPDX-License-Identifier: Apache-2.0
//! `spate-engine`: see `spate_engine::cli`.
fn main() -> std::process::ExitCode {
    spate_engine::cli::main()
}
