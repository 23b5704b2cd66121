// SPDX-License-Identifier: Apache-2.0
//! Servers that no flow would reach, as those of an earlier template accept all of theirs.
use super::super::Violations;
use crate::index::TemplateIndex;
use spate_stateful::{Payload, Pool, Server, Template};

/// Checks that flows reach each template's servers, or that the servers that they reach instead do the same. Pools are whole ones.
pub fn check(pools: &[Pool], templates: &[Template], payloads: &[Payload], wrong: &mut Violations) {
    for (index, template) in templates.iter().enumerate() {
        let mut earlier = templates[..index].iter().enumerate();
        let Some((first, asked)) = earlier.find(|(_, earlier)| takes_all(pools, earlier, template)) else { continue };
        if same(asked, template, payloads) || switched_to(templates, index) {
            continue;
        }
        let problem = format!(
            "no flow reaches them: those of templates[{first}] have the same addresses and destination port, come first, and do \
             something else; use another destination port, other servers, or match"
        );
        wrong.add(TemplateIndex(index).path().field("server"), problem);
    }
}

/// Whether an earlier template's servers accept all flows to this one's.
fn takes_all(pools: &[Pool], earlier: &Template, template: &Template) -> bool {
    let holds =
        |all: &Pool, part: &Pool| [0, part.last_offset()].iter().all(|at| all.contains(part.address(*at)).is_some());
    let held = |pool: usize| earlier.servers.iter().any(|all| holds(&pools[all.pool], &pools[pool]));
    (earlier.protocol, earlier.destination_port) == (template.protocol, template.destination_port)
        && servers(earlier, template)
            .is_some_and(|(earlier, server)| earlier.port == server.port && knows_all(earlier, server))
        && template.servers.iter().all(|weighted| held(weighted.pool))
}

/// Whether all first bytes by which flows are one's are the other's too; those with `match` go before those without.
fn knows_all(other: &Server, one: &Server) -> bool {
    other.matches.is_empty() == one.matches.is_empty() && other.matches.iter().all(|bytes| one.matches.contains(bytes))
}

fn servers<'a>(one: &'a Template, other: &'a Template) -> Option<(&'a Server, &'a Server)> {
    one.server.as_ref().zip(other.server.as_ref())
}

/// Whether servers of both do the same.
fn same(one: &Template, other: &Template, payloads: &[Payload]) -> bool {
    servers(one, other)
        .is_some_and(|(one, other)| one.tunables == other.tunables && one.program.same(&other.program, payloads))
}

/// Whether flows of other servers go on as a template's.
fn switched_to(templates: &[Template], template: usize) -> bool {
    templates.iter().filter_map(|other| other.server.as_ref()).any(|server| server.program.switches_to(template))
}
