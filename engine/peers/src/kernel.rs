// SPDX-License-Identifier: Apache-2.0
//! What the kernel's TCP counts in a namespace, as far as it shows how losses were recovered.
use std::{collections::BTreeMap, fs, io};

use crate::namespaces::in_namespace;

/// Ours that mean about the same, by the kernel's names (`/proc/net/snmp`, `/proc/net/netstat`).
const NAMES: &[(&str, &str)] = &[
    ("OutSegs", "sent_packets"),
    ("RetransSegs", "retransmitted_packets"),
    ("TCPTimeouts", "retransmit_timeouts"),
    ("TCPSynRetrans", "syn_timeouts"),
    ("TCPLossProbes", "tail_probes_sent"),
    ("TCPSackRecovery", "fast_retransmits"),
    ("TCPSpuriousRTOs", "spurious_timeouts"),
    ("TCPFullUndo", "undone_by_timestamps"),
    ("TCPDSACKUndo", "undone_by_dsack"),
    ("TCPLostRetransmit", "lost_retransmissions"),
    ("TCPDSACKOldSent", "dsacks_sent"),
];

/// Since the namespace was made.
pub fn counters(prefix: &str, which: &str) -> io::Result<BTreeMap<&'static str, u64>> {
    // The thread's namespace, not its process'.
    let read = || {
        Ok(fs::read_to_string("/proc/thread-self/net/snmp")? + &fs::read_to_string("/proc/thread-self/net/netstat")?)
    };
    let text: io::Result<String> = in_namespace(prefix, which, read).join().expect("it does not panic");
    Ok(parse(&text?))
}

/// Lines come in pairs: names, and their values.
fn parse(text: &str) -> BTreeMap<&'static str, u64> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).flat_map(|pair| pair[0].split_whitespace().zip(pair[1].split_whitespace()));
    let known = |(name, value): (&str, &str)| {
        let (_, ours) = NAMES.iter().find(|(theirs, _)| *theirs == name)?;
        Some((*ours, value.parse().ok()?))
    };
    pairs.filter_map(known).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_and_values_come_in_lines() {
        let text = "Tcp: MaxConn OutSegs RetransSegs\nTcp: -1 70 5\nTcpExt: TCPTimeouts X\nTcpExt: 3 4\n";
        let expected = [("retransmit_timeouts", 3), ("retransmitted_packets", 5), ("sent_packets", 70)];
        assert_eq!(super::parse(text), expected.into());
    }
}
