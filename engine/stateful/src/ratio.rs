// SPDX-License-Identifier: Apache-2.0
//! Fractions in lowest terms: rates of flows, factors of rates, what is asked of ports.
use core::fmt;

use num_integer::{Integer, gcd};

/// A fraction in lowest terms: equal numbers are equal values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ratio<T = u64> {
    numerator: T,
    denominator: T,
}

impl<T: Integer + Copy> Ratio<T> {
    /// `numerator / denominator`.
    ///
    /// # Panics
    /// If the denominator is 0.
    pub fn new(numerator: T, denominator: T) -> Self {
        Self::checked_new(numerator, denominator).expect("a denominator of 0")
    }

    /// `numerator / denominator`; none if the denominator is 0.
    pub fn checked_new(numerator: T, denominator: T) -> Option<Self> {
        if denominator == T::zero() {
            return None;
        }
        let divisor = gcd(numerator, denominator);
        Some(Self { numerator: numerator / divisor, denominator: denominator / divisor })
    }

    /// The upper number.
    #[inline]
    pub fn numerator(self) -> T {
        self.numerator
    }

    /// The lower number, at least 1.
    #[inline]
    pub fn denominator(self) -> T {
        self.denominator
    }

    /// Whether it is 0.
    #[inline]
    pub fn is_zero(self) -> bool {
        self.numerator == T::zero()
    }

    /// Rounded down.
    pub fn floor(self) -> T {
        self.numerator / self.denominator
    }
}

impl Ratio {
    /// Nothing.
    pub const ZERO: Self = Self { numerator: 0, denominator: 1 };
    /// The whole.
    pub const ONE: Self = Self { numerator: 1, denominator: 1 };

    /// The product; none if 64 bits do not hold it.
    pub fn checked_mul(self, other: Self) -> Option<Self> {
        self.wide().checked_mul(other.wide())?.narrow()
    }

    /// The quotient; none if 64 bits do not hold it, or the divisor is 0.
    pub fn checked_div(self, other: Self) -> Option<Self> {
        self.checked_mul(Self::checked_new(other.denominator, other.numerator)?)
    }

    /// The same number, with room for products.
    pub fn wide(self) -> Ratio<u128> {
        Ratio { numerator: self.numerator.into(), denominator: self.denominator.into() }
    }
}

impl Ratio<u128> {
    /// The product; none if 128 bits do not hold it before it is in lowest terms.
    pub fn checked_mul(self, other: Self) -> Option<Self> {
        let numerator = self.numerator.checked_mul(other.numerator)?;
        Self::checked_new(numerator, self.denominator.checked_mul(other.denominator)?)
    }

    /// The product, rounded down; where 128 bits do not hold it, the first fraction is rounded down before.
    pub fn floor_of_product(self, other: Self) -> u128 {
        match self.checked_mul(other) {
            Some(product) => product.floor(),
            None => self.floor().saturating_mul(other.numerator) / other.denominator,
        }
    }

    fn narrow(self) -> Option<Ratio> {
        let (numerator, denominator) = (self.numerator.try_into().ok()?, self.denominator.try_into().ok()?);
        Some(Ratio { numerator, denominator })
    }
}

impl<T: fmt::Display> fmt::Debug for Ratio<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_in_lowest_terms_and_their_denominator_is_not_0() {
        assert_eq!(Ratio::new(6u64, 4), Ratio::new(3, 2));
        assert_eq!(Ratio::new(0u64, 7), Ratio::ZERO);
        assert_eq!(Ratio::checked_new(7u64, 0), None);
        assert_eq!(Ratio::checked_new(0u128, 0), None);
        assert_eq!(format!("{:?}", Ratio::new(10u64, 4)), "5/2");
    }

    #[test]
    fn products_are_exact_or_none() {
        assert_eq!(Ratio::new(u64::MAX, 2).checked_mul(Ratio::new(4, u64::MAX)), Some(Ratio::new(2, 1)));
        assert_eq!(Ratio::new(u64::MAX, 1).checked_mul(Ratio::new(2, 1)), None);
        assert_eq!(Ratio::new(3, 7).checked_div(Ratio::new(3, 7)), Some(Ratio::ONE));
        assert_eq!(Ratio::ONE.checked_div(Ratio::ZERO), None);
        assert_eq!(Ratio::new(u128::MAX, 1).checked_mul(Ratio::new(2, 1)), None);
    }

    #[test]
    fn a_factor_meets_the_exact_rate() {
        // A flow of 1,000 bits each 10^9 s, ten times as often, and 10^9 times as often.
        let product = |a: (u128, u128), b: (u128, u128)| Ratio::new(a.0, a.1).floor_of_product(Ratio::new(b.0, b.1));
        assert_eq!(product((1000, 1_000_000_000), (10, 1)), 0);
        assert_eq!(product((1000, 1_000_000_000), (1_000_000_000, 1)), 1000);
        assert_eq!(product((1000, 3), (3, 2)), 500);
        assert_eq!(product((u128::MAX, 1 << 64), (4, 3)), (u128::MAX >> 64) * 4 / 3);
    }
}
