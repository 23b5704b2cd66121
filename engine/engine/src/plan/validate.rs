// SPDX-License-Identifier: Apache-2.0
//! Plan to run: everything that is wrong with a plan, found before anything is allocated.
mod capacity;
mod streams;

use super::limits::{MAX_DURATION_NS, MAX_NAME_CHARS};
use super::stateful::{self, session};
use super::{Checked, Site, Violations, clients, flows, measure, stages, transmit};
pub use capacity::{capacity, histograms};
use capacity::{more_than_known, port_bits, warnings};
use contract::{Plan, Trials};
use spate_stateful::Scenario;
use std::collections::BTreeMap;
pub use streams::MAX_CACHED;
use streams::streams;

/// Sending workers over all engines of a run: the trailer has one byte for them.
pub const MAX_GLOBAL_WORKERS: u64 = 256;
const MAX_RUN_ID_CHARS: usize = 128;
/// The features of plans that this engine has, by their path in the contract.
pub const FEATURES: &[&str] = &[
    "transmit.continuous",
    "transmit.bursts",
    "transmit.replay",
    "transmit.replay.half",
    "next",
    "program",
    "cache",
    "group",
    "pinned",
    "measure.flow",
    "measure.latency",
    "measure.mark",
    "measure.by_tag",
    "reflectors",
    "receivers",
    "stateful.records",
    "clock_bound_ns",
    "packet.checksums",
    "packet.destination_mac_from_port",
    "packet.lengths",
    "packet.sizes",
    "packet.source_mac_from_port",
    "routes",
    "share",
    "engines",
    "clients",
    "timing.stages",
    "trials",
];

/// Finds everything wrong with `plan` at `site`.
pub fn validate(plan: &Plan, site: &Site) -> Result<Checked, Violations> {
    let mut wrong = Violations::default();
    identity(plan, &mut wrong);
    timing(plan, &mut wrong);
    let share = share(plan, site, &mut wrong);
    let streams = streams(plan, site, &mut wrong);
    let measured = measure::measured(plan, site, &mut wrong);
    let stateful = stateful(plan, site, &mut wrong);
    let clients = clients::clients(plan, site, share, &mut wrong);
    let mut checked = Checked {
        streams,
        clients,
        stateful,
        timings: Vec::new(),
        share,
        port_bits: BTreeMap::new(),
        flow_demands: Vec::new(),
        measured,
        warnings: Vec::new(),
    };
    if wrong.is_empty() {
        checked.timings = transmit::timings(plan, &checked.streams, &mut wrong);
    }
    if wrong.is_empty() {
        let flows = checked.stateful.as_ref().map(flows::demands);
        let (flow_demands, unknown) = flows.unwrap_or_default();
        checked.port_bits = port_bits(plan, &checked);
        for ask in &flow_demands {
            *checked.port_bits.entry(ask.port).or_default() += ask.bits_per_second();
        }
        checked.flow_demands = flow_demands;
        let field = if plan.streams.is_empty() { "stateful" } else { "streams" };
        capacity(&checked.port_bits, field, site, &mut wrong);
        checked.warnings = warnings(plan, site, &checked);
        checked.warnings.extend(unknown.into_iter().map(|side| more_than_known(side).to_string()));
        if let (Some(asked), Some(scenario)) = (&plan.stateful, &checked.stateful) {
            checked.warnings.extend(stateful::warnings(asked, scenario, site));
        }
    }
    wrong.or(checked)
}

/// The templates, captures of sessions read.
fn stateful(plan: &Plan, site: &Site, wrong: &mut Violations) -> Option<Scenario> {
    match session::resolve(plan, site) {
        Ok(resolved) => stateful::scenario(&resolved, site, wrong),
        Err(unreadable) => {
            wrong.0.extend(unreadable.0);
            None
        }
    }
}

fn identity(plan: &Plan, wrong: &mut Violations) {
    run_id(&plan.run_id, wrong);
    if !plan.run.is_empty() {
        identifier("run", &plan.run, wrong);
    }
    for (field, value) in [("profile", &plan.profile), ("namespace", &plan.namespace)] {
        if value.chars().count() > MAX_NAME_CHARS {
            wrong.add(field, format!("{} characters; must be at most {MAX_NAME_CHARS}", value.chars().count()));
        }
    }
    if !(1..=u32::from(u16::MAX)).contains(&plan.run_tag) {
        wrong.add("run_tag", format!("{}; must be 1..65535", plan.run_tag));
    }
    if let Some(Trials { second_run_tag: tag }) = plan.trials {
        let field = "trials.second_run_tag";
        if !(1..=u32::from(u16::MAX)).contains(&tag) {
            wrong.add(field, format!("{tag}; must be 1..65535"));
        } else if tag == plan.run_tag {
            wrong.add(field, format!("{tag}, which is run_tag too; trials alternate between two"));
        }
    }
}

/// A run id that every call could name.
pub fn run_id(id: &str, wrong: &mut Violations) {
    identifier("run_id", id, wrong);
}

fn identifier(field: &'static str, value: &str, wrong: &mut Violations) {
    let chars = value.chars().count();
    if !(1..=MAX_RUN_ID_CHARS).contains(&chars) {
        wrong.add(field, format!("{chars} characters; must be 1..{MAX_RUN_ID_CHARS}"));
    } else if value.chars().any(char::is_control) {
        wrong.add(field, "holds a control character; use letters, digits and punctuation");
    }
}

fn timing(plan: &Plan, wrong: &mut Violations) {
    let Some(timing) = &plan.timing else {
        wrong.add("timing", "missing; set at least duration_ns (0 there means until stopped)");
        return;
    };
    let times = [
        ("timing.warmup_ns", timing.warmup_ns),
        ("timing.duration_ns", timing.duration_ns),
        ("timing.drain_ns", timing.drain_ns),
        ("lease_ns", plan.lease_ns),
        ("late_after_ns", plan.late_after_ns),
    ];
    stages::validate(plan, wrong);
    for (field, ns) in times {
        if ns > MAX_DURATION_NS {
            wrong.add(field, format!("{ns} ns; must be at most {MAX_DURATION_NS} (ten years)"));
        }
    }
}

fn share(plan: &Plan, site: &Site, wrong: &mut Violations) -> (u32, u32) {
    let (index, count) = plan.share.as_ref().map_or((0, 1), |s| (s.index, s.count));
    if count == 0 {
        wrong.add("share.count", "0; must be at least 1");
    } else if index >= count {
        wrong.add("share.index", format!("{index}; must be less than share.count, which is {count}"));
    }
    let workers = u64::from(count) * u64::from(site.workers);
    if workers > MAX_GLOBAL_WORKERS {
        wrong.add(
            "share.count",
            format!(
                "{count} engines of {} workers are {workers} sending workers; must be at most {MAX_GLOBAL_WORKERS} \
                 (use fewer engines or workers)",
                site.workers
            ),
        );
    }
    (index, count)
}
#[cfg(test)]
mod tests;
