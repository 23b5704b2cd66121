// SPDX-License-Identifier: Apache-2.0
//! Prints docs/reference/counters.md, which `make generate-docs` writes.
use std::fmt::Write;

use spate_stateful::COUNTERS;

const HEAD: &str = "\
# Counters of templates

<!-- Written by `make generate-docs` from engine/stateful/src/counters.rs: change that. -->

Each side of a template (its clients, its servers) has these counters in each engine. They are in `WatchStats` of the contract
(those that are not 0), in what `spate-engine run --output json` prints, and in the metrics. They count from the run's start and
are never reset. Beside them each side has its longest time without an arrival in the measured phase, the metric
`spate_template_outage_longest_seconds` ([what counts](../concepts.md#outages)). Bytes are bytes of data, without headers. A connection or UDP flow belongs to the template that serves it; on a
server it may come to belong to another one with its first bytes, or by its program: `switched_out` and `switched_in` count that.

The third column is the name of the counter of Cisco TRex that counts the same; [its others](#trexs-other-counters) come behind.

| name | counts | TRex |
|---|---|---|
";

const TREX_HEAD: &str = "
## TRex's other counters

What counts the same or nearly so here, or why nothing does.

| TRex | here |
|---|---|
";

/// Counters of TRex (of TCP, UDP and its flow table) that `COUNTERS` does not name, and where they are here.
pub const TREX: &[(&str, &str)] = &[
    ("tcps_segstimed", "only those are counted that gave a time: `round_trips`"),
    ("tcps_persistdrop", "`timeout_drops`, among them"),
    (
        "tcps_keeptimeo",
        "not counted: at each a probe is sent, or the connection ends (`keepalive_probes`, `keepalive_drops`)",
    ),
    ("tcps_sndurg", "does not happen: nothing urgent is sent (RFC 6093)"),
    ("tcps_sndwinup", "`sent_ack_packets`, among them"),
    ("tcps_rcvoffloads", "not counted: segments are not put together here"),
    ("tcps_rcvbadsum", "`bad_checksums`; TRex counts `err_l4_cs` instead"),
    ("tcps_rcvbadoff", "`truncated`; TRex counts `err_len_err` instead"),
    ("tcps_rcvshort", "the same"),
    ("tcps_rcvreassfull", "`recovery_exhausted`, `out_of_order_dropped`; TRex counts `tcps_rcvoopackdrop` instead"),
    (
        "tcps_rcvoopackdrop",
        "`recovery_exhausted`, `out_of_order_dropped`: for want of memory, there is no other bound than the window",
    ),
    ("tcps_rcvoobytesdrop", "not counted in bytes"),
    ("tcps_rcvpartduppack", "`received_data_packets`, among them"),
    ("tcps_rcvpartdupbyte", "`duplicate_bytes`, among them"),
    ("tcps_rcvackbyte_of", "not counted: SYN and FIN are no bytes"),
    ("tcps_predack", "not counted: which way a segment takes through the code changes nothing"),
    ("tcps_preddat", "the same"),
    ("tcps_badsyn", "`challenge_acks`; in the handshake `acks_of_unsent`"),
    ("tcps_badrst", "`challenge_acks`"),
    ("tcps_reasalloc", "not counted: memory for what comes out of order is taken before the start"),
    ("tcps_reasfree", "the same"),
    ("tcps_reas_hist_4", "not counted: `out_of_order_packets` counts them all"),
    ("tcps_reas_hist_16", "the same"),
    ("tcps_reas_hist_100", "the same"),
    ("tcps_reas_hist_other", "the same"),
    ("tcps_nombuf", "does not happen: what finds no packet memory is sent later"),
    ("tcps_notunnel", "does not happen: clients of a pool with `gtpu` have their tunnels from the start"),
    ("tcps_sack_rexmits", "`retransmitted_packets`, among them"),
    ("tcps_sack_rexmit_bytes", "`retransmitted_bytes`, among them"),
    ("tcps_ecn_ect0", "not counted: only marks are"),
    ("tcps_ecn_ect1", "the same"),
    ("tcps_ecn_shs", "not counted: that both ends agreed on ECN"),
    ("udps_accepts", "`flows_accepted`"),
    ("udps_connects", "`flows_established`"),
    ("udps_closed", "`flows_closed`"),
    ("udps_nombuf", "does not happen: what finds no packet memory is sent later"),
    (
        "udps_pkt_toobig",
        "not counted: messages that do not fit the port's MTU are refused before the start, or warned of where it is not known",
    ),
    ("udps_notunnel", "does not happen: clients of a pool with `gtpu` have their tunnels from the start"),
    ("err_cwf", "`strays_refused` of clients, over TCP"),
    ("err_no_syn", "`strays_refused` of servers"),
    ("err_fragments_ipv4_drop", "`fragments`, over IPv6 too"),
    ("err_no_tcp_udp", "not counted here: such packets belong to no flow, but to the [slow path](../slow-path.md)"),
    ("err_defer_no_template", "`unmatched`, among them"),
    ("defer_template", "`switched_in`: of flows that do not stay with it, and of those that `switchTemplate` brought"),
    ("err_flow_overflow", "`flows_exhausted`, which counts flows, not how often it began"),
    ("err_c_nf_throttled", "`flows_exhausted` of clients"),
    ("err_s_nf_throttled", "`flows_exhausted` of servers; TRex never counts it"),
    ("err_dct", "not counted: others are tried, until `ports_exhausted`"),
    ("err_l3_cs", "`bad_checksums`, among them"),
    ("err_l4_cs", "the same"),
    ("err_redirect_rx", "not counted here: such packets are of the [slow path](../slow-path.md)"),
    ("redirect_rx_ok", "the same"),
    ("err_rx_throttled", "does not happen: a worker receives a burst, then sends"),
    (
        "rss_redirect_rx",
        "`spate_worker_flow_packets_total` with `steering` `handed_off` ([steering](../slow-path.md#steering))",
    ),
    ("rss_redirect_tx", "the same"),
    ("rss_redirect_drops", "the same with `handoff_lost`"),
    ("rss_redirect_queue_full", "the same"),
    (
        "ignored_macs",
        "`ignored_packets`, which counts SYN, UDP and ping too ([sources to ignore](../stateful.md#sources-to-ignore))",
    ),
    ("ignored_ips", "the same"),
];

const IDENTITIES: &str = "
## What always holds

*open* is the number of flows that are open, `open_flows` in `WatchStats`; flows in TIME-WAIT are not among them.

| of | holds |
|---|---|
| clients of a template | `flows_attempted` + `switched_in` = `flows_closed` + `switched_out` + open |
| servers of a template | `flows_accepted` + `switched_in` = `flows_closed` + `switched_out` + open |
| either side | `acked_bytes` <= `sent_data_bytes` <= `queued_bytes` |
| clients and servers that talk to each other alone, over TCP | `received_data_bytes` of one side <= `queued_bytes` of the other |
| the same, if no flow failed or was aborted | `received_data_bytes` of one side = `acked_bytes` = `sent_data_bytes` = `queued_bytes` of the other; `flows_established` of both sides are equal |
| either side, where every connection is [recorded](records.md) | records of the side, in the file, omitted or delivered live, + `records_dropped` = `flows_closed` |

When a run is over open is 0: what was still open is in `flows_closed` and in `flows_aborted`. The engine checks the rows about flows, servers
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
    page += TREX_HEAD;
    for (trex, here) in TREX {
        writeln!(page, "| `{trex}` | {here} |").expect("memory takes it");
    }
    page + IDENTITIES
}

#[allow(dead_code, reason = "a test compares the page with the file")]
fn main() {
    print!("{}", page());
}
