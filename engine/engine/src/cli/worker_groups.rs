// SPDX-License-Identifier: Apache-2.0
//! Which workers serve which ports, as the command line says: `--worker-group east,west=2`.
use super::cpus;
use crate::datapath::{PortConfig, WorkerGroup};
use crate::index::PortIndex;
use crate::machine::{self, Roots};
use anyhow::bail;
use std::str::FromStr;

/// A group as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerGroupArgument {
    /// Names of its ports.
    pub ports: Vec<String>,
    /// Workers that serve them.
    pub workers: u16,
}

impl FromStr for WorkerGroupArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || "must be PORT,PORT=WORKERS, such as east,west=2".to_owned();
        let (ports, workers) = text.split_once('=').ok_or_else(usage)?;
        let workers: u16 = workers.parse().map_err(|_| usage())?;
        let ports: Vec<String> = ports.split(',').map(str::to_owned).collect();
        if ports.iter().any(String::is_empty) || !(1..=255).contains(&workers) {
            return Err(format!("{}; with 1 to 255 workers", usage()));
        }
        Ok(Self { ports, workers })
    }
}

/// The groups of an engine that has ports of these names; none: all workers serve all ports.
pub fn resolve(asked: &[WorkerGroupArgument], ports: &[&str]) -> anyhow::Result<Vec<WorkerGroup>> {
    let mut groups = Vec::with_capacity(asked.len());
    let mut taken = vec![false; ports.len()];
    for group in asked {
        let mut indices = Vec::with_capacity(group.ports.len());
        for name in &group.ports {
            let Some(index) = ports.iter().position(|port| port == name) else {
                bail!("--worker-group: no --port has the name {name}; there are {}", ports.join(", "));
            };
            if std::mem::replace(&mut taken[index], true) {
                bail!("--worker-group: port {name} is named twice; it can be in one group");
            }
            indices.push(PortIndex(index));
        }
        groups.push(WorkerGroup { ports: indices, workers: group.workers.into() });
    }
    match taken.iter().position(|taken| !taken).filter(|_| !asked.is_empty()) {
        Some(index) => bail!("--worker-group: port {} is in no group; add it to one", ports[index]),
        None => Ok(groups),
    }
}

/// Workers of an engine with these groups, which --workers may say, too.
pub fn count(workers: Option<u16>, groups: &[WorkerGroup]) -> anyhow::Result<usize> {
    let of_groups: usize = groups.iter().map(|group| group.workers).sum();
    match workers.map(usize::from) {
        Some(workers) if !groups.is_empty() && workers != of_groups => {
            bail!(
                "--workers {workers}: the groups of --worker-group have {of_groups} workers; leave --workers out, or make them agree"
            )
        }
        Some(workers) => Ok(workers),
        None if groups.is_empty() => Ok(1),
        None => Ok(of_groups),
    }
}

/// What CPUs a group is to have: those of the NUMA node that most of its ports' devices are on, the first such where several have as many.
pub fn cpus(roots: &Roots, group: &WorkerGroup, ports: &[PortConfig]) -> cpus::Group {
    let facts = group.ports.iter().flat_map(|&PortIndex(port)| machine::nodes_of_port(roots, &ports[port].device));
    let nodes: Vec<usize> = facts.filter_map(|fact| cpus::known(fact).flatten()).collect();
    let devices_of = |node: &usize| nodes.iter().filter(|other| *other == node).count();
    let node = nodes.iter().rev().max_by_key(|node| devices_of(node)).copied();
    if let Some(node) = node.filter(|node| devices_of(node) < nodes.len()) {
        let names: Vec<_> = group.ports.iter().map(|&PortIndex(port)| ports[port].name.as_str()).collect();
        tracing::warn!(
            ports = names.join(","),
            ?nodes,
            node,
            "devices of a worker group are on several NUMA nodes: workers run on one"
        );
    }
    cpus::Group { workers: group.workers, node }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datapath::{PortDevice, StampedBy, UseOffloads};
    use std::fs;

    fn asked(text: &str) -> WorkerGroupArgument {
        text.parse().unwrap()
    }

    fn group(ports: &[usize], workers: usize) -> WorkerGroup {
        WorkerGroup { ports: ports.iter().copied().map(PortIndex).collect(), workers }
    }

    #[test]
    fn groups_are_read_or_refused() {
        assert_eq!(asked("east,west=2"), WorkerGroupArgument { ports: vec!["east".into(), "west".into()], workers: 2 });
        for wrong in ["", "east", "east=", "east=x", "=2", "east,=2", "east=0", "east=256", "east=-1"] {
            assert!(wrong.parse::<WorkerGroupArgument>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_port_is_in_one_group() {
        let ports = ["east", "west", "north"];
        let resolved = resolve(&[asked("north,east=2"), asked("west=1")], &ports).unwrap();
        let expected = [group(&[2, 0], 2), group(&[1], 1)];
        assert_eq!(resolved, expected);
        assert_eq!(resolve(&[], &ports).unwrap(), []);
        for (groups, message) in [
            (vec!["east,west=2"], "--worker-group: port north is in no group; add it to one"),
            (vec!["east,west,north=2", "west=1"], "--worker-group: port west is named twice; it can be in one group"),
            (vec!["east,south=2"], "--worker-group: no --port has the name south; there are east, west, north"),
        ] {
            let groups: Vec<_> = groups.into_iter().map(asked).collect();
            assert_eq!(resolve(&groups, &ports).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn workers_are_those_of_the_groups() {
        let groups = [group(&[0], 2), group(&[1], 1)];
        assert_eq!(count(None, &groups).unwrap(), 3);
        assert_eq!(count(Some(3), &groups).unwrap(), 3);
        assert_eq!((count(None, &[]).unwrap(), count(Some(4), &[]).unwrap()), (1, 4));
        let refused = count(Some(4), &groups).unwrap_err().to_string();
        assert!(refused.starts_with("--workers 4: the groups of --worker-group have 3 workers"), "{refused}");
    }

    #[test]
    fn a_group_runs_on_the_node_that_most_of_its_devices_are_on() {
        let machine = tempfile::tempdir().unwrap();
        let roots = Roots { sys: machine.path().into(), proc: machine.path().into() };
        let device = |number: usize, node: &str| {
            let address = format!("0000:0{number}:00.0");
            let folder = machine.path().join("bus/pci/devices").join(&address);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("numa_node"), node).unwrap();
            PortDevice::Pci(address)
        };
        let (on_0, on_1, unknown) = (device(1, "0\n"), device(2, "1\n"), device(3, "-1\n"));
        let bond = PortDevice::Bond(vec![device(4, "1\n"), device(5, "1\n")]);
        let absent = PortDevice::Pci("0000:09:00.0".into());
        for (devices, node) in [
            (vec![on_0.clone(), on_0.clone()], Some(0)),
            (vec![PortDevice::Loopback, on_1.clone()], Some(1)),
            (vec![on_0.clone(), on_1.clone()], Some(0)),
            (vec![on_1.clone(), on_0.clone()], Some(1)),
            (vec![on_0, on_1.clone(), bond], Some(1)),
            (vec![unknown, PortDevice::Null], None),
            (vec![absent.clone()], None),
            (vec![absent, on_1], Some(1)),
        ] {
            let port = |device: &PortDevice| PortConfig {
                name: "p".into(),
                device: device.clone(),
                line_rate_bps: None,
                offloads: UseOffloads::Auto,
                mac: None,
                any_mac: false,
                stamped_by: StampedBy::Cpu,
            };
            let ports: Vec<_> = devices.iter().map(port).collect();
            let group = WorkerGroup { ports: (0..ports.len()).map(PortIndex).collect(), workers: 3 };
            assert_eq!(cpus(&roots, &group, &ports), cpus::Group { workers: 3, node }, "{devices:?}");
        }
    }
}
