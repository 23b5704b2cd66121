// SPDX-License-Identifier: Apache-2.0
//! Sinks: where what is received ends for a program that does not count its bytes, one file each, and their registration. Bytes come in
//! pieces of any size; between them a few bytes of state are all that is kept.
use std::fmt::Debug;

use crate::program::Until;

pub(crate) mod http;
pub(crate) mod pattern;

#[cfg(test)]
pub(crate) mod records;

pub use http::{Fault, MAX_HEADER_BYTES};

/// What finds the end of a message.
pub trait Sink {
    /// How far it has come with one: all that is kept of it between pieces, beside each flow.
    type Progress: Copy + Debug;

    /// The progress before the first byte.
    fn begin(&self) -> Self::Progress;

    /// Takes in the next bytes. Behind an end or a fault `progress` is of no use any more.
    fn feed(&self, progress: &mut Self::Progress, bytes: &[u8]) -> Fed;

    /// Whether the message ends with the connection.
    fn ends_with_connection(_progress: &Self::Progress) -> bool {
        false
    }
}

/// Outcome of reading bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// All bytes belong to the message, which goes on.
    More,
    /// The message ends behind this many of the bytes.
    Ends(usize),
    /// The end of the message can never be known.
    Broken(Fault),
}

/// Makes the registry of sinks: a variant each, dispatched statically.
macro_rules! register {
    ($($(#[$attribute:meta])* $name:ident: $sink:ty,)+) => {
        /// An end as it is looked for: a sink.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum Matcher {
            $($(#[$attribute])* $name($sink),)+
        }

        /// Progress of a matcher.
        #[derive(Clone, Copy, Debug)]
        #[expect(missing_docs, reason = "the names say it")]
        pub enum Progress {
            $($(#[$attribute])* $name(<$sink as Sink>::Progress),)+
        }

        impl Matcher {
            /// The progress before the first byte.
            pub fn begin(&self) -> Progress {
                match self {
                    $($(#[$attribute])* Self::$name(sink) => Progress::$name(sink.begin()),)+
                }
            }

            /// Takes in the next bytes. Behind an end or a fault `progress` is of no use any more.
            ///
            /// # Panics
            /// If the progress is another matcher's.
            pub fn feed(&self, progress: &mut Progress, bytes: &[u8]) -> Fed {
                match (self, progress) {
                    $($(#[$attribute])* (Self::$name(sink), Progress::$name(progress)) => sink.feed(progress, bytes),)+
                    _ => unreachable!("progress of another matcher"),
                }
            }
        }

        impl Progress {
            /// Whether the message ends with the connection.
            pub fn ends_with_connection(&self) -> bool {
                match self {
                    $($(#[$attribute])* Self::$name(progress) => <$sink>::ends_with_connection(progress),)+
                }
            }
        }

        $(
            $(#[$attribute])*
            impl From<$sink> for Matcher {
                fn from(sink: $sink) -> Self {
                    Self::$name(sink)
                }
            }
        )+
    };
}

register! {
    Pattern: pattern::Pattern,
    Http: http::Http,
    #[cfg(test)]
    Records: records::Records<pattern::Pattern>,
}

impl Matcher {
    /// For an end of programs.
    ///
    /// # Panics
    /// If a pattern has more than 255 bytes or none: programs are checked before.
    pub fn new(until: &Until) -> Self {
        match until {
            Until::Pattern(bytes) => pattern::Pattern::new(bytes).into(),
            Until::HttpMessage => http::Http.into(),
        }
    }
}
