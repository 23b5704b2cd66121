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

fn told(sides: Vec<TemplateStats>) -> Vec<String> {
    complaints(&WatchStatsResponse { templates: sides, ..WatchStatsResponse::default() }, &[])
}

#[test]
fn flows_without_place_port_or_memory_are_the_engines_limit() {
    for (name, what) in NO_ROOM {
        let client = side(Side::Client, &[("connect_attempts", 100_000), (name, 3)], &[(name, 1)]);
        assert_eq!(told(vec![client]), [format!("template web client: 2 {what}")]);
        let server = side(Side::Server, &[("accepts", 100_000), (name, 1)], &[]);
        assert_eq!(told(vec![server]), [format!("template web server: 1 {what}")]);
    }
}

#[test]
fn one_flow_in_a_thousand_may_be_late_and_what_most_open_holds_back_was_asked_for() {
    let both = |late| {
        let client = side(Side::Client, &[("connect_attempts", 2999), ("late_flows", late)], &[]);
        vec![client, side(Side::Server, &[("accepts", 2999)], &[])]
    };
    assert_eq!(told(both(2)), [""; 0]);
    assert_eq!(told(both(3)), ["templates: 3 of 2999 connections began late"]);
    let of_warmup = side(Side::Client, &[("connect_attempts", 10), ("late_flows", 5)], &[("late_flows", 5)]);
    let held = side(Side::Client, &[("connect_attempts", 10), ("flows_held_back", 5), ("open_limit_waits", 9)], &[]);
    let failed = side(Side::Client, &[("connect_attempts", 10), ("resets_received", 5), ("connect_drops", 5)], &[]);
    assert_eq!(told(vec![of_warmup, held, failed]), [""; 0]);
}
