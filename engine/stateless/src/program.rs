// SPDX-License-Identifier: Apache-2.0
//! A field program: variables, and where their values are written. Compiled once, run for every packet.
use crate::WorkerShare;
use crate::sequence::{Compiled, Kind, Sequence, hash, spread};

/// Variables of a program at most.
pub const MAX_VARIABLES: usize = 32;
/// Writes of a program at most.
pub const MAX_WRITES: usize = 64;
/// Packets whose values are computed at once.
pub(crate) const LANES: usize = 64;

/// A variable: packet n of a stream gets its n-th value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its values.
    pub sequence: Sequence,
    /// The variable (by index, below this one's) that must wrap for this one to step; none: it steps with each packet.
    pub after: Option<usize>,
    /// The sequence starts again after this many steps; 0 for never.
    pub limit: u64,
    /// Every worker goes through the whole sequence by itself.
    pub per_worker: bool,
}

/// The position a value is written to: `((value + add) << shift) & mask`, modulo 2^64; other bits stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Index of the variable.
    pub variable: usize,
    /// First byte, from the start of the frame.
    pub offset: usize,
    /// 1, 2, 3, 4, 6 or 8 bytes.
    pub size: usize,
    /// Added before the shift.
    pub add: u64,
    /// Bits to the left; to the right if negative.
    pub shift: i32,
    /// Which bits are written; 0 for all.
    pub mask: u64,
    /// Lowest byte first.
    pub little_endian: bool,
}

/// What varies in a stream's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldProgram {
    /// In an order in which each stands behind the one it comes after.
    pub variables: Vec<Variable>,
    /// In order: the last to write a bit wins.
    pub writes: Vec<Write>,
}

/// Why a program cannot be run. The index is that of the variable or write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// `variables[index]` is wrong.
    #[error("variables[{index}]: {problem}")]
    Variable {
        /// Which one.
        index: usize,
        /// What is wrong.
        problem: String,
    },
    /// `writes[index]` is wrong.
    #[error("writes[{index}]: {problem}")]
    Write {
        /// Which one.
        index: usize,
        /// What is wrong.
        problem: String,
    },
    /// More than a program may have.
    #[error("{what}: there are {count}, and at most {most} are allowed")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// How many.
        count: usize,
        /// At most.
        most: usize,
    },
}

/// The variables of a program, ready to be computed.
#[derive(Clone, Debug)]
pub(crate) struct Variables {
    all: Box<[Ready]>,
}

#[derive(Clone, Debug)]
struct Ready {
    sequence: Compiled,
    after: Option<usize>,
    per_worker: bool,
    /// Whether positions can be stepped through: a counter or a list that steps with each packet and never starts again.
    simple: bool,
}

impl Variables {
    pub(crate) fn new(variables: &[Variable]) -> Result<Self, ProgramError> {
        if variables.len() > MAX_VARIABLES {
            return Err(ProgramError::TooMany { what: "variables", count: variables.len(), most: MAX_VARIABLES });
        }
        let mut all: Vec<Ready> = Vec::new();
        for (index, v) in variables.iter().enumerate() {
            let wrong = |problem: &str| ProgramError::Variable { index, problem: problem.into() };
            let sequence = Compiled::new(&v.sequence, v.limit, index).map_err(wrong)?;
            let drawn = matches!(sequence.kind, Kind::Random { .. } | Kind::Drawn { .. });
            if let Some(after) = v.after {
                let Some(before) = all.get(after) else {
                    return Err(wrong("after must name a variable that stands before it"));
                };
                if !before.sequence.wraps() {
                    return Err(wrong("after names a variable that never wraps: give that one a limit"));
                }
                if v.per_worker != before.per_worker {
                    return Err(wrong("it and the variable it comes after must both be per worker, or neither"));
                }
            }
            let simple = v.after.is_none() && (v.limit == 0 || drawn);
            all.push(Ready { sequence, after: v.after, per_worker: v.per_worker, simple });
        }
        Ok(Self { all: all.into() })
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Sum of a variable's values over how many, for its mean.
    pub(crate) fn mean(&self, variable: usize) -> (u128, u128) {
        self.all[variable].sequence.mean()
    }

    pub(crate) fn bounds(&self, variable: usize) -> (u64, u64) {
        self.all[variable].sequence.bounds()
    }
}

/// Where one worker stands in a program.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    /// The number of the next packet, over all workers, and among this worker's.
    number: u64,
    local: u64,
    stride: u64,
    /// By variable: its position at the next packet. Kept for those that can be stepped through.
    positions: Box<[u64]>,
    /// By variable: how far a packet moves it, below its count.
    steps: Box<[u64]>,
}

/// Values of a burst, by variable.
pub(crate) type Values = [[u64; LANES]; MAX_VARIABLES];
/// Sums of a burst's checksums, by checksum.
pub(crate) type Sums = [[u32; LANES]; MAX_SUMS];
/// Checksums of a template that vary and are kept as sums, at most.
pub(crate) const MAX_SUMS: usize = 16;

/// What is worked out for a burst, a lane for each packet. One serves all streams of a worker.
#[derive(Clone, Debug)]
pub struct Lanes {
    pub(crate) columns: Columns,
    /// Lengths of the packets written last, without FCS.
    pub(crate) lens: [u16; LANES],
}

#[derive(Clone, Debug)]
pub(crate) struct Columns {
    pub(crate) values: Box<Values>,
    pub(crate) sums: Box<Sums>,
    /// What the words of one field add to sums.
    pub(crate) parts: [u32; LANES],
}

impl Lanes {
    /// Room for any program.
    pub fn new() -> Self {
        let columns = Columns {
            values: Box::new([[0; LANES]; MAX_VARIABLES]),
            sums: Box::new([[0; LANES]; MAX_SUMS]),
            parts: [0; LANES],
        };
        Self { columns, lens: [0; LANES] }
    }

    /// The lengths without FCS of the packets written last, and of none behind them.
    #[inline]
    pub fn lens(&self) -> &[u16; LANES] {
        &self.lens
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self::new()
    }
}

impl Cursor {
    pub(crate) fn new(variables: &Variables, share: WorkerShare) -> Self {
        let mut this = Self {
            number: 0,
            local: 0,
            stride: share.stride,
            positions: vec![0; variables.len()].into(),
            steps: variables
                .all
                .iter()
                .map(|v| {
                    let step = if v.per_worker { 1 } else { share.stride };
                    if v.sequence.wraps() { step % v.sequence.count() } else { step }
                })
                .collect(),
        };
        this.seek(variables, share.first, 0);
        this
    }

    /// Seeks a packet: its number over all workers, and among this worker's.
    pub(crate) fn seek(&mut self, variables: &Variables, number: u64, local: u64) {
        self.number = number;
        self.local = local;
        for (position, v) in self.positions.iter_mut().zip(&variables.all).filter(|(_, v)| v.simple) {
            *position = v.sequence.place(if v.per_worker { local } else { number }).0;
        }
    }

    /// Computes the values of the next `count` packets, at most `LANES`, the first of which has this number.
    // Once for each burst, and a function of its own for its registers' sake.
    #[inline(never)]
    pub(crate) fn fill(&mut self, variables: &Variables, number: u64, local: u64, count: usize, values: &mut Values) {
        if number != self.number || local != self.local {
            self.seek(variables, number, local);
        }
        for (index, v) in variables.all.iter().enumerate() {
            let lanes = &mut values[index][..count];
            if v.simple {
                self.positions[index] = step_through(&v.sequence, lanes, self.positions[index], self.steps[index]);
            } else {
                for (lane, value) in lanes.iter_mut().enumerate() {
                    let n = if v.per_worker { local + lane as u64 } else { number + lane as u64 * self.stride };
                    *value = v.sequence.value(variables.place(index, n).0);
                }
            }
        }
        self.number = number + count as u64 * self.stride;
        self.local = local + count as u64;
    }
}

impl Variables {
    /// The position of a variable at packet n, and how often it has wrapped.
    fn place(&self, index: usize, n: u64) -> (u64, u64) {
        let v = &self.all[index];
        let steps = match v.after {
            Some(before) => self.place(before, n).1,
            None => n,
        };
        v.sequence.place(steps)
    }
}

/// Values at positions `position`, `position + step`, ... modulo the sequence's count. Returns the position after them.
#[inline]
fn step_through(sequence: &Compiled, lanes: &mut [u64], mut position: u64, step: u64) -> u64 {
    let count = sequence.count();
    // An unbounded sequence wraps at 2^64, by itself.
    let next = |position: u64| {
        let far = position.wrapping_add(step);
        if count != 0 && (far >= count || far < position) { far.wrapping_sub(count) } else { far }
    };
    match &sequence.kind {
        Kind::Random { min, span, key } if count == 0 => {
            for lane in lanes {
                *lane = min.wrapping_add(spread(hash(*key, position), *span));
                position = position.wrapping_add(step);
            }
        }
        Kind::Counter { base, step: by } => {
            for lane in lanes {
                *lane = base.wrapping_add(position.wrapping_mul(*by));
                position = next(position);
            }
        }
        Kind::List { values } => {
            for lane in lanes {
                *lane = values[position as usize];
                position = next(position);
            }
        }
        _ => {
            for lane in lanes {
                *lane = sequence.value(position);
                position = next(position);
            }
        }
    }
    position
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ListOrder;
    use proptest::prelude::*;

    fn counter(min: u64, max: u64, after: Option<usize>, limit: u64) -> Variable {
        let sequence = Sequence::Counter { min, max, step: 1, first: min, down: false };
        Variable { sequence, after, limit, per_worker: false }
    }

    fn run(variables: &[Variable], share: WorkerShare, count: usize) -> Vec<Vec<u64>> {
        let compiled = Variables::new(variables).unwrap();
        let mut cursor = Cursor::new(&compiled, share);
        let mut lanes = Lanes::new();
        let mut rows = Vec::new();
        let mut local = 0;
        while rows.len() < count {
            let chunk = (count - rows.len()).min(7);
            cursor.fill(&compiled, share.first + local * share.stride, local, chunk, &mut lanes.columns.values);
            rows.extend(
                (0..chunk).map(|lane| lanes.columns.values[..compiled.len()].iter().map(|v| v[lane]).collect()),
            );
            local += chunk as u64;
        }
        rows
    }

    const WHOLE: WorkerShare = WorkerShare { first: 0, stride: 1 };

    #[test]
    fn a_variable_steps_when_the_one_before_it_wraps() {
        let rows = run(&[counter(1, 2, None, 0), counter(5, 6, Some(0), 0)], WHOLE, 6);
        assert_eq!(rows, [[1, 5], [2, 5], [1, 6], [2, 6], [1, 5], [2, 5]]);
    }

    /// A tuple generator: clients by ports, with a limit of flows.
    #[test]
    fn a_limit_starts_the_whole_chain_again() {
        let rows = run(&[counter(1, 2, None, 3), counter(5, 6, Some(0), 0)], WHOLE, 6);
        assert_eq!(rows, [[1, 5], [2, 5], [1, 6], [1, 5], [2, 5], [1, 6]]);
    }

    #[test]
    fn equal_seeds_at_different_places_differ() {
        let random = Variable {
            sequence: Sequence::Random { min: 0, max: u64::MAX, seed: 1 },
            after: None,
            limit: 0,
            per_worker: false,
        };
        let rows = run(&[random.clone(), random], WHOLE, 50);
        assert!(rows.iter().all(|r| r[0] != r[1]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let random = Variable {
            sequence: Sequence::Random { min: 0, max: 9, seed: 1 },
            after: None,
            limit: 0,
            per_worker: false,
        };
        for (variables, word) in [
            (vec![counter(0, 1, Some(0), 0)], "stands before it"),
            (vec![random, counter(0, 1, Some(0), 0)], "never wraps"),
            (
                vec![counter(0, 1, None, 0), Variable { per_worker: true, ..counter(0, 1, Some(0), 0) }],
                "both be per worker",
            ),
            (vec![counter(0, 1, None, 0); 33], "at most 32"),
        ] {
            assert!(Variables::new(&variables).unwrap_err().to_string().contains(word));
        }
    }

    prop_compose! {
        fn any_sequence()(kind in 0..3, min in 0u64..20, length in 0u64..20, step in 1u64..5, up in 0u64..20,
            down: bool, seed in 0u64..3, values in prop::collection::vec(0u64..100, 1..9), order in 0usize..3) -> Sequence {
            match kind {
                0 => Sequence::Counter { min, max: min + length, step, first: min + up % (length / step + 1) * step, down },
                1 => Sequence::Random { min, max: min + length, seed },
                _ => Sequence::List { values, seed,
                    order: [ListOrder::Forward, ListOrder::Backward, ListOrder::Random][order] },
            }
        }
    }

    fn any_program() -> impl Strategy<Value = Vec<Variable>> {
        prop::collection::vec((any_sequence(), any::<bool>(), 0u64..12, any::<bool>()), 1..5).prop_map(|rows| {
            let mut all: Vec<Variable> = Vec::new();
            for (sequence, chained, limit, per_worker) in rows {
                let after = if chained { all.len().checked_sub(1) } else { None };
                let per_worker = after.map_or(per_worker, |a| all[a].per_worker);
                all.push(Variable { sequence, after, limit: limit.max(1), per_worker });
            }
            all
        })
    }

    proptest! {
        #[test]
        fn all_workers_together_send_what_one_would(mut program in any_program(), stride in 1u64..6, unlimited: bool) {
            for v in &mut program {
                v.per_worker = false;
                if unlimited && v.after.is_none() && !matches!(v.sequence, Sequence::Random { .. }) { v.limit = 0; }
            }
            prop_assume!(Variables::new(&program).is_ok());
            let whole = run(&program, WHOLE, 120);
            for first in 0..stride {
                let part = run(&program, WorkerShare { first, stride }, (120 - first).div_ceil(stride) as usize);
                let expected: Vec<_> = whole.iter().skip(first as usize).step_by(stride as usize).cloned().collect();
                prop_assert_eq!(part, expected);
            }
        }

        #[test]
        fn what_is_not_split_is_the_same_on_every_worker(mut program in any_program(), stride in 1u64..6, first in 0u64..6) {
            for v in &mut program {
                v.per_worker = true;
            }
            let first = first % stride;
            prop_assert_eq!(run(&program, WorkerShare { first, stride }, 60), run(&program, WHOLE, 60));
        }
    }
}
