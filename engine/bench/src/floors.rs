// SPDX-License-Identifier: Apache-2.0
//! Does a run reach what was promised of the engine? Each promise is a floor: a figure of the run, and the bound it must keep.
use std::fmt;

/// A bound, itself included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// A promise and what was measured.
#[derive(Clone, Debug)]
pub struct Floor {
    pub name: &'static str,
    pub bound: Bound,
    pub measured: f64,
    /// Why it is known to be missed, which then only warns; docs/performance.md has the whole reason.
    pub known: Option<&'static str>,
}

/// What becomes of the command where a floor is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Floors {
    /// It fails.
    Fail,
    /// It says so.
    Warn,
}

impl Floor {
    pub fn new(name: &'static str, bound: Bound, measured: f64) -> Self {
        Self { name, bound, measured, known: None }
    }

    fn is_kept(&self) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.measured >= least,
            Bound::AtMost(most) => self.measured <= most,
        }
    }
}

impl fmt::Display for Floor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bound, word) = match self.bound {
            Bound::AtLeast(least) => (least, "at least"),
            Bound::AtMost(most) => (most, "at most"),
        };
        let verdict = match (self.is_kept(), self.known) {
            (true, _) => "kept",
            (false, None) => "MISSED",
            (false, Some(_)) => "missed, as is known",
        };
        write!(out, "{}: {:.2}, {word} {bound:.2} promised: {verdict}", self.name, self.measured)?;
        match self.known {
            Some(why) if !self.is_kept() => write!(out, " ({why})"),
            _ => Ok(()),
        }
    }
}

impl Floors {
    /// Prints every floor.
    ///
    /// # Errors
    /// Names those that are missed, unless that only warns or is known.
    pub fn judge(self, floors: &[Floor]) -> anyhow::Result<()> {
        for floor in floors {
            println!("floor {floor}");
        }
        let missed: Vec<_> = floors.iter().filter(|floor| !floor.is_kept() && floor.known.is_none()).collect();
        let names = missed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        match self {
            _ if missed.is_empty() => Ok(()),
            Self::Fail => {
                anyhow::bail!("{names}. Is the machine busy (the column +-% tells)? BENCH_FLOORS=warn only warns")
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

    fn floors(ratio: f64, instructions: f64) -> [Floor; 2] {
        [
            Floor::new("a ratio", Bound::AtLeast(1.5), ratio),
            Floor { known: Some("see there"), ..Floor::new("instructions", Bound::AtMost(5000.0), instructions) },
        ]
    }

    #[test]
    fn a_missed_floor_fails_by_name_and_a_known_one_does_not() {
        assert!(Floors::Fail.judge(&floors(1.5, 4000.0)).is_ok());
        assert!(Floors::Fail.judge(&floors(1.6, 11_231.0)).is_ok());
        let missed = Floors::Fail.judge(&floors(1.49, 11_231.0)).unwrap_err().to_string();
        assert!(missed.contains("a ratio: 1.49, at least 1.50 promised: MISSED"), "{missed}");
        assert!(!missed.contains("instructions"), "{missed}");
        assert!(Floors::Fail.judge(&floors(f64::NAN, 1.0)).is_err());
    }

    #[test]
    fn warn_only_warns() {
        assert!(Floors::Warn.judge(&floors(0.1, 11_231.0)).is_ok());
    }

    #[test]
    fn what_is_known_to_be_missed_is_named_with_its_reason() {
        let [_, instructions] = floors(2.0, 11_231.0);
        let told = instructions.to_string();
        assert_eq!(told, "instructions: 11231.00, at most 5000.00 promised: missed, as is known (see there)");
    }
}
