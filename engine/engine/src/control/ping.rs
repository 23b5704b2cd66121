// SPDX-License-Identifier: Apache-2.0
//! Pings in the messages of the contract: a request to what a port sends, and what becomes of each echo request to answers.
use super::runs::Engine;
use super::status::Refusal;
use crate::datapath::NotPinged;
use crate::plan::Violations;
use contract::{EchoReply, IcmpError, NoReply, PingRequest, PingResponse, PingStarted, ping_response::Event};
use spate_neighbour::{MAX_TIMEOUT_NS, MIN_INTERVAL_NS, Ping, PingError, PingEvent, SIZES, mac_text};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

/// What a request that says nothing means: as ping(8).
const INTERVAL_NS: u64 = 1_000_000_000;
const TIMEOUT_NS: u64 = 1_000_000_000;
const SIZE: u64 = 56;
const HOP_LIMIT: u64 = 64;
/// An hour between two requests is none to wait for.
const MAX_INTERVAL_NS: u64 = 3_600_000_000_000;

/// Begins a ping. It ends when the caller ends it, after `count` requests, or with the engine.
pub fn start(
    engine: &Engine,
    request: &PingRequest,
) -> Result<impl Stream<Item = Result<PingResponse, Status>> + use<>, Refusal> {
    let mut wrong = Violations::default();
    let port = engine.port_named("port", &request.port, &mut wrong);
    let mut address = |field: &'static str, text: &str| {
        let parsed = text.parse::<IpAddr>();
        if parsed.is_err() {
            wrong.add(field, format!("{text:?} is no IPv4 or IPv6 address"));
        }
        parsed.ok()
    };
    let to = address("destination", &request.destination);
    let from = if request.source.is_empty() { None } else { address("source", &request.source) };
    let mut within = |field: &'static str, asked: u64, default: u64, range: RangeInclusive<u64>| {
        let value = if asked == 0 { default } else { asked };
        if !range.contains(&value) {
            wrong.add(field, format!("{value}; must be {}..{}, or 0 for {default}", range.start(), range.end()));
        }
        value
    };
    let interval_ns = within("interval_ns", request.interval_ns, INTERVAL_NS, MIN_INTERVAL_NS..=MAX_INTERVAL_NS);
    let timeout_ns = within("timeout_ns", request.timeout_ns, TIMEOUT_NS, 1_000_000..=MAX_TIMEOUT_NS);
    let size = within("size", request.size.into(), SIZE, u64::from(*SIZES.start())..=u64::from(*SIZES.end()));
    let hop_limit = within("hop_limit", request.hop_limit.into(), HOP_LIMIT, 1..=255);
    let (Some(port), Some(to)) = (port, to) else { return Err(Refusal::Invalid(wrong)) };
    wrong.or(())?;
    let ping =
        Ping { to, from, count: request.count, interval_ns, timeout_ns, size: size as u16, hop_limit: hop_limit as u8 };
    let events = engine.datapath().ping(port, ping).map_err(|error| refused(&request.port, &error))?;
    let (events, end) = (ReceiverStream::new(events).map(Some), tokio_stream::once(None));
    Ok(events.chain(end).map_while(|event| match event {
        Some(event) => answer(event),
        // The last event says that it is the last, and ends the stream before.
        None => Some(Err(Status::data_loss(
            "the ping ended early: results were read too slowly, or the engine is shutting down",
        ))),
    }))
}

fn refused(port: &str, error: &NotPinged) -> Refusal {
    match error {
        NotPinged::Refused(error) => match error {
            PingError::NotOwn(..) | PingError::StaysOnLink(..) => Refusal::field("source", error.to_string()),
            PingError::NoStation(_) | PingError::Own(_) => Refusal::field("destination", error.to_string()),
            PingError::TooMany => Refusal::Exhausted(format!("port {port}: {error}")),
            PingError::NoRoute(_) => Refusal::State(format!("port {port}: {error}")),
        },
        NotPinged::NoAddress(error) => Refusal::State(error.to_string()),
    }
}

fn answer(event: PingEvent) -> Option<Result<PingResponse, Status>> {
    let (sequence, event) = match event {
        PingEvent::Started(from, mac) => {
            (0, Event::Started(PingStarted { source: from.to_string(), next_hop_mac: mac_text(mac) }))
        }
        PingEvent::NoNextHop(problem) => return Some(Err(Status::failed_precondition(problem))),
        PingEvent::Reply { sequence, round_trip_ns, hop_limit, corrupt } => {
            (sequence, Event::Reply(EchoReply { round_trip_ns, hop_limit: hop_limit.into(), corrupt }))
        }
        PingEvent::Error { sequence, from, kind, code } => {
            (sequence, Event::Error(IcmpError { source: from.to_string(), r#type: kind.into(), code: code.into() }))
        }
        PingEvent::Timeout { sequence } => (sequence, Event::NoReply(NoReply {})),
        PingEvent::Over => return None,
    };
    Some(Ok(PingResponse { sequence, event: Some(event) }))
}
