// SPDX-License-Identifier: Apache-2.0
//! How ports are named on the command line: `NAME=DEVICE`, and what `attached:` means in a pod.
use crate::datapath::{PortDevice, UseOffloads};
use anyhow::{Context, bail};
use serde::Deserialize;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// How long the network-status annotation may take to reach the pod's file.
const STATUS_LIMIT: Duration = Duration::from_secs(90);

/// A port as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its name in plans.
    pub name: String,
    /// Where it leads.
    pub device: AskedDevice,
    /// What its device does of the work on packets.
    pub offloads: UseOffloads,
    /// Its address, in place of its device's.
    pub mac: Option<[u8; 6]>,
    /// Its flows take frames whatever their destination MAC.
    pub any_mac: bool,
}

/// A device as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedDevice {
    /// Known.
    Known(PortDevice),
    /// An attachment by its interface's name: a PCI device if the network status says so, else the kernel interface.
    Attached(String),
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = "must be NAME=pci:ADDRESS, NAME=kernel:INTERFACE, NAME=attached:INTERFACE, NAME=tap:INTERFACE, NAME=loopback or \
             NAME=null";
        let Some((name, device)) = text.split_once('=') else { return Err(usage.into()) };
        if name.is_empty() {
            return Err(format!("the name is empty; {usage}"));
        }
        let mut parts = device.split(',');
        let device = parts.next().unwrap_or(device);
        let (mut offloads, mut mac, mut any_mac) = (UseOffloads::Auto, None, false);
        for option in parts {
            match option {
                "offloads=auto" => offloads = UseOffloads::Auto,
                "offloads=all" => offloads = UseOffloads::All,
                "offloads=none" => offloads = UseOffloads::None,
                "accept=own" => any_mac = false,
                "accept=any" => any_mac = true,
                other => match other.strip_prefix("mac=") {
                    Some(address) => mac = Some(station(address)?),
                    None => {
                        return Err(format!(
                            "{other:?} is nothing that a port may have: offloads=auto, offloads=all or offloads=none; mac=ADDRESS; \
                             accept=own or accept=any"
                        ));
                    }
                },
            }
        }
        let device = match device.split_once(':').unwrap_or((device, "")) {
            ("loopback", "") => AskedDevice::Known(PortDevice::Loopback),
            ("null", "") => AskedDevice::Known(PortDevice::Null),
            ("pci", address) if !address.is_empty() => AskedDevice::Known(PortDevice::Pci(address.into())),
            ("kernel", interface) if !interface.is_empty() => AskedDevice::Known(PortDevice::Kernel(interface.into())),
            ("tap", interface) if !interface.is_empty() => AskedDevice::Known(PortDevice::Tap(interface.into())),
            ("attached", interface) if !interface.is_empty() => AskedDevice::Attached(interface.into()),
            _ => return Err(usage.into()),
        };
        Ok(Self { name: name.into(), device, offloads, mac, any_mac })
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

/// What an attachment is. Waits until the file names it: the pod's annotation is written while the pod starts.
pub fn resolve(device: &AskedDevice, network_status: Option<&Path>) -> anyhow::Result<PortDevice> {
    let interface = match device {
        AskedDevice::Known(device) => return Ok(device.clone()),
        AskedDevice::Attached(interface) => interface,
    };
    let Some(file) = network_status else {
        if Path::new("/sys/class/net").join(interface).exists() {
            return Ok(PortDevice::Kernel(interface.clone()));
        }
        bail!(
            "attached:{interface}: there is no such interface, and without --network-status no PCI device is known for it"
        );
    };
    let deadline = Instant::now() + STATUS_LIMIT;
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if !text.trim().is_empty() {
            let all: Vec<Status> =
                serde_json::from_str(&text).with_context(|| format!("--network-status {}", file.display()))?;
            if let Some(entry) = all.into_iter().find(|entry| entry.interface == *interface) {
                return Ok(match entry.device_info.and_then(|info| info.pci) {
                    Some(pci) => PortDevice::Pci(pci.address),
                    None => PortDevice::Kernel(interface.clone()),
                });
            }
        }
        if Instant::now() >= deadline {
            bail!(
                "attached:{interface}: {} does not name it after {STATUS_LIMIT:?}; is the pod's annotation k8s.v1.cni.cncf.io/networks right?",
                file.display()
            );
        }
        // Also where there is an interface already: a bifurcated NIC has one beside its PCI device.
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_name_and_a_device() {
        let device = |text: &str| text.parse::<Asked>().map(|asked| asked.device);
        assert_eq!(device("l=loopback"), Ok(AskedDevice::Known(PortDevice::Loopback)));
        assert_eq!(device("n=null"), Ok(AskedDevice::Known(PortDevice::Null)));
        assert_eq!(device("v=pci:0000:01:00.1"), Ok(AskedDevice::Known(PortDevice::Pci("0000:01:00.1".into()))));
        assert_eq!(device("e=kernel:eth1"), Ok(AskedDevice::Known(PortDevice::Kernel("eth1".into()))));
        assert_eq!(device("e=attached:east"), Ok(AskedDevice::Attached("east".into())));
        assert_eq!(device("t=tap:spate0"), Ok(AskedDevice::Known(PortDevice::Tap("spate0".into()))));
        let asked = |text: &str| text.parse::<Asked>().map(|asked| (asked.device, asked.offloads));
        let pci = || AskedDevice::Known(PortDevice::Pci("01:00.1".into()));
        assert_eq!(asked("v=pci:01:00.1"), Ok((pci(), UseOffloads::Auto)));
        assert_eq!(asked("v=pci:01:00.1,offloads=auto"), Ok((pci(), UseOffloads::Auto)));
        assert_eq!(asked("v=pci:01:00.1,offloads=all"), Ok((pci(), UseOffloads::All)));
        assert_eq!(asked("v=pci:01:00.1,offloads=none"), Ok((pci(), UseOffloads::None)));
        let any_mac = |text: &str| text.parse::<Asked>().map(|asked| (asked.any_mac, asked.offloads));
        assert_eq!(any_mac("v=pci:01:00.1"), Ok((false, UseOffloads::Auto)));
        assert_eq!(any_mac("v=pci:01:00.1,accept=own"), Ok((false, UseOffloads::Auto)));
        assert_eq!(any_mac("v=pci:01:00.1,offloads=none,accept=any"), Ok((true, UseOffloads::None)));
        let mac = |text: &str| text.parse::<Asked>().map(|asked| (asked.mac, asked.any_mac));
        assert_eq!(mac("v=null,mac=02:00:00:00:0A:fe"), Ok((Some([2, 0, 0, 0, 10, 254]), false)));
        assert_eq!(mac("v=loopback,accept=any,mac=02:00:00:00:00:01"), Ok((Some([2, 0, 0, 0, 0, 1]), true)));
        assert_eq!(mac("v=loopback"), Ok((None, false)));
        for wrong in [
            "v=pci:01:00.1,mac=any",
            "v=pci:01:00.1,mac=03:00:00:00:00:01",
            "v=pci:01:00.1,mac=00:00:00:00:00:00",
            "v=pci:01:00.1,mac=02:00:00:00:01",
            "v=pci:01:00.1,mac=2:0:0:0:0:1",
            "v=pci:01:00.1,mac=+2:00:00:00:00:01",
            "v=pci:01:00.1,accept=some",
            "v=pci:01:00.1,offloads=some",
            "v=pci:01:00.1,none",
            "v=pci:01:00.1,",
            "v=,offloads=none",
        ] {
            assert!(device(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "loopback", "=null", "e=kernel:", "e=pci", "e=loopback:x", "e=other:x"] {
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

    #[test]
    fn an_attachment_that_has_an_interface_too_is_what_the_network_status_says() {
        let file = std::env::temp_dir().join(format!("spate-network-status-{}", std::process::id()));
        std::fs::write(&file, "").expect("a file");
        let device = AskedDevice::Attached("lo".into());
        let read = std::thread::spawn({
            let file = file.clone();
            move || resolve(&device, Some(&file))
        });
        std::thread::sleep(Duration::from_millis(300));
        let status = r#"[{"name": "n/lo", "interface": "lo", "device-info": {"type": "pci", "pci": {"pci-address": "0000:01:00.1"}}}]"#;
        let next = file.with_extension("next"); // a volume's files change at once
        std::fs::write(&next, status).expect("a file");
        std::fs::rename(&next, &file).expect("renamed");
        let device = read.join().expect("no panic").expect("a device");
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(device, PortDevice::Pci("0000:01:00.1".into()));
    }
}
