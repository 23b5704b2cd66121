// SPDX-License-Identifier: Apache-2.0
//! Memory of the program itself, as workers need it.
//!
//! Large tables are in large pages: places of flows and what finds them are read here and there, and each look into another small page
//! is a walk through page tables, twice as long in a virtual machine.
//!
//! Each block has its cache lines for itself. Control allocates what workers write, for one after the other: blocks of two workers
//! would lie in one line, which each write would take from the other's CPU.
use std::alloc::{GlobalAlloc, Layout, System};

/// Bytes of a cache line.
const LINE: usize = 64;

/// A transparent huge page of x86-64, in bytes.
const PAGE: usize = 2 << 20;
/// What is at least as large gets such pages.
const LARGE: usize = 2 * PAGE;

/// The system's allocator, which gives whole cache lines, and asks for large pages for what is large (madvise(2), `MADV_HUGEPAGE`). A
/// kernel that has none to give (`/sys/kernel/mm/transparent_hugepage/enabled`: `never`) gives small ones: slower, not wrong.
#[derive(Debug)]
pub struct LargePages;

/// How the system is asked for it.
fn asked(layout: Layout) -> Layout {
    let Ok(lines) = layout.align_to(LINE).map(|aligned| aligned.pad_to_align()) else { return layout };
    if layout.size() < LARGE { lines } else { lines.align_to(PAGE).unwrap_or(lines) }
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
// function of the layout, and gives at least the size and alignment of the layout.
unsafe impl GlobalAlloc for LargePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller's; the size stays above 0.
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
        // SAFETY: `size` with this alignment is a layout by the caller's promise; both blocks are as long as what is copied. A block that
        // is asked for in the same way is as large already.
        unsafe {
            let wanted = Layout::from_size_align_unchecked(size, layout.align());
            if asked(wanted) == asked(layout) {
                return start;
            }
            let new = self.alloc(wanted);
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
    fn blocks_have_their_cache_lines_for_themselves() {
        let sizes = [1, 63, 64, 65, 4000];
        let layouts: Vec<_> =
            sizes.iter().cycle().take(500).map(|size| Layout::from_size_align(*size, 1).unwrap()).collect();
        // SAFETY: blocks are given back with the layouts they have.
        unsafe {
            let blocks: Vec<_> = layouts.iter().map(|layout| LargePages.alloc(*layout)).collect();
            let lines = |block: &*mut u8, layout: &Layout| {
                *block as usize / LINE..(*block as usize + layout.size()).div_ceil(LINE)
            };
            let mut all: Vec<_> =
                blocks.iter().zip(&layouts).flat_map(|(block, layout)| lines(block, layout)).collect();
            let count = all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), count, "two blocks are in one line");
            for (block, layout) in blocks.into_iter().zip(&layouts) {
                block.write(7);
                let grown = LargePages.realloc(block, *layout, layout.size() + 1);
                assert!((grown as usize).is_multiple_of(LINE) && grown.read() == 7);
                LargePages.dealloc(grown, Layout::from_size_align(layout.size() + 1, 1).unwrap());
            }
        }
    }

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
