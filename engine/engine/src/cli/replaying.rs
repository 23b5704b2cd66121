// SPDX-License-Identifier: Apache-2.0
//! A replay on the simulator's virtual clock.
use crate::datapath::{ReadError, ReplaySpec, Rewrite};
use spate_net::Trailer;
use spate_replay::{Seal, Speed, Tape, Tempo};
use spate_stateless::{Rate, StreamTiming};

/// A capture being replayed: its next packet is read already.
pub struct Replaying {
    /// Index of its stream in the plan.
    pub stream: usize,
    /// Its packet's number.
    pub number: u64,
    flow: bool,
    tape: Tape,
    tempo: Tempo,
    frame: Vec<u8>,
    seal: Seal,
    over: bool,
}

impl Replaying {
    /// Reads the first packet.
    pub fn new(
        stream: usize,
        flow: bool,
        timing: &StreamTiming,
        rate: Rate,
        spec: &ReplaySpec,
    ) -> Result<Self, ReadError> {
        let mut this = Self {
            stream,
            number: 0,
            flow,
            tape: Tape::new(&spec.capture.source, spec.gap, &spec.rewrite, spec.loops)?,
            tempo: Tempo::new(timing.start_delay_ns, speed_of(rate), spec.min_gap_ns),
            frame: Vec::new(),
            seal: Seal::NOTHING,
            over: false,
        };
        this.read()?;
        Ok(this)
    }

    /// When its packet is due.
    pub fn due_ns(&self) -> Option<u64> {
        if self.over { None } else { self.tempo.due_ns() }
    }

    /// From an instant on it goes at another rate.
    pub fn change(&mut self, at_ns: u64, rate: Rate) {
        self.tempo.change(at_ns, Some(speed_of(rate)));
    }

    /// Completes its packet into `out`, and reads the next one.
    pub fn take(&mut self, stamp: Trailer, out: &mut Vec<u8>) -> Result<(), ReadError> {
        std::mem::swap(&mut self.frame, out);
        Rewrite::seal(self.flow, self.seal, Trailer { sequence: self.number as u32, ..stamp }, out);
        self.number += 1;
        self.read()
    }

    fn read(&mut self) -> Result<(), ReadError> {
        match self.tape.next(&mut self.frame)? {
            Some((gap, seal)) => {
                if self.number > 0 {
                    self.tempo.go_on(gap);
                }
                self.seal = seal;
            }
            None => self.over = true,
        }
        Ok(())
    }
}

fn speed_of(rate: Rate) -> Speed {
    Speed { distance: rate.packets(), nanoseconds: rate.nanoseconds() }
}
