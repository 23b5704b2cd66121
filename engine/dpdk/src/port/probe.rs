// SPDX-License-Identifier: Apache-2.0
//! Devices probed by their drivers: NICs, kernel interfaces, and devices of software.
use std::{
    ffi::CString,
    sync::atomic::{AtomicU32, Ordering},
};

use spate_dpdk_sys as sys;

use crate::{Eal, Error, KernelSocket, interface, kernel, log::Mark, removal};

/// Bytes of each of the two rings of a kernel port at most.
const KERNEL_RING_BYTES: usize = 32 << 20;
/// Frames of those rings at most: what a worker that lost its CPU for 400 ms misses at 20 kpps.
const KERNEL_RING_FRAMES: usize = 8192;
/// Largest slot of those rings: packets and their headroom are shorter than 64 KiB, and a slot is a power of two.
const MAX_KERNEL_FRAME: usize = 32 << 10;
/// What the kernel keeps of a frame slot for itself (TPACKET2_HDRLEN without its address, and alignment).
const KERNEL_FRAME_OVERHEAD: usize = 96;

/// The port of a PCI function that DPDK has probed.
pub(crate) fn open_pci(eal: &Eal, address: &str) -> Result<u16, Error> {
    let mark = Mark::now();
    let id = port_by_name(address).ok_or_else(|| Error::Failed {
        what: format!("probing PCI device {address}"),
        reason: "no driver of DPDK took it".into(),
        log: mark.lines(),
    })?;
    removal::watch(eal, address)?;
    Ok(id)
}

/// Makes a port of a kernel interface. Returns its driver's socket, too.
pub(crate) fn open_kernel(interface: &str) -> Result<(u16, KernelSocket), Error> {
    let index = interface::interface_index(interface).map_err(|_| Error::InterfaceNotFound(interface.to_owned()))?;
    if kernel_frame_size(interface) > MAX_KERNEL_FRAME {
        let mtu = interface::mtu(interface).unwrap_or_default();
        let most = MAX_KERNEL_FRAME - KERNEL_FRAME_OVERHEAD - 18;
        return Err(Error::Failed {
            what: format!("opening interface {interface}"),
            reason: format!(
                "its MTU is {mtu}, and its packets could not be received whole: make it {most} or less (ip link set \
                 {interface} mtu 9000)"
            ),
            log: vec![],
        });
    }
    let before = kernel::packet_sockets(index);
    let id = probe("net_af_packet", &af_packet_arguments(interface)).map_err(|e| match e {
        Error::Failed { log, .. } if log.iter().any(|line| line.contains("mmap failed")) => Error::NoPermission {
            what: "locking the interface's packet ring in memory",
            remedy: "give the container IPC_LOCK, or raise the limit (ulimit -l)",
        },
        e => e,
    })?;
    let socket = KernelSocket::adopt(interface, &before).map_err(|e| Error::Failed {
        what: format!("watching the packet socket of {interface}"),
        reason: e.to_string(),
        log: vec![],
    })?;
    Ok((id, socket))
}

/// Gives a device an address.
///
/// # Safety
/// The port is probed.
pub(crate) unsafe fn set_mac(id: u16, mac: [u8; 6]) -> Result<(), Error> {
    // SAFETY: as the caller says; the shim reads 6 bytes.
    unsafe { call("setting its MAC address", || sys::spate_port_set_mac(id, mac.as_ptr())) }
}

/// Runs a call that returns 0 or a negative errno.
///
/// # Safety
/// As the call's.
pub(crate) unsafe fn call(what: &str, f: impl FnOnce() -> i32) -> Result<(), Error> {
    let mark = Mark::now();
    match f() {
        0.. => Ok(()),
        code => Err(Error::from_code(what, code, mark)),
    }
}

/// A name for a virtual device that no other has.
pub(crate) fn fresh_name(driver: &str) -> CString {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    CString::new(format!("{driver}_spate{}", SERIAL.fetch_add(1, Ordering::Relaxed))).expect("no NUL in it")
}

fn port_by_name(name: &str) -> Option<u16> {
    let name = CString::new(name).ok()?;
    let mut id = 0;
    // SAFETY: a C string and a valid pointer.
    (unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut id) } == 0).then_some(id)
}

/// Makes a port by a driver of software.
pub(crate) fn probe(driver: &str, arguments: &str) -> Result<u16, Error> {
    let name = fresh_name(driver);
    let text = CString::new(arguments).map_err(|_| Error::InterfaceNotFound(arguments.to_owned()))?;
    // SAFETY: the environment is up; C strings.
    unsafe {
        call(&format!("making a port of {driver} ({arguments})"), || {
            sys::rte_eal_hotplug_add(c"vdev".as_ptr(), name.as_ptr(), text.as_ptr())
        })?;
    }
    Ok(port_by_name(name.to_str().expect("ASCII")).expect("a device that was just probed has a port"))
}

/// Slot size of a kernel port's rings: a power of two, so that slots fill blocks exactly.
pub(super) fn kernel_frame_size(interface: &str) -> usize {
    let frame = interface::mtu(interface).unwrap_or(1500) + 18;
    (frame + KERNEL_FRAME_OVERHEAD).next_power_of_two().max(2048)
}

fn af_packet_arguments(interface: &str) -> String {
    let frame = kernel_frame_size(interface);
    let count = (KERNEL_RING_BYTES / frame).min(KERNEL_RING_FRAMES);
    // Blocks are physically contiguous: small ones can always be had.
    let block = frame.max(16 << 10);
    format!("iface={interface},qpairs=1,blocksz={block},framesz={frame},framecnt={count},qdisc_bypass=1")
}
