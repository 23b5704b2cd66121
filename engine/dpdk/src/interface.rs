// SPDX-License-Identifier: Apache-2.0
//! Kernel interfaces that ports are made of: their index, MTU and address, and packet sockets on them.
use std::{
    fs, io, mem,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    path::Path,
};

use crate::Error;

/// Greatest payload of a frame on an interface.
pub(crate) fn mtu(interface: &str) -> Option<usize> {
    attribute(interface, "mtu")?.parse().ok()
}

/// Refuses an interface that is not there, and a process that may not use packet sockets.
pub(crate) fn check(interface: &str) -> Result<(), Error> {
    if interface_index(interface).is_err() || mtu(interface).is_none() {
        return Err(Error::InterfaceNotFound(interface.to_owned()));
    }
    // SAFETY: plain system calls; the descriptor is ours.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(Error::NoPermission {
            what: "packet sockets",
            remedy: "run as root, or give the container NET_RAW",
        });
    }
    // SAFETY: just opened.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

/// A packet socket that receives nothing and keeps an interface promiscuous.
pub(crate) fn promiscuous(interface: &str) -> io::Result<OwnedFd> {
    // SAFETY: a plain system call; the descriptor is ours.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    be_promiscuous(&socket, interface)?;
    Ok(socket)
}

/// Keeps an interface promiscuous while a packet socket is open.
pub(crate) fn be_promiscuous(socket: &OwnedFd, interface: &str) -> io::Result<()> {
    let promiscuous = libc::packet_mreq {
        mr_ifindex: interface_index(interface)? as i32,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::PACKET_ADD_MEMBERSHIP, &promiscuous)
}

/// Gives an interface a MAC address.
pub(crate) fn set_mac(interface: &str, mac: [u8; 6]) -> io::Result<()> {
    // SAFETY: any bytes are a valid ifreq.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if interface.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.ifr_name.iter_mut().zip(interface.bytes()).for_each(|(to, from)| *to = from as libc::c_char);
    let mut address = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: [0; 14] };
    address.sa_data.iter_mut().zip(mac).for_each(|(to, from)| *to = from as libc::c_char);
    request.ifr_ifru.ifru_hwaddr = address;
    // SAFETY: plain system calls; the descriptor is ours, and the request outlives the call.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let socket = OwnedFd::from_raw_fd(fd);
        if libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFHWADDR, &raw mut request) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The index of an interface.
pub(crate) fn interface_index(interface: &str) -> io::Result<u32> {
    let name = std::ffi::CString::new(interface)?;
    // SAFETY: a C string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// An attribute of an interface in sysfs; none if there is none.
pub(crate) fn attribute(interface: &str, name: &str) -> Option<String> {
    if interface.contains('/') || interface.is_empty() {
        return None;
    }
    let text = fs::read_to_string(Path::new("/sys/class/net").join(interface).join(name)).ok()?;
    Some(text.trim().to_owned())
}

/// Sets an option of a packet socket.
pub(crate) fn set_option<T>(socket: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of a plain struct.
    let code = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            std::ptr::from_ref(value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
