// SPDX-License-Identifier: Apache-2.0
//! Cases of emulated applications, both ends on one loopback and one worker: their plans.
use contract::{
    Delay, Instruction, Nothing, Payload, Plan, Pool, Program, Ratio, Receive, ReceiveMessages, Send, SendMessage,
    Stateful, Template, Timing, TransportProtocol, Tunables, WeightedPool, instruction::Kind, payload,
};

use crate::cases::TAG;
use crate::port_names::PORT;

/// Flows a second: more than a worker can begin. Each one that is overdue is counted at the end, so not many more.
const FLAT_OUT: u64 = 5_000_000;
/// Flows that are open at a time where as many begin as can: enough that the worker never waits for their delayed acknowledgements.
const OPEN: u64 = 1000;
/// How long an end that closed first is kept, in ns: stated, and part of what is measured.
pub const TIME_WAIT_NS: u64 = 1_000_000_000;
/// Slots for flows where as many begin as can: those open, and those in TIME-WAIT.
const SLOTS: u64 = 2_000_000;

/// One line of the table.
pub struct Case {
    pub name: &'static str,
    pub kind: Kinds,
    pub ip: Ip,
}

/// Which IP its flows go over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ip {
    V4,
    V6,
}

/// What its flows do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kinds {
    /// A request and a response, from SYN to the last FIN; sizes in bytes. The window before the first acknowledgement in
    /// segments.
    Exchange { request: u64, response: u64, initial_window: u32 },
    /// A datagram and its answer.
    Datagrams { request: u64, response: u64 },
    /// Number of connections that do nothing for a while, then move this many bytes, then close.
    Idle { connections: u64, bytes: u64 },
}

/// Every case, in the order of the table.
pub const CASES: &[Case] = &[
    Case { name: "short-connections", kind: SHORT, ip: Ip::V4 },
    Case { name: "short-connections-ipv6", kind: SHORT, ip: Ip::V6 },
    Case { name: "paper-32k", kind: Kinds::Exchange { request: 100, response: 32_768, initial_window: 2 }, ip: Ip::V4 },
    Case { name: "udp", kind: Kinds::Datagrams { request: 64, response: 128 }, ip: Ip::V4 },
    Case { name: "idle-1m", kind: Kinds::Idle { connections: 500_000, bytes: 1024 }, ip: Ip::V4 },
    Case { name: "idle-4m", kind: Kinds::Idle { connections: 2_000_000, bytes: 1024 }, ip: Ip::V4 },
    Case { name: "idle-4m-ipv6", kind: Kinds::Idle { connections: 2_000_000, bytes: 1024 }, ip: Ip::V6 },
    Case { name: "idle-10m", kind: Kinds::Idle { connections: 5_000_000, bytes: 1024 }, ip: Ip::V4 },
];

const SHORT: Kinds = Kinds::Exchange { request: 100, response: 100, initial_window: 10 };

/// The case of a name.
pub fn find(name: &str) -> Option<&'static Case> {
    CASES.iter().find(|case| case.name == name)
}

/// Connections a second that idle cases open.
pub const OPENINGS: u64 = 150_000;
/// After the last has started, in ns: SYNs that are lost again and again are, too.
const REST_NS: u64 = 16_000_000_000;

/// How long the connections of an idle case do nothing, in ns: until all are open, and a little more.
pub fn idle_ns(connections: u64) -> u64 {
    connections * 1_000_000_000 / OPENINGS + REST_NS
}

/// A UDP flow of which a datagram was lost ends after this.
const SILENCE: Kind = Kind::KeepaliveNs(500_000_000);

/// All that run flat out beside each other, at this many flows a second together, equally often of each; this many are open at most of
/// each, 0 for any number. What is open at the end has `drain_ns`.
pub fn mix(run_id: &str, rate: u64, most_open: u64, drain_ns: u64) -> Plan {
    let cases: Vec<_> = CASES.iter().filter(|case| case.is_flat_out()).collect();
    let each = rate / cases.len() as u64;
    let template = |(index, case): (usize, &&Case)| {
        let first_pool = if case.ip == Ip::V4 { 0 } else { 2 };
        Template { most_open, ..case.template(index as u32, first_pool, each) }
    };
    let payloads = cases.iter().flat_map(|case| case.payloads()).collect();
    let pools = [Ip::V4, Ip::V6].into_iter().flat_map(pools).collect();
    let timing = Some(Timing { drain_ns, ..Timing::default() });
    Plan { timing, ..plan(run_id, cases.iter().enumerate().map(template).collect(), pools, payloads, SLOTS) }
}

/// Clients' and servers'.
fn pools(ip: Ip) -> [Pool; 2] {
    let pool = |name: &str, first: &[u8], last: &[u8]| Pool {
        name: name.into(),
        first: first.to_vec().into(),
        last: last.to_vec().into(),
        ..Pool::default()
    };
    match ip {
        Ip::V4 => {
            [pool("clients", &[16, 0, 0, 0], &[16, 0, 255, 255]), pool("servers", &[48, 0, 0, 0], &[48, 0, 0, 255])]
        }
        Ip::V6 => {
            let of = |link: u128, host: u128| (0x2001_0db8_u128 << 96 | link << 64 | host).to_be_bytes();
            [pool("clients-ipv6", &of(16, 0), &of(16, 0xffff)), pool("servers-ipv6", &of(48, 0), &of(48, 0xff))]
        }
    }
}

fn plan(run_id: &str, templates: Vec<Template>, pools: Vec<Pool>, payloads: Vec<Payload>, most_flows: u64) -> Plan {
    Plan {
        run_id: run_id.to_owned(),
        profile: "bench".into(),
        namespace: "bench".into(),
        run_tag: TAG,
        timing: Some(Timing { drain_ns: DRAIN_NS, ..Timing::default() }),
        stateful: Some(Stateful { payloads, pools, templates, most_flows, ..Stateful::default() }),
        ..Plan::default()
    }
}

/// What flows that are open at a run's end have, in ns.
pub const DRAIN_NS: u64 = 10_000_000_000;
/// Drain of runs of which no flow may be left. Of 1 in 6 million flows four SYNs in a row are lost where one packet in 100 is: the next
/// leaves after 15 s.
pub const LONG_DRAIN_NS: u64 = 60_000_000_000;

fn step(kind: Kind) -> Instruction {
    Instruction { kind: Some(kind) }
}

fn program(steps: impl IntoIterator<Item = Kind>) -> Program {
    Program { instructions: steps.into_iter().map(step).collect(), ..Program::default() }
}

fn send(payload: u32) -> Kind {
    Kind::Send(Send { payload, wait: false })
}

fn receive(bytes: u64) -> Kind {
    Kind::Receive(Receive { bytes, clear: true })
}

impl Case {
    /// Whether as many flows start as can.
    pub fn is_flat_out(&self) -> bool {
        !matches!(self.kind, Kinds::Idle { .. })
    }

    /// Plan of the case, until stopped; at the maximum rate with this many flows, 0 for no limit.
    pub fn plan(&self, flows: u64) -> Plan {
        let (rate, limit, most_open, most_flows) = match self.kind {
            Kinds::Idle { connections, .. } => (OPENINGS, connections, 0, 2 * connections),
            _ => (FLAT_OUT, flows, OPEN, SLOTS),
        };
        let template = Template { limit, most_open, ..self.template(0, 0, rate) };
        plan(self.name, vec![template], pools(self.ip).to_vec(), self.payloads().to_vec(), most_flows)
    }

    /// Bytes of a request and of a response.
    fn sizes(&self) -> [u64; 2] {
        match self.kind {
            Kinds::Exchange { request, response, .. } | Kinds::Datagrams { request, response } => [request, response],
            Kinds::Idle { bytes, .. } => [bytes, bytes],
        }
    }

    /// A request and a response.
    fn payloads(&self) -> [Payload; 2] {
        self.sizes().map(|bytes| Payload { content: Some(payload::Content::Size(bytes)), fields: Vec::new() })
    }

    /// Template of the case as number `index` of a plan, between the clients of `first_pool` and the servers of the next, at this many
    /// flows a second.
    fn template(&self, index: u32, first_pool: u32, rate: u64) -> Template {
        let (client, server) = self.programs(2 * index);
        let window = if let Kinds::Exchange { initial_window, .. } = self.kind { initial_window } else { 10 };
        let mss = if self.ip == Ip::V4 { 1460 } else { 1440 };
        let tunables = Tunables { mss, initial_window: window, time_wait_ns: TIME_WAIT_NS, ..Tunables::default() };
        let protocol = match self.kind {
            Kinds::Datagrams { .. } => TransportProtocol::Udp,
            _ => TransportProtocol::Tcp,
        };
        let of = |pool| vec![WeightedPool { pool, weight: 1 }];
        Template {
            name: self.name.into(),
            protocol: protocol.into(),
            client_port: PORT.into(),
            server_port: PORT.into(),
            client: Some(client),
            server: Some(server),
            destination_port: 80 + index,
            flows_per_second: Some(Ratio { numerator: rate, denominator: 1 }),
            clients: of(first_pool),
            servers: of(first_pool + 1),
            client_tunables: Some(tunables),
            server_tunables: Some(tunables),
            ..Template::default()
        }
    }

    /// What clients and servers do; their payloads begin at an index.
    fn programs(&self, payloads: u32) -> (Program, Program) {
        let [request, response] = self.sizes();
        let messages = || Kind::ReceiveMessages(ReceiveMessages { messages: 1, clear: true });
        let send_message = |payload| Kind::SendMessage(SendMessage { payload });
        match self.kind {
            Kinds::Exchange { .. } => (
                program([Kind::Connect(Nothing {}), send(payloads), receive(response), Kind::Close(Nothing {})]),
                program([Kind::Accept(Nothing {}), receive(request), send(payloads + 1), Kind::Close(Nothing {})]),
            ),
            Kinds::Datagrams { .. } => (
                program([SILENCE, send_message(payloads), messages(), Kind::Close(Nothing {})]),
                program([SILENCE, messages(), send_message(payloads + 1), Kind::Close(Nothing {})]),
            ),
            Kinds::Idle { connections, .. } => {
                let idle = idle_ns(connections);
                (
                    program([
                        Kind::Connect(Nothing {}),
                        Kind::Delay(Delay { min_ns: idle, max_ns: idle }),
                        send(payloads),
                        receive(response),
                        Kind::Close(Nothing {}),
                    ]),
                    program([
                        Kind::Accept(Nothing {}),
                        receive(request),
                        send(payloads + 1),
                        Kind::WaitForPeerClose(Nothing {}),
                        Kind::Close(Nothing {}),
                    ]),
                )
            }
        }
    }
}
