// SPDX-License-Identifier: Apache-2.0
//! An interface of the kernel on a port: what the kernel sends on it leaves by the port, and it receives what a filter takes of what the
//! port receives. A router's is the port as the kernel knows it: with the port's addresses, in the port's VLAN.
use std::{io, net::IpAddr, os::fd::OwnedFd};

use spate_dpdk::{FilterError, Tap, compile};
use spate_filter::Program;
use spate_neighbour::{Config, Prefix};
use spate_net::{
    ethernet::MACS,
    vlan::{self, Tag},
};
use spate_stateless::MIN_FRAME_LEN;

use super::kernel_routes::{self, KernelRoutes};
use crate::datapath::{PortDevice, buffers::SHORT_ROOM, open::OpenPort};

/// Of Ethernet, without VLAN tags.
const HEADER_BYTES: usize = 14;

/// What a router receives: BGP, BFD (on a link, and over several hops), OSPF and RIP of both families, and what its own packets need of ARP,
/// neighbor discovery and ICMP. Requests for the port's addresses, by ARP and ping, are left to the port, or there would be two replies.
/// By their destination ports, so that no station of the link reaches what else listens in the pod; replies of BGP go to ports from which
/// Linux connects (ip(7), ip_local_port_range). Router advertisements and redirects would change the pod's own routes.
const ROUTERS_FILTER: &str = "(arp and arp[6:2] = 2) or (icmp and icmp[icmptype] != icmp-echo and icmp[icmptype] != icmp-redirect) \
     or (icmp6 and ip6[40] != 128 and ip6[40] != 133 and ip6[40] != 134 and ip6[40] != 137) \
     or tcp dst port 179 or (tcp src port 179 and tcp dst portrange 32768-65535) \
     or udp dst port 3784 or udp dst port 4784 or ip proto 89 or ip6 proto 89 or udp dst port 520 or udp dst port 521";

/// An interface of the kernel that is made for a port: what the kernel sends on it leaves by the port.
#[derive(Clone, Debug)]
pub struct Punt {
    /// Its name.
    interface: String,
    /// Which of the frames that the port receives it receives, besides those of runs.
    filter: Program,
    /// What it has of the port, if a router uses it.
    router: Option<Config>,
}

impl Punt {
    /// An interface without addresses.
    pub fn new(interface: impl Into<String>, filter: Program) -> Self {
        Self { interface: interface.into(), filter, router: None }
    }

    /// An interface by which a program speaks routing protocols from the addresses of a port with this configuration.
    ///
    /// # Errors
    /// If the filter cannot be compiled, which it always can.
    pub fn of_router(interface: impl Into<String>, port: &Config) -> Result<Self, FilterError> {
        let filter = match port.vlan {
            Some(vlan) => format!("vlan {vlan} and ({ROUTERS_FILTER})"),
            None => ROUTERS_FILTER.to_owned(),
        };
        Ok(Self { interface: interface.into(), filter: compile(&filter)?, router: Some(port.clone()) })
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Whether a router uses it.
    pub fn is_of_router(&self) -> bool {
        self.router.is_some()
    }

    pub(super) fn filter(&self) -> &Program {
        &self.filter
    }
}

/// The kernel's interfaces that a device is made of.
fn kernel_interfaces(device: &PortDevice) -> Vec<&str> {
    let parts = device.parts().iter();
    parts
        .filter_map(|part| match part {
            PortDevice::Kernel(name) | PortDevice::Xdp(name) => Some(name.as_str()),
            _ => None,
        })
        .collect()
}

/// The interface while there is one.
pub(super) struct Punted {
    tap: Tap,
    filter: Program,
    /// The port's tag, which the kernel's frames do not have.
    tag: Option<Tag>,
    frame: Vec<u8>,
    /// Those of a router; removed when this is dropped.
    _routes: Option<KernelRoutes>,
}

impl Punted {
    /// Makes the interface, with the port's own MAC so that it receives what is sent to the port.
    pub(super) fn new(punt: &Punt, port: &OpenPort) -> Result<Self, String> {
        if !port.config.device.leads_outside() {
            return Err(
                "this is a software port, which no other station sends to: punt on a NIC or a kernel interface".into(),
            );
        }
        let Punt { interface, filter, router } = punt;
        let tag = router.as_ref().and_then(|config| config.vlan).map(Tag::customer);
        let around = HEADER_BYTES + tag.map_or(0, |_| vlan::LEN);
        // A tag does not count into the port's MTU.
        let mtu = (SHORT_ROOM - around).min(port.port.max_frame_len() - HEADER_BYTES);
        let tap = Tap::new(interface, port.port.mac(), mtu as u32);
        let tap = tap.map_err(|e| format!("punt to interface {interface}: {e}"))?;
        let routes = router.as_ref().map(|config| {
            let addresses: &[Prefix] = &config.addresses;
            let gateways = [config.gateway_v4.map(IpAddr::V4), config.gateway_v6.map(IpAddr::V6)];
            let gateways: Vec<IpAddr> = gateways.into_iter().flatten().collect();
            KernelRoutes::new(interface, port.port.mac(), addresses, &gateways, &kernel_interfaces(&port.config.device))
        });
        let routes = routes.transpose().map_err(|e: kernel_routes::Error| format!("interface {interface}: {e}"))?;
        Ok(Self { tap, filter: filter.clone(), tag, frame: vec![0; SHORT_ROOM], _routes: routes })
    }

    /// Has the kernel receive a frame, if it is to.
    pub(super) fn offer(&mut self, frame: &[u8]) {
        if !self.filter.matches(frame, frame.len()) {
            return;
        }
        // It is not received while the interface is down, as on any other.
        match self.tag {
            None => {
                self.tap.write(frame);
            }
            Some(_) => {
                // The filter has found the port's tag.
                let (macs, rest) = (&frame[..MACS], &frame[MACS + vlan::LEN..]);
                self.frame.clear();
                self.frame.extend_from_slice(macs);
                self.frame.extend_from_slice(rest);
                self.tap.write(&self.frame);
            }
        }
    }

    /// The next frame that the kernel sends, as the port sends it.
    pub(super) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.frame.resize(SHORT_ROOM, 0);
        let at = self.tag.map_or(0, |_| vlan::LEN);
        let Some(len) = self.tap.read(&mut self.frame[at..])? else { return Ok(None) };
        let len = len + at;
        if let Some(tag) = self.tag {
            self.frame.copy_within(at..at + MACS, 0);
            self.frame[MACS..MACS + vlan::LEN].copy_from_slice(&tag.bytes());
        }
        let padded = len.max(MIN_FRAME_LEN);
        self.frame[len..padded].fill(0);
        Ok(Some(&self.frame[..padded]))
    }

    /// To wait on: readable when the kernel sends.
    pub(super) fn fd(&self) -> io::Result<OwnedFd> {
        self.tap.fd().try_clone_to_owned()
    }
}

#[cfg(test)]
mod tests {
    use spate_neighbour::Config;

    use super::*;

    /// A frame of an IPv4 or IPv6 packet of a protocol, with ports, or ICMP's type as the first byte behind the header.
    fn frame(v6: bool, protocol: u8, transport: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        match v6 {
            false => {
                frame.extend([0x08, 0x00, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol]);
                frame.resize(14 + 20, 0);
            }
            true => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, protocol, 255]);
                frame.resize(14 + 40, 0);
            }
        }
        frame.extend_from_slice(transport);
        frame.resize(frame.len().max(60), 0);
        frame
    }

    fn tagged(frame: &[u8], vlan: u16) -> Vec<u8> {
        [&frame[..12], &Tag::customer(vlan).bytes(), &frame[12..]].concat()
    }

    fn arp(operation: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[12..22].copy_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
        frame
    }

    #[test]
    fn a_router_receives_its_protocols_and_what_they_need() {
        let ports = |source: u16, destination: u16| [source.to_be_bytes(), destination.to_be_bytes()].concat();
        let taken = [
            arp(2),
            frame(false, 6, &ports(40_000, 179)),
            frame(true, 6, &ports(179, 40_000)),
            frame(false, 17, &ports(49_152, 3784)),
            frame(true, 17, &ports(49_152, 4784)),
            frame(false, 89, &[2]),
            frame(true, 89, &[3]),
            frame(false, 17, &ports(520, 520)),
            frame(true, 17, &ports(521, 521)),
            frame(false, 1, &[0]),
            frame(false, 1, &[3]),
            frame(true, 58, &[135]),
            frame(true, 58, &[136]),
            frame(true, 58, &[1]),
        ];
        let left = [
            arp(1),
            frame(false, 6, &ports(40_000, 80)),
            // What else listens in the pod: the engine's calls and metrics.
            frame(false, 6, &ports(179, 7470)),
            frame(true, 6, &ports(179, 7471)),
            frame(false, 17, &ports(520, 7471)),
            frame(true, 17, &ports(179, 179)),
            frame(false, 1, &[8]),
            frame(false, 1, &[5]),
            frame(true, 58, &[128]),
            // Router advertisements and redirects.
            frame(true, 58, &[134]),
            frame(true, 58, &[137]),
            frame(false, 2, &[0x11]),
            vec![0; 60],
        ];
        for vlan in [None, Some(100)] {
            let punt = Punt::of_router("rt-east", &Config { vlan, ..Config::default() }).unwrap();
            let takes = |frame: &[u8]| punt.filter().matches(frame, frame.len());
            for (frames, expected) in [(&taken[..], true), (&left[..], false)] {
                for frame in frames {
                    let (with, without) = (tagged(frame, 100), tagged(frame, 101));
                    assert_eq!(takes(frame), expected && vlan.is_none(), "{frame:02x?}");
                    assert_eq!(takes(&with), expected && vlan.is_some(), "{with:02x?}");
                    assert!(!takes(&without), "{without:02x?}");
                }
            }
        }
    }
}
