// SPDX-License-Identifier: Apache-2.0
//! BIRD's connections of BGP, of which the kernel knows what neighbors have acknowledged (sock_diag(7)): this process and BIRD are in the
//! same network namespace.
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};
use spate_routing::{Connection, Router};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

/// linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, net/tcp_states.h, linux/tcp.h.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const IPPROTO_TCP: u8 = 6;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const INET_DIAG_INFO: u16 = 2;
const TCP_ESTABLISHED: u32 = 1;
const NLMSG_HEADER: usize = 16;
/// struct inet_diag_msg, and offsets in it.
const DIAG_MSG: usize = 72;
const SPORT: usize = 4;
const DPORT: usize = 6;
const SRC: usize = 8;
const DST: usize = 24;
const WQUEUE: usize = 60;
/// tcpi_bytes_acked in struct tcp_info.
const BYTES_ACKED: usize = 120;
/// BGP's port (RFC 4271 section 8.2.1).
const BGP: u16 = 179;
/// The kernel fills its responses up to this.
const REPLY_BYTES: usize = 32 << 10;

/// Established connections of BGP, by their two addresses.
type Connections = HashMap<(IpAddr, IpAddr), Connection>;

/// Reads connections.
#[derive(Debug)]
pub(super) struct Reader(OwnedFd);

impl Reader {
    pub(super) fn new() -> io::Result<Self> {
        let protocol = Some(netlink::SOCK_DIAG);
        Ok(Self(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?))
    }

    /// The connections of sessions of BGP, by port and name; those that there are none of are left out.
    pub(super) fn of(&self, routers: &[Router]) -> io::Result<HashMap<(String, String), Connection>> {
        let mut all = Connections::new();
        for family in [AF_INET, AF_INET6] {
            self.read(family, &mut all)?;
        }
        let mut found = HashMap::new();
        for router in routers {
            for session in &router.bgp {
                let ends = router.source(session).map(|own| (own, session.neighbor));
                if let Some(connection) = ends.and_then(|ends| all.get(&ends)) {
                    found.insert((router.port.clone(), session.name.clone()), *connection);
                }
            }
        }
        Ok(found)
    }

    /// Adds the connections of a family.
    fn read(&self, family: u8, found: &mut Connections) -> io::Result<()> {
        send(&self.0, &request(family), SendFlags::empty())?;
        let mut reply = vec![0; REPLY_BYTES];
        loop {
            let (_, len) = recv(&self.0, &mut reply[..], RecvFlags::empty())?;
            if messages(&reply[..len.min(REPLY_BYTES)], found)? {
                return Ok(());
            }
        }
    }
}

/// struct inet_diag_req_v2: all established connections of TCP.
fn request(family: u8) -> Vec<u8> {
    let mut message = Vec::with_capacity(NLMSG_HEADER + 56);
    message.extend_from_slice(&(NLMSG_HEADER as u32 + 56).to_ne_bytes());
    message.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&[family, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0]);
    message.extend_from_slice(&(1u32 << TCP_ESTABLISHED).to_ne_bytes());
    message.resize(NLMSG_HEADER + 56, 0);
    message
}

/// Reads the messages of a response; true if they are the last ones.
fn messages(mut bytes: &[u8], found: &mut Connections) -> io::Result<bool> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's response is none");
    while !bytes.is_empty() {
        let len = u32_at(bytes, 0).ok_or_else(wrong)? as usize;
        let message = bytes.get(..len).filter(|_| len >= NLMSG_HEADER).ok_or_else(wrong)?;
        match u16_at(message, 4) {
            Some(NLMSG_DONE) => return Ok(true),
            Some(NLMSG_ERROR) => {
                let error = u32_at(message, NLMSG_HEADER).ok_or_else(wrong)? as i32;
                return Err(io::Error::from_raw_os_error(-error));
            }
            Some(SOCK_DIAG_BY_FAMILY) => found.extend(connection(&message[NLMSG_HEADER..])),
            _ => {}
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// struct inet_diag_msg and its attributes; none if it is no connection of BGP.
fn connection(message: &[u8]) -> Option<((IpAddr, IpAddr), Connection)> {
    let port = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
    if port(SPORT)? != BGP && port(DPORT)? != BGP {
        return None;
    }
    let address = |at: usize| -> Option<IpAddr> {
        match *message.first()? {
            AF_INET => Some(Ipv4Addr::from(*message.get(at..)?.first_chunk::<4>()?).into()),
            AF_INET6 => Some(Ipv6Addr::from(*message.get(at..)?.first_chunk::<16>()?).into()),
            _ => None,
        }
    };
    let ends = (address(SRC)?, address(DST)?);
    let queued = u32_at(message, WQUEUE)?.into();
    let mut attributes = message.get(DIAG_MSG..)?;
    loop {
        // struct rtattr, each at a multiple of four bytes.
        let (len, kind) = (u16_at(attributes, 0)?, u16_at(attributes, 2)?);
        let value = attributes.get(4..usize::from(len))?;
        if kind == INET_DIAG_INFO {
            let acknowledged = u64::from_ne_bytes(*value.get(BYTES_ACKED..)?.first_chunk()?);
            return Some((ends, Connection { acknowledged, queued }));
        }
        attributes = attributes.get(usize::from(len).next_multiple_of(4)..)?;
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response of the kernel with a connection between these ports, in pieces: struct nlmsghdr, struct inet_diag_msg, INET_DIAG_INFO.
    fn response(sport: u16, dport: u16) -> Vec<u8> {
        let mut body = vec![0; DIAG_MSG];
        body[0] = AF_INET;
        body[SPORT..SPORT + 2].copy_from_slice(&sport.to_be_bytes());
        body[DPORT..DPORT + 2].copy_from_slice(&dport.to_be_bytes());
        body[SRC..SRC + 4].copy_from_slice(&[10, 99, 0, 1]);
        body[DST..DST + 4].copy_from_slice(&[10, 99, 0, 2]);
        body[WQUEUE..WQUEUE + 4].copy_from_slice(&700u32.to_ne_bytes());
        // INET_DIAG_SHUTDOWN, a byte, is before it.
        body.extend_from_slice(&[5, 0, 8, 0, 0, 0, 0, 0]);
        let mut info = vec![0; 232];
        info[BYTES_ACKED..BYTES_ACKED + 8].copy_from_slice(&5000u64.to_ne_bytes());
        body.extend_from_slice(&(4 + info.len() as u16).to_ne_bytes());
        body.extend_from_slice(&INET_DIAG_INFO.to_ne_bytes());
        body.extend_from_slice(&info);
        let mut message = (NLMSG_HEADER as u32 + body.len() as u32).to_ne_bytes().to_vec();
        message.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message.resize(NLMSG_HEADER, 0);
        message.extend_from_slice(&body);
        message
    }

    #[test]
    fn connections_of_bgp_have_what_is_acknowledged_and_what_is_not() {
        let mut found = Connections::new();
        let done = [20u32.to_ne_bytes().as_slice(), &[3, 0, 2, 0], &[0; 12]].concat();
        let bytes = [response(41_000, 179), response(41_000, 443), done].concat();
        assert!(messages(&bytes, &mut found).unwrap());
        let ends = ([10, 99, 0, 1].into(), [10, 99, 0, 2].into());
        assert_eq!(found, Connections::from([(ends, Connection { acknowledged: 5000, queued: 700 })]));
        // What is cut off is no connection, and no panic.
        for len in 0..bytes.len() {
            let _ = messages(&bytes[..len], &mut Connections::new());
        }
    }

    #[test]
    fn without_routers_there_are_no_connections() {
        let reader = Reader::new().unwrap();
        assert!(reader.of(&[]).unwrap().is_empty());
    }
}
