// SPDX-License-Identifier: Apache-2.0
//! Hugepages for a measurement: reserved if they are missing, and given back.
use std::fs;

use crate::rig::{MEMORY, Pages};

const PAGE: u64 = 2 << 20;
const FOLDER: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// Gives back on drop what it reserved.
pub struct Reserved {
    before: Option<u64>,
    pages: Pages,
}

impl Reserved {
    /// Enough for one engine, or one testpmd, at a time.
    pub fn new() -> Self {
        let wanted = MEMORY / PAGE;
        let free = read("free_hugepages").unwrap_or(0);
        if free >= wanted {
            return Self { before: None, pages: Pages::Huge };
        }
        let before = read("nr_hugepages");
        if let Some(before) = before {
            let _ = fs::write(format!("{FOLDER}/nr_hugepages"), (before + wanted - free).to_string());
        }
        let pages = if read("free_hugepages").unwrap_or(0) >= wanted { Pages::Huge } else { Pages::Normal };
        Self { before, pages }
    }

    /// What was to be had.
    pub fn pages(&self) -> Pages {
        self.pages
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = fs::write(format!("{FOLDER}/nr_hugepages"), before.to_string());
        }
    }
}

fn read(name: &str) -> Option<u64> {
    fs::read_to_string(format!("{FOLDER}/{name}")).ok()?.trim().parse().ok()
}
