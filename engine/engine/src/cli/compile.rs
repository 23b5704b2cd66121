// SPDX-License-Identifier: Apache-2.0
//! `spate-engine compile`: what a plan comes to, or everything that is wrong with it.
use crate::plan::rate::{FCS_BYTES, LineRate};
use crate::plan::validate::{self, Site};
use crate::plan::{Violations, decode};
use prost::bytes::Bytes;
use serde::Serialize;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 the plan can be run; 1 it cannot, and the JSON printed has the path and problem of each \
    wrong field; 2 wrong usage.\n\nExample: spate-engine compile --plan plan.json --line-rate east=10G"
)]
pub struct Compile {
    /// The plan: a file, or - for standard input.
    #[arg(long, value_name = "FILE")]
    plan: String,
    /// How it is written.
    #[arg(long, value_enum, default_value = "auto")]
    format: decode::Format,
    /// Line rate of a port, such as east=10G, for rates in percent and to tell over-subscription. May be repeated.
    #[arg(long = "line-rate", value_name = "NAME=RATE")]
    line_rates: Vec<super::ports::LineRate>,
}

#[derive(Serialize)]
struct Compiled {
    run_id: String,
    streams: Vec<CompiledStream>,
    ports: Vec<CompiledPort>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct CompiledStream {
    name: String,
    tx_port: String,
    rx_port: String,
    /// The longest where sizes vary.
    frame_bytes_with_fcs: usize,
    shortest_frame_bytes_with_fcs: usize,
    /// Exact, as a fraction; absent where it waits for the line rate.
    packets: Option<u64>,
    per_nanoseconds: Option<u64>,
    measured: bool,
}

#[derive(Serialize)]
struct CompiledPort {
    name: String,
    l1_bits_per_second: u128,
}

#[derive(Serialize)]
struct Refused {
    errors: Violations,
}

impl Compile {
    /// Prints JSON.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let bytes = super::read_plan(&self.plan)?;
        match self.compile(bytes) {
            Ok(compiled) => {
                println!("{}", serde_json::to_string_pretty(&compiled)?);
                Ok(ExitCode::SUCCESS)
            }
            Err(errors) => {
                eprintln!("{errors}");
                println!("{}", serde_json::to_string_pretty(&Refused { errors })?);
                Ok(ExitCode::FAILURE)
            }
        }
    }

    fn compile(&self, bytes: Vec<u8>) -> Result<Compiled, Violations> {
        let plan = decode::plan(Bytes::from(bytes), self.format)?;
        let mut site = Site::of_plan(&plan);
        for rate in &self.line_rates {
            if let Some(port) = site.ports.iter_mut().find(|port| port.name == rate.port) {
                port.line_rate = LineRate::Known(rate.bps);
            }
        }
        let checked = validate::validate(&plan, &site)?;
        let streams = plan.streams.iter().zip(&checked.streams).map(|(stream, found)| CompiledStream {
            name: stream.name.clone(),
            tx_port: stream.tx_port.clone(),
            rx_port: stream.rx_port.clone(),
            frame_bytes_with_fcs: found.longest_and_shortest().0 + FCS_BYTES as usize,
            shortest_frame_bytes_with_fcs: found.longest_and_shortest().1 + FCS_BYTES as usize,
            packets: found.rate.map(|rate| rate.packets()),
            per_nanoseconds: found.rate.map(|rate| rate.nanoseconds()),
            measured: stream.measure.is_some_and(|measure| measure.flow),
        });
        let port = |(&index, &bits): (&usize, &u128)| CompiledPort {
            name: site.ports[index].name.clone(),
            l1_bits_per_second: bits,
        };
        let compiled = Compiled {
            run_id: plan.run_id.clone(),
            streams: streams.collect(),
            ports: checked.port_bits.iter().map(port).collect(),
            warnings: checked.warnings,
        };
        Ok(compiled)
    }
}
