// SPDX-License-Identifier: Apache-2.0
//! Shared memory interfaces (memif): which end listens on the socket, and which connects to it.
//!
//! The peer writes descriptors that the driver of DPDK follows without a check: whoever may connect to the socket, or listen on it, can
//! read and write this process' memory.
use std::{
    fs, io,
    os::{
        fd::AsRawFd,
        unix::{
            ffi::OsStrExt,
            fs::{FileTypeExt, MetadataExt, OpenOptionsExt},
        },
    },
    path::PathBuf,
};

use crate::Error;

/// Packets of each ring, as a power of two: 8 MiB of memory, of both directions.
const LOG2_RING: u32 = 11;

/// A shared memory interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memif {
    /// Path of the socket on which peers find each other.
    pub socket: PathBuf,
    /// Number of the interface on that socket.
    pub id: u32,
    /// Whether this process listens, else it connects.
    pub server: bool,
}

impl Memif {
    fn failed(&self, reason: String) -> Error {
        Error::Failed { what: format!("memif {}", self.socket.display()), reason, log: vec![] }
    }

    /// Refuses a path that no socket can have.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let text = self.socket.as_os_str().as_bytes();
        // The path becomes an argument of the driver, and an address of a socket.
        if text.len() > Self::MAX_PATH || text.contains(&b',') || text.contains(&0) {
            return Err(self.failed(format!("the path must have at most {} bytes, and no comma", Self::MAX_PATH)));
        }
        Ok(())
    }

    /// Makes the path of a server free. What it returns keeps other engines from it. Nobody connects to see whether a server is there:
    /// the driver of DPDK 22.11 ends the process of a server whose client hangs up at once.
    pub(crate) fn reserve(&self) -> Result<Option<fs::File>, Error> {
        if !self.server {
            return Ok(None);
        }
        let failed = |e: io::Error| self.failed(format!("{e}: give another path, or remove what is there"));
        let mut name = self.socket.clone().into_os_string();
        name.push(".lock");
        let options = libc::O_NOFOLLOW | libc::O_CLOEXEC;
        let lock = fs::File::options().write(true).create(true).truncate(false).custom_flags(options).open(&name);
        let lock = lock.map_err(|e| self.failed(format!("{} cannot be made: {e}", name.display())))?;
        // SAFETY: a plain system call on an open descriptor.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(failed(io::Error::other("another engine listens there")));
        }
        match fs::symlink_metadata(&self.socket) {
            Ok(found) if found.file_type().is_socket() => fs::remove_file(&self.socket).map_err(failed)?,
            Ok(_) => return Err(failed(io::Error::other("there is something that is no socket"))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
        }
        Ok(Some(lock))
    }

    /// What distinguishes the socket from one that is made later: its inode, and the time when it was made. None if there is none.
    pub(crate) fn identity(&self) -> Option<(u64, i64, i64)> {
        let found = fs::metadata(&self.socket).ok().filter(|found| found.file_type().is_socket())?;
        Some((found.ino(), found.ctime(), found.ctime_nsec()))
    }

    /// The driver's arguments.
    pub(crate) fn arguments(&self) -> String {
        let (role, id, socket) = (if self.server { "server" } else { "client" }, self.id, self.socket.display());
        format!("role={role},id={id},socket={socket},socket-abstract=no,zero-copy=no,bsize=2048,rsize={LOG2_RING}")
    }

    /// Longest path of a socket in bytes (`sun_path` of sockaddr_un, unix(7)).
    pub const MAX_PATH: usize = 107;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memif(name: &str, server: bool) -> Memif {
        let socket = std::env::temp_dir().join(format!("spate-memif-{name}-{}", std::process::id()));
        Memif { socket, id: 0, server }
    }

    #[test]
    fn a_server_takes_no_others_place() {
        let file = memif("file", true);
        fs::write(&file.socket, "kept").unwrap();
        assert!(file.reserve().unwrap_err().to_string().contains("no socket"));
        assert_eq!(fs::read_to_string(&file.socket).unwrap(), "kept");
        fs::remove_file(&file.socket).unwrap();

        // A server that was killed has left its socket.
        drop(std::os::unix::net::UnixListener::bind(&file.socket).unwrap());
        let held = file.reserve().unwrap();
        assert!(held.is_some() && file.identity().is_none());
        assert!(file.reserve().unwrap_err().to_string().contains("another engine listens there"));
        drop(held);
        assert!(file.reserve().unwrap().is_some());
        fs::remove_file(format!("{}.lock", file.socket.display())).unwrap();
        assert!(Memif { server: false, ..file }.reserve().unwrap().is_none());
    }

    #[test]
    fn paths_are_those_of_sockets() {
        let file = memif("path", true);
        file.check().unwrap();
        let long = Memif { socket: format!("/tmp/{}", "x".repeat(200)).into(), ..file.clone() };
        assert!(long.check().unwrap_err().to_string().contains("107 bytes"));
        let comma = Memif { socket: "/tmp/a,secret=b".into(), ..file };
        assert!(comma.check().unwrap_err().to_string().contains("no comma"));
    }
}
