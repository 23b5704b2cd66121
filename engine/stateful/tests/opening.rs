// SPDX-License-Identifier: Apache-2.0
//! Programs open connections of other templates: from whose address, for how long do they wait, and what if there is no connection?
mod net;

use std::{collections::BTreeMap, sync::Arc};

use net::{CLIENT_PORT, Host, LINKS, MS, Net, Path, request_response, scenario};
use spate_stateful::{
    Comparison, Count, Emulation, Instruction, Pool, Program, Protocol, Ratio, Received, Scenario, Tunables,
    pool::Order,
    tcp::Output,
    tuples::{Sharding, Share},
};

const OPENERS: u64 = 20;
const SECOND: u64 = 1000 * MS;

/// A worker on a network.
struct Worker(Emulation);

impl Host for Worker {
    fn advance(&mut self, now_ns: u64) {
        self.0.advance(now_ns, now_ns, false);
    }

    fn receive(&mut self, port: usize, frame: &[u8], now_ns: u64) -> Received {
        self.0.receive(port, frame, now_ns)
    }

    fn is_ready(&self, port: usize) -> bool {
        self.0.is_ready(port)
    }

    fn transmit(&mut self, port: usize, now_ns: u64, out: &mut impl Output) {
        self.0.transmit(port, now_ns, out);
    }

    fn next_due_ns(&self) -> Option<u64> {
        self.0.next_due_ns()
    }
}

fn program(instructions: Vec<Instruction>) -> Program {
    Program { instructions: instructions.into(), counters: ["waited".to_owned()].into() }
}

fn open(template: u32) -> Instruction {
    Instruction::OpenConnection { template: Some(template) }
}

const UNNAMED: Instruction = Instruction::OpenConnection { template: None };

fn named(templates: &[u32]) -> Instruction {
    Instruction::NextTemplate { templates: templates.into() }
}

fn delay(ns: u64) -> Instruction {
    Instruction::Delay { min_ns: ns, max_ns: ns }
}

/// Template 0 with this client, of which 20 flows start in a tenth of a second; and two others that only programs open.
fn opening(client: Vec<Instruction>) -> Scenario {
    let (asks, answers, payloads) = request_response(100, 3000);
    let mut of = scenario(Protocol::Tcp, asks, answers, payloads);
    for template in &mut of.templates {
        template.client.as_mut().expect("clients").tunables = brief();
        template.server.as_mut().expect("servers").tunables = brief();
    }
    let other = of.templates[0].clone();
    let opener = of.templates[0].client.as_mut().expect("clients");
    (opener.rate, opener.limit, opener.program) = (Ratio::new(10 * OPENERS, 1), OPENERS, program(client));
    let server = vec![Instruction::Accept, Instruction::WaitForPeerClose];
    of.templates[0].server.as_mut().expect("servers").program = program(server);
    for port in [81, 82] {
        let mut template = other.clone();
        template.destination_port = port;
        template.client.as_mut().expect("clients").rate = Ratio::ZERO;
        of.templates.push(template);
    }
    of
}

/// Connections that are forgotten soon.
fn brief() -> Tunables {
    Tunables { time_wait_ns: 10 * MS, ..Tunables::default() }
}

fn network(of: Scenario) -> Net<Worker> {
    let of = Arc::new(of);
    let share = Share { worker: 0, workers: 1 };
    let owned = Box::new(|_, _, _: &_| true);
    let mut emulation =
        Emulation::new(of.clone(), share, Sharding::ByNumber, owned, &LINKS, 7, net::START).expect("a share");
    emulation.start(net::START);
    let mut net = Net::of(Worker(emulation), of, Path::default());
    net.record = true;
    net
}

/// Of clients of templates.
fn count(net: &Net<Worker>, count: Count) -> [u64; 3] {
    [0, 1, 2].map(|template| net.stack.0.counters(template, true).get(count))
}

/// SYNs of clients: by source address, how many to each of the three templates' ports.
fn opened_from(net: &Net<Worker>) -> BTreeMap<[u8; 4], [u64; 3]> {
    let mut opened: BTreeMap<[u8; 4], [u64; 3]> = BTreeMap::new();
    for (_, _, frame) in net.sent.iter().filter(|(_, port, frame)| *port == CLIENT_PORT && frame[47] == 2) {
        let to = u16::from_be_bytes([frame[36], frame[37]]);
        opened.entry([frame[26], frame[27], frame[28], frame[29]]).or_default()[usize::from(to) - 80] += 1;
    }
    opened
}

#[test]
fn each_opener_opens_its_connections_one_after_the_other_from_its_own_address() {
    let mut net = network(opening(vec![Instruction::Connect, open(1), open(1), open(2), Instruction::Close]));
    for _ in 0..300 {
        net.run_for(MS);
        let open = [0, 1, 2].map(|template| net.stack.0.open_flows(template, true));
        assert!(open[1] + open[2] <= open[0], "each has one of them at a time: {open:?}");
    }
    net.run_for(2 * SECOND);
    for counted in [Count::FlowsAttempted, Count::FlowsEstablished, Count::FlowsClosed] {
        assert_eq!(count(&net, counted), [OPENERS, 2 * OPENERS, OPENERS]);
    }
    assert_eq!(net.stack.0.flows(), 0);
    let opened = opened_from(&net);
    assert_eq!(opened.len() as u64, OPENERS, "each has a client of its own");
    assert!(opened.values().all(|of| *of == [1, 2, 1]), "{opened:?}");
}

#[test]
fn an_opener_goes_on_when_its_connection_ends_however_it_ends() {
    for (server, ended) in [
        (vec![Instruction::Accept, Instruction::Reset], Count::ResetsReceived),
        // Nothing answers: the handshake fails.
        (vec![Instruction::Accept], Count::ConnectDrops),
    ] {
        let silent = server.len() == 1;
        let mut of = opening(vec![Instruction::Connect, open(1), Instruction::Close]);
        let tunables = &mut of.templates[1].client.as_mut().expect("clients").tunables;
        tunables.connect_timeout_ns = SECOND;
        of.templates[1].server.as_mut().expect("servers").program = program(server);
        if silent {
            of.templates[1].server = None;
            for server in of.templates.iter_mut().filter_map(|template| template.server.as_mut()) {
                server.tunables.blackhole = true;
            }
        }
        let mut net = network(of);
        net.run_for(5 * SECOND);
        assert_eq!(count(&net, Count::FlowsClosed), [OPENERS, OPENERS, 0]);
        assert_eq!(count(&net, ended)[1], OPENERS, "{ended:?}");
        assert_eq!(net.stack.0.flows(), 0);
    }
}

#[test]
fn what_cannot_be_opened_is_counted_and_the_opener_goes_on() {
    let mut of = opening(vec![Instruction::Connect, open(1), Instruction::Close]);
    // Both ends of all openers have slots, and there is none for more.
    of.most_flows = 2 * OPENERS as usize;
    of.templates[0].client.as_mut().expect("clients").rate = Ratio::new(1_000_000, 1);
    let mut net = network(of);
    net.run_for(5 * SECOND);
    assert_eq!(count(&net, Count::FlowsClosed)[0], OPENERS);
    let (opened, exhausted) = (count(&net, Count::FlowsAttempted)[1], count(&net, Count::FlowsExhausted)[1]);
    assert_eq!(opened + exhausted, OPENERS);
    assert!(exhausted > 0, "{opened} were opened");

    // A client has two source ports: the lanes of openers and of what they open have one each.
    let mut of = opening(vec![Instruction::Connect, open(1), Instruction::Close]);
    of.pools[0].source_ports.lowest = of.pools[0].source_ports.highest - 1;
    // The first connection is there still, in TIME-WAIT, when the second is opened.
    let twice = vec![Instruction::Connect, open(1), open(1), Instruction::Close];
    of.templates[0].client.as_mut().expect("clients").program = program(twice);
    of.templates[1].client.as_mut().expect("clients").tunables.time_wait_ns = SECOND;
    let server = of.pools[1].address(0);
    of.pools[1] = Pool::new(server, server, Order::Sequential).expect("a pool");
    let mut net = network(of);
    net.run_for(5 * SECOND);
    assert_eq!(count(&net, Count::FlowsClosed), [OPENERS, OPENERS, 0]);
    assert_eq!(count(&net, Count::PortsExhausted), [0, OPENERS, 0]);
}

#[test]
fn what_an_opener_opened_outlives_it() {
    let mut of = opening(vec![Instruction::Connect, open(1), Instruction::Close]);
    let resets = vec![Instruction::Accept, delay(20 * MS), Instruction::Reset];
    of.templates[0].server.as_mut().expect("servers").program = program(resets);
    let slow = &mut of.templates[1].server.as_mut().expect("servers").program;
    slow.instructions = [&[Instruction::Accept, delay(SECOND)][..], &slow.instructions[1..]].concat().into();
    let mut net = network(of);
    net.run_for(SECOND / 2);
    assert_eq!([0, 1].map(|template| net.stack.0.open_flows(template, true)), [0, OPENERS]);
    net.run_for(5 * SECOND);
    assert_eq!(count(&net, Count::FlowsClosed), [OPENERS, OPENERS, 0]);
    assert_eq!(count(&net, Count::ResetsReceived), [OPENERS, 0, 0]);
    assert_eq!(net.stack.0.flows(), 0);
}

#[test]
fn a_connection_names_the_template_of_the_next() {
    let mut of = opening(vec![Instruction::Connect, named(&[1]), UNNAMED, UNNAMED, UNNAMED, Instruction::Close]);
    let first = &mut of.templates[1].client.as_mut().expect("clients").program;
    let names = named(&[2]);
    first.instructions = [&first.instructions[..], &[names]].concat().into();
    let mut net = network(of);
    net.run_for(3 * SECOND);
    assert_eq!(count(&net, Count::FlowsClosed), [OPENERS, OPENERS, 2 * OPENERS]);
}

#[test]
fn of_several_templates_one_is_drawn_evenly_for_each_connection() {
    const EACH: u64 = 50;
    let opens = vec![UNNAMED; EACH as usize];
    let client = [&[Instruction::Connect, named(&[1, 2])][..], &opens, &[Instruction::Close]].concat();
    let mut net = network(opening(client));
    net.run_for(20 * SECOND);
    let [openers, one, two] = count(&net, Count::FlowsClosed);
    assert_eq!((openers, one + two), (OPENERS, OPENERS * EACH));
    // Five standard deviations of the binomial distribution.
    assert!((421..=579).contains(&one), "{one} of 1,000");
    let opened = opened_from(&net);
    assert_eq!(opened.len() as u64, OPENERS);
    let (least, most) = (opened.values().map(|of| of[1]).min(), opened.values().map(|of| of[1]).max());
    // Each flow draws for itself: 3.5 deviations are 12.
    assert!(least < most && least >= Some(8) && most <= Some(42), "{opened:?}");
}

#[test]
fn several_templates_that_a_connection_names_are_those_of_the_next_connections() {
    let mut of = opening(vec![Instruction::Connect, named(&[1]), UNNAMED, UNNAMED, UNNAMED, Instruction::Close]);
    let first = &mut of.templates[1].client.as_mut().expect("clients").program;
    first.instructions = [&first.instructions[..], &[named(&[2, 1])]].concat().into();
    let mut net = network(of);
    net.run_for(3 * SECOND);
    let [openers, one, two] = count(&net, Count::FlowsClosed);
    assert_eq!((openers, one + two), (OPENERS, 3 * OPENERS));
    // Those of template 2 name nothing: the name before is kept.
    assert!(one > OPENERS && two > OPENERS / 2, "{one} and {two}");
}

#[test]
fn nothing_is_opened_as_long_as_nothing_is_named() {
    let never = Instruction::Jump { to: 3, variable: 0, comparison: Comparison::Equal, value: 0 };
    let mut net = network(opening(vec![Instruction::Connect, never, named(&[1]), UNNAMED, Instruction::Close]));
    net.run_for(SECOND);
    assert_eq!(count(&net, Count::FlowsAttempted), [OPENERS, 0, 0]);
    assert_eq!(count(&net, Count::FlowsClosed), [OPENERS, 0, 0]);
}

#[test]
fn clients_over_udp_open_connections_over_tcp() {
    let mut of = opening(vec![]);
    of.templates[0].protocol = Protocol::Udp;
    let client = vec![Instruction::Keepalive(10 * SECOND), open(1), open(2), Instruction::Close];
    of.templates[0].client.as_mut().expect("clients").program = program(client);
    let server = vec![Instruction::ReceiveMessages { messages: 1, clear: true }];
    of.templates[0].server.as_mut().expect("servers").program = program(server);
    let mut net = network(of);
    net.run_for(3 * SECOND);
    assert_eq!(count(&net, Count::FlowsClosed), [OPENERS, OPENERS, OPENERS]);
    assert_eq!(net.stack.0.flows(), 0);
}

#[test]
fn the_time_that_connections_took_is_counted() {
    let mark = Instruction::Mark { variable: 1 };
    let took = Instruction::CountTime { counter: 0, since: 1 };
    let mut of = opening(vec![Instruction::Connect, mark, open(1), took, Instruction::Close]);
    let slow = &mut of.templates[1].server.as_mut().expect("servers").program;
    slow.instructions = [&[Instruction::Accept, delay(50 * MS)][..], &slow.instructions[1..]].concat().into();
    let mut net = network(of);
    net.run_for(3 * SECOND);
    let counters = net.stack.0.counters(0, true);
    assert_eq!(counters.get(Count::ProgramCounts), OPENERS);
    let each = counters.programs().map(|(warmup, measured)| warmup + measured).sum::<u64>() / OPENERS;
    // Round trips of 2 ms besides: of the handshake, of request and answer, and of both ends.
    assert!((54 * MS..70 * MS).contains(&each), "{each} ns");
}
