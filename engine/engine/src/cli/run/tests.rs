// SPDX-License-Identifier: Apache-2.0
//! When the engine was the limit of templates: as the operator's verdict has it (operator/internal/controller/run/finish.go).
use super::*;
use contract::NamedCounter;

fn side(side: Side, counters: &[(&str, u64)], warmup: &[(&str, u64)]) -> TemplateStats {
    let named = |all: &[(&str, u64)]| {
        all.iter().map(|&(name, value)| NamedCounter { name: name.into(), value }).collect::<Vec<_>>()
    };
    TemplateStats {
        template: "web".into(),
        side: side.into(),
        counters: named(counters),
        warmup: named(warmup),
        ..TemplateStats::default()
    }
}

fn warnings(sides: Vec<TemplateStats>) -> Vec<String> {
    validity_problems(&WatchStatsResponse { templates: sides, ..WatchStatsResponse::default() }, &[])
}

#[test]
fn flows_without_place_port_or_memory_are_the_engines_limit() {
    for (name, what) in NO_ROOM {
        let client = side(Side::Client, &[("flows_attempted", 100_000), (name, 3)], &[(name, 1)]);
        assert_eq!(warnings(vec![client]), [format!("template web client: 2 {what}")]);
        let server = side(Side::Server, &[("flows_accepted", 100_000), (name, 1)], &[]);
        assert_eq!(warnings(vec![server]), [format!("template web server: 1 {what}")]);
    }
}

#[test]
fn one_flow_in_a_thousand_may_be_late_and_flows_that_most_open_throttles_are_no_limit_of_the_engine() {
    let both = |late| {
        let client = side(Side::Client, &[("flows_attempted", 2999), ("flows_late", late)], &[]);
        vec![client, side(Side::Server, &[("flows_accepted", 2999)], &[])]
    };
    assert_eq!(warnings(both(2)), [""; 0]);
    assert_eq!(warnings(both(3)), ["templates: 3 of 2999 connections started late"]);
    let of_warmup = side(Side::Client, &[("flows_attempted", 10), ("flows_late", 5)], &[("flows_late", 5)]);
    let held = side(Side::Client, &[("flows_attempted", 10), ("flows_throttled", 5), ("open_limit_waits", 9)], &[]);
    let failed = side(Side::Client, &[("flows_attempted", 10), ("resets_received", 5), ("connect_drops", 5)], &[]);
    assert_eq!(warnings(vec![of_warmup, held, failed]), [""; 0]);
}

#[test]
fn flows_that_failed_are_those_of_the_api() {
    let all: Vec<_> =
        FAILED.iter().map(|&name| (name, 2)).chain([("flows_idle_timeouts", 100), ("unmatched", 9)]).collect();
    let counted = |of| failed(&side(of, &all, &[("flows_aborted", 1)]));
    assert_eq!((counted(Side::Client), counted(Side::Server)), (115, 15));
}

#[test]
fn progress_shows_streams_and_flows_as_far_as_there_are_any() {
    let before = || Counted { at: Instant::now() - Duration::from_secs(2), tx: 0, rx: 0, established: 0 };
    let text = |now: WatchStatsResponse| since(&now, &before()).1;
    let client = TemplateStats {
        open_flows: 7,
        ..side(Side::Client, &[("flows_established", 40)], &[("flows_established", 10)])
    };
    // The same flows, seen from the other end.
    let server = TemplateStats { open_flows: 6, ..side(Side::Server, &[("flows_established", 39)], &[]) };
    let elsewhere =
        TemplateStats { template: "dns".into(), open_flows: 1, ..side(Side::Server, &[("flows_established", 2)], &[]) };
    let flows = WatchStatsResponse { templates: vec![client, server, elsewhere], ..WatchStatsResponse::default() };
    assert_eq!(text(flows.clone()), "  21 flows/s  open 8");
    assert_eq!(text(WatchStatsResponse::default()), "  tx 0 pps  rx 0 pps  under way or lost 0");
    let counters = StreamCounters { tx_packets: 20, rx_packets: 18, ..StreamCounters::default() };
    let stream = contract::StreamStats { measured: Some(counters), ..contract::StreamStats::default() };
    let both = WatchStatsResponse { streams: vec![stream], ..flows };
    assert_eq!(text(both), "  tx 10 pps  rx 9 pps  under way or lost 2  21 flows/s  open 8");
}
