// SPDX-License-Identifier: Apache-2.0
//! Fetching ahead: of millions of flows, the next one is in no cache. Its memory is asked for as soon as it is known that it will be
//! needed, and something else is done until it is there.
use core::{
    arch::x86_64::{_MM_HINT_T0, _mm_prefetch},
    ptr,
};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Fetches something into the caches. Nothing waits for it.
#[inline(always)]
#[expect(unsafe_code, reason = "the processor's hint takes a pointer")]
pub(crate) fn fetch<T>(place: &T) {
    let first = ptr::from_ref(place).cast::<i8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        // SAFETY: a hint, which any address will do for.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_add(offset)) };
    }
}
