// SPDX-License-Identifier: Apache-2.0
//! Rates: every kind of the contract as exact packets a second, and what they take on the medium.
use contract::{Ratio, rate::Kind};
use std::fmt;

/// Preamble (7), start delimiter (1) and inter-frame gap (12) that go with each frame on the medium (IEEE 802.3).
pub const MEDIUM_OVERHEAD_BYTES: u64 = 20;
/// Frame check sequence.
pub const FCS_BYTES: u64 = 4;

/// Packets a second as a fraction in lowest terms; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketRate {
    numerator: u64,
    denominator: u64,
}

/// Why a rate is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    #[error("missing; set packets_per_second, l1_bits_per_second, l2_bits_per_second or line_percent")]
    Missing,
    #[error("denominator is 0; must be at least 1")]
    ZeroDenominator,
    #[error("is 0; must be greater (to send nothing, disable or pause the stream)")]
    Zero,
    #[error("as packets a second of {frame_bytes}-byte frames it is no fraction of 64-bit numbers; use a rounder rate")]
    TooFine { frame_bytes: usize },
    #[error(
        "is a percentage, and the line rate of port {port} is not known; give the engine --line-rate {port}=RATE (such \
         as {port}=10G) or set a rate in packets or bits"
    )]
    UnknownLineRate { port: String },
}

impl PacketRate {
    pub fn new(numerator: u128, denominator: u128) -> Option<Self> {
        let divisor = gcd(numerator, denominator);
        if divisor == 0 || numerator == 0 {
            return None;
        }
        Some(Self {
            numerator: u64::try_from(numerator / divisor).ok()?,
            denominator: u64::try_from(denominator / divisor).ok()?,
        })
    }

    pub fn numerator(self) -> u64 {
        self.numerator
    }

    pub fn denominator(self) -> u64 {
        self.denominator
    }

    /// This rate times `factor`; `None` if the product is no fraction of 64-bit numbers.
    pub fn times(self, factor: &Ratio) -> Option<Self> {
        // Crosswise first, so that the products stay as small as they can.
        let a = gcd(self.numerator.into(), factor.denominator.into());
        let b = gcd(factor.numerator.into(), self.denominator.into());
        if a == 0 || b == 0 {
            return None;
        }
        Self::new(
            (u128::from(self.numerator) / a) * (u128::from(factor.numerator) / b),
            (u128::from(self.denominator) / b) * (u128::from(factor.denominator) / a),
        )
    }

    /// Bits a second on the medium of frames of `frame_bytes` (without FCS), rounded up.
    pub fn l1_bits(self, frame_bytes: usize) -> u128 {
        (u128::from(self.numerator) * wire_bits(frame_bytes)).div_ceil(self.denominator.into())
    }

    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

impl fmt::Display for PacketRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            d => write!(f, "{}/{d}", self.numerator),
        }
    }
}

/// What is known of the line rate of a stream's transmitting port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRate {
    /// Bits a second.
    Known(u64),
    /// The device does not tell, and nobody else has.
    Unknown,
    /// It will be known where the plan runs (`compile` looks at plans without any device).
    ToldLater,
}

/// The rate in packets a second of frames of `frame_bytes` (without FCS); `None` if that waits for the line rate.
pub fn packet_rate(
    rate: Option<&contract::Rate>,
    frame_bytes: usize,
    port: &str,
    line_rate: LineRate,
) -> Result<Option<PacketRate>, RateError> {
    let kind = rate.and_then(|r| r.kind.as_ref()).ok_or(RateError::Missing)?;
    let (ratio, packets, per) = match kind {
        Kind::PacketsPerSecond(ratio) => (ratio, 1, 1),
        Kind::L1BitsPerSecond(ratio) => (ratio, 1, wire_bits(frame_bytes)),
        Kind::L2BitsPerSecond(ratio) => (ratio, 1, (frame_bytes as u128 + u128::from(FCS_BYTES)) * 8),
        Kind::LinePercent(ratio) => match line_rate {
            LineRate::Known(bits) => (ratio, u128::from(bits), 100 * wire_bits(frame_bytes)),
            LineRate::Unknown => return Err(RateError::UnknownLineRate { port: port.to_owned() }),
            LineRate::ToldLater => return positive(ratio).map(|()| None),
        },
    };
    positive(ratio)?;
    let exact = u128::from(ratio.numerator)
        .checked_mul(packets)
        .zip(u128::from(ratio.denominator).checked_mul(per))
        .and_then(|(numerator, denominator)| PacketRate::new(numerator, denominator));
    exact.map(Some).ok_or(RateError::TooFine { frame_bytes })
}

/// A ratio that is greater than 0.
pub fn positive(ratio: &Ratio) -> Result<(), RateError> {
    match (ratio.numerator, ratio.denominator) {
        (_, 0) => Err(RateError::ZeroDenominator),
        (0, _) => Err(RateError::Zero),
        _ => Ok(()),
    }
}

fn wire_bits(frame_bytes: usize) -> u128 {
    (frame_bytes as u128 + u128::from(FCS_BYTES + MEDIUM_OVERHEAD_BYTES)) * 8
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(kind: Kind) -> contract::Rate {
        contract::Rate { kind: Some(kind) }
    }

    fn ratio(numerator: u64, denominator: u64) -> Ratio {
        Ratio { numerator, denominator }
    }

    #[test]
    fn every_kind_becomes_exact_packets_a_second() {
        let ten_gig = LineRate::Known(10_000_000_000);
        // 60 bytes + FCS: the 64-byte frame, 84 bytes on the medium: 14,880,952 8/21 packets a second at 10 Gbit/s.
        let cases = [
            (Kind::PacketsPerSecond(ratio(1_000_000, 1)), (1_000_000, 1)),
            (Kind::PacketsPerSecond(ratio(2, 6)), (1, 3)),
            (Kind::L1BitsPerSecond(ratio(10_000_000_000, 1)), (312_500_000, 21)),
            (Kind::LinePercent(ratio(100, 1)), (312_500_000, 21)),
            (Kind::LinePercent(ratio(1, 2)), (1_562_500, 21)),
            (Kind::L2BitsPerSecond(ratio(512, 1)), (1, 1)),
        ];
        for (kind, (numerator, denominator)) in cases {
            let got = packet_rate(Some(&rate(kind)), 60, "east", ten_gig).unwrap().unwrap();
            assert_eq!((got.numerator(), got.denominator()), (numerator, denominator), "{kind:?}");
        }
    }

    #[test]
    fn a_rate_that_is_none_says_why() {
        let unknown = LineRate::Unknown;
        let error = |kind| packet_rate(Some(&rate(kind)), 60, "east", unknown).unwrap_err();
        assert_eq!(packet_rate(None, 60, "east", unknown), Err(RateError::Missing));
        assert_eq!(error(Kind::PacketsPerSecond(ratio(0, 1))), RateError::Zero);
        assert_eq!(error(Kind::PacketsPerSecond(ratio(1, 0))), RateError::ZeroDenominator);
        assert_eq!(error(Kind::L1BitsPerSecond(ratio(1, u64::MAX))), RateError::TooFine { frame_bytes: 60 });
        let percent = error(Kind::LinePercent(ratio(80, 1))).to_string();
        assert!(percent.contains("--line-rate east=RATE"), "{percent}");
        let later = packet_rate(Some(&rate(Kind::LinePercent(ratio(80, 1)))), 60, "east", LineRate::ToldLater);
        assert_eq!(later, Ok(None));
    }

    #[test]
    fn line_rate_is_taken_exactly_by_the_rate_that_asks_for_all_of_it() {
        for frame in [60, 61, 590, 1514, 9212] {
            let all = rate(Kind::LinePercent(ratio(100, 1)));
            let packets = packet_rate(Some(&all), frame, "p", LineRate::Known(10_000_000_000)).unwrap().unwrap();
            assert_eq!(packets.l1_bits(frame), 10_000_000_000);
        }
    }

    #[test]
    fn a_factor_multiplies_exactly() {
        let third = PacketRate::new(1, 3).unwrap();
        assert_eq!(third.times(&ratio(3, 2)), PacketRate::new(1, 2));
        assert_eq!(PacketRate::new(u128::from(u64::MAX), 1).unwrap().times(&ratio(2, 1)), None);
    }
}
