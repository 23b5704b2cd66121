// SPDX-License-Identifier: Apache-2.0
//! Tunnels that clients' packets pass through: which, and whether all of a plan's go together. What depends on the kind is at the top.
use super::super::{Site, Violations};
use super::address::address;
use crate::index::{PoolIndex, PortIndex, TemplateIndex};
use contract::{Gre, Gtpu, Mpls, MplsLabel, Vxlan};
use spate_net::encap::Carries;
use spate_net::mpls::{Entry, FIRST_LABEL, IMPLICIT_NULL, LABEL_SHIFT, MAX_LABEL};
use spate_stateful::Address;
use spate_stateful::gre::Gre as GreKind;
use spate_stateful::gtpu::Gtpu as GtpuKind;
use spate_stateful::mpls::Mpls as MplsKind;
use spate_stateful::tunnel::{Kind, Tunnels};
use spate_stateful::vxlan::Vxlan as VxlanKind;
use spate_stateful::{FieldPath, Part, Pool, Scenario, Template};
use std::collections::BTreeSet;

/// Near ends of a pool, at most.
const MAX_NEAR_ENDS: u32 = 65_536;
/// A QoS flow identifier has six bits (TS 38.415 section 5.5.3.3).
const MAX_QFI: u32 = 63;
/// Time to live of a label stack's entry where none is given, as of outer IP headers.
const USUAL_TTL: u8 = 64;

/// The words of a kind of tunnel.
struct Words {
    /// The field of a pool.
    field: &'static str,
    near: &'static str,
    remote: &'static str,
}

const GTPU: Words = Words { field: "gtpu", near: "gNB", remote: "UPF" };
const VXLAN: Words = Words { field: "vxlan", near: "local VTEP", remote: "remote VTEP" };
const GRE: Words = Words { field: "gre", near: "local end", remote: "remote end" };
const MPLS: Words = Words { field: "mpls", near: "label edge router", remote: "label switching router" };

fn words(kind: &Kind) -> Words {
    match kind {
        Kind::Gtpu(_) => GTPU,
        Kind::Vxlan(_) => VXLAN,
        Kind::Gre(_) => GRE,
        Kind::Mpls(_) => MPLS,
    }
}

/// The tunnels of a pool's clients, if they pass through any; or none, and a violation says why.
pub fn tunnels(at: &FieldPath, asked: &contract::Pool, pool: &Pool, wrong: &mut Violations) -> Option<Option<Tunnels>> {
    let contract::Pool { gtpu, vxlan, gre, mpls, .. } = asked;
    let all = [(GTPU, gtpu.is_some()), (VXLAN, vxlan.is_some()), (GRE, gre.is_some()), (MPLS, mpls.is_some())];
    let mut set = all.into_iter().filter(|(_, is_set)| *is_set).map(|(words, _)| words.field);
    if let (Some(first), Some(second)) = (set.next(), set.next()) {
        wrong.add(at.field(second), format!("{first} is set as well; leave one of them out"));
        return None;
    }
    let made = if let Some(gtpu) = gtpu {
        self::gtpu(&at.field(GTPU.field), gtpu, pool, wrong)
    } else if let Some(vxlan) = vxlan {
        self::vxlan(&at.field(VXLAN.field), vxlan, pool, wrong)
    } else if let Some(gre) = gre {
        self::gre(&at.field(GRE.field), gre, pool, wrong)
    } else if let Some(mpls) = mpls {
        self::mpls(&at.field(MPLS.field), mpls, pool, wrong)
    } else {
        return Some(None);
    };
    made.map(Some)
}

fn vxlan(at: &FieldPath, asked: &Vxlan, pool: &Pool, wrong: &mut Violations) -> Option<Tunnels> {
    let before = wrong.0.len();
    let field = |field: &'static str| at.field(field);
    identifiers(field("vni"), (asked.vni, asked.vni_step, 24), "vni_step", pool, wrong)?;
    let given = &asked.inner_gateway_mac[..];
    let gateway_mac = <[u8; 6]>::try_from(given).ok().filter(|mac| mac[0] & 1 == 0);
    let problem = match (asked.mirror, gateway_mac) {
        (true, _) if given.is_empty() => None,
        (false, Some(_)) => None,
        (true, _) => Some("is for a remote VTEP, and mirror is set; leave one of them out"),
        (false, None) if given.is_empty() => {
            Some("missing; frames in tunnels go to the MAC of a gateway behind the remote VTEP")
        }
        (false, None) => Some("must be 6 bytes, of an individual address (the first byte must be even)"),
    };
    if let Some(problem) = problem {
        wrong.add(field("inner_gateway_mac"), problem);
    }
    let ends = TunnelEndpoints { local: &asked.local, local_count: asked.local_count, remote: &asked.remote };
    let (local, local_count, remote) = ends.check(at, &VXLAN, wrong)?;
    // On the wire VNIs are in the upper 24 bits of 32.
    let [vni, step] = [asked.vni, asked.vni_step].map(|number| number << 8);
    let (kind, mirror) = (Kind::Vxlan(VxlanKind { gateway_mac }), asked.mirror);
    let (uplink, downlink) = (vni, vni);
    (wrong.0.len() == before).then_some(Tunnels { local, local_count, remote, uplink, downlink, step, mirror, kind })
}

fn gtpu(at: &FieldPath, asked: &Gtpu, pool: &Pool, wrong: &mut Violations) -> Option<Tunnels> {
    let before = wrong.0.len();
    let field = |field: &'static str| at.field(field);
    let step = asked.teid_step.max(1);
    if asked.teid == 0 {
        wrong.add(field("teid"), "0 is for messages of no tunnel; must be at least 1");
    }
    if asked.qfi.is_some_and(|qfi| qfi > MAX_QFI) {
        wrong.add(field("qfi"), format!("{}; must be 0..{MAX_QFI}", asked.qfi()));
    }
    let downlink = if asked.downlink_teid == 0 { asked.teid } else { asked.downlink_teid };
    for (name, first) in [("teid", asked.teid), ("downlink_teid", downlink)] {
        identifiers(field(name), (first, step, 32), "teid_step", pool, wrong)?;
    }
    let ends = TunnelEndpoints { local: &asked.local, local_count: asked.local_count, remote: &asked.remote };
    let (local, local_count, remote) = ends.check(at, &GTPU, wrong)?;
    let kind = Kind::Gtpu(GtpuKind { qfi: asked.qfi.map(|qfi| qfi as u8) });
    let (uplink, mirror) = (asked.teid, asked.mirror);
    (wrong.0.len() == before).then_some(Tunnels { local, local_count, remote, uplink, downlink, step, mirror, kind })
}

fn gre(at: &FieldPath, asked: &Gre, pool: &Pool, wrong: &mut Violations) -> Option<Tunnels> {
    let before = wrong.0.len();
    let (key, step) = (asked.key.unwrap_or(0), asked.key_step);
    if asked.key.is_none() && step > 0 {
        wrong.add(at.field("key_step"), "is for keys, and there are none; leave it out, or set key");
    }
    identifiers(at.field("key"), (key, step, 32), "key_step", pool, wrong)?;
    let ends = TunnelEndpoints { local: &asked.local, local_count: asked.local_count, remote: &asked.remote };
    let (local, local_count, remote) = ends.check(at, &GRE, wrong)?;
    let (kind, mirror) = (Kind::Gre(GreKind { keyed: asked.key.is_some() }), asked.mirror);
    let (uplink, downlink) = (key, key);
    (wrong.0.len() == before).then_some(Tunnels { local, local_count, remote, uplink, downlink, step, mirror, kind })
}

fn mpls(at: &FieldPath, asked: &Mpls, pool: &Pool, wrong: &mut Violations) -> Option<Tunnels> {
    let before = wrong.0.len();
    let most = MplsKind::MAX_OUTER_ENTRIES + 1;
    if !(1..=most).contains(&asked.labels.len()) {
        wrong.add(at.field("labels"), format!("{} of them; must be 1..{most}", asked.labels.len()));
        return None;
    }
    let labels = asked.labels.iter().enumerate();
    let entries: Option<Vec<Entry>> =
        labels.map(|(i, label)| entry(&at.field("labels").index(i), label, wrong)).collect();
    let entries = entries?;
    let (bottom, above) = entries.split_last()?;
    let downlink = Entry { label: asked.downlink_label.unwrap_or(bottom.label), ..*bottom };
    let (popped, step) = (downlink.label == IMPLICIT_NULL, asked.label_step);
    let arriving = asked.downlink_label.filter(|_| !popped).map(|label| ("downlink_label", label));
    for (name, first) in [("labels", bottom.label)].into_iter().chain(arriving) {
        identifiers(at.field(name), (first, step, 20), "label_step", pool, wrong)?;
        if step > 0 && first < FIRST_LABEL {
            let problem = format!(
                "{first} is a reserved label, and each client has one of its own; use one of at least {FIRST_LABEL}, or leave \
                 label_step out"
            );
            wrong.add(at.field(name), problem);
        }
    }
    let ends = TunnelEndpoints { local: &asked.local, local_count: asked.local_count, remote: &asked.remote };
    let (local, local_count, remote) = ends.check(at, &MPLS, wrong)?;
    let (kind, mirror) = (Kind::Mpls(MplsKind::new(above, popped)?), asked.mirror);
    let (uplink, downlink, step) = (bottom.bits(true), downlink.bits(true), step << LABEL_SHIFT);
    (wrong.0.len() == before).then_some(Tunnels { local, local_count, remote, uplink, downlink, step, mirror, kind })
}

/// An entry of a label stack; none, and violations say why.
fn entry(at: &FieldPath, asked: &MplsLabel, wrong: &mut Violations) -> Option<Entry> {
    let label = asked.label;
    if label > MAX_LABEL || label == IMPLICIT_NULL {
        let problem =
            format!("{label}; must be 0..{MAX_LABEL}, and not {IMPLICIT_NULL}, which is in no stack (RFC 3032)");
        wrong.add(at.field("label"), problem);
        return None;
    }
    let mut small = |field: &'static str, value: u32, most: u8| {
        let value = u8::try_from(value).ok().filter(|value| *value <= most);
        if value.is_none() {
            wrong.add(at.field(field), format!("must be 0..{most}"));
        }
        value
    };
    let (traffic_class, ttl) = (small("traffic_class", asked.traffic_class, 7), small("ttl", asked.ttl, u8::MAX));
    let ttl = ttl.map(|ttl| if ttl == 0 { USUAL_TTL } else { ttl });
    Some(Entry { label, traffic_class: traffic_class?, ttl: ttl? })
}

/// Checks that all clients have identifiers: the first, how far apart they are, and their bits.
fn identifiers(
    at: FieldPath,
    (first, step, bits): (u32, u32, u32),
    step_field: &str,
    pool: &Pool,
    wrong: &mut Violations,
) -> Option<()> {
    let last = pool.last_offset().saturating_mul(step.into()).saturating_add(first.into());
    if last >> bits == 0 {
        return Some(());
    }
    let problem = format!(
        "the last client's would be {last}, and they have {bits} bits; use a lower one, a lower {step_field} or a smaller pool"
    );
    wrong.add(at, problem);
    None
}

/// Between which addresses tunnels are.
struct TunnelEndpoints<'a> {
    local: &'a [u8],
    local_count: u32,
    remote: &'a [u8],
}

impl TunnelEndpoints<'_> {
    /// The first near end, how many there are, and the remote end.
    fn check(&self, at: &FieldPath, words: &Words, wrong: &mut Violations) -> Option<(Address, u32, Address)> {
        let at = |field: &'static str| at.field(field);
        let local = address(&at("local"), self.local, wrong);
        let remote = address(&at("remote"), self.remote, wrong);
        let count = self.local_count.max(1);
        let (local, remote) = (local?, remote?);
        if local.is_v6() != remote.is_v6() {
            wrong.add(at("remote"), "is not of the family of local; give both as IPv4 or both as IPv6");
            return None;
        }
        let last = local.0.checked_add(u128::from(count - 1)).map(Address);
        let Some(last) = last.filter(|last| count <= MAX_NEAR_ENDS && last.is_v6() == local.is_v6()) else {
            let problem = format!("{count} from {local:?} on; must be at most {MAX_NEAR_ENDS}, all of one family");
            wrong.add(at("local_count"), problem);
            return None;
        };
        if (local..=last).contains(&remote) {
            let near = words.near;
            let problem = format!("{remote:?} is a {near}'s address too; use another, or fewer {near}s (local_count)");
            wrong.add(at("remote"), problem);
            return None;
        }
        Some((local, count, remote))
    }
}

/// Checks what only shows with all templates: that pools with tunnels are clients', and that a packet identifies its flow.
pub fn fit_together(site: &Site, scenario: &Scenario, wrong: &mut Violations) {
    for (index, template) in scenario.templates.iter().enumerate() {
        for (i, weighted) in template.servers.iter().enumerate() {
            if let Some(tunnels) = scenario.pools[weighted.pool].tunnels {
                let at = TemplateIndex(index).path().field("servers").index(i).field("pool");
                let field = words(&tunnels.kind).field;
                wrong.add(at, format!("pool {} has {field}, which is for clients; use another pool", weighted.pool));
            }
        }
        mirrors(index, site, scenario, template, wrong);
        no_groups_in_frames(index, scenario, template, wrong);
    }
    let with_envelope: Vec<usize> =
        (0..scenario.pools.len()).filter(|index| scenario.pools[*index].has_envelope()).collect();
    let ports = pools_ports(scenario);
    for (index, pool) in scenario.pools.iter().enumerate() {
        let of = pool.part().of;
        if let Some(tunnels) = pool.tunnels.filter(|tunnels| !tunnels.local_count.is_multiple_of(of)) {
            let Words { field, near, .. } = words(&tunnels.kind);
            let problem = format!(
                "{} {near}s cannot be shared out to {of} engines as their clients are; use a multiple of {of}",
                tunnels.local_count
            );
            wrong.add(PoolIndex(index).path().field(field).field("local_count"), problem);
        }
        // Two pools without envelopes do not concern each other.
        let all: Vec<usize> = if pool.has_envelope() { (0..index).collect() } else { Vec::new() };
        let others = if pool.has_envelope() { &all[..] } else { &with_envelope[..] };
        let before = others.iter().take_while(|other| **other < index);
        let together = before.filter(|other| !ports[index].is_disjoint(&ports[**other]));
        if let Some((other, problem)) =
            together.filter_map(|&other| Some((other, conflict(pool, &scenario.pools[other])?))).next()
        {
            let field = pool.tunnels.map_or("vlans", |tunnels| words(&tunnels.kind).field);
            wrong.add(PoolIndex(index).path().field(field), format!("stateful.pools[{other}] {problem}"));
        }
    }
}

/// Mirrored tunnels need servers, and on one port both ends receive from each other only through such.
fn mirrors(index: usize, site: &Site, scenario: &Scenario, template: &Template, wrong: &mut Violations) {
    if template.client.is_none() {
        return;
    }
    for pool in template.clients.iter().map(|weighted| weighted.pool) {
        let Some(tunnels) = scenario.pools[pool].tunnels else { continue };
        let Words { field, remote, .. } = words(&tunnels.kind);
        let looped = template.server.as_ref().map(|_| template.looped);
        // Where the plan is only compiled, it is not known whether a port is a loopback.
        let is_known = template.client.as_ref().is_some_and(|client| site[PortIndex(client.port)].loops.is_some());
        if tunnels.mirror && looped == Some(false) && tunnels.carries() == Carries::Frame {
            let at = PoolIndex(pool).path().field(field).field("mirror");
            wrong.add(at, "set, and servers are on another port; it is for clients and servers on one loopback port");
            continue;
        }
        let problem = match (tunnels.mirror, looped) {
            (true, None) => {
                "is for servers that are emulated here, and there are none; leave it out, or set server_port".to_owned()
            }
            (false, Some(true)) if is_known => {
                "not set, and what clients send comes back in its tunnel; set it, or use another server_port".to_owned()
            }
            (true, Some(false)) if is_shared(scenario, template, PoolIndex(pool)) => format!(
                "set, and several engines would stand for the {remote} on one link; use one engine (replicas: 1), or clients and \
                 servers on one loopback port"
            ),
            _ => continue,
        };
        wrong.add(PoolIndex(pool).path().field(field).field("mirror"), format!("{problem} (templates[{index}])"));
    }
}

/// Whether several engines have clients of a pool, or servers of its template.
pub(super) fn is_shared(scenario: &Scenario, template: &Template, pool: PoolIndex) -> bool {
    let servers = template.servers.iter().map(|weighted| weighted.pool);
    servers.chain([pool.0]).any(|pool| scenario.pools[pool].part() != Part::WHOLE)
}

/// Frames in VXLAN go to the MAC of the gateway in it, and those to a multicast group would have to go to the group's.
fn no_groups_in_frames(index: usize, scenario: &Scenario, template: &Template, wrong: &mut Violations) {
    let groups = template.servers.iter().find(|weighted| scenario.pools[weighted.pool].has_groups());
    let frames = |pool: &Pool| pool.tunnels.is_some_and(|tunnels| tunnels.carries() == Carries::Frame);
    let framed = template.clients.iter().find(|weighted| frames(&scenario.pools[weighted.pool]));
    if let (Some(groups), Some(framed)) = (groups, framed) {
        let problem = format!(
            "its clients send to multicast groups (stateful.pools[{}], templates[{index}]), which is not supported in VXLAN; use servers of \
             their own addresses",
            groups.pool
        );
        wrong.add(PoolIndex(framed.pool).path().field("vxlan"), problem);
    }
}

/// By pool: the ports on which its clients are, and those on which they are met in their envelopes.
fn pools_ports(scenario: &Scenario) -> Vec<BTreeSet<PortIndex>> {
    let mut ports = vec![BTreeSet::new(); scenario.pools.len()];
    for template in &scenario.templates {
        let Some(client) = template.client.as_ref().map(|client| PortIndex(client.port)) else { continue };
        for pool in template.clients.iter().map(|weighted| weighted.pool) {
            ports[pool].insert(client);
            let of = &scenario.pools[pool];
            let mirrored = of.access.mirror || of.tunnels.is_some_and(|tunnels| tunnels.mirror);
            ports[pool]
                .extend(template.server.as_ref().filter(|_| mirrored || template.looped).map(|s| PortIndex(s.port)));
        }
    }
    ports
}

/// Why two pools cannot be on one port, if one has an envelope. The same clients may be in several templates.
fn conflict(one: &Pool, other: &Pool) -> Option<&'static str> {
    let ends = |pool: &Pool| [pool.address(0), pool.address(pool.last_offset())];
    if ends(one) == ends(other) && one.tunnels == other.tunnels && one.access == other.access {
        return None;
    }
    if (one.tunnels.is_some() || other.tunnels.is_some()) && one.overlaps(other) {
        return Some("has clients of the same addresses, and other tunnels or none; use addresses apart");
    }
    if (one.has_envelope() || other.has_envelope()) && one.overlaps(other) {
        return Some(
            "has clients of the same addresses, in another range or with other vlans or gateway; use addresses apart",
        );
    }
    let (a, b) = (one.tunnels?, other.tunnels?);
    let last = |first: u32, pool: &Pool, step: u32| u128::from(first) + pool.last_offset() * u128::from(step);
    let meet = |a_first: u32, b_first: u32| {
        u128::from(a_first) <= last(b_first, other, b.step) && u128::from(b_first) <= last(a_first, one, a.step)
    };
    let gnbs_in_common = a.local <= b.last_near_end() && b.local <= a.last_near_end();
    if gnbs_in_common && one.access.tags != other.access.tags {
        return Some("has gNBs in common, or other local ends of tunnels, and other vlans; use addresses apart");
    }
    match (a.kind, b.kind) {
        (Kind::Gtpu(_), Kind::Gtpu(_)) => {}
        // Packets are assigned to their flows by their addresses.
        (Kind::Vxlan(_), Kind::Vxlan(_)) | (Kind::Gre(_), Kind::Gre(_)) | (Kind::Mpls(_), Kind::Mpls(_)) => {
            return None;
        }
        _ if gnbs_in_common || a.remote == b.remote => {
            return Some("has tunnels of another kind between the same addresses; use addresses apart");
        }
        _ => return None,
    }
    if gnbs_in_common && meet(a.downlink, b.downlink) {
        return Some("has gNBs in common and TEIDs of the downlink in the same range; use ranges apart");
    }
    (a.remote == b.remote && meet(a.uplink, b.uplink))
        .then_some("has the same UPF and TEIDs of the uplink in the same range; use ranges apart")
}
