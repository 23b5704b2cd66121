// SPDX-License-Identifier: Apache-2.0
//! What waits for nothing: a receive that counts no further than another before it did. Programs may have such, but hardly mean it.
use super::dialogue::switched_to;
use super::effects::Awaited;
use super::fault::{Fault, Problem, Side};
use super::programs::Programs;
use super::walk::Walk;

/// Finds the first such receive of each program of `templates`, in their order, clients first, as far as the way through it is
/// known before a run.
pub fn idle(templates: &[Programs]) -> Vec<Fault> {
    let sides = (0..templates.len()).flat_map(|template| [(template, Side::Client), (template, Side::Server)]);
    sides.filter_map(|(template, side)| first(templates, template, side)).collect()
}

fn first(templates: &[Programs], template: usize, side: Side) -> Option<Fault> {
    // Flows that another template began have variables and counts of it.
    let program = templates[template].of(side).filter(|_| !switched_to(templates, template))?;
    let mut walk = Walk::new(program);
    // This many have come for certain, and were not cleared.
    let mut counted = 0;
    while let Some(instruction) = walk.instruction() {
        let (wanted, clear, unit) = match instruction.effects().waits_for {
            Some(Awaited::Count { count, clear, unit }) => (count, clear, unit),
            _ => (0, false, ""),
        };
        // An instruction that clears has an effect.
        if wanted > 0 && wanted <= counted && !clear {
            let on_to = counted.saturating_add(wanted);
            return Some(Fault { template, side, at: walk.at, problem: Problem::Idle { counted, unit, on_to } });
        }
        counted = counted.max(wanted) - if clear { wanted } else { 0 };
        walk.go_on();
    }
    None
}
