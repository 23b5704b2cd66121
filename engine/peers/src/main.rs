// SPDX-License-Identifier: Apache-2.0
//! `spate-peers`: does the engine's TCP work with others' through a bad network, and as fast as theirs? docs/performance.md
//! describes the method; `make peers` calls it.
mod byte_streams;
mod cases;
mod emulated;
mod forge;
mod forwarder;
mod kernel;
mod namespaces;
mod nat;
mod nginx;
mod packet_socket;
mod path;
mod report;
mod times;
mod trial;
mod wrk;

use std::{
    env, fs,
    path::PathBuf,
    process::{Command, ExitCode},
};

use anyhow::Context;
use clap::Parser;

use crate::{emulated::Engine, namespaces::Namespaces, report::Report, trial::Bench};

/// Tests the engine's TCP against the kernel's, nginx and wrk over a path that loses, delays and reorders packets. Needs root.
#[derive(Debug, Parser)]
#[command(name = "spate-peers")]
struct Arguments {
    /// What is run.
    #[arg(long, value_enum, default_value = "full")]
    set: cases::Set,
    /// Decides about every packet.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only trials whose name has this in it.
    #[arg(long, default_value = "")]
    only: String,
    /// Connections of the large trials.
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
    /// Rounds of the comparison of goodput.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// What becomes of the command where goodput is less than was promised.
    #[arg(long, value_enum, default_value = "fail")]
    floors: cases::Floors,
    /// Writes all that was seen here.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Names of this run's namespaces begin so; set by the program itself when it starts itself in one of them.
    #[arg(long, hide = true)]
    inside: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match &arguments.inside {
        None => outside(),
        Some(prefix) => inside(&arguments, prefix),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the namespaces, and starts itself in the router's.
fn outside() -> anyhow::Result<bool> {
    trial::check_root()?;
    let namespaces = Namespaces::new()?;
    let status = Command::new("ip")
        .args(["netns", "exec", &namespaces::name(namespaces.prefix(), "router")])
        .arg(env::current_exe()?)
        .args(env::args_os().skip(1))
        .args(["--inside", namespaces.prefix()])
        .status()?;
    Ok(status.success())
}

fn inside(arguments: &Arguments, prefix: &str) -> anyhow::Result<bool> {
    let mut bench = Bench { prefix: prefix.into(), engine: Engine::new(prefix), seed: arguments.seed };
    // The kernel's TCP waits for no processor; the router and our end are not to wait for long either.
    rustix::process::nice(-20)?;
    let mut report = Report::default();
    for trial in cases::trials(arguments.set, arguments.connections) {
        if trial.name.contains(&arguments.only) {
            report.note(trial.run(&mut bench)?);
        }
    }
    for comparison in cases::comparisons(arguments.set) {
        if comparison.name.contains(&arguments.only) {
            report.compare(comparison.run(&mut bench, arguments.rounds, arguments.floors)?);
        }
    }
    if let Some(path) = &arguments.json {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, report.json()?).with_context(|| path.display().to_string())?;
    }
    Ok(report.is_good())
}
