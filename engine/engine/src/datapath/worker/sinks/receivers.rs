// SPDX-License-Identifier: Apache-2.0
//! Receivers: what arrives on a port, and is of no stream here, is measured.
use spate_net::{Headers, pktgen};
use spate_stats::Arrivals;

use super::Packet;
use crate::datapath::worker::{Device, Time, WorkerRun};
use crate::index::{PortIndex, ReceiverIndex};

/// A delay beyond this is taken for a misread time stamp: any bytes are a trailer once in 128 times.
const MAX_DELAY_NS: i64 = 10_000_000_000;

/// A receiver as one worker knows it.
pub(in crate::datapath) struct RunReceiver {
    pub(in crate::datapath) port: PortIndex,
    pub(in crate::datapath) arrivals: Arrivals,
}

impl<D: Device> WorkerRun<D> {
    /// Counts a packet for the run's receivers of a port.
    #[inline]
    pub(super) fn count_foreign(
        &mut self,
        port: PortIndex,
        packet: &Packet<'_>,
        headers: Option<&Headers>,
        clock: &D::Clock,
    ) {
        let foreign = &mut self.receive.foreign;
        for receiver in foreign.receivers.iter_mut().filter(|receiver| receiver.port == port) {
            let delay_ns = if foreign.clocks_agree { delay(clock, headers, packet) } else { None };
            receiver.arrivals.add(packet.arrived_ns, packet.bytes(), delay_ns);
        }
    }

    /// Leaves what the run's receivers of a port know for control.
    pub(super) fn publish_foreign(&self, port: PortIndex) {
        for (receiver, slot) in self.receive.foreign.receivers.iter().zip(&self.share.receivers) {
            if receiver.port == port {
                slot.publish(&receiver.arrivals);
            }
        }
    }

    /// Resets a receiver's statistics.
    pub(in crate::datapath::worker) fn reset_receiver(&mut self, index: ReceiverIndex) {
        if let Some(receiver) = self.receive.foreign.receivers.get_mut(index.0) {
            receiver.arrivals = Arrivals::default();
            self.share.receivers[index.0].publish(&receiver.arrivals);
        }
    }
}

/// From a packet's time stamp, of another engine or of the kernel's pktgen, to its arrival.
fn delay(clock: &impl Time, headers: Option<&Headers>, packet: &Packet<'_>) -> Option<u64> {
    let pktgen = headers.and_then(|headers| pktgen::sent_at_ns(packet.frame, headers));
    let delay = match (pktgen, packet.trailer) {
        (Some(sent), _) => clock.wall_of(packet.arrived_ns).wrapping_sub(sent).cast_signed(),
        (None, Some(trailer)) => clock.wall_timescale().since_stamp(trailer.timestamp, packet.arrived_ns),
        (None, None) => return None,
    };
    (0..=MAX_DELAY_NS).contains(&delay).then(|| delay.cast_unsigned())
}
