// SPDX-License-Identifier: Apache-2.0
//! Count, mean, variance, least and greatest of durations, one at a time (Welford) and added up over workers (Chan).

/// Moments of durations in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// The sum of the squares of their distances from the mean.
    squares: f64,
    /// The least; 0 if there is none.
    pub min_ns: u64,
    /// The greatest.
    pub max_ns: u64,
}

impl Moments {
    /// Takes a duration in.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        let distance = ns as f64 - self.mean_ns;
        self.mean_ns += distance / self.count as f64;
        self.squares += distance * (ns as f64 - self.mean_ns);
    }

    /// The moments of all durations of both.
    pub fn with(self, other: Self) -> Self {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other } else { self };
        }
        let count = self.count + other.count;
        let distance = other.mean_ns - self.mean_ns;
        let part = other.count as f64 / count as f64;
        Self {
            count,
            mean_ns: self.mean_ns + distance * part,
            squares: self.squares + other.squares + distance * distance * part * self.count as f64,
            min_ns: self.min_ns.min(other.min_ns),
            max_ns: self.max_ns.max(other.max_ns),
        }
    }

    /// The mean square distance from the mean.
    pub fn variance_ns2(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.squares / self.count as f64 }
    }

    /// As numbers that fit into atomics.
    pub(crate) fn words(&self) -> [u64; 5] {
        [self.count, self.mean_ns.to_bits(), self.squares.to_bits(), self.min_ns, self.max_ns]
    }

    /// From such numbers.
    pub(crate) fn of(words: [u64; 5]) -> Self {
        let [count, mean, squares, min_ns, max_ns] = words;
        Self { count, mean_ns: f64::from_bits(mean), squares: f64::from_bits(squares), min_ns, max_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Moments {
        let mut moments = Moments::default();
        values.iter().for_each(|v| moments.add(*v));
        moments
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0)
    }

    proptest! {
        #[test]
        fn they_are_those_of_the_values_however_they_are_shared_out(
            values in prop::collection::vec(0u64..1_000_000_000, 1..200), cut in 0usize..200,
        ) {
            let (a, b) = values.split_at(cut.min(values.len()));
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            let variance = values.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>() / values.len() as f64;
            for got in [of(&values), of(a).with(of(b))] {
                prop_assert_eq!(got.count, values.len() as u64);
                prop_assert_eq!((got.min_ns, got.max_ns), (*values.iter().min().unwrap(), *values.iter().max().unwrap()));
                prop_assert!(near(got.mean_ns, mean) && near(got.variance_ns2(), variance), "{:?} {} {}", got, mean, variance);
            }
        }
    }

    #[test]
    fn nothing_has_no_moments() {
        assert_eq!((Moments::default().variance_ns2(), Moments::default().with(of(&[3])).mean_ns), (0.0, 3.0));
    }
}
