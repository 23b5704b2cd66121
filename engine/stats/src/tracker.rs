// SPDX-License-Identifier: Apache-2.0
//! Finds duplicates and reordering by the 32-bit sequence numbers of one sending worker, exactly within a window.
//!
//! Where several queues receive the packets of one sender, the order is not known between queues: they are read at
//! different times. A packet is then out of order if a higher one came before it in its own queue; what was received
//! before is known over all of them.

/// How far behind the highest sequence number a packet may be and still be known as new or duplicate.
pub const WINDOW: usize = 4096;

/// Window where several queues receive: as many packets may wait in one of them while another is read.
pub const WIDE_WINDOW: usize = 32_768;

/// How a packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The sequence number is higher than all before.
    InOrder,
    /// The sequence number is higher than all before, and numbers below it are missing.
    AfterGap,
    /// The packet was missing, and came before no later packet of its own queue: the order between queues is not known.
    BetweenQueues,
    /// The sequence number is higher than all before by more than the window: a jump rather than a loss.
    TooHigh,
    /// A higher one was received before.
    OutOfOrder,
    /// The sequence number is further back than the window. The packet is taken for new, since a duplicate cannot be recognized there.
    TooLow,
    /// The packet was received before.
    Duplicate,
}

/// The receiver's memory of one stream from one sending worker.
#[derive(Clone, Debug)]
pub struct Tracker {
    /// Highest sequence number so far, extended to 64 bits, and 1 more.
    next: u64,
    /// A bit for each of the last sequence numbers below `next`, at (number modulo the window): received.
    window: Box<[u64]>,
    /// By how much the number of missing packets has changed since it was last taken.
    missing: i64,
}

/// What one of several queues has received of a sender: one more than the highest sequence number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue {
    next: u64,
}

impl Tracker {
    /// A tracker that has received nothing. The window is a power of two of at least 64.
    pub fn new(window: usize) -> Self {
        debug_assert!(window.is_power_of_two() && window >= 64);
        Self { next: 0, window: vec![0; window / 64].into(), missing: 0 }
    }

    /// Memory that one takes.
    pub const fn bytes(window: usize) -> usize {
        size_of::<Self>() + window / 8
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
        match self.number(sequence) {
            number if number < self.next => self.receive_below(number),
            number => self.receive_ahead(number),
        }
    }

    /// Takes note of packets that follow each other, if they are in order and no more than the window; else of none.
    #[inline]
    pub fn receive_in_order(&mut self, first: u32, count: u32) -> bool {
        if first != self.next as u32 || u64::from(count) > self.width() {
            return false;
        }
        let end = self.next + u64::from(count);
        while self.next < end {
            // As many as there are in one word.
            let many = (end - self.next).min(64 - self.next % 64);
            let word = self.word(self.next);
            self.window[word] |= (u64::MAX >> (64 - many)) << (self.next % 64);
            self.next += many;
        }
        true
    }

    /// Takes note of a packet that one of several queues received.
    #[inline]
    pub fn receive_from(&mut self, queue: &mut Queue, sequence: u32) -> Arrival {
        let number = self.number(sequence);
        let arrival = self.receive(sequence);
        let behind = number < queue.next;
        queue.next = queue.next.max(number + 1);
        match arrival {
            Arrival::OutOfOrder if !behind => Arrival::BetweenQueues,
            arrival => arrival,
        }
    }

    /// By how much the number of missing packets has changed since the last call: numbers below the highest that were not received. It
    /// changes with all arrivals but those in order and duplicates.
    pub fn take_missing(&mut self) -> i64 {
        std::mem::take(&mut self.missing)
    }

    /// The sequence number, extended to 64 bits.
    #[inline]
    fn number(&self, sequence: u32) -> u64 {
        let offset = sequence.wrapping_sub(self.next as u32) as i32;
        // Half the sequence space before the first packet: it can only be ahead.
        self.next.checked_add_signed(i64::from(offset)).unwrap_or(u64::from(sequence))
    }

    fn receive_below(&mut self, number: u64) -> Arrival {
        if number + self.width() < self.next {
            self.missing -= 1; // or a duplicate
            Arrival::TooLow
        } else if self.is_set(number) {
            Arrival::Duplicate
        } else {
            self.set(number);
            self.missing -= 1;
            Arrival::OutOfOrder
        }
    }

    fn receive_ahead(&mut self, number: u64) -> Arrival {
        let far = number - self.next >= self.width();
        if far {
            self.window.fill(0);
        } else {
            for skipped in self.next..number {
                self.clear(skipped);
            }
        }
        self.set(number);
        self.missing += (number - self.next).cast_signed();
        self.next = number + 1;
        if far { Arrival::TooHigh } else { Arrival::AfterGap }
    }

    #[inline]
    fn width(&self) -> u64 {
        self.window.len() as u64 * 64
    }

    #[inline]
    fn word(&self, number: u64) -> usize {
        (number / 64) as usize & (self.window.len() - 1)
    }

    fn is_set(&self, number: u64) -> bool {
        self.window[self.word(number)] & bit(number) != 0
    }

    #[inline]
    fn set(&mut self, number: u64) {
        self.window[self.word(number)] |= bit(number);
    }

    fn clear(&mut self, number: u64) {
        self.window[self.word(number)] &= !bit(number);
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// A tracker by the definitions, with all the memory that takes.
    #[derive(Default)]
    struct Model {
        seen: HashSet<u64>,
        next: u64,
        queues: [u64; 3],
    }

    impl Model {
        fn receive(&mut self, number: u64) -> Arrival {
            let new = self.seen.insert(number);
            let window = WINDOW as u64;
            if number >= self.next {
                let skipped = number - self.next;
                self.next = number + 1;
                match skipped {
                    0 => Arrival::InOrder,
                    skipped if skipped >= window => Arrival::TooHigh,
                    _ => Arrival::AfterGap,
                }
            } else if number + window < self.next {
                Arrival::TooLow
            } else if new {
                Arrival::OutOfOrder
            } else {
                Arrival::Duplicate
            }
        }

        /// Numbers below the highest that were not received.
        fn missing(&self) -> i64 {
            (0..self.next).filter(|number| !self.seen.contains(number)).count() as i64
        }

        fn receive_from(&mut self, queue: usize, number: u64) -> Arrival {
            let before = self.queues[queue];
            self.queues[queue] = before.max(number + 1);
            match self.receive(number) {
                Arrival::OutOfOrder if number >= before => Arrival::BetweenQueues,
                arrival => arrival,
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
            let (mut tracker, mut model) = (Tracker::new(WINDOW), Model::default());
            let mut remembered = true;
            for number in numbers {
                let arrival = tracker.receive(number as u32);
                prop_assert_eq!(arrival, model.receive(number), "{}", number);
                remembered &= arrival != Arrival::TooLow;
            }
            // What is too far back is taken for new each time it comes.
            prop_assert!(!remembered || tracker.take_missing() == model.missing());
        }

        #[test]
        fn many_in_order_are_as_one_after_the_other(
            numbers in any_numbers(), many in prop::collection::vec((0usize..3000, 1u32..200), 1..20),
        ) {
            let (mut one, mut all) = (Tracker::new(WINDOW), Tracker::new(WINDOW));
            for (index, number) in numbers.into_iter().enumerate() {
                prop_assert_eq!(one.receive(number as u32), all.receive(number as u32));
                for (_, count) in many.iter().filter(|(at, _)| *at == index) {
                    let first = one.next as u32;
                    prop_assert!(!all.receive_in_order(first.wrapping_add(1), *count));
                    prop_assert!(!all.receive_in_order(first.wrapping_sub(1), *count));
                    prop_assert!(all.receive_in_order(first, *count));
                    prop_assert!((0..*count).all(|n| one.receive(first + n) == Arrival::InOrder));
                }
                prop_assert_eq!((one.next, &one.window, one.missing), (all.next, &all.window, all.missing));
            }
            prop_assert!(!all.receive_in_order(all.next as u32, WINDOW as u32 + 1));
        }

        #[test]
        fn agrees_across_the_wrap(numbers in any_numbers()) {
            let base = (1u64 << 32) - 2000;
            let mut tracker = Tracker { next: base, ..Tracker::new(WINDOW) };
            let mut model = Model { next: base, ..Model::default() };
            for number in numbers {
                let number = base + number;
                prop_assert_eq!(tracker.receive(number as u32), model.receive(number), "{}", number);
            }
        }

        #[test]
        fn queues_are_in_order_by_themselves(numbers in any_numbers(), queues in prop::collection::vec(0usize..3, 3000)) {
            let (mut tracker, mut model) = (Tracker::new(WINDOW), Model::default());
            let mut own = [Queue::default(); 3];
            for (number, queue) in numbers.into_iter().zip(queues) {
                let got = tracker.receive_from(&mut own[queue], number as u32);
                prop_assert_eq!(got, model.receive_from(queue, number), "{}", number);
            }
        }

        #[test]
        fn any_sequence_is_taken_without_a_panic(sequences: Vec<u32>) {
            let mut tracker = Tracker::new(WINDOW);
            for sequence in sequences {
                tracker.receive(sequence);
            }
        }
    }
}
