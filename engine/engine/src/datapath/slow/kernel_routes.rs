// SPDX-License-Identifier: Apache-2.0
//! What the kernel must know of a router's interface, by netlink (rtnetlink(7)): its addresses, and that what is sent from them to other
//! subnets leaves by it, through the port's gateways. The pod's own routes stay as they are: what is sent from other addresses does not
//! see these.
//!
//! If the port is an interface of the kernel, the kernel receives there what is for the router, too, finds no socket that is bound to that
//! interface, and answers with resets. So what comes in there is dropped, by a rule before that for the kernel's own addresses, which is moved
//! behind it: packet sockets have received it by then. At the end the rule is where it was.
use std::{io, net::IpAddr, os::fd::OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with};
use spate_neighbour::{Mac, Prefix, link_local};

/// linux/rtnetlink.h, linux/netlink.h, linux/if_link.h, linux/if_addr.h, linux/fib_rules.h.
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// No duplicate address detection: the port announces its addresses itself.
const IFA_F_NODAD: u32 = 2;
/// No route to the address's subnet: it would be the pod's own, and might hide the one by which the operator reaches the pod.
const IFA_F_NOPREFIXROUTE: u32 = 0x200;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_TABLE: u16 = 15;
const RTPROT_STATIC: u8 = 4;
const RTN_UNICAST: u8 = 1;
const RT_SCOPE_LINK: u8 = 253;
const RT_TABLE_LOCAL: u32 = 255;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FR_ACT_TO_TBL: u8 = 1;
const FR_ACT_BLACKHOLE: u8 = 6;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Priority of the rule for the kernel's own addresses: the kernel gives it the first, and routers the second, so that theirs come before it.
const LOCAL_PRIORITY: [u32; 2] = [0, 1];
/// Tables of routes from here on are the routers', by the number of their interface.
const TABLES: u32 = 10_000;

/// What the kernel does not do.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}{remedy}")]
pub(super) struct Error {
    what: String,
    error: io::Error,
    remedy: &'static str,
}

/// Addresses and rules of an interface. The kernel forgets addresses and routes with the interface; rules are removed when this is dropped.
#[derive(Debug)]
pub(super) struct KernelRoutes {
    socket: OwnedFd,
    rules: Vec<Vec<u8>>,
    /// Families of which the rule for the kernel's own addresses was moved.
    moved: Vec<u8>,
}

impl KernelRoutes {
    /// Gives an interface that is up and has a MAC its addresses, and routes through gateways. What the kernel receives on the devices of
    /// the port is dropped.
    pub(super) fn new(
        interface: &str,
        mac: Mac,
        addresses: &[Prefix],
        gateways: &[IpAddr],
        devices: &[&str],
    ) -> Result<Self, Error> {
        let failed = |what: &str, error: io::Error| Error {
            what: what.to_owned(),
            remedy: match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    " (the engine needs the capability NET_ADMIN; for IPv6, net.ipv6.conf.all.disable_ipv6 must be 0)"
                }
                _ => "",
            },
            error,
        };
        let open = || -> io::Result<(OwnedFd, u32)> {
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
            let any = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
            Ok((socket, netdevice::name_to_index(any, interface)?))
        };
        let (socket, index) = open().map_err(|e| failed("rtnetlink", e))?;
        let mut this = Self { socket, rules: Vec::new(), moved: Vec::new() };
        let table = TABLES + index;
        if addresses.iter().any(|prefix| prefix.address.is_ipv6()) {
            this.own_link_local(index, mac).map_err(|e| failed("the link-local address cannot be set", e))?;
        }
        for prefix in addresses {
            let message = new_address(index, prefix, IFA_F_NODAD | IFA_F_NOPREFIXROUTE);
            this.request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &message)
                .map_err(|e| failed(&format!("address {prefix} cannot be set"), e))?;
        }
        for prefix in addresses {
            // Two addresses may be of one subnet.
            let added = this.request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &subnet_route(table, index, prefix));
            ignore(added, io::ErrorKind::AlreadyExists)
                .map_err(|e| failed(&format!("a route to the subnet of {prefix} cannot be set"), e))?;
        }
        for gateway in gateways {
            this.request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &new_route(table, index, *gateway))
                .map_err(|e| failed(&format!("a route through {gateway} cannot be set"), e))?;
        }
        for prefix in addresses {
            let rule = rule(table, prefix.address);
            this.request(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &rule)
                .map_err(|e| failed(&format!("the rule for packets from {} cannot be set", prefix.address), e))?;
            this.rules.push(rule);
        }
        for device in devices {
            this.drop_received(device)
                .map_err(|e| failed(&format!("what the kernel receives on {device} cannot be dropped"), e))?;
        }
        Ok(this)
    }

    /// Replaces the link-local address that the kernel gives an interface by the same one without duplicate address detection. If the port
    /// is an interface of the kernel with the same MAC, both have this address: detection would fail, and OSPFv3 and RIPng have no other.
    fn own_link_local(&mut self, index: u32, mac: Mac) -> io::Result<()> {
        self.request(RTM_NEWLINK, 0, &without_generated_addresses(index))?;
        let address = new_address(index, &Prefix { address: link_local(mac).into(), length: 64 }, IFA_F_NODAD);
        ignore(self.request(RTM_DELADDR, 0, &address), io::ErrorKind::AddrNotAvailable)?;
        self.request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &address)
    }

    /// Has the kernel drop what it receives on an interface.
    fn drop_received(&mut self, device: &str) -> io::Result<()> {
        for family in [AF_INET, AF_INET6] {
            let [first, second] = LOCAL_PRIORITY.map(|priority| local_rule(family, priority));
            let added = match self.request(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &second) {
                // A kernel without IPv6 receives none.
                Err(error) if error.raw_os_error() == Some(Errno::AFNOSUPPORT.raw_os_error()) => continue,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                other => other.map(|()| true)?,
            };
            let deleted = match self.request(RTM_DELRULE, 0, &first) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => false,
                other => other.map(|()| true)?,
            };
            // Another router has moved it, or an engine that was killed; a rule that somebody has moved elsewhere stays there.
            if deleted || !added && !self.rules.contains(&second) {
                self.moved.push(family);
            } else if added {
                self.rules.push(second);
            }
            let rule = drop_rule(family, device);
            // An engine that was killed may have left it in the machine's own namespace.
            let added = self.request(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &rule);
            ignore(added, io::ErrorKind::AlreadyExists)?;
            self.rules.push(rule);
        }
        Ok(())
    }

    /// Sends a request; an error is what the kernel responds.
    fn request(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(16 + body.len());
        message.extend_from_slice(&(16 + body.len() as u32).to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&(flags | NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
        // Sequence number and sender: there is one request at a time.
        message.extend_from_slice(&[0; 8]);
        message.extend_from_slice(body);
        send(&self.socket, &message, SendFlags::empty())?;
        let mut reply = [0; 4096];
        let (_, len) = recv(&self.socket, &mut reply, RecvFlags::empty())?;
        let reply = &reply[..len.min(4096)];
        let kind = reply.get(4..6).and_then(|bytes| Some(u16::from_ne_bytes(*bytes.first_chunk()?)));
        let error = reply.get(16..).and_then(|bytes| Some(i32::from_ne_bytes(*bytes.first_chunk()?)));
        match (kind, error) {
            (Some(NLMSG_ERROR), Some(0)) => Ok(()),
            (Some(NLMSG_ERROR), Some(error)) => Err(io::Error::from_raw_os_error(-error)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's response is none")),
        }
    }
}

impl Drop for KernelRoutes {
    fn drop(&mut self) {
        for rule in &self.rules {
            if let Err(error) = self.request(RTM_DELRULE, 0, rule) {
                tracing::debug!(%error, "a rule of a router's address is already gone");
            }
        }
        // What other routers drop is still before it: the kernel adds a rule behind those of its priority.
        for family in &self.moved {
            let [first, second] = LOCAL_PRIORITY.map(|priority| local_rule(*family, priority));
            let added = self.request(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &first);
            let restored = ignore(added, io::ErrorKind::AlreadyExists)
                .and_then(|()| ignore(self.request(RTM_DELRULE, 0, &second), io::ErrorKind::NotFound));
            if let Err(error) = restored {
                tracing::warn!(%error, "the rule for the kernel's own addresses is not where it was");
            }
        }
    }
}

/// Nothing, if that is the error.
fn ignore(result: io::Result<()>, kind: io::ErrorKind) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == kind => Ok(()),
        other => other,
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { AF_INET } else { AF_INET6 }
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// Adds an attribute (struct rtattr), at a multiple of four bytes.
fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// struct ifinfomsg and its attributes: the kernel generates no address for an interface.
fn without_generated_addresses(index: u32) -> Vec<u8> {
    let mut of_ipv6 = Vec::new();
    attribute(&mut of_ipv6, IFLA_INET6_ADDR_GEN_MODE, &[IN6_ADDR_GEN_MODE_NONE]);
    let mut of_families = Vec::new();
    attribute(&mut of_families, u16::from(AF_INET6), &of_ipv6);
    let mut message = vec![0; 16];
    message[4..8].copy_from_slice(&index.to_ne_bytes());
    attribute(&mut message, IFLA_AF_SPEC, &of_families);
    message
}

/// struct ifaddrmsg and its attributes.
fn new_address(index: u32, prefix: &Prefix, flags: u32) -> Vec<u8> {
    let mut message = vec![family(prefix.address), prefix.length, 0, 0];
    message.extend_from_slice(&index.to_ne_bytes());
    attribute(&mut message, IFA_LOCAL, &bytes(prefix.address));
    attribute(&mut message, IFA_ADDRESS, &bytes(prefix.address));
    attribute(&mut message, IFA_FLAGS, &flags.to_ne_bytes());
    message
}

/// struct rtmsg and its attributes: a default route.
fn new_route(table: u32, index: u32, gateway: IpAddr) -> Vec<u8> {
    let mut message = vec![family(gateway), 0, 0, 0, 0, RTPROT_STATIC, 0, RTN_UNICAST, 0, 0, 0, 0];
    attribute(&mut message, RTA_TABLE, &table.to_ne_bytes());
    attribute(&mut message, RTA_OIF, &index.to_ne_bytes());
    attribute(&mut message, RTA_GATEWAY, &bytes(gateway));
    message
}

/// struct rtmsg and its attributes: the subnet of an address, which is on the link.
fn subnet_route(table: u32, index: u32, prefix: &Prefix) -> Vec<u8> {
    let family = family(prefix.address);
    let mut message = vec![family, prefix.length, 0, 0, 0, RTPROT_STATIC, RT_SCOPE_LINK, RTN_UNICAST, 0, 0, 0, 0];
    let mut network = bytes(prefix.address);
    let mut left = prefix.length;
    for byte in &mut network {
        *byte &= 0xff_u8.checked_shl(8 - u32::from(left.min(8))).unwrap_or(0);
        left = left.saturating_sub(8);
    }
    attribute(&mut message, RTA_DST, &network);
    attribute(&mut message, RTA_TABLE, &table.to_ne_bytes());
    attribute(&mut message, RTA_OIF, &index.to_ne_bytes());
    message
}

/// struct fib_rule_hdr and its attributes: the kernel's own addresses, at a priority.
fn local_rule(family: u8, priority: u32) -> Vec<u8> {
    let mut message = vec![family, 0, 0, 0, 0, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
    attribute(&mut message, FRA_PRIORITY, &priority.to_ne_bytes());
    attribute(&mut message, FRA_TABLE, &RT_TABLE_LOCAL.to_ne_bytes());
    message
}

/// struct fib_rule_hdr and its attributes: packets that come in on a device are dropped, before the rule for the kernel's own addresses.
fn drop_rule(family: u8, device: &str) -> Vec<u8> {
    let mut message = vec![family, 0, 0, 0, 0, 0, 0, FR_ACT_BLACKHOLE, 0, 0, 0, 0];
    attribute(&mut message, FRA_PRIORITY, &LOCAL_PRIORITY[0].to_ne_bytes());
    attribute(&mut message, FRA_IIFNAME, format!("{device}\0").as_bytes());
    message
}

/// struct fib_rule_hdr and its attributes: packets from an address use a table.
fn rule(table: u32, from: IpAddr) -> Vec<u8> {
    let from_bits = 8 * bytes(from).len() as u8;
    let mut message = vec![family(from), 0, from_bits, 0, 0, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
    attribute(&mut message, FRA_SRC, &bytes(from));
    attribute(&mut message, FRA_TABLE, &table.to_ne_bytes());
    message
}
