// SPDX-License-Identifier: Apache-2.0
//! Prefetching: of millions of flows, the next one is in no cache. Its memory is asked for as soon as it is known that it will be
//! needed, and something else is done until it is there.
use core::ptr;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Prefetches all cache lines of a value. Nothing waits for it.
#[inline(always)]
pub fn fetch<T>(value: &T) {
    let first = ptr::from_ref(value).cast::<u8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        fetch_line(first.wrapping_add(offset));
    }
}

/// Prefetches the cache line at an address, which may be any: processors ignore a prefetch of what is not mapped.
#[inline(always)]
pub fn fetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, and it neither reads nor faults as a program sees it.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: every aarch64 has the instruction, and it neither reads nor faults as a program sees it.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
