// SPDX-License-Identifier: Apache-2.0
//! Stateful traffic without I/O: emulated applications over TCP and UDP by the million, driven by a clock and by frames.
//!
//! A [`Scenario`] says what is emulated: templates with a client's and a server's program, their payloads and addresses. A
//! worker runs its share of it in a [`Stack`]: it is given frames as they arrive, asked for frames as there is room to send
//! them, and gets the time from its caller. It never waits, takes no lock, and once made allocates nothing.
//!
//! No flow has a buffer: unacknowledged data is a position in the program's payloads, and a packet is built when it is sent.
//!
//! # Sources and sinks
//!
//! Between a flow's transport and its program are, in `application`:
//! * a *source* of the bytes that the program sends: given ones, or a pattern. TCP and UDP queue a [`Payload`] by its number and fill a
//!   packet with any piece of it whenever they build one, so what a source gives depends on the flow's number and the offset alone.
//!   [Fields](payload::Field) are written over it.
//! * a *sink*, which finds the end of what the program receives next: a pattern, or an HTTP message. The bytes come from
//!   `application/reader.rs`, in order and once each. A program that counts bytes or messages needs none: each flow counts them.
//!
//! A source is a file of `application/sources` that implements `Source`, and a line of the registration in `sources.rs`; a sink is a file
//! of `application/sinks` that implements `Sink`, and a line in `sinks.rs`. Both are dispatched statically. `records.rs` in each folder is
//! an example, registered in tests only. For plans to have it, a source needs a constructor of [`Payload`], and a sink a variant of
//! [`program::Until`].
//!
//! Records of TLS belong there: a source that wraps a source, and a sink that wraps a sink, as both examples do with records that are masked
//! instead of encrypted. Where a record begins follows from the offset, so that any piece of it can be sealed again. What TLS adds to
//! that: keys and numbers of records outlive a message, unlike the progress of a sink, and are kept beside a flow's cursor in `reader.rs`;
//! that holds a record until all of it has come, as it holds bytes out of order; and the handshake comes before the first instruction,
//! as what it sends depends on what the peer sent.
//!
//! # Adding an instruction
//!
//! 1. `program/instructions/NAME.rs` says what is known of it before a flow executes it, as `Effects`: what it sends, which also counts for
//!    the load of ports; what it waits for; what it changes; where it leads; and what may be wrong with it. All checks of programs read
//!    that, and name no instruction.
//! 2. `program/instructions.rs` has its variant of [`Instruction`], and the row that leads to the file.
//! 3. `application.rs` has the arm that executes it: the only other match over all instructions.
//!
//! An effect that none had before is a new field of [`Effects`](program::effects::Effects), and a check.
//!
//! ```
//! use spate_stateful::{
//!     Instruction::{Accept, Close, Connect, Receive, Send},
//!     Program, Protocol,
//!     program::{Programs, check},
//! };
//!
//! // A client that waits for 100 bytes, and a server that sends none: found before a flow starts.
//! let program = |steps: Vec<_>| Program { instructions: steps.into(), counters: Box::default() };
//! let client = program(vec![Connect, Send { payload: 0, wait: false }, Receive { bytes: 100, clear: false }]);
//! let server = program(vec![Accept, Receive { bytes: 64, clear: false }, Close]);
//! let template = Programs { protocol: Protocol::Tcp, client: Some(&client), server: Some(&server) };
//! let faults = check(&[template], &[64]);
//! assert!(faults[0].to_string().contains("waits for 100 bytes, of which the server sends 0"));
//! ```
#![forbid(unsafe_code)]

mod access;
mod application;
pub mod arrivals;
pub mod counters;
pub mod emulation;
pub mod envelope;
mod field_path;
pub mod flow;
mod ignored;
mod leased;
pub mod offload;
pub mod payload;
pub mod pool;
pub mod program;
mod protocol;
pub mod random;
mod ratio;
pub mod records;
pub mod scenario;
mod sending;
pub mod slab;
pub mod stack;
pub mod table;
pub mod tcp;
mod time_wait;
pub mod tunnel;
pub mod tuples;
mod udp;
pub mod wheel;

pub use spate_net::{Address, packet};

pub use application::sinks as message;

pub use counters::{COUNTERS, Count, Counters};
pub use emulation::{Emulation, EmulationError};
pub use field_path::FieldPath;
pub use ignored::IgnoredSources;
pub use leased::{LeasedAddress, LeasedAddresses};
pub use offload::{HeaderLengths, OffloadRequest, Offloads, Segmentation};
pub use payload::Payload;
pub use pool::{Part, Pool, WeightedPool};
pub use program::{Comparison, Instruction, Program};
pub use protocol::Protocol;
pub use ratio::Ratio;
pub use records::{End, Record, Recorder};
pub use scenario::{Client, CongestionControl, Scenario, Server, Template, Tunables};
pub use stack::{
    Hints, MovedRouter, Neighbours, NextHops, NotOpened, Opening, PortLink, Prefetched, Received, Stack, Tuple,
};
pub use tunnel::{gre, gtpu, mpls, vxlan};
