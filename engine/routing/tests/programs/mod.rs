// SPDX-License-Identifier: Apache-2.0
//! Programs that tests run.
use std::{env, path::PathBuf};

/// BIRD's program.
pub fn bird() -> PathBuf {
    let places = [env::var("SPATE_BIRD").unwrap_or_default(), "/usr/sbin/bird".into()];
    let found = places.iter().map(PathBuf::from).find(|path| path.is_file());
    found.expect("no BIRD: `make deps` installs it (package bird2), or name its program in SPATE_BIRD")
}
