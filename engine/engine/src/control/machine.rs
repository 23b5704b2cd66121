// SPDX-License-Identifier: Apache-2.0
//! The machine as the contract reports it.
use crate::machine::{Cpu, Device, Fact, Facts, Link};
use contract::{
    BoolFact, BytesFact, Machine, Numbers, NumbersFact, PciDevice, PcieLink, PcieLinkFact, TextFact, WorkerCpu,
    bool_fact, bytes_fact, numbers_fact, pcie_link_fact, text_fact,
};

/// The facts as GetInfo has them.
pub fn reported(facts: &Facts) -> Machine {
    Machine {
        worker_cpus: facts.workers.iter().map(worker).collect(),
        control_cpus: narrow(&facts.used.control_cpus),
        allowed_cpus: narrow(&facts.used.allowed_cpus),
        isolated_cpus: numbers(&facts.isolated_cpus),
        nohz_full_cpus: numbers(&facts.nohz_full_cpus),
        numa_nodes: numbers(&facts.numa_nodes),
        packet_memory_nodes: numbers(&facts.packet_memory_nodes),
        clock_source: text(&facts.clock_source.clone().map(Some), ""),
        memlock_bytes: Some(BytesFact {
            fact: Some(fold(&facts.memlock_bytes, bytes_fact::Fact::Value, bytes_fact::Fact::Unknown)),
        }),
        ipc_lock: Some(BoolFact {
            fact: Some(fold(&facts.ipc_lock, bool_fact::Fact::Value, bool_fact::Fact::Unknown)),
        }),
        pci_devices: facts.devices.iter().map(device).collect(),
    }
}

fn worker(cpu: &Cpu) -> WorkerCpu {
    WorkerCpu {
        cpu: cpu.cpu as u32,
        numa_node: numbers(&cpu.node.clone().map(|node| vec![node])),
        siblings: numbers(&cpu.siblings),
        governor: text(&cpu.governor, ""),
    }
}

fn device(device: &Device) -> PciDevice {
    let fact = device.link.as_ref().map(link).map_err(Clone::clone);
    PciDevice {
        port: device.port.clone(),
        address: device.address.clone(),
        numa_node: numbers(&device.node.clone().map(Vec::from_iter)),
        kernel_driver: text(&device.driver, ""),
        iommu: text(&device.iommu, "none"),
        link: Some(PcieLinkFact {
            fact: Some(fold(&fact, pcie_link_fact::Fact::Value, pcie_link_fact::Fact::Unknown)),
        }),
    }
}

fn link(link: &Link) -> PcieLink {
    PcieLink {
        function: link.function.clone(),
        current_gtps: link.current.gtps,
        current_width: link.current.width,
        max_gtps: link.max.gtps,
        max_width: link.max.width,
    }
}

fn fold<T: Clone, F>(fact: &Fact<T>, known: impl Fn(T) -> F, unknown: impl Fn(String) -> F) -> F {
    match fact {
        Ok(value) => known(value.clone()),
        Err(why) => unknown(why.clone()),
    }
}

/// A text, or what stands for none.
fn text(fact: &Fact<Option<String>>, none: &str) -> Option<TextFact> {
    let value = |text: Option<String>| text_fact::Fact::Value(text.unwrap_or_else(|| none.to_owned()));
    Some(TextFact { fact: Some(fold(fact, value, text_fact::Fact::Unknown)) })
}

fn numbers(fact: &Fact<Vec<usize>>) -> Option<NumbersFact> {
    let value = |all: Vec<usize>| numbers_fact::Fact::Value(Numbers { numbers: narrow(&all) });
    Some(NumbersFact { fact: Some(fold(fact, value, numbers_fact::Fact::Unknown)) })
}

fn narrow(numbers: &[usize]) -> Vec<u32> {
    numbers.iter().map(|&number| number as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Roots, Used, read};

    #[test]
    fn facts_are_reported_as_a_value_or_as_unknown() {
        let used = Used { worker_cpus: vec![3], control_cpus: vec![2], allowed_cpus: vec![2, 3], ports: vec![] };
        let mut facts = read(&Roots { sys: "/no/sys".into(), proc: "/no/proc".into() }, used);
        facts.numa_nodes = Ok(vec![0, 1]);
        facts.workers[0].governor = Ok(None);
        facts.memlock_bytes = Ok(u64::MAX);
        facts.devices.push(Device {
            port: "east".into(),
            address: "0000:3b:02.1".into(),
            node: Ok(None),
            driver: Ok(Some("vfio-pci".into())),
            iommu: Ok(None),
            link: Err("/no/sys/x: there is no such file".into()),
        });
        let Machine { worker_cpus, control_cpus, allowed_cpus, numa_nodes, clock_source, memlock_bytes, .. } =
            reported(&facts);
        let text = |value: &str| Some(TextFact { fact: Some(text_fact::Fact::Value(value.to_owned())) });
        let list = |value: &[u32]| {
            Some(NumbersFact { fact: Some(numbers_fact::Fact::Value(Numbers { numbers: value.to_vec() })) })
        };
        let none = "there is no such file";
        assert_eq!((control_cpus, allowed_cpus), (vec![2], vec![2, 3]));
        assert_eq!((numa_nodes, worker_cpus[0].cpu), (list(&[0, 1]), 3));
        assert_eq!(worker_cpus[0].governor, text(""));
        let unknown = format!("/no/sys/devices/system/cpu/cpu3: {none}");
        assert_eq!(worker_cpus[0].numa_node.as_ref().unwrap().fact, Some(numbers_fact::Fact::Unknown(unknown)));
        let unknown = format!("/no/sys/devices/system/clocksource/clocksource0/current_clocksource: {none}");
        assert_eq!(clock_source.unwrap().fact, Some(text_fact::Fact::Unknown(unknown)));
        assert_eq!(memlock_bytes.unwrap().fact, Some(bytes_fact::Fact::Value(u64::MAX)));
        let device = &reported(&facts).pci_devices[0];
        assert_eq!(
            (&device.kernel_driver, &device.iommu, &device.numa_node),
            (&text("vfio-pci"), &text("none"), &list(&[]))
        );
        let unknown = Some(pcie_link_fact::Fact::Unknown(format!("/no/sys/x: {none}")));
        assert_eq!(device.link.as_ref().unwrap().fact, unknown);
    }
}
