// SPDX-License-Identifier: Apache-2.0
//! The data path as a whole, on devices that every machine has: counts are exact, times are kept.
//!
//! Ordinary pages serve where hugepages may not be free. Tests take turns: they share two CPUs and one DPDK.
mod answers;
mod bond;
mod by_tag;
mod clients;
mod disturbed;
mod foreign;
mod gre;
mod groups;
mod gtpu;
mod jumbo;
mod kernel;
mod latency;
mod leased;
mod limit;
mod loopback;
mod marks;
mod membership;
mod memif;
mod mpls;
mod null;
mod offload;
mod other_mac;
mod outage;
mod own_mac;
#[path = "../../../peers/src/packet_socket.rs"]
mod packet_socket;
mod payloads;
mod punt;
mod records;
mod replay;
mod reporting;
mod saturated;
#[path = "../serving/mod.rs"]
mod serving;
mod setup;
mod several;
mod shared;
mod slow;
mod stateful;
mod steering;
mod timestamps;
mod vlans;
mod vxlan;
mod xdp;
