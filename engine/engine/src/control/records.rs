// SPDX-License-Identifier: Apache-2.0
//! Connection records in the messages of the contract.
use super::runs::Held;
use super::status::Refusal;
use crate::datapath::{RecordsState, Watch};
use contract::{ConnectionRecord, RecordStats, Side, WatchRecordsResponse};
use prost::bytes::Bytes;
use spate_stateful::{Address, Record};
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// How often records are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Answers that wait for a slow caller; then records are counted as missed.
const ANSWERS: usize = 4;

/// What a caller receives.
pub type Answer = Result<WatchRecordsResponse, Status>;

/// What has become of a run's records; none if connections are not recorded.
pub fn stats(held: &Held) -> Option<RecordStats> {
    let RecordsState { path, written, omitted, delivered, undelivered, problem } = held.run().records()?;
    let path = path.map(|path| path.display().to_string()).unwrap_or_default();
    Some(RecordStats { path, written, omitted, problem: problem.unwrap_or_default(), delivered, undelivered })
}

/// Starts to send a run's records. Ends with the run, or when the caller has enough; `permit` is the caller's until then.
pub fn watch(held: &Held, permit: OwnedSemaphorePermit) -> Result<ReceiverStream<Answer>, Refusal> {
    let id = held.run().id();
    let problem = "has no records of connections; prepare it with stateful.records in its plan, which are spec.records of a \
                   TrafficProfile";
    let watch = held.run().watch_records().ok_or_else(|| Refusal::State(format!("run {id:?} {problem}")))?;
    if held.has_ended() {
        let file = stats(held).map(|stats| stats.path).filter(|path| !path.is_empty());
        let remedy = file
            .map_or("they are in no file: run it again".into(), |file| format!("those of the whole run are in {file}"));
        let ended = format!("run {id:?} has ended, and records are streamed while it lasts; {remedy}");
        return Err(Refusal::State(ended));
    }
    let (answers, stream) = mpsc::channel(ANSWERS);
    let run = WatchRecordsResponse { run_id: id.to_owned(), run: held.name.clone(), ..WatchRecordsResponse::default() };
    tokio::spawn(async move {
        send(watch, &run, answers).await;
        drop(permit);
    });
    Ok(ReceiverStream::new(stream))
}

async fn send(mut watch: Watch, run: &WatchRecordsResponse, answers: mpsc::Sender<Answer>) {
    let answer = |records, missed| Ok(WatchRecordsResponse { records, missed, ..run.clone() });
    let mut looks = tokio::time::interval(POLL_INTERVAL);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut reported = 0;
    loop {
        while let Some(batch) = watch.take() {
            let records = batch.iter().map(|record| record_message(record, watch.templates())).collect();
            reported = watch.missed();
            if answers.send(answer(records, reported)).await.is_err() {
                return;
            }
        }
        if watch.is_over() {
            let missed = watch.missed();
            if missed > reported {
                // A reader that does not receive it has gone.
                let _ = answers.send(answer(Vec::new(), missed)).await;
            }
            return;
        }
        tokio::select! {
            _ = looks.tick() => {}
            () = answers.closed() => return,
        }
    }
}

fn record_message(record: &Record, templates: &[String]) -> ConnectionRecord {
    let time = |ns: Option<u64>| ns.unwrap_or(0).cast_signed();
    ConnectionRecord {
        template: templates[usize::from(record.template)].clone(),
        side: if record.client { Side::Client } else { Side::Server }.into(),
        udp: record.udp,
        flow: record.number,
        end_reason: record.end.name().into(),
        local_address: address(record.tuple.local),
        local_port: record.tuple.local_port.into(),
        remote_address: address(record.tuple.remote),
        remote_port: record.tuple.remote_port.into(),
        start_ns: time(Some(record.start_ns)),
        established_ns: time(record.established_ns),
        first_byte_ns: time(record.first_byte_ns),
        end_ns: time(Some(record.end_ns)),
        sent_bytes: record.sent_bytes,
        received_bytes: record.received_bytes,
        sent_packets: record.sent_packets,
        received_packets: record.received_packets,
        retransmitted_packets: record.retransmitted,
        round_trip_ns: record.round_trip_ns.unwrap_or(0),
    }
}

fn address(address: Address) -> Bytes {
    match IpAddr::from(address) {
        IpAddr::V4(v4) => Bytes::copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => Bytes::copy_from_slice(&v6.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spate_stateful::{End, Tuple};

    #[test]
    fn a_record_is_reported_with_all_it_has() {
        let tuple = Tuple {
            local: Address::v4(0x1000_0001),
            remote: Address(0x2001 << 112 | 1),
            local_port: 1,
            remote_port: 2,
        };
        let record = Record {
            tuple,
            number: 3,
            template: 1,
            client: false,
            udp: true,
            end: End::IdleTimeout,
            start_ns: 4,
            established_ns: Some(5),
            first_byte_ns: None,
            end_ns: 6,
            sent_bytes: 7,
            received_bytes: 8,
            sent_packets: 9,
            received_packets: 10,
            retransmitted: 11,
            round_trip_ns: None,
        };
        let mut v6 = vec![0; 16];
        (v6[0], v6[1], v6[15]) = (0x20, 0x01, 1);
        let expected = ConnectionRecord {
            template: "b".into(),
            side: Side::Server.into(),
            udp: true,
            flow: 3,
            end_reason: "idle_timeout".into(),
            local_address: Bytes::from_static(&[16, 0, 0, 1]),
            local_port: 1,
            remote_address: v6.into(),
            remote_port: 2,
            start_ns: 4,
            established_ns: 5,
            first_byte_ns: 0,
            end_ns: 6,
            sent_bytes: 7,
            received_bytes: 8,
            sent_packets: 9,
            received_packets: 10,
            retransmitted_packets: 11,
            round_trip_ns: 0,
        };
        assert_eq!(record_message(&record, &["a".into(), "b".into()]), expected);
    }
}
