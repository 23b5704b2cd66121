// SPDX-License-Identifier: Apache-2.0
//! Stages of runs are advanced: changes of rates are sent ahead, counters are read when a stage ends.
use super::Stages;
use crate::control::runs::{Engine, Held};
use crate::control::stats::{self, Grouping};
use crate::control::status::Refusal;
use crate::lock::lock;
use contract::{Selector, update_request::Change};
use std::time::Duration;

/// How often runs are looked at where nothing is due.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Workers receive a change this long before its instant.
const LEAD_NS: i64 = 250_000_000;

impl Stages {
    /// Does what is due. Returns in how many nanoseconds to do so again.
    fn advance(&self, engine: &Engine, held: &Held) -> Option<u64> {
        let mut progress = lock(&self.progress);
        if held.has_ended() {
            return None;
        }
        let now = held.run().run_time_ns()?;
        let until = |at_ns: u64, lead: i64| at_ns.cast_signed() - lead - now;
        while let Some(step) = self.schedule.steps.get(progress.steps).filter(|step| until(step.at_ns, LEAD_NS) <= 0) {
            let at_ns = held.run().wall_of(step.at_ns)?;
            match engine.update(held, &Selector::default(), &Change::RateFactor(step.factor), at_ns) {
                Ok(_) => progress.steps += 1,
                Err(Refusal::State(_)) => return None, // its transmission has ended
                Err(refusal) => {
                    held.run().stop(&format!("a stage's rates cannot be set: {refusal}"));
                    return None;
                }
            }
        }
        let stage = progress.ends.len();
        let (end_ns, settled_ns) = (self.schedule.ends_ns[stage], self.settled_ns(stage));
        let last = stage + 1 == self.schedule.ends_ns.len();
        if !last && progress.settled.is_none() && until(settled_ns, 0) <= 0 {
            let streams = stats::streams(held, held.groups());
            let sent = |s: &contract::StreamStats| s.measured.as_ref().map_or(0, |measured| measured.tx_packets);
            progress.settled = Some(streams.iter().map(sent).collect());
        }
        if !last && until(end_ns, 0) <= 0 {
            let mut counters = stats::read(engine, held, Grouping::ByGroup);
            for (stream, settled) in counters.streams.iter_mut().zip(progress.settled.take().unwrap_or_default()) {
                if let Some(measured) = &mut stream.measured {
                    measured.settled_tx_packets = settled;
                }
            }
            progress.ends.push(counters);
            return Some(0);
        }
        let step = self.schedule.steps.get(progress.steps).map(|step| until(step.at_ns, LEAD_NS));
        let settle = (!last && progress.settled.is_none()).then(|| until(settled_ns, 0));
        let end = (!last).then(|| until(end_ns, 0));
        [step, settle, end].into_iter().flatten().min().map(|ns| ns.max(0).cast_unsigned())
    }
}

/// Advances the stages of all runs of an engine, for ever.
pub async fn conduct(engine: &Engine) {
    loop {
        tokio::time::sleep(advance(engine)).await;
    }
}

/// Does what is due of the stages of all runs. Returns when to do so again.
pub fn advance(engine: &Engine) -> Duration {
    let all = engine.all();
    let due = all.iter().filter_map(|held| held.stages()?.advance(engine, held));
    due.map(Duration::from_nanos).fold(POLL_INTERVAL, Duration::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::runs::tests::engine;
    use crate::plan::decode::Format;
    use contract::{StreamCounters, WatchStatsResponse};
    use std::time::Instant;

    /// A stream of 20,000 packets a second on a loopback port.
    const PLAN: &str = r#"{"runId": "r", "runTag": 7, "timing": {"durationNs": 1500000000, "drainNs": 20000000, "stages": [
        {"durationNs": 500000000, "rateFactor": {"numerator": 1, "denominator": 2}},
        {"durationNs": 600000000, "rampNs": 200000000, "rateFactor": {"numerator": 1, "denominator": 1}},
        {"durationNs": 400000000, "rateFactor": {"numerator": 1, "denominator": 4}}
    ]}, "streams": [{
        "name": "s", "id": 0, "txPort": "l", "rxPort": "l", "packet": {"frame": "AgAAAAABAgAAAAAACABFAAAyAAAAAEARAAAKAAABCgAAAgABAAIAHgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="},
        "continuous": {"rate": {"packetsPerSecond": {"numerator": 20000, "denominator": 1}}}, "measure": {"flow": true, "latency": true}
    }]}"#;

    fn measured(counters: &WatchStatsResponse) -> StreamCounters {
        counters.streams[0].measured.clone().unwrap()
    }

    #[test]
    fn rates_are_exact_and_counters_are_kept_at_the_end_of_each_stage() {
        let engine = engine();
        let (held, _) = engine.prepare("r", PLAN.into(), Format::Auto).unwrap();
        let stages = held.stages().unwrap();
        assert_eq!(stages.end(1).unwrap_err().to_string(), "stage 1 has not ended");
        assert!(stages.end(3).unwrap_err().to_string().starts_with("stage_end: 3; the run has 3 stages"));
        engine.start(&held, engine.now_ns() + 300_000_000).unwrap();
        let started = Instant::now();
        while !held.has_ended() {
            assert!(started.elapsed() < Duration::from_secs(10), "{:?}", held.run().state());
            std::thread::sleep(advance(&engine).min(Duration::from_millis(5)));
        }
        let whole = measured(&stats::read(&engine, &held, Grouping::ByGroup));
        let (first, second) = (measured(&stages.end(1).unwrap()), measured(&stages.end(2).unwrap()));
        // 0.5 s at 10,000, a ramp of 0.2 s to 20,000, 0.4 s there, 0.4 s at 5,000.
        assert_eq!((whole.tx_packets, whole.rx_packets, whole.missing), (5000 + 3000 + 8000 + 2000, 18_000, 0));
        let latencies = |counters: &StreamCounters| -> u64 {
            counters.latency.as_ref().unwrap().distribution.as_ref().unwrap().counts.iter().sum()
        };
        assert_eq!(latencies(&whole), 18_000);
        let near = |counted: u64, expected: u64| counted.abs_diff(expected) < expected / 5;
        assert!(near(first.tx_packets, 5000) && near(second.tx_packets, 16_000), "{first:?}\n{second:?}");
        for end in [first, second] {
            assert!(end.settled_tx_packets > 0 && end.settled_tx_packets <= end.tx_packets, "{end:?}");
            // The distribution is read last, while packets arrive.
            assert!((end.rx_packets..=whole.rx_packets).contains(&latencies(&end)), "{end:?}");
        }
        engine.remove("r");
        engine.close();
    }
}
