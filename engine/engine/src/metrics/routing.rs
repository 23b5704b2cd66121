// SPDX-License-Identifier: Apache-2.0
//! Metrics of ports as routers, by session.
use super::{Encoder, Scrape};
use crate::control::routing::{Known, Routing};
use prometheus_client::metrics::MetricType;
use std::fmt;

/// The labels of a session.
fn labels(known: &Known) -> [(&str, &str); 3] {
    let session = &known.session;
    [("port", session.port.as_str()), ("protocol", session.kind.name()), ("session", session.name.as_str())]
}

impl Scrape {
    /// Sessions of routing protocols; families of an engine without routers are empty.
    pub(super) fn routing(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let sessions = self.engine.routing().map(Routing::sessions).unwrap_or_default();
        let help = "1 while the session of a routing protocol is up";
        let mut up = encoder.family("spate_routing_session_up", help, MetricType::Gauge)?;
        for known in &sessions {
            up.gauge(&labels(known), u64::from(known.session.up))?;
        }
        let help = "Times that the session was up and then down";
        let mut flaps = encoder.family("spate_routing_session_flaps", help, MetricType::Counter)?;
        for known in &sessions {
            flaps.counter(&labels(known), known.totals.flaps)?;
        }
        let help = "Routes that runs have the session advertise, that neighbors were sent, and that they have sent, without those withdrawn";
        let mut routes = encoder.family("spate_routing_routes", help, MetricType::Gauge)?;
        for known in &sessions {
            let of_session =
                [("configured", known.configured), ("sent", known.session.sent), ("received", known.session.received)];
            for (kind, count) in of_session {
                let [port, protocol, session] = labels(known);
                routes.gauge(&[port, protocol, session, ("kind", kind)], count)?;
            }
        }
        let help = "Announcements and withdrawals of routes, by direction";
        let mut updates = encoder.family("spate_routing_updates", help, MetricType::Counter)?;
        for known in &sessions {
            let totals = known.totals;
            for (direction, count) in [("sent", totals.updates_sent), ("received", totals.updates_received)] {
                let [port, protocol, session] = labels(known);
                updates.counter(&[port, protocol, session, ("direction", direction)], count)?;
            }
        }
        Ok(())
    }
}
