// SPDX-License-Identifier: Apache-2.0
//! Paths of a plan's fields, such as `streams[3].packet.frame`: values that grow by segments, and become text here alone.
use std::{borrow::Cow, fmt};

/// Where a field is in a plan or a request, in the contract's own names.
///
/// ```
/// use spate_stateful::FieldPath;
///
/// let template = FieldPath::from("stateful.templates").index(2);
/// assert_eq!(template.field("client.instructions").index(0).to_string(), "stateful.templates[2].client.instructions[0]");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(Vec<Segment>);

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    /// A field of a message; names that are read from a plan's JSON are owned.
    Field(Cow<'static, str>),
    /// An item of a list.
    Index(usize),
}

impl FieldPath {
    /// The path of a field within this one; several are separated by dots.
    #[must_use]
    pub fn field(&self, names: &'static str) -> Self {
        self.join(&Self::from(names))
    }

    /// The path of an item of this list.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    /// The path of a field within this one, of a name that may be none of the contract's.
    #[must_use]
    pub fn key(&self, name: String) -> Self {
        self.with(Segment::Field(name.into()))
    }

    /// The path of what is at `inner` within this one.
    #[must_use]
    pub fn join(&self, inner: &Self) -> Self {
        Self([&self.0[..], &inner.0].concat())
    }

    /// Whether it leads to the whole, not to a field of it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn with(&self, segment: Segment) -> Self {
        let mut longer = Vec::with_capacity(self.0.len() + 1);
        longer.extend_from_slice(&self.0);
        longer.push(segment);
        Self(longer)
    }
}

impl From<&'static str> for FieldPath {
    /// A path of fields that are separated by dots.
    fn from(names: &'static str) -> Self {
        Self(names.split_terminator('.').map(|name| Segment::Field(name.into())).collect())
    }
}

impl From<&FieldPath> for FieldPath {
    fn from(path: &FieldPath) -> Self {
        path.clone()
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Field(name) if i == 0 => f.write_str(name)?,
                Segment::Field(name) => write!(f, ".{name}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_kubernetes_writes_it() {
        let path = FieldPath::from("streams").index(3).field("packet.vlan");
        assert_eq!(path.to_string(), "streams[3].packet.vlan");
        assert_eq!(FieldPath::default().index(1).field("name").to_string(), "[1].name");
        assert_eq!(FieldPath::default().to_string(), "");
    }

    #[test]
    fn paths_are_equal_however_they_were_put_together() {
        let whole = FieldPath::from("stateful.pools").index(0).field("gtpu");
        let inner = FieldPath::from("pools").index(0).key("gtpu".to_owned());
        assert_eq!(FieldPath::from("stateful").join(&inner), whole);
        assert_eq!(whole.field(""), whole);
        assert!(!whole.is_empty() && FieldPath::from("").is_empty());
    }
}
