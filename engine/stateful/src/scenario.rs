// SPDX-License-Identifier: Apache-2.0
//! What is emulated: templates with their programs, addresses and settings, checked and with all defaults filled in.
use crate::{
    IgnoredSources, Part, Payload, Pool, Program, Protocol, Ratio, WeightedPool, arrivals,
    program::effects::{Awaited, Opens},
};

/// All stateful traffic of a plan, as every worker has it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Payloads of programs.
    pub payloads: Vec<Payload>,
    /// Addresses. Of pools of clients the engine's own are taken; of pools of servers all are connected to, and the engine's own are
    /// answered for.
    pub pools: Vec<Pool>,
    /// In order: the first whose servers match a new flow serves it.
    pub templates: Vec<Template>,
    /// Maximum of a worker's flows, each side of a flow counted for itself.
    pub most_flows: usize,
    /// How rates rise at the start.
    pub ramp_up: arrivals::RampUp,
    /// Which template's flow is next.
    pub order: arrivals::Order,
    /// Sources whose packets of no open flow are dropped; most scenarios have none.
    pub ignored: Option<IgnoredSources>,
}

impl Scenario {
    /// Variables that a flow needs.
    pub fn variables(&self) -> usize {
        let programs = self.templates.iter().flat_map(|template| {
            let client = template.client.iter().map(|client| &client.program);
            client.chain(template.server.iter().map(|server| &server.program))
        });
        programs.map(Program::variables).max().unwrap_or(0)
    }

    /// Whether any program opens connections of other templates.
    pub fn opens(&self) -> bool {
        self.opened().next().is_some()
    }

    /// Templates of which programs open connections, or name them for that; some may be there several times.
    pub fn opened(&self) -> impl Iterator<Item = usize> {
        let programs = self.templates.iter().filter_map(|template| template.client.as_ref());
        let instructions = programs.flat_map(|client| &client.program.instructions);
        // An instruction without a template opens one that another instruction names.
        let named = instructions.filter_map(|instruction| instruction.effects().opens).flat_map(Opens::named);
        named.map(|template| template as usize)
    }

    /// Which part of the flows this engine begins: that which it has of its clients' pools, of each the same.
    pub fn client_part(&self) -> Part {
        let mut emulated = self.templates.iter().filter(|template| template.client.is_some());
        let clients = emulated.find_map(|template| template.clients.first());
        clients.map_or(Part::WHOLE, |clients| self.pools[clients.pool].part())
    }

    /// Which part of a template's flows this engine serves: that which it has of the servers' addresses; where it has all of them, on a
    /// loopback port, that of its clients'.
    pub fn server_part(&self, template: usize) -> Part {
        let Template { clients, servers, .. } = &self.templates[template];
        let part = |side: &[WeightedPool]| side.first().map_or(Part::WHOLE, |first| self.pools[first.pool].part());
        Some(part(servers)).filter(|part| *part != Part::WHOLE).unwrap_or_else(|| part(clients))
    }

    /// Whether a template with clients or servers on a port takes a pool that may have multicast addresses.
    pub fn allows_multicast(&self, port: usize) -> bool {
        let there = self.templates.iter().filter(|template| {
            let (client, server) = (template.client.as_ref(), template.server.as_ref());
            client.is_some_and(|client| client.port == port) || server.is_some_and(|server| server.port == port)
        });
        let mut pools = there.flat_map(|template| template.clients.iter().chain(&template.servers));
        pools.any(|weighted| self.pools[weighted.pool].allow_multicast)
    }
}

/// One emulated application.
#[derive(Clone, Debug)]
pub struct Template {
    /// Unique.
    pub name: String,
    /// Templates counted together have the same.
    pub group: String,
    /// Protocol of its flows.
    pub protocol: Protocol,
    /// Servers listen on it.
    pub destination_port: u16,
    /// Where its clients are; not empty if they are emulated here.
    pub clients: Vec<WeightedPool>,
    /// Where clients connect to, emulated here or not, and what emulated servers answer for.
    pub servers: Vec<WeightedPool>,
    /// Its clients, if they are emulated here.
    pub client: Option<Client>,
    /// Its servers, if they are emulated here.
    pub server: Option<Server>,
    /// Whether clients and servers are on one loopback port: frames arrive as they are sent.
    pub looped: bool,
    /// Seed of random delays and random addresses.
    pub seed: u64,
    /// Round trips of messages are measured.
    pub latency: bool,
}

impl Template {
    /// By what its server knows flows; nothing: it takes any.
    pub(crate) fn first_bytes(&self) -> &[(u32, Box<[u8]>)] {
        self.server.as_ref().map_or(&[], |server| &server.matches)
    }

    /// Whether a program of it waits for an end that is not known by a number of bytes.
    pub(crate) fn receives_until(&self) -> bool {
        let client = self.client.iter().map(|client| &client.program);
        let programs = client.chain(self.server.iter().map(|server| &server.program));
        let mut instructions = programs.flat_map(|program| &program.instructions);
        instructions.any(|instruction| matches!(instruction.effects().waits_for, Some(Awaited::End(_))))
    }
}

/// The client side of a template.
#[derive(Clone, Debug)]
pub struct Client {
    /// Index of the engine's port.
    pub port: usize,
    /// Program of the clients.
    pub program: Program,
    /// Its transport's settings.
    pub tunables: Tunables,
    /// New flows a second over all workers of all engines, as a fraction; 0 of something: only programs of other templates open them.
    pub rate: Ratio,
    /// No more flows than this over all workers of all engines; 0 means no limit.
    pub limit: u64,
    /// No more flows than this at a time over all workers of all engines; 0 means no limit.
    pub most_open: u64,
}

/// The server side of a template.
#[derive(Clone, Debug)]
pub struct Server {
    /// Index of the engine's port.
    pub port: usize,
    /// Program of the servers.
    pub program: Program,
    /// Its transport's settings.
    pub tunables: Tunables,
    /// Serves flows whose first bytes have these at these offsets; none: any.
    pub matches: Vec<(u32, Box<[u8]>)>,
}

/// Congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// RFC 9438.
    Cubic,
    /// RFC 5681 and RFC 6582.
    NewReno,
}

/// Settings of one side's transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunables {
    /// IPv4 type of service, IPv6 traffic class.
    pub tos: u8,
    /// IPv4 time to live, IPv6 hop limit.
    pub ttl: u8,
    /// Largest segment in bytes, of data and options, as announced (RFC 9293 section 3.7.1).
    pub mss: u16,
    /// Segments (RFC 6928).
    pub initial_window: u8,
    /// Bytes.
    pub receive_buffer: u32,
    /// Bytes.
    pub send_buffer: u32,
    /// Duplicate acknowledgements that start fast retransmission.
    pub duplicate_ack_threshold: u8,
    /// Longest that an acknowledgement waits; 0: not at all.
    pub delayed_ack_ns: u64,
    /// Lowest retransmission timeout.
    pub minimum_rto_ns: u64,
    /// A handshake that takes longer fails.
    pub connect_timeout_ns: u64,
    /// Silence before keepalives are sent; 0: never.
    pub keepalive_idle_ns: u64,
    /// Between keepalives; after 8 without an answer the connection is dropped.
    pub keepalive_interval_ns: u64,
    /// Nagle's algorithm is off.
    pub no_delay: bool,
    /// How the congestion window grows.
    pub congestion_control: CongestionControl,
    /// Timestamps (RFC 7323) are offered and accepted.
    pub timestamps: bool,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Window scaling (RFC 7323).
    pub window_scale: bool,
    /// Explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Length of TIME-WAIT.
    pub time_wait_ns: u64,
    /// Segments to closed ports are not answered.
    pub blackhole: bool,
}

impl Default for Tunables {
    fn default() -> Self {
        Self {
            tos: 0,
            ttl: 64,
            mss: 1460,
            initial_window: 10,
            receive_buffer: 1 << 20,
            send_buffer: 1 << 20,
            duplicate_ack_threshold: 3,
            delayed_ack_ns: 40_000_000,
            minimum_rto_ns: 200_000_000,
            connect_timeout_ns: 75_000_000_000,
            keepalive_idle_ns: 0,
            keepalive_interval_ns: 75_000_000_000,
            no_delay: false,
            congestion_control: CongestionControl::Cubic,
            timestamps: true,
            sack: true,
            window_scale: true,
            ecn: false,
            time_wait_ns: 1_000_000_000,
            blackhole: false,
        }
    }
}
