// SPDX-License-Identifier: Apache-2.0
//! The guard of a mutex, also after a thread that held it has panicked.
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A poisoned one guards plain data that no panic leaves half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
