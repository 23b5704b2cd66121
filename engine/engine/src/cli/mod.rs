// SPDX-License-Identifier: Apache-2.0
//! The command line: `spate-engine serve|run|receive|simulate|compile|capture|records`.
mod capture;
mod claimed;
mod compile;
mod connect;
mod cpus;
mod links;
mod ports;
mod receive;
mod records;
mod run;
mod serve;
mod simulate;
mod site;
mod staging;
mod worker_groups;

use crate::plan::MAX_PLAN_BYTES;
use crate::version::version;
use clap::{Parser, Subcommand, ValueEnum};
use std::process::ExitCode;

/// Sends and receives network traffic, exact to the packet, on DPDK.
#[derive(Debug, Parser)]
#[command(
    name = "spate-engine",
    version = version(),
    after_help = "Exit codes: 0 done; 1 failed, or the run is not what was asked for; 2 wrong usage.\n\n\
        Examples:\n  \
        spate-engine run --plan plan.json --port l=loopback --hugepages none\n  \
        spate-engine serve --port east=kernel:eth1 --listen unix:/run/spate.sock --metrics 127.0.0.1:7471\n  \
        spate-engine receive --port east=kernel:eth1\n  \
        spate-engine simulate --plan plan.json --pcap out.pcap --limit 1000\n  \
        spate-engine compile --plan plan.json\n  \
        spate-engine capture --connect unix:/run/spate.sock --port east --filter 'udp port 53' --pcap out.pcap\n  \
        spate-engine records --connect unix:/run/spate.sock"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// How log lines are written to standard error.
    #[arg(long, value_enum, default_value = "text", global = true, env = "SPATE_LOG_FORMAT")]
    log_format: LogFormat,
    /// What is logged: a level (error, warn, info, debug, trace), or filters such as `info,dpdk=debug`.
    #[arg(long, default_value = "info", global = true, env = "SPATE_LOG")]
    log: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Opens ports and serves the control contract and the metrics until a signal ends it.
    Serve(serve::Serve),
    /// Runs one plan on ports opened for it, and prints what came of it.
    Run(run::Run),
    /// Measures whatever arrives on ports, and prints it at every interval.
    Receive(receive::Receive),
    /// Writes the packets a plan would send to a pcap file, on a virtual clock; needs no device and no privilege.
    Simulate(simulate::Simulate),
    /// Checks a plan and prints what it comes to as JSON; needs no device and no privilege.
    Compile(compile::Compile),
    /// Copies packets of a running engine's port into a pcap file.
    Capture(capture::Capture),
    /// Prints records of a running engine's connections as they end.
    Records(records::Records),
}

/// The environment variable with the socket of records: a pod's engine serves it, and commands in the pod find it.
const RECORDS_SOCKET: &str = "SPATE_RECORDS_SOCKET";

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(error) = log_to_stderr(&arguments) {
        eprintln!("error: --log {:?}: {error}", arguments.log);
        return ExitCode::from(2);
    }
    let result = match arguments.command {
        Command::Serve(serve) => serve.execute(),
        Command::Run(run) => run.execute(),
        Command::Receive(receive) => receive.execute(),
        Command::Simulate(simulate) => simulate.execute(),
        Command::Compile(compile) => compile.execute(),
        Command::Capture(capture) => capture.execute(),
        Command::Records(records) => records.execute(),
    };
    result.unwrap_or_else(|error| {
        match arguments.log_format {
            LogFormat::Text => eprintln!("error: {error:#}"),
            LogFormat::Json => tracing::error!("{error:#}"),
        }
        ExitCode::FAILURE
    })
}

fn log_to_stderr(arguments: &Arguments) -> Result<(), tracing_subscriber::filter::ParseError> {
    let filter = tracing_subscriber::EnvFilter::try_new(&arguments.log)?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match arguments.log_format {
        LogFormat::Text => {
            // As no-color.org asks.
            let colours = std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
            log.with_ansi(colours && std::io::IsTerminal::is_terminal(&std::io::stderr())).init();
        }
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}

/// An event loop on this thread.
fn event_loop() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(4).build()?)
}

/// Reads a plan from a file, or from standard input for "-", and no more of it than a plan may have.
fn read_plan(path: &str) -> anyhow::Result<Vec<u8>> {
    use anyhow::Context;
    use std::io::Read;

    let (from, what): (Box<dyn Read>, _) = if path == "-" {
        (Box::new(std::io::stdin()), "standard input")
    } else {
        let file = std::fs::File::open(path);
        (Box::new(file.with_context(|| format!("--plan {path}: the file cannot be read"))?), "the file")
    };
    let mut bytes = Vec::new();
    from.take(MAX_PLAN_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("--plan {path}: {what} cannot be read"))?;
    anyhow::ensure!(
        bytes.len() as u64 <= MAX_PLAN_BYTES,
        "--plan {path}: {what} has more than the {MAX_PLAN_BYTES} bytes that a plan may have: \
         use fewer copies, shorter packets or less data"
    );
    Ok(bytes)
}
