// SPDX-License-Identifier: Apache-2.0
//! Stateful traffic without I/O: emulated applications over TCP and UDP by the million, driven by a clock and by frames.
//!
//! A [`Scenario`] says what is emulated: templates with a client's and a server's program, their payloads and addresses. A
//! worker runs its share of it in a [`Stack`]: it is given frames as they arrive, asked for frames as there is room to send
//! them, and gets the time from its caller. It never waits, takes no lock, and once made allocates nothing.
//!
//! No flow has a buffer: unacknowledged data is a position in the program's payloads, and a packet is built when it is sent.
//!
//! ```
//! use spate_stateful::{
//!     Instruction::{Accept, Close, Connect, Receive, Send},
//!     Program, Protocol,
//!     program::{Programs, check},
//! };
//!
//! // A client that waits for 100 bytes, and a server that sends none: found before a flow begins.
//! let program = |steps: Vec<_>| Program { instructions: steps.into(), counters: Box::default() };
//! let client = program(vec![Connect, Send { payload: 0, wait: false }, Receive { bytes: 100, clear: false }]);
//! let server = program(vec![Accept, Receive { bytes: 64, clear: false }, Close]);
//! let template = Programs { protocol: Protocol::Tcp, client: Some(&client), server: Some(&server) };
//! let faults = check(&[template], &[64]);
//! assert!(faults[0].to_string().contains("waits for 100 bytes, of which the server sends 0"));
//! ```
#![forbid(unsafe_code)]

mod application;
pub mod arrivals;
pub mod counters;
pub mod emulation;
pub mod envelope;
pub mod flow;
pub mod gtpu;
mod ignored;
pub mod offload;
pub mod payload;
pub mod pool;
pub mod program;
pub mod random;
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
pub mod vxlan;
pub mod wheel;

pub use spate_net::{Address, packet};

pub use application::sinks as message;

pub use counters::{COUNTERS, Count, Counters};
pub use emulation::{Emulation, EmulationError};
pub use ignored::IgnoredSources;
pub use offload::{Cut, Finish, Layers, Offloads};
pub use payload::Payload;
pub use pool::{Part, Pool, WeightedPool};
pub use program::{Comparison, Instruction, Program};
pub use records::{End, Record, Recorder};
pub use scenario::{Client, CongestionControl, Protocol, Scenario, Server, Template, Tunables};
pub use stack::{Hints, MovedRouter, Neighbours, NextHops, NotOpened, Opening, PortLink, Received, Stack, Tuple};
