// SPDX-License-Identifier: Apache-2.0
//! The congestion window: slow start and NewReno (RFC 5681), CUBIC (RFC 9438).
use super::{Context, Instant};
use crate::{
    flow::{Flow, flags},
    scenario::{CongestionControl, Tunables},
};

/// CUBIC's constants (RFC 9438 section 4.6 and 5).
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Seconds of a tick of `cubic_k`.
const K_TICK: f64 = 1_048_576e-9;

impl Flow {
    /// The window with which a connection starts, and starts again after a pause (RFC 6928, RFC 5681 section 4.1).
    pub(super) fn initial_cwnd(&self, tunables: &Tunables) -> u32 {
        u32::from(tunables.initial_window) * u32::from(self.mss)
    }

    /// This many bytes were acknowledged while the window was what limited us.
    pub(super) fn grow(&mut self, acked: u32, now: Instant, tunables: &Tunables) {
        let mss = u32::from(self.mss);
        if self.cwnd < self.ssthresh {
            // By all that was acknowledged, as peers that acknowledge many segments at once would slow it down (RFC 3465
            // with L without bound, as Linux).
            // Not beyond the threshold at once, which after a timeout an acknowledgement of much would.
            self.cwnd = self.cwnd.saturating_add(acked).min(self.ssthresh.saturating_add(mss));
            return;
        }
        let target = match tunables.congestion_control {
            CongestionControl::NewReno => self.cwnd.saturating_add(mss),
            CongestionControl::Cubic => self.cubic_target(now.us()),
        };
        // Evenly over a window of acknowledgements.
        if target > self.cwnd {
            let step = u64::from(target - self.cwnd) * u64::from(acked) / u64::from(self.cwnd.max(1));
            self.cwnd = self.cwnd.saturating_add((step as u32).max(1).min(acked.max(1)));
        }
    }

    /// Where the window should be a round trip from now (RFC 9438 section 4.2), not below what Reno would reach (4.3).
    fn cubic_target(&mut self, now_us: u32) -> u32 {
        let mss = f64::from(self.mss);
        let cwnd = f64::from(self.cwnd) / mss;
        if self.epoch_at == 0 {
            self.epoch_at = now_us.max(1);
            let w_max = (f64::from(self.w_max) / mss).max(cwnd);
            self.w_max = (w_max * mss) as u32;
            self.cubic_k = (((w_max - cwnd) / C).cbrt() / K_TICK).min(f64::from(u16::MAX)) as u16;
        }
        let w_max = f64::from(self.w_max) / mss;
        let elapsed = now_us.wrapping_sub(self.epoch_at);
        let seconds = |us: f64| us * 1.024e-6;
        let rtt = seconds(f64::from(self.srtt.max(1)));
        let t = seconds(f64::from(elapsed)) + rtt;
        let k = f64::from(self.cubic_k) * K_TICK;
        let cubic = C * (t - k).powi(3) + w_max;
        // From the window at the epoch's start, by 3 (1 - beta) / (1 + beta) segments a round trip; from the window before
        // the reduction on by one.
        let (start, alpha) = (w_max - C * k.powi(3), 3.0 * (1.0 - BETA) / (1.0 + BETA));
        let to_w_max = (w_max - start) / alpha;
        let rounds = t / rtt;
        let reno = start + alpha * rounds.min(to_w_max) + (rounds - to_w_max).max(0.0);
        // Not faster than by half a window in a round trip (section 4.4).
        let target = cubic.max(reno).clamp(cwnd, 1.5 * cwnd);
        (target * mss).min(f64::from(u32::MAX)) as u32
    }

    /// The threshold after a loss or a mark, with this many bytes in flight.
    pub(super) fn reduced(&mut self, flight: u32, cx: &Context<'_>) -> u32 {
        let mss = u32::from(self.mss);
        // Of the window, if it was what limited us: of a flight that one acknowledgement has just made small, little would be
        // left (RFC 9438 section 4.6 lets it be either).
        let flight = if self.has(flags::LIMITED) { self.cwnd } else { self.cwnd.min(flight.max(mss)) };
        let to = match cx.tunables.congestion_control {
            CongestionControl::NewReno => flight / 2,
            CongestionControl::Cubic => {
                // Fast convergence (section 4.7).
                let cwnd = flight;
                self.w_max = if cwnd < self.w_max { (f64::from(cwnd) * (1.0 + BETA) / 2.0) as u32 } else { cwnd };
                self.epoch_at = 0;
                (f64::from(cwnd) * BETA) as u32
            }
        };
        to.max(2 * mss)
    }
}
