// SPDX-License-Identifier: Apache-2.0
//! The control side: the runs an engine holds, and the contract's service over them.
//!
//! [`runs`] is the engine as every front end sees it (the service, the metrics, the command `run`), [`stats`] reads the
//! counters for all of them, [`capture`] copies packets, [`clients`] has the emulated clients of runs, [`ping`] sends echo requests, [`service`] serves gRPC to the operator, [`observer`] to those
//! that may only read, [`routing`] has BIRD speak routing protocols, [`stages`] changes rates within a run, [`trials`] says what a trial of a run is made of, [`machine`]
//! reports the machine, [`listen`] and [`tls`] decide who may call, [`lease`] stops runs that no caller asks about any more.
pub mod by_tag;
pub mod capture;
pub mod client_list;
pub mod client_stats;
pub mod clients;
pub mod groups;
pub mod instant;
pub mod latency;
pub mod lease;
pub mod listen;
pub mod machine;
pub mod next_hop;
pub mod observer;
pub mod outage;
pub mod ping;
pub mod receivers;
pub mod records;
pub mod routing;
pub mod runs;
pub mod service;
pub mod stages;
pub mod stats;
pub mod status;
pub mod tls;
pub mod trials;
pub mod watchdog;
