// SPDX-License-Identifier: Apache-2.0
//! Which engines of a run have a template's clients and which its servers, and which part of each is this engine's.
use super::super::{Violations, engines};
use super::addresses;
use crate::index::TemplateIndex;
use contract::{Share, Stateful};
use spate_stateful::{Part, Pool, Template, WeightedPool};
use std::collections::BTreeMap;

/// Checks that ranges are of engines that there are, and that those of clients are equal or have no engine in common.
pub fn check(asked: &Stateful, share: Option<&Share>, wrong: &mut Violations) {
    for (i, template) in asked.templates.iter().enumerate() {
        let sides = [
            ("client", "client_engines", &template.client_port, &template.client_engines),
            ("server", "server_engines", &template.server_port, &template.server_engines),
        ];
        for (side, field, port, range) in sides {
            let Some(range) = range else { continue };
            let at = TemplateIndex(i).path().field(field);
            if port.is_empty() {
                wrong.add(at, format!("is for emulated {side}s, and there are none; leave it out, or set {side}_port"));
            } else {
                engines::check(&at, range, share, wrong);
            }
        }
    }
    let clients = asked.templates.iter().enumerate().filter(|(_, template)| !template.client_port.is_empty());
    if let Some((one, other)) = engines::half_in_common(clients.map(|(i, t)| (i, t.client_engines.as_ref()))) {
        let problem = format!(
            "has engines of stateful.templates[{one}].client_engines, and is another range; an engine begins the flows of all its \
             clients in one row: use equal ranges, or none in common"
        );
        wrong.add(TemplateIndex(other).path().field("client_engines"), problem);
    }
}

/// Gives an engine its sides of templates and its part of their addresses. Of servers on a loopback port, on which there is no other station,
/// all are here.
pub fn share(asked: &Stateful, engine: Part, pools: &mut Vec<Pool>, templates: &mut [Template]) {
    if engine == Part::WHOLE {
        return;
    }
    let whole = pools.clone();
    pools.iter_mut().for_each(|pool| *pool = pool.part_of(engine));
    let mut parts = Parts { whole, places: BTreeMap::new() };
    for (template, asked) in templates.iter_mut().zip(&asked.templates) {
        match engines::part_of(engine, asked.client_engines.as_ref()) {
            Some(part) => parts.take(pools, &mut template.clients, part),
            None => {
                template.client = None;
                template.clients.clear();
            }
        }
        let servers = engines::part_of(engine, asked.server_engines.as_ref());
        if servers.is_none() {
            template.server = None;
        }
        // Clients have to know in how many parts the servers are that they connect to.
        let count = asked.server_engines.as_ref().map_or(engine.of, |engines| engines.count);
        parts.take(pools, &mut template.servers, servers.unwrap_or(Part { index: 0, of: count }));
    }
    addresses::all_servers(pools, templates.iter_mut().filter(|template| template.looped));
}

/// The parts of pools that sides take: the first in the pool's place, any other as one more pool.
struct Parts {
    whole: Vec<Pool>,
    /// By the plan's number of a pool: the parts that are taken, with their numbers.
    places: BTreeMap<usize, Vec<(Part, usize)>>,
}

impl Parts {
    fn take(&mut self, pools: &mut Vec<Pool>, side: &mut [WeightedPool], part: Part) {
        for weighted in side {
            let original = weighted.pool;
            let taken = self.places.entry(original).or_default();
            if let Some((_, place)) = taken.iter().find(|(other, _)| *other == part) {
                weighted.pool = *place;
                continue;
            }
            if taken.is_empty() {
                pools[original] = self.whole[original].part_of(part);
            } else {
                weighted.pool = pools.len();
                pools.push(self.whole[original].part_of(part));
            }
            taken.push((part, weighted.pool));
        }
    }
}
