// SPDX-License-Identifier: Apache-2.0
//! What templates ask of their ports: bits a second on the medium that their flows send at least, each way.
//!
//! A flow's data is known from its program; it is sent in as few packets as there can be, TCP's with SYN and FIN, and without
//! acknowledgements and what is sent again, which depend on the network. Connections that its program opens count with it.
use super::rate::{FCS_BYTES, MEDIUM_OVERHEAD_BYTES};
use crate::index::{PortIndex, TemplateIndex};
use spate_stateful::envelope;
use spate_stateful::program::effects::{Data, Next, Opens};
use spate_stateful::{Instruction, Part, Payload, Pool, Program, Protocol, Ratio, Scenario, Template, Tunables};
use std::collections::BTreeMap;

/// Bytes of headers: of Ethernet, IP and the transport.
const ETHERNET: u64 = 14;
const IPV4: u64 = 20;
const IPV6: u64 = 40;
const TCP: u64 = 20;
const UDP: u64 = 8;
/// Parts of a pool are given in millionths, and those of more addresses than this are equal.
const MILLION: u128 = 1_000_000;
const MANY: u128 = 1 << 64;
/// Bytes of the least frame without FCS (IEEE 802.3).
const MIN_FRAME: u64 = 60;

/// What one side of a template's flow sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sent {
    /// Bits on the medium, at least.
    bits: u128,
    /// Its program may send more data: it jumps, loops, or goes on as another's.
    more: bool,
}

/// What a template asks of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowDemand {
    /// The template.
    pub template: TemplateIndex,
    /// The port.
    pub port: PortIndex,
    /// A second on the medium, at the template's own rate. A factor may come to it, so it is not rounded.
    pub bits: Ratio<u128>,
}

impl FlowDemand {
    /// A second on the medium, rounded down.
    pub fn bits_per_second(&self) -> u128 {
        self.bits.floor()
    }
}

/// What all templates ask of ports of this engine; and the sides (template, clients?) that may send more than is
/// known.
pub fn demands(scenario: &Scenario) -> (Vec<FlowDemand>, Vec<(TemplateIndex, bool)>) {
    let (mut demands, mut unknown) = (Vec::new(), Vec::new());
    let opened = opened(scenario);
    // Without clients here, how many flows there are is up to others; without a rate it is up to programs that open them.
    let rated = |template: &Template| template.client.as_ref().map(|client| client.rate).filter(|rate| !rate.is_zero());
    let started = (0..scenario.templates.len()).filter_map(|index| Some((index, rated(&scenario.templates[index])?)));
    let of_each = |(index, rate): (usize, Ratio)| {
        let flows = opened.get(index).into_iter().flatten();
        std::iter::once((index, index, 1, rate)).chain(flows.map(move |(other, times)| (index, *other, *times, rate)))
    };
    for (index, of, times, rate) in started.flat_map(of_each) {
        let template = &scenario.templates[of];
        let Some(client) = &template.client else { continue };
        let v6 = template.servers.first().is_some_and(|servers| scenario.pools[servers.pool].is_v6());
        let network = ETHERNET + if v6 { IPV6 } else { IPV4 };
        let engines = scenario.client_part().of;
        let server = template.server.as_ref().map(|s| (s.port, &s.program, &s.tunables, false));
        let sides = [Some((client.port, &client.program, &client.tunables, true)), server];
        for (port, program, tunables, of_clients) in sides.into_iter().flatten() {
            let network = network + least_added(scenario, template, of_clients);
            let sent = sent(template.protocol, program, tunables, &scenario.payloads, network);
            let (flows, seconds) = (rate.wide().numerator().saturating_mul(times), rate.wide().denominator());
            let part = if of_clients { Ratio::new(1, engines.into()) } else { served(template, scenario, engines) };
            let bits = Ratio::new(
                sent.bits.saturating_mul(flows).saturating_mul(part.numerator()),
                part.denominator().saturating_mul(seconds),
            );
            demands.push(FlowDemand { template: TemplateIndex(index), port: PortIndex(port), bits });
            let side = (TemplateIndex(of), of_clients);
            if sent.more && !unknown.contains(&side) {
                unknown.push(side);
            }
        }
    }
    (demands, unknown)
}

/// By template: how many connections of others a flow opens at least, with those that they open. Empty if programs open none.
fn opened(scenario: &Scenario) -> Vec<BTreeMap<usize, u128>> {
    let mut all = Vec::new();
    if scenario.opens() {
        all.resize(scenario.templates.len(), None);
        (0..all.len()).for_each(|index| open_all(scenario, index, &mut all));
    }
    all.into_iter().map(Option::unwrap_or_default).collect()
}

/// Finds those of a template, and of the templates that it opens: none leads back.
fn open_all(scenario: &Scenario, index: usize, all: &mut [Option<BTreeMap<usize, u128>>]) {
    if all[index].is_some() {
        return;
    }
    let mut opened: BTreeMap<usize, u128> = BTreeMap::new();
    let client = scenario.templates[index].client.as_ref();
    for instruction in client.map(|client| certain(&client.program).0).unwrap_or_default() {
        let Some(Opens::Connection(Some(other))) = instruction.effects().opens else { continue };
        let other = other as usize;
        open_all(scenario, other, all);
        for (of, times) in std::iter::once((&other, &1)).chain(all[other].iter().flatten()) {
            let sum = opened.entry(*of).or_default();
            *sum = sum.saturating_add(*times);
        }
    }
    all[index] = Some(opened);
}

/// Fewest bytes that tags and tunnels add to each packet of a side.
fn least_added(scenario: &Scenario, template: &Template, of_clients: bool) -> u64 {
    let pools = template.clients.iter().map(|weighted| &scenario.pools[weighted.pool]);
    let added = pools.map(|pool| envelope::overhead(pool, of_clients, template.looped));
    added.min().unwrap_or(0) as u64
}

/// Which fraction of a template's flows one of this many engines serves: that of the servers it has, by weight. Where these are
/// all, its clients are the only ones there.
fn served(template: &Template, scenario: &Scenario, engines: u32) -> Ratio<u128> {
    let pools = || template.servers.iter().map(|servers| (&scenario.pools[servers.pool], u128::from(servers.weight)));
    if pools().all(|(pool, _)| pool.part() == Part::WHOLE) {
        return Ratio::new(1, engines.into());
    }
    // To a millionth: the lengths of pools may be beyond all products.
    let own = |pool: &Pool| match (pool.first_own(), pool.last_offset()) {
        (None, _) => 0,
        (_, MANY..) => MILLION.div_ceil(pool.part().of.into()),
        (_, last) => ((pool.part_last() + 1) * MILLION).div_ceil(last + 1),
    };
    let weights: u128 = pools().map(|(_, weight)| weight).sum();
    Ratio::new(pools().map(|(pool, weight)| weight * own(pool)).sum(), weights.max(1) * MILLION)
}

fn sent(protocol: Protocol, program: &Program, tunables: &Tunables, payloads: &[Payload], network: u64) -> Sent {
    let (certain, more) = certain(program);
    let len = |payload: u32| payloads.get(payload as usize).map_or(0, Payload::len);
    let bits = |frame: u64| u128::from(frame.max(MIN_FRAME) + FCS_BYTES + MEDIUM_OVERHEAD_BYTES) * 8;
    let data = certain.iter().map(|instruction| match instruction.effects().sends {
        Some(Data::Message(payload)) => bits(network + UDP + len(payload)),
        Some(Data::Stream(payload)) => u128::from(len(payload)) * 8,
        None => 0,
    });
    let mut all: u128 = data.sum();
    if protocol == Protocol::Tcp {
        let segments = (all / 8).div_ceil(u128::from(tunables.mss.max(1)));
        let headers = u128::from(network + TCP + FCS_BYTES + MEDIUM_OVERHEAD_BYTES) * 8;
        // SYN and FIN.
        all += segments * headers + 2 * bits(network + TCP);
    }
    Sent { bits: all, more }
}

/// The instructions that every flow comes by at least once, and whether more may follow.
fn certain(program: &Program) -> (Vec<&Instruction>, bool) {
    let (mut certain, mut more) = (Vec::new(), false);
    for (at, instruction) in program.instructions.iter().enumerate() {
        match instruction.effects().next {
            // What lies behind may be passed over.
            Next::Jump { to, .. } if to as usize > at => return (certain, true),
            Next::Template(_) => return (certain, true),
            Next::Jump { .. } | Next::Loop { .. } => more = true,
            Next::End { .. } | Next::LeftOpen => return (certain, more),
            Next::Following => {
                // Of which template is not known.
                more |= instruction.effects().opens == Some(Opens::Connection(None));
                certain.push(instruction);
            }
        }
    }
    (certain, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(instructions: &[Instruction]) -> Program {
        Program { instructions: instructions.into(), counters: Box::default() }
    }

    fn send(payload: u32) -> Instruction {
        Instruction::Send { payload, wait: false }
    }

    fn jump(to: u32) -> Instruction {
        let comparison = spate_stateful::Comparison::NotEqual;
        Instruction::Jump { to, variable: 0, comparison, value: 0 }
    }

    fn of(protocol: Protocol, instructions: &[Instruction], network: u64) -> Sent {
        let payloads = [Payload::pattern(300), Payload::pattern(14_600), Payload::pattern(10)];
        sent(protocol, &program(instructions), &Tunables::default(), &payloads, network)
    }

    #[test]
    fn tcp_sends_its_data_in_full_segments_and_syn_and_fin() {
        let least = 2 * 84;
        for (instructions, bytes) in [
            (vec![Instruction::Connect, Instruction::Close], least),
            (vec![Instruction::Connect, send(0), Instruction::Close], least + 300 + 78),
            (vec![Instruction::Accept, send(1), send(0)], least + 14_900 + 11 * 78),
            // Nothing is sent behind the end.
            (vec![Instruction::Accept, send(0), Instruction::LeaveOpen, send(1)], least + 300 + 78),
        ] {
            let expected = Sent { bits: bytes * 8, more: false };
            assert_eq!(of(Protocol::Tcp, &instructions, ETHERNET + IPV4), expected, "{instructions:?}");
        }
        let over_v6 = of(Protocol::Tcp, &[send(0)], ETHERNET + IPV6);
        assert_eq!(over_v6.bits, (300 + 98 + 2 * 98) * 8);
    }

    #[test]
    fn each_message_is_a_frame_of_at_least_the_least_length() {
        let message = |payload| Instruction::SendMessage { payload };
        let sent = of(Protocol::Udp, &[message(0), message(2), Instruction::Close], ETHERNET + IPV4);
        assert_eq!(sent, Sent { bits: (300 + 42 + 24 + 84) * 8, more: false });
    }

    #[test]
    fn of_programs_that_jump_what_is_certain_counts() {
        let known = of(Protocol::Tcp, &[send(0), send(0)], ETHERNET + IPV4).bits;
        let repeat = Instruction::Loop { to: 0, since: 0, duration_ns: 1 };
        for instructions in [
            vec![send(0), send(0), jump(0)],
            vec![send(0), send(0), jump(4), send(1)],
            vec![send(0), repeat, send(0)],
            vec![send(0), send(0), Instruction::SwitchTemplate { template: 0 }],
        ] {
            let expected = Sent { bits: known, more: true };
            assert_eq!(of(Protocol::Tcp, &instructions, ETHERNET + IPV4), expected, "{instructions:?}");
        }
    }
}
