// SPDX-License-Identifier: Apache-2.0
//! Settings of a side's transport: the engine's defaults, and what a plan changes of them.
use super::super::PortFacts;
use super::super::Violations;
use super::{MAX_DURATION_NS, USUAL_MTU};
use spate_stateful::{CongestionControl, FieldPath, Tunables};
use std::ops::RangeInclusive;

/// Bytes of a segment: at least what 40 bytes of options leave room beside, at most what an IPv4 packet holds.
const MSS: RangeInclusive<u64> = 48..=65_495;
/// The greatest window (RFC 7323 section 2.3): 65,535 shifted by 14.
const MAX_BUFFER_BYTES: u64 = 65_535 << 14;
/// An acknowledgement waits for less than this (RFC 9293 section 3.8.6.3).
const MAX_DELAYED_ACK_NS: u64 = 500_000_000;
/// RFC 6298 section 2.5: where a timeout's upper bound may be, or higher.
const MAX_RTO_NS: u64 = 60_000_000_000;

/// The settings of a side; where something is wrong, a violation says what.
pub fn tunables(at: &FieldPath, asked: Option<&contract::Tunables>, wrong: &mut Violations) -> Tunables {
    let mut set = Tunables::default();
    let Some(asked) = asked else { return set };
    let mut number = |field: &'static str, value: u64, range: RangeInclusive<u64>| {
        let inside = range.contains(&value);
        if value > 0 && !inside {
            wrong.add(at.field(field), format!("{value}; must be {}..{}", range.start(), range.end()));
        }
        (value > 0 && inside).then_some(value)
    };
    let mut time = |field: &'static str, ns: u64, into: &mut u64, most: u64| {
        if let Some(ns) = number(field, ns, 1..=most) {
            *into = ns;
        }
    };
    time("minimum_rto_ns", asked.minimum_rto_ns, &mut set.minimum_rto_ns, MAX_RTO_NS);
    time("connect_timeout_ns", asked.connect_timeout_ns, &mut set.connect_timeout_ns, MAX_DURATION_NS);
    time("keepalive_idle_ns", asked.keepalive_idle_ns, &mut set.keepalive_idle_ns, MAX_DURATION_NS);
    time("keepalive_interval_ns", asked.keepalive_interval_ns, &mut set.keepalive_interval_ns, MAX_DURATION_NS);
    time("time_wait_ns", asked.time_wait_ns, &mut set.time_wait_ns, MAX_DURATION_NS);
    if let Some(delayed) = asked.delayed_ack_ns {
        // 0 is a value: at once.
        set.delayed_ack_ns = 0;
        time("delayed_ack_ns", delayed, &mut set.delayed_ack_ns, MAX_DELAYED_ACK_NS);
    }
    let byte = 1..=u64::from(u8::MAX);
    set.tos = number("tos", asked.tos.into(), byte.clone()).map_or(set.tos, |tos| tos as u8);
    set.ttl = number("ttl", asked.ttl.into(), byte.clone()).map_or(set.ttl, |ttl| ttl as u8);
    set.mss = number("mss", asked.mss.into(), MSS).map_or(set.mss, |mss| mss as u16);
    let window = number("initial_window", asked.initial_window.into(), byte.clone());
    set.initial_window = window.map_or(set.initial_window, |segments| segments as u8);
    let duplicates = number("duplicate_ack_threshold", asked.duplicate_ack_threshold.into(), byte);
    set.duplicate_ack_threshold = duplicates.map_or(set.duplicate_ack_threshold, |acks| acks as u8);
    let receive = number("receive_buffer", asked.receive_buffer.into(), 1..=MAX_BUFFER_BYTES);
    set.receive_buffer = receive.map_or(set.receive_buffer, |bytes| bytes as u32);
    let send = number("send_buffer", asked.send_buffer.into(), 1..=MAX_BUFFER_BYTES);
    set.send_buffer = send.map_or(set.send_buffer, |bytes| bytes as u32);
    set.congestion_control = match contract::CongestionControl::try_from(asked.congestion_control) {
        Ok(contract::CongestionControl::NewReno) => CongestionControl::NewReno,
        Ok(contract::CongestionControl::Unspecified | contract::CongestionControl::Cubic) => CongestionControl::Cubic,
        Err(_) => {
            let problem = format!("{} is none that this engine knows", asked.congestion_control);
            wrong.add(at.field("congestion_control"), problem);
            set.congestion_control
        }
    };
    set.no_delay = asked.no_delay;
    set.timestamps = !asked.no_timestamps;
    set.sack = !asked.no_sack;
    set.window_scale = !asked.no_window_scale;
    set.ecn = asked.ecn;
    set.blackhole = asked.blackhole;
    set
}

/// Whether a port's MTU has room for the segments of a side, with this many bytes of headers of IP and TCP, and this many that
/// are added by tunnels. Where the plan asks for no MSS, they are made to fit.
pub fn fit(
    at: &FieldPath,
    asked: Option<&contract::Tunables>,
    set: &mut Tunables,
    port: Option<&PortFacts>,
    (headers, tunnels): (u32, u32),
    wrong: &mut Violations,
) {
    let Some(port) = port else { return };
    let most = port.mtu.map_or(u32::MAX, |mtu| mtu.saturating_sub(headers + tunnels));
    if asked.is_none_or(|asked| asked.mss == 0) {
        set.mss = most.min(USUAL_MTU - headers) as u16;
        // Of a port that takes hardly anything.
        set.mss = set.mss.max(*MSS.start() as u16);
    }
    if u32::from(set.mss) > most {
        wrong.add(
            at.field("mss"),
            format!("{}; must be at most {most} on port {}, whose MTU leaves no room for more", set.mss, port.name),
        );
    }
}
