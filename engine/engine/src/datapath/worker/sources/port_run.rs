// SPDX-License-Identifier: Apache-2.0
//! Streams of a run on one transmit port of one worker: what is sent, and where the worker stands in it.
use std::{collections::VecDeque, sync::Arc};

use spate_stateless::{PIECE, Schedule, Template, Writer};

use crate::datapath::worker::{Device, Dpdk, change::RateChange};
use crate::index::{PortIndex, PortStreamIndex, StreamIndex};

/// A run's part on one transmit port of one worker.
pub(in crate::datapath) struct PortRun<D: Device = Dpdk> {
    pub(in crate::datapath) port: PortIndex,
    pub(in crate::datapath) schedule: Schedule,
    /// Streams, in the order of the schedule.
    pub(in crate::datapath) streams: Arc<[SendStream]>,
    /// Position of this worker in each stream.
    pub(in crate::datapath) writers: Box<[Writer]>,
    /// Prebuilt packets, by stream; empty if no stream has any.
    pub(in crate::datapath) prebuilt: Box<[Option<D::Prebuilt>]>,
    /// If each stream's packets are all the same.
    pub(in crate::datapath) copies: Option<Copies>,
    /// What is to change, in order of time.
    pub(in crate::datapath) changes: VecDeque<RateChange>,
    pub(in crate::datapath) late_after_ns: u64,
    /// Where packets come from if they are longer than the port's own pool has room for.
    pub(in crate::datapath) long_packets: Option<D::Pool>,
}

/// What a worker needs to know of a stream to send it.
#[derive(Clone, Debug)]
pub(in crate::datapath) struct SendStream {
    pub(in crate::datapath) template: Template,
    /// Its number in trailers.
    pub(in crate::datapath) id: u16,
    /// Its index among all streams of the run.
    pub(in crate::datapath) index: StreamIndex,
}

/// Consecutive streams of the run. All packets of one are the same, and fit into a piece: what sending one of
/// each of thousands needs, close together.
#[derive(Debug)]
pub(in crate::datapath) struct Copies {
    pub(super) pieces: Box<[[u8; PIECE]]>,
    pub(super) lens: Box<[u16]>,
    /// The first of them.
    pub(super) first: StreamIndex,
}

impl Copies {
    /// Copies of these streams, if they are such.
    pub(in crate::datapath) fn of(streams: &[SendStream]) -> Option<Self> {
        let first = streams.first()?.index;
        let follow = streams.iter().enumerate().all(|(position, stream)| stream.index.0 == first.0 + position);
        let pieces = streams.iter().map(|stream| stream.template.piece().copied()).collect::<Option<_>>()?;
        let lens = streams.iter().map(|stream| stream.template.frame_len() as u16).collect();
        follow.then_some(Self { pieces, lens, first })
    }
}

/// A run's streams on a port, in place of those that a worker has: the same but for bytes of their packets that do not vary.
pub(in crate::datapath) struct NewStreams<D: Device = Dpdk> {
    pub(in crate::datapath) port: PortIndex,
    pub(super) streams: Arc<[SendStream]>,
    pub(super) copies: Option<Copies>,
    /// Prebuilt packets of streams, in place of those that the worker has.
    pub(super) prebuilt: Vec<(PortStreamIndex, Option<D::Prebuilt>)>,
}

impl<D: Device> NewStreams<D> {
    /// For one worker; `caches`: it has prebuilt packets of some streams, in place of which it gets these.
    pub(in crate::datapath) fn new(
        port: PortIndex,
        streams: &Arc<[SendStream]>,
        caches: bool,
        prebuilt: Vec<(PortStreamIndex, Option<D::Prebuilt>)>,
    ) -> Self {
        Self { port, streams: Arc::clone(streams), copies: Copies::of(streams).filter(|_| !caches), prebuilt }
    }
}
