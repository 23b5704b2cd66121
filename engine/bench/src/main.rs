// SPDX-License-Identifier: Apache-2.0
//! `spate-bench`: how fast, how exact and how steady is the engine? docs/performance.md describes the method; the make targets
//! `bench`, `bench-instructions`, `bench-pacing` and `soak` call it.
mod beside;
mod cases;
mod clients;
mod crowd;
mod floors;
mod flow_cases;
mod flow_soak;
mod flows;
mod instructions;
mod measure;
mod pacing;
mod pages;
mod port_names;
mod rig;
mod scaling;
mod series;
mod soak;
mod stateful;
mod stateless;
mod steady;
mod steps;
mod testpmd;
mod verify;
mod web;

use clap::{Parser, Subcommand};
use spate_dpdk::Allocator;
use std::process::ExitCode;

/// As the engine's.
#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Measures the engine on this machine.
#[derive(Debug, Parser)]
#[command(name = "spate-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Beside(beside::Beside),
    Clients(clients::Clients),
    Soak(soak::Soak),
    Stateless(stateless::Stateless),
    Stateful(stateful::Stateful),
    Flows(flows::Flows),
    FlowSoak(flow_soak::FlowSoak),
    Instructions(instructions::Instructions),
    Measure(measure::Measure),
    Pacing(pacing::Pacing),
    Crowd(crowd::Crowd),
    Scaling(scaling::Scaling),
    Steady(steady::Steady),
    Verify(verify::Verify),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Beside(beside) => beside.execute(),
        Command::Clients(clients) => clients.execute(),
        Command::Soak(soak) => soak.execute(),
        Command::Stateless(stateless) => stateless.execute(),
        Command::Stateful(stateful) => stateful.execute(),
        Command::Flows(flows) => flows.execute(),
        Command::FlowSoak(soak) => soak.execute(),
        Command::Instructions(instructions) => instructions.execute(),
        Command::Measure(measure) => measure.execute(),
        Command::Pacing(pacing) => pacing.execute(),
        Command::Crowd(crowd) => crowd.execute(),
        Command::Scaling(scaling) => scaling.execute(),
        Command::Steady(steady) => steady.execute(),
        Command::Verify(verify) => verify.execute(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
