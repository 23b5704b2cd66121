// SPDX-License-Identifier: Apache-2.0
//! Which connections of other templates do programs of clients open, and do these end?
use std::collections::BTreeSet;

use super::effects::Opens;
use super::fault::{Fault, Problem, Side};
use super::programs::Programs;

/// By template: those of which its clients' flows may open connections, in ascending order. Programs name templates that there are.
pub fn opened(templates: &[Programs]) -> Vec<BTreeSet<usize>> {
    Names::of(templates).opened()
}

/// Whether a program opens connections, or names a template of which some are opened.
pub fn any(templates: &[Programs]) -> bool {
    templates.iter().any(|template| effects(template).next().is_some())
}

/// Finds openings without a template, and those that would go on without end.
pub(super) fn check(templates: &[Programs]) -> Vec<Fault> {
    if !any(templates) {
        return Vec::new();
    }
    let names = Names::of(templates);
    let opened = names.opened();
    // A circle has a way back from what is opened, be it through another template's program.
    let ways: Vec<Vec<usize>> =
        opened.iter().zip(&names.0).map(|(opened, of)| opened.iter().chain(&of.switches).copied().collect()).collect();
    let circles = components(&ways);
    let mut faults = Vec::new();
    for (template, programs) in templates.iter().enumerate() {
        let fault = |at, problem| Fault { template, side: Side::Client, at, problem };
        for (at, opens) in effects(programs) {
            let Opens::Connection(named) = opens else { continue };
            let of_none = || names.0[template].names.iter().copied().collect();
            let to: Vec<usize> = named.map_or_else(of_none, |named| vec![named as usize]);
            if to.is_empty() {
                faults.push(fault(at, Problem::Unnamed));
            }
            let back = to.into_iter().find(|to| circles[*to] == circles[template]);
            faults.extend(back.map(|to| fault(at, Problem::Circle(to))));
        }
    }
    faults
}

/// Index of the first instruction of a template's client by which a connection of another may be opened.
pub fn opening_of(programs: &Programs, other: usize) -> Option<usize> {
    let other = u32::try_from(other).ok();
    let opens = |opens: Opens<'_>| matches!(opens, Opens::Connection(named) if named.is_none() || named == other);
    effects(programs).find(|(_, effect)| opens(*effect)).map(|(at, _)| at)
}

/// What instructions of a template's client do about other templates' connections.
fn effects<'a>(template: &Programs<'a>) -> impl Iterator<Item = (usize, Opens<'a>)> + use<'a> {
    let instructions = template.client.map_or(&[][..], |program| &program.instructions[..]);
    instructions.iter().enumerate().filter_map(|(at, instruction)| Some((at, instruction.effects().opens?)))
}

/// What a template's clients open.
#[derive(Default)]
struct ClientOpens {
    /// Templates that an opening names.
    named: BTreeSet<usize>,
    /// Some are opened of the template that was named last.
    unnamed: bool,
    /// Templates that may be the one named last.
    names: BTreeSet<usize>,
    /// Targets of `SwitchTemplate`.
    switches: BTreeSet<usize>,
}

/// Names of templates to open, by template.
struct Names(Vec<ClientOpens>);

impl Names {
    fn of(templates: &[Programs]) -> Self {
        let mut all: Vec<ClientOpens> = templates.iter().map(ClientOpens::new).collect();
        let mut again = any(templates);
        while again {
            again = false;
            for template in 0..all.len() {
                // A flow has the name that its connections had when they ended, and keeps it with another template's program.
                let mut names = all[template].names.clone();
                for other in all[template].opened().into_iter().chain(all[template].switches.iter().copied()) {
                    names.extend(&all[other].names);
                }
                let (kept, to) = (names.clone(), all[template].switches.clone());
                again |= names.len() > all[template].names.len();
                all[template].names = names;
                for other in to {
                    let before = all[other].names.len();
                    all[other].names.extend(&kept);
                    again |= all[other].names.len() > before;
                }
            }
        }
        Self(all)
    }

    fn opened(&self) -> Vec<BTreeSet<usize>> {
        self.0.iter().map(ClientOpens::opened).collect()
    }
}

impl ClientOpens {
    fn new(template: &Programs) -> Self {
        let mut of = Self::default();
        for (_, opens) in effects(template) {
            match opens {
                Opens::Connection(Some(named)) => drop(of.named.insert(named as usize)),
                Opens::Connection(None) => of.unnamed = true,
                Opens::Next(named) => of.names.extend(named.iter().map(|named| *named as usize)),
            }
        }
        let instructions = template.client.map_or(&[][..], |program| &program.instructions[..]);
        let switches = instructions.iter().filter_map(|instruction| instruction.effects().template());
        of.switches = switches.map(|to| to as usize).collect();
        of
    }

    fn opened(&self) -> BTreeSet<usize> {
        let mut opened = self.named.clone();
        if self.unnamed {
            opened.extend(&self.names);
        }
        opened
    }
}

/// The strongly connected component of each node, by a number (Kosaraju).
fn components(ways: &[Vec<usize>]) -> Vec<usize> {
    let mut back = vec![Vec::new(); ways.len()];
    for (from, to) in ways.iter().enumerate() {
        to.iter().for_each(|to| back[*to].push(from));
    }
    let mut seen = vec![false; ways.len()];
    let mut finished = Vec::with_capacity(ways.len());
    for first in 0..ways.len() {
        if std::mem::replace(&mut seen[first], true) {
            continue;
        }
        let mut path = vec![(first, 0)];
        while let Some((node, next)) = path.last_mut() {
            let to = ways[*node].get(*next).copied();
            *next += 1;
            match to {
                Some(to) if !std::mem::replace(&mut seen[to], true) => path.push((to, 0)),
                Some(_) => {}
                None => {
                    finished.push(*node);
                    path.pop();
                }
            }
        }
    }
    let mut of = vec![usize::MAX; ways.len()];
    for (number, first) in finished.into_iter().rev().enumerate() {
        let mut open = vec![first];
        while let Some(node) = open.pop() {
            if of[node] == usize::MAX {
                of[node] = number;
                open.extend(&back[node]);
            }
        }
    }
    of
}

#[cfg(test)]
mod tests;
