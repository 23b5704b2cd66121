// SPDX-License-Identifier: Apache-2.0
//! Frames of an interface, many to a system call.
//!
//! The only `unsafe` of this crate: std has no packet sockets. Measured on two shared cores, a call for each frame costs about
//! three times the CPU of one for 64, and the router must not be what limits 10,000 connections.
#![allow(unsafe_code, reason = "system calls")]
use std::{
    fs, io, mem,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

/// Frames of one call.
pub const BATCH: usize = 64;
/// Longest frame without FCS.
pub const ROOM: usize = 2048;
/// linux/if_packet.h, Linux 4.20; not in libc's constants.
const PACKET_IGNORE_OUTGOING: i32 = 23;
/// Bytes that wait in the kernel at most.
const BUFFER: i32 = 64 << 20;

/// A socket bound to an interface: all its frames, but those that this host itself sends on it.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl PacketSocket {
    /// Opens a socket on an interface in this thread's network namespace.
    pub fn open(interface: &str) -> io::Result<Self> {
        let index = fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"))?;
        let index = index.trim().parse().map_err(io::Error::other)?;
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes no memory. Without a protocol it receives nothing before it is bound.
        let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
        // SAFETY: just opened, and owned by nothing else.
        let this = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        this.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        this.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        this.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER)?;
        this.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER)?;
        // SAFETY: all zeros is a valid value.
        let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index;
        let size = mem::size_of_val(&address) as u32;
        // SAFETY: an address of its own size, read during the call only.
        check(unsafe { libc::bind(this.0.as_raw_fd(), (&raw const address).cast(), size) })?;
        Ok(this)
    }

    fn set(&self, level: i32, option: i32, value: i32) -> io::Result<()> {
        let size = mem::size_of::<i32>() as u32;
        // SAFETY: an integer of its own size, read during the call only.
        check(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, (&raw const value).cast(), size) })?;
        Ok(())
    }

    /// Frames that came since the last question and found no room.
    pub fn missed(&self) -> io::Result<u64> {
        // SAFETY: all zeros is a valid value.
        let mut statistics: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut size = mem::size_of_val(&statistics) as u32;
        let fd = self.0.as_raw_fd();
        // SAFETY: written up to its own size, during the call only.
        let result = unsafe {
            libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, (&raw mut statistics).cast(), &raw mut size)
        };
        check(result)?;
        Ok(u64::from(statistics.tp_drops))
    }

    /// Takes the frames that are there, up to `BATCH`. Returns how many; the lengths of these are set.
    pub fn receive(&self, rooms: &mut [[u8; ROOM]; BATCH], lengths: &mut [usize; BATCH]) -> io::Result<usize> {
        let mut parts: [libc::iovec; BATCH] =
            std::array::from_fn(|n| libc::iovec { iov_base: rooms[n].as_mut_ptr().cast(), iov_len: ROOM });
        // SAFETY: all zeros is a valid value.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { mem::zeroed() };
        for (header, part) in headers.iter_mut().zip(&mut parts) {
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        let fd = self.0.as_raw_fd();
        // SAFETY: `headers` point to `parts`, which point to `rooms`; all outlive the call.
        let taken =
            unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), BATCH as u32, libc::MSG_DONTWAIT, ptr::null_mut()) };
        match check(taken) {
            Ok(taken) => {
                for (length, header) in lengths.iter_mut().zip(&headers[..taken as usize]) {
                    *length = header.msg_len as usize;
                }
                Ok(taken as usize)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Sends frames, up to `BATCH`. Returns how many were taken.
    pub fn send(&self, frames: &[Vec<u8>]) -> io::Result<usize> {
        let count = frames.len().min(BATCH);
        // SAFETY: all zeros is a valid value, of both.
        let (mut parts, mut headers): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) = unsafe { mem::zeroed() };
        for ((header, part), frame) in headers.iter_mut().zip(&mut parts).zip(frames) {
            *part = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: `headers` point to `parts`, which point to `frames`, only read; all outlive the call.
        let sent =
            unsafe { libc::sendmmsg(self.0.as_raw_fd(), headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT) };
        match check(sent) {
            Ok(sent) => Ok(sent as usize),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS)) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
