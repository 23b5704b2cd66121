// SPDX-License-Identifier: Apache-2.0
//! Which device of the pod's resource claims (Dynamic Resource Allocation) is a port's? The operator reports that in a file.
use crate::datapath::PortDevice;
use anyhow::{Context, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the operator's report may take: it follows the driver's, which comes while the pod starts.
const REPORT_LIMIT: Duration = Duration::from_secs(90);
/// The kernel driver of PCI devices that belong to the engine.
const VFIO: &str = "vfio-pci";
/// Length of an interface's name (`IFNAMSIZ` without the final zero).
const MAX_INTERFACE: usize = 15;

/// A device as the operator reports it. A device may have both: an SR-IOV driver names the interface that a function had before it was bound
/// to vfio-pci.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Device {
    /// Name of the kernel interface in the pod, or empty.
    interface: String,
    /// PCI address, such as `0000:3b:02.1`, or empty.
    pci: String,
}

/// Finds the devices of the pod's resource claims.
pub struct Claims<'a> {
    /// File with the operator's report: JSON, a device by the name of its port.
    pub file: Option<&'a Path>,
    /// Where sysfs is mounted.
    pub sys: &'a Path,
    /// How long to wait for a device that can be opened.
    pub limit: Duration,
}

impl<'a> Claims<'a> {
    /// The claims of this process's pod.
    pub fn new(file: Option<&'a Path>) -> Self {
        Self { file, sys: Path::new("/sys"), limit: REPORT_LIMIT }
    }

    /// The device of a port: a PCI device that is bound to vfio-pci, else a kernel interface.
    ///
    /// # Errors
    /// If there is neither after the limit, or the report cannot be read.
    pub fn device(&self, port: &str) -> anyhow::Result<PortDevice> {
        let Some(file) = self.file else {
            bail!("claimed: without --claimed-devices no device is known for the port");
        };
        let deadline = Instant::now() + self.limit;
        loop {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let mut all: BTreeMap<String, Device> = if text.trim().is_empty() {
                BTreeMap::new()
            } else {
                serde_json::from_str(&text).with_context(|| format!("--claimed-devices {}", file.display()))?
            };
            let why = match all.remove(port) {
                Some(device) => match self.usable(&device)? {
                    Ok(device) => return Ok(device),
                    Err(why) => why,
                },
                None => format!(
                    "the operator has reported no device of the pod's resource claims for it, but {}",
                    if all.is_empty() {
                        "nothing at all".to_owned()
                    } else {
                        format!("those of {}", all.into_keys().collect::<Vec<_>>().join(", "))
                    }
                ),
            };
            if Instant::now() >= deadline {
                bail!("claimed: after {:?} {why}", self.limit);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// What to open of a device, or why nothing can be opened yet.
    fn usable(&self, device: &Device) -> anyhow::Result<Result<PortDevice, String>> {
        let Device { interface, pci } = device;
        if !pci.is_empty() && !pci.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.') {
            bail!("claimed: {pci:?} is not the address of a PCI device, such as 0000:3b:02.1");
        }
        if !interface.is_empty() {
            plain(interface)?;
        }
        let driver = self.driver(pci);
        if driver.as_deref() == Some(VFIO) {
            return Ok(Ok(PortDevice::Pci(pci.clone())));
        }
        let interfaces = self.sys.join("class/net");
        if !interface.is_empty() && interfaces.join(interface).exists() {
            return Ok(Ok(PortDevice::Kernel(interface.clone())));
        }
        let bound = match (pci.as_str(), driver) {
            ("", _) => "and no PCI device".to_owned(),
            (_, Some(driver)) => format!("and PCI device {pci} is bound to {driver}, not to {VFIO}"),
            (_, None) => format!("and PCI device {pci} is bound to no driver, not to {VFIO}"),
        };
        Ok(Err(if interface.is_empty() {
            format!(
                "the resource claim names no interface, {bound}: let the claim's configuration bind it to {VFIO}, or use a DRA driver that \
                     reports networkData.interfaceName"
            )
        } else {
            let mut there: Vec<String> = std::fs::read_dir(&interfaces)
                .map(|entries| {
                    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
                })
                .unwrap_or_default();
            there.sort_unstable();
            format!(
                "the pod has no interface {interface}, which the resource claim names, but {}, {bound}",
                there.join(", ")
            )
        }))
    }

    /// The kernel driver of a PCI device.
    fn driver(&self, pci: &str) -> Option<String> {
        if pci.is_empty() {
            return None;
        }
        let link = std::fs::read_link(self.sys.join("bus/pci/devices").join(pci).join("driver")).ok()?;
        Some(link.file_name()?.to_string_lossy().into_owned())
    }
}

/// Refuses names that the kernel allows and a DPDK device argument does not, and the pod's own interfaces.
fn plain(interface: &str) -> anyhow::Result<()> {
    if ["eth0", "lo"].contains(&interface) {
        bail!(
            "claimed: {interface} is the pod's own interface and never a port: let the claim's configuration name it otherwise"
        );
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if interface.len() > MAX_INTERFACE || !interface.bytes().all(plain) || interface.starts_with('.') {
        bail!(
            "claimed: interface {interface:?} must have at most {MAX_INTERFACE} characters out of letters, digits, '-', '_', '@' and '.', and not \
             begin with '.': let the claim's configuration name it so"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A sysfs with interfaces and PCI devices, and a report; removed at the end.
    struct Pod(PathBuf);

    impl Pod {
        fn new(interfaces: &[&str], devices: &[(&str, Option<&str>)]) -> Self {
            static PODS: AtomicU32 = AtomicU32::new(0);
            let number = PODS.fetch_add(1, Ordering::Relaxed);
            let pod = Self(std::env::temp_dir().join(format!("spate-claimed-{}-{number}", std::process::id())));
            for interface in interfaces {
                std::fs::create_dir_all(pod.0.join("class/net").join(interface)).expect("an interface");
            }
            for (address, driver) in devices {
                let device = pod.0.join("bus/pci/devices").join(address);
                std::fs::create_dir_all(&device).expect("a device");
                if let Some(driver) = driver {
                    std::os::unix::fs::symlink(format!("../../../bus/pci/drivers/{driver}"), device.join("driver"))
                        .expect("a driver");
                }
            }
            pod
        }

        fn report(&self, text: &str) {
            std::fs::write(self.0.join("report.next"), text).expect("a report");
            std::fs::rename(self.0.join("report.next"), self.file()).expect("a report");
        }

        fn file(&self) -> PathBuf {
            self.0.join("report")
        }

        fn device(&self, limit: Duration) -> Result<PortDevice, String> {
            let file = self.file();
            Claims { file: Some(&file), sys: &self.0, limit }.device("east").map_err(|error| format!("{error:#}"))
        }

        /// The device of port east by one report.
        fn of(&self, text: &str) -> Result<PortDevice, String> {
            self.report(text);
            self.device(Duration::ZERO)
        }
    }

    impl Drop for Pod {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_device_is_a_function_of_vfio_else_an_interface() {
        let pod = Pod::new(&["eth0", "net1"], &[("0000:01:00.1", Some("vfio-pci")), ("0000:01:00.2", Some("iavf"))]);
        let pci = || Ok(PortDevice::Pci("0000:01:00.1".into()));
        assert_eq!(pod.of(r#"{"east": {"pci": "0000:01:00.1"}}"#), pci());
        // The interface that the function had.
        assert_eq!(pod.of(r#"{"east": {"pci": "0000:01:00.1", "interface": "net1"}}"#), pci());
        let kernel = || Ok(PortDevice::Kernel("net1".into()));
        assert_eq!(pod.of(r#"{"east": {"interface": "net1"}, "west": {}}"#), kernel());
        assert_eq!(pod.of(r#"{"east": {"pci": "0000:01:00.2", "interface": "net1"}}"#), kernel());
    }

    #[test]
    fn a_report_that_comes_late_and_in_parts_is_awaited() {
        let pod = Pod::new(&["net1"], &[("0000:01:00.2", Some("iavf"))]);
        let device = std::thread::scope(|scope| {
            let read = scope.spawn(|| pod.device(Duration::from_secs(30)));
            std::thread::sleep(Duration::from_millis(150));
            pod.report(r#"{"east": {"pci": "0000:01:00.2"}}"#);
            std::thread::sleep(Duration::from_millis(150));
            pod.report(r#"{"east": {"pci": "0000:01:00.2", "interface": "net1"}}"#);
            read.join().expect("no panic")
        });
        assert_eq!(device, Ok(PortDevice::Kernel("net1".into())));
    }

    #[test]
    fn what_cannot_be_opened_lists_both_sides() {
        let pod = Pod::new(&["eth0", "net1"], &[("0000:01:00.2", Some("iavf")), ("0000:01:00.3", None)]);
        for (report, words) in [
            ("", &["no device of the pod's resource claims", "nothing at all"][..]),
            (r#"{"west": {"interface": "net1"}}"#, &["no device of the pod's resource claims", "those of west"]),
            (r#"{"east": {}}"#, &["names no interface, and no PCI device", "networkData.interfaceName"]),
            (r#"{"east": {"pci": "0000:01:00.2"}}"#, &["0000:01:00.2 is bound to iavf, not to vfio-pci"]),
            (r#"{"east": {"pci": "0000:01:00.3"}}"#, &["bound to no driver"]),
            (r#"{"east": {"interface": "net2"}}"#, &["no interface net2", "but eth0, net1"]),
            (r#"{"east": {"interface": "eth0"}}"#, &["the pod's own"]),
            (r#"{"east": {"interface": "net1,qpairs=9"}}"#, &["must have at most 15 characters"]),
            (r#"{"east": {"interface": ".."}}"#, &["not begin with"]),
            (r#"{"east": {"interface": "interface-of-16b"}}"#, &["at most 15"]),
            (r#"{"east": {"pci": "../../etc"}}"#, &["not the address of a PCI device"]),
            ("{", &["--claimed-devices"]),
        ] {
            let error = pod.of(report).expect_err(report);
            assert!(words.iter().all(|word| error.contains(word)), "{report}: {error}: not all of {words:?}");
        }
        let error = Claims { file: None, sys: &pod.0, limit: Duration::ZERO }.device("east").expect_err("no file");
        assert!(error.to_string().contains("--claimed-devices"), "{error}");
    }
}
