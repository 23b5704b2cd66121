// SPDX-License-Identifier: Apache-2.0
//! `spate-engine receive`: statistics of whatever arrives on ports, until a signal ends it.
use super::site::Site;
use crate::control::receivers;
use crate::control::runs::{Engine, Held};
use crate::control::stats::{self, Grouping};
use crate::plan::decode;
use contract::{Moments, Plan, Receiver, ReceiverStats, Timing};
use prost::Message;
use prost::bytes::Bytes;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

const RUN: &str = "receive";
/// Time from the decision to start until the start.
const START_LEAD_NS: u64 = 50_000_000;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Rates are those of the interval, all else is since the start or the last SIGUSR1, which resets the \
    statistics. Inter-arrival times are those of each worker's own packets, and 0 between packets that were read together. Latency is taken of packets of the kernel's pktgen and of \
    other engines, if --clock-bound says that the clocks agree.\n\n\
    With --format script every line is: SECONDS PORT WORKER PACKETS BYTES PPS BPS, where WORKER is a number or `total`. The \
    line of the total goes on with count, mean, variance, least and greatest, in ns and ns^2, of inter-arrival time, then of \
    jitter, then of latency.\n\n\
    Exit codes: 0 done; 1 failed; 2 wrong usage.\n\nExamples:\n  \
    spate-engine receive --port east=kernel:eth1\n  \
    spate-engine receive --port east=pci:0000:01:00.1 --workers 4 --interval 5s --format script\n  \
    spate-engine receive --port east=kernel:eth1 --duration 10s --clock-bound 1us"
)]
pub struct Receive {
    #[command(flatten)]
    site: Site,
    /// How often statistics are printed, such as 500ms, 1s or 1m.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// End after this time; without it, when a signal says so.
    #[arg(long, value_name = "TIME", value_parser = time)]
    duration: Option<Duration>,
    /// The clocks of senders agree with this machine's to this bound, such as 1us.
    #[arg(long, value_name = "TIME", value_parser = time)]
    clock_bound: Option<Duration>,
    /// For people, or one line a port and worker for scripts.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Human,
    Script,
}

impl Receive {
    /// Receives and prints.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let engine = Engine::new(self.site.open()?);
        let receiver = |port: &crate::datapath::PortInfo| Receiver { name: port.name.clone(), port: port.name.clone() };
        let plan = Plan {
            run_id: RUN.into(),
            run_tag: 1,
            timing: Some(Timing { duration_ns: self.duration.map_or(0, |d| d.as_nanos() as u64), ..Timing::default() }),
            receivers: engine.ports().iter().map(receiver).collect(),
            clock_bound_ns: self.clock_bound.map_or(0, |bound| bound.as_nanos() as u64),
            ..Plan::default()
        };
        let bytes = Bytes::from(plan.encode_to_vec());
        let (held, _) = engine.prepare(RUN, bytes, decode::Format::Binary)?;
        engine.start(&held, engine.now_ns() + START_LEAD_NS)?;
        let done = super::event_loop()?.block_on(self.follow(&engine, &held));
        engine.remove(RUN);
        drop(held);
        engine.close();
        done?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints at every interval until the run has ended, and once more then.
    async fn follow(&self, engine: &Engine, held: &Held) -> anyhow::Result<()> {
        let mut end = Box::pin(super::serve::end_signal());
        let mut reset_signal = signal(SignalKind::user_defined1())?;
        let mut stopping = false;
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + self.interval, self.interval);
        let mut looks = tokio::time::interval(Duration::from_millis(20));
        let mut last = stats::read(engine, held, Grouping::ByGroup);
        loop {
            let ended = held.has_ended();
            let due = tokio::select! {
                signal = &mut end, if !stopping => {
                    stopping = true;
                    held.run().stop(&format!("{} was received", signal?));
                    false
                }
                _ = reset_signal.recv() => {
                    receivers::reset(held, &[])?;
                    false
                }
                _ = ticks.tick() => true,
                _ = looks.tick() => false,
            };
            if due || ended {
                let now = stats::read(engine, held, Grouping::ByGroup);
                let seconds = (now.read_at_ns - last.read_at_ns) as f64 / 1e9;
                let since = held.run().elapsed_ns() as f64 / 1e9;
                let mut text = String::new();
                for (receiver, before) in now.receivers.iter().zip(&last.receivers) {
                    text += &match self.format {
                        Format::Human => format!("{since:.1} s  ") + &human(receiver, Some((before, seconds))),
                        Format::Script => script(receiver, before, since, seconds),
                    };
                }
                // The reader may have closed the pipe.
                if std::io::stdout().write_all(text.as_bytes()).is_err() {
                    held.run().stop("no reader is left of what is printed");
                    return Ok(());
                }
                last = now;
            }
            if ended {
                return Ok(());
            }
        }
    }
}

/// Packets and bits a second between two readings. Bits are those of frames with FCS.
fn rates(packets: (u64, u64), bytes: (u64, u64), seconds: f64) -> (f64, f64) {
    let rate =
        |(now, before): (u64, u64)| if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 };
    (rate(packets), 8.0 * rate(bytes))
}

/// (name, packets, bytes, packets a second, bits a second) of each worker and in total.
fn rows(now: &ReceiverStats, before: &ReceiverStats, seconds: f64) -> Vec<(String, u64, u64, f64, f64)> {
    let row = |name: String, packets: (u64, u64), bytes: (u64, u64)| {
        let (pps, bps) = rates(packets, bytes, seconds);
        (name, packets.0, bytes.0, pps, bps)
    };
    let workers = now.workers.iter().zip(&before.workers);
    let mut rows: Vec<_> = workers
        .map(|(now, before)| row(now.worker.to_string(), (now.packets, before.packets), (now.bytes, before.bytes)))
        .collect();
    rows.push(row("total".into(), (now.packets, before.packets), (now.bytes, before.bytes)));
    rows
}

/// A receiver for people; with rates since another reading, `seconds` ago.
pub fn human(now: &ReceiverStats, before: Option<(&ReceiverStats, f64)>) -> String {
    let mut text = format!("receiver {}\n", now.name);
    let (before, seconds) = before.unwrap_or((now, 0.0));
    text += &format!("  {:<14} {:>16} {:>20} {:>14} {:>18}\n", "WORKER", "PACKETS", "BYTES", "PPS", "BPS");
    for (name, packets, bytes, pps, bps) in rows(now, before, seconds) {
        text += &format!("  {name:<14} {packets:>16} {bytes:>20} {pps:>14.0} {bps:>18.0}\n");
    }
    if now.packets > 1 {
        text += &format!(
            "  {:<14} {:>16} {:>20} {:>14} {:>18} {:>14}\n",
            "TIMES (us)", "COUNT", "MEAN", "DEVIATION", "MIN", "MAX"
        );
    }
    for (name, moments) in times(now) {
        let Some(m) = moments.filter(|m| m.count > 0) else { continue };
        text += &format!(
            "  {name:<14} {:>16} {:>20.3} {:>14.3} {:>18.3} {:>14.3}\n",
            m.count,
            m.mean_ns / 1e3,
            m.variance_ns2.sqrt() / 1e3,
            m.min_ns as f64 / 1e3,
            m.max_ns as f64 / 1e3,
        );
    }
    text
}

fn script(now: &ReceiverStats, before: &ReceiverStats, since: f64, seconds: f64) -> String {
    let mut text = String::new();
    for (name, packets, bytes, pps, bps) in rows(now, before, seconds) {
        text += &format!("{since:.3} {} {name} {packets} {bytes} {pps:.0} {bps:.0}", now.name);
        if name == "total" {
            for (_, moments) in times(now) {
                let m = moments.copied().unwrap_or_default();
                text += &format!(" {} {:.1} {:.1} {} {}", m.count, m.mean_ns, m.variance_ns2, m.min_ns, m.max_ns);
            }
        }
        text.push('\n');
    }
    text
}

fn times(stats: &ReceiverStats) -> [(&'static str, Option<&Moments>); 3] {
    [
        ("inter-arrival", stats.inter_arrival.as_ref()),
        ("jitter", stats.jitter.as_ref()),
        ("latency", stats.latency.as_ref()),
    ]
}

fn interval(text: &str) -> Result<Duration, String> {
    time(text).and_then(|time| match time {
        time if time < Duration::from_millis(10) => Err("must be at least 10ms".into()),
        time => Ok(time),
    })
}

/// A whole number with a unit.
fn time(text: &str) -> Result<Duration, String> {
    let usage = "must be a whole number with ns, us, ms, s, m or h, greater than 0 and at most a year, such as 500ms";
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let ns: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return Err(usage.into()),
    };
    let ns = number.parse::<u64>().ok().and_then(|number| number.checked_mul(ns)).ok_or(usage)?;
    if ns == 0 || ns > 365 * 86_400 * 1_000_000_000 {
        return Err(usage.into());
    }
    Ok(Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::WorkerReceived;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7200)));
        for wrong in ["", "1", "s", "0s", "-1s", "1.5s", "1 s", "99999999999999999999s", "9000h0", "10000h", "1é"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        assert!(interval("9ms").is_err());
    }

    #[test]
    fn a_script_reads_one_line_a_worker_and_one_in_total() {
        let stats = |packets| ReceiverStats {
            name: "east".into(),
            packets,
            bytes: packets * 64,
            workers: vec![WorkerReceived { worker: 3, packets, bytes: packets * 64, ..WorkerReceived::default() }],
            inter_arrival: Some(Moments { count: 9, mean_ns: 1000.04, variance_ns2: 2.5, min_ns: 1, max_ns: 2000 }),
            ..ReceiverStats::default()
        };
        assert_eq!(
            script(&stats(300), &stats(100), 7.0, 2.0),
            "7.000 east 3 300 19200 100 51200\n\
             7.000 east total 300 19200 100 51200 9 1000.0 2.5 1 2000 0 0.0 0.0 0 0 0 0.0 0.0 0 0\n"
        );
        let human = human(&stats(300), Some((&stats(100), 2.0)));
        assert!(human.contains("inter-arrival") && !human.contains("latency"), "{human}");
    }
}
