// SPDX-License-Identifier: Apache-2.0
//! Large tables of the program itself in large pages: places of flows and what finds them are read here and there, and
//! each look into another small page is a walk through page tables, twice as long in a virtual machine.
use std::alloc::{GlobalAlloc, Layout, System};

/// A transparent huge page of x86-64, in bytes.
const PAGE: usize = 2 << 20;
/// What is at least as large gets such pages.
const LARGE: usize = 2 * PAGE;

/// The system's allocator, which asks for large pages for what is large (madvise(2), `MADV_HUGEPAGE`). A kernel that has none
/// to give (`/sys/kernel/mm/transparent_hugepage/enabled`: `never`) gives small ones: slower, not wrong.
#[derive(Debug)]
pub struct LargePages;

/// How the system is asked for it.
fn asked(layout: Layout) -> Layout {
    if layout.size() < LARGE { layout } else { layout.align_to(PAGE).unwrap_or(layout) }
}

/// # Safety
/// `start` is null, or the start of an allocation of that layout.
unsafe fn advise(start: *mut u8, layout: Layout) {
    if layout.size() >= LARGE && !start.is_null() {
        // SAFETY: the range is allocated; the advice changes none of its bytes. Whether it was taken makes no difference.
        unsafe { libc::madvise(start.cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
}

// SAFETY: all is the system's allocator's, asked with the same layout for the same block each time, since `asked` is a pure
// function of the layout.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's; `asked` keeps the size.
        unsafe {
            let start = System.alloc(asked(layout));
            advise(start, layout);
            start
        }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: it came from the system with this layout.
        unsafe { System.dealloc(start, asked(layout)) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size().max(size) < LARGE {
            // SAFETY: as the caller's; neither is large, so the layout is the one it was asked with.
            return unsafe { System.realloc(start, layout, size) };
        }
        // SAFETY: `size` with this alignment is a layout by the caller's promise; both blocks are as long as what is copied.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                start.copy_to_nonoverlapping(new, layout.size().min(size));
                self.dealloc(start, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_blocks_start_at_a_large_page_and_keep_their_bytes_when_they_grow() {
        let mut layout = Layout::from_size_align(PAGE, 16).unwrap();
        // SAFETY: blocks are used within their layouts and given back with them.
        unsafe {
            let mut block = LargePages.alloc(layout);
            block.write_bytes(7, PAGE);
            for size in [PAGE + 1, LARGE, 3 * LARGE, LARGE - 1, 10] {
                block = LargePages.realloc(block, layout, size);
                layout = Layout::from_size_align(size, 16).unwrap();
                assert!(size < LARGE || (block as usize).is_multiple_of(PAGE), "{size}");
                assert_eq!((block.read(), block.add(size.min(PAGE) - 1).read()), (7, 7), "{size}");
            }
            LargePages.dealloc(block, layout);
            let zeros = LargePages.alloc_zeroed(Layout::from_size_align(LARGE, 1).unwrap());
            assert_eq!((zeros.read(), zeros.add(LARGE - 1).read()), (0, 0));
            LargePages.dealloc(zeros, Layout::from_size_align(LARGE, 1).unwrap());
        }
    }
}
