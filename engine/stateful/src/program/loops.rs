// SPDX-License-Identifier: Apache-2.0
//! The ways through programs: what nothing leads to, and loops that would never let go of a worker.
//!
//! A loop is let go if an instruction in it waits every time around, or if it counts: one variable, set to a known value in
//! front of it, changed by one `Add` in it and compared by its `Jump`, which must fail within [`MAX_ITERATIONS`].
use std::ops::RangeInclusive;

use super::effects::{Next, VariableChange};
use super::fault::{Fault, Problem, Side};
use super::programs::Programs;
use super::{Instruction, Program, VARIABLES};
use crate::Protocol;

/// Iterations of a loop that takes no time.
pub const MAX_ITERATIONS: u32 = 10_000;

/// A position: template and instruction. One behind the last is the program's end.
type Position = (usize, usize);

/// What is known of a variable at a position, whichever way led there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// The position is not reachable.
    Never,
    Value(i64),
    Anything,
}

impl Known {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, known) | (known, Self::Never) => known,
            (Self::Value(a), Self::Value(b)) if a == b => self,
            _ => Self::Anything,
        }
    }
}

type Variables = [Known; VARIABLES];

/// Finds what nothing leads to, and the loops of one side's programs that never end and take no time.
pub(super) fn check(templates: &[Programs], side: Side) -> Vec<Fault> {
    let mut graph = Graph { templates, side, known: Vec::new() };
    let switched: Vec<usize> = graph.switched();
    let known = |(i, t): (usize, &Programs)| t.of(side).map_or_else(Vec::new, |p| known(p, switched.contains(&i)));
    graph.known = templates.iter().enumerate().map(known).collect();
    let mut faults = Vec::new();
    for (template, program) in graph.programs() {
        let known = &graph.known[template];
        let unreachable = (0..program.instructions.len()).filter(|&at| known[at] == [Known::Never; VARIABLES]);
        faults.extend(unreachable.map(|at| Fault { template, side, at, problem: Problem::Unreachable }));
    }
    let mut colours = graph.colours();
    for (template, program) in graph.programs() {
        for at in 0..program.instructions.len() {
            graph.walk((template, at), &mut colours, &mut faults);
        }
    }
    faults
}

/// The programs of a side, as positions and what follows each.
struct Graph<'a> {
    templates: &'a [Programs<'a>],
    side: Side,
    /// By template, what variables are before each position.
    known: Vec<Vec<Variables>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    New,
    OnTheWay,
    Done,
}

impl<'a> Graph<'a> {
    fn programs(&self) -> impl Iterator<Item = (usize, &'a Program)> + '_ {
        self.templates.iter().enumerate().filter_map(|(i, t)| Some((i, t.of(self.side)?)))
    }

    fn program(&self, template: usize) -> Option<&'a Program> {
        self.templates[template].of(self.side)
    }

    fn colours(&self) -> Vec<Vec<Colour>> {
        let len = |t: &Programs| t.of(self.side).map_or(0, |p| p.instructions.len());
        self.templates.iter().map(|t| vec![Colour::New; len(t)]).collect()
    }

    /// Templates that others go on with.
    fn switched(&self) -> Vec<usize> {
        let instructions = self.programs().flat_map(|(_, program)| program.instructions.iter());
        instructions.filter_map(|instruction| Some(instruction.effects().template()? as usize)).collect()
    }

    /// What may follow a position, those that end the program left out.
    fn next(&self, (template, at): Position) -> impl Iterator<Item = Position> + use<> {
        let Some(program) = self.program(template) else { return Vec::new().into_iter() };
        let mut next: Vec<Position> = match program.instructions[at].effects().template() {
            Some(to) => {
                let first = usize::from(self.templates[template].protocol == Protocol::Tcp);
                vec![(to as usize, first)]
            }
            None => successors(program, at).map(|at| (template, at)).collect(),
        };
        let len = |template: usize| self.program(template).map_or(0, |p| p.instructions.len());
        next.retain(|&(template, at)| at < len(template));
        next.into_iter()
    }

    fn instruction(&self, (template, at): Position) -> Option<&'a Instruction> {
        self.program(template)?.instructions.get(at)
    }

    /// Follows what takes no time from a position on; going back to a position on the way is a loop.
    fn walk(&self, from: Position, colours: &mut [Vec<Colour>], faults: &mut Vec<Fault>) {
        if colours[from.0][from.1] != Colour::New || self.instruction(from).is_some_and(takes_time) {
            return;
        }
        colours[from.0][from.1] = Colour::OnTheWay;
        let mut way = vec![(from, self.next(from))];
        while let Some((at, next)) = way.last_mut() {
            let at = *at;
            let Some(to) = next.next() else {
                colours[at.0][at.1] = Colour::Done;
                way.pop();
                continue;
            };
            if self.instruction(to).is_some_and(takes_time) {
                continue;
            }
            match colours[to.0][to.1] {
                Colour::Done => {}
                Colour::New => {
                    colours[to.0][to.1] = Colour::OnTheWay;
                    way.push((to, self.next(to)));
                }
                Colour::OnTheWay if self.counts(to, at) => {}
                Colour::OnTheWay => {
                    let (template, at) = at;
                    faults.push(Fault { template, side: self.side, at, problem: Problem::NoTime { to: to.1 } });
                }
            }
        }
    }

    /// Whether the loop from `first` to the jump at `last` is certain to end soon.
    fn counts(&self, first: Position, last: Position) -> bool {
        let Some(program) = self.program(last.0).filter(|_| first.0 == last.0 && first.1 <= last.1) else {
            return false;
        };
        let Next::Jump { variable, comparison, value, .. } = program.instructions[last.1].effects().next else {
            return false;
        };
        let (last_template, first, last) = (last.0, first.1, last.1);
        // Straight inside, and entered in front of it only.
        let inside = first..=last;
        let straight = (first..last).all(|at| successors(program, at).eq(std::iter::once(at + 1)));
        let entered = (0..program.instructions.len())
            .filter(|at| !inside.contains(at))
            .any(|at| successors(program, at).any(|to| to > first && to <= last));
        let mut step = None;
        for instruction in &program.instructions[first..last] {
            match instruction.effects().changes.filter(|(changed, _)| *changed == variable) {
                Some((_, VariableChange::Add(value))) if step.is_none() => step = Some(value),
                Some(_) => return false,
                None => {}
            }
        }
        let (true, false, Some(step)) = (straight, entered, step) else { return false };
        let known = &self.known[last_template];
        let Known::Value(mut at) = before(program, known, first..=last, variable) else { return false };
        for _ in 0..MAX_ITERATIONS {
            at = at.wrapping_add(step);
            if !comparison.holds(at, value) {
                return true;
            }
        }
        false
    }
}

/// A variable in front of a loop.
fn before(program: &Program, known: &[Variables], inside: RangeInclusive<usize>, variable: u8) -> Known {
    let variable = usize::from(variable);
    let first = *inside.start();
    // Positions of the loop that the program begins with are led to by nothing.
    let start = if first == 0 { known[0][variable] } else { Known::Never };
    let into = (0..program.instructions.len()).filter(|at| !inside.contains(at));
    let into = into.filter(|&at| successors(program, at).any(|to| to == first));
    into.map(|at| after(&program.instructions[at], known[at])[variable]).fold(start, Known::join)
}

/// What may follow an instruction in its program; its end is one behind the last.
pub(crate) fn successors(program: &Program, at: usize) -> impl Iterator<Item = usize> + use<> {
    let (ahead, jump) = match program.instructions[at].effects().next {
        Next::End { .. } | Next::LeftOpen | Next::Template(_) => (None, None),
        Next::Jump { to, .. } | Next::Loop { to, .. } => (Some(at + 1), Some(to as usize)),
        Next::Following => (Some(at + 1), None),
    };
    ahead.into_iter().chain(jump)
}

fn takes_time(instruction: &Instruction) -> bool {
    instruction.effects().takes_time
}

/// What variables are in front of each instruction and at the end. A template that others go on with begins with anything.
fn known(program: &Program, switched: bool) -> Vec<Variables> {
    let len = program.instructions.len();
    let mut known = vec![[Known::Never; VARIABLES]; len + 1];
    let mut open = vec![0];
    known[0] = [if switched { Known::Anything } else { Known::Value(0) }; VARIABLES];
    while let Some(at) = open.pop() {
        if at >= len {
            continue;
        }
        let after = after(&program.instructions[at], known[at]);
        for to in successors(program, at) {
            let joined: Variables = std::array::from_fn(|i| known[to][i].join(after[i]));
            if joined != known[to] {
                known[to] = joined;
                open.push(to);
            }
        }
    }
    known
}

/// Values of variables after an instruction.
fn after(instruction: &Instruction, mut variables: Variables) -> Variables {
    if let Some((variable, change)) = instruction.effects().changes {
        let variable = &mut variables[usize::from(variable)];
        *variable = match (change, *variable) {
            (VariableChange::Set(value), _) => Known::Value(value),
            (VariableChange::Add(value), Known::Value(before)) => Known::Value(before.wrapping_add(value)),
            (VariableChange::Add(_), before) => before,
            (VariableChange::Time, _) => Known::Anything,
        };
    }
    variables
}
