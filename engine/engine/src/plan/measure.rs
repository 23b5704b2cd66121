// SPDX-License-Identifier: Apache-2.0
//! What a plan measures where packets arrive: latency, marks, groups, reflectors, receivers.
use super::limits::{MAX_DURATION_NS, MAX_NAME_CHARS};
use super::{Site, Violations, by_tag};
use crate::datapath::{self, Allowed, Mark, StreamReceive, Swap};
use crate::index::{PortIndex, StreamIndex};
use contract::{AddressRange, ByTag, Plan, PortRange, Reflection, Reflector, Stream, mark, stream};
use spate_stateful::FieldPath;
use std::{collections::HashMap, net::IpAddr, sync::Arc};

/// Ranges of addresses, and of ports, that a reflector may send to.
const MAX_RANGES: usize = 256;
/// The greatest flow label (RFC 6437): 20 bits.
const MAX_FLOW_LABEL: u32 = (1 << 20) - 1;

/// What a plan without fault measures.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// In the plan's order.
    pub streams: Vec<StreamReceive>,
    /// Beside its streams.
    pub run: datapath::Measure,
}

/// Finds everything wrong with what `plan` measures at `site`.
pub fn measured(plan: &Plan, site: &Site, wrong: &mut Violations) -> Measured {
    groups(plan, wrong);
    let mut histograms = HashMap::new();
    let mut streams = Vec::with_capacity(plan.streams.len());
    let (mut lists, mut listed, mut tags) = (Vec::new(), HashMap::new(), 0);
    for (i, stream) in plan.streams.iter().enumerate() {
        let at = StreamIndex(i).path().field("measure");
        let mark = stream_mark(&at, stream, wrong);
        let latency = stream.measure.as_ref().is_some_and(|m| m.latency);
        let histogram = latency.then(|| {
            let next = histograms.len();
            *histograms.entry(group(stream)).or_insert(next)
        });
        let by_tag = by_tag::tags(&at, stream, wrong).map(|list| {
            tags += list.len();
            *listed.entry(group(stream)).or_insert_with(|| {
                lists.push(Arc::new(list));
                lists.len() - 1
            })
        });
        let replayed = matches!(stream.transmit, Some(stream::Transmit::Replay(_)));
        let varied = replayed || stream.program.as_ref().is_some_and(|p| !p.writes.is_empty());
        streams.push(StreamReceive { histogram, mark, by_tag, varied });
    }
    if plan.clock_bound_ns > MAX_DURATION_NS {
        wrong.add(
            "clock_bound_ns",
            format!("{} ns; must be at most {MAX_DURATION_NS} (ten years)", plan.clock_bound_ns),
        );
    }
    by_tag::limit(tags, wrong);
    let run = datapath::Measure {
        reflectors: reflectors(plan, site, wrong),
        receivers: receivers(plan, site, wrong),
        clock_bound_ns: (plan.clock_bound_ns > 0).then_some(plan.clock_bound_ns),
        by_tag: lists,
    };
    Measured { streams, run }
}

/// The name a stream is counted under.
pub fn group(stream: &Stream) -> &str {
    if stream.group.is_empty() { &stream.name } else { &stream.group }
}

/// Streams of a group must agree in what is reported of the group as one.
fn groups(plan: &Plan, wrong: &mut Violations) {
    let mut first = HashMap::new();
    for (i, stream) in plan.streams.iter().enumerate() {
        let path = StreamIndex(i).path();
        let at = path.field("group");
        let chars = stream.group.chars().count();
        if chars > MAX_NAME_CHARS {
            wrong.add(&at, format!("{chars} characters; must be at most {MAX_NAME_CHARS}"));
        } else if stream.group.chars().any(char::is_control) {
            wrong.add(&at, "holds a control character; use letters, digits and punctuation");
        }
        let &mut (j, other) = first.entry(group(stream)).or_insert((i, stream));
        if i != j && (stream.group.is_empty() || other.group.is_empty()) {
            let (field, named) = if stream.group.is_empty() { (path.field("name"), j) } else { (at, j) };
            wrong.add(field, format!("{:?} names streams[{named}] and a group; use another", group(stream)));
            continue;
        }
        let differs = [
            ("tx_port", stream.tx_port != other.tx_port),
            ("rx_port", stream.rx_port != other.rx_port),
            ("measure", without_mark(stream) != without_mark(other)),
        ];
        for (field, _) in differs.iter().filter(|(_, differs)| *differs) {
            wrong.add(
                path.field(field),
                format!("differs from that of streams[{j}] of the same group {:?}; make them agree", stream.group),
            );
        }
    }
}

/// What a group's streams agree in; each may have a mark of its own.
fn without_mark(stream: &Stream) -> (bool, bool, bool, Option<&ByTag>) {
    stream
        .measure
        .as_ref()
        .map_or((false, false, false, None), |m| (m.flow, m.latency, m.mark.is_some(), m.by_tag.as_ref()))
}

fn stream_mark(at: &FieldPath, stream: &Stream, wrong: &mut Violations) -> Option<Mark> {
    let measure = stream.measure.as_ref()?;
    if measure.latency && !measure.flow {
        wrong.add(at.field("latency"), "needs measure.flow: the time stamp is in its trailer; set that too");
    }
    let mark = measure.mark.as_ref()?;
    if measure.flow {
        wrong.add(
            at.field("mark"),
            "cannot be combined with measure.flow: its trailer identifies packets; leave out one of them",
        );
    }
    if stream.rx_port.is_empty() {
        wrong.add(at.field("mark"), "needs rx_port, where marked packets are counted");
    }
    match mark.field {
        Some(mark::Field::Ipv4Identification(id @ 1..=0xffff)) => Some(Mark::Ipv4Identification(id as u16)),
        Some(mark::Field::Ipv6FlowLabel(label @ 1..=MAX_FLOW_LABEL)) => Some(Mark::Ipv6FlowLabel(label)),
        Some(mark::Field::Ipv4Identification(id)) => {
            wrong.add(at.field("mark.ipv4_identification"), format!("{id}; must be 1..65535"));
            None
        }
        Some(mark::Field::Ipv6FlowLabel(label)) => {
            wrong.add(at.field("mark.ipv6_flow_label"), format!("{label}; must be 1..{MAX_FLOW_LABEL}"));
            None
        }
        None => {
            wrong.add(at.field("mark"), "empty; set ipv4_identification or ipv6_flow_label");
            None
        }
    }
}

/// The mark of a stream, if it has one that is right.
pub fn mark(stream: &Stream) -> Option<Mark> {
    stream_mark(&FieldPath::default(), stream, &mut Violations::default())
}

/// Writes the mark of a stream, if it has one, into its frame; header checksums stay as right as they were.
pub fn write_mark(at: &FieldPath, stream: &Stream, frame: &mut [u8], wrong: &mut Violations) {
    let Some(mark) = mark(stream) else { return };
    if let Err(error) = mark.write(frame) {
        wrong.add(at.field("measure.mark"), format!("{error}, which would hold the mark; use another mark"));
        return;
    }
    let Ok(held) = mark.bytes(frame) else { return };
    for (i, write) in stream.program.iter().flat_map(|p| &p.writes).enumerate() {
        let written = write.offset as usize..write.offset.saturating_add(write.size) as usize;
        if written.start < held.end && held.start < written.end {
            wrong.add(
                at.field("program.writes").index(i),
                format!(
                    "changes the stream's mark, bytes {}..{}; write elsewhere, or mark another way",
                    held.start, held.end
                ),
            );
        }
    }
}

fn reflectors(plan: &Plan, site: &Site, wrong: &mut Violations) -> Vec<datapath::Reflector> {
    let mut found: Vec<datapath::Reflector> = Vec::new();
    for (i, reflector) in plan.reflectors.iter().enumerate() {
        let at = FieldPath::from("reflectors").index(i);
        let port = site.port(&at.field("port"), &reflector.port, wrong);
        let swap = match reflector.swap() {
            Reflection::Mac => Swap::Mac,
            Reflection::Addresses => Swap::Addresses,
            Reflection::Unspecified => {
                wrong.add(at.field("swap"), "missing; set REFLECTION_MAC or REFLECTION_ADDRESSES");
                continue;
            }
        };
        let allowed = allowed(&at, reflector, wrong);
        let Some(port) = port else { continue };
        if found.iter().any(|other| other.port == port) {
            let problem = format!("{:?} is another reflector's already; name each port once", reflector.port);
            wrong.add(at.field("port"), problem);
        }
        found.push(datapath::Reflector { port, swap, any_mac: reflector.any_mac, allowed });
    }
    found
}

/// Where a reflector may send to.
fn allowed(at: &FieldPath, reflector: &Reflector, wrong: &mut Violations) -> Allowed {
    let mut allowed = |list: &'static str, len: usize| {
        if len > MAX_RANGES {
            wrong.add(at.field(list), format!("{len} ranges; must be at most {MAX_RANGES}"));
        }
    };
    allowed("allowed_addresses", reflector.allowed_addresses.len());
    allowed("allowed_ports", reflector.allowed_ports.len());
    let mut addresses = Vec::new();
    for (i, AddressRange { first, last }) in reflector.allowed_addresses.iter().enumerate() {
        match (address(first), address(last)) {
            (Some(first), Some(last)) if first.is_ipv4() == last.is_ipv4() && first <= last => {
                addresses.push((first, last));
            }
            _ => wrong.add(
                at.field("allowed_addresses").index(i),
                "is no range; set first and last to addresses of one IP version, the lower one first",
            ),
        }
    }
    let mut ports = Vec::new();
    for (i, PortRange { first, last }) in reflector.allowed_ports.iter().enumerate() {
        match (u16::try_from(*first), u16::try_from(*last)) {
            (Ok(first), Ok(last)) if first <= last => ports.push((first, last)),
            _ => wrong.add(
                at.field("allowed_ports").index(i),
                format!("{first} to {last}; must be 0..65535, the lower one first"),
            ),
        }
    }
    Allowed { addresses: addresses.into(), ports: ports.into() }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes).map(IpAddr::from).or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

fn receivers(plan: &Plan, site: &Site, wrong: &mut Violations) -> Vec<PortIndex> {
    let mut found = Vec::new();
    let mut names = HashMap::new();
    for (i, receiver) in plan.receivers.iter().enumerate() {
        let at = FieldPath::from("receivers").index(i);
        let chars = receiver.name.chars().count();
        if !(1..=MAX_NAME_CHARS).contains(&chars) {
            wrong.add(at.field("name"), format!("{chars} characters; must be 1..{MAX_NAME_CHARS}"));
        } else if receiver.name.chars().any(char::is_control) {
            wrong.add(at.field("name"), "holds a control character; use letters, digits and punctuation");
        } else if let Some(first) = names.insert(receiver.name.as_str(), i) {
            let problem = format!("{:?} is receivers[{first}]'s already; must be unique", receiver.name);
            wrong.add(at.field("name"), problem);
        }
        let Some(port) = site.port(&at.field("port"), &receiver.port, wrong) else { continue };
        if found.contains(&port) {
            let problem = format!("{:?} is another receiver's already; name each port once", receiver.port);
            wrong.add(at.field("port"), problem);
        }
        found.push(port);
    }
    found
}

#[cfg(test)]
mod tests;
