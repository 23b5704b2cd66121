// SPDX-License-Identifier: Apache-2.0
//! The stateful part of a plan as a scenario: everything wrong with it is found, and all defaults are filled in.
mod access;
mod address;
mod addresses;
mod ignored;
pub mod leased;
mod messages;
mod opens;
mod payloads;
mod programs;
mod roles;
pub mod session;
mod shadow;
mod tunables;
mod tunnels;

#[cfg(test)]
mod tests;

use super::limits::{MAX_DURATION_NS, MAX_NAME_CHARS};
use super::{Site, Violations};
use crate::index::{PortIndex, TemplateIndex};
use contract::{Plan, Stateful, TransportProtocol};
use spate_stateful::arrivals::RampUp;
use spate_stateful::envelope;
use spate_stateful::program::Side;
use spate_stateful::{Client, FieldPath, Part, Pool, Protocol, Ratio, Scenario, Server, Stack, Template, WeightedPool};
use std::collections::{HashMap, HashSet};

/// Templates of a plan, at most.
pub const MAX_TEMPLATES: usize = 4096;
/// Connections of a worker at a time where the plan does not say, each side counted for itself.
pub const MAX_FLOWS: usize = 65_536;
/// Connection records of a run where the plan does not say.
pub const MAX_RECORDS: u64 = 10_000_000;
/// What Ethernet takes: where nothing else is known of a port, or a plan asks for nothing else.
const USUAL_MTU: u32 = 1500;
/// Bytes from a flow's start by which servers can be distinguished: the least that every host takes in one packet is 576
/// bytes (RFC 1122 section 3.3.2), without 40 of headers.
const MAX_MATCHED_BYTES: usize = 536;

/// The scenario of `plan` at `site`, or none, and a violation says why; none as well if the plan has no stateful part.
/// Captures must have been resolved ([`session::resolve`]).
pub fn scenario(plan: &Plan, site: &Site, wrong: &mut Violations) -> Option<Scenario> {
    let asked = plan.stateful.as_ref()?;
    let before = wrong.0.len();
    let payloads = payloads::payloads(asked, wrong);
    let pools = addresses::pools(asked, &plan.clients, wrong);
    count(asked, wrong);
    most_flows_fit(asked, site, wrong);
    records(asked, wrong);
    names(asked, wrong);
    let ignored = ignored::ignored(asked.ignored_sources.as_ref(), wrong);
    roles::check(asked, plan.share.as_ref(), wrong);
    leased::check(plan, asked, wrong);
    let opened = opens::named(asked);
    let found: Vec<_> =
        (0..asked.templates.len()).map(|i| template((i, asked), &opened, pools.as_deref(), site, wrong)).collect();
    let templates: Option<Vec<Template>> = found.into_iter().collect();
    let (mut pools, mut templates) = pools.zip(templates).filter(|_| wrong.0.len() == before)?;
    shadow::check(&pools, &templates, &payloads, wrong);
    programs::check(asked, &templates, &payloads, wrong);
    if wrong.0.len() == before {
        opens::check(asked, &templates, wrong);
    }
    if let Some(share) = plan.share.filter(|share| share.index < share.count) {
        roles::share(asked, Part { index: share.index, of: share.count }, &mut pools, &mut templates);
    }
    let scenario = Scenario {
        payloads,
        pools,
        templates,
        most_flows: most_flows(asked.most_flows, sharing(asked, site)),
        ramp_up: RampUp { ns: asked.ramp_up_ns, step_ns: asked.ramp_up_step_ns },
        order: addresses::order(asked),
        ignored,
    };
    access::fit_together(&scenario, wrong);
    tunnels::fit_together(site, &scenario, wrong);
    if wrong.0.len() == before {
        let too_long = messages::too_long(asked, &scenario, site).into_iter();
        wrong.0.extend(too_long.filter(|message| message.certain).map(|message| message.violation));
    }
    addresses::distribute(site, &scenario, wrong);
    (wrong.0.len() == before).then_some(scenario)
}

/// What is odd about a plan's scenario, and might be meant.
pub fn warnings(asked: &Stateful, scenario: &Scenario, site: &Site) -> Vec<String> {
    let too_long = messages::too_long(asked, scenario, site).into_iter().map(|message| message.violation);
    programs::idle(asked, &scenario.templates).chain(too_long).map(|violation| violation.to_string()).collect()
}

/// Lets an engine answer for all servers of its scenario, also those that others have: where it is alone, as in a simulation.
pub fn alone(scenario: &mut Scenario) {
    addresses::all_servers(&mut scenario.pools, scenario.templates.iter_mut());
}

fn count(asked: &Stateful, wrong: &mut Violations) {
    match asked.templates.len() {
        0 => wrong.add("stateful.templates", "none; must be at least one, or leave out stateful"),
        1..=MAX_TEMPLATES => {}
        more => wrong.add("stateful.templates", format!("{more} of them; must be at most {MAX_TEMPLATES}")),
    }
    if asked.ramp_up_ns > MAX_DURATION_NS {
        wrong.add(
            "stateful.ramp_up_ns",
            format!("{} ns; must be at most {MAX_DURATION_NS} (ten years)", asked.ramp_up_ns),
        );
    }
    if asked.ramp_up_step_ns > 0 && (asked.ramp_up_ns == 0 || !asked.ramp_up_ns.is_multiple_of(asked.ramp_up_step_ns)) {
        let problem =
            format!("{} ns; ramp_up_ns, {}, must be a whole number of these", asked.ramp_up_step_ns, asked.ramp_up_ns);
        wrong.add("stateful.ramp_up_step_ns", problem);
    }
}

fn most_flows_fit(asked: &Stateful, site: &Site, wrong: &mut Violations) {
    let most = (Stack::MAX_FLOWS as u64).saturating_mul(sharing(asked, site).into());
    if asked.most_flows > most {
        let problem = format!("{}; must be at most {most}: {} for each worker", asked.most_flows, Stack::MAX_FLOWS);
        wrong.add("stateful.most_flows", problem);
    }
}

fn records(asked: &Stateful, wrong: &mut Violations) {
    let Some(records) = &asked.records else { return };
    if records.one_in == 0 {
        wrong.add("stateful.records.one_in", "is 0; must be at least 1, which records every connection");
    }
    if records.path.contains('\0') {
        wrong.add("stateful.records.path", "holds a zero byte; must be the path of a file");
    }
    if records.path.is_empty() && records.most > 0 {
        wrong.add("stateful.records.most", "is for a file, and there is none; leave it out, or set path");
    }
}

/// Workers that share the flows of a port, at least: any port of the templates may have all that are open.
fn sharing(asked: &Stateful, site: &Site) -> u32 {
    let named = asked.templates.iter().flat_map(|template| [&template.client_port, &template.server_port]);
    let of_ports = named.filter_map(|name| Some(site[site.index(name)?].workers));
    of_ports.min().unwrap_or(site.workers).max(1)
}

/// The maximum of flows of one worker.
fn most_flows(asked: u64, workers: u32) -> usize {
    match asked {
        0 => MAX_FLOWS,
        asked => asked.div_ceil(u64::from(workers)) as usize,
    }
}

fn names(asked: &Stateful, wrong: &mut Violations) {
    let mut names = HashMap::new();
    for (i, template) in asked.templates.iter().enumerate() {
        let at = TemplateIndex(i).path();
        name(&at.field("name"), &template.name, 1, wrong);
        name(&at.field("group"), &template.group, 0, wrong);
        if let Some(first) = names.insert(template.name.as_str(), i).filter(|_| !template.name.is_empty()) {
            let problem = format!("{:?} is stateful.templates[{first}]'s already; must be unique", template.name);
            wrong.add(at.field("name"), problem);
        }
    }
}

fn name(field: &FieldPath, name: &str, least: usize, wrong: &mut Violations) {
    let chars = name.chars().count();
    if !(least..=MAX_NAME_CHARS).contains(&chars) {
        wrong.add(field, format!("{chars} characters; must be {least}..{MAX_NAME_CHARS}"));
    } else if name.chars().any(char::is_control) {
        wrong.add(field, "holds a control character; use letters, digits and punctuation");
    }
}

/// A template of a plan; or none, and a violation says why. Its programs are as they are written: not checked yet.
fn template(
    (index, asked): (usize, &Stateful),
    opened: &HashSet<u32>,
    pools: Option<&[Pool]>,
    site: &Site,
    wrong: &mut Violations,
) -> Option<Template> {
    let template = &asked.templates[index];
    let at = TemplateIndex(index).path();
    let protocol = protocol(&at, template, wrong);
    let ports = ports(&at, template, site, wrong);
    let has_clients = !template.client_port.is_empty();
    let clients = addresses::taken(&at.field("clients"), &template.clients, asked.pools.len(), has_clients, wrong);
    let servers = addresses::taken(&at.field("servers"), &template.servers, asked.pools.len(), true, wrong);
    let destination_port = u16::try_from(template.destination_port).ok().filter(|&port| port > 0);
    if destination_port.is_none() {
        wrong.add(at.field("destination_port"), format!("{}; must be 1..65535", template.destination_port));
    }
    if template.latency && protocol == Some(Protocol::Tcp) {
        wrong.add(at.field("latency"), "is for UDP, where a message has a reply; leave it out");
    }
    let matches = matches(&at, template, wrong);
    let rate = rate(&at, template, opened.contains(&(index as u32)), wrong);
    let v6 = |weighted: &WeightedPool| pools.is_some_and(|pools| pools.get(weighted.pool).is_some_and(Pool::is_v6));
    let headers = if clients.iter().chain(&servers).any(v6) { 60 } else { 40 };
    let looped = ports.0.is_some_and(|port| ports.1 == Some(port) && site[port].loops.unwrap_or(true));
    let mut tunables = |side: Side, asked: Option<&contract::Tunables>, port: Option<PortIndex>| {
        let at = at.field(match side {
            Side::Client => "client_tunables",
            Side::Server => "server_tunables",
        });
        let mut set = tunables::tunables(&at, asked, wrong);
        if protocol == Some(Protocol::Tcp) {
            let pools = clients.iter().filter_map(|weighted| pools?.get(weighted.pool));
            let added = pools.map(|pool| envelope::overhead(pool, side == Side::Client, looped)).max();
            let added = added.unwrap_or(0) as u32;
            tunables::fit(&at, asked, &mut set, port.map(|port| &site[port]), (headers, added), wrong);
        }
        set
    };
    let client_tunables = tunables(Side::Client, template.client_tunables.as_ref(), ports.0);
    let server_tunables = tunables(Side::Server, template.server_tunables.as_ref(), ports.1);
    let client = programs::program(&at.field("client"), template, Side::Client, wrong);
    let server = programs::program(&at.field("server"), template, Side::Server, wrong);
    Some(Template {
        name: template.name.clone(),
        group: if template.group.is_empty() { template.name.clone() } else { template.group.clone() },
        protocol: protocol?,
        destination_port: destination_port?,
        clients,
        servers,
        client: match (ports.0, client) {
            (Some(PortIndex(port)), Some(program)) => Some(Client {
                port,
                program,
                tunables: client_tunables,
                rate: rate?,
                limit: template.limit,
                most_open: template.most_open,
            }),
            _ => None,
        },
        server: match (ports.1, server) {
            (Some(PortIndex(port)), Some(program)) => {
                Some(Server { port, program, tunables: server_tunables, matches })
            }
            _ => None,
        },
        looped,
        seed: template.seed,
        latency: template.latency,
    })
}

fn protocol(at: &FieldPath, template: &contract::Template, wrong: &mut Violations) -> Option<Protocol> {
    match TransportProtocol::try_from(template.protocol) {
        Ok(TransportProtocol::Tcp) => Some(Protocol::Tcp),
        Ok(TransportProtocol::Udp) => Some(Protocol::Udp),
        Ok(TransportProtocol::Unspecified) | Err(_) => {
            let wanted = "set TRANSPORT_PROTOCOL_TCP or TRANSPORT_PROTOCOL_UDP";
            wrong.add(at.field("protocol"), format!("missing or not known; {wanted}"));
            None
        }
    }
}

/// Where its clients and servers are. Each side has a port if and only if it has a program.
fn ports(
    at: &FieldPath,
    template: &contract::Template,
    site: &Site,
    wrong: &mut Violations,
) -> (Option<PortIndex>, Option<PortIndex>) {
    let sides = [
        ("client", "client_port", &template.client_port, template.client.is_some()),
        ("server", "server_port", &template.server_port, template.server.is_some()),
    ];
    if template.client_port.is_empty() && template.server_port.is_empty() {
        wrong.add(at, "has neither clients nor servers; set client_port, server_port or both");
    }
    let found = sides.map(|(side, port, name, has_program)| match (name.is_empty(), has_program) {
        (true, false) => None,
        (true, true) => {
            wrong.add(at.field(port), format!("missing; must name a port, or leave out {side}"));
            None
        }
        (false, false) => {
            wrong.add(at.field(side), format!("missing; {port} is set, so set its program or a capture"));
            None
        }
        (false, true) => site.port(&at.field(port), name, wrong),
    });
    (found[0], found[1])
}

/// New flows a second: more than 0 where there are clients; 0 where programs of other templates open them.
fn rate(at: &FieldPath, template: &contract::Template, opened: bool, wrong: &mut Violations) -> Option<Ratio> {
    let at = |field: &'static str| at.field(field);
    if template.client_port.is_empty() {
        let set = [
            ("flows_per_second", template.flows_per_second.is_some()),
            ("limit", template.limit > 0),
            ("most_open", template.most_open > 0),
        ];
        for (field, _) in set.iter().filter(|(_, set)| *set) {
            wrong.add(at(field), "is for clients, and there are none here; leave it out, or set client_port");
        }
        return None;
    }
    match template.flows_per_second {
        None if opened && template.limit > 0 => {
            wrong.add(
                at("limit"),
                "is of flows that begin at a rate, and there is none; leave it out, or set flows_per_second",
            );
        }
        None if opened => return Some(Ratio::ZERO),
        None => {
            wrong.add(at("flows_per_second"), "missing; clients need a rate, or a template whose program opens them")
        }
        Some(asked) => match Ratio::checked_new(asked.numerator, asked.denominator) {
            None => wrong.add(at("flows_per_second"), "denominator is 0; must be at least 1"),
            Some(Ratio::ZERO) => wrong.add(at("flows_per_second"), "is 0; must be greater"),
            rate => return rate,
        },
    }
    None
}

fn matches(at: &FieldPath, template: &contract::Template, wrong: &mut Violations) -> Vec<(u32, Box<[u8]>)> {
    if template.server_port.is_empty() && !template.r#match.is_empty() {
        wrong.add(at.field("match"), "is for servers, and there are none here; leave it out, or set server_port");
    }
    let mut found = Vec::with_capacity(template.r#match.len());
    for (i, asked) in template.r#match.iter().enumerate() {
        let end = u64::from(asked.offset) + asked.bytes.len() as u64;
        if asked.bytes.is_empty() {
            wrong.add(at.field("match").index(i).field("bytes"), "none; must have at least 1");
        } else if end > MAX_MATCHED_BYTES as u64 {
            let problem = format!("reaches to {end} bytes from the flow's start; must be at most {MAX_MATCHED_BYTES}");
            wrong.add(at.field("match").index(i), problem);
        }
        found.push((asked.offset, Box::from(&asked.bytes[..])));
    }
    found
}
