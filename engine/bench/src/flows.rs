// SPDX-License-Identifier: Apache-2.0
//! One measurement of one case of flows, in a process of its own. At the maximum rate: flows that ended, and the CPU time of the
//! worker, which is client and server; or, for callgrind, a number of flows. Idle: memory for each end, and that all of
//! them still work, with packets lost on the way.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use spate_engine::control::runs::Held;
use spate_engine::datapath::{PollMode, PortDevice, TemplateCounters};
use spate_engine::index::PortIndex;
use spate_stateful::{COUNTERS, Count, random};

use crate::flow_cases::{self, Case, Kinds, idle_ns};
use crate::rig::{Cpus, Pages, Rig};

/// Before the measurement begins: caches are warm, and as many flows in TIME-WAIT as there will be.
const SETTLE: Duration = Duration::from_millis(1500);
/// Where packets are lost: one in this many.
const LOST_OF: u64 = 100;
/// What retransmissions may take after the last flow should have ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures one case of flows once and prints what came of it as JSON.
#[derive(Debug, clap::Args)]
pub struct Flows {
    /// Name of the case.
    #[arg(long)]
    pub case: String,
    #[arg(long, value_enum, default_value = "huge")]
    pub pages: Pages,
    #[command(flatten)]
    pub cpus: Cpus,
    /// Duration in milliseconds.
    #[arg(long, default_value_t = 1000)]
    pub milliseconds: u64,
    /// Number of flows instead of a time, with a worker that sleeps when it has nothing to do.
    #[arg(long)]
    pub flows: Option<u64>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub struct Ended {
    /// Flows that ended.
    pub flows: u64,
    /// Packets, of both sides.
    pub packets: u64,
    /// Data bytes that clients received.
    pub bytes: u64,
    /// CPU time of the worker's thread.
    pub cpu_ns: u64,
    /// Idle: memory for each end.
    pub bytes_per_end: f64,
}

/// What one side of the template has counted.
fn count(held: &Held, client: bool, count: Count) -> u64 {
    let sides = held.run().template_counters();
    sides.iter().filter(|side| side.client == client).map(|side| side.get(count)).sum()
}

impl Flows {
    pub fn execute(self) -> anyhow::Result<()> {
        let case =
            flow_cases::find(&self.case).with_context(|| format!("--case {}: there is no such case", self.case))?;
        let poll = if self.flows.is_some() { PollMode::Adaptive } else { PollMode::Busy };
        let rig = Rig::open(PortDevice::Loopback, self.pages, self.cpus, poll)?;
        let ended = match case.kind {
            Kinds::Idle { connections, bytes } => idle(&rig, case, connections, bytes)?,
            _ => self.flat_out(&rig, case)?,
        };
        println!("{}", serde_json::to_string(&ended)?);
        Ok(())
    }

    fn flat_out(&self, rig: &Rig, case: &Case) -> anyhow::Result<Ended> {
        let held = rig.start(&case.plan(self.flows.unwrap_or(0)))?;
        let now = || Ended {
            flows: count(&held, true, Count::FlowsClosed),
            packets: rig.packets().0,
            bytes: count(&held, true, Count::ReceivedDataBytes) + count(&held, true, Count::MessageBytesReceived),
            cpu_ns: rig.cpu_ns(),
            ..Ended::default()
        };
        let (before, after) = match self.flows {
            None => {
                std::thread::sleep(SETTLE);
                let before = now();
                std::thread::sleep(Duration::from_millis(self.milliseconds));
                (before, now())
            }
            Some(flows) => {
                while count(&held, true, Count::FlowsClosed) < flows {
                    std::thread::sleep(Duration::from_millis(1));
                }
                (Ended::default(), now())
            }
        };
        rig.stop(&held)?;
        check(&held, case)?;
        if self.flows.is_some() {
            // Callgrind counts to the end.
            return Ok(now());
        }
        Ok(Ended {
            flows: after.flows - before.flows,
            packets: after.packets - before.packets,
            bytes: after.bytes - before.bytes,
            cpu_ns: after.cpu_ns - before.cpu_ns,
            ..Ended::default()
        })
    }
}

/// Checks that nothing failed, and that the identities of counters hold.
fn check(held: &Held, case: &Case) -> anyhow::Result<()> {
    let wrong = held.run().contradictions();
    ensure!(wrong.is_empty(), "{}: {}", case.name, wrong.join("; "));
    for client in [true, false] {
        for failure in [Count::ConnectDrops, Count::TimeoutDrops, Count::FlowsExhausted, Count::FlowsAborted] {
            let side = if client { "clients" } else { "servers" };
            let failed = count(held, client, failure);
            ensure!(failed == 0, "{}: {side} counted {failed} of {failure:?}; {}", case.name, summary(held));
        }
    }
    Ok(())
}

/// All that both sides have counted.
pub fn summary(held: &Held) -> String {
    let side = |side: &TemplateCounters| {
        let counts = COUNTERS.iter().zip(&side.counts).filter(|(_, count)| **count > 0);
        let named: Vec<_> = counts.map(|((name, ..), count)| format!("{name} {count}")).collect();
        format!("{}: {}", if side.client { "clients" } else { "servers" }, named.join(", "))
    };
    held.run().template_counters().iter().map(side).collect::<Vec<_>>().join("; ")
}

/// Resident memory of this process in bytes.
pub fn resident() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split_whitespace().nth(1).context("statm has a second number")?.parse()?;
    Ok(pages * 4096)
}

/// Makes the loopback lose one packet of `LOST_OF`. Which ones follows from the seed and their numbers alone. That one was lost is
/// independent of the next: a flow of which the network loses every packet would take all its timeouts.
pub fn lose(rig: &Rig, seed: u64) {
    let of = random::mix(seed);
    let seen = AtomicU64::new(0);
    rig.engine().datapath().disturb(
        PortIndex(0),
        Box::new(move |packets| {
            let lost = |_: &usize| {
                let n = seen.fetch_add(1, Ordering::Relaxed);
                random::below(random::nth(of, n), LOST_OF) == 0
            };
            (0..packets.len()).filter(|index| !lost(index)).collect()
        }),
    );
}

fn idle(rig: &Rig, case: &Case, connections: u64, bytes: u64) -> anyhow::Result<Ended> {
    let before = resident()?;
    lose(rig, 0);
    let held = rig.start(&case.plan(0))?;
    let open = Duration::from_nanos(idle_ns(connections));
    let since = Instant::now();
    let opened = || held.run().template_counters().iter().map(|side| side.open).min().unwrap_or(0);
    let mut most = 0;
    while opened() < connections {
        most = most.max(opened());
        ensure!(since.elapsed() < open, "{}: {most} of {connections} connections were open at once", case.name);
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = resident()?;
    let ends = open + Duration::from_nanos(connections * 1_000_000_000 / flow_cases::OPENINGS) + PATIENCE;
    while count(&held, true, Count::FlowsClosed) < connections || count(&held, false, Count::FlowsClosed) < connections
    {
        ensure!(
            since.elapsed() < ends,
            "{}: {} of {connections} connections have ended",
            case.name,
            count(&held, true, Count::FlowsClosed)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let received = count(&held, true, Count::ReceivedDataBytes);
    ensure!(received == connections * bytes, "{}: clients received {received} bytes", case.name);
    ensure!(count(&held, true, Count::RetransmittedPackets) > 0, "{}: nothing was lost", case.name);
    rig.stop(&held)?;
    check(&held, case)?;
    Ok(Ended {
        flows: connections,
        packets: rig.packets().0,
        bytes: received,
        cpu_ns: rig.cpu_ns(),
        bytes_per_end: (after.saturating_sub(before)) as f64 / (2 * connections) as f64,
    })
}
