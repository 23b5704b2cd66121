// SPDX-License-Identifier: Apache-2.0
//! How the contract writes the instructions of programs: one table of the names of their fields, and of what they are as they are executed.
use super::super::super::Violations;
use super::super::MAX_DURATION_NS;
use contract::{instruction::Kind, receive_until};
use spate_stateful::program::{Until, VARIABLES};
use spate_stateful::{Comparison, FieldPath, Instruction};

/// An instruction as it is written.
pub struct Row<'a> {
    /// The name of its field.
    pub name: &'static str,
    /// The field within it that what is wrong is of, unless the problem is about all of it.
    pub blamed: &'static str,
    /// What it is as it is executed; or none, and a violation says why.
    pub read: Read<'a>,
}

/// Reads one.
type Read<'a> = Box<dyn FnOnce(&mut Reading<'_>) -> Option<Instruction> + 'a>;

/// An instruction that is being read.
pub struct Reading<'a> {
    /// Its path in the plan.
    pub at: &'a FieldPath,
    /// Its program.
    pub program: &'a contract::Program,
    /// How much further back all instructions of the program are than written.
    pub shift: u32,
    /// What is wrong.
    pub wrong: &'a mut Violations,
}

/// The row of an instruction.
pub fn row(kind: &Kind) -> Row<'_> {
    match kind {
        Kind::Connect(_) => Row::new("connect", "", |_| Some(Instruction::Connect)),
        Kind::Accept(_) => Row::new("accept", "", |_| Some(Instruction::Accept)),
        Kind::Send(send) => {
            Row::new("send", "payload", |_| Some(Instruction::Send { payload: send.payload, wait: send.wait }))
        }
        Kind::Receive(receive) => {
            Row::new("receive", "bytes", |_| Some(Instruction::Receive { bytes: receive.bytes, clear: receive.clear }))
        }
        Kind::SendMessage(send) => {
            Row::new("send_message", "payload", |_| Some(Instruction::SendMessage { payload: send.payload }))
        }
        Kind::ReceiveMessages(receive) => Row::new("receive_messages", "messages", |reading| {
            Some(Instruction::ReceiveMessages { messages: reading.messages(receive.messages)?, clear: receive.clear })
        }),
        Kind::Delay(delay) => Row::new("delay", "max_ns", |reading| {
            reading.time("max_ns", delay.max_ns)?;
            Some(Instruction::Delay { min_ns: delay.min_ns, max_ns: delay.max_ns })
        }),
        Kind::Close(_) => Row::new("close", "", |_| Some(Instruction::Close)),
        Kind::Reset(_) => Row::new("reset", "", |_| Some(Instruction::Reset)),
        Kind::WaitForPeerClose(_) => Row::new("wait_for_peer_close", "", |_| Some(Instruction::WaitForPeerClose)),
        Kind::LeaveOpen(_) => Row::new("leave_open", "", |_| Some(Instruction::LeaveOpen)),
        Kind::KeepaliveNs(ns) => {
            Row::new("keepalive_ns", "", |reading| Some(Instruction::Keepalive(reading.time("", *ns)?)))
        }
        Kind::Set(set) => Row::new("set", "", |reading| {
            Some(Instruction::Set { variable: reading.variable("variable", set.variable)?, value: set.value })
        }),
        Kind::Add(add) => Row::new("add", "", |reading| {
            Some(Instruction::Add { variable: reading.variable("variable", add.variable)?, value: add.value })
        }),
        Kind::Jump(jump) => Row::new("jump", "to", |reading| {
            Some(Instruction::Jump {
                to: reading.position(jump.to),
                variable: reading.variable("variable", jump.variable)?,
                comparison: reading.comparison(jump.comparison)?,
                value: jump.value,
            })
        }),
        Kind::Loop(again) => Row::new("loop", "to", |reading| {
            Some(Instruction::Loop {
                to: reading.position(again.to),
                since: reading.variable("since", again.since)?,
                duration_ns: reading.time("duration_ns", again.duration_ns)?,
            })
        }),
        Kind::Mark(variable) => {
            Row::new("mark", "", |reading| Some(Instruction::Mark { variable: reading.variable("", *variable)? }))
        }
        Kind::Count(counter) => {
            Row::new("count", "", |reading| Some(Instruction::Count { counter: reading.counter("", *counter)? }))
        }
        Kind::CountTime(time) => Row::new("count_time", "counter", |reading| {
            Some(Instruction::CountTime {
                counter: reading.counter("counter", time.counter)?,
                since: reading.variable("since", time.since)?,
            })
        }),
        Kind::ReceiveUntil(until) => Row::new("receive_until", "pattern", |reading| {
            Some(Instruction::ReceiveUntil(reading.until(until.end.as_ref())?))
        }),
        Kind::SwitchTemplate(template) => {
            Row::new("switch_template", "", |_| Some(Instruction::SwitchTemplate { template: *template }))
        }
        Kind::OpenConnection(open) => {
            Row::new("open_connection", "template", |_| Some(Instruction::OpenConnection { template: open.template }))
        }
        Kind::NextTemplate(template) => {
            Row::new("next_template", "", |_| Some(Instruction::NextTemplate { templates: [*template].into() }))
        }
        Kind::NextTemplates(next) => Row::new("next_templates", "templates", |reading| {
            Some(Instruction::NextTemplate { templates: reading.templates(&next.templates)? })
        }),
    }
}

impl<'a> Row<'a> {
    fn new(
        name: &'static str,
        blamed: &'static str,
        read: impl FnOnce(&mut Reading<'_>) -> Option<Instruction> + 'a,
    ) -> Self {
        Self { name, blamed, read: Box::new(read) }
    }
}

/// An instruction as it is executed, if nothing of its program is needed to read it, and nothing is wrong with it.
pub fn alone(kind: &Kind) -> Option<Instruction> {
    let (program, mut wrong) = (contract::Program::default(), Violations::default());
    (row(kind).read)(&mut Reading { at: &FieldPath::default(), program: &program, shift: 0, wrong: &mut wrong })
}

impl Reading<'_> {
    fn position(&self, to: u32) -> u32 {
        to.saturating_add(self.shift)
    }

    fn templates(&mut self, templates: &[u32]) -> Option<Box<[u32]>> {
        let twice = templates.iter().enumerate().find(|(i, template)| templates[..*i].contains(template));
        let problem = match twice {
            Some((_, template)) => format!("template {template} is there twice; each has the same probability"),
            None if templates.is_empty() => "names no template; name one at least".into(),
            None => return Some(templates.into()),
        };
        self.wrong.add(self.at.field("templates"), problem);
        None
    }

    fn messages(&mut self, messages: u64) -> Option<u32> {
        let found = u32::try_from(messages).ok();
        if found.is_none() {
            let problem = format!("{messages}; must be at most {}", u32::MAX);
            self.wrong.add(self.at.field("messages"), problem);
        }
        found
    }

    fn time(&mut self, field: &'static str, ns: u64) -> Option<u64> {
        if ns > MAX_DURATION_NS {
            let problem = format!("{ns} ns; must be at most {MAX_DURATION_NS} (ten years)");
            self.wrong.add(self.at.field(field), problem);
            return None;
        }
        Some(ns)
    }

    fn counter(&mut self, field: &'static str, counter: u32) -> Option<u16> {
        let found = u16::try_from(counter).ok();
        if found.is_none() {
            let problem = format!("there is no counter {counter}; there are {}", self.program.counters.len());
            self.wrong.add(self.at.field(field), problem);
        }
        found
    }

    fn variable(&mut self, field: &'static str, index: u32) -> Option<u8> {
        let count = self.program.variables.len().min(VARIABLES);
        if index as usize >= count {
            self.wrong
                .add(self.at.field(field), format!("there is no variable {index}; the program has {count}, from 0"));
            return None;
        }
        Some(index as u8)
    }

    fn comparison(&mut self, comparison: i32) -> Option<Comparison> {
        use contract::Comparison as Asked;
        Some(match Asked::try_from(comparison) {
            Ok(Asked::Unspecified | Asked::NotEqual) => Comparison::NotEqual,
            Ok(Asked::Equal) => Comparison::Equal,
            Ok(Asked::Less) => Comparison::Less,
            Ok(Asked::LessOrEqual) => Comparison::LessOrEqual,
            Ok(Asked::Greater) => Comparison::Greater,
            Ok(Asked::GreaterOrEqual) => Comparison::GreaterOrEqual,
            Err(_) => {
                let at = self.at;
                self.wrong.add(at.field("comparison"), format!("{comparison} is none that this engine knows"));
                return None;
            }
        })
    }

    fn until(&mut self, end: Option<&receive_until::End>) -> Option<Until> {
        Some(match end {
            Some(receive_until::End::Pattern(pattern)) => Until::Pattern(Box::from(&pattern[..])),
            Some(receive_until::End::HttpMessage(_)) => Until::HttpMessage,
            None => {
                self.wrong.add(self.at, "has no end; set pattern or http_message");
                return None;
            }
        })
    }
}
