// SPDX-License-Identifier: Apache-2.0
//! Metrics: the counters of WatchStats, as a page that is encoded when it is requested, in the format that is requested.
mod accept;
mod by_tag;
mod exposition;
mod latency;
mod native;
mod outage;
mod receivers;
mod serve;
mod templates;

use crate::control::groups::Group;
use crate::control::runs::{Engine, Held};
use crate::control::stats;
use crate::version::version;
use contract::{RunState, StreamCounters, StreamStats};
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

const STATES: [(RunState, &str); 8] = [
    (RunState::Prepared, "prepared"),
    (RunState::Armed, "armed"),
    (RunState::WarmingUp, "warming_up"),
    (RunState::Running, "running"),
    (RunState::Paused, "paused"),
    (RunState::Draining, "draining"),
    (RunState::Complete, "complete"),
    (RunState::Stopped, "stopped"),
];

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
        let sides_left = self.templates(encoder)?;
        self.template_outages(encoder)?;
        self.ports(encoder)?;
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

/// The labels of a group of streams.
fn labels<'a>(held: &'a Held, facts: &'a Group) -> [(&'a str, &'a str); 6] {
    [
        ("profile_namespace", held.namespace.as_str()),
        ("profile", &held.profile),
        ("run", &held.name),
        ("stream", &facts.name),
        ("tx_port", &facts.tx_port),
        ("rx_port", &facts.rx_port),
    ]
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Name, help and value of each family.
type Values<T> = [(&'static str, &'static str, fn(&T) -> u64)];

impl Scrape {
    fn engine_info(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let dpdk = crate::datapath::Datapath::dpdk_version();
        let time = self.engine.time_source();
        let labels = [("version", version()), ("dpdk_version", dpdk.as_str()), ("time_source", time.as_str())];
        let mut family = encoder.family("spate_engine_info", "What the engine is", MetricType::Gauge)?;
        family.gauge(&labels, 1)
    }

    fn runs(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let help = "1 for the state a run is in";
        let mut family = encoder.family("spate_run_state", help, MetricType::Gauge)?;
        for held in &self.runs {
            let info = held.info(self.engine.now_ns());
            for (state, name) in STATES {
                let labels = [
                    ("profile_namespace", held.namespace.as_str()),
                    ("profile", &held.profile),
                    ("run", &held.name),
                    ("state", name),
                ];
                family.gauge(&labels, u64::from(info.state == i32::from(state)))?;
            }
        }
        Ok(())
    }

    /// Counters of streams by group: there are at most as many as a plan has groups, however many streams they are.
    fn streams(&self, encoder: &mut Encoder<'_>, read: &[Vec<StreamStats>]) -> fmt::Result {
        let values: &Values<StreamCounters> = &[
            ("spate_stream_tx_packets", "Packets sent", |c| c.tx_packets),
            ("spate_stream_tx_bytes", "Bytes sent, FCS included", |c| c.tx_bytes),
            ("spate_stream_tx_dropped_packets", "Packets that could not be sent", |c| c.tx_dropped),
            ("spate_stream_late_packets", "Packets that left later than they should have", |c| c.late),
            ("spate_stream_rx_packets", "Packets received, duplicates included", |c| c.rx_packets),
            ("spate_stream_rx_bytes", "Bytes received, FCS included", |c| c.rx_bytes),
            ("spate_stream_duplicate_packets", "Packets received before", |c| c.duplicates),
            ("spate_stream_out_of_order_packets", "Packets received after one sent later", |c| c.out_of_order),
            ("spate_stream_misdirected_packets", "Packets received on another port than expected", |c| c.misdirected),
            (
                "spate_stream_sequence_too_high_packets",
                "Packets whose sequence number was more than a window ahead of the expected one",
                |c| c.sequence_too_high,
            ),
            (
                "spate_stream_sequence_too_low_packets",
                "Packets whose sequence number was behind all that is remembered; out of order too",
                |c| c.sequence_too_low,
            ),
        ];
        for (name, help, value) in values {
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for (held, streams) in self.runs.iter().zip(read) {
                for (facts, counters) in held.groups().iter().zip(streams) {
                    for (phase, counters) in [("warmup", &counters.warmup), ("measured", &counters.measured)] {
                        let [namespace, profile, run, stream, tx_port, rx_port] = labels(held, facts);
                        let labels = [namespace, profile, run, stream, tx_port, rx_port, ("phase", phase)];
                        family.counter(&labels, counters.as_ref().map_or(0, value))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn ports(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let values: &Values<contract::PortStats> = &[
            ("spate_port_tx_packets", "Packets the device took", |p| p.tx_packets),
            ("spate_port_tx_bytes", "Bytes the device took, FCS included", |p| p.tx_bytes),
            ("spate_port_tx_dropped_packets", "Packets refused by the device or the kernel behind it", |p| {
                p.tx_dropped
            }),
            ("spate_port_rx_packets", "Packets received", |p| p.rx_packets),
            ("spate_port_rx_bytes", "Bytes received, FCS included", |p| p.rx_bytes),
            ("spate_port_rx_missed_packets", "Packets lost before they could be read", |p| p.rx_missed),
            ("spate_port_rx_errors", "Packets received broken", |p| p.rx_errors),
            ("spate_port_foreign_packets", "Packets without a trailer of any run", |p| p.foreign_packets),
            (
                "spate_port_other_mac_packets",
                "Of the foreign packets, those for another station's MAC: neither given to flows nor answered",
                |p| p.other_mac_packets,
            ),
            ("spate_port_reflected_packets", "Packets received and sent back", |p| p.reflected_packets),
            (
                "spate_port_not_reflected_packets",
                "Packets received on a port that sends back, and not sent back",
                |p| p.not_reflected_packets,
            ),
            (
                "spate_port_throttled_packets",
                "Packets that the generator's maximum rate delayed, each once, and reflected ones that it dropped",
                |p| p.throttled_packets,
            ),
            ("spate_port_tx_segmented_frames", "Frames that the device segmented", |p| p.tx_segmented_frames),
            ("spate_port_receive_waits", "Times nothing was read because the worker that counts was behind", |p| {
                p.receive_waits
            }),
            (
                "spate_port_unstamped_packets",
                "Measured packets without a time stamp of the device that was to stamp them: stamped by the CPU",
                |p| p.unstamped_packets,
            ),
        ];
        let stats = stats::ports(&self.engine);
        for (name, help, value) in values {
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for port in &stats {
                family.counter(&[("port", port.port.as_str())], value(port))?;
            }
        }
        let help = "The device's own counters (ethdev's extended statistics), by the name that its driver gives them";
        let mut own = encoder.family("spate_port_device_counter", help, MetricType::Counter)?;
        for (port, counters) in self.engine.datapath().device_counters() {
            for (name, value) in &counters {
                own.counter(&[("port", port), ("counter", name.as_str())], *value)?;
            }
        }
        let help = "Times that a neighbor of the port had another MAC address than before";
        let mut moves = encoder.family("spate_port_neighbor_moves", help, MetricType::Counter)?;
        for (port, count) in self.engine.datapath().neighbor_moves() {
            moves.counter(&[("port", port)], count)?;
        }
        let help = "Maximum error of the time stamps that the port's device gives packets it receives, where it does and this is known";
        let mut bounds = encoder.family("spate_port_timestamp_bound_seconds", help, MetricType::Gauge)?;
        for (port, bound_ns) in self.engine.datapath().stamp_bounds() {
            if let Some(bound_ns) = bound_ns {
                bounds.number(&[("port", port)], seconds(bound_ns))?;
            }
        }
        let mut up = encoder.family("spate_port_link_up", "1 while the port has a link", MetricType::Gauge)?;
        for port in &stats {
            up.gauge(&[("port", port.port.as_str())], u64::from(port.link_up))?;
        }
        let help = "Line rate of the port, where it is known";
        let mut rate = encoder.family("spate_port_line_rate_bits_per_second", help, MetricType::Gauge)?;
        for port in self.engine.ports() {
            if let Some(bps) = port.line_rate_bps {
                rate.gauge(&[("port", port.name.as_str())], bps)?;
            }
        }
        let queues: &Values<contract::QueueStats> = &[
            ("spate_queue_tx_packets", "Packets sent by the queue", |q| q.tx_packets),
            ("spate_queue_rx_packets", "Packets received by the queue", |q| q.rx_packets),
        ];
        for (name, help, value) in queues {
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for port in &stats {
                for queue in &port.queues {
                    let number = queue.queue.to_string();
                    family.counter(&[("port", port.port.as_str()), ("queue", &number)], value(queue))?;
                }
            }
        }
        Ok(())
    }

    fn workers(&self, encoder: &mut Encoder<'_>) -> fmt::Result {
        let stats: Vec<_> =
            stats::workers(&self.engine).into_iter().map(|w| (w.worker.to_string(), w.cpu.to_string(), w)).collect();
        let seconds: &Values<contract::WorkerStats> = &[
            ("spate_worker_busy_seconds", "Time spent with packets", |w| w.busy_ns),
            ("spate_worker_idle_seconds", "Time spent without", |w| w.idle_ns),
        ];
        for (name, help, value) in seconds {
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for (worker, cpu, w) in &stats {
                family.seconds(&[("worker", worker.as_str()), ("cpu", cpu)], value(w))?;
            }
        }
        let counts: &Values<contract::WorkerStats> = &[
            ("spate_worker_sleeps", "Times the worker slept since nothing was due", |w| w.sleeps),
            ("spate_worker_tx_packets", "Packets sent by the worker", |w| w.tx_packets),
            ("spate_worker_rx_packets", "Packets received by the worker", |w| w.rx_packets),
        ];
        for (name, help, value) in counts {
            let mut family = encoder.family(name, help, MetricType::Counter)?;
            for (worker, cpu, w) in &stats {
                family.counter(&[("worker", worker.as_str()), ("cpu", cpu)], value(w))?;
            }
        }
        Ok(())
    }
}

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
