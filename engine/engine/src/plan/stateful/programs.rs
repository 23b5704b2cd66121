// SPDX-License-Identifier: Apache-2.0
//! Programs of templates: the contract's instructions as they are executed, with what is implied put in, and faults by
//! their path in the plan.
pub mod instructions;

use super::super::{Violation, Violations};
use crate::index::TemplateIndex;
use contract::{Stateful, TransportProtocol};
use instructions::{Reading, alone, row};
use spate_stateful::program::{
    Fault, Problem, Programs, Side, VARIABLES, check as check_programs, idle as idle_programs,
};
use spate_stateful::{FieldPath, Instruction, Payload, Program, Template};

/// Instructions of a program, at most, the one among them that is implied: flows have 16 bits for the position in it, its end included.
const MAX_INSTRUCTIONS: usize = 65_535;
/// Counters of a program, at most.
const MAX_COUNTERS: usize = 256;
const MAX_COUNTER_CHARS: usize = 63;

/// A side's program as it is written.
fn written(template: &contract::Template, side: Side) -> Option<&contract::Program> {
    match side {
        Side::Client => template.client.as_ref(),
        Side::Server => template.server.as_ref(),
    }
}

/// The opening that must be put in front of a side's program.
fn implied(template: &contract::Template, side: Side) -> Option<Instruction> {
    let opening = Instruction::opening(side);
    let first = written(template, side)?.instructions.first().and_then(|first| first.kind.as_ref());
    let tcp = template.protocol == TransportProtocol::Tcp as i32;
    (tcp && first.and_then(alone).as_ref() != Some(&opening)).then_some(opening)
}

/// A side's program as it is executed; none if there is none, or a violation says why.
pub fn program(at: &FieldPath, template: &contract::Template, side: Side, wrong: &mut Violations) -> Option<Program> {
    let asked = written(template, side)?;
    let before = wrong.0.len();
    names(at, asked, wrong);
    let udp = template.protocol == TransportProtocol::Udp as i32;
    let implied = implied(template, side);
    let most = MAX_INSTRUCTIONS - usize::from(implied.is_some());
    match asked.instructions.len() {
        0 if udp => wrong.add(at.field("instructions"), "none; must be at least one"),
        len if len <= most => {}
        more => {
            let problem = match &implied {
                Some(first) => format!("{more} of them; must be at most {most} behind the {first:?} that is implied"),
                None => format!("{more} of them; must be at most {most}"),
            };
            wrong.add(at.field("instructions"), problem);
            return None;
        }
    }
    let shift = u32::from(implied.is_some());
    let mut instructions = Vec::with_capacity(asked.instructions.len() + 1);
    instructions.extend(implied);
    for (i, written) in asked.instructions.iter().enumerate() {
        let at = at.field("instructions").index(i);
        let Some(kind) = &written.kind else {
            wrong.add(at, "empty, or of a kind that this engine does not know; set one");
            continue;
        };
        let row = row(kind);
        let at = at.field(row.name);
        instructions.extend((row.read)(&mut Reading { at: &at, program: asked, shift, wrong }));
    }
    let counters = asked.counters.clone().into();
    (wrong.0.len() == before).then(|| Program { instructions: instructions.into(), counters })
}

fn names(at: &FieldPath, program: &contract::Program, wrong: &mut Violations) {
    if program.variables.len() > VARIABLES {
        let problem = format!("{} of them; a flow has {VARIABLES}", program.variables.len());
        wrong.add(at.field("variables"), problem);
    }
    if program.counters.len() > MAX_COUNTERS {
        let problem = format!("{} of them; must be at most {MAX_COUNTERS}", program.counters.len());
        wrong.add(at.field("counters"), problem);
    }
    for (i, name) in program.counters.iter().enumerate() {
        let field = at.field("counters").index(i);
        let chars = name.chars().count();
        if !(1..=MAX_COUNTER_CHARS).contains(&chars) {
            wrong.add(field, format!("{chars} characters; must be 1..{MAX_COUNTER_CHARS}"));
        } else if name.chars().any(char::is_control) {
            wrong.add(field, "holds a control character; use letters, digits and punctuation");
        } else if program.counters[..i].contains(name) {
            wrong.add(field, format!("{name:?} is another counter's already; must be unique"));
        }
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
pub fn field(asked: &Stateful, template: TemplateIndex, side: Side, at: usize) -> FieldPath {
    located(asked, &Fault { template: template.0, side, at, problem: Problem::Nothing }).0
}

/// A fault as of the plan: its field, and what is wrong by the plan's own numbers.
fn located(asked: &Stateful, fault: &Fault) -> (FieldPath, String) {
    let template = &asked.templates[fault.template];
    let at = TemplateIndex(fault.template).path().field(fault.side.name()).field("instructions");
    let shift = usize::from(implied(template, fault.side).is_some());
    let index = fault.at.checked_sub(shift);
    let program = written(template, fault.side);
    let kind = index.and_then(|at| program?.instructions.get(at)?.kind.as_ref());
    let (Some(index), Some(kind)) = (index, kind) else {
        return (at, fault.problem.to_string());
    };
    let problem = match fault.problem.clone() {
        Problem::Target { to, first, end } => {
            Problem::Target { to: to.saturating_sub(shift as u32), first: first - shift, end: end - shift }
        }
        Problem::NoTime { to } => Problem::NoTime { to: to.saturating_sub(shift) },
        other => other,
    };
    let row = row(kind);
    let at = at.index(index);
    let field = match &problem {
        Problem::Unreachable => at,
        Problem::First(_) | Problem::NotFirst | Problem::OtherSide(_) | Problem::OtherProtocol(..) => {
            at.field(row.name)
        }
        _ => at.field(row.name).field(row.blamed),
    };
    (field, problem.to_string())
}
