// SPDX-License-Identifier: Apache-2.0
//! Sources: what sends on a port, one file each, and their registration.
//!
//! A new source is a file here that implements `Source`, a line of `register!`, and what it has of a run, which is a field of `WorkerRun`.
//! It is dispatched statically, and it sends through `Outlet::egress`, which accounts what leaves: of its own it counts only what control
//! reads by stream or by template.
mod flows;
mod inject;
mod injected;
mod port_run;
mod replays;
mod streams;

use rtrb::Producer;

pub(in crate::datapath) use inject::Inject;
pub(in crate::datapath) use port_run::{NewStreams, PortRun, SendStream};
pub(in crate::datapath) use replays::{Replay, ReplayParts, ReplayTape, TapeEnd, speed_of};

use super::{Device, WorkerRun, command::Reclaim, outlet::Outlet};
use crate::index::{PortIndex, RunSlot};
use flows::Flows;
use injected::Injected;
use replays::Replays;
use streams::Streams;

/// Something that sends on a port of a worker. Each port has one of each; `run` is a run that the worker has installed, with all that its
/// sources need of it.
///
/// A worker calls it in this order, in each pass of its loop: `advance`, once for all ports, after packets were received; `send`, for each
/// port; after the run's end, `settle` for each port and `is_over`, until both are true; and if nothing was sent or received, and the worker may
/// rest, `is_waiting` and `due_ns`. A worker neither allocates nor frees: what it no longer needs goes back by `Pass::reclaim`.
pub(super) trait Source<D: Device> {
    /// What it sends belongs to runs: it is called if a run has something for it (`is_in`), and what it sends is within the bound on all that
    /// an engine sends. Otherwise it is called in every pass, and not bounded.
    const OF_RUNS: bool = true;

    /// The source of a port.
    fn new(outlet: &Outlet<D>) -> Self;

    /// Whether a run has something for it, on any port.
    fn is_in(run: &WorkerRun<D>) -> bool;

    /// Sends up to a burst of what is due on the port. Returns how many packets the device took. What the device did not take is offered
    /// again before anything else is built, so that packets leave in order; and nothing is built while the budget is used up
    /// (`Egress::is_closed`), so that time stamps are those of when packets leave.
    fn send(&mut self, pass: &mut Pass<'_, D>, outlet: &mut Outlet<D>) -> usize;

    /// Whether packets that are built wait for the device: the worker does not rest.
    fn is_waiting(&self, port: PortIndex, runs: &[Option<Box<WorkerRun<D>>>]) -> bool;

    /// The monotonic instant at which a run next needs `send` or `advance`; none if only a command or a packet can change that.
    fn due_ns(run: &WorkerRun<D>) -> Option<u64>;

    /// After the end of a run's transmission: whether what it had to send on the port has left, or is given up and counted as dropped.
    /// Past the grace it gives up.
    fn settle(&mut self, run: &mut WorkerRun<D>, ending: &mut Ending<'_, D>, outlet: &mut Outlet<D>) -> bool;

    /// Whether what a run has for the source on no port in particular is over.
    fn is_over(_run: &mut WorkerRun<D>, _now: u64) -> bool {
        true
    }

    /// Does what is due and sends nothing, for all runs.
    fn advance(_pass: &mut Pass<'_, D>) {}

    /// Ends at once what a run has for it, and counts it.
    fn abort(_run: &mut WorkerRun<D>) {}

    /// The run in a slot goes, after `abort`: gives back what it holds for it on the port.
    fn remove(&mut self, _slot: RunSlot, _run: &mut WorkerRun<D>, _outlet: &mut Outlet<D>) {}

    /// No run has anything for it any more: gives back what it holds for all of them.
    fn retire(&mut self, _outlet: &mut Outlet<D>) {}
}

/// What a pass of the worker's loop gives its sources.
pub(super) struct Pass<'a, D: Device> {
    /// The monotonic instant at which it began: what is due by then is sent. All commands that take effect before it are obeyed.
    pub(super) now: u64,
    pub(super) clock: &'a D::Clock,
    /// Runs, by slot.
    pub(super) runs: &'a mut [Option<Box<WorkerRun<D>>>],
    /// Ring to the thread that frees memory.
    pub(super) reclaim: &'a mut Producer<Reclaim<D>>,
}

/// A run whose transmission has come to its end.
pub(super) struct Ending<'a, D: Device> {
    /// Monotonic.
    pub(super) now: u64,
    /// The run's slot.
    pub(super) slot: RunSlot,
    /// Whether packets that are still due are given up.
    pub(super) past_grace: bool,
    pub(super) reclaim: &'a mut Producer<Reclaim<D>>,
}

/// Makes the registry of sources: a field each, which send in the order of the fields.
macro_rules! register {
    ($($name:ident: $source:ident,)+) => {
        /// The sources of a port.
        pub(super) struct Sources<D: Device> {
            $(pub(super) $name: $source<D>,)+
        }

        /// The sources that some of a worker's runs have something for.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct Active {
            $($name: bool,)+
        }

        impl Active {
            /// Adds the sources that a run has something for.
            pub(super) fn add<D: Device>(&mut self, run: &WorkerRun<D>) {
                $(self.$name |= $source::is_in(run);)+
            }
        }

        impl<D: Device> Sources<D> {
            /// Number of sources.
            pub(super) const COUNT: usize = [$(stringify!($name)),+].len();

            pub(super) fn new(outlet: &Outlet<D>) -> Self {
                Self { $($name: $source::new(outlet),)+ }
            }

            /// See `Source::advance`.
            #[inline(always)]
            pub(super) fn advance(active: Active, pass: &mut Pass<'_, D>) {
                $(if active.$name {
                    $source::advance(pass);
                })+
            }

            /// Sends up to a burst of each. Returns how many packets the device took.
            #[inline(always)]
            pub(super) fn send(&mut self, active: Active, pass: &mut Pass<'_, D>, outlet: &mut Outlet<D>) -> usize {
                let mut sent = 0;
                $(if active.$name || !$source::<D>::OF_RUNS {
                    sent += self.$name.send(pass, outlet);
                })+
                sent
            }

            /// Lets the sources send that belong to no run.
            pub(super) fn send_unlimited(&mut self, pass: &mut Pass<'_, D>, outlet: &mut Outlet<D>) -> usize {
                let mut sent = 0;
                $(if !$source::<D>::OF_RUNS {
                    sent += self.$name.send(pass, outlet);
                })+
                sent
            }

            /// Lets the source with a number below `COUNT` send, if it belongs to runs.
            pub(super) fn send_one(
                &mut self,
                number: usize,
                active: Active,
                pass: &mut Pass<'_, D>,
                outlet: &mut Outlet<D>,
            ) -> usize {
                let mut numbers = 0..;
                $(if numbers.next() == Some(number) && active.$name && $source::<D>::OF_RUNS {
                    return self.$name.send(pass, outlet);
                })+
                0
            }

            /// See `Source::is_waiting`.
            pub(super) fn is_waiting(&self, port: PortIndex, runs: &[Option<Box<WorkerRun<D>>>]) -> bool {
                $(self.$name.is_waiting(port, runs))||+
            }

            /// See `Source::due_ns`.
            pub(super) fn due_ns(run: &WorkerRun<D>) -> Option<u64> {
                [$($source::due_ns(run)),+].into_iter().flatten().min()
            }

            /// See `Source::settle`.
            pub(super) fn settle(
                &mut self,
                run: &mut WorkerRun<D>,
                ending: &mut Ending<'_, D>,
                outlet: &mut Outlet<D>,
            ) -> bool {
                let mut settled = true;
                $(settled &= self.$name.settle(run, ending, outlet);)+
                settled
            }

            /// See `Source::is_over`.
            pub(super) fn is_over(run: &mut WorkerRun<D>, now: u64) -> bool {
                let mut over = true;
                $(over &= $source::is_over(run, now);)+
                over
            }

            /// See `Source::abort`.
            pub(super) fn abort(run: &mut WorkerRun<D>) {
                $($source::abort(run);)+
            }

            /// See `Source::remove`.
            pub(super) fn remove(&mut self, slot: RunSlot, run: &mut WorkerRun<D>, outlet: &mut Outlet<D>) {
                $(self.$name.remove(slot, run, outlet);)+
            }

            /// See `Source::retire`: those that were active and are not.
            pub(super) fn retire(&mut self, before: Active, now: Active, outlet: &mut Outlet<D>) {
                $(if before.$name && !now.$name {
                    self.$name.retire(outlet);
                })+
            }
        }
    };
}

register! {
    injected: Injected,
    clients: Injected,
    streams: Streams,
    replays: Replays,
    flows: Flows,
}
