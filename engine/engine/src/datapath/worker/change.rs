// SPDX-License-Identifier: Apache-2.0
//! Changes of a run that workers make at an instant of its clock.
use std::sync::Arc;

use spate_stateful::{LeasedAddresses, NextHops, Ratio, arrivals::FlowSchedule, envelope::GatewayMac};
use spate_stateless::Rate;

use crate::index::{PortIndex, PortStreamIndex, StreamIndex};

/// Maximum number of runs that an engine holds, ended ones included: their metrics and trailers must stay bounded.
pub const MAX_RUNS: usize = 64;

/// Other rates for streams that are sent from one port, from an instant of the run on.
#[derive(Clone, Debug)]
pub(in crate::datapath) struct RateChange {
    pub(in crate::datapath) at_ns: u64,
    pub(in crate::datapath) port: PortIndex,
    /// Without a rate a stream stands.
    pub(in crate::datapath) rates: Arc<[(PortStreamIndex, Option<Rate>)]>,
}

/// New speed of a stream that replays a capture, from an instant of the run on.
#[derive(Clone, Copy, Debug)]
pub(in crate::datapath) struct SpeedChange {
    pub(in crate::datapath) at_ns: u64,
    pub(in crate::datapath) stream: StreamIndex,
    /// Distance in nanoseconds; none: it stands.
    pub(in crate::datapath) speed: Option<Rate>,
}

/// Other rates of new flows, from an instant of the run on.
#[derive(Debug)]
pub(in crate::datapath) struct FlowRate {
    pub(in crate::datapath) at_ns: u64,
    /// The fraction of all rates at which time passes for them.
    pub(in crate::datapath) factor: Ratio,
    /// When the worker's flows begin by other rates of templates; none: by those of before.
    pub(in crate::datapath) flow_schedule: Option<Box<FlowSchedule>>,
}

/// New next hops for a run's flows on a port.
#[derive(Debug)]
pub(in crate::datapath) struct NewNextHops {
    pub(in crate::datapath) port: PortIndex,
    pub(in crate::datapath) hops: NextHops,
    /// Gateways of client pools that the run follows there.
    pub(in crate::datapath) gateways: Box<[GatewayMac]>,
}

/// New leased addresses of the clients of a pool.
#[derive(Debug)]
pub(in crate::datapath) struct NewLeasedAddresses {
    /// Index of the pool in the scenario.
    pub(in crate::datapath) pool: usize,
    /// For what opens flows, and for the flows: the same.
    pub(in crate::datapath) leased: [Arc<LeasedAddresses>; 2],
}
