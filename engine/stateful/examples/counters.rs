// SPDX-License-Identifier: Apache-2.0
//! Prints docs/reference/counters.md, which `make generate-docs` writes.
use std::fmt::Write;

use spate_stateful::COUNTERS;

const HEAD: &str = "\
# Counters of templates

<!-- Written by `make generate-docs` from engine/stateful/src/counters.rs: change that. -->

Each side of a template (its clients, its servers) has these counters in each engine. They are in `WatchStats` of the contract
(those that are not 0), in what `spate-engine run --output json` prints, and in the metrics. They count from the run's start and
are never reset. Bytes are bytes of data, without headers. A connection or UDP flow belongs to the template that serves it; on a
server it may come to belong to another one with its first bytes, or by its program: `switched_out` and `switched_in` count that.

The third column is the name of the counter of Cisco TRex that counts the same.

| name | counts | TRex |
|---|---|---|
";

const IDENTITIES: &str = "
## What always holds

*open* is the number of flows that are open, `open_flows` in `WatchStats`; flows in TIME-WAIT are not among them.

| of | holds |
|---|---|
| clients of a template | `connect_attempts` + `switched_in` = `closed` + `switched_out` + open |
| servers of a template | `accepts` + `switched_in` = `closed` + `switched_out` + open |
| either side | `acked_bytes` <= `sent_data_bytes` <= `queued_bytes` |
| clients and servers that talk to each other alone, over TCP | `received_data_bytes` of one side <= `queued_bytes` of the other |
| the same, if no flow failed or was cut | `received_data_bytes` of one side = `acked_bytes` = `sent_data_bytes` = `queued_bytes` of the other; `connects` of both sides are equal |
| either side, where every connection is [recorded](records.md) | records of the side, in the file, left out or told live, + `records_dropped` = `closed` |

When a run is over open is 0: what was still open is in `closed` and in `flows_cut`. The engine checks the rows about flows, servers
of all templates taken together, and the one about bytes received when a run is over. If one does not hold it logs an error, the run
is invalid (`CountersContradict`), and `spate-engine run` ends with exit code 1.
";

/// The whole page.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for (name, trex, meaning) in COUNTERS {
        let trex = if trex.is_empty() { String::new() } else { format!("`{trex}`") };
        writeln!(page, "| `{name}` | {meaning} | {trex} |").expect("memory takes it");
    }
    page + IDENTITIES
}

#[allow(dead_code, reason = "a test compares the page with the file")]
fn main() {
    print!("{}", page());
}
