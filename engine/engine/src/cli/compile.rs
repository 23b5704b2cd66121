// SPDX-License-Identifier: Apache-2.0
//! `spate-engine compile`: what a plan comes to, or everything that is wrong with it.
use crate::index::PortIndex;
use crate::plan::rate::{FCS_BYTES, LineRate};
use crate::plan::stateful::{MAX_FLOWS, session};
use crate::plan::{Checked, Site, validate};
use crate::plan::{Violations, decode};
use contract::Plan;
use prost::bytes::Bytes;
use serde::Serialize;
use spate_stateful::{Protocol, Template, Tunables};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub struct Compile {
    /// The plan: a file, or - for standard input.
    #[arg(long, value_name = "FILE")]
    plan: String,
    /// How it is written.
    #[arg(long, value_enum, default_value = "auto")]
    format: decode::Format,
    /// Line rate of a port, such as east=10G, for rates in percent and to warn of over-subscription. May be repeated.
    #[arg(long = "line-rate", value_name = "NAME=RATE")]
    line_rates: Vec<super::ports::LineRate>,
    /// Print the plan itself, as canonical protobuf JSON, with each template's capture replaced by what it comes to: the
    /// programs of both sides, their payloads, protocol and destination port.
    #[arg(long)]
    resolved: bool,
}

/// The options' further help: what a plan need not say.
fn help() -> String {
    let set = Tunables::default();
    let seconds = |ns: u64| ns as f64 / 1e9;
    format!(
        "Exit codes: 0 the plan can be run; 1 it cannot, and the JSON printed has the path and problem of each wrong \
         field; 2 wrong usage.\n\n\
         Where a template's tunables say nothing: tos {}, ttl {}, mss {} (over IPv6 20 less; as much less as \
         the port's MTU and tunnels ask for), initial_window {}, receive_buffer {}, \
         send_buffer {}, duplicate_ack_threshold {}, delayed_ack_ns {} ({} s), minimum_rto_ns {} ({} s), \
         connect_timeout_ns {} ({} s), keepalive_idle_ns {} (never), keepalive_interval_ns {} ({} s), \
         time_wait_ns {} ({} s), CUBIC, with Nagle's algorithm, timestamps, selective acknowledgements and window \
         scaling, without ECN; closed ports are answered with RST. Where stateful.most_flows is 0: {MAX_FLOWS} a \
         worker.\n\n\
         Examples:\n  \
         spate-engine compile --plan plan.json --line-rate east=10G\n  \
         spate-engine compile --plan with-capture.json --resolved",
        set.tos,
        set.ttl,
        set.mss,
        set.initial_window,
        set.receive_buffer,
        set.send_buffer,
        set.duplicate_ack_threshold,
        set.delayed_ack_ns,
        seconds(set.delayed_ack_ns),
        set.minimum_rto_ns,
        seconds(set.minimum_rto_ns),
        set.connect_timeout_ns,
        seconds(set.connect_timeout_ns),
        set.keepalive_idle_ns,
        set.keepalive_interval_ns,
        seconds(set.keepalive_interval_ns),
        set.time_wait_ns,
        seconds(set.time_wait_ns),
    )
}

#[derive(Serialize)]
struct Compiled {
    run_id: String,
    streams: Vec<CompiledStream>,
    templates: Vec<CompiledTemplate>,
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
struct CompiledTemplate {
    name: String,
    protocol: &'static str,
    destination_port: u16,
    /// Exact, as a fraction; absent where clients are real.
    flows: Option<u64>,
    per_seconds: Option<u64>,
    /// With what is implied; absent where that side is real.
    client_instructions: Option<usize>,
    server_instructions: Option<usize>,
}

impl CompiledTemplate {
    fn new(template: &Template) -> Self {
        let (client, server) = (template.client.as_ref(), template.server.as_ref());
        Self {
            name: template.name.clone(),
            protocol: match template.protocol {
                Protocol::Tcp => "tcp",
                Protocol::Udp => "udp",
            },
            destination_port: template.destination_port,
            flows: client.map(|client| client.rate.numerator()),
            per_seconds: client.map(|client| client.rate.denominator()),
            client_instructions: client.map(|client| client.program.instructions.len()),
            server_instructions: server.map(|server| server.program.instructions.len()),
        }
    }
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
        match self.check(bytes) {
            Ok((plan, ..)) if self.resolved => {
                println!("{}", serde_json::to_string_pretty(&plan)?);
                Ok(ExitCode::SUCCESS)
            }
            Ok((plan, site, checked)) => {
                println!("{}", serde_json::to_string_pretty(&compiled(&plan, &site, checked))?);
                Ok(ExitCode::SUCCESS)
            }
            Err(errors) => {
                eprintln!("{errors}");
                println!("{}", serde_json::to_string_pretty(&Refused { errors })?);
                Ok(ExitCode::FAILURE)
            }
        }
    }

    /// The plan, its captures of sessions resolved, and what it comes to.
    fn check(&self, bytes: Vec<u8>) -> Result<(Plan, Site, Checked), Violations> {
        let plan = decode::plan(Bytes::from(bytes), self.format)?;
        let mut site = Site::of_plan(&plan);
        for rate in &self.line_rates {
            if let Some(port) = site.ports.iter_mut().find(|port| port.name == rate.port) {
                port.line_rate = LineRate::Known(rate.bps);
            }
        }
        let plan = session::resolve(&plan, &site)?.into_owned();
        let checked = validate::validate(&plan, &site)?;
        Ok((plan, site, checked))
    }
}

fn compiled(plan: &Plan, site: &Site, checked: Checked) -> Compiled {
    let streams = plan.streams.iter().zip(&checked.streams).map(|(stream, found)| CompiledStream {
        name: stream.name.clone(),
        tx_port: stream.tx_port.clone(),
        rx_port: stream.rx_port.clone(),
        frame_bytes_with_fcs: found.longest_and_shortest().0 + FCS_BYTES as usize,
        shortest_frame_bytes_with_fcs: found.longest_and_shortest().1 + FCS_BYTES as usize,
        packets: found.rate.map(|rate| rate.packets()),
        per_nanoseconds: found.rate.map(|rate| rate.nanoseconds()),
        measured: stream.measure.as_ref().is_some_and(|measure| measure.flow),
    });
    let port = |(&index, &bits): (&PortIndex, &u128)| CompiledPort {
        name: site[index].name.clone(),
        l1_bits_per_second: bits,
    };
    let templates = checked.stateful.iter().flat_map(|scenario| &scenario.templates);
    Compiled {
        run_id: plan.run_id.clone(),
        streams: streams.collect(),
        templates: templates.map(CompiledTemplate::new).collect(),
        ports: checked.port_bits.iter().map(port).collect(),
        warnings: checked.warnings,
    }
}
