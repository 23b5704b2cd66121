// SPDX-License-Identifier: Apache-2.0
//! Tells duplicates and reordering from the 32-bit sequence numbers of one sending worker, exactly within a window.

/// How far behind the highest sequence number a packet may be and still be known as new or duplicate.
pub const WINDOW: u64 = 4096;

const WORDS: usize = (WINDOW / 64) as usize;

/// How a packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Its sequence number is higher than all before.
    InOrder,
    /// A higher one was received before. Further back than the window, a duplicate cannot be told and counts here.
    OutOfOrder,
    /// It was received before.
    Duplicate,
}

/// The receiver's memory of one stream from one sending worker.
#[derive(Clone, Debug)]
pub struct Tracker {
    /// One more than the highest sequence number so far, extended to 64 bits.
    next: u64,
    /// A bit for each of the last WINDOW sequence numbers below `next`, at (number modulo WINDOW): received.
    window: [u64; WORDS],
}

impl Tracker {
    /// Nothing received yet.
    pub const fn new() -> Self {
        Self { next: 0, window: [0; WORDS] }
    }

    /// Takes note of a packet.
    #[inline]
    pub fn receive(&mut self, sequence: u32) -> Arrival {
        let offset = sequence.wrapping_sub(self.next as u32) as i32;
        if offset == 0 {
            // All but always.
            self.set(self.next);
            self.next += 1;
            return Arrival::InOrder;
        }
        match self.next.checked_add_signed(i64::from(offset)) {
            Some(number) if offset < 0 => self.receive_below(number),
            Some(number) => self.receive_ahead(number),
            // Half the sequence space before the first packet: it can only be ahead.
            None => self.receive_ahead(u64::from(sequence)),
        }
    }

    fn receive_below(&mut self, number: u64) -> Arrival {
        if number + WINDOW < self.next {
            Arrival::OutOfOrder
        } else if self.is_set(number) {
            Arrival::Duplicate
        } else {
            self.set(number);
            Arrival::OutOfOrder
        }
    }

    fn receive_ahead(&mut self, number: u64) -> Arrival {
        if number - self.next >= WINDOW {
            self.window.fill(0);
        } else {
            for skipped in self.next..number {
                self.clear(skipped);
            }
        }
        self.set(number);
        self.next = number + 1;
        Arrival::InOrder
    }

    fn is_set(&self, number: u64) -> bool {
        self.window[word(number)] & bit(number) != 0
    }

    fn set(&mut self, number: u64) {
        self.window[word(number)] |= bit(number);
    }

    fn clear(&mut self, number: u64) {
        self.window[word(number)] &= !bit(number);
    }
}

impl Default for Tracker {
    fn default() -> Self {
        Self::new()
    }
}

fn word(number: u64) -> usize {
    (number % WINDOW / 64) as usize
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// The same by the definitions, with all the memory it takes.
    #[derive(Default)]
    struct Model {
        seen: HashSet<u64>,
        next: u64,
    }

    impl Model {
        fn receive(&mut self, number: u64) -> Arrival {
            let new = self.seen.insert(number);
            if number >= self.next {
                self.next = number + 1;
                Arrival::InOrder
            } else if new || number + WINDOW < self.next {
                Arrival::OutOfOrder
            } else {
                Arrival::Duplicate
            }
        }
    }

    /// Sequences as networks make them: mostly in order, with losses, jumps, repetitions and packets from behind.
    fn any_numbers() -> impl Strategy<Value = Vec<u64>> {
        let step = prop_oneof![
            20 => Just(1i64), 3 => -5i64..5, 2 => -5000i64..0, 1 => 0i64..200, 1 => 3900i64..9000,
        ];
        (prop_oneof![Just(0u64), 0u64..100], prop::collection::vec(step, 0..3000)).prop_map(|(start, steps)| {
            let mut at = start;
            steps
                .into_iter()
                .map(|step| {
                    at = at.saturating_add_signed(step);
                    at
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn agrees_with_the_model(numbers in any_numbers()) {
            let (mut tracker, mut model) = (Tracker::new(), Model::default());
            for number in numbers {
                prop_assert_eq!(tracker.receive(number as u32), model.receive(number), "{}", number);
            }
        }

        #[test]
        fn agrees_across_the_wrap(numbers in any_numbers()) {
            let base = (1u64 << 32) - 2000;
            let mut tracker = Tracker { next: base, window: [0; WORDS] };
            let mut model = Model { next: base, ..Model::default() };
            for number in numbers {
                let number = base + number;
                prop_assert_eq!(tracker.receive(number as u32), model.receive(number), "{}", number);
            }
        }

        #[test]
        fn any_sequence_is_taken_without_a_panic(sequences: Vec<u32>) {
            let mut tracker = Tracker::new();
            for sequence in sequences {
                tracker.receive(sequence);
            }
        }
    }
}
