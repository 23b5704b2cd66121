// SPDX-License-Identifier: Apache-2.0
//! How much ordinary memory is left, to the machine and to the container?

use std::fs;

/// File with the memory of the machine (proc(5)).
const MACHINE: &str = "/proc/meminfo";

/// Files of the container's own control group: its limit, what is taken of it, and where the cache is counted that can be given back.
struct Group {
    limit: &'static str,
    taken: &'static str,
    statistics: &'static str,
    reclaimable: &'static str,
}

/// Version 2, then version 1 (kernel: admin-guide/cgroup-v2.rst, admin-guide/cgroup-v1/memory.rst).
const GROUPS: [Group; 2] = [
    Group {
        limit: "/sys/fs/cgroup/memory.max",
        taken: "/sys/fs/cgroup/memory.current",
        statistics: "/sys/fs/cgroup/memory.stat",
        reclaimable: "inactive_file ",
    },
    Group {
        limit: "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        taken: "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        statistics: "/sys/fs/cgroup/memory/memory.stat",
        reclaimable: "total_inactive_file ",
    },
];

/// Bytes that may still be taken, if the system says so.
pub(in crate::datapath) fn left() -> Option<u64> {
    left_by(|path| fs::read_to_string(path).ok())
}

/// Bytes that may still be taken, with `read` as the reader of files.
fn left_by(read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let of_machine = read(MACHINE).and_then(|text| {
        let kib = line(&text, "MemAvailable:")?.trim().strip_suffix("kB")?;
        Some(kib.trim().parse::<u64>().ok()? << 10)
    });
    let of_groups = GROUPS.iter().filter_map(|group| {
        let number = |path| read(path)?.trim().parse::<u64>().ok();
        let (limit, taken) = (number(group.limit)?, number(group.taken)?);
        let reclaimable = read(group.statistics).and_then(|text| line(&text, group.reclaimable)?.trim().parse().ok());
        Some(limit.saturating_sub(taken.saturating_sub(reclaimable.unwrap_or(0))))
    });
    of_machine.into_iter().chain(of_groups).min()
}

/// The rest of the line that begins with a name.
fn line<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_least_of_machine_and_container_is_left() {
        let machine = (MACHINE, "MemTotal:  8388608 kB\nMemAvailable:  4194304 kB\n");
        let v1 = |limit| {
            [
                machine,
                ("/sys/fs/cgroup/memory/memory.limit_in_bytes", limit),
                ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "805306368\n"),
                ("/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 268435456\n"),
            ]
        };
        let v2 = |limit| {
            [
                machine,
                ("/sys/fs/cgroup/memory.max", limit),
                ("/sys/fs/cgroup/memory.current", "805306368\n"),
                ("/sys/fs/cgroup/memory.stat", "anon 536870912\ninactive_file 268435456\n"),
            ]
        };
        for (files, want) in [
            (&[machine][..], Some(4 * GIB)),
            (&v1("1073741824\n")[..], Some(GIB / 2)),
            (&v2("1073741824\n")[..], Some(GIB / 2)),
            (&v2("1073741824\n")[..3], Some(GIB / 4)),
            // Without a limit.
            (&v1("9223372036854771712\n")[..], Some(4 * GIB)),
            (&v2("max\n")[..], Some(4 * GIB)),
            (&v2("536870000\n")[1..], Some(0)),
            (&[][..], None),
        ] {
            let read = |path: &str| files.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned());
            assert_eq!(left_by(read), want, "{files:?}");
        }
    }
}
