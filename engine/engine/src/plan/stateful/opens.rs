// SPDX-License-Identifier: Apache-2.0
//! Can programs open connections of the templates that they name? Both have to have the same clients, on one port.
use super::super::Violations;
use super::programs::{self, instructions::alone};
use crate::index::TemplateIndex;
use contract::Stateful;
use spate_stateful::program::{Side, effects::Opens, opens};
use spate_stateful::{FieldPath, Template};
use std::collections::HashSet;

/// Templates of which programs of clients open connections, or name them for that, as far as they can be read.
pub fn named(asked: &Stateful) -> HashSet<u32> {
    let programs = asked.templates.iter().filter_map(|template| template.client.as_ref());
    let instructions = programs.flat_map(|program| &program.instructions);
    let mut named = HashSet::new();
    for instruction in instructions.filter_map(|instruction| alone(instruction.kind.as_ref()?)) {
        named.extend(instruction.effects().opens.into_iter().flat_map(Opens::named));
    }
    named
}

/// Checks each template of `asked`, which `templates` are, against those of which its program opens connections. Programs were checked.
pub fn check(asked: &Stateful, templates: &[Template], wrong: &mut Violations) {
    let programs = programs::of(templates);
    if !opens::any(&programs) {
        return;
    }
    let opened = opens::opened(&programs);
    for (index, others) in opened.iter().enumerate() {
        for &other in others {
            let Some(at) = opens::opening_of(&programs[index], other) else { continue };
            let field = programs::field(asked, TemplateIndex(index), Side::Client, at);
            together(asked, templates, (index, other), field, wrong);
        }
    }
    let all: HashSet<usize> = opened.into_iter().flatten().collect();
    for (index, template) in asked.templates.iter().enumerate() {
        if template.most_open > 0 && all.contains(&index) {
            let field = TemplateIndex(index).path().field("most_open");
            wrong.add(
                field,
                "is of a template whose connections programs open, each one at a time; leave it out, and limit the \
                 templates that open them",
            );
        }
    }
}

/// Checks that clients of one template can open connections of another: of the field that opens them.
fn together(
    asked: &Stateful,
    templates: &[Template],
    (one, other): (usize, usize),
    field: FieldPath,
    wrong: &mut Violations,
) {
    let [from, to] = [one, other].map(|template| &asked.templates[template]);
    let (here, there) = (&from.client_port, &to.client_port);
    if here != there {
        wrong.add(
            field,
            format!(
                "connections of stateful.templates[{other}] are opened on {here}, and its clients are on {there}; use one port"
            ),
        );
    } else if from.client_engines != to.client_engines {
        wrong.add(
            field,
            format!("the clients of stateful.templates[{other}] are on other engines; use equal client_engines"),
        );
    } else {
        let clients = |pool: usize| templates[other].clients.iter().any(|weighted| weighted.pool == pool);
        let absent = templates[one].clients.iter().find(|weighted| !clients(weighted.pool));
        if let Some(pool) = absent.map(|weighted| weighted.pool) {
            wrong.add(
                field,
                format!(
                    "connections of stateful.templates[{other}] are opened from addresses of pool {pool}, which is none of \
                     its clients; add it there"
                ),
            );
        }
    }
}
