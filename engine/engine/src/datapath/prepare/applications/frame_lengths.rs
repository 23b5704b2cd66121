// SPDX-License-Identifier: Apache-2.0
//! How long frames of emulated applications are, and whether their ports take them.
use spate_stateful::program::effects::Data;
use spate_stateful::{Instruction, Payload, Program, Protocol, Scenario, Template, Tunables, envelope};

use super::{name, refused};
use crate::datapath::{PrepareError, prepare::Context};
use crate::index::TemplateIndex;

/// The longest headers of a packet, of Ethernet, IPv6 and TCP; its options count as data.
const HEADERS: usize = 14 + 40 + 20;

/// Length of the longest frame of any template, without FCS. Refuses templates with frames that their port does not take.
pub(super) fn longest_of_all(context: &Context<'_>, scenario: &Scenario) -> Result<usize, PrepareError> {
    let mut most = 0;
    // Packets of any template may have to leave as much room as those of another.
    let gap = scenario.templates.iter().map(|template| overhead(scenario, template, true)).max().unwrap_or(0);
    for (index, template) in scenario.templates.iter().enumerate() {
        let client = template.client.as_ref().map(|c| (c.port, &c.program, &c.tunables, "client"));
        let server = template.server.as_ref().map(|s| (s.port, &s.program, &s.tunables, "server"));
        for (port, program, tunables, side) in [client, server].into_iter().flatten() {
            let data = most_data(scenario, template.protocol, program, tunables);
            let len = headers(scenario, template) + data + overhead(scenario, template, side == "client");
            let room = context.ports[port].port.max_frame_len();
            if len > room {
                let problem = format!(
                    "it sends frames of up to {len} bytes without FCS, and {} takes {room}: send less at a time (mss, messages), \
                     or raise the MTU of the port",
                    name(context, port)
                );
                return Err(refused(TemplateIndex(index).path().field(side), problem));
            }
            most = most.max(HEADERS + data + gap);
        }
    }
    Ok(most)
}

/// Most bytes that tags and tunnels add to packets of a template's clients, or of its servers.
fn overhead(scenario: &Scenario, template: &Template, client: bool) -> usize {
    let pools = template.clients.iter().map(|weighted| &scenario.pools[weighted.pool]);
    pools.map(|pool| envelope::overhead(pool, client, template.looped)).max().unwrap_or(0)
}

/// Bytes that one side of a template sends in a packet at most, behind the headers; options of TCP count as data.
fn most_data(scenario: &Scenario, protocol: Protocol, program: &Program, tunables: &Tunables) -> usize {
    let message = |instruction: &Instruction| match instruction.effects().sends {
        Some(Data::Message(payload)) => scenario.payloads.get(payload as usize).map(Payload::len),
        _ => None,
    };
    match protocol {
        Protocol::Tcp => usize::from(tunables.mss),
        Protocol::Udp => program.instructions.iter().filter_map(message).max().unwrap_or(0) as usize,
    }
}

/// Bytes of the headers of a template's packets: Ethernet, IP, and TCP without options or UDP.
fn headers(scenario: &Scenario, template: &Template) -> usize {
    let v6 = template.clients.iter().chain(&template.servers).any(|weighted| scenario.pools[weighted.pool].is_v6());
    let transport = if template.protocol == Protocol::Tcp { 20 } else { 8 };
    14 + if v6 { 40 } else { 20 } + transport
}
