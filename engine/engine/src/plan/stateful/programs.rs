// SPDX-License-Identifier: Apache-2.0
//! Programs of templates: the contract's instructions as they are executed, with what is implied put in, and faults by
//! their path in the plan.
use super::super::{Violation, Violations};
use super::LONGEST_NS;
use contract::{Stateful, TransportProtocol, instruction::Kind, receive_until};
use spate_stateful::program::{
    Fault, Problem, Programs, Side, Until, VARIABLES, check as check_programs, idle as idle_programs,
};
use spate_stateful::{Comparison, Instruction, Payload, Program, Template};

/// Instructions of a program, at most, the one among them that is implied: flows have 16 bits for the position in it, its end included.
const MOST_INSTRUCTIONS: usize = 65_535;
/// Counters of a program, at most.
const MOST_COUNTERS: usize = 256;
const MOST_COUNTER_CHARS: usize = 63;

/// A side's program as it is written.
fn written(template: &contract::Template, side: Side) -> Option<&contract::Program> {
    match side {
        Side::Client => template.client.as_ref(),
        Side::Server => template.server.as_ref(),
    }
}

/// The opening that must be put in front of a side's program.
fn implied(template: &contract::Template, side: Side) -> Option<Instruction> {
    let first = written(template, side)?.instructions.first().and_then(|i| i.kind.as_ref());
    let tcp = template.protocol == TransportProtocol::Tcp as i32;
    match (side, first) {
        (Side::Client, Some(Kind::Connect(_))) | (Side::Server, Some(Kind::Accept(_))) => None,
        (Side::Client, _) => tcp.then_some(Instruction::Connect),
        (Side::Server, _) => tcp.then_some(Instruction::Accept),
    }
}

/// A side's program as it is executed; none if there is none, or a violation says why.
pub fn program(at: &str, template: &contract::Template, side: Side, wrong: &mut Violations) -> Option<Program> {
    let asked = written(template, side)?;
    let before = wrong.0.len();
    names(at, asked, wrong);
    let udp = template.protocol == TransportProtocol::Udp as i32;
    let implied = implied(template, side);
    let most = MOST_INSTRUCTIONS - usize::from(implied.is_some());
    match asked.instructions.len() {
        0 if udp => wrong.add(format!("{at}.instructions"), "none; must be at least one"),
        len if len <= most => {}
        more => {
            let problem = match &implied {
                Some(first) => format!("{more} of them; must be at most {most} behind the {first:?} that is implied"),
                None => format!("{more} of them; must be at most {most}"),
            };
            wrong.add(format!("{at}.instructions"), problem);
            return None;
        }
    }
    let reader = Reader { program: asked, shift: u32::from(implied.is_some()) };
    let mut instructions = Vec::with_capacity(asked.instructions.len() + 1);
    instructions.extend(implied);
    for (i, instruction) in asked.instructions.iter().enumerate() {
        let at = format!("{at}.instructions[{i}]");
        instructions.extend(reader.instruction(&at, instruction, wrong));
    }
    let counters = asked.counters.clone().into();
    (wrong.0.len() == before).then(|| Program { instructions: instructions.into(), counters })
}

fn names(at: &str, program: &contract::Program, wrong: &mut Violations) {
    if program.variables.len() > VARIABLES {
        let problem = format!("{} of them; a flow has {VARIABLES}", program.variables.len());
        wrong.add(format!("{at}.variables"), problem);
    }
    if program.counters.len() > MOST_COUNTERS {
        let problem = format!("{} of them; must be at most {MOST_COUNTERS}", program.counters.len());
        wrong.add(format!("{at}.counters"), problem);
    }
    for (i, name) in program.counters.iter().enumerate() {
        let field = format!("{at}.counters[{i}]");
        let chars = name.chars().count();
        if !(1..=MOST_COUNTER_CHARS).contains(&chars) {
            wrong.add(field, format!("{chars} characters; must be 1..{MOST_COUNTER_CHARS}"));
        } else if name.chars().any(char::is_control) {
            wrong.add(field, "holds a control character; use letters, digits and punctuation");
        } else if program.counters[..i].contains(name) {
            wrong.add(field, format!("{name:?} is another counter's already; must be unique"));
        }
    }
}

/// Instructions of the contract being read.
struct Reader<'a> {
    program: &'a contract::Program,
    /// How much further back they are than written.
    shift: u32,
}

impl Reader<'_> {
    fn instruction(
        &self,
        at: &str,
        instruction: &contract::Instruction,
        wrong: &mut Violations,
    ) -> Option<Instruction> {
        let Some(kind) = &instruction.kind else {
            wrong.add(at, "empty, or of a kind that this engine does not know; set one");
            return None;
        };
        let at = format!("{at}.{}", name(kind));
        Some(match kind {
            Kind::Connect(_) => Instruction::Connect,
            Kind::Accept(_) => Instruction::Accept,
            Kind::Send(send) => Instruction::Send { payload: send.payload, wait: send.wait },
            Kind::Receive(receive) => Instruction::Receive { bytes: receive.bytes, clear: receive.clear },
            Kind::SendMessage(send) => Instruction::SendMessage { payload: send.payload },
            Kind::ReceiveMessages(receive) => {
                let Ok(messages) = u32::try_from(receive.messages) else {
                    let problem = format!("{}; must be at most {}", receive.messages, u32::MAX);
                    wrong.add(format!("{at}.messages"), problem);
                    return None;
                };
                Instruction::ReceiveMessages { messages, clear: receive.clear }
            }
            Kind::Delay(delay) => {
                time(&format!("{at}.max_ns"), delay.max_ns, wrong)?;
                Instruction::Delay { min_ns: delay.min_ns, max_ns: delay.max_ns }
            }
            Kind::Close(_) => Instruction::Close,
            Kind::Reset(_) => Instruction::Reset,
            Kind::WaitForPeerClose(_) => Instruction::WaitForPeerClose,
            Kind::LeaveOpen(_) => Instruction::LeaveOpen,
            Kind::KeepaliveNs(ns) => Instruction::Keepalive(time(&at, *ns, wrong)?),
            Kind::Set(set) => Instruction::Set {
                variable: self.variable(&format!("{at}.variable"), set.variable, wrong)?,
                value: set.value,
            },
            Kind::Add(add) => Instruction::Add {
                variable: self.variable(&format!("{at}.variable"), add.variable, wrong)?,
                value: add.value,
            },
            Kind::Jump(jump) => Instruction::Jump {
                to: jump.to.saturating_add(self.shift),
                variable: self.variable(&format!("{at}.variable"), jump.variable, wrong)?,
                comparison: comparison(&at, jump.comparison, wrong)?,
                value: jump.value,
            },
            Kind::Loop(again) => Instruction::Loop {
                to: again.to.saturating_add(self.shift),
                since: self.variable(&format!("{at}.since"), again.since, wrong)?,
                duration_ns: time(&format!("{at}.duration_ns"), again.duration_ns, wrong)?,
            },
            Kind::Mark(variable) => Instruction::Mark { variable: self.variable(&at, *variable, wrong)? },
            Kind::Count(counter) => Instruction::Count { counter: self.counter(&at, *counter, wrong)? },
            Kind::CountTime(time) => Instruction::CountTime {
                counter: self.counter(&format!("{at}.counter"), time.counter, wrong)?,
                since: self.variable(&format!("{at}.since"), time.since, wrong)?,
            },
            Kind::ReceiveUntil(until) => {
                let until = match &until.end {
                    Some(receive_until::End::Pattern(pattern)) => Until::Pattern(Box::from(&pattern[..])),
                    Some(receive_until::End::HttpMessage(_)) => Until::HttpMessage,
                    None => {
                        wrong.add(at, "has no end; set pattern or http_message");
                        return None;
                    }
                };
                Instruction::ReceiveUntil(until)
            }
            Kind::SwitchTemplate(template) => Instruction::SwitchTemplate { template: *template },
            Kind::OpenConnection(open) => Instruction::OpenConnection { template: open.template },
            Kind::NextTemplate(template) => Instruction::NextTemplate { template: *template },
        })
    }

    fn counter(&self, field: &str, counter: u32, wrong: &mut Violations) -> Option<u16> {
        let found = u16::try_from(counter).ok();
        if found.is_none() {
            let problem = format!("there is no counter {counter}; there are {}", self.program.counters.len());
            wrong.add(field, problem);
        }
        found
    }

    fn variable(&self, field: &str, index: u32, wrong: &mut Violations) -> Option<u8> {
        let count = self.program.variables.len().min(VARIABLES);
        if index as usize >= count {
            wrong.add(field, format!("there is no variable {index}; the program has {count}, from 0"));
            return None;
        }
        Some(index as u8)
    }
}

fn time(field: &str, ns: u64, wrong: &mut Violations) -> Option<u64> {
    if ns > LONGEST_NS {
        wrong.add(field, format!("{ns} ns; must be at most {LONGEST_NS} (ten years)"));
        return None;
    }
    Some(ns)
}

fn comparison(at: &str, comparison: i32, wrong: &mut Violations) -> Option<Comparison> {
    use contract::Comparison as Asked;
    Some(match Asked::try_from(comparison) {
        Ok(Asked::Unspecified | Asked::NotEqual) => Comparison::NotEqual,
        Ok(Asked::Equal) => Comparison::Equal,
        Ok(Asked::Less) => Comparison::Less,
        Ok(Asked::LessOrEqual) => Comparison::LessOrEqual,
        Ok(Asked::Greater) => Comparison::Greater,
        Ok(Asked::GreaterOrEqual) => Comparison::GreaterOrEqual,
        Err(_) => {
            wrong.add(format!("{at}.comparison"), format!("{comparison} is none that this engine knows"));
            return None;
        }
    })
}

/// The field's name in the contract.
fn name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Connect(_) => "connect",
        Kind::Accept(_) => "accept",
        Kind::Send(_) => "send",
        Kind::Receive(_) => "receive",
        Kind::SendMessage(_) => "send_message",
        Kind::ReceiveMessages(_) => "receive_messages",
        Kind::Delay(_) => "delay",
        Kind::Close(_) => "close",
        Kind::Reset(_) => "reset",
        Kind::WaitForPeerClose(_) => "wait_for_peer_close",
        Kind::LeaveOpen(_) => "leave_open",
        Kind::KeepaliveNs(_) => "keepalive_ns",
        Kind::Set(_) => "set",
        Kind::Add(_) => "add",
        Kind::Jump(_) => "jump",
        Kind::Loop(_) => "loop",
        Kind::Mark(_) => "mark",
        Kind::Count(_) => "count",
        Kind::CountTime(_) => "count_time",
        Kind::ReceiveUntil(_) => "receive_until",
        Kind::SwitchTemplate(_) => "switch_template",
        Kind::OpenConnection(_) => "open_connection",
        Kind::NextTemplate(_) => "next_template",
    }
}

/// Programs of templates as their checks see them.
pub fn of(templates: &[Template]) -> Vec<Programs<'_>> {
    let programs = templates.iter().map(|template| Programs {
        protocol: template.protocol,
        client: template.client.as_ref().map(|client| &client.program),
        server: template.server.as_ref().map(|server| &server.program),
    });
    programs.collect()
}

/// What waits for nothing, of programs that were checked.
pub fn idle(asked: &Stateful, templates: &[Template]) -> impl Iterator<Item = Violation> {
    let found = idle_programs(&of(templates)).into_iter();
    found.map(|fault| located(asked, &fault)).map(|(field, description)| Violation { field, description })
}

/// Whether two programs do the same, whatever the numbers of what they send.
pub fn same_program(one: &Program, other: &Program, payloads: &[Payload]) -> bool {
    let sent = |payload: u32| payloads.get(payload as usize);
    let same = |(one, other): (&Instruction, &Instruction)| match (one, other) {
        (Instruction::Send { payload: a, wait }, Instruction::Send { payload: b, wait: other }) => {
            wait == other && sent(*a) == sent(*b)
        }
        (Instruction::SendMessage { payload: a }, Instruction::SendMessage { payload: b }) => sent(*a) == sent(*b),
        _ => one == other,
    };
    one.counters == other.counters
        && one.instructions.len() == other.instructions.len()
        && one.instructions.iter().zip(&other.instructions).all(same)
}

/// Checks the programs of `asked`, which `templates` are, by themselves and against each other.
pub fn check(asked: &Stateful, templates: &[Template], payloads: &[Payload], wrong: &mut Violations) {
    let programs = of(templates);
    let lens: Vec<u64> = payloads.iter().map(Payload::len).collect();
    // Another template's servers may answer in place of its own.
    let answered = |i: usize| {
        let same =
            |t: &Template| (t.protocol, t.destination_port) == (templates[i].protocol, templates[i].destination_port);
        templates[..i].iter().any(|t| t.server.is_some() && same(t))
    };
    for fault in check_programs(&programs, &lens) {
        let of_both = matches!(fault.problem, Problem::NeverMet { .. } | Problem::NeverClosed(_));
        if of_both && answered(fault.template) {
            continue;
        }
        let (field, problem) = located(asked, &fault);
        wrong.add(field, problem);
    }
}

/// An instruction's field in the plan, by its index among those that are executed.
pub fn field(asked: &Stateful, template: usize, side: Side, at: usize) -> String {
    located(asked, &Fault { template, side, at, problem: Problem::Nothing }).0
}

/// A fault as of the plan: its field, and what is wrong by the plan's own numbers.
fn located(asked: &Stateful, fault: &Fault) -> (String, String) {
    let template = &asked.templates[fault.template];
    let at = format!("stateful.templates[{}].{}", fault.template, fault.side);
    let shift = usize::from(implied(template, fault.side).is_some());
    let index = fault.at.checked_sub(shift);
    let program = written(template, fault.side);
    let kind = index.and_then(|at| program?.instructions.get(at)?.kind.as_ref());
    let (Some(index), Some(kind)) = (index, kind) else {
        return (format!("{at}.instructions"), fault.problem.to_string());
    };
    let problem = match fault.problem.clone() {
        Problem::Target { to, first, end } => {
            Problem::Target { to: to.saturating_sub(shift as u32), first: first - shift, end: end - shift }
        }
        Problem::NoTime { to } => Problem::NoTime { to: to.saturating_sub(shift) },
        other => other,
    };
    let field = match (&problem, kind) {
        (Problem::Unreachable, _) => String::new(),
        (Problem::First(_) | Problem::NotFirst | Problem::OtherSide(_) | Problem::OtherProtocol(..), kind) => {
            format!(".{}", name(kind))
        }
        (_, Kind::Send(_)) => ".send.payload".to_owned(),
        (_, Kind::SendMessage(_)) => ".send_message.payload".to_owned(),
        (_, Kind::Receive(_)) => ".receive.bytes".to_owned(),
        (_, Kind::ReceiveMessages(_)) => ".receive_messages.messages".to_owned(),
        (_, Kind::ReceiveUntil(_)) => ".receive_until.pattern".to_owned(),
        (_, Kind::Delay(_)) => ".delay.max_ns".to_owned(),
        (_, Kind::Jump(_)) => ".jump.to".to_owned(),
        (_, Kind::Loop(_)) => ".loop.to".to_owned(),
        (_, Kind::CountTime(_)) => ".count_time.counter".to_owned(),
        (_, Kind::OpenConnection(_)) => ".open_connection.template".to_owned(),
        (_, kind) => format!(".{}", name(kind)),
    };
    (format!("{at}.instructions[{index}]{field}"), problem.to_string())
}
