// SPDX-License-Identifier: Apache-2.0
//! Does a run reach what was promised of the engine? Each promise is a floor: a figure of the run, and the bound it must keep.
use std::fmt;

/// A bound, itself included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// A promise and what was measured; none if there is no such figure.
#[derive(Clone, Debug)]
pub struct Floor {
    pub name: String,
    pub bound: Bound,
    pub measured: Option<f64>,
    /// Why the floor is known to be missed, which then only warns.
    pub known: Option<Known>,
}

/// A promise that is known to be missed.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Docs/performance.md has the whole reason.
    pub why: &'static str,
    /// What is kept instead: beyond it, the floor is missed as others are.
    pub bound: Bound,
}

/// What becomes of the command where a floor is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Floors {
    /// A missed floor fails.
    Fail,
    /// A missed floor is reported.
    Warn,
}

impl Floor {
    pub fn new(name: impl Into<String>, bound: Bound, measured: Option<f64>) -> Self {
        Self { name: name.into(), bound, measured, known: None }
    }

    fn is_kept(&self) -> bool {
        self.keeps(self.bound)
    }

    fn keeps(&self, bound: Bound) -> bool {
        self.measured.is_some_and(|measured| bound.holds(measured))
    }

    fn fails(&self) -> bool {
        !self.is_kept() && !self.known.is_some_and(|known| self.keeps(known.bound))
    }
}

impl Bound {
    fn holds(self, measured: f64) -> bool {
        match self {
            Self::AtLeast(least) => measured >= least,
            Self::AtMost(most) => measured <= most,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(out, "at least {least:.2}"),
            Self::AtMost(most) => write!(out, "at most {most:.2}"),
        }
    }
}

impl fmt::Display for Floor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.is_kept(), self.fails()) {
            (true, _) => "kept",
            (_, true) => "MISSED",
            _ => "missed, as is known",
        };
        let measured = self.measured.map_or("not measured".into(), |measured| format!("{measured:.2}"));
        write!(out, "{}: {measured}, {} promised: {verdict}", self.name, self.bound)?;
        match self.known {
            Some(known) if !self.is_kept() => write!(out, " ({}; {} is kept instead)", known.why, known.bound),
            _ => Ok(()),
        }
    }
}

impl Floors {
    /// Prints every floor. One without a figure is missed, unless cases were chosen: it may be of another.
    ///
    /// # Errors
    /// Names those that are missed, unless that only warns or is known.
    pub fn judge(self, floors: &[Floor], chosen: bool) -> anyhow::Result<()> {
        let judged: Vec<_> = floors.iter().filter(|floor| floor.measured.is_some() || !chosen).collect();
        for floor in &judged {
            println!("floor {floor}");
        }
        let missed: Vec<_> = judged.into_iter().filter(|floor| floor.fails()).collect();
        let names = missed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        match self {
            _ if missed.is_empty() => Ok(()),
            Self::Fail => {
                anyhow::bail!("{names}. Is the machine busy (see the column +-%)? BENCH_FLOORS=warn only warns")
            }
            Self::Warn => {
                eprintln!("warning: {names}");
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floors(ratio: impl Into<Option<f64>>, instructions: impl Into<Option<f64>>) -> [Floor; 2] {
        [
            Floor::new("a ratio", Bound::AtLeast(1.5), ratio.into()),
            Floor {
                known: Some(Known { why: "see there", bound: Bound::AtMost(12_000.0) }),
                ..Floor::new("instructions", Bound::AtMost(5000.0), instructions.into())
            },
        ]
    }

    #[test]
    fn a_missed_floor_fails_by_name_and_a_known_one_does_not() {
        assert!(Floors::Fail.judge(&floors(1.5, 4000.0), false).is_ok());
        assert!(Floors::Fail.judge(&floors(1.6, 11_231.0), false).is_ok());
        let missed = Floors::Fail.judge(&floors(1.49, 11_231.0), false).unwrap_err().to_string();
        assert!(missed.contains("a ratio: 1.49, at least 1.50 promised: MISSED"), "{missed}");
        assert!(!missed.contains("instructions"), "{missed}");
        assert!(Floors::Fail.judge(&floors(f64::NAN, 1.0), false).is_err());
        let missed = Floors::Fail.judge(&floors(1.5, 12_001.0), false).unwrap_err().to_string();
        assert!(missed.contains("instructions: 12001.00, at most 5000.00 promised: MISSED"), "{missed}");
    }

    #[test]
    fn a_floor_without_a_figure_is_missed_unless_cases_were_chosen() {
        let missed = Floors::Fail.judge(&floors(None, 4000.0), false).unwrap_err().to_string();
        assert!(missed.contains("a ratio: not measured, at least 1.50 promised: MISSED"), "{missed}");
        let missed = Floors::Fail.judge(&floors(1.5, None), false).unwrap_err().to_string();
        assert!(missed.contains("instructions: not measured, at most 5000.00 promised: MISSED"), "{missed}");
        assert!(Floors::Fail.judge(&floors(None, None), true).is_ok());
        assert!(Floors::Fail.judge(&floors(1.4, None), true).is_err());
    }

    #[test]
    fn warn_only_warns() {
        assert!(Floors::Warn.judge(&floors(0.1, 11_231.0), false).is_ok());
        assert!(Floors::Warn.judge(&floors(None, None), false).is_ok());
    }

    #[test]
    fn what_is_known_to_be_missed_is_named_with_its_reason() {
        let [_, instructions] = floors(2.0, 11_231.0);
        let text = instructions.to_string();
        assert_eq!(
            text,
            "instructions: 11231.00, at most 5000.00 promised: missed, as is known (see there; at most 12000.00 is kept instead)"
        );
    }
}
