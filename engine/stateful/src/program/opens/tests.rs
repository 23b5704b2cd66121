// SPDX-License-Identifier: Apache-2.0
//! Of which templates are connections opened, and which openings are refused?
use super::super::{Comparison, Instruction, Program};
use super::*;
use crate::Protocol;
use Instruction::{Close, Connect, Jump, NextTemplate, OpenConnection, SwitchTemplate};

fn open(template: u32) -> Instruction {
    OpenConnection { template: Some(template) }
}

fn next(template: u32) -> Instruction {
    one_of(&[template])
}

fn one_of(templates: &[u32]) -> Instruction {
    NextTemplate { templates: templates.into() }
}

const UNNAMED: Instruction = OpenConnection { template: None };

fn programs(clients: &[&[Instruction]]) -> Vec<Program> {
    let program = |rest: &&[Instruction]| Program {
        instructions: [&[Connect][..], *rest].concat().into(),
        counters: Box::default(),
    };
    clients.iter().map(program).collect()
}

fn of(programs: &[Program]) -> Vec<Programs<'_>> {
    let template = |client| Programs { protocol: Protocol::Tcp, client: Some(client), server: None };
    programs.iter().map(template).collect()
}

/// Template and instruction of each fault, and what is wrong.
fn faults(clients: &[&[Instruction]]) -> Vec<(usize, usize, Problem)> {
    let programs = programs(clients);
    let found = super::super::check(&of(&programs), &[]);
    found.into_iter().map(|fault| (fault.template, fault.at, fault.problem)).collect()
}

#[test]
fn templates_are_opened_by_name_or_as_they_were_named_last() {
    // 0 opens what it, and what those that it opens, named; 4 opens what was named before it was switched to.
    let clients: [&[Instruction]; 5] =
        [&[next(1), UNNAMED, open(3)], &[next(2)], &[], &[next(1), SwitchTemplate { template: 4 }], &[UNNAMED]];
    let programs = programs(&clients);
    let opened: Vec<Vec<usize>> = opened(&of(&programs)).into_iter().map(|all| all.into_iter().collect()).collect();
    assert_eq!(opened, [vec![1, 2, 3], vec![], vec![], vec![], vec![1, 2]]);
    assert_eq!(faults(&clients), []);
    assert_eq!(opening_of(&of(&programs)[0], 3), Some(2), "the one without a name may be it");
    assert_eq!(opening_of(&of(&programs)[1], 2), None);
}

#[test]
fn each_of_the_templates_that_are_named_together_may_be_opened() {
    let clients: [&[Instruction]; 4] = [&[one_of(&[1, 3]), UNNAMED], &[], &[], &[]];
    assert_eq!(opened(&of(&programs(&clients)))[0], BTreeSet::from([1, 3]));
    assert_eq!(faults(&clients), []);
    assert_eq!(faults(&[&[one_of(&[1, 7]), UNNAMED], &[]])[0], (0, 1, Problem::Opened(7)));
    let back: [&[Instruction]; 3] = [&[one_of(&[1, 2]), UNNAMED], &[], &[open(0)]];
    assert_eq!(faults(&back), [(0, 2, Problem::Circle(2)), (2, 1, Problem::Circle(0))]);
}

#[test]
fn connections_that_lead_back_are_refused_where_they_are_opened() {
    assert_eq!(faults(&[&[open(0)]]), [(0, 1, Problem::Circle(0))]);
    let both = [(0, 1, Problem::Circle(1)), (1, 1, Problem::Circle(0))];
    assert_eq!(faults(&[&[open(1)], &[open(0)]]), both);
    // By way of a name, and of another template's program.
    assert_eq!(faults(&[&[next(1), UNNAMED], &[open(0)]]), [(0, 2, Problem::Circle(1)), (1, 1, Problem::Circle(0))]);
    let switched: [&[Instruction]; 3] = [&[open(1)], &[SwitchTemplate { template: 2 }], &[open(0)]];
    assert_eq!(faults(&switched), [(0, 1, Problem::Circle(1)), (2, 1, Problem::Circle(0))]);
    // Two ways to one template are no circle, and neither is going on as each other's.
    assert_eq!(faults(&[&[open(1), open(2)], &[open(2)], &[]]), []);
    let jump = Jump { to: 4, variable: 0, comparison: Comparison::Equal, value: 0 };
    let pause = Instruction::Delay { min_ns: 1_000_000, max_ns: 1_000_000 };
    let to = |template| [pause.clone(), jump.clone(), SwitchTemplate { template }, Close];
    assert_eq!(faults(&[&to(1), &to(0)]), []);
}

#[test]
fn openings_of_nothing_are_refused() {
    assert_eq!(faults(&[&[UNNAMED]]), [(0, 1, Problem::Unnamed)]);
    assert_eq!(faults(&[&[open(1)]]), [(0, 1, Problem::Opened(1))]);
    assert_eq!(faults(&[&[next(7)]]), [(0, 1, Problem::Opened(7))]);
}

#[test]
fn servers_open_nothing() {
    let server = Program { instructions: [Instruction::Accept, open(0)].into(), counters: Box::default() };
    let client = programs(&[&[]]).remove(0);
    let template = Programs { protocol: Protocol::Tcp, client: Some(&client), server: Some(&server) };
    let found = super::super::check(&[template], &[]);
    assert_eq!(found, [Fault { template: 0, side: Side::Server, at: 1, problem: Problem::OtherSide(Side::Client) }]);
}
