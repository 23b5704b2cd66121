// SPDX-License-Identifier: Apache-2.0
//! Whether a client and a server that talk to each other come to an end: both are followed, as far as each gets.
//!
//! Only what is certain is reported: as far as the paths through both are known before a run. Nothing is lost between them.
use super::effects::{Awaited, Data, Next};
use super::fault::{Fault, Problem, Side};
use super::programs::Programs;
use super::walk::Walk;
use crate::Protocol;

/// Says where a template's dialogue stands still for ever, if that is certain.
pub(super) fn check(templates: &[Programs], template: usize, payloads: &[u64]) -> Option<Fault> {
    let programs = templates[template];
    let (client, server) = (programs.client?, programs.server?);
    // Flows that another template began have sent and received something already.
    if switched_to(templates, template) {
        return None;
    }
    let mut exchange = Exchange { payloads, sides: [client, server].map(|program| SideState::new(Walk::new(program))) };
    // Servers over UDP are there once something has come.
    while exchange.go_on(Side::Client)
        | ((programs.protocol == Protocol::Tcp || exchange.sent(Side::Client) > 0) && exchange.go_on(Side::Server))
    {
    }
    if exchange.sides.iter().any(|state| state.walk.lost) {
        return None;
    }
    [Side::Client, Side::Server].into_iter().find_map(|side| exchange.stuck(template, side))
}

/// Whether flows of other templates go on as those of this one.
pub(super) fn switched_to(templates: &[Programs], template: usize) -> bool {
    let mut programs = templates.iter().flat_map(|t| [t.client, t.server]).flatten();
    programs.any(|program| program.switches_to(template))
}

/// State of one side of the dialogue.
struct SideState<'a> {
    walk: Walk<'a>,
    /// Bytes or messages sent since the start.
    sent: u64,
    /// Bytes of the peer that were cleared.
    cleared: u64,
    reset: bool,
}

impl<'a> SideState<'a> {
    fn new(walk: Walk<'a>) -> Self {
        Self { walk, sent: 0, cleared: 0, reset: false }
    }
}

struct Exchange<'a> {
    payloads: &'a [u64],
    sides: [SideState<'a>; 2],
}

impl Exchange<'_> {
    fn sent(&self, side: Side) -> u64 {
        self.sides[side as usize].sent
    }

    /// Executes what a side can; false if that is nothing.
    fn go_on(&mut self, side: Side) -> bool {
        let mut moved = false;
        while self.step(side) {
            moved = true;
        }
        moved
    }

    fn step(&mut self, side: Side) -> bool {
        let (came, closed) = (self.sent(side.peer()), self.sides[side.peer() as usize].walk.ended());
        let state = &mut self.sides[side as usize];
        let Some(instruction) = state.walk.instruction() else { return false };
        let mut clear_to = |wanted: u64, clear: bool| {
            let met = came - state.cleared >= wanted;
            state.cleared += if met && clear { wanted } else { 0 };
            met
        };
        let effects = instruction.effects();
        match effects.waits_for {
            Some(Awaited::Count { count, clear, .. }) if !clear_to(count, clear) => return false,
            Some(Awaited::PeerClose) if !closed => return false,
            _ => {}
        }
        state.sent = state.sent.saturating_add(match effects.sends {
            Some(Data::Stream(payload)) => self.payloads[payload as usize],
            Some(Data::Message(_)) => 1,
            None => 0,
        });
        state.reset |= effects.next == Next::End { reset: true };
        state.walk.go_on();
        true
    }

    /// Why a side did not come to its end, unless its peer's reset ended it.
    fn stuck(&self, template: usize, side: Side) -> Option<Fault> {
        let (state, other) = (&self.sides[side as usize], &self.sides[side.peer() as usize]);
        // A server over UDP without a client's message is not there.
        if state.walk.ended()
            || other.reset
            || state.walk.at == 0 && side == Side::Server && other.walk.ended() && other.sent == 0
        {
            return None;
        }
        let peer = side.peer();
        let never = |wanted, unit| Problem::NeverMet { wanted, unit, peer, sent: other.sent - state.cleared };
        let problem = match state.walk.instruction()?.effects().waits_for? {
            Awaited::Count { count, unit, .. } => never(count, unit),
            Awaited::PeerClose => Problem::NeverClosed(peer),
            Awaited::End(_) => return None,
        };
        Some(Fault { template, side, at: state.walk.at, problem })
    }
}
