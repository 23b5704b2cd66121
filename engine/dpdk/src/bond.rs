// SPDX-License-Identifier: Apache-2.0
//! Bonds: several links that are one by LACP (IEEE 802.1AX), by DPDK's bonding driver.
//!
//! The driver runs LACP only while a thread sends and receives on the bond, at least every 100 ms: see `TxQueue::maintain`. It sends a
//! burst in an order of its own, so what a member did not take waits here, and counts as taken.
use spate_dpdk_sys as sys;

use crate::{
    BURST, Device, Eal, Error, KernelSocket,
    device::BOND_MTU,
    interface,
    mbuf::Mbuf,
    port::{self, PortStats},
};

/// State of a member of a bond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BondMember {
    /// PCI address or name of the interface.
    pub device: String,
    /// Whether the member has a link.
    pub link_up: bool,
    /// Its state by LACP; none if the driver knows of no link.
    pub lacp: Option<Lacp>,
}

/// A member's state by LACP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacp {
    /// State of this end (IEEE 802.1AX: actor).
    pub actor: LacpState,
    /// State of the other end (IEEE 802.1AX: partner).
    pub partner: LacpState,
    /// MAC address of the system at the other end; zeros if none has answered.
    pub partner_system: [u8; 6],
    /// Key of the other end's aggregation.
    pub partner_key: u16,
    /// Number of the port at the other end.
    pub partner_port: u16,
    /// The member that owns the aggregator in use: members of one link report the same.
    pub aggregator: String,
}

/// State of an end of a link: bits of IEEE 802.1AX, 6.4.2.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LacpState(pub u8);

impl LacpState {
    /// Names of the bits, the lowest first.
    const NAMES: [&str; 8] =
        ["Activity", "Timeout", "Aggregation", "Synchronization", "Collecting", "Distributing", "Defaulted", "Expired"];

    /// The variables that are true.
    pub fn names(self) -> Vec<&'static str> {
        Self::NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1).map(|(_, name)| *name).collect()
    }

    /// Packets are received from the link and sent on it.
    pub fn is_in_use(self) -> bool {
        const COLLECTING_AND_DISTRIBUTING: u8 = 0x30;
        self.0 & COLLECTING_AND_DISTRIBUTING == COLLECTING_AND_DISTRIBUTING
    }
}

impl BondMember {
    /// Packets are received from it and sent on it.
    pub fn is_in_use(&self) -> bool {
        self.link_up && self.lacp.as_ref().is_some_and(|lacp| lacp.actor.is_in_use())
    }
}

/// The members of a bond.
#[derive(Debug)]
pub(crate) struct Bond {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    id: u16,
    name: String,
    socket: Option<KernelSocket>,
}

impl Bond {
    /// Makes a bond of devices, which are probed. Returns its port, too.
    pub(crate) fn open(eal: &Eal, devices: &[Device]) -> Result<(u16, Self), Error> {
        let mut bond = Self { members: Vec::new() };
        for device in devices {
            let (id, name, socket) = match device {
                Device::Kernel(interface) => {
                    let (id, socket) = port::open_kernel(interface)?;
                    (id, interface.clone(), Some(socket))
                }
                Device::Pci(address) => (port::open_pci(eal, address)?, address.clone(), None),
                _ => unreachable!("checked"),
            };
            bond.members.push(Member { id, name, socket });
        }
        let mut port = 0;
        let name = port::fresh_name("net_bonding");
        // SAFETY: the environment is up; a C string and a valid pointer; members are probed and not started.
        unsafe {
            port::call("making a bond", || sys::spate_bond_create(name.as_ptr(), &raw mut port))?;
            for member in &bond.members {
                port::call(&format!("adding {} to a bond", member.name), || sys::spate_bond_add(port, member.id))?;
            }
        }
        Ok((port, bond))
    }

    /// Greatest payload of a frame on all members.
    pub(crate) fn mtu(&self) -> usize {
        let known = self.members.iter().filter(|member| member.socket.is_some());
        known.filter_map(|member| interface::mtu(&member.name)).fold(BOND_MTU, usize::min)
    }

    /// Gives all members the bond's address: LACP takes it for that of the system, and only links of one system are one link. The
    /// driver gives them their own back when they leave the bond.
    pub(crate) fn unite(&self, mac: [u8; 6]) -> Result<(), Error> {
        for member in &self.members {
            // SAFETY: the member is probed.
            unsafe { port::set_mac(member.id, mac) }.map_err(|e| Error::Failed {
                what: format!("making {} a member of a bond", member.name),
                reason: format!("it cannot have the bond's MAC address, without which LACP does not take it for the same system ({e}): \
                                 trust the virtual function (ip link set PF vf N trust on)"),
                log: vec![],
            })?;
        }
        Ok(())
    }

    /// State of its members.
    pub(crate) fn state(&self, port: u16) -> Vec<BondMember> {
        let name_of = |id: u16| self.members.iter().find(|m| m.id == id).map_or(String::new(), |m| m.name.clone());
        let of = |member: &Member| {
            let mut raw = sys::spate_lacp {
                actor_state: 0,
                partner_state: 0,
                partner_system: [0; 6],
                partner_key: 0,
                partner_port: 0,
                aggregator: 0,
            };
            // SAFETY: the bond is started; the pointer is valid for the call.
            let known = unsafe { sys::spate_bond_lacp(port, member.id, &raw mut raw) } == 0;
            let link_up = match &member.socket {
                Some(socket) => socket.link_up(),
                None => port::link_of(member.id).is_some_and(|(up, _)| up),
            };
            let lacp = known.then(|| Lacp {
                actor: LacpState(raw.actor_state),
                partner: LacpState(raw.partner_state),
                partner_system: raw.partner_system,
                partner_key: raw.partner_key,
                partner_port: raw.partner_port,
                aggregator: name_of(raw.aggregator),
            });
            BondMember { device: member.name.clone(), link_up, lacp }
        };
        self.members.iter().map(of).collect()
    }

    /// Bits a second of the members in use, if all report theirs.
    pub(crate) fn line_rate_bps(&self, states: &[BondMember]) -> Option<u64> {
        let used = self.members.iter().zip(states).filter(|(_, state)| state.is_in_use());
        let rates = used.map(|(member, _)| match &member.socket {
            Some(socket) => socket.line_rate_bps(),
            None => {
                port::link_of(member.id).filter(|(_, speed)| *speed > 0).map(|(_, speed)| u64::from(speed) * 1_000_000)
            }
        });
        rates.sum::<Option<u64>>().filter(|&sum| sum > 0)
    }

    /// Sum of what the members lost.
    pub(crate) fn stats(&self) -> PortStats {
        let mut all = PortStats::default();
        for member in &self.members {
            let stats = port::stats_of(member.id, member.socket.as_ref());
            all.rx_missed += stats.rx_missed;
            all.rx_errors += stats.rx_errors;
            all.tx_dropped += stats.tx_dropped;
        }
        all
    }

    /// Makes the kernel send what members took and had no room for. True if nothing is left.
    pub(crate) fn flush(&self) -> bool {
        self.members.iter().filter_map(|member| member.socket.as_ref()).fold(true, |all, socket| socket.flush() & all)
    }

    /// Forgets what was counted before the first packet was read.
    pub(crate) fn reset(&self) {
        self.members.iter().filter_map(|member| member.socket.as_ref()).for_each(KernelSocket::reset);
    }

    /// Closes its members; the bond itself is closed.
    pub(crate) fn close(&self) {
        for member in &self.members {
            // SAFETY: no other thread uses the port.
            let code = unsafe { sys::spate_port_close(member.id) };
            if code != 0 {
                tracing::warn!(code, device = member.name, "a member of a bond was not closed cleanly");
            }
        }
    }
}

/// Packets that a bond was given and no member has taken yet.
pub(crate) struct Waiting {
    packets: [Mbuf; BURST],
    count: usize,
}

// SAFETY: valid mbufs without other references.
unsafe impl Send for Waiting {}

impl Waiting {
    pub(crate) fn new() -> Self {
        Self { packets: [std::ptr::null_mut(); BURST], count: 0 }
    }

    /// Sends packets, all or none: what no member has taken waits.
    ///
    /// # Safety
    /// Valid mbufs of the caller's, which become the bond's; the queue of the port is started and used by no other thread.
    pub(crate) unsafe fn send(&mut self, port: u16, queue: u16, packets: &mut [Mbuf]) -> usize {
        // SAFETY: as the caller says.
        if !unsafe { self.go_on(port, queue) } {
            return 0;
        }
        let mut ordered = [std::ptr::null_mut(); BURST];
        ordered[..packets.len()].copy_from_slice(packets);
        // SAFETY: as the caller says.
        let taken =
            usize::from(unsafe { sys::spate_tx_burst(port, queue, packets.as_mut_ptr(), packets.len() as u16) });
        if taken == 0 {
            packets.copy_from_slice(&ordered[..packets.len()]);
            return 0;
        }
        let left = &packets[taken..];
        self.packets[..left.len()].copy_from_slice(left);
        self.count = left.len();
        packets.len()
    }

    /// Offers again what waits. True if nothing does.
    ///
    /// # Safety
    /// The queue of the port is started and used by no other thread.
    pub(crate) unsafe fn go_on(&mut self, port: u16, queue: u16) -> bool {
        if self.count > 0 {
            let packets = &mut self.packets[..self.count];
            // SAFETY: valid mbufs of ours; those taken become the driver's.
            let taken = unsafe { sys::spate_tx_burst(port, queue, packets.as_mut_ptr(), packets.len() as u16) };
            packets.copy_within(usize::from(taken).., 0);
            self.count -= usize::from(taken);
        }
        self.count == 0
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.count > 0 {
            // SAFETY: valid mbufs of ours.
            unsafe { sys::spate_free_bulk(self.packets.as_mut_ptr(), self.count as u32) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_names_of_the_standard() {
        assert_eq!(
            LacpState(0x3d).names(),
            ["Activity", "Aggregation", "Synchronization", "Collecting", "Distributing"]
        );
        assert_eq!(LacpState(0xc7).names(), ["Activity", "Timeout", "Aggregation", "Defaulted", "Expired"]);
        assert!(LacpState(0x30).is_in_use() && !LacpState(0x10).is_in_use() && !LacpState(0x20).is_in_use());
    }
}
