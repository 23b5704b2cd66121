// SPDX-License-Identifier: Apache-2.0
//! Safe wrappers of the parts of DPDK that Spate uses: the environment, packet memory, ports and their queues.
//!
//! A port goes through types: [`Port<Configured>`] has no queues yet, [`Port<Started>`] comes with its
//! [`RxQueue`]s and [`TxQueue`]s, each of which belongs to one thread at a time.
//!
//! ```no_run
//! use spate_dpdk::{Burst, Configured, Device, Eal, Memory, Mempool, Port, QueueSizes, UseOffloads};
//!
//! # fn main() -> Result<(), spate_dpdk::Error> {
//! let eal = Eal::init(Memory::Normal { bytes: 32 << 20 }, &[], &[0], &[&[0]])?; // once in a process, as root
//! let pool = Mempool::new(&eal, "example", 511, 2048)?;
//! let port = Port::<Configured>::open(&eal, &Device::Loopback, 1, 1, UseOffloads::Auto)?;
//! let (_port, mut rx, mut tx) = port.start(QueueSizes { rx: 512, tx: 512 }, &pool)?;
//! let mut burst = Burst::new();
//! assert!(burst.alloc(&pool, 1));
//! burst.frame_mut(0, 60).fill(0);
//! assert_eq!(burst.send(&mut tx[0]), 1);
//! assert_eq!(burst.receive(&mut rx[0]), 1);
//! # Ok(())
//! # }
//! ```
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
mod quarantine;
mod removal;
mod stamp;
mod steering;
mod tap;
mod thread;
mod xdp;

pub use allocator::{Allocator, on_own_lines};
pub use bond::{BondMember, Lacp, LacpState};
pub use burst::{Burst, Offered, TxOffload};
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
    Configured, DeviceCounter, GroupFilter, Link, Offloads, Port, PortStats, QueueSizes, Refusal, RxQueue,
    Segmentation, Started, StartedPort, TxQueue, UseOffloads,
};
pub use prebuilt::Prebuilt;
pub use stamp::StampedBy;
pub use tap::{Tap, TapError};
pub use thread::{RegisteredThread, tsc};
pub use xdp::CopyMode;
