// SPDX-License-Identifier: Apache-2.0
//! What control has to know of a run's receiving side to read it.
use std::sync::Arc;

use spate_net::{Mark, TagList};

use super::Receiver;
use crate::index::{PortIndex, StreamIndex};

/// A run's receiving side, as it is read.
pub(in crate::datapath) struct Received {
    /// By stream: its index in the shares' delays.
    pub(in crate::datapath) delays: Vec<Option<u32>>,
    pub(in crate::datapath) receivers: Vec<Receiver>,
    /// Ports that send back what they receive.
    pub(in crate::datapath) reflecting: Vec<PortIndex>,
    /// By stream: its packets are counted where they arrive.
    pub(in crate::datapath) measured: Vec<bool>,
    /// By stream: the port that should receive it, if any.
    pub(in crate::datapath) rx_ports: Vec<Option<PortIndex>>,
    /// Marks by stream.
    pub(in crate::datapath) marks: Vec<(StreamIndex, Mark)>,
    /// Tag lists, as in `Measure`.
    pub(in crate::datapath) by_tag: Vec<Arc<TagList>>,
}
