// SPDX-License-Identifier: Apache-2.0
//! The prefixes of a set of routes, one after another, however many they are; and the share of a pod.
use std::collections::HashSet;

use num_integer::Integer;

use crate::{Family, Net};

/// Prefixes of one set at most.
pub const MAX_PREFIXES: u32 = 10_000_000;

/// The prefixes of a set. They have numbers, from 0 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prefixes {
    /// At equal distances.
    Range(Range),
    /// Each by itself.
    List(Vec<Net>),
}

/// Prefixes of one length: prefix n is n times `step` prefixes behind the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub first: Net,
    /// How many.
    pub count: u32,
    /// From one to the next, in prefixes of their length.
    pub step: u32,
}

/// What is wrong with the prefixes of a set; `field` is its path within them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct PrefixesError {
    /// The path, such as `range.count`.
    pub field: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// The part of a set that one of several pods advertises: its index is the number of the prefix modulo the number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    index: u32,
    pods: u32,
}

/// The prefixes of a share, in the order of their numbers.
#[derive(Clone, Debug)]
pub struct Nets<'a> {
    prefixes: &'a Prefixes,
    /// The number of the next.
    next: u64,
    /// From one number to the next.
    every: u64,
    count: u64,
}

impl Range {
    /// Prefix `n`; none behind the last one.
    pub fn get(&self, n: u64) -> Option<Net> {
        if n >= u64::from(self.count) {
            return None;
        }
        let number = self.first.number().checked_add(u128::from(n) * u128::from(self.step))?;
        Net::from_number(self.first.family(), self.first.length(), number)
    }

    /// The number of a prefix; none if it is not in the range.
    pub fn index_of(&self, net: Net) -> Option<u64> {
        if !self.is_alike(net) {
            return None;
        }
        let distance = net.number().checked_sub(self.first.number())?;
        let step = u128::from(self.step.max(1));
        let n = distance / step;
        (distance % step == 0 && n < u128::from(self.count)).then_some(n as u64)
    }

    /// Whether a prefix has the length and the family of the range.
    fn is_alike(&self, net: Net) -> bool {
        net.length() == self.first.length() && net.family() == self.first.family()
    }

    /// The first prefix that is in another range, too.
    fn common(&self, other: &Self) -> Option<Net> {
        if !self.is_alike(other.first) {
            return None;
        }
        let (low, high) = match self.first.number() <= other.first.number() {
            true => (self, other),
            false => (other, self),
        };
        let distance = high.first.number() - low.first.number();
        let last = |range: &Self| u128::from(range.count.saturating_sub(1)) * u128::from(range.step);
        if distance > last(low) || low.count == 0 || high.count == 0 {
            return None;
        }
        // i * s = distance + j * t, for the least i >= 0 and j >= 0. All numbers have at most 64 bits.
        let (s, t, distance) = (i128::from(low.step.max(1)), i128::from(high.step.max(1)), distance as i128);
        let gcd = s.extended_gcd(&t);
        if distance % gcd.gcd != 0 {
            return None;
        }
        let cycle = t / gcd.gcd;
        let remainder = (distance / gcd.gcd % cycle * gcd.x.mod_floor(&cycle)).mod_floor(&cycle);
        let least = Integer::div_ceil(&distance, &s);
        let i = least + (remainder - least).mod_floor(&cycle);
        let common = low.get(u64::try_from(i).ok()?)?;
        high.index_of(common).map(|_| common)
    }

    /// The first prefix that lies in a network.
    fn first_within(&self, net: Net) -> Option<Net> {
        let shift = self.first.length().checked_sub(net.length())?;
        if self.first.family() != net.family() {
            return None;
        }
        let low = net.number().checked_shl(shift.into()).unwrap_or(0);
        let behind = low.saturating_sub(self.first.number());
        let n = behind.div_ceil(u128::from(self.step.max(1)));
        self.get(u64::try_from(n).ok()?).filter(|found| net.contains(*found))
    }
}

impl Prefixes {
    /// How many.
    pub fn count(&self) -> u64 {
        match self {
            Self::Range(range) => range.count.into(),
            Self::List(list) => list.len() as u64,
        }
    }

    /// Prefix `n`; none behind the last one.
    pub fn get(&self, n: u64) -> Option<Net> {
        match self {
            Self::Range(range) => range.get(n),
            Self::List(list) => list.get(usize::try_from(n).ok()?).copied(),
        }
    }

    /// The family of all of them; none if there are none.
    pub fn family(&self) -> Option<Family> {
        self.get(0).map(|net| net.family())
    }

    /// Those that a pod advertises.
    pub fn share(&self, share: Share) -> Nets<'_> {
        Nets { prefixes: self, next: share.index.into(), every: share.pods.into(), count: self.count() }
    }

    /// Finds what is wrong with them: none, too many, of two families, one twice, or beyond the last address.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn check(&self) -> Result<(), PrefixesError> {
        let wrong = |field: String, problem: String| Err(PrefixesError { field, problem });
        match self {
            Self::Range(range) => {
                if !(1..=MAX_PREFIXES).contains(&range.count) {
                    return wrong(
                        "range.count".into(),
                        format!("{} prefixes; must be 1 to {MAX_PREFIXES}", range.count),
                    );
                }
                if range.step == 0 {
                    return wrong("range.step".into(), "0; must be at least 1, or all prefixes were one".into());
                }
                if range.get(u64::from(range.count) - 1).is_none() {
                    let (first, step) = (range.first, range.step);
                    let places = match u32::from(first.length()) {
                        128 => u128::MAX - first.number(),
                        length => (1u128 << length) - 1 - first.number(),
                    };
                    let most = places / u128::from(step) + 1;
                    let problem = format!(
                        "{} prefixes from {first} by steps of {step} lead beyond the last address; must be at most {most}",
                        range.count
                    );
                    return wrong("range.count".into(), problem);
                }
            }
            Self::List(list) => {
                if list.is_empty() || list.len() > MAX_PREFIXES as usize {
                    return wrong("list".into(), format!("{} prefixes; must be 1 to {MAX_PREFIXES}", list.len()));
                }
                let mut seen = HashSet::with_capacity(list.len());
                for (n, net) in list.iter().enumerate() {
                    if net.family() != list[0].family() {
                        let problem =
                            format!("{net} is not {}, as the first one is; make a set for each", list[0].family());
                        return wrong(format!("list[{n}]"), problem);
                    }
                    if !seen.insert(net) {
                        return wrong(format!("list[{n}]"), format!("{net} is there twice"));
                    }
                }
            }
        }
        Ok(())
    }

    /// A prefix that is in both.
    pub fn common(&self, other: &Self) -> Option<Net> {
        match (self, other) {
            (Self::Range(one), Self::Range(other)) => one.common(other),
            (Self::Range(range), Self::List(list)) | (Self::List(list), Self::Range(range)) => {
                list.iter().copied().find(|net| range.index_of(*net).is_some())
            }
            (Self::List(one), Self::List(other)) => {
                let seen: HashSet<&Net> = one.iter().collect();
                other.iter().find(|net| seen.contains(net)).copied()
            }
        }
    }

    /// The first that lies in a network: equal to it, or more specific.
    pub fn first_within(&self, net: Net) -> Option<Net> {
        match self {
            Self::Range(range) => range.first_within(net),
            Self::List(list) => list.iter().copied().find(|prefix| net.contains(*prefix)),
        }
    }
}

impl Share {
    /// That of the only pod.
    pub const ALL: Self = Self { index: 0, pods: 1 };

    /// The share of pod `index`, by the number of pods; none if there is no such pod.
    pub fn new(index: u32, pods: u32) -> Option<Self> {
        (index < pods).then_some(Self { index, pods })
    }
}

impl Iterator for Nets<'_> {
    type Item = Net;

    fn next(&mut self) -> Option<Net> {
        let net = self.prefixes.get(self.next)?;
        self.next += self.every;
        Some(net)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.count.saturating_sub(self.next).div_ceil(self.every) as usize;
        // A range that was not checked may end early.
        match self.prefixes {
            Prefixes::List(_) => (left, Some(left)),
            Prefixes::Range(_) => (0, Some(left)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn net(text: &str) -> Net {
        text.parse().unwrap()
    }

    fn range(first: &str, count: u32, step: u32) -> Range {
        Range { first: net(first), count, step }
    }

    #[test]
    fn a_million_prefixes_are_exact_and_each_is_of_one_pod() {
        let all = Prefixes::Range(range("20.0.0.0/24", 1_000_000, 1));
        all.check().unwrap();
        assert_eq!(all.get(0), Some(net("20.0.0.0/24")));
        assert_eq!(all.get(256), Some(net("20.1.0.0/24")));
        assert_eq!(all.get(999_999), Some(net("35.66.63.0/24")));
        assert_eq!(all.get(1_000_000), None);
        let pods = 3;
        let shares: Vec<Vec<Net>> = (0..pods).map(|pod| all.share(Share::new(pod, pods).unwrap()).collect()).collect();
        assert_eq!(shares.iter().map(Vec::len).collect::<Vec<_>>(), [333_334, 333_333, 333_333]);
        for (n, prefix) in all.share(Share::ALL).enumerate() {
            assert_eq!(shares[n % 3][n / 3], prefix);
        }
        assert_eq!(Share::new(3, 3), None);
    }

    #[test]
    fn steps_are_prefixes_of_the_same_length() {
        let v6 = Prefixes::Range(range("2001:db8::/48", 3, 2));
        let expected = ["2001:db8::/48", "2001:db8:2::/48", "2001:db8:4::/48"].map(net);
        assert_eq!(v6.share(Share::ALL).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_wrong_with_prefixes_has_a_field() {
        let list = |nets: &[&str]| Prefixes::List(nets.iter().map(|text| net(text)).collect());
        for (prefixes, field, problem) in [
            (Prefixes::Range(range("20.0.0.0/24", 0, 1)), "range.count", "0 prefixes; must be 1 to 10000000"),
            (
                Prefixes::Range(range("20.0.0.0/24", 2, 0)),
                "range.step",
                "0; must be at least 1, or all prefixes were one",
            ),
            (
                Prefixes::Range(range("255.0.0.0/8", 2, 1)),
                "range.count",
                "2 prefixes from 255.0.0.0/8 by steps of 1 lead beyond the last address; must be at most 1",
            ),
            (
                Prefixes::Range(range("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/128", 9, 2)),
                "range.count",
                "9 prefixes from ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/128 by steps of 2 lead beyond the last address; must be at \
                 most 8",
            ),
            (list(&[]), "list", "0 prefixes; must be 1 to 10000000"),
            (
                list(&["20.0.0.0/24", "2001:db8::/48"]),
                "list[1]",
                "2001:db8::/48 is not IPv4, as the first one is; make a set for each",
            ),
            (list(&["20.0.0.0/24", "20.0.1.0/24", "20.0.0.0/24"]), "list[2]", "20.0.0.0/24 is there twice"),
        ] {
            let error = prefixes.check().unwrap_err();
            assert_eq!((error.field.as_str(), error.problem.as_str()), (field, problem));
        }
        Prefixes::Range(range("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/128", 8, 2)).check().unwrap();
    }

    #[test]
    fn prefixes_within_a_network_are_found() {
        let all = Prefixes::Range(range("20.0.0.0/24", 100, 3));
        for (within, found) in [
            ("20.0.3.0/24", Some("20.0.3.0/24")),
            ("20.0.4.0/24", None),
            ("20.0.4.0/22", Some("20.0.6.0/24")),
            ("20.0.0.0/8", Some("20.0.0.0/24")),
            ("0.0.0.0/0", Some("20.0.0.0/24")),
            ("20.0.3.0/25", None),
            ("19.0.0.0/8", None),
            ("20.1.44.0/22", None),
            ("::/0", None),
        ] {
            assert_eq!(all.first_within(net(within)), found.map(net), "{within}");
            let list = Prefixes::List(all.share(Share::ALL).collect());
            assert_eq!(list.first_within(net(within)), found.map(net), "{within}");
        }
    }

    proptest! {
        #[test]
        fn ranges_have_in_common_what_their_prefixes_have(
            one in (0u32..60, 1u32..20, 1u32..8),
            other in (0u32..60, 1u32..20, 1u32..8),
            length in 8u8..=32,
        ) {
            let range = |(first, count, step): (u32, u32, u32)| Range {
                first: Net::from_number(Family::V4, length, first.into()).unwrap(),
                count,
                step,
            };
            let (one, other) = (range(one), range(other));
            let (one, other) = (Prefixes::Range(one), Prefixes::Range(other));
            let list = |prefixes: &Prefixes| Prefixes::List(prefixes.share(Share::ALL).collect());
            let expected = one.share(Share::ALL).find(|net| list(&other).common(&Prefixes::List(vec![*net])).is_some());
            prop_assert_eq!(one.common(&other), expected);
            prop_assert_eq!(other.common(&one), expected);
            prop_assert_eq!(one.common(&list(&other)).is_some(), expected.is_some());
            prop_assert_eq!(list(&one).common(&list(&other)).is_some(), expected.is_some());
        }

        #[test]
        fn a_prefix_of_a_range_is_found_by_its_number(first: u64, count in 1u32..1000, step in 1u32.., n in 0u64..1000) {
            let range = Range { first: Net::from_number(Family::V6, 64, first.into()).unwrap(), count, step };
            match range.get(n) {
                Some(net) => prop_assert_eq!(range.index_of(net), Some(n)),
                None => prop_assert!(n >= u64::from(count) || (u128::from(first) + u128::from(n) * u128::from(step)) >> 64 > 0),
            }
        }
    }
}
