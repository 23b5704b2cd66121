// SPDX-License-Identifier: Apache-2.0
//! Metrics: the counters of WatchStats, as a page that is encoded when it is requested, in the format that is requested.
mod accept;
mod by_tag;
mod clients;
mod exposition;
mod latency;
mod native;
mod outage;
mod ports;
mod receivers;
mod routing;
mod runs;
mod serve;
mod streams;
mod templates;
mod workers;

use crate::control::runs::{Engine, Held};
use crate::control::stats;
use contract::StreamStats;
use exposition::Encoder;
use hyper::body::Bytes;
use native::Native;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

pub use accept::Format;
pub use exposition::protobuf;
pub use serve::serve;

/// Streams, or groups of streams that are counted as one, that a page has at most, of all runs together.
const MAX_STREAMS: usize = 5_000;
/// Tags that a page has at most, of all streams together.
const MAX_TAGS: usize = 10_000;
/// Sides of templates that a page has at most, of all runs together.
const MAX_SIDES: usize = 1_000;

/// All metrics as they were at one time.
#[derive(Debug)]
pub struct Page {
    /// Them in its format.
    pub body: Bytes,
    format: Format,
    /// Runs that had ended before: their counters in it are final.
    ended: Vec<Weak<Held>>,
}

impl Page {
    /// Takes note that the page was sent: the runs that had ended have been scraped.
    fn note_scraped(&self) {
        self.ended.iter().filter_map(Weak::upgrade).for_each(|held| held.note_scraped());
    }
}

/// Encodes all metrics, in either format by the same source (`Scrape::write`). With thousands of streams this takes long: it is not for the thread of control.
pub fn page(engine: &Arc<Engine>, format: Format) -> Result<Page, fmt::Error> {
    let runs = engine.all();
    // A run that another one hides has no scrape to wait for.
    let ended = runs.iter().filter(|held| held.has_ended()).map(Arc::downgrade).collect();
    let scrape = Scrape { engine: engine.clone(), runs: shown(runs) };
    let body = match format {
        Format::OpenMetrics => {
            let mut registry = Registry::default();
            registry.register_collector(Box::new(scrape));
            let mut text = String::new();
            encode(&mut text, &registry)?;
            text.into()
        }
        Format::Protobuf => {
            let mut writer = protobuf::Writer::default();
            scrape.write(&mut Encoder::Protobuf(&mut writer))?;
            writer.finish()?.into()
        }
    };
    Ok(Page { body, format, ended })
}

/// The runs on a page: of runs with the same labels only the one prepared last, so that a page has each series once.
fn shown(runs: Vec<Arc<Held>>) -> Vec<Arc<Held>> {
    let mut shown: BTreeMap<_, Arc<Held>> = BTreeMap::new();
    for held in runs {
        let labels = (held.namespace.clone(), held.profile.clone(), held.name.clone());
        if shown.get(&labels).is_none_or(|other| other.prepared < held.prepared) {
            shown.insert(labels, held);
        }
    }
    shown.into_values().collect()
}

/// A scrape, with the runs that existed when it began.
#[derive(Clone)]
struct Scrape {
    engine: Arc<Engine>,
    runs: Vec<Arc<Held>>,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scrape of {} runs", self.runs.len())
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.write(&mut Encoder::Text(encoder))
    }
}

/// Counters of a run's groups of streams, and histograms of their delays: none without delays, nor in a page without native histograms.
type Read = (Vec<StreamStats>, Vec<Option<Native>>);

impl Scrape {
    fn write(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        self.engine_info(encoder)?;
        self.runs(encoder)?;
        // Runs with more groups than there is room for have shorter statistics than lists of groups: the rest is in no family.
        let sizes: Vec<_> = self.runs.iter().map(|held| (held.has_ended(), held.groups().len())).collect();
        let rooms = rooms(&sizes, MAX_STREAMS);
        let has_native = encoder.has_native_histograms();
        let read = |(held, &room): (&Arc<Held>, &usize)| -> Read {
            let native = |(stats, delays): (_, Option<spate_stats::Distribution>)| {
                (stats, delays.filter(|_| has_native).map(|d| Native::of(&d)))
            };
            stats::with_delays(held, &held.groups()[..room]).map(native).unzip()
        };
        let (streams, delays): (Vec<_>, Vec<_>) = self.runs.iter().zip(&rooms).map(read).unzip();
        let streams_left: usize = sizes.iter().zip(&rooms).map(|((_, size), room)| size - room).sum();
        self.streams(encoder, &streams)?;
        self.delays(encoder, &streams, &delays)?;
        self.stream_outages(encoder, &streams)?;
        let tags_left = self.by_tag(encoder, &streams)?;
        self.receivers(encoder)?;
        self.clients(encoder)?;
        let sides_left = self.templates(encoder)?;
        self.template_outages(encoder)?;
        self.ports(encoder)?;
        self.routing(encoder)?;
        self.workers(encoder)?;
        omitted(encoder, [("streams", streams_left), ("tags", tags_left), ("template_sides", sides_left)])
    }
}

/// Writes what is omitted from the page.
fn omitted(encoder: &mut Encoder<'_>, counts: [(&str, usize); 3]) -> fmt::Result {
    let help = "Streams, their VLAN tags, and sides of templates that are omitted because the page is full";
    let mut family = encoder.family("spate_engine_left_out", help, MetricType::Gauge)?;
    counts.into_iter().try_for_each(|(what, count)| family.gauge(&[("what", what)], count as u64))
}

/// How many of its groups each run has on a page with a number of places: of runs with (whether it has ended, number of its groups). Those that
/// have not ended have theirs first.
fn rooms(runs: &[(bool, usize)], mut places: usize) -> Vec<usize> {
    let mut rooms = vec![0; runs.len()];
    for of_ended in [false, true] {
        for (room, (ended, size)) in rooms.iter_mut().zip(runs) {
            if *ended == of_ended {
                *room = places.min(*size);
                places -= *room;
            }
        }
    }
    rooms
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Name, help and value of each family.
type Values<T> = [(&'static str, &'static str, fn(&T) -> u64)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_runs_that_have_not_ended_come_first() {
        assert!(rooms(&[], 9).is_empty());
        assert_eq!(rooms(&[(true, 4), (false, 5)], 9), [4, 5]);
        assert_eq!(rooms(&[(true, 4), (false, 8), (true, 3), (false, 2)], 12), [2, 8, 0, 2]);
        assert_eq!(rooms(&[(false, 8), (false, 8)], 12), [8, 4]);
    }
}
