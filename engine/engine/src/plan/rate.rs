// SPDX-License-Identifier: Apache-2.0
//! Rates: every kind of the contract as exact packets a second, and what they take on the medium.
use contract::rate::Kind;
use spate_stateful::Ratio;
use spate_stateless::Rate;

use crate::datapath::{LimitUnit, MaxRate};

/// Preamble (7), start delimiter (1) and inter-frame gap (12) that go with each frame on the medium (IEEE 802.3).
pub const MEDIUM_OVERHEAD_BYTES: u64 = 20;
/// Frame check sequence.
pub const FCS_BYTES: u64 = 4;
const NS_PER_SECOND: u128 = 1_000_000_000;

/// Why a rate is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// No kind is set.
    #[error("missing; set packets_per_second, l1_bits_per_second, l2_bits_per_second or line_percent")]
    Missing,
    /// A ratio without a value.
    #[error("denominator is 0; must be at least 1")]
    ZeroDenominator,
    /// A rate of nothing.
    #[error("is 0; must be greater (to send nothing, disable or pause the stream)")]
    Zero,
    /// Its exact value does not fit.
    #[error(
        "as packets a nanosecond of {frame_bytes}-byte frames it is no fraction of 64-bit numbers; use a rounder rate"
    )]
    TooFine {
        /// Without FCS.
        frame_bytes: usize,
    },
    /// A percentage where several ports are meant.
    #[error("is a percentage, and ports differ; set packets_per_second, l1_bits_per_second or l2_bits_per_second")]
    PercentOfAll,
    /// A percentage of an unknown line rate.
    #[error(
        "is a percentage, and the line rate of port {port} is not known; give the engine --line-rate {port}=RATE (such \
         as {port}=10G) or set a rate in packets or bits"
    )]
    UnknownLineRate {
        /// Its name.
        port: String,
    },
}

/// The mean length of frames without FCS: a sum over a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameBytes {
    /// Bytes together,
    pub sum: u128,
    /// of this many frames; at least 1.
    pub count: u128,
}

impl From<usize> for FrameBytes {
    fn from(bytes: usize) -> Self {
        Self { sum: bytes as u128, count: 1 }
    }
}

impl FrameBytes {
    /// Bits of `count` frames, each with this many bytes of overhead.
    fn bits(self, beside: u64) -> u128 {
        (self.sum + self.count * u128::from(beside)) * 8
    }
}

/// Bits a second on the medium of frames of this length, rounded down.
pub fn l1_bits(rate: Rate, frame_bytes: FrameBytes) -> u128 {
    let bits = frame_bytes.bits(FCS_BYTES + MEDIUM_OVERHEAD_BYTES);
    // The count goes first: both factors together may exceed 128 bits only for rates no medium has.
    let packets = u128::from(rate.packets()).saturating_mul(bits / frame_bytes.count).saturating_mul(NS_PER_SECOND);
    let rest = u128::from(rate.packets()).saturating_mul(bits % frame_bytes.count).saturating_mul(NS_PER_SECOND);
    (packets + rest / frame_bytes.count) / u128::from(rate.nanoseconds())
}

/// Packets a second, for people.
pub fn packets_per_second(rate: Rate) -> f64 {
    rate.packets() as f64 * NS_PER_SECOND as f64 / rate.nanoseconds() as f64
}

/// A limit's rate, in the unit that it counts.
pub fn max_rate(rate: &contract::Rate) -> Result<MaxRate, RateError> {
    let (unit, ratio) = match rate.kind.as_ref().ok_or(RateError::Missing)? {
        Kind::PacketsPerSecond(ratio) => (LimitUnit::Packets, ratio),
        Kind::L1BitsPerSecond(ratio) => (LimitUnit::L1Bits, ratio),
        Kind::L2BitsPerSecond(ratio) => (LimitUnit::L2Bits, ratio),
        Kind::LinePercent(_) => return Err(RateError::PercentOfAll),
    };
    Ok(MaxRate { unit, per_second: positive(ratio)? })
}

/// What is known of the line rate of a stream's transmitting port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRate {
    /// Bits a second.
    Known(u64),
    /// Neither the device nor the user has given it.
    Unknown,
    /// The line rate will be known where the plan runs (`compile` looks at plans without any device).
    NotYetKnown,
}

/// The rate in packets a second of frames of this mean length; `None` if that waits for the line rate.
pub fn packet_rate(
    rate: Option<&contract::Rate>,
    frame_bytes: FrameBytes,
    port: &str,
    line_rate: LineRate,
) -> Result<Option<Rate>, RateError> {
    let kind = rate.and_then(|r| r.kind.as_ref()).ok_or(RateError::Missing)?;
    let on_medium = frame_bytes.bits(FCS_BYTES + MEDIUM_OVERHEAD_BYTES);
    let (ratio, packets, per) = match kind {
        Kind::PacketsPerSecond(ratio) => (ratio, 1, 1),
        Kind::L1BitsPerSecond(ratio) => (ratio, frame_bytes.count, on_medium),
        Kind::L2BitsPerSecond(ratio) => (ratio, frame_bytes.count, frame_bytes.bits(FCS_BYTES)),
        Kind::LinePercent(ratio) => match line_rate {
            LineRate::Known(bits) => (ratio, u128::from(bits) * frame_bytes.count, 100 * on_medium),
            LineRate::Unknown => return Err(RateError::UnknownLineRate { port: port.to_owned() }),
            LineRate::NotYetKnown => return positive(ratio).map(|_| None),
        },
    };
    let ratio = positive(ratio)?;
    let too_fine = RateError::TooFine { frame_bytes: (frame_bytes.sum / frame_bytes.count) as usize };
    let numerator = ratio.wide().numerator().checked_mul(packets).ok_or(too_fine.clone())?;
    let per = per.checked_mul(NS_PER_SECOND).ok_or(too_fine.clone())?;
    let denominator = ratio.wide().denominator().checked_mul(per).ok_or(too_fine.clone())?;
    Rate::new(numerator, denominator).map(Some).map_err(|_| too_fine)
}

/// A ratio of the contract, which must be greater than 0.
pub fn positive(asked: &contract::Ratio) -> Result<Ratio, RateError> {
    match Ratio::checked_new(asked.numerator, asked.denominator) {
        None => Err(RateError::ZeroDenominator),
        Some(Ratio::ZERO) => Err(RateError::Zero),
        Some(ratio) => Ok(ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(kind: Kind) -> contract::Rate {
        contract::Rate { kind: Some(kind) }
    }

    fn ratio(numerator: u64, denominator: u64) -> contract::Ratio {
        contract::Ratio { numerator, denominator }
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
            let got = packet_rate(Some(&rate(kind)), 60.into(), "east", ten_gig).unwrap().unwrap();
            assert_eq!(got, Rate::packets_per_second(numerator, denominator).unwrap(), "{kind:?}");
        }
    }

    #[test]
    fn a_rate_that_is_none_says_why() {
        let unknown = LineRate::Unknown;
        let error = |kind| packet_rate(Some(&rate(kind)), 60.into(), "east", unknown).unwrap_err();
        assert_eq!(packet_rate(None, 60.into(), "east", unknown), Err(RateError::Missing));
        assert_eq!(error(Kind::PacketsPerSecond(ratio(0, 1))), RateError::Zero);
        assert_eq!(error(Kind::PacketsPerSecond(ratio(1, 0))), RateError::ZeroDenominator);
        assert_eq!(error(Kind::L1BitsPerSecond(ratio(1, u64::MAX))), RateError::TooFine { frame_bytes: 60 });
        let percent = error(Kind::LinePercent(ratio(80, 1))).to_string();
        assert!(percent.contains("--line-rate east=RATE"), "{percent}");
        let later = packet_rate(Some(&rate(Kind::LinePercent(ratio(80, 1)))), 60.into(), "east", LineRate::NotYetKnown);
        assert_eq!(later, Ok(None));
    }

    #[test]
    fn line_rate_is_taken_exactly_by_the_rate_that_asks_for_all_of_it() {
        for frame in [60, 61, 590, 1514, 9230] {
            let all = rate(Kind::LinePercent(ratio(100, 1)));
            let packets = packet_rate(Some(&all), frame.into(), "p", LineRate::Known(10_000_000_000)).unwrap().unwrap();
            assert_eq!(l1_bits(packets, frame.into()), 10_000_000_000);
        }
    }
}
