// SPDX-License-Identifier: Apache-2.0
//! What DPDK's AF_XDP driver leaves to its user: which interfaces can be used, and an XDP program that ends with the process.
//!
//! The driver attaches its program to the interface itself, where it would outlive an engine that crashed, and nobody without
//! CAP_SYS_ADMIN could find out its owner. So the program is detached at once and attached again by a BPF link (Linux 5.9),
//! which the kernel closes with the process. libxdp is not asked to attach: it needs a BPF file system and CAP_SYS_ADMIN.
use std::{
    collections::BTreeSet,
    ffi::CStr,
    fs, io, mem,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
};

use crate::{Error, interface};

/// linux/if_xdp.h.
const SOL_XDP: i32 = 283;
const XDP_STATISTICS: i32 = 7;
const XDP_OPTIONS: i32 = 8;
const XDP_OPTIONS_ZEROCOPY: u32 = 1;
/// Bytes that the kernel keeps free before a received packet (XDP_PACKET_HEADROOM).
const KERNEL_HEADROOM: usize = 256;
/// Longest element of a pool. The kernel takes a page (xdp_umem_reg); DPDK pads elements to an odd number of cache lines, which spreads
/// them over memory channels.
const MAX_ELEMENT: usize = 4096 - 64;
/// Shortest element of a pool.
const MIN_ELEMENT: usize = 2048;
/// What an element of a pool has beside its room: the mempool's header, the mbuf, its headroom.
const ELEMENT_OVERHEAD: usize = 64 + 128 + 128;
/// Ethernet header and a VLAN tag.
const FRAME_OVERHEAD: usize = 14 + 4;
/// Greatest MTU that fits.
const MAX_MTU: usize = MAX_ELEMENT - ELEMENT_OVERHEAD - KERNEL_HEADROOM - FRAME_OVERHEAD;

/// linux/bpf.h.
const BPF_PROG_LOAD: i64 = 5;
const BPF_LINK_CREATE: i64 = 28;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;

/// linux/if_link.h.
const IFLA_XDP: u16 = 43;
const IFLA_XDP_FD: u16 = 1;
const IFLA_XDP_PROG_ID: u16 = 4;

/// The program that hands packets to a socket, of libxdp.
const PROGRAM: &str = "bpf/xsk_def_xdp_prog.o";

/// What the kernel lost for a socket (struct xdp_statistics).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Statistics {
    rx_dropped: u64,
    rx_invalid_descs: u64,
    pub(crate) tx_invalid_descs: u64,
    rx_ring_full: u64,
    rx_fill_ring_empty_descs: u64,
    tx_ring_empty_descs: u64,
}

impl Statistics {
    /// Reads the statistics of a socket; none from a descriptor that is no AF_XDP socket.
    pub(crate) fn read(socket: &OwnedFd) -> io::Result<Self> {
        option(socket.as_raw_fd(), SOL_XDP, XDP_STATISTICS)
    }

    /// Packets that arrived and could not be handed over. A packet for which the fill ring has no buffer is among `rx_dropped`.
    pub(crate) fn rx_lost(&self) -> u64 {
        self.rx_dropped + self.rx_ring_full
    }
}

/// Whether packets are copied between the device's memory and a socket's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMode {
    /// The device reads and writes packet memory.
    ZeroCopy,
    /// The kernel copies each packet.
    Copy,
}

/// What is kept of a port while it is open.
#[derive(Debug)]
pub(crate) struct Attached {
    /// The driver's descriptor, which DPDK 22.11 does not close.
    driver: RawFd,
    /// Closing it detaches the program.
    link: Option<OwnedFd>,
    /// Keeps the interface promiscuous.
    _promiscuous: OwnedFd,
    pub(crate) mode: CopyMode,
}

/// Refuses an interface that cannot be used by AF_XDP, and a process that may not.
pub(crate) fn check(interface: &str) -> Result<(), Error> {
    interface::check(interface)?;
    let mtu = interface::mtu(interface).unwrap_or_default();
    if mtu > MAX_MTU {
        return Err(failed(
            interface,
            format!(
                "its MTU is {mtu}, and a packet must fit into a page with what the kernel and DPDK keep before it: make it \
                 {MAX_MTU} or less (ip link set {interface} mtu 1500), or attach it by AFPacket"
            ),
        ));
    }
    let queues = receive_queues(interface);
    if queues > 1 {
        return Err(failed(
            interface,
            format!(
                "it has {queues} receive queues, and the engine would see the packets of the first only: make it one (ethtool -L \
                 {interface} combined 1, or rx 1), or attach it by AFPacket"
            ),
        ));
    }
    // SAFETY: a plain system call; the descriptor is ours.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            Some(libc::EPERM) => {
                Error::NoPermission { what: "AF_XDP sockets", remedy: "run as root, or give the container NET_RAW" }
            }
            _ => failed(
                interface,
                format!("this kernel gives no AF_XDP sockets ({error}; CONFIG_XDP_SOCKETS): attach it by AFPacket"),
            ),
        });
    }
    // SAFETY: just opened.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    if let Err(error) = load_nothing() {
        return Err(match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Error::NoPermission {
                what: "loading an XDP program",
                remedy: "run as root, or give the container BPF and NET_ADMIN, and a seccomp profile that allows bpf(2) with BPF",
            },
            _ => failed(interface, format!("this kernel loads no XDP programs ({error}): attach it by AFPacket")),
        });
    }
    let netlink = |error| failed(interface, format!("whether it has an XDP program cannot be found out: {error}"));
    match program_of(interface::interface_index(interface).map_err(netlink)?).map_err(netlink)? {
        0 => Ok(()),
        id => Err(failed(
            interface,
            format!(
                "XDP program {id} is attached to it already: end what has attached it (bpftool prog show id {id}), or detach it (ip \
                 link set dev {interface} xdp off)"
            ),
        )),
    }
}

/// Arguments of the driver.
pub(crate) fn arguments(interface: &str, may_zero_copy: bool) -> Result<String, Error> {
    let program = program().ok_or_else(|| {
        failed(interface, format!("{PROGRAM} is in no folder below /usr/lib: install libxdp1 (Debian's package)"))
    })?;
    // Without a budget the driver blocks for a second where a device is to be woken up to receive, which only devices ask for that copy
    // nothing. With one, each look at an empty ring is a system call.
    let mode = if may_zero_copy { "force_copy=0" } else { "force_copy=1,busy_budget=0" };
    Ok(format!("iface={interface},xdp_prog={},{mode}", program.display()))
}

/// Bytes that a buffer must have room for.
pub(crate) fn room(interface: &str) -> usize {
    let frame = interface::mtu(interface).unwrap_or(1500) + FRAME_OVERHEAD;
    (frame + KERNEL_HEADROOM).max(MIN_ELEMENT - ELEMENT_OVERHEAD).next_multiple_of(64)
}

/// Descriptors of this process that the driver's will differ from.
pub(crate) struct Before {
    sockets: BTreeSet<RawFd>,
    programs: BTreeSet<RawFd>,
}

impl Before {
    pub(crate) fn now() -> Self {
        Self { sockets: sockets(), programs: programs() }
    }
}

/// Finds the socket and the program that the driver has opened since `before`, and ties the program to this process.
pub(crate) fn adopt(interface: &str, before: &Before) -> Result<(OwnedFd, Attached), Error> {
    let io = |what: &'static str| move |error: io::Error| failed(interface, format!("{what}: {error}"));
    let fresh = |now: BTreeSet<RawFd>, before: &BTreeSet<RawFd>| now.into_iter().find(|fd| !before.contains(fd));
    let driver = fresh(sockets(), &before.sockets)
        .ok_or_else(|| failed(interface, "the driver's AF_XDP socket was not found".into()))?;
    let program = fresh(programs(), &before.programs)
        .ok_or_else(|| failed(interface, "the driver's XDP program was not found".into()))?;
    // SAFETY: an open descriptor of the driver's, which keeps it open until the port is closed.
    let socket = unsafe { BorrowedFd::borrow_raw(driver) }.try_clone_to_owned().map_err(io("keeping its socket"))?;
    let index = interface::interface_index(interface).map_err(io("finding it"))?;
    detach(index).map_err(io("detaching the driver's XDP program"))?;
    let link = link(program, index).map_err(io("attaching the XDP program by a BPF link, which needs Linux 5.9"))?;
    let options: u32 = option(driver, SOL_XDP, XDP_OPTIONS).map_err(io("reading the options of its socket"))?;
    let mode = if options & XDP_OPTIONS_ZEROCOPY != 0 { CopyMode::ZeroCopy } else { CopyMode::Copy };
    let promiscuous = interface::promiscuous(interface).map_err(io("making it promiscuous"))?;
    Ok((socket, Attached { driver, link: Some(link), _promiscuous: promiscuous, mode }))
}

impl Attached {
    /// Detaches the program, before the driver looks for its own.
    pub(crate) fn detach(&mut self) {
        self.link = None;
    }

    /// Closes the driver's descriptor if the driver, which was closed, has not: the interface's queue would stay in use.
    pub(crate) fn release(&self, socket: &OwnedFd) {
        let same = |fd: RawFd| inode(fd).is_some_and(|of| Some(of) == inode(socket.as_raw_fd()));
        if self.driver != socket.as_raw_fd() && same(self.driver) {
            // SAFETY: the driver's, which nothing uses any more.
            drop(unsafe { OwnedFd::from_raw_fd(self.driver) });
        }
    }
}

fn failed(interface: &str, reason: String) -> Error {
    Error::Failed { what: format!("opening interface {interface} by AF_XDP"), reason, log: vec![] }
}

/// Receive queues in use.
fn receive_queues(interface: &str) -> usize {
    let queues = fs::read_dir(Path::new("/sys/class/net").join(interface).join("queues"));
    let names = queues.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter(|name| name.to_str().is_some_and(|name| name.starts_with("rx-"))).count()
}

/// The file of the program: /usr/lib, or the folder of an architecture below it.
fn program() -> Option<PathBuf> {
    let below = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    [PathBuf::from("/usr/lib"), PathBuf::from("/usr/lib64")]
        .into_iter()
        .chain(below)
        .map(|at| at.join(PROGRAM))
        .find(|file| file.exists())
}

/// Numbers of this process' descriptors.
fn descriptors() -> impl Iterator<Item = RawFd> {
    let names = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok())
}

/// AF_XDP sockets of this process. The kernel does not report their interface.
fn sockets() -> BTreeSet<RawFd> {
    let domain = |fd: RawFd| option::<i32>(fd, libc::SOL_SOCKET, libc::SO_DOMAIN).ok();
    descriptors().filter(|&fd| domain(fd) == Some(libc::AF_XDP)).collect()
}

/// BPF programs of this process.
fn programs() -> BTreeSet<RawFd> {
    let is_program = |fd: RawFd| {
        fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|to| to.as_os_str() == "anon_inode:bpf-prog")
    };
    descriptors().filter(|&fd| is_program(fd)).collect()
}

fn inode(fd: RawFd) -> Option<(u64, u64)> {
    let mut stat = mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the buffer is a stat; a number that is no descriptor gives an error.
    (unsafe { libc::fstat(fd, stat.as_mut_ptr()) } == 0).then(|| {
        // SAFETY: filled in.
        let stat = unsafe { stat.assume_init() };
        (stat.st_dev, stat.st_ino)
    })
}

/// An option of a socket, of plain integers.
fn option<T: Copy + Default>(fd: RawFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut len = mem::size_of::<T>() as libc::socklen_t;
    // SAFETY: the buffer is as long as `len` says; a number that is no socket gives an error.
    let code = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    if code == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// bpf(2) with attributes of plain integers, for calls that return a descriptor.
fn bpf<T>(command: i64, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of a plain struct; its pointers are the caller's.
    let code = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), mem::size_of::<T>()) };
    // SAFETY: a new descriptor.
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { OwnedFd::from_raw_fd(code as RawFd) }) }
}

/// Loads a program that passes every packet, which is attached to nothing: whether the process may load any.
fn load_nothing() -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Load {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log: [u64; 2],
        version_and_flags: [u32; 2],
    }
    const LICENSE: &CStr = c"GPL";
    // r0 = XDP_PASS; exit.
    let instructions: [u64; 2] = [0x0000_0002_0000_00b7, 0x95];
    let attributes = Load {
        kind: BPF_PROG_TYPE_XDP,
        count: 2,
        instructions: instructions.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log: [0; 2],
        version_and_flags: [0; 2],
    };
    bpf(BPF_PROG_LOAD, &attributes)
}

/// Attaches a program to an interface until the link is closed.
fn link(program: RawFd, index: u32) -> io::Result<OwnedFd> {
    bpf(BPF_LINK_CREATE, &[program as u32, index, BPF_XDP, 0])
}

/// Id of the XDP program of an interface, 0 if there is none.
fn program_of(index: u32) -> io::Result<u32> {
    let answer = rtnetlink(libc::RTM_GETLINK, 0, index, &[])?;
    // Behind the header of the message and that of the interface.
    let attributes = answer.get(32..).unwrap_or_default();
    Ok(attribute(attributes, IFLA_XDP).and_then(|xdp| attribute(xdp, IFLA_XDP_PROG_ID)).map_or(0, number))
}

/// Detaches the XDP program that is attached to an interface itself.
fn detach(index: u32) -> io::Result<()> {
    let none = (-1i32).to_ne_bytes();
    let mut xdp = Vec::new();
    xdp.extend(12u16.to_ne_bytes());
    xdp.extend(((libc::NLA_F_NESTED as u16) | IFLA_XDP).to_ne_bytes());
    xdp.extend(8u16.to_ne_bytes());
    xdp.extend(IFLA_XDP_FD.to_ne_bytes());
    xdp.extend(none);
    rtnetlink(libc::RTM_SETLINK, libc::NLM_F_ACK as u16, index, &xdp).map(drop)
}

fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// The value of the first attribute of a type (rtnetlink(7)).
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let Some((header, _)) = attributes.split_first_chunk::<4>() {
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & !(libc::NLA_F_NESTED as u16);
        let value = attributes.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
    None
}

/// Sends one message about an interface, and returns the answer.
fn rtnetlink(kind: u16, flags: u16, index: u32, attributes: &[u8]) -> io::Result<Vec<u8>> {
    // SAFETY: a plain system call; the descriptor is ours.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut message = Vec::new();
    // nlmsghdr: length, type, flags, sequence, port.
    message.extend(((32 + attributes.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend((flags | libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend([0; 8]);
    // ifinfomsg: family, type, index, flags, change.
    message.extend([0; 4]);
    message.extend(index.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(attributes);
    let mut answer = vec![0; 64 << 10];
    // SAFETY: the buffers are as long as their lengths say. The kernel has answered when the first call returns.
    let read = unsafe {
        if libc::send(socket.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::recv(socket.as_raw_fd(), answer.as_mut_ptr().cast(), answer.len(), libc::MSG_DONTWAIT)
    };
    answer.truncate(usize::try_from(read).map_err(|_| io::Error::last_os_error())?);
    let kind = answer.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
    match (kind, answer.get(16..).map(|code| number(code) as i32)) {
        // An acknowledgement is an error of 0.
        (Some(kind), Some(code)) if i32::from(kind) == libc::NLMSG_ERROR && code != 0 => {
            Err(io::Error::from_raw_os_error(-code))
        }
        (Some(_), Some(_)) => Ok(answer),
        _ => Err(io::Error::other("the answer is no message")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_in_their_nest_and_broken_ones_are_none() {
        let mut all = Vec::new();
        // An attribute of 5 bytes and its padding, then a nest with an attached mode and a program.
        all.extend([9, 0, 3, 0, 1, 2, 3, 4, 5, 0, 0, 0]);
        all.extend([20, 0, 43, 0x80, 5, 0, 2, 0, 1, 0, 0, 0, 8, 0, 4, 0, 0x39, 0x30, 0, 0]);
        let id = |bytes: &[u8]| attribute(bytes, IFLA_XDP).and_then(|xdp| attribute(xdp, IFLA_XDP_PROG_ID)).map(number);
        assert_eq!(id(&all), Some(12_345));
        for len in 0..all.len() {
            assert_eq!(id(&all[..len]), None, "{len} bytes");
        }
        assert_eq!(attribute(&[0, 0, 0, 0, 0, 0, 0, 0], IFLA_XDP), None);
    }

    #[test]
    fn interfaces_that_are_too_long_for_a_page_are_refused() {
        // Index of the loopback interface in every namespace.
        let error = check("lo").unwrap_err().to_string();
        assert!(error.contains("its MTU is 65536") && error.contains("make it 3438 or less"), "{error}");
    }
}
