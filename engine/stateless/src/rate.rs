// SPDX-License-Identifier: Apache-2.0
//! How fast a stream transmits, as an exact rational number.

use num_integer::gcd;

/// Packets per nanosecond as a reduced fraction; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    packets: u64,
    nanoseconds: u64,
}

/// Why a rate cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Zero packets, or in zero time.
    #[error("the rate must be greater than zero and finite")]
    NotPositive,
    /// The reduced fraction does not fit.
    #[error("the rate is no fraction of two 64-bit numbers: use fewer digits")]
    TooFine,
}

impl Rate {
    /// `packets` in `nanoseconds`.
    pub fn new(packets: u128, nanoseconds: u128) -> Result<Self, RateError> {
        if packets == 0 || nanoseconds == 0 {
            return Err(RateError::NotPositive);
        }
        let divisor = gcd(packets, nanoseconds);
        Ok(Self {
            packets: u64::try_from(packets / divisor).map_err(|_| RateError::TooFine)?,
            nanoseconds: u64::try_from(nanoseconds / divisor).map_err(|_| RateError::TooFine)?,
        })
    }

    /// `numerator / denominator` packets a second.
    pub fn packets_per_second(numerator: u64, denominator: u64) -> Result<Self, RateError> {
        Self::new(u128::from(numerator), u128::from(denominator) * 1_000_000_000)
    }

    /// `numerator / denominator` bits a second in packets of `packet_bits` bits each (with whatever overhead is meant).
    pub fn bits_per_second(numerator: u64, denominator: u64, packet_bits: u32) -> Result<Self, RateError> {
        Self::new(u128::from(numerator), u128::from(denominator) * u128::from(packet_bits) * 1_000_000_000)
    }

    /// This rate times `numerator / denominator`.
    pub fn scaled(self, numerator: u64, denominator: u64) -> Result<Self, RateError> {
        Self::new(
            u128::from(self.packets) * u128::from(numerator),
            u128::from(self.nanoseconds) * u128::from(denominator),
        )
    }

    /// This rate times `now / before`, of which the quotient must fit, too.
    pub fn in_proportion(self, now: Self, before: Self) -> Result<Self, RateError> {
        let factor = Self::new(
            u128::from(now.packets) * u128::from(before.nanoseconds),
            u128::from(now.nanoseconds) * u128::from(before.packets),
        )?;
        self.scaled(factor.packets, factor.nanoseconds)
    }

    /// Numerator: packets.
    pub fn packets(self) -> u64 {
        self.packets
    }

    /// Denominator: nanoseconds.
    pub fn nanoseconds(self) -> u64 {
        self.nanoseconds
    }
}
