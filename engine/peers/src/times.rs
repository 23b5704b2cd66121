// SPDX-License-Identifier: Apache-2.0
//! How long connections took.
use serde::Serialize;

/// Durations of connections, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Times {
    pub mean: f64,
    pub median: f64,
    pub p99: f64,
    pub longest: f64,
}
