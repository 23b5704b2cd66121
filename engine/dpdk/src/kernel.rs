// SPDX-License-Identifier: Apache-2.0
//! What DPDK's drivers of kernel interfaces hide (af_packet, af_xdp): the sockets they work on, and what the kernel dropped
//! behind their backs.
//!
//! A socket counts what it had no room for, and the interface counts what it could not send; the drivers report
//! neither or not all. So the driver's socket is found among the process' descriptors and kept as a duplicate.
use std::{
    collections::BTreeSet,
    fs, io,
    mem::{self, MaybeUninit},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
    sync::{Mutex, PoisonError},
};

use spate_dpdk_sys as sys;

use crate::{
    CopyMode, Error,
    interface::{attribute, be_promiscuous, interface_index, set_option},
    xdp::{self, Attached, Statistics},
};

/// linux/if_packet.h, Linux 4.20; not in libc's constants.
const PACKET_IGNORE_OUTGOING: i32 = 23;

/// The kernel's side of a port on a named interface.
#[derive(Debug)]
pub struct KernelSocket {
    socket: OwnedFd,
    interface: String,
    family: Family,
    /// A packet socket: packets lost, since the kernel forgets what it has reported. AF_XDP: those lost before the first was
    /// read, since its counters go on.
    missed: Mutex<u64>,
    /// Interface counters when the port was opened.
    start: InterfaceCounters,
}

#[derive(Debug)]
enum Family {
    Packet,
    Xdp(Attached),
}

#[derive(Clone, Copy, Debug, Default)]
struct InterfaceCounters {
    tx_packets: u64,
    /// Attempts that failed; a packet may be tried again.
    tx_failed: u64,
    rx_missed: u64,
}

impl KernelSocket {
    /// Finds the driver's socket for an interface among those not in `before`, and makes it deaf to what the host itself
    /// sends on the interface: that was not received.
    pub(crate) fn adopt(interface: &str, before: &BTreeSet<RawFd>) -> io::Result<Self> {
        let found = packet_sockets(interface_index(interface)?).into_iter().find(|fd| !before.contains(fd));
        let fd = found.ok_or_else(|| io::Error::other("the driver's packet socket was not found"))?;
        // SAFETY: an open descriptor of the driver's, which keeps it open until the port is closed.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
        set_option(&socket, PACKET_IGNORE_OUTGOING, &1i32)?;
        be_promiscuous(&socket, interface)?;
        Ok(Self::new(interface, socket, Family::Packet))
    }

    /// Adopts the AF_XDP socket that the driver has opened since `before`.
    pub(crate) fn adopt_xdp(interface: &str, before: &xdp::Before) -> Result<Self, Error> {
        let (socket, attached) = xdp::adopt(interface, before)?;
        Ok(Self::new(interface, socket, Family::Xdp(attached)))
    }

    fn new(interface: &str, socket: OwnedFd, family: Family) -> Self {
        let start = InterfaceCounters::read(interface);
        Self { socket, interface: interface.to_owned(), family, missed: Mutex::new(0), start }
    }

    /// Forgets what was counted before the first packet was read.
    pub(crate) fn reset(&self) {
        self.missed();
        *self.missed.lock().unwrap_or_else(PoisonError::into_inner) = match self.family {
            Family::Packet => 0,
            Family::Xdp(_) => Statistics::read(&self.socket).unwrap_or_default().rx_lost(),
        };
    }

    /// Whether an AF_XDP socket's packets are copied; none of a packet socket.
    pub fn copy_mode(&self) -> Option<CopyMode> {
        match &self.family {
            Family::Packet => None,
            Family::Xdp(attached) => Some(attached.mode),
        }
    }

    /// Gives back what the interface was given beside the driver, before the driver is closed.
    pub(crate) fn detach(&mut self) {
        if let Family::Xdp(attached) = &mut self.family {
            attached.detach();
        }
    }

    /// Gives back what the driver has left after it was closed.
    pub(crate) fn release(&self) {
        if let Family::Xdp(attached) = &self.family {
            attached.release(&self.socket);
        }
    }

    /// The socket, to wait on: readable when a packet has arrived.
    pub fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: as long as `self`.
        unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) }
    }

    /// Hands packets that the kernel had no room for on the first try to it again. True if none is left.
    pub fn flush(&self) -> bool {
        // SAFETY: sends nothing from user memory; the ring's own packets go.
        let sent = unsafe { libc::send(self.socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        sent == 0
    }

    /// Packets that arrived and were lost since the port was opened: the socket's ring was full, or the interface
    /// counted them as missed.
    ///
    /// An interface whose packets find no buffer in an AF_XDP socket's fill ring counts them itself where it copies nothing,
    /// and the socket counts them where the kernel copies.
    pub fn missed(&self) -> u64 {
        let mut missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        let by_interface = InterfaceCounters::read(&self.interface).rx_missed.saturating_sub(self.start.rx_missed);
        if let Family::Xdp(_) = self.family {
            let lost = Statistics::read(&self.socket).unwrap_or_default().rx_lost();
            return lost.saturating_sub(*missed) + by_interface;
        }
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = mem::size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: the buffer is as long as `len` says.
        let code = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut len,
            )
        };
        if code == 0 {
            *missed += u64::from(statistics.tp_drops);
        }
        *missed + by_interface
    }

    /// What was lost of packets that the driver took, by the driver's counters, as `PortStats` has it.
    pub(crate) fn losses(&self, driver: &sys::spate_port_stats) -> (u64, u64) {
        match self.family {
            Family::Packet => {
                let (taken, refused) = (driver.tx_packets + driver.tx_errors, driver.tx_errors);
                (driver.rx_missed + driver.rx_no_buffer + self.missed(), self.tx_lost(taken, refused))
            }
            // The driver counts some of what the socket counts, packets that it reads later because it had no buffer, and packets
            // that it did not take, which are tried again.
            Family::Xdp(_) => {
                let invalid = Statistics::read(&self.socket).unwrap_or_default().tx_invalid_descs;
                (self.missed(), self.tx_lost(driver.tx_packets, invalid))
            }
        }
    }

    /// Of `taken` packets that the driver took and `refused` that it reported as refused by the socket, those that the interface has
    /// not sent, if it failed to send any.
    ///
    /// Failures alone would be too many: newer kernels keep a packet that the interface dropped in the socket's ring and
    /// try it again, and count every attempt. Packets that the host itself sends on the interface make this too small by
    /// as many: it should have none.
    fn tx_lost(&self, taken: u64, refused: u64) -> u64 {
        let now = InterfaceCounters::read(&self.interface);
        let unsent = taken.saturating_sub(now.tx_packets.saturating_sub(self.start.tx_packets));
        unsent.min(now.tx_failed.saturating_sub(self.start.tx_failed) + refused)
    }

    /// Carrier, as the kernel says.
    pub fn link_up(&self) -> bool {
        // Reading `carrier` of an interface that is down is an error.
        attribute(&self.interface, "carrier").is_some_and(|carrier| carrier == "1")
    }

    /// Bits a second, if the kernel knows.
    pub fn line_rate_bps(&self) -> Option<u64> {
        attribute(&self.interface, "speed")?.parse::<u64>().ok().filter(|mbps| *mbps > 0).map(|mbps| mbps * 1_000_000)
    }
}

impl InterfaceCounters {
    fn read(interface: &str) -> Self {
        let counter = |name: &str| {
            attribute(interface, &format!("statistics/{name}")).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
        };
        Self {
            tx_packets: counter("tx_packets"),
            tx_failed: counter("tx_dropped") + counter("tx_errors"),
            rx_missed: counter("rx_missed_errors"),
        }
    }
}

/// Descriptors of this process that are packet sockets bound to an interface.
pub(crate) fn packet_sockets(index: u32) -> BTreeSet<RawFd> {
    let mut sockets = BTreeSet::new();
    for entry in fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        let mut address = MaybeUninit::<libc::sockaddr_ll>::zeroed();
        let mut len = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the buffer is as long as `len` says; a number that is no socket gives an error.
        if unsafe { libc::getsockname(fd, address.as_mut_ptr().cast(), &raw mut len) } != 0 {
            continue;
        }
        // SAFETY: zeroed, and any bytes are a valid sockaddr_ll.
        let address = unsafe { address.assume_init() };
        if i32::from(address.sll_family) == libc::AF_PACKET && address.sll_ifindex == index as i32 {
            sockets.insert(fd);
        }
    }
    sockets
}
