// SPDX-License-Identifier: Apache-2.0
//! The version of this engine.
//!
//! A release has the images that its tests ran, so its version is not compiled in: `make release` sets the variable
//! `SPATE_VERSION` in the configuration of the image.

use std::sync::LazyLock;

/// The version of the release; outside an image of a release, that of the crate with `-dev`.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let released = std::env::var("SPATE_VERSION").ok().filter(|version| !version.is_empty());
        released.unwrap_or_else(|| concat!(env!("CARGO_PKG_VERSION"), "-dev").into())
    });
    &VERSION
}
