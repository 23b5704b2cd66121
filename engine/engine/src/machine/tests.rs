// SPDX-License-Identifier: Apache-2.0
//! Facts of machines that are folders: one without faults, and what injected faults change in it.
use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const VF: &str = "0000:3b:02.1";
const PF: &str = "0000:3b:00.0";

/// A machine with two NUMA nodes of two CPUs, without SMT: workers on CPUs 2 and 3, control on CPU 0, a virtual function of node 1.
struct Fake(tempfile::TempDir);

impl Fake {
    fn new() -> Self {
        let fake = Self(tempfile::tempdir().unwrap());
        for cpu in 0..4 {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}");
            fake.write(&format!("{folder}/topology/thread_siblings_list"), &format!("{cpu}\n"));
            fake.write(&format!("{folder}/cpufreq/scaling_governor"), "performance\n");
            fake.link(&format!("{folder}/node{}", cpu / 2), "../../node/node");
        }
        fake.write("sys/devices/system/cpu/isolated", "2-3\n");
        fake.write("sys/devices/system/cpu/nohz_full", "(null)\n");
        fake.write("sys/devices/system/node/online", "0-1\n");
        fake.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
        fake.write("proc/self/limits", "Limit  Soft  Hard  Units\nMax locked memory  unlimited  unlimited  bytes\n");
        fake.write("proc/self/status", "Name:\tspate-engine\nCapEff:\t0000000000804000\n");
        let maps = "55d0c0000000 default file=/usr/bin/spate-engine mapped=9 N0=9 kernelpagesize_kB=4\n\
             7f2a00000000 default file=/memfd:seg_2048k-1-0\\040(deleted) huge dirty=64 N1=64 kernelpagesize_kB=2048\n";
        fake.write("proc/self/numa_maps", maps);
        let devices = "sys/bus/pci/devices";
        fake.write(&format!("{devices}/{VF}/numa_node"), "1\n");
        fake.link(&format!("{devices}/{VF}/driver"), "../../drivers/vfio-pci");
        fake.link(&format!("{devices}/{VF}/iommu_group"), "../../../../kernel/iommu_groups/12");
        fake.link(&format!("{devices}/{VF}/physfn"), &format!("../{PF}"));
        fake.write("sys/kernel/iommu_groups/12/type", "DMA-FQ\n");
        for which in ["current", "max"] {
            fake.write(&format!("{devices}/{PF}/{which}_link_speed"), "16.0 GT/s PCIe\n");
            fake.write(&format!("{devices}/{PF}/{which}_link_width"), "16\n");
            fake.write(&format!("{devices}/{VF}/{which}_link_speed"), "Unknown\n");
            fake.write(&format!("{devices}/{VF}/{which}_link_width"), "0\n");
        }
        fake
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        symlink(Path::new(target), path).unwrap();
    }

    fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
    }

    fn facts(&self) -> Facts {
        let roots = Roots { sys: self.path("sys"), proc: self.path("proc") };
        let ports = [("east", PortDevice::Pci("3B:02.1".into())), ("west", PortDevice::Kernel("eth1".into()))];
        read(
            &roots,
            Used {
                worker_cpus: vec![2, 3],
                control_cpus: vec![0],
                allowed_cpus: vec![0, 2, 3],
                ports: ports.map(|(name, device)| (name.to_owned(), device)).into(),
            },
        )
    }
}

const GEN4_X16: Lanes = Lanes { gtps: 16.0, width: 16 };

#[test]
fn facts_of_a_machine_are_read() {
    let facts = Fake::new().facts();
    assert_eq!(
        facts.workers,
        [2, 3].map(|cpu| Cpu { cpu, node: Ok(1), siblings: Ok(vec![]), governor: Ok(Some("performance".into())) })
    );
    assert_eq!((facts.isolated_cpus, facts.nohz_full_cpus), (Ok(vec![2, 3]), Ok(vec![])));
    assert_eq!((facts.numa_nodes, facts.packet_memory_nodes), (Ok(vec![0, 1]), Ok(vec![1])));
    assert_eq!((facts.clock_source, facts.memlock_bytes, facts.ipc_lock), (Ok("tsc".into()), Ok(u64::MAX), Ok(true)));
    let device = Device {
        port: "east".into(),
        address: VF.into(),
        node: Ok(Some(1)),
        driver: Ok(Some("vfio-pci".into())),
        iommu: Ok(Some("DMA-FQ".into())),
        link: Ok(Link { function: PF.into(), current: GEN4_X16, max: GEN4_X16 }),
    };
    assert_eq!(facts.devices, [device], "a kernel interface without a PCI function has no device");
}

#[test]
fn injected_faults_are_in_the_facts() {
    type Fault = fn(&Fake);
    type Seen = fn(&Facts) -> bool;
    let cases: [(&str, Fault, Seen); 18] = [
        (
            "a device on another node",
            |m| m.write(&format!("sys/bus/pci/devices/{VF}/numa_node"), "0\n"),
            |f| f.devices[0].node == Ok(Some(0)),
        ),
        (
            "a device whose node the kernel does not know",
            |m| m.write(&format!("sys/bus/pci/devices/{VF}/numa_node"), "-1\n"),
            |f| f.devices[0].node == Ok(None),
        ),
        (
            "a worker on another node",
            |m| {
                m.remove("sys/devices/system/cpu/cpu3/node1");
                m.link("sys/devices/system/cpu/cpu3/node0", "../../node/node0");
            },
            |f| (&f.workers[0].node, &f.workers[1].node) == (&Ok(1), &Ok(0)),
        ),
        (
            "packet memory on two nodes",
            |m| {
                m.write("proc/self/numa_maps", "7f default file=/anon_hugepage\\040(deleted) huge anon=64 N0=3 N1=61\n")
            },
            |f| f.packet_memory_nodes == Ok(vec![0, 1]),
        ),
        (
            "a sibling",
            |m| m.write("sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2,66\n"),
            |f| (&f.workers[0].siblings, &f.workers[1].siblings) == (&Ok(vec![66]), &Ok(vec![])),
        ),
        (
            "another governor",
            |m| m.write("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n"),
            |f| f.workers[1].governor == Ok(Some("powersave".into())),
        ),
        (
            "a kernel that scales no frequency",
            |m| m.remove("sys/devices/system/cpu/cpu3/cpufreq"),
            |f| f.workers[1].governor == Ok(None),
        ),
        (
            "another clock source",
            |m| m.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            |f| f.clock_source == Ok("hpet".into()),
        ),
        (
            "a limit of locked memory, and no capability",
            |m| {
                m.write(
                    "proc/self/limits",
                    "Max locked memory         8388608              8388608              bytes     \n",
                );
                m.write("proc/self/status", "CapEff:\t0000000000800000\n");
            },
            |f| (&f.memlock_bytes, &f.ipc_lock) == (&Ok(8 << 20), &Ok(false)),
        ),
        (
            "CPUs that are not isolated",
            |m| m.write("sys/devices/system/cpu/isolated", "\n"),
            |f| f.isolated_cpus == Ok(vec![]),
        ),
        (
            "CPUs without a tick",
            |m| m.write("sys/devices/system/cpu/nohz_full", "1,3\n"),
            |f| f.nohz_full_cpus == Ok(vec![1, 3]),
        ),
        (
            "a kernel that cannot stop the tick",
            |m| m.remove("sys/devices/system/cpu/nohz_full"),
            |f| f.nohz_full_cpus == Ok(vec![]),
        ),
        (
            "no IOMMU",
            |m| m.remove(&format!("sys/bus/pci/devices/{VF}/iommu_group")),
            |f| f.devices[0].iommu == Ok(None),
        ),
        (
            "vfio without an IOMMU",
            |m| m.write("sys/kernel/iommu_groups/12/name", "vfio-noiommu\n"),
            |f| f.devices[0].iommu == Ok(None),
        ),
        (
            "a slot with fewer lanes",
            |m| m.write(&format!("sys/bus/pci/devices/{PF}/current_link_width"), "8\n"),
            |f| f.devices[0].link.as_ref().is_ok_and(|l| l.current.width == 8 && l.max == GEN4_X16),
        ),
        (
            "a slower slot",
            |m| m.write(&format!("sys/bus/pci/devices/{PF}/current_link_speed"), "8 GT/s\n"), // as older kernels write it
            |f| f.devices[0].link.as_ref().is_ok_and(|l| l.current.gtps == 8.0),
        ),
        (
            "a virtual function in a virtual machine, without its physical one",
            |m| m.remove(&format!("sys/bus/pci/devices/{VF}/physfn")),
            |f| {
                f.devices[0]
                    .link
                    .as_ref()
                    .is_err_and(|e| e.ends_with("0000:3b:02.1/current_link_speed: \"Unknown\" is no speed"))
            },
        ),
        (
            "a PCI function behind a kernel interface",
            |m| m.link("sys/class/net/eth1/device", &format!("../../../{PF}")),
            |f| f.devices[1].port == "west" && f.devices[1].address == PF && f.devices[1].driver == Ok(None),
        ),
    ];
    for (name, inject, seen) in cases {
        let machine = Fake::new();
        inject(&machine);
        let facts = machine.facts();
        assert!(seen(&facts), "{name}: {facts:#?}");
    }
}

#[test]
fn facts_that_cannot_be_read_are_unknown_by_name() {
    let machine = Fake::new();
    for path in ["sys/devices", "proc/self/numa_maps", "proc/self/limits", "sys/kernel"] {
        machine.remove(path);
    }
    machine.write("proc/self/status", "Name:\tspate-engine\n");
    machine.write(&format!("sys/bus/pci/devices/{VF}/numa_node"), "north\n");
    machine.remove(&format!("sys/bus/pci/devices/{PF}"));
    let Facts { workers, isolated_cpus, nohz_full_cpus, numa_nodes, packet_memory_nodes, clock_source, .. } =
        machine.facts();
    let Facts { memlock_bytes, ipc_lock, devices, .. } = machine.facts();
    let unknown = [
        workers[1].node.clone().unwrap_err(),
        workers[1].siblings.clone().unwrap_err(),
        workers[1].governor.clone().unwrap_err(),
        isolated_cpus.unwrap_err(),
        nohz_full_cpus.unwrap_err(),
        numa_nodes.unwrap_err(),
        packet_memory_nodes.unwrap_err(),
        clock_source.unwrap_err(),
        memlock_bytes.unwrap_err(),
        ipc_lock.unwrap_err(),
        devices[0].node.clone().unwrap_err(),
        devices[0].iommu.clone().unwrap_err(),
        devices[0].link.clone().unwrap_err(),
    ];
    let root = format!("{}/", machine.0.path().display());
    let unknown = unknown.map(|text| text.replace(&root, ""));
    let none = "there is no such file";
    assert_eq!(
        unknown,
        [
            format!("sys/devices/system/cpu/cpu3: {none}"),
            format!("sys/devices/system/cpu/cpu3/topology/thread_siblings_list: {none}"),
            format!("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor: {none}"),
            format!("sys/devices/system/cpu/isolated: {none}"),
            format!("sys/devices/system/cpu/nohz_full: {none}"),
            format!("sys/devices/system/node/online: {none}"),
            format!("proc/self/numa_maps: {none}"),
            format!("sys/devices/system/clocksource/clocksource0/current_clocksource: {none}"),
            format!("proc/self/limits: {none}"),
            "proc/self/status: no line of effective capabilities".to_owned(),
            "sys/bus/pci/devices/0000:3b:02.1/numa_node: \"north\" is no node".to_owned(),
            format!("sys/kernel/iommu_groups/12/name: {none}"),
            format!("sys/bus/pci/devices/0000:3b:02.1/physfn/current_link_speed: {none}"),
        ]
    );
}

#[test]
fn facts_of_this_machine_can_be_read() {
    let used = Used { worker_cpus: vec![0], ports: vec![("l".into(), PortDevice::Loopback)], ..Used::default() };
    let facts = read(&Roots::default(), used);
    assert!(facts.clock_source.is_ok() && facts.memlock_bytes.is_ok() && facts.ipc_lock.is_ok(), "{facts:#?}");
    assert!(facts.workers.len() == 1 && facts.devices.is_empty());
}

#[test]
fn lists_are_the_kernels() {
    for (text, want) in [("", vec![]), ("0", vec![0]), ("0-2,8", vec![0, 1, 2, 8])] {
        assert_eq!(tree::parse_list(text), Some(want), "{text}");
    }
    for wrong in ["x", "3-1", "0-99999999999", "1-", "-1"] {
        assert_eq!(tree::parse_list(wrong), None, "{wrong}");
    }
}
