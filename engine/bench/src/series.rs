// SPDX-License-Identifier: Apache-2.0
//! A figure that several rounds gave.

/// One figure of each round.
#[derive(Debug, Default)]
pub struct Series(Vec<f64>);

impl Series {
    /// Adds the figure of another round.
    pub fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// Half the distance from the lowest to the highest, in percent of the median.
    pub fn spread(&self) -> f64 {
        let highest = self.0.iter().copied().fold(f64::MIN, f64::max);
        let lowest = self.0.iter().copied().fold(f64::MAX, f64::min);
        (highest - lowest) / 2.0 / self.median() * 100.0
    }
}

/// Number of digits behind the point.
pub fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}
