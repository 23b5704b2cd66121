// SPDX-License-Identifier: Apache-2.0
//! Interfaces of the kernel whose other end is this process: what the kernel sends is read, what is written it receives.
use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    mem,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
};

const DEVICE: &str = "/dev/net/tun";
/// linux/if_tun.h: an interface of this name must not be there.
const IFF_TUN_EXCL: i32 = 0x8000;

/// An interface; it goes when dropped.
#[derive(Debug)]
pub struct Tap {
    file: File,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// An interface's name has 1 to 15 bytes, without spaces and slashes.
    #[error("{0:?} is no name of an interface: they have 1 to 15 characters, without spaces, ':' and '/'")]
    Name(String),
    /// The system has no TUN device.
    #[error(
        "{DEVICE} cannot be opened: {0} (the engine needs that device: load the kernel's module tun, and give it to the pod)"
    )]
    Device(io::Error),
    /// The process lacks a capability, or the interface exists.
    #[error(
        "it cannot be made: {0} (the engine needs the capability NET_ADMIN, and no interface may have that name yet)"
    )]
    Make(io::Error),
    /// The interface was made and cannot be used.
    #[error("its {0} cannot be set: {1}")]
    Set(&'static str, io::Error),
}

impl Tap {
    /// Makes an interface with this address, for frames with payloads of `mtu` bytes, and sets it up.
    pub fn new(name: &str, mac: [u8; 6], mtu: u32) -> Result<Self, TapError> {
        let mut request = request(name)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(DEVICE)
            .map_err(TapError::Device)?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | IFF_TUN_EXCL) as i16;
        control(file.as_fd(), libc::TUNSETIFF, &mut request).map_err(TapError::Make)?;
        let this = Self { file };
        // SAFETY: no pointers; the descriptor is checked and owned at once.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if socket < 0 {
            return Err(TapError::Make(io::Error::last_os_error()));
        }
        // SAFETY: just opened, and owned by nothing else.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let mut data = [0; 14];
        for (to, byte) in data.iter_mut().zip(mac) {
            *to = byte.cast_signed();
        }
        request.ifr_ifru.ifru_hwaddr = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: data };
        control(socket.as_fd(), libc::SIOCSIFHWADDR, &mut request).map_err(|e| TapError::Set("address", e))?;
        request.ifr_ifru.ifru_mtu = mtu.cast_signed();
        control(socket.as_fd(), libc::SIOCSIFMTU, &mut request).map_err(|e| TapError::Set("MTU", e))?;
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_BROADCAST | libc::IFF_MULTICAST) as i16;
        control(socket.as_fd(), libc::SIOCSIFFLAGS, &mut request).map_err(|e| TapError::Set("state", e))?;
        Ok(this)
    }

    /// Whether an interface can have this name.
    pub fn check_name(name: &str) -> Result<(), TapError> {
        request(name).map(drop)
    }

    /// The next frame that the kernel sends; none if there is none now. What `frame` has no room for is cut.
    pub fn read(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        match (&self.file).read(frame) {
            Ok(len) => Ok(Some(len)),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Sends a frame to the kernel. False if the kernel does not take it: the interface is down.
    pub fn write(&self, frame: &[u8]) -> bool {
        (&self.file).write(frame).is_ok_and(|written| written == frame.len())
    }

    /// Descriptor to wait on: it is readable when the kernel sends.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn request(name: &str) -> Result<libc::ifreq, TapError> {
    let refused = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':' || c == '%';
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name == "." || name == ".." || name.chars().any(refused) {
        return Err(TapError::Name(name.to_owned()));
    }
    // SAFETY: plain numbers and a union of such, of which all zeros is a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte.cast_signed();
    }
    Ok(request)
}

fn control(fd: BorrowedFd<'_>, what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: the calls used here read and write one `ifreq`.
    match unsafe { libc::ioctl(fd.as_raw_fd(), what, std::ptr::from_mut(request)) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_interface_has_are_refused() {
        for name in ["", "sixteen-bytes-xx", "a b", "a/b", "a:b", "..", "a%d"] {
            assert!(matches!(Tap::check_name(name), Err(TapError::Name(_))), "{name}");
        }
        assert!(Tap::check_name("fifteen-bytes-x").is_ok());
    }
}
