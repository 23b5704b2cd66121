// SPDX-License-Identifier: Apache-2.0
//! VLANs and gateways of clients: which, and whether all of a plan's go together.
use super::super::Violations;
use super::address::address;
use crate::index::{PoolIndex, TemplateIndex};
use contract::VlanTag;
use spate_net::vlan::{CUSTOMER, MAX_VLAN, SERVICE, Tag, Tags};
use spate_stateful::envelope::Access;
use spate_stateful::{FieldPath, Pool, Scenario, Template};

/// How packets of a pool's clients enter the network; or none, and a violation says why.
pub fn access(at: &FieldPath, asked: &contract::Pool, pool: &Pool, wrong: &mut Violations) -> Option<Access> {
    let before = wrong.0.len();
    let tags: Vec<Tag> = asked
        .vlans
        .iter()
        .enumerate()
        .filter_map(|(i, asked)| tag(&at.field("vlans").index(i), asked, wrong))
        .collect();
    let tags = Tags::new(&tags).filter(|tags| !tags.is_empty());
    if asked.vlans.len() > Tags::MAX {
        wrong.add(at.field("vlans"), format!("{} of them; must be at most {}", asked.vlans.len(), Tags::MAX));
    }
    let gateway = match asked.gateway.is_empty() {
        true => None,
        false => address(&at.field("gateway"), &asked.gateway, wrong),
    };
    if asked.gateway.is_empty() && !asked.vlans.is_empty() {
        wrong.add(at.field("gateway"), "missing; frames with vlans need the address of a next hop there");
    }
    if asked.mirror_vlans && asked.vlans.is_empty() {
        wrong.add(at.field("mirror_vlans"), "is for vlans, and there are none; leave it out, or set vlans");
    }
    if let Some(gateway) = gateway {
        let stations = pool.on_clients_link();
        let problem = if gateway.is_v6() != stations.is_v6() {
            Some("is not of the family of the clients, or of the local ends of their tunnels")
        } else if !gateway.is_hosts() {
            Some("is no address that a host can have")
        } else if stations.contains(gateway).is_some() {
            Some("is the address of a client, or of a gNB or another local end of tunnels; use that of a next hop")
        } else {
            None
        };
        if let Some(problem) = problem {
            wrong.add(at.field("gateway"), format!("{gateway:?} {problem}"));
        }
    }
    (wrong.0.len() == before).then_some(Access { tags, gateway, mirror: asked.mirror_vlans })
}

fn tag(at: &FieldPath, asked: &VlanTag, wrong: &mut Violations) -> Option<Tag> {
    if !(1..=u32::from(MAX_VLAN)).contains(&asked.id) {
        wrong.add(at.field("id"), format!("{}; must be 1..{MAX_VLAN}", asked.id));
        return None;
    }
    let ethertype = match u16::try_from(asked.tpid) {
        Ok(0) => CUSTOMER,
        Ok(tpid @ (CUSTOMER | SERVICE)) => tpid,
        _ => {
            wrong.add(
                at.field("tpid"),
                format!("{:#x}; must be {CUSTOMER:#x} (802.1Q) or {SERVICE:#x} (802.1ad)", asked.tpid),
            );
            return None;
        }
    };
    Some(Tag { ethertype, vlan: asked.id as u16 })
}

/// Checks what only shows with all templates: that pools with VLANs or gateways are clients', and that an address belongs to one VLAN.
pub fn fit_together(scenario: &Scenario, wrong: &mut Violations) {
    for (index, template) in scenario.templates.iter().enumerate() {
        for (i, weighted) in template.servers.iter().enumerate() {
            if scenario.pools[weighted.pool].access != Access::default() {
                let at = TemplateIndex(index).path().field("servers").index(i).field("pool");
                wrong.add(
                    at,
                    format!("pool {} has vlans or a gateway, which are for clients; use another pool", weighted.pool),
                );
            }
        }
        mirrors(index, scenario, template, wrong);
    }
}

/// Mirrored VLANs need servers, and one engine that stands for their gateway.
fn mirrors(index: usize, scenario: &Scenario, template: &Template, wrong: &mut Violations) {
    if template.client.is_none() {
        return;
    }
    for pool in template.clients.iter().map(|weighted| weighted.pool).filter(|pool| scenario.pools[*pool].access.mirror)
    {
        let problem = match template.server.as_ref().map(|_| template.looped) {
            None => "is for servers that are emulated here, and there are none; leave it out, or set server_port",
            Some(false) if super::tunnels::is_shared(scenario, template, PoolIndex(pool)) => {
                "set, and several engines would stand for the gateway on one link; use one engine (replicas: 1), or clients and servers on \
                 one loopback port"
            }
            Some(_) => continue,
        };
        wrong.add(PoolIndex(pool).path().field("mirror_vlans"), format!("{problem} (templates[{index}])"));
    }
}
