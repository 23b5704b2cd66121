// SPDX-License-Identifier: Apache-2.0
//! What a port can be made of, and what must be so before DPDK may try.
use std::{fs, path::Path};

use crate::{Error, Memif, interface, xdp};

/// Kernel drivers whose PCI functions DPDK can use.
const USABLE_DRIVERS: &[&str] = &["vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core"];

/// MTU of Ethernet, and of bonds: more than that DPDK's af_packet driver does not claim to receive.
pub(crate) const BOND_MTU: usize = 1500;

/// A device to make a port of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// A PCI function, by full address (0000:01:00.1).
    Pci(String),
    /// A kernel interface, by name, through packet sockets.
    Kernel(String),
    /// A kernel interface with one receive queue, by name, through an AF_XDP socket.
    Xdp(String),
    /// A kernel interface of this name that is made for it: what is sent, the kernel receives on it.
    Tap(String),
    /// A ring: what is sent is received.
    Loopback,
    /// Takes packets and gives none.
    Null,
    /// A discard port by DPDK's own driver, net_null, which frees packets one by one: to compare with programs that send on it.
    NetNull,
    /// PCI functions and kernel interfaces that are one link by LACP (IEEE 802.1AX).
    Bond(Vec<Device>),
    /// Shared memory with another process.
    Memif(Memif),
}

impl Device {
    /// The addresses of its PCI functions.
    pub(crate) fn pci_addresses(&self) -> Vec<&str> {
        match self {
            Self::Pci(address) => vec![address],
            Self::Bond(members) => members.iter().flat_map(Self::pci_addresses).collect(),
            _ => Vec::new(),
        }
    }

    /// Refuses what cannot work, with a better word for it than DPDK has.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Pci(address) => check_pci(address),
            Self::Kernel(interface) => interface::check(interface),
            Self::Xdp(interface) => xdp::check(interface),
            Self::Tap(name) => check_tap(name),
            Self::Loopback | Self::Null | Self::NetNull => Ok(()),
            Self::Bond(members) => check_bond(members),
            Self::Memif(memif) => memif.check(),
        }
    }
}

fn check_tap(name: &str) -> Result<(), Error> {
    // The interface's name becomes an argument of the driver.
    if !(1..16).contains(&name.len()) || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
        return Err(Error::InterfaceName(name.to_owned()));
    }
    match fs::File::options().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::NoPermission {
            what: "making a tap interface",
            remedy: "load the kernel's module tun, give the container /dev/net/tun, and the capability NET_ADMIN",
        }),
    }
}

fn check_pci(address: &str) -> Result<(), Error> {
    let device = Path::new("/sys/bus/pci/devices").join(address);
    // Also refuses what is no address at all, such as "..".
    if !address.contains(':') || address.contains('/') || !device.exists() {
        return Err(Error::UnknownDevice(address.to_owned()));
    }
    let link_name = |name: &str| {
        fs::read_link(device.join(name)).ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()))
    };
    let driver = link_name("driver").unwrap_or_else(|| "no driver".into());
    if !USABLE_DRIVERS.contains(&driver.as_str()) {
        return Err(Error::WrongDriver { address: address.to_owned(), driver });
    }
    if driver == "vfio-pci"
        && let Some(group) = link_name("iommu_group")
        && fs::File::options().read(true).write(true).open(Path::new("/dev/vfio").join(group)).is_err_and(|e| {
            // Anything else, such as a group that is open already, is reported by DPDK.
            matches!(e.kind(), std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::NotFound)
        })
    {
        return Err(Error::NoPermission {
            what: "the device's IOMMU group",
            remedy: "give the pod the device by its resource, or the container /dev/vfio/GROUP",
        });
    }
    Ok(())
}

/// Refuses members that a bond cannot have.
fn check_bond(members: &[Device]) -> Result<(), Error> {
    let failed = |reason: String| Error::Failed { what: "making a bond".into(), reason, log: vec![] };
    if members.len() < 2 {
        return Err(failed("it needs at least two members".into()));
    }
    for member in members {
        match member {
            Device::Pci(_) => {}
            Device::Kernel(interface) => {
                let mtu = interface::mtu(interface).unwrap_or(BOND_MTU);
                if mtu > BOND_MTU {
                    return Err(failed(format!(
                        "the MTU of {interface} is {mtu}, and members of a bond have at most {BOND_MTU} (ip link set {interface} mtu {BOND_MTU})"
                    )));
                }
            }
            other => return Err(failed(format!("{} is neither a PCI device nor an interface", describe(other)))),
        }
        member.check()?;
    }
    Ok(())
}

/// A device, as errors and the log name it.
pub(crate) fn describe(device: &Device) -> String {
    match device {
        Device::Pci(address) => format!("PCI device {address}"),
        Device::Kernel(interface) => format!("interface {interface}"),
        Device::Xdp(interface) => format!("interface {interface} by AF_XDP"),
        Device::Tap(interface) => format!("tap {interface}"),
        Device::Loopback => "a loopback".into(),
        Device::Null => "a null port".into(),
        Device::NetNull => "net_null".into(),
        Device::Bond(members) => {
            format!("a bond of {}", members.iter().map(describe).collect::<Vec<_>>().join(" and "))
        }
        Device::Memif(memif) => format!("memif {} at {}", memif.id, memif.socket.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bond_is_of_two_devices_at_least() {
        let refused = |members: &[Device]| check_bond(members).unwrap_err().to_string();
        assert!(refused(&[Device::Kernel("lo".into())]).contains("at least two members"));
        assert!(refused(&[Device::Loopback, Device::Null]).contains("neither a PCI device nor an interface"));
        assert!(
            refused(&[Device::Kernel("lo".into()), Device::Kernel("lo".into())]).contains("the MTU of lo is 65536")
        );
    }
}
