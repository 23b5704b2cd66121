// SPDX-License-Identifier: Apache-2.0
//! DPDK's log: every line becomes a tracing event, and the warnings of a call become part of its error.
use std::{
    collections::VecDeque,
    ffi::c_char,
    sync::{Mutex, PoisonError},
};

use spate_dpdk_sys as sys;

/// Lines kept for error messages.
const MAX_LINES: usize = 32;

struct Recent {
    lines: VecDeque<String>,
    /// Lines ever logged.
    count: u64,
}

static RECENT: Mutex<Recent> = Mutex::new(Recent { lines: VecDeque::new(), count: 0 });

/// A point in the log; the lines after it belong to what was tried since.
pub(crate) struct Mark(u64);

impl Mark {
    pub(crate) fn now() -> Self {
        Self(RECENT.lock().unwrap_or_else(PoisonError::into_inner).count)
    }

    /// The warnings and errors since, at most the last few.
    pub(crate) fn lines(&self) -> Vec<String> {
        let recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
        let new = usize::try_from(recent.count - self.0).unwrap_or(usize::MAX).min(recent.lines.len()).min(4);
        recent.lines.iter().skip(recent.lines.len() - new).cloned().collect()
    }
}

/// Sends DPDK's log here instead of to standard error.
pub(crate) fn route() {
    // SAFETY: `line` may be called from any thread at any time.
    let code = unsafe { sys::spate_log_to(Some(line)) };
    if code != 0 {
        tracing::warn!(code, "DPDK's log goes to standard error");
    }
}

extern "C" fn line(level: u32, text: *const c_char, len: usize) {
    // SAFETY: the shim passes the buffer that stdio hands it, valid for the call.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len) };
    for text in String::from_utf8_lossy(bytes).lines().map(str::trim).filter(|text| !text.is_empty()) {
        match level {
            0..=sys::RTE_LOG_ERR => tracing::error!(target: "dpdk", "{text}"),
            sys::RTE_LOG_WARNING => tracing::warn!(target: "dpdk", "{text}"),
            sys::RTE_LOG_NOTICE | sys::RTE_LOG_INFO => tracing::debug!(target: "dpdk", "{text}"),
            _ => tracing::trace!(target: "dpdk", "{text}"),
        }
        if level <= sys::RTE_LOG_WARNING {
            let mut recent = RECENT.lock().unwrap_or_else(PoisonError::into_inner);
            recent.count += 1;
            if recent.lines.len() == MAX_LINES {
                recent.lines.pop_front();
            }
            recent.lines.push_back(text.to_owned());
        }
    }
}
