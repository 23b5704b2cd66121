// SPDX-License-Identifier: Apache-2.0
//! Receivers of a run: what they measured of foreign traffic, and the reset of their statistics.
use super::runs::Held;
use super::status::Refusal;
use crate::datapath::{self, Received};
use crate::index::{ReceiverIndex, WorkerIndex};
use crate::plan::Violations;
use contract::{Moments, ReceiverStats, WorkerReceived};
use spate_stateful::FieldPath;

/// What a run's receivers measured, in the plan's order.
pub fn stats(held: &Held) -> Vec<ReceiverStats> {
    let stats = |(receiver, received): (&contract::Receiver, Received)| {
        let total = received.total();
        let worker = |(worker, arrivals): &(WorkerIndex, datapath::Arrivals)| WorkerReceived {
            worker: worker.0 as u32,
            packets: arrivals.packets,
            bytes: arrivals.bytes,
            inter_arrival: Some(moments(&arrivals.inter_arrival)),
            jitter: Some(moments(&arrivals.jitter)),
            latency: Some(moments(&arrivals.latency)),
        };
        ReceiverStats {
            name: receiver.name.clone(),
            port: receiver.port.clone(),
            packets: total.packets,
            bytes: total.bytes,
            workers: received.workers.iter().map(worker).collect(),
            inter_arrival: Some(moments(&total.inter_arrival)),
            jitter: Some(moments(&total.jitter)),
            latency: Some(moments(&total.latency)),
            since_ns: received.since_wall_ns.unwrap_or(0).cast_signed(),
        }
    };
    held.receivers.iter().zip(held.run().received()).map(stats).collect()
}

/// Resets the statistics of named receivers; no names: of all.
pub fn reset(held: &Held, names: &[String]) -> Result<(), Refusal> {
    let mut wrong = Violations::default();
    let mut chosen = Vec::new();
    for (i, name) in names.iter().enumerate() {
        match held.receivers.iter().position(|receiver| receiver.name == *name) {
            Some(index) => chosen.push(index),
            None => wrong.add(FieldPath::from("receivers").index(i), format!("{name:?} is no receiver of the run")),
        }
    }
    if names.is_empty() {
        chosen = (0..held.receivers.len()).collect();
    }
    wrong.or(())?;
    chosen.into_iter().for_each(|index| held.run().reset_receiver(ReceiverIndex(index)));
    Ok(())
}

fn moments(m: &datapath::Moments) -> Moments {
    Moments { count: m.count, mean_ns: m.mean_ns, variance_ns2: m.variance_ns2(), min_ns: m.min_ns, max_ns: m.max_ns }
}
