// SPDX-License-Identifier: Apache-2.0
//! Which CPUs do control and workers run on?
use crate::machine::Fact;
use anyhow::{Context, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPUs that this thread may use.
pub fn allowed() -> anyhow::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("the CPUs of this process cannot be queried")?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect())
}

/// The first CPU of each core. The core's other threads must be allowed, too, so that nothing else runs there.
pub fn first_of_each_core(
    cpus: &[usize],
    allowed: &[usize],
    siblings: impl Fn(usize) -> Fact<Vec<usize>>,
) -> anyhow::Result<Vec<usize>> {
    let mut first = Vec::new();
    for &cpu in cpus {
        let others = siblings(cpu).map_err(anyhow::Error::msg)?;
        if let Some(other) = others.iter().find(|other| !allowed.contains(other)) {
            bail!(
                "CPUs {cpu} and {other} are threads of one core, and this process may not use CPU {other}: have the kubelet give whole cores to pods \
                 (cpuManagerPolicyOptions: full-pcpus-only)"
            );
        }
        if !others.iter().any(|other| first.contains(other)) {
            first.push(cpu);
        }
    }
    Ok(first)
}

/// This thread and all that it starts run on these CPUs; workers pin themselves to theirs.
pub fn keep_to(cpus: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set).with_context(|| format!("control cannot be kept to CPUs {cpus:?}"))
}

/// Workers that are to run on one NUMA node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// How many.
    pub workers: usize,
    /// The node; none: on any.
    pub node: Option<usize>,
}

/// A fact that a choice of CPUs is made by; one that cannot be read is logged, and the choice is made without it.
pub fn known<T>(fact: Fact<T>) -> Option<T> {
    fact.map_err(|why| tracing::warn!(why, "workers get their CPUs without this fact")).ok()
}

/// The CPUs of control, and of the workers of each group in turn. A group gets the first CPUs of its node; where that has too few, and
/// where it has no node, the first that is free. Control gets the first that no group has taken by its node; with too few, it
/// shares the last worker's.
pub fn share_out(
    cpus: &[usize],
    groups: &[Group],
    node_of: impl Fn(usize) -> Option<usize>,
) -> anyhow::Result<(Vec<usize>, Vec<usize>)> {
    let workers: usize = groups.iter().map(|group| group.workers).sum();
    if cpus.len() < workers {
        bail!(
            "--workers {workers}: there are only {} CPUs to use ({cpus:?}); every worker needs one of its own",
            cpus.len()
        );
    }
    let mut left = cpus.to_vec();
    let by_node = groups.iter().map(|group| {
        let Some(node) = group.node else { return Vec::new() };
        let near = left.iter().copied().filter(|cpu| node_of(*cpu) == Some(node));
        let near: Vec<usize> = near.take(group.workers).collect();
        left.retain(|cpu| !near.contains(cpu));
        near
    });
    let by_node: Vec<_> = by_node.collect();
    let control = (cpus.len() > workers).then(|| left.remove(0));
    let mut chosen = Vec::with_capacity(workers);
    for (group, near) in groups.iter().zip(by_node) {
        let far: Vec<usize> = left.drain(..group.workers - near.len()).collect();
        if let (Some(node), false) = (group.node, far.is_empty()) {
            tracing::warn!(node, cpus = ?near, others = ?far, "workers run on another NUMA node than their ports' devices");
        }
        chosen.extend(near.into_iter().chain(far));
    }
    Ok((control.or(chosen.last().copied()).into_iter().collect(), chosen))
}

/// The CPUs of a list such as 2-5,8.
pub fn parse(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= CpuSet::MAX_CPU {
            return None;
        }
        cpus.extend((first..=last).filter(|cpu| !cpus.contains(cpu)).collect::<Vec<_>>());
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without groups.
    fn any(cpus: &[usize], workers: usize) -> anyhow::Result<(Vec<usize>, Vec<usize>)> {
        share_out(cpus, &[Group { workers, node: None }], |_| None)
    }

    #[test]
    fn control_shares_a_cpu_only_when_there_are_too_few() {
        assert_eq!(any(&[4, 5, 6], 2).unwrap(), (vec![4], vec![5, 6]));
        assert_eq!(any(&[4, 5], 2).unwrap(), (vec![5], vec![4, 5]));
        assert_eq!(any(&[4, 5, 6], 1).unwrap(), (vec![4], vec![5]));
        assert!(any(&[4], 2).is_err());
    }

    #[test]
    fn workers_of_a_group_get_cpus_of_its_numa_node() {
        // Two nodes with two cores of two threads each, numbered as Linux does on servers: node 0 has CPUs 0, 1, 4 and 5.
        let two_nodes = |cpu: usize| Some(cpu / 2 % 2);
        let groups = |of: &[(usize, Option<usize>)]| -> Vec<Group> {
            of.iter().map(|&(workers, node)| Group { workers, node }).collect()
        };
        let all: Vec<usize> = (0..8).collect();
        for (cpus, of, control, workers) in [
            (&all[..], &[(2, Some(0)), (2, Some(1))][..], 4, &[0, 1, 2, 3][..]),
            (&all, &[(1, Some(1)), (3, Some(0))], 3, &[2, 0, 1, 4]),
            // Groups of one node.
            (&all, &[(2, Some(1)), (2, Some(1))], 0, &[2, 3, 6, 7]),
            // A node that is not known, and none that is.
            (&all, &[(2, None), (2, Some(0))], 2, &[3, 4, 0, 1]),
            (&all, &[(2, None), (1, None)], 0, &[1, 2, 3]),
            // The node has too few: others are taken, but not those of another group's node.
            (&[0, 2, 3, 4, 6], &[(3, Some(0)), (2, Some(1))], 3, &[0, 4, 6, 2, 3]),
            // Control shares the last worker's.
            (&[0, 1, 2, 3], &[(2, Some(1)), (2, Some(0))], 1, &[2, 3, 0, 1]),
            // No device's node is that of a CPU.
            (&[0, 1, 2], &[(1, Some(7)), (1, Some(8))], 0, &[1, 2]),
        ] {
            let chosen = share_out(cpus, &groups(of), two_nodes).unwrap();
            assert_eq!(chosen, (vec![control], workers.to_vec()), "{of:?} of {cpus:?}");
        }
        // Where the nodes of CPUs are not known.
        let chosen = share_out(&all, &groups(&[(2, Some(0)), (2, Some(1))]), |_| None).unwrap();
        assert_eq!(chosen, (vec![0], vec![1, 2, 3, 4]));
        let refused = share_out(&[0, 1, 2], &groups(&[(2, Some(0)), (2, Some(1))]), two_nodes).unwrap_err();
        assert!(refused.to_string().starts_with("--workers 4: there are only 3 CPUs to use"), "{refused}");
    }

    #[test]
    fn a_core_has_one_user_if_all_its_threads_are_allowed() {
        let siblings = |cpu: usize| Ok(if cpu < 4 { vec![cpu + 4] } else { vec![cpu - 4] });
        let of = |cpus: &[usize]| first_of_each_core(cpus, cpus, siblings);
        assert_eq!(of(&[1, 2, 5, 6]).unwrap(), [1, 2]);
        assert_eq!(of(&[5, 1]).unwrap(), [5]);
        let refused = of(&[1, 2, 5]).unwrap_err().to_string();
        assert!(
            refused.starts_with("CPUs 2 and 6 are threads of one core, and this process may not use CPU 6"),
            "{refused}"
        );
        assert_eq!(first_of_each_core(&[3, 4], &[3, 4], |_| Ok(vec![])).unwrap(), [3, 4]);
        let unknown = first_of_each_core(&[3], &[3], |_| Err("/sys: there is no such file".into()));
        assert_eq!(unknown.unwrap_err().to_string(), "/sys: there is no such file");
    }

    #[test]
    fn lists_of_cpus_are_read_or_refused() {
        assert_eq!(parse("2-4,8"), Some(vec![2, 3, 4, 8]));
        assert_eq!([parse("4-2"), parse("x"), parse(""), parse("99999")], [None, None, None, None]);
    }
}
