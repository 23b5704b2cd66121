// SPDX-License-Identifier: Apache-2.0
//! How ports are named on the command line: `NAME=DEVICE`, and what `attached:` and `claimed` mean in a pod.
use super::claimed::Claims;
use crate::datapath::{Memif, PortDevice, StampedBy, UseOffloads};
use anyhow::{Context, bail};
use serde::Deserialize;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How long the network-status annotation may take to reach the pod's file.
const STATUS_LIMIT: Duration = Duration::from_secs(90);

/// A port as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortArgument {
    /// Its name in plans.
    pub name: String,
    /// Device of the port.
    pub device: DeviceArgument,
    /// Offloads of its device that are used.
    pub offloads: UseOffloads,
    /// Its address, in place of its device's.
    pub mac: Option<[u8; 6]>,
    /// Whether the port's flows take frames whatever their destination MAC.
    pub any_mac: bool,
    /// What stamps the packets that it receives.
    pub stamped_by: StampedBy,
}

/// A device as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceArgument {
    /// Known.
    Known(PortDevice),
    /// An attachment of the pod.
    Attached(Attachment),
    /// A device of the pod's resource claims, that of the port of this name.
    Claimed(String),
    /// Several that are one link by LACP.
    Bond(Vec<DeviceArgument>),
}

impl DeviceArgument {
    /// The attachments among it and its members.
    fn attachments(&self) -> Vec<&Attachment> {
        match self {
            Self::Known(_) | Self::Claimed(_) => Vec::new(),
            Self::Attached(attachment) => vec![attachment],
            Self::Bond(members) => members.iter().flat_map(Self::attachments).collect(),
        }
    }

    /// A member of a bond: pci:ADDRESS, kernel:INTERFACE, attached:INTERFACE or attached:INTERFACE;resource=NAME.
    fn member(text: &str) -> Option<Self> {
        let (device, resource) = match text.split_once(";resource=") {
            Some((device, resource)) => (device, Some(resource)),
            None => (text, None),
        };
        match (device.split_once(':')?, resource) {
            ((_, ""), _) | (_, Some("")) => None,
            (("pci", address), None) => Some(Self::Known(PortDevice::Pci(address.into()))),
            (("kernel", interface), None) => Some(Self::Known(PortDevice::Kernel(interface.into()))),
            (("attached", interface), resource) => {
                Some(Self::Attached(Attachment { interface: interface.into(), resource: resource.map(Into::into) }))
            }
            _ => None,
        }
    }
}

/// An attachment of the pod: a PCI device by the device plugin or the network status. Without a resource, the kernel interface where the
/// network status has no PCI device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Name of the interface in the pod.
    pub interface: String,
    /// Resource of the device plugin that the device is of, such as `example.com/vf`.
    pub resource: Option<String>,
}

impl Attachment {
    /// Name of the environment variable with the PCI addresses that the SR-IOV network device plugin has given the container of a resource.
    fn variable(resource: &str) -> String {
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        format!("PCIDEVICE_{}", resource.chars().map(upper).collect::<String>())
    }
}

impl FromStr for PortArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = "must be NAME=pci:ADDRESS, NAME=kernel:INTERFACE, NAME=xdp:INTERFACE, NAME=attached:INTERFACE, NAME=claimed, NAME=tap:INTERFACE, \
             NAME=bond, NAME=memif:SOCKET, NAME=loopback or NAME=null";
        let Some((name, device)) = text.split_once('=') else { return Err(usage.into()) };
        if name.is_empty() {
            return Err(format!("the name is empty; {usage}"));
        }
        let mut parts = device.split(',');
        let device = parts.next().unwrap_or(device);
        let (mut offloads, mut mac, mut any_mac, mut resource) = (UseOffloads::Auto, None, false, None);
        let (mut members, mut role, mut id, mut stamped_by) = (Vec::new(), None, None, StampedBy::Cpu);
        for option in parts {
            match option {
                "offloads=auto" => offloads = UseOffloads::Auto,
                "offloads=all" => offloads = UseOffloads::All,
                "offloads=none" => offloads = UseOffloads::None,
                "accept=own" => any_mac = false,
                "accept=any" => any_mac = true,
                "timestamps=cpu" => stamped_by = StampedBy::Cpu,
                "timestamps=device" => stamped_by = StampedBy::Device,
                other => match other.split_once('=') {
                    Some(("mac", address)) => mac = Some(station(address)?),
                    Some(("resource", name)) if !name.is_empty() => resource = Some(name.to_owned()),
                    Some(("member", text)) => members.push(DeviceArgument::member(text).ok_or_else(|| {
                        format!(
                            "member={text} must be member=pci:ADDRESS, member=kernel:INTERFACE, member=attached:INTERFACE or \
                             member=attached:INTERFACE;resource=NAME"
                        )
                    })?),
                    Some(("role", "server")) => role = Some(true),
                    Some(("role", "client")) => role = Some(false),
                    Some(("id", number)) => {
                        id = Some(number.parse().map_err(|_| format!("id={number} must be a 32-bit number"))?);
                    }
                    _ => {
                        return Err(format!(
                            "unknown port option {other:?}; valid are offloads=auto, offloads=all or offloads=none; mac=ADDRESS; \
                             accept=own or accept=any; timestamps=cpu or timestamps=device; resource=NAME; member=DEVICE; role=server or \
                             role=client; id=NUMBER"
                        ));
                    }
                },
            }
        }
        let device = match device.split_once(':').unwrap_or((device, "")) {
            ("loopback", "") => DeviceArgument::Known(PortDevice::Loopback),
            ("null", "") => DeviceArgument::Known(PortDevice::Null),
            ("claimed", "") => DeviceArgument::Claimed(name.into()),
            ("pci", address) if !address.is_empty() => DeviceArgument::Known(PortDevice::Pci(address.into())),
            ("kernel", interface) if !interface.is_empty() => {
                DeviceArgument::Known(PortDevice::Kernel(interface.into()))
            }
            ("xdp", interface) if !interface.is_empty() => DeviceArgument::Known(PortDevice::Xdp(interface.into())),
            ("tap", interface) if !interface.is_empty() => DeviceArgument::Known(PortDevice::Tap(interface.into())),
            ("attached", interface) if !interface.is_empty() => {
                DeviceArgument::Attached(Attachment { interface: interface.into(), resource: resource.take() })
            }
            ("bond", "") if members.len() < 2 => {
                return Err("a bond has two members at least: NAME=bond,member=DEVICE,member=DEVICE".into());
            }
            ("bond", "") => DeviceArgument::Bond(std::mem::take(&mut members)),
            ("memif", socket) if !socket.is_empty() => DeviceArgument::Known(PortDevice::Memif(Memif {
                socket: socket.into(),
                id: id.take().unwrap_or(0),
                server: role.take().unwrap_or(true),
            })),
            _ => return Err(usage.into()),
        };
        if !members.is_empty() {
            return Err("member=DEVICE is for NAME=bond".into());
        }
        if role.is_some() || id.is_some() {
            return Err("role=ROLE and id=NUMBER are for NAME=memif:SOCKET".into());
        }
        if let Some(resource) = resource {
            return Err(format!("resource={resource} is for NAME=attached:INTERFACE"));
        }
        Ok(Self { name: name.into(), device, offloads, mac, any_mac, stamped_by })
    }
}

/// The MAC address of a station.
fn station(text: &str) -> Result<[u8; 6], String> {
    let digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bytes = text.split(':').map(|part| u8::from_str_radix(part, 16).ok().filter(|_| digits(part)));
    let bytes: Option<Vec<u8>> = bytes.collect();
    match bytes.map(<[u8; 6]>::try_from) {
        Some(Ok(mac)) if mac[0] & 1 == 0 && mac != [0; 6] => Ok(mac),
        _ => Err(format!("mac={text} is not the address of a station, such as mac=02:00:00:00:00:01")),
    }
}

/// A line rate as it is asked for: `NAME=RATE` in bits a second, with k, M, G or T.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineRate {
    /// The port.
    pub port: String,
    /// Bits a second.
    pub bps: u64,
}

impl FromStr for LineRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || "must be NAME=RATE in bits a second, such as east=10G or east=2.5G".to_owned();
        let (port, rate) = text.split_once('=').ok_or_else(usage)?;
        let (number, unit) =
            rate.split_at(rate.len() - rate.chars().last().filter(char::is_ascii_alphabetic).map_or(0, char::len_utf8));
        let unit: u64 = match unit {
            "" => 1,
            "k" => 1_000,
            "M" => 1_000_000,
            "G" => 1_000_000_000,
            "T" => 1_000_000_000_000,
            _ => return Err(usage()),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| !text.is_empty() && text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || (number.contains('.') && !digits(fraction)) {
            return Err(usage());
        }
        let scale = 10u128.pow(fraction.len() as u32);
        let value: u128 = format!("{whole}{fraction}").parse::<u128>().map_err(|_| usage())? * u128::from(unit);
        match u64::try_from(value / scale) {
            Ok(bps) if bps > 0 && value.is_multiple_of(scale) => Ok(Self { port: port.into(), bps }),
            _ => Err(usage()),
        }
    }
}

/// An entry of the network-status annotation (Network Plumbing Working Group, network status 1.3).
#[derive(Debug, Deserialize)]
struct Status {
    #[serde(default)]
    interface: String,
    #[serde(default, rename = "device-info")]
    device_info: Option<DeviceInfo>,
}

#[derive(Debug, Deserialize)]
struct DeviceInfo {
    #[serde(default)]
    pci: Option<Pci>,
}

#[derive(Debug, Deserialize)]
struct Pci {
    #[serde(rename = "pci-address")]
    address: String,
}

/// Finds the devices behind the ports of a pod.
pub struct Resolver<'a> {
    /// All ports of the engine.
    pub ports: &'a [PortArgument],
    /// File with the pod's network-status annotation.
    pub network_status: Option<&'a Path>,
    /// Devices of the pod's resource claims.
    pub claims: Claims<'a>,
    /// Reads an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// How long to wait for the file to name an attachment: the annotation is written while the pod starts.
    pub limit: Duration,
}

impl<'a> Resolver<'a> {
    /// A resolver for this process.
    pub fn new(ports: &'a [PortArgument], network_status: Option<&'a Path>, claimed_devices: Option<&'a Path>) -> Self {
        let claims = Claims::new(claimed_devices);
        Self { ports, network_status, claims, variable: &|name| std::env::var(name).ok(), limit: STATUS_LIMIT }
    }

    /// The device of a port.
    ///
    /// # Errors
    /// If the device plugin and the network status name none, or contradict each other, or if a resource claim gives none.
    pub fn resolve(&self, device: &DeviceArgument) -> anyhow::Result<PortDevice> {
        let attachment = match device {
            DeviceArgument::Known(device) => return Ok(device.clone()),
            DeviceArgument::Claimed(port) => return self.claims.device(port),
            DeviceArgument::Attached(attachment) => attachment,
            DeviceArgument::Bond(members) => {
                let members = members.iter().map(|member| self.resolve(member));
                return Ok(PortDevice::Bond(members.collect::<Result<_, _>>()?));
            }
        };
        let plugin = attachment.resource.as_deref().map(|resource| self.devices(resource)).transpose()?.flatten();
        match plugin {
            // Known at once; the network status comes later, and has no entry for a device without a kernel interface if the CNI plugin
            // reports none (host-device).
            Some(Devices { addresses, .. }) if addresses.len() == 1 => Ok(PortDevice::Pci(addresses[0].clone())),
            plugin => self.by_status(attachment, plugin.as_ref()),
        }
    }

    /// The devices that the device plugin has given the container of a resource; `None` if the variable is not set.
    fn devices(&self, resource: &str) -> anyhow::Result<Option<Devices>> {
        let variable = Attachment::variable(resource);
        let Some(text) = (self.variable)(&variable) else { return Ok(None) };
        let addresses: Vec<String> =
            text.split(',').map(str::trim).filter(|address| !address.is_empty()).map(Into::into).collect();
        let attachments = self.ports.iter().flat_map(|port| port.device.attachments());
        let of = |attachment: &&Attachment| attachment.resource.as_deref() == Some(resource);
        let ports: Vec<&str> = attachments.filter(of).map(|attachment| attachment.interface.as_str()).collect();
        if addresses.len() != ports.len() {
            bail!(
                "interfaces {} need {} devices of {resource}, and the device plugin has given {} ({variable}={text})",
                ports.join(", "),
                ports.len(),
                addresses.len()
            );
        }
        Ok(Some(Devices { variable, addresses }))
    }

    /// The device of an attachment by the network status.
    fn by_status(&self, attachment: &Attachment, plugin: Option<&Devices>) -> anyhow::Result<PortDevice> {
        let interface = &attachment.interface;
        let given = plugin.map_or_else(String::new, |devices| {
            format!("; the device plugin has given {} ({})", devices.addresses.join(", "), devices.variable)
        });
        let Some(file) = self.network_status else {
            if Path::new("/sys/class/net").join(interface).exists() {
                return Ok(PortDevice::Kernel(interface.clone()));
            }
            bail!(
                "attached:{interface}: there is no such interface, and without --network-status no PCI device is known for it{given}"
            );
        };
        let deadline = Instant::now() + self.limit;
        loop {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let all: Vec<Status> = if text.trim().is_empty() {
                Vec::new()
            } else {
                serde_json::from_str(&text).with_context(|| format!("--network-status {}", file.display()))?
            };
            let named: Vec<String> = all.iter().map(Status::describe).collect();
            if let Some(entry) = all.into_iter().find(|entry| entry.interface == *interface) {
                let Some(pci) = entry.device_info.and_then(|info| info.pci) else {
                    // Packets would pass through the kernel, which was not requested.
                    if let Some(resource) = &attachment.resource {
                        bail!(
                            "attached:{interface}: a PCI device of {resource} was requested, and the network status has none for \
                             {interface}: {}{given}; let the CNI plugin or the device plugin report the device (device-info)",
                            named.join(", ")
                        );
                    }
                    return Ok(PortDevice::Kernel(interface.clone()));
                };
                if plugin.is_some_and(|devices| !devices.addresses.contains(&pci.address)) {
                    bail!("attached:{interface}: the network status names {}{given}", pci.address);
                }
                return Ok(PortDevice::Pci(pci.address));
            }
            if Instant::now() >= deadline {
                bail!(
                    "attached:{interface}: after {:?} the network status does not name it, but {}{given}; is the pod's annotation \
                     k8s.v1.cni.cncf.io/networks right, and does the CNI plugin report devices that have no kernel interface (sriov does, \
                     host-device does not)?",
                    self.limit,
                    if named.is_empty() { "nothing".to_owned() } else { named.join(", ") },
                );
            }
            // Also where there is an interface already: a bifurcated NIC has one beside its PCI device.
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Devices of one resource.
struct Devices {
    /// The environment variable that has them.
    variable: String,
    /// Their PCI addresses.
    addresses: Vec<String>,
}

impl Status {
    /// The interface, and its device if it has one.
    fn describe(&self) -> String {
        match self.device_info.as_ref().and_then(|info| info.pci.as_ref()) {
            Some(pci) => format!("{} ({})", self.interface, pci.address),
            None => self.interface.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_name_and_a_device() {
        let device = |text: &str| text.parse::<PortArgument>().map(|asked| asked.device);
        assert_eq!(device("l=loopback"), Ok(DeviceArgument::Known(PortDevice::Loopback)));
        assert_eq!(device("n=null"), Ok(DeviceArgument::Known(PortDevice::Null)));
        assert_eq!(device("v=pci:0000:01:00.1"), Ok(DeviceArgument::Known(PortDevice::Pci("0000:01:00.1".into()))));
        assert_eq!(device("e=kernel:eth1"), Ok(DeviceArgument::Known(PortDevice::Kernel("eth1".into()))));
        assert_eq!(device("e=xdp:eth1"), Ok(DeviceArgument::Known(PortDevice::Xdp("eth1".into()))));
        let attached = |resource: Option<&str>| {
            DeviceArgument::Attached(Attachment { interface: "east".into(), resource: resource.map(Into::into) })
        };
        assert_eq!(device("e=attached:east"), Ok(attached(None)));
        assert_eq!(device("e=attached:east,resource=example.com/vf"), Ok(attached(Some("example.com/vf"))));
        assert_eq!(device("e=claimed"), Ok(DeviceArgument::Claimed("e".into())));
        assert_eq!(device("t=tap:spate0"), Ok(DeviceArgument::Known(PortDevice::Tap("spate0".into()))));
        let asked = |text: &str| text.parse::<PortArgument>().map(|asked| (asked.device, asked.offloads));
        let pci = || DeviceArgument::Known(PortDevice::Pci("01:00.1".into()));
        assert_eq!(asked("v=pci:01:00.1"), Ok((pci(), UseOffloads::Auto)));
        assert_eq!(asked("v=pci:01:00.1,offloads=auto"), Ok((pci(), UseOffloads::Auto)));
        assert_eq!(asked("v=pci:01:00.1,offloads=all"), Ok((pci(), UseOffloads::All)));
        assert_eq!(asked("v=pci:01:00.1,offloads=none"), Ok((pci(), UseOffloads::None)));
        let any_mac = |text: &str| text.parse::<PortArgument>().map(|asked| (asked.any_mac, asked.offloads));
        assert_eq!(any_mac("v=pci:01:00.1"), Ok((false, UseOffloads::Auto)));
        assert_eq!(any_mac("v=pci:01:00.1,accept=own"), Ok((false, UseOffloads::Auto)));
        assert_eq!(any_mac("v=pci:01:00.1,offloads=none,accept=any"), Ok((true, UseOffloads::None)));
        let mac = |text: &str| text.parse::<PortArgument>().map(|asked| (asked.mac, asked.any_mac));
        assert_eq!(mac("v=null,mac=02:00:00:00:0A:fe"), Ok((Some([2, 0, 0, 0, 10, 254]), false)));
        assert_eq!(mac("v=loopback,accept=any,mac=02:00:00:00:00:01"), Ok((Some([2, 0, 0, 0, 0, 1]), true)));
        assert_eq!(mac("v=loopback"), Ok((None, false)));
        let stamped = |text: &str| text.parse::<PortArgument>().map(|asked| (asked.stamped_by, asked.any_mac));
        assert_eq!(stamped("v=pci:01:00.1"), Ok((StampedBy::Cpu, false)));
        assert_eq!(stamped("v=pci:01:00.1,timestamps=device,accept=any"), Ok((StampedBy::Device, true)));
        assert_eq!(stamped("v=pci:01:00.1,timestamps=device,timestamps=cpu"), Ok((StampedBy::Cpu, false)));
        let kernel = |name: &str| DeviceArgument::Known(PortDevice::Kernel(name.into()));
        assert_eq!(
            device("e=bond,member=kernel:a,offloads=none,member=kernel:b"),
            Ok(DeviceArgument::Bond(vec![kernel("a"), kernel("b")]))
        );
        assert_eq!(
            device("e=bond,member=pci:0000:01:00.1,member=attached:east;resource=example.com/vf"),
            Ok(DeviceArgument::Bond(vec![
                DeviceArgument::Known(PortDevice::Pci("0000:01:00.1".into())),
                attached(Some("example.com/vf"))
            ]))
        );
        let memif =
            |id, server| DeviceArgument::Known(PortDevice::Memif(Memif { socket: "/run/m".into(), id, server }));
        assert_eq!(device("e=memif:/run/m"), Ok(memif(0, true)));
        assert_eq!(device("e=memif:/run/m,role=client,id=7"), Ok(memif(7, false)));
        for wrong in [
            "e=bond",
            "e=bond,member=kernel:a",
            "e=bond,member=kernel:a,member=loopback",
            "e=bond,member=kernel:a,member=xdp:b",
            "e=xdp:",
            "e=bond,member=kernel:a,member=kernel:",
            "e=bond,member=kernel:a,member=kernel:b;resource=x/y",
            "e=bond,member=kernel:a,member=attached:b;resource=",
            "e=loopback,member=kernel:a",
            "e=memif:",
            "e=memif:/run/m,role=both",
            "e=memif:/run/m,id=-1",
            "e=kernel:a,role=client",
            "e=bond,member=kernel:a,member=kernel:b,id=1",
            "v=pci:01:00.1,mac=any",
            "v=pci:01:00.1,timestamps=nic",
            "v=pci:01:00.1,mac=03:00:00:00:00:01",
            "v=pci:01:00.1,mac=00:00:00:00:00:00",
            "v=pci:01:00.1,mac=02:00:00:00:01",
            "v=pci:01:00.1,mac=2:0:0:0:0:1",
            "v=pci:01:00.1,mac=+2:00:00:00:00:01",
            "v=pci:01:00.1,accept=some",
            "v=pci:01:00.1,resource=example.com/vf",
            "e=attached:east,resource=",
            "v=pci:01:00.1,offloads=some",
            "v=pci:01:00.1,none",
            "v=pci:01:00.1,",
            "v=,offloads=none",
        ] {
            assert!(device(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "loopback", "=null", "e=kernel:", "e=pci", "e=loopback:x", "e=other:x", "e=claimed:x"] {
            assert!(device(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn line_rates_are_whole_bits_a_second() {
        let bps = |text: &str| text.parse::<LineRate>().map(|rate| rate.bps).ok();
        assert_eq!(bps("e=10G"), Some(10_000_000_000));
        assert_eq!(bps("e=2.5G"), Some(2_500_000_000));
        assert_eq!(bps("e=1"), Some(1));
        for wrong in ["e", "e=", "e=G", "e=0G", "e=1.5", "e=-1G", "e=1e9", "e=1.G", "e=999999999999T", "e=1é"] {
            assert_eq!(bps(wrong), None, "{wrong}");
        }
    }

    /// A file with a network status, which is removed.
    struct File(std::path::PathBuf);

    impl File {
        fn new(name: &str, status: &str) -> Self {
            let file = Self(std::env::temp_dir().join(format!("spate-network-status-{name}-{}", std::process::id())));
            file.replace(status);
            file
        }

        /// A volume's files change at once.
        fn replace(&self, status: &str) {
            let next = self.0.with_extension("next");
            std::fs::write(&next, status).expect("a file");
            std::fs::rename(&next, &self.0).expect("renamed");
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn asked(texts: &[&str]) -> Vec<PortArgument> {
        texts.iter().map(|text| text.parse().expect("a port")).collect()
    }

    /// The device of the first port, or the error.
    fn first(ports: &[&str], status: Option<&str>, variable: Option<(&str, &str)>) -> Result<PortDevice, String> {
        static FILES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let ports = asked(ports);
        let number = FILES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let file = status.map(|status| File::new(&number.to_string(), status));
        let read = |name: &str| variable.filter(|(known, _)| *known == name).map(|(_, value)| value.to_owned());
        let resolver = Resolver {
            ports: &ports,
            network_status: file.as_ref().map(|file| file.0.as_path()),
            claims: Claims::new(None),
            variable: &read,
            limit: Duration::from_millis(10),
        };
        resolver.resolve(&ports[0].device).map_err(|error| format!("{error:#}"))
    }

    const STATUS: &str = r#"[{"name": "pods", "interface": "eth0"},
        {"name": "n/east", "interface": "east", "device-info": {"type": "pci", "pci": {"pci-address": "0000:01:00.1"}}},
        {"name": "n/west", "interface": "west", "device-info": {"type": "pci", "pci": {"pci-address": "0000:01:00.2"}}}]"#;

    #[test]
    fn an_attachment_that_has_an_interface_too_is_what_the_network_status_says() {
        let file = File::new("late", "");
        let ports = asked(&["e=attached:lo"]);
        let device = std::thread::scope(|scope| {
            let read = scope.spawn(|| Resolver::new(&ports, Some(&file.0), None).resolve(&ports[0].device));
            std::thread::sleep(Duration::from_millis(300));
            file.replace(
                r#"[{"name": "n/lo", "interface": "lo", "device-info": {"type": "pci", "pci": {"pci-address": "0000:01:00.1"}}}]"#,
            );
            read.join().expect("no panic").expect("a device")
        });
        assert_eq!(device, PortDevice::Pci("0000:01:00.1".into()));
    }

    #[test]
    fn the_only_device_of_a_resource_needs_no_network_status() {
        let variable = Some(("PCIDEVICE_EXAMPLE_COM_VF_1", "0000:01:00.1"));
        let port = "e=attached:east,resource=example.com/vf-1";
        assert_eq!(first(&[port], None, variable), Ok(PortDevice::Pci("0000:01:00.1".into())));
        assert_eq!(
            first(&[port], Some(r#"[{"interface": "eth0"}]"#), variable),
            Ok(PortDevice::Pci("0000:01:00.1".into()))
        );
    }

    #[test]
    fn devices_of_one_resource_are_distinguished_by_the_network_status() {
        let ports = ["w=attached:west,resource=example.com/vf", "e=attached:east,resource=example.com/vf"];
        let variable = Some(("PCIDEVICE_EXAMPLE_COM_VF", "0000:01:00.1,0000:01:00.2"));
        assert_eq!(first(&ports, Some(STATUS), variable), Ok(PortDevice::Pci("0000:01:00.2".into())));
        // A device plugin of another kind has no such variable.
        assert_eq!(first(&ports, Some(STATUS), None), Ok(PortDevice::Pci("0000:01:00.2".into())));
    }

    #[test]
    fn members_of_a_bond_are_devices_of_the_pod_too() {
        let port = "e=bond,member=attached:west;resource=example.com/vf,member=attached:east;resource=example.com/vf";
        let variable = Some(("PCIDEVICE_EXAMPLE_COM_VF", "0000:01:00.1,0000:01:00.2"));
        let pci = |address: &str| PortDevice::Pci(address.into());
        let both = PortDevice::Bond(vec![pci("0000:01:00.2"), pci("0000:01:00.1")]);
        assert_eq!(first(&[port], Some(STATUS), variable), Ok(both));
        let error = first(&[port], Some(STATUS), Some(("PCIDEVICE_EXAMPLE_COM_VF", "0000:01:00.1")))
            .expect_err("one is missing");
        assert!(error.contains("interfaces west, east need 2 devices"), "{error}");
    }

    #[test]
    fn a_mismatch_lists_both_sides() {
        let port = "e=attached:east,resource=example.com/vf";
        let other = "w=attached:west,resource=example.com/vf";
        let name = "PCIDEVICE_EXAMPLE_COM_VF";
        for (ports, status, devices, words) in [
            (
                &[port, other][..],
                Some(STATUS),
                "0000:01:00.1",
                &["interfaces east, west need 2 devices", "has given 1", "=0000:01:00.1"][..],
            ),
            (&[port], Some(STATUS), "0000:01:00.1,0000:01:00.2", &["interfaces east need 1 devices", "has given 2"]),
            (
                &[port, other],
                Some(STATUS),
                "0000:09:00.1,0000:09:00.2",
                &["names 0000:01:00.1", "has given 0000:09:00.1, 0000:09:00.2"],
            ),
            (
                &[port, other],
                Some("[]"),
                "0000:01:00.1,0000:01:00.2",
                &["does not name it, but nothing", "has given 0000:01:00.1"],
            ),
            (
                &[port, other],
                Some(r#"[{"interface": "eth0"}]"#),
                "0000:01:00.1,0000:01:00.2",
                &["but eth0;", "host-device does not"],
            ),
            (
                &[port, other],
                None,
                "0000:01:00.1,0000:01:00.2",
                &["no such interface", "has given 0000:01:00.1, 0000:01:00.2"],
            ),
            (
                &[port, other],
                Some(r#"[{"interface": "eth0"}, {"interface": "east"}]"#),
                "0000:01:00.1,0000:01:00.2",
                &["device of example.com/vf was requested", "has none for east: eth0, east;", "has given 0000:01:00.1"],
            ),
        ] {
            let error = first(ports, status, Some((name, devices))).expect_err("a mismatch");
            assert!(words.iter().all(|word| error.contains(word)), "{error}: not all of {words:?}");
        }
    }
}
