// SPDX-License-Identifier: Apache-2.0
//! What can be wrong with a plan or a request: a field's path and what would be right.
use serde::{Serialize, Serializer};
use spate_stateful::FieldPath;
use std::fmt;

/// One wrong field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Path in the contract's own names, such as `streams[3].packet.frame`.
    #[serde(serialize_with = "as_text")]
    pub field: FieldPath,
    /// What is wrong, and what would be right.
    pub description: String,
}

impl Violation {
    /// A violation of a field.
    pub fn new(field: impl Into<FieldPath>, description: impl Into<String>) -> Self {
        Self { field: field.into(), description: description.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.description)
    }
}

fn as_text<S: Serializer>(field: &FieldPath, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(field)
}

/// Everything wrong that was found, in the order of the fields; never empty when used as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Violations(pub Vec<Violation>);

impl Violations {
    /// At most this many are collected: a plan of 20,000 equally wrong streams is understood after a few.
    pub const MAX: usize = 100;

    /// A single violation.
    pub fn one(field: impl Into<FieldPath>, description: impl Into<String>) -> Self {
        let mut all = Self::default();
        all.add(field, description);
        all
    }

    /// Notes a violation.
    pub fn add(&mut self, field: impl Into<FieldPath>, description: impl Into<String>) {
        if self.0.len() < Self::MAX {
            self.0.push(Violation::new(field, description));
        }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `value`, unless something was found.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{violation}")?;
        }
        if self.0.len() == Self::MAX {
            write!(f, "\n(only the first {} are shown)", Self::MAX)?;
        }
        Ok(())
    }
}

impl std::error::Error for Violations {}
