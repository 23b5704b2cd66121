// SPDX-License-Identifier: Apache-2.0
//! Whether messages over UDP fit the MTU of the port that sends them: they are not cut into fragments.
use super::super::Site;
use super::super::Violation;
use super::{USUAL_MTU, programs};
use crate::index::{PortIndex, TemplateIndex};
use contract::Stateful;
use spate_stateful::envelope;
use spate_stateful::program::Side;
use spate_stateful::program::effects::Data;
use spate_stateful::{Instruction, Payload, Pool, Protocol, Scenario, Template};

/// A message that does not fit.
pub struct TooLong {
    /// Where, and what would be right.
    pub violation: Violation,
    /// The port's MTU is known; else it is taken to be Ethernet's.
    pub certain: bool,
}

/// The first of the longest messages of each side of each template, if it does not fit.
pub fn too_long(asked: &Stateful, scenario: &Scenario, site: &Site) -> Vec<TooLong> {
    let sides =
        |(index, template): (usize, _)| [Side::Client, Side::Server].map(|side| (TemplateIndex(index), template, side));
    let templates = scenario.templates.iter().enumerate().filter(|(_, template)| template.protocol == Protocol::Udp);
    templates
        .flat_map(sides)
        .filter_map(|(index, template, side)| one(asked, scenario, site, (index, template, side)))
        .collect()
}

fn one(
    asked: &Stateful,
    Scenario { pools, payloads, .. }: &Scenario,
    site: &Site,
    (index, template, side): (TemplateIndex, &Template, Side),
) -> Option<TooLong> {
    let (port, program) = match side {
        Side::Client => template.client.as_ref().map(|client| (client.port, &client.program)),
        Side::Server => template.server.as_ref().map(|server| (server.port, &server.program)),
    }?;
    let len = |instruction: &Instruction| match instruction.effects().sends {
        Some(Data::Message(payload)) => payloads.get(payload as usize).map_or(0, Payload::len),
        _ => 0,
    };
    let longest = program.instructions.iter().map(len).max()?;
    let at = program.instructions.iter().position(|instruction| len(instruction) == longest)?;
    let v6 = template.clients.iter().chain(&template.servers).any(|weighted| Pool::is_v6(&pools[weighted.pool]));
    // Of IP and UDP.
    let headers = if v6 { 48 } else { 28 };
    let clients = template.clients.iter().map(|weighted| &pools[weighted.pool]);
    let added = clients.map(|pool| envelope::overhead(pool, side == Side::Client, template.looped));
    let headers = headers + added.max().unwrap_or(0) as u32;
    let port = &site[PortIndex(port)];
    let most = port.mtu.unwrap_or(USUAL_MTU).saturating_sub(headers);
    if longest <= most.into() {
        return None;
    }
    let field = programs::field(asked, index, side, at);
    let description = match port.mtu {
        Some(mtu) => format!(
            "has {longest} bytes, of which port {} takes {most} in one message, as its MTU is {mtu}; send less at a time, or raise the \
             MTU",
            port.name
        ),
        None => format!(
            "has {longest} bytes, of which a port takes {most} in one message where its MTU is {USUAL_MTU}: port {} needs one of {}",
            port.name,
            longest + u64::from(headers)
        ),
    };
    Some(TooLong { violation: Violation { field, description }, certain: port.mtu.is_some() })
}
