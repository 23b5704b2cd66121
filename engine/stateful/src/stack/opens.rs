// SPDX-License-Identifier: Apache-2.0
//! Connections that programs open: which are to be opened, which flow waits for the end of which, and the template that is named for
//! the next. Where several are named, one is drawn for each connection.
//!
//! A flow opens one at a time. What it opens begins outside, where clients' addresses and ports are known; until then it is a request.
//! When the connection has ended, whatever ended it, or could not be opened, the flow that opened it goes on a tick later. If that ends
//! first, the connection goes on by itself.
use std::collections::{BTreeSet, VecDeque};

use super::{NotOpened, Opening, Stack};
use crate::{
    Address, Instruction, Scenario,
    flow::{FlowIndex, flags},
    random, wheel,
};

/// In place of what names a template: nothing does.
const UNNAMED: u32 = u32::MAX;

/// What is known beside a flow.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// What names the template of the next connection without a name (see `Opens::name`), or `UNNAMED`.
    next: u32,
    /// The flow that opened it, as long as it waits, or `FlowIndex::NONE`.
    opener: FlowIndex,
    /// The flow for whose end it waits, or `FlowIndex::NONE`.
    opened: FlowIndex,
    /// The number of its request; 0: none is pending.
    request: u32,
}

const NOTHING: Link = Link { next: UNNAMED, opener: FlowIndex::NONE, opened: FlowIndex::NONE, request: 0 };

/// A flow's wish for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    opener: FlowIndex,
    number: u32,
    template: u32,
}

impl Request {
    /// The template of the connection.
    #[inline]
    pub fn template(&self) -> usize {
        self.template as usize
    }
}

/// State of a worker's programs that open connections.
#[derive(Debug)]
pub(super) struct Opens {
    links: Box<[Link]>,
    /// In their order; those of flows that have ended since are among them.
    requests: VecDeque<Request>,
    /// Number of the last request; never 0 but at first.
    last: u32,
    /// The flow that opens the one that begins now, or `FlowIndex::NONE`.
    opener: FlowIndex,
    /// How many templates there are.
    templates: u32,
    /// All that are named together, each once.
    groups: Box<[Box<[u32]>]>,
}

impl Opens {
    /// For this many flows, if any program of the scenario opens connections.
    pub(super) fn new(scenario: &Scenario, count: usize) -> Option<Box<Self>> {
        scenario.opens().then(|| {
            let links = vec![NOTHING; count].into();
            let (templates, groups) = (scenario.templates.len() as u32, groups(scenario));
            let requests = VecDeque::with_capacity(count);
            Box::new(Self { links, requests, last: 0, opener: FlowIndex::NONE, templates, groups })
        })
    }

    /// What names these templates: the only one itself, or the place of their group behind all templates.
    fn name(&self, templates: &[u32]) -> u32 {
        match templates {
            [one] => *one,
            several => {
                let group = self.groups.iter().position(|group| **group == *several);
                group.map_or(UNNAMED, |group| self.templates + group as u32)
            }
        }
    }

    /// The template of a connection that is opened by a name, with random bits if that is of several.
    fn drawn(&self, name: u32, bits: u64) -> u32 {
        match name.checked_sub(self.templates) {
            None => name,
            Some(group) => {
                let group = &self.groups[group as usize];
                group[random::below(bits, group.len() as u64) as usize]
            }
        }
    }

    /// Bytes that it takes.
    pub(super) fn bytes(scenario: &Scenario, count: usize) -> usize {
        if scenario.opens() { count * (size_of::<Link>() + size_of::<Request>()) } else { 0 }
    }

    /// A flow begins.
    #[inline]
    pub(super) fn begin(&mut self, index: FlowIndex) {
        let opener = core::mem::replace(&mut self.opener, FlowIndex::NONE);
        self.links[index.position()] = Link { opener, ..NOTHING };
        if opener != FlowIndex::NONE {
            let link = &mut self.links[opener.position()];
            (link.opened, link.request) = (index, 0);
        }
    }

    fn waits(&self, index: FlowIndex) -> bool {
        let link = &self.links[index.position()];
        link.request != 0 || link.opened != FlowIndex::NONE
    }

    /// False if there is no room for another request.
    fn request(&mut self, opener: FlowIndex, template: u32) -> bool {
        let fits = self.requests.len() < self.requests.capacity();
        if fits {
            self.last = self.last.wrapping_add(1).max(1);
            self.links[opener.position()].request = self.last;
            self.requests.push_back(Request { opener, number: self.last, template });
        }
        fits
    }

    /// The next request of a flow that still waits for it.
    fn next(&mut self) -> Option<Request> {
        loop {
            let request = self.requests.pop_front()?;
            if self.links[request.opener.position()].request == request.number {
                return Some(request);
            }
        }
    }
}

/// The groups of several templates that programs name.
fn groups(scenario: &Scenario) -> Box<[Box<[u32]>]> {
    let clients = scenario.templates.iter().filter_map(|template| template.client.as_ref());
    let named = clients.flat_map(|client| &client.program.instructions).filter_map(|instruction| match instruction {
        Instruction::NextTemplate { templates } if templates.len() > 1 => Some(templates.clone()),
        _ => None,
    });
    named.collect::<BTreeSet<_>>().into_iter().collect()
}

impl Stack {
    /// A flow's program opens a connection of a template, or of the one named last, or waits for its end. Whether the program goes on
    /// at once.
    pub(super) fn open_another(&mut self, index: FlowIndex, template: Option<u32>) -> bool {
        let opens = self.opens.as_mut().expect("there is one where programs open connections");
        let flow = &mut self.flows[index];
        let soon = wheel::tick_at(self.now.ns).wrapping_add(1);
        if !flow.has(flags::INSTRUCTION_STARTED) {
            let named = Some(opens.links[index.position()].next).filter(|next| *next != UNNAMED);
            let seed = self.sides[usize::from(flow.side)].seed ^ random::mix(flow.number);
            let bits = random::nth(seed, self.now.ns ^ u64::from(flow.pc));
            match template.or(named.map(|name| opens.drawn(name, bits))) {
                Some(template) if opens.request(index, template) => flow.set(flags::INSTRUCTION_STARTED),
                // It asks again.
                Some(_) => (flow.program_at, flow.flags) = (soon, flow.flags | flags::PROGRAM_WAITS),
                // Others have their turn first.
                None => {
                    (flow.program_at, flow.flags) =
                        (soon, flow.flags | flags::INSTRUCTION_STARTED | flags::PROGRAM_WAITS)
                }
            }
            return false;
        }
        if opens.waits(index) {
            return false;
        }
        flow.clear(flags::INSTRUCTION_STARTED | flags::PROGRAM_WAITS);
        flow.pc += 1;
        true
    }

    /// A flow names the template of the next connection without a name, or several. Its program goes on at once.
    pub(super) fn name_next(&mut self, index: FlowIndex) -> bool {
        let flow = &mut self.flows[index];
        let program = &self.sides[usize::from(flow.side)].program;
        if let Some(opens) = &mut self.opens
            && let Some(Instruction::NextTemplate { templates }) = program.instructions.get(usize::from(flow.pc))
        {
            opens.links[index.position()].next = opens.name(templates);
        }
        flow.pc += 1;
        true
    }

    /// Whether a flow waits for a connection to be opened.
    #[inline]
    pub(super) fn is_asked_to_open(&self) -> bool {
        self.opens.as_ref().is_some_and(|opens| !opens.requests.is_empty())
    }

    /// The next connection that a flow waits for. It is opened with `open_requested`, or refused with `refuse_request`.
    #[inline]
    pub fn next_request(&mut self) -> Option<Request> {
        self.opens.as_mut()?.next()
    }

    /// The client's address of the flow that requests a connection: that of the connection, too.
    pub fn client_of(&self, request: &Request) -> Address {
        self.tuple_of(request.opener).local
    }

    /// Opens a requested connection.
    ///
    /// # Errors
    /// See `open`. The request stays pending: it is tried with another tuple, or refused.
    pub fn open_requested(&mut self, request: &Request, opening: &Opening, now_ns: u64) -> Result<(), NotOpened> {
        self.opener(request.opener);
        let opened = self.open_found(opening, now_ns);
        self.opener(FlowIndex::NONE);
        opened
    }

    fn opener(&mut self, opener: FlowIndex) {
        if let Some(opens) = &mut self.opens {
            opens.opener = opener;
        }
    }

    /// A requested connection cannot be opened: the flow goes on without.
    pub fn refuse_request(&mut self, request: &Request) {
        if let Some(opens) = &mut self.opens {
            opens.links[request.opener.position()].request = 0;
            self.wake(request.opener);
        }
    }

    /// A flow has ended: the one that waits for it goes on, with the template that it named, and the one that it waits for does by
    /// itself.
    #[inline(never)]
    pub(super) fn part(&mut self, index: FlowIndex) {
        let Some(opens) = &mut self.opens else { return };
        let Link { next, opener, opened, .. } = core::mem::replace(&mut opens.links[index.position()], NOTHING);
        if opened != FlowIndex::NONE {
            opens.links[opened.position()].opener = FlowIndex::NONE;
        }
        if opener != FlowIndex::NONE {
            let link = &mut opens.links[opener.position()];
            link.opened = FlowIndex::NONE;
            if next != UNNAMED {
                link.next = next;
            }
            self.wake(opener);
        }
    }

    /// The program of a flow goes on with the next tick.
    fn wake(&mut self, index: FlowIndex) {
        let flow = &mut self.flows[index];
        flow.program_at = wheel::tick_at(self.now.ns).wrapping_add(1);
        flow.set(flags::PROGRAM_WAITS);
        self.settle_open(index);
    }
}
