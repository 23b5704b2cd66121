// SPDX-License-Identifier: Apache-2.0
//! Live capture in the messages of the contract: a request to what the datapath copies, and the copies to answers.
use super::runs::Engine;
use super::status::Refusal;
use crate::datapath::{Capture, CaptureSpec, Captured, Direction};
use crate::plan::Violations;
use contract::{CaptureRequest, CaptureResponse, CapturedPacket};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// Captures at a time: each has rings of some MiB.
const MAX_CAPTURES: usize = 8;
/// Bytes of packets in one answer, about: peers take messages of 4 MiB.
const ANSWER_BYTES: usize = 1 << 20;
/// Answers that wait for a slow caller; then the rings fill, and what does not fit is counted as missed.
const ANSWERS: usize = 4;
/// How often copies are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How often missed packets are reported to a caller while there is nothing else to report.
const REPORT_EVERY: Duration = Duration::from_secs(1);
/// What filters may look at, and the longest packet there is.
const WHOLE_PACKET: usize = 65_535;

/// Room for captures.
#[derive(Clone, Debug)]
pub struct Captures(Arc<Semaphore>);

impl Default for Captures {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CAPTURES)))
    }
}

impl Captures {
    /// Begins a capture. It ends when the caller ends it, after `max_packets`, or with the engine.
    pub async fn start(
        &self,
        engine: &Arc<Engine>,
        request: CaptureRequest,
    ) -> Result<ReceiverStream<Result<CaptureResponse, Status>>, Status> {
        let mut wrong = Violations::default();
        let Some(port) = engine.port_named("port", &request.port, &mut wrong) else {
            return Err(Refusal::Invalid(wrong).into());
        };
        let direction = match contract::Direction::try_from(request.direction) {
            Ok(contract::Direction::Unspecified) => None,
            Ok(contract::Direction::Rx) => Some(Direction::Rx),
            Ok(contract::Direction::Tx) => Some(Direction::Tx),
            Err(_) => {
                let problem = format!("{} is not known; must be DIRECTION_RX, DIRECTION_TX or 0", request.direction);
                return Err(Refusal::field("direction", problem).into());
            }
        };
        let snap_len = match request.snap_length as usize {
            0 => WHOLE_PACKET,
            asked => asked.min(WHOLE_PACKET),
        };
        // Compiling may look up names.
        let filter = tokio::task::spawn_blocking(move || spate_dpdk::compile(&request.filter))
            .await
            .map_err(|e| Status::internal(format!("compiling the filter failed: {e}")))?
            .map_err(|e| Refusal::field("filter", e.to_string()))?;
        let Ok(permit) = self.0.clone().try_acquire_owned() else {
            let problem = format!("{MAX_CAPTURES} captures are active, the maximum: end one");
            return Err(Refusal::Exhausted(problem).into());
        };
        let capture = engine.datapath().capture(port, CaptureSpec { filter, direction, snap_len });
        let (answers, stream) = mpsc::channel(ANSWERS);
        tokio::spawn(copy(capture, request.max_packets, answers, permit));
        Ok(ReceiverStream::new(stream))
    }
}

/// Moves copies to the caller until either has enough.
async fn copy(
    mut capture: Capture,
    max_packets: u64,
    answers: mpsc::Sender<Result<CaptureResponse, Status>>,
    _permit: OwnedSemaphorePermit,
) {
    let mut left = if max_packets == 0 { u64::MAX } else { max_packets };
    let mut looks = tokio::time::interval(POLL_INTERVAL);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut reported = (tokio::time::Instant::now(), 0);
    while left > 0 {
        tokio::select! {
            _ = looks.tick() => {}
            () = answers.closed() => return,
        }
        // Asked before the rings are read: what a closed port left in them is still sent.
        let over = capture.is_over();
        let mut packets: Vec<_> = capture.take(ANSWER_BYTES).into_iter().map(packet).collect();
        packets.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        let missed = capture.missed();
        let news = missed > reported.1 && reported.0.elapsed() >= REPORT_EVERY;
        if !packets.is_empty() || news {
            left -= packets.len() as u64;
            reported = (tokio::time::Instant::now(), missed);
            if answers.send(Ok(CaptureResponse { packets, missed })).await.is_err() {
                return;
            }
        } else if over {
            return;
        }
    }
}

fn packet(captured: Captured) -> CapturedPacket {
    let direction = match captured.direction {
        Direction::Rx => contract::Direction::Rx,
        Direction::Tx => contract::Direction::Tx,
    };
    CapturedPacket {
        at_ns: captured.at_ns as i64,
        data: captured.bytes.into(),
        original_length: captured.original_len,
        direction: direction.into(),
    }
}
