// SPDX-License-Identifier: Apache-2.0
//! Plan to run: everything that is wrong with a plan, found before anything is allocated.
use super::blueprint::{self, Macs};
use super::measure::{self, Measured};
use super::rate::{self, FrameBytes, LineRate};
use super::stateful::{self, session};
use super::{Violation, Violations};
use super::{engines, flows, load, replay, stages, transmit};
use crate::datapath::ReplaySpec;
use crate::index::{PortIndex, StreamIndex, TemplateIndex};
use contract::{Plan, Stream, Trials, stream::Transmit};
use spate_net::ethernet::{HEADER, Link};
use spate_stateful::program::Side;
use spate_stateful::{FieldPath, Part, Scenario};
use spate_stateless::{Rate, StreamTiming, Template};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{Index, RangeInclusive};

/// Bytes of a frame without FCS: from the least Ethernet frame to a jumbo frame of 9,234 bytes with FCS.
pub const FRAME_BYTES: RangeInclusive<usize> = 60..=9230;
/// Sending workers over all engines of a run: the trailer has one byte for them.
pub const MOST_GLOBAL_WORKERS: u64 = 256;
/// The longest time a plan may name: ten years of 365 days, far from where 64-bit nanoseconds end.
pub const LONGEST_NS: u64 = 10 * 365 * 86_400 * 1_000_000_000;
/// Characters of a name.
pub const MOST_NAME_CHARS: usize = 253;
const MOST_RUN_ID_CHARS: usize = 128;
/// Streams of a plan: a packet's trailer has 16 bits for the stream's number.
const MOST_STREAMS: usize = 1 << 16;
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
    "share",
    "engines",
    "timing.stages",
    "trials",
];
/// Packets of a stream that may be built beforehand.
pub const MOST_CACHED: u32 = 10_000;
/// The address of ports that are only thought of, and of what they lead to.
const SIMULATED: Macs = Macs { own: [0x02, 0x53, 0, 0, 0, 0], next_hop: Some([0x02, 0x53, 0, 0, 0, 1]) };

/// What validation knows of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Its name in plans.
    pub name: String,
    /// Bits a second on the medium.
    pub line_rate: LineRate,
    /// Greatest layer-3 packet in bytes; `None` if the device has no limit or it is not known.
    pub mtu: Option<u32>,
    /// Bits a second on the medium that other runs have already claimed.
    pub claimed_bits: u128,
    /// What is written into frames that leave it to the port.
    pub macs: Macs,
    /// What is sent on it comes back to it, or that is not known.
    pub loops: Option<bool>,
    /// Workers of this engine that serve it: those of its group, or all.
    pub workers: u32,
}

/// Where a plan is to run.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its ports; a port's index here is its index in the datapath.
    pub ports: Vec<PortFacts>,
    /// Workers of this engine.
    pub workers: u32,
}

impl Site {
    /// A site that has every port a plan names, of unknown kind: what can be checked without an engine.
    pub fn of_plan(plan: &Plan) -> Self {
        let mut names: Vec<&str> = Vec::new();
        let mut seen = HashSet::new();
        for stream in &plan.streams {
            for name in [stream.tx_port.as_str(), stream.rx_port.as_str()] {
                if !name.is_empty() && seen.insert(name) {
                    names.push(name);
                }
            }
        }
        let others = plan.reflectors.iter().map(|r| &r.port).chain(plan.receivers.iter().map(|r| &r.port));
        let templates = plan.stateful.iter().flat_map(|s| &s.templates);
        let others = others.chain(templates.flat_map(|t| [&t.client_port, &t.server_port]));
        names.extend(others.map(String::as_str).filter(|name| !name.is_empty() && seen.insert(name)));
        let port = |name: &str| PortFacts {
            name: name.to_owned(),
            line_rate: LineRate::NotYetKnown,
            mtu: None,
            claimed_bits: 0,
            macs: SIMULATED,
            loops: None,
            workers: 1,
        };
        Self { ports: names.into_iter().map(port).collect(), workers: 1 }
    }

    /// The same with this many workers, which serve all ports.
    #[must_use]
    pub fn with_workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self.ports.iter_mut().for_each(|port| port.workers = workers);
        self
    }

    pub(super) fn index(&self, name: &str) -> Option<PortIndex> {
        self.ports.iter().position(|p| p.name == name).map(PortIndex)
    }

    /// The index of the port that a field names; what is wrong with the name is noted.
    pub(super) fn port(&self, field: &FieldPath, name: &str, wrong: &mut Violations) -> Option<PortIndex> {
        let found = self.index(name);
        if name.is_empty() {
            wrong.add(field, format!("missing; must name a port ({})", self.known_names()));
        } else if found.is_none() {
            wrong.add(field, format!("{name:?} is no port of this engine; {}", self.known_names()));
        }
        found
    }

    fn known_names(&self) -> String {
        match self.ports.as_slice() {
            [] => "this engine has no ports".to_owned(),
            ports => {
                let names: Vec<&str> = ports.iter().map(|p| p.name.as_str()).collect();
                format!("known are {}", names.join(", "))
            }
        }
    }
}

impl Index<PortIndex> for Site {
    type Output = PortFacts;

    fn index(&self, port: PortIndex) -> &PortFacts {
        &self.ports[port.0]
    }
}

/// What validation worked out of one stream.
#[derive(Clone, Debug)]
pub struct CheckedStream {
    /// The port that sends it.
    pub tx_port: PortIndex,
    /// The port that is to receive it.
    pub rx_port: Option<PortIndex>,
    /// Of all engines together; `None` where it waits for the line rate ([`LineRate::NotYetKnown`]).
    pub rate: Option<Rate>,
    /// Its packets; of a replay the first, which stands for all where packets are alike.
    pub template: Template,
    /// The capture it replays.
    pub replay: Option<CheckedReplay>,
}

/// A replay without fault.
#[derive(Clone, Debug)]
pub struct CheckedReplay {
    /// What is sent.
    pub spec: ReplaySpec,
    /// The speed: distances (see [`spate_replay::Gap`]) in nanoseconds.
    pub speed: Rate,
    /// Its last packet is due after its first.
    pub takes_time: bool,
}

impl CheckedStream {
    /// The mean length of its frames.
    pub fn frame_bytes(&self) -> FrameBytes {
        let (sum, count) = match &self.replay {
            Some(replay) => {
                let survey = &replay.spec.capture.survey;
                (survey.bytes.into(), survey.packets.into())
            }
            None => self.template.mean_len(),
        };
        FrameBytes { sum, count }
    }

    /// How many engines send what the plan says of it with this one, which is (index, count) of all; 0 if this one sends none of it.
    pub fn part(&self, stream: &Stream, timing: &StreamTiming, share: (u32, u32)) -> u32 {
        let Some((index, count)) = sending_part(stream, share) else { return 0 };
        match &self.replay {
            _ if timing.pinned => u32::from(index == 0),
            Some(replay) => u32::from(replay.spec.engine(count) == index),
            None => count.max(1),
        }
    }

    /// Bytes of its longest and its shortest frame without FCS.
    pub fn longest_and_shortest(&self) -> (usize, usize) {
        match &self.replay {
            Some(replay) => (replay.spec.capture.survey.longest, replay.spec.capture.survey.shortest),
            None => (self.template.frame_len(), self.template.shortest()),
        }
    }
}

/// Which of the engines that send a stream this one is, which is (index, count) of all; none if it is not among them.
pub fn sending_part(stream: &Stream, (index, of): (u32, u32)) -> Option<(u32, u32)> {
    engines::part_of(Part { index, of }, stream.engines.as_ref()).map(|part| (part.index, part.of))
}

/// A plan without fault, with what was worked out of each stream, in the plan's order.
#[derive(Clone, Debug)]
pub struct Checked {
    /// In the plan's order.
    pub streams: Vec<CheckedStream>,
    /// Its templates.
    pub stateful: Option<Scenario>,
    /// When each stream sends, in the plan's order, `next` by index.
    pub timings: Vec<StreamTiming>,
    /// This engine's part: index and count.
    pub share: (u32, u32),
    /// Bits a second on the medium by port, of enabled streams and of templates, of this engine alone.
    pub port_bits: BTreeMap<PortIndex, u128>,
    /// The part of these bits that templates ask for.
    pub flow_asks: Vec<flows::Ask>,
    /// What is measured where packets arrive.
    pub measured: Measured,
    /// Warnings for the caller before the start.
    pub warnings: Vec<String>,
}

/// Finds everything wrong with `plan` at `site`.
pub fn validate(plan: &Plan, site: &Site) -> Result<Checked, Violations> {
    let mut wrong = Violations::default();
    identity(plan, &mut wrong);
    timing(plan, &mut wrong);
    let share = share(plan, site, &mut wrong);
    let streams = streams(plan, site, &mut wrong);
    let measured = measure::measured(plan, site, &mut wrong);
    let stateful = stateful(plan, site, &mut wrong);
    let mut checked = Checked {
        streams,
        stateful,
        timings: Vec::new(),
        share,
        port_bits: BTreeMap::new(),
        flow_asks: Vec::new(),
        measured,
        warnings: Vec::new(),
    };
    if wrong.is_empty() {
        checked.timings = transmit::timings(plan, &checked.streams, &mut wrong);
    }
    if wrong.is_empty() {
        let flows = checked.stateful.as_ref().map(flows::asks);
        let (flow_asks, unknown) = flows.unwrap_or_default();
        checked.port_bits = port_bits(plan, &checked);
        for ask in &flow_asks {
            *checked.port_bits.entry(ask.port).or_default() += ask.bits_per_second();
        }
        checked.flow_asks = flow_asks;
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
        if value.chars().count() > MOST_NAME_CHARS {
            wrong.add(field, format!("{} characters; must be at most {MOST_NAME_CHARS}", value.chars().count()));
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
    if !(1..=MOST_RUN_ID_CHARS).contains(&chars) {
        wrong.add(field, format!("{chars} characters; must be 1..{MOST_RUN_ID_CHARS}"));
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
        if ns > LONGEST_NS {
            wrong.add(field, format!("{ns} ns; must be at most {LONGEST_NS} (ten years)"));
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
    if workers > MOST_GLOBAL_WORKERS {
        wrong.add(
            "share.count",
            format!(
                "{count} engines of {} workers are {workers} sending workers; must be at most {MOST_GLOBAL_WORKERS} \
                 (use fewer engines or workers)",
                site.workers
            ),
        );
    }
    (index, count)
}

fn streams(plan: &Plan, site: &Site, wrong: &mut Violations) -> Vec<CheckedStream> {
    let others = plan.stateful.is_some() || !plan.reflectors.is_empty() || !plan.receivers.is_empty();
    if plan.streams.is_empty() && !others {
        wrong.add("streams", "none; a plan needs at least one, or a template, reflector or receiver");
    }
    if plan.streams.len() > MOST_STREAMS {
        let problem =
            format!("{} of them; must be at most {MOST_STREAMS}: divide them over several plans", plan.streams.len());
        wrong.add("streams", problem);
    }
    let mut names = HashMap::new();
    let mut ids = HashMap::new();
    let mut checked = Vec::with_capacity(plan.streams.len());
    for (i, stream) in plan.streams.iter().enumerate() {
        let at = StreamIndex(i).path();
        name(&at, stream, wrong);
        if let Some(first) = names.insert(stream.name.as_str(), i).filter(|_| !stream.name.is_empty()) {
            wrong.add(at.field("name"), format!("{:?} is streams[{first}]'s already; must be unique", stream.name));
        }
        if stream.id > u32::from(u16::MAX) {
            wrong.add(at.field("id"), format!("{}; must be 0..65535", stream.id));
        }
        if let Some(first) = ids.insert(stream.id, i) {
            wrong.add(at.field("id"), format!("{} is streams[{first}]'s already; must be unique", stream.id));
        }
        if let Some(engines) = &stream.engines {
            engines::check(&at.field("engines"), engines, plan.share.as_ref(), wrong);
        }
        if let Some(one) = one_stream(i, stream, site, wrong) {
            checked.push(one);
        }
    }
    let all = plan.streams.iter().enumerate();
    if let Some((one, other)) = engines::half_in_common(all.map(|(i, stream)| (i, stream.engines.as_ref()))) {
        let problem = format!(
            "has engines of streams[{one}].engines, and is another range; an engine sends all streams of a port by one schedule: use \
             equal ranges, or none in common"
        );
        wrong.add(StreamIndex(other).path().field("engines"), problem);
    }
    checked
}

fn name(at: &FieldPath, stream: &Stream, wrong: &mut Violations) {
    let chars = stream.name.chars().count();
    if !(1..=MOST_NAME_CHARS).contains(&chars) {
        wrong.add(at.field("name"), format!("{chars} characters; must be 1..{MOST_NAME_CHARS}"));
    } else if stream.name.chars().any(char::is_control) {
        wrong.add(at.field("name"), "holds a control character; use letters, digits and punctuation");
    }
}

/// The stream, or `None` if it lacks what the rest builds on (then a violation says so).
fn one_stream(index: usize, stream: &Stream, site: &Site, wrong: &mut Violations) -> Option<CheckedStream> {
    let at = StreamIndex(index).path();
    let tx_port = site.port(&at.field("tx_port"), &stream.tx_port, wrong);
    let rx_port = match stream.rx_port.as_str() {
        "" => None,
        name => site.port(&at.field("rx_port"), name, wrong),
    };
    if let Some(Transmit::Replay(asked)) = &stream.transmit {
        let found = replay::replay(&at, stream, asked, tx_port.map(|port| &site[port]), wrong)?;
        return Some(CheckedStream { tx_port: tx_port?, rx_port, ..found });
    }
    if stream.packet.is_none() {
        wrong.add(at.field("packet"), "missing; set frame");
    }
    cache(&at, stream, wrong);
    let (field, rate) = match &stream.transmit {
        Some(Transmit::Continuous(continuous)) => ("continuous.rate", continuous.rate.as_ref()),
        Some(Transmit::Bursts(bursts)) => ("bursts.rate", bursts.rate.as_ref()),
        Some(Transmit::Replay(_)) | None => {
            wrong.add(at.field("transmit"), "missing; set continuous, bursts or replay");
            return None;
        }
    };
    let macs = tx_port.map_or(SIMULATED, |port| site[port].macs);
    stream.packet.as_ref()?;
    let template = blueprint::template(index, stream, macs, wrong);
    let (tx_port, template) = (tx_port?, template?);
    let facts = &site[tx_port];
    mtu(&at.field("packet.frame"), template.frame(), facts, wrong);
    let (sum, count) = template.mean_len();
    match rate::packet_rate(rate, FrameBytes { sum, count }, &facts.name, facts.line_rate) {
        Ok(rate) => Some(CheckedStream { tx_port, rx_port, rate, template, replay: None }),
        Err(error) => {
            wrong.add(at.field(field), error.to_string());
            None
        }
    }
}

fn cache(at: &FieldPath, stream: &Stream, wrong: &mut Violations) {
    let measured = stream.measure.as_ref().is_some_and(|m| m.flow);
    if stream.cache > MOST_CACHED {
        wrong.add(at.field("cache"), format!("{}; must be at most {MOST_CACHED}", stream.cache));
    } else if stream.cache > 0 && measured {
        wrong.add(
            at.field("cache"),
            "goes not with measure.flow, for which every packet is rewritten: leave out one of them",
        );
    }
}

fn mtu(field: &FieldPath, frame: &[u8], port: &PortFacts, wrong: &mut Violations) {
    if let Err(problem) = fits(frame, port) {
        wrong.add(field, format!("{problem} (raise the MTU or shorten the frame)"));
    }
}

/// Whether a port's MTU has room for a frame.
pub(super) fn fits(frame: &[u8], port: &PortFacts) -> Result<(), String> {
    let Some(mtu) = port.mtu else { return Ok(()) };
    // VLAN tags do not count against the MTU (IEEE 802.1Q annex G).
    let most = mtu as usize + Link::find(frame).map_or(HEADER, |link| link.end);
    if frame.len() > most {
        let (len, name) = (frame.len(), &port.name);
        return Err(format!("{len} bytes; must be at most {most} on port {name}, whose MTU is {mtu}"));
    }
    Ok(())
}

fn port_bits(plan: &Plan, checked: &Checked) -> BTreeMap<PortIndex, u128> {
    let chains = load::chains(&checked.timings);
    let asks = plan.streams.iter().zip(&checked.streams).zip(&checked.timings).zip(chains);
    let asks = asks.filter(|(((stream, _), _), _)| !stream.disabled).filter_map(|(((stream, one), timing), chain)| {
        let (starts, part) = (!timing.waits, one.part(stream, timing, checked.share));
        Some(load::Ask { port: one.tx_port, chain, starts, frame_bytes: one.frame_bytes(), rate: one.rate?, part })
    });
    load::by_port(asks)
}

/// Refuses rates beyond the line rate of a port. `asked` are bits a second of this engine by port.
pub fn capacity(asked: &BTreeMap<PortIndex, u128>, field: &'static str, site: &Site, wrong: &mut Violations) {
    for (&port, &asked) in asked {
        let facts = &site[port];
        let LineRate::Known(line) = facts.line_rate else { continue };
        let line = u128::from(line);
        if asked + facts.claimed_bits > line {
            let available = line.saturating_sub(facts.claimed_bits);
            wrong.add(
                field,
                format!(
                    "ask port {} for {asked} bit/s on the medium; available are {available} of its line rate \
                     {line} bit/s{}; lower the rates or use another port",
                    facts.name,
                    if facts.claimed_bits > 0 { " (other runs have the rest)" } else { "" },
                ),
            );
        }
    }
}

fn more_than_known((template, of_clients): (TemplateIndex, bool)) -> Violation {
    let side = if of_clients { Side::Client } else { Side::Server };
    Violation::new(
        template.path().field(side.name()),
        "it jumps, loops or switches, or opens what was named last, so what its flows send is not known beforehand; the load of its port \
         counts what each sends at least",
    )
}

fn warnings(plan: &Plan, site: &Site, checked: &Checked) -> Vec<String> {
    let mut all = Vec::new();
    for (i, found) in checked.streams.iter().enumerate() {
        if let Some(backwards) = found.replay.as_ref().map(|r| r.spec.capture.survey.backwards).filter(|n| *n > 0) {
            let problem =
                format!("{backwards} packets were captured before the one in front of them, and follow it at once");
            all.push(Violation::new(StreamIndex(i).path().field("replay"), problem).to_string());
        }
    }
    for (i, stream) in plan.streams.iter().enumerate() {
        let measured = stream.measure.as_ref().is_some_and(|m| m.flow || m.mark.is_some());
        if !measured && !stream.rx_port.is_empty() {
            let problem = "nothing is counted there, since neither measure.flow nor measure.mark is set";
            all.push(Violation::new(StreamIndex(i).path().field("rx_port"), problem).to_string());
        }
    }
    for (&port, &bits) in &checked.port_bits {
        let facts = &site[port];
        let bits = bits + facts.claimed_bits;
        let line = match facts.line_rate {
            LineRate::Known(line) if bits * 100 >= u128::from(line) * MUCH_PERCENT => {
                format!("{:.1} % of its line rate", 100.0 * bits as f64 / line as f64)
            }
            LineRate::Unknown if bits >= MUCH_BITS => {
                "its line rate is not known, so nothing was checked against it".to_owned()
            }
            _ => continue,
        };
        all.push(format!("port {} has to carry {bits} bit/s on the medium: {line}", facts.name));
    }
    all
}

/// From this part of its line rate on a port's load is warned of: little is left for bursts and answers.
const MUCH_PERCENT: u128 = 90;
/// From these bits a second on it is warned of where the line rate is not known: more than most software ports carry.
const MUCH_BITS: u128 = 10_000_000_000;
/// From these bytes on memory is warned of.
const MUCH_MEMORY: usize = 64 << 20;

/// What is worth knowing of the memory that a run's latency histograms take.
pub fn histograms(bytes: usize) -> Option<String> {
    (bytes >= MUCH_MEMORY).then(|| format!("latency histograms take {} MiB of memory", bytes >> 20))
}

#[cfg(test)]
mod tests;
