// SPDX-License-Identifier: Apache-2.0
//! Safe wrappers of the parts of DPDK that Spate uses: the environment, packet memory, ports and their queues.
//!
//! A port goes through types: [`Port<Configured>`] has no queues yet, [`Port<Started>`] comes with its
//! [`RxQueue`]s and [`TxQueue`]s, each of which belongs to one thread at a time.
mod allocator;
mod bond;
mod burst;
mod device;
mod eal;
mod error;
mod filter;
mod interface;
mod kernel;
mod log;
mod loopback;
mod mbuf;
mod memif;
mod mempool;
pub mod numa;
mod port;
mod prebuilt;
mod removal;
mod resting;
mod stamp;
mod steering;
mod tap;
mod thread;
mod xdp;

pub use allocator::{Allocator, on_own_lines};
pub use bond::{BondMember, Lacp, LacpState};
pub use burst::{Burst, Offered, Unfinished};
pub use device::Device;
pub use eal::{Eal, Memory};
pub use error::Error;
pub use filter::{FilterError, compile};
pub use kernel::KernelSocket;
pub use loopback::{Disturbance, Spread};
pub use mbuf::BURST;
pub use memif::Memif;
pub use mempool::Mempool;
pub use port::{
    Configured, Cut, DeviceCounter, GroupFilter, Link, Offloads, Port, PortStats, QueueSizes, Refusal, RxQueue,
    Started, StartedPort, TxQueue, UseOffloads,
};
pub use prebuilt::Prebuilt;
pub use stamp::StampedBy;
pub use tap::{Tap, TapError};
pub use thread::{RegisteredThread, tsc};
pub use xdp::CopyMode;
