// SPDX-License-Identifier: Apache-2.0
//! Where the program's own memory lies. Large tables are in large pages: the flows and their hash table are read at random,
//! and each look into another small page is a walk through page tables, twice as long in a virtual machine. And what workers
//! write is on cache lines of its own, so that none waits for a line that another one has written.
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ptr;

/// A transparent huge page of x86-64, in bytes.
const PAGE: usize = 2 << 20;
/// Blocks of at least this many bytes get huge pages.
const LARGE: usize = 2 * PAGE;
/// A cache line in bytes.
const LINE: usize = 64;
/// Alignment of malloc(3), in bytes.
const ALIGNED: usize = 16;

thread_local! {
    /// Blocks that this thread allocates now have lines of their own.
    static OWN_LINES: Cell<bool> = const { Cell::new(false) };
}

/// What `make` allocates on this thread gets cache lines that nothing else is on. It takes up to two lines more a block, so this is for what
/// workers write, and what lies among it.
pub fn on_own_lines<T>(make: impl FnOnce() -> T) -> T {
    /// Restores the former value, also if `make` panics.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            OWN_LINES.set(self.0);
        }
    }
    let _before = Before(OWN_LINES.replace(true));
    make()
}

/// malloc(3), which is asked for large pages for what is large (madvise(2), `MADV_HUGEPAGE`), and for whole cache lines within
/// [`on_own_lines`]. A kernel that has no large pages to give (`/sys/kernel/mm/transparent_hugepage/enabled`: `never`) gives small
/// ones: slower, not wrong.
#[derive(Debug)]
pub struct Allocator;

/// A block of that size and alignment; null if there is none.
fn aligned(size: usize, align: usize) -> *mut u8 {
    let mut start = ptr::null_mut();
    // SAFETY: the pointer is valid for the call; the alignment is a power of two of at least a pointer's size.
    match unsafe { libc::posix_memalign(&raw mut start, align.max(ALIGNED), size) } {
        0 => start.cast(),
        _ => ptr::null_mut(),
    }
}

// SAFETY: every block is malloc's or posix_memalign's, and is given back by free, whatever its layout.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        if size >= LARGE {
            let start = aligned(size, align.max(PAGE));
            if !start.is_null() {
                // SAFETY: the range is allocated; the advice changes none of its bytes. Whether it was taken makes no difference.
                unsafe { libc::madvise(start.cast(), size, libc::MADV_HUGEPAGE) };
            }
            start
        } else if OWN_LINES.get() {
            aligned(size.next_multiple_of(LINE), align.max(LINE))
        } else if align > ALIGNED {
            aligned(size, align)
        } else {
            // SAFETY: any size is allowed.
            unsafe { libc::malloc(size).cast() }
        }
    }

    unsafe fn dealloc(&self, start: *mut u8, _: Layout) {
        // SAFETY: it came from malloc or posix_memalign.
        unsafe { libc::free(start.cast()) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size().max(size) < LARGE && layout.align() <= ALIGNED && !OWN_LINES.get() {
            // SAFETY: it came from malloc or posix_memalign, and malloc's alignment is enough.
            return unsafe { libc::realloc(start.cast(), size).cast() };
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
            let mut block = Allocator.alloc(layout);
            block.write_bytes(7, PAGE);
            for size in [PAGE + 1, LARGE, 3 * LARGE, LARGE - 1, 10] {
                block = Allocator.realloc(block, layout, size);
                layout = Layout::from_size_align(size, 16).unwrap();
                assert!(size < LARGE || (block as usize).is_multiple_of(PAGE), "{size}");
                assert_eq!((block.read(), block.add(size.min(PAGE) - 1).read()), (7, 7), "{size}");
            }
            Allocator.dealloc(block, layout);
            let zeros = Allocator.alloc_zeroed(Layout::from_size_align(LARGE, 1).unwrap());
            assert_eq!((zeros.read(), zeros.add(LARGE - 1).read()), (0, 0));
            Allocator.dealloc(zeros, Layout::from_size_align(LARGE, 1).unwrap());
        }
    }

    /// The lines that blocks of these sizes are on, as numbers.
    fn lines(blocks: &[(*mut u8, usize)]) -> Vec<usize> {
        blocks.iter().flat_map(|&(start, size)| start as usize / LINE..=(start as usize + size - 1) / LINE).collect()
    }

    #[test]
    fn blocks_on_own_lines_share_none_also_when_they_grow() {
        // SAFETY: blocks are used within their layouts and given back with them.
        unsafe {
            let new = |size| Allocator.alloc(Layout::from_size_align(size, 8).unwrap());
            let mut blocks = Vec::new();
            for size in [1, 8, 24, 63, 64, 65, 200, 4000] {
                let other = (new(size), size);
                let own = on_own_lines(|| (new(size), size));
                let grown = on_own_lines(|| {
                    let layout = Layout::from_size_align(size, 8).unwrap();
                    (Allocator.realloc(new(size), layout, 3 * size), 3 * size)
                });
                blocks.extend([other, own, grown]);
            }
            let own: Vec<_> = blocks.iter().enumerate().filter(|(i, _)| i % 3 > 0).map(|(_, block)| *block).collect();
            let mut all = lines(&own);
            all.sort_unstable();
            let distinct = all.len();
            all.dedup();
            assert_eq!(all.len(), distinct);
            let others: Vec<_> = blocks.iter().step_by(3).copied().collect();
            assert!(lines(&others).iter().all(|line| all.binary_search(line).is_err()));
            let aligned = Allocator.alloc(Layout::from_size_align(100, 256).unwrap());
            assert!((aligned as usize).is_multiple_of(256));
            Allocator.dealloc(aligned, Layout::from_size_align(100, 256).unwrap());
            for (start, size) in blocks {
                Allocator.dealloc(start, Layout::from_size_align(size, 8).unwrap());
            }
        }
        assert!(!OWN_LINES.get());
    }
}
