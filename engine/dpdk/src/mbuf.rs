// SPDX-License-Identifier: Apache-2.0
//! Packets as DPDK has them, and the fields of their descriptors.
use std::slice;

use spate_dpdk_sys as sys;

use crate::{mempool::HEADROOM, stamp::StampField};

/// Packets a burst can hold.
pub const BURST: usize = 64;

/// A packet of DPDK: its descriptor, which its bytes follow.
pub(crate) type Mbuf = *mut sys::rte_mbuf;

/// Makes a packet one segment of `len` bytes behind the headroom, without any flags, and returns where its bytes begin.
///
/// # Safety
/// `packet` is a valid mbuf of one segment of which the caller is the only user.
#[inline(always)]
pub(crate) unsafe fn begin(packet: Mbuf, len: u16) -> *mut u8 {
    /// `data_off`, `refcnt` 1, `nb_segs` 1 and no `port`, which lie together (the shim asserts so).
    const REARM: u64 = HEADROOM as u64 | 1 << 16 | 1 << 32 | 0xffff << 48;
    // SAFETY: fields of a valid mbuf; its buffer is longer than the headroom.
    unsafe {
        field::<u64>(packet, sys::SPATE_MBUF_DATA_OFF).write(REARM);
        field::<u64>(packet, sys::SPATE_MBUF_OL_FLAGS).write(0);
        field::<u32>(packet, sys::SPATE_MBUF_PKT_LEN).write(len.into());
        field::<u16>(packet, sys::SPATE_MBUF_DATA_LEN).write(len);
        field::<*mut u8>(packet, sys::SPATE_MBUF_BUF_ADDR).read().add(HEADROOM)
    }
}

/// A packet's note.
///
/// # Safety
/// `packet` is a valid mbuf that only the caller refers to as long as this is used, and `offset` that of its pool's notes.
#[inline(always)]
pub(crate) unsafe fn note<'a>(packet: Mbuf, offset: u32) -> &'a mut u64 {
    // SAFETY: as the caller says; the offset is a multiple of 8, and any bits are a number.
    unsafe { &mut *field(packet, offset) }
}

/// Makes a packet `len` bytes long and gives its bytes and those behind them up to a multiple of 64.
///
/// # Panics
/// If that is more than `room`.
///
/// # Safety
/// As `begin`; the packet's buffer has `room` bytes behind the headroom, and no other reference to them exists while the result lives.
#[inline(always)]
pub(crate) unsafe fn frame<'a>(packet: Mbuf, len: u16, room: usize) -> &'a mut [u8] {
    let pieces = usize::from(len).next_multiple_of(64);
    assert!(pieces <= room, "longer than the pool's packets");
    // SAFETY: as the caller says. Any bytes are valid `u8`s: pool memory is zeroed when mapped.
    unsafe { slice::from_raw_parts_mut(begin(packet, len), pieces) }
}

/// A packet's time stamp; none if it has none.
///
/// # Safety
/// A valid mbuf.
#[inline]
pub(crate) unsafe fn stamp(packet: Mbuf, at: StampField) -> Option<u64> {
    // SAFETY: as the caller says; the field is registered.
    unsafe {
        let flags = field::<u64>(packet, sys::SPATE_MBUF_OL_FLAGS).read();
        (flags & at.flag != 0).then(|| field::<u64>(packet, at.offset).read())
    }
}

/// The bytes of a packet's first segment.
///
/// # Safety
/// A valid mbuf that lives and stays unchanged as long as the bytes are used.
#[inline]
pub(crate) unsafe fn head<'a>(packet: Mbuf) -> &'a [u8] {
    // SAFETY: as the caller says.
    unsafe {
        let (bytes, len) = segment(packet);
        slice::from_raw_parts(bytes, len)
    }
}

/// Where a packet's first segment lies, and its length.
///
/// # Safety
/// A valid mbuf.
#[inline]
pub(crate) unsafe fn segment(packet: Mbuf) -> (*mut u8, usize) {
    // SAFETY: a segment's data is `data_len` bytes from `buf_addr + data_off` on.
    unsafe {
        let len = field::<u16>(packet, sys::SPATE_MBUF_DATA_LEN).read() as usize;
        let offset = field::<u16>(packet, sys::SPATE_MBUF_DATA_OFF).read() as usize;
        (field::<*mut u8>(packet, sys::SPATE_MBUF_BUF_ADDR).read().add(offset), len)
    }
}

/// A field of an mbuf by its offset in the DPDK at hand.
///
/// # Safety
/// `packet` is a valid mbuf and `offset` that of a field of type `T`.
#[inline(always)]
pub(crate) unsafe fn field<T>(packet: Mbuf, offset: u32) -> *mut T {
    // SAFETY: the offset lies in the mbuf.
    unsafe { packet.cast::<u8>().add(offset as usize).cast() }
}
