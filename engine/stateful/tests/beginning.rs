// SPDX-License-Identifier: Apache-2.0
//! Flows that are due begin: how many at once, between which endpoints, and which of them late?
mod net;

use std::sync::Arc;

use net::{CLIENT_PORT, MS, Net, Path, SERVER_PORT, request_response, scenario};
use spate_stateful::{
    Address, Count, Emulation, EmulationError, Payload, Pool, PortLink, Protocol, Ratio, Scenario,
    payload::{Field, Values},
    pool::Order,
    tcp::Output,
    tuples::{Sharding, Share},
};

/// Number of flows due a second.
fn clients(rate: u64) -> Scenario {
    let (client, server, payloads) = request_response(10, 10);
    let mut of = scenario(Protocol::Tcp, client, server, payloads);
    of.templates[0].client.as_mut().expect("clients").rate = Ratio::new(rate, 1);
    of
}

/// A worker on ports that nothing leaves.
fn worker(of: Scenario, share: Share) -> Result<Emulation, EmulationError> {
    let links = [PortLink { mac: [2; 6], next_hop: [4; 6] }; CLIENT_PORT + 2];
    Emulation::new(Arc::new(of), share, Sharding::ByNumber, Box::new(|_, _, _| true), &links, 1, 0)
}

/// An output whose frames are never answered.
struct Nowhere(Vec<u8>);

impl Output for Nowhere {
    fn frame(&mut self, len: usize) -> Option<&mut [u8]> {
        self.0.resize(len, 0);
        Some(&mut self.0)
    }
}

/// One alone.
fn emulation(of: Scenario) -> Emulation {
    worker(of, Share { worker: 0, workers: 1 }).expect("a share")
}

fn at_most(most_open: u64) -> Scenario {
    let mut of = clients(100_000);
    of.templates[0].client.as_mut().expect("clients").most_open = most_open;
    of
}

/// Of flows due each millisecond from 0 on, how many are late if the worker looks for the first time at 10 ms.
fn late(late_after_ns: Option<u64>) -> (u64, u64) {
    let emulation = emulation(clients(1000));
    let mut emulation = match late_after_ns {
        Some(late_after_ns) => emulation.late_after(late_after_ns),
        None => emulation,
    };
    emulation.start(0);
    emulation.advance(10 * MS, 10 * MS, false);
    let counters = emulation.counters(0, true);
    (counters.get(Count::FlowsAttempted), counters.get(Count::FlowsLate))
}

#[test]
fn a_flow_is_late_after_the_time_given() {
    let (started, late_of_default) = late(None);
    assert!((10..=11).contains(&started), "{started} flows");
    // Those due at 0 to 8 ms began more than 1 ms after their time.
    assert!((8..=9).contains(&late_of_default), "{late_of_default} late");
    let (started, late_of_kernel) = late(Some(20 * MS));
    assert!((10..=11).contains(&started), "{started} flows");
    assert_eq!(late_of_kernel, 0);
}

#[test]
fn no_more_are_open_than_may_be_though_many_are_due_at_once() {
    for most_open in [1, 7, 8, 9, 20] {
        let mut emulation = emulation(at_most(most_open));
        emulation.start(0);
        for turn in 1..=3 {
            let now = turn * MS;
            while emulation.advance(now, now, false) {}
            let counters = emulation.counters(0, true);
            assert_eq!(counters.get(Count::FlowsAttempted), most_open);
            assert_eq!(emulation.open_flows(0, true), most_open);
            // All others that are due wait, and are counted once each; the first is due at the start.
            assert_eq!(
                counters.get(Count::OpenLimitWaits),
                100 * turn + 1 - most_open,
                "of {most_open}, in turn {turn}"
            );
        }
    }
}

#[test]
fn a_template_at_its_limit_holds_up_no_other() {
    let mut of = at_most(3);
    let second = of.templates[0].clone();
    of.templates.push(second);
    of.templates[1].client.as_mut().expect("clients").most_open = 0;
    // Nobody answers, and each gives up.
    of.templates[0].client.as_mut().expect("clients").tunables.connect_timeout_ns = 50 * MS;
    for template in &mut of.templates {
        template.client.as_mut().expect("clients").rate = Ratio::new(100, 1);
    }
    let mut emulation = emulation(of);
    emulation.start(0);
    for turn in 0..3000 {
        emulation.advance(turn * MS, turn * MS, false);
        emulation.transmit(CLIENT_PORT, turn * MS, &mut Nowhere(vec![]));
    }
    assert!(emulation.begins(), "some wait");
    emulation.stop(3000 * MS);
    emulation.give_up();
    let count = |template| {
        let all = [Count::FlowsAttempted, Count::FlowsThrottled, Count::FlowsNotStarted];
        all.map(|count| emulation.counters(template, true).get(count))
    };
    assert_eq!(count(1), [300, 0, 0]);
    let [started, held, not_started] = count(0);
    // Three at a time, each for 50 ms and what is left of the iteration in which it gives up.
    assert!((170..=180).contains(&started), "{started} began");
    assert_eq!((started + held, not_started), (300, 0));
    assert!(!emulation.begins());
}

#[test]
fn flows_that_wait_for_others_are_neither_late_nor_the_workers_fault() {
    let mut of = at_most(2);
    of.templates[0].client.as_mut().expect("clients").rate = Ratio::new(1000, 1);
    // Nobody answers, and each gives up.
    of.templates[0].client.as_mut().expect("clients").tunables.connect_timeout_ns = 50 * MS;
    let mut emulation = emulation(of);
    emulation.start(0);
    for turn in 0..3000 {
        emulation.advance(turn * MS, turn * MS, false);
        emulation.transmit(CLIENT_PORT, turn * MS, &mut Nowhere(vec![]));
    }
    emulation.stop(3000 * MS);
    emulation.give_up();
    let counters = emulation.counters(0, true);
    let started = counters.get(Count::FlowsAttempted);
    // Two at a time, each for 50 ms and what is left of the iteration in which it gives up.
    assert!((112..=120).contains(&started), "{started} began");
    assert_eq!(counters.get(Count::FlowsLate), 0);
    assert_eq!(started + counters.get(Count::FlowsThrottled), 3000);
    assert_eq!(counters.get(Count::FlowsNotStarted), 0);
}

#[test]
fn flows_that_wait_for_others_do_not_begin_while_their_template_stands() {
    let mut of = at_most(2);
    of.templates[0].client.as_mut().expect("clients").tunables.connect_timeout_ns = 50 * MS;
    let (of, share) = (Arc::new(of), Share { worker: 0, workers: 1 });
    let pauses: [fn(&mut Emulation, &Scenario, Share, bool); 2] = [
        |emulation, _, _, stand| emulation.change_rate(MS, if stand { Ratio::ZERO } else { Ratio::ONE }),
        |emulation, of, share, stand| {
            let rate = if stand { Ratio::ZERO } else { Ratio::new(100_000, 1) };
            let flow_schedule = Emulation::flow_schedule(of, &[rate], share).expect("a row");
            emulation.change_rates(if stand { MS } else { 3000 * MS }, flow_schedule);
        },
    ];
    for pause in pauses {
        let mut emulation = emulation(Scenario::clone(&of));
        let run = |emulation: &mut Emulation, from, to| {
            for turn in from..to {
                emulation.advance(turn * MS, turn * MS, false);
                emulation.transmit(CLIENT_PORT, turn * MS, &mut Nowhere(vec![]));
            }
            emulation.counters(0, true).get(Count::FlowsAttempted)
        };
        emulation.start(0);
        assert_eq!(run(&mut emulation, 0, 1), 1);
        pause(&mut emulation, &of, share, true);
        assert_eq!(run(&mut emulation, 1, 3000), 2);
        assert!(emulation.open_flows(0, true) == 0 && emulation.begins(), "some wait");
        pause(&mut emulation, &of, share, false);
        assert_eq!(run(&mut emulation, 3000, 3002), 4);
    }
}

#[test]
fn fewer_at_a_time_than_workers_are_refused() {
    let shares = || (0..3).map(|number| Share { worker: number, workers: 3 });
    let problem = worker(at_most(2), shares().next().expect("one")).expect_err("one would have none");
    assert_eq!(problem.to_string(), "2 connections at a time cannot be shared out to 3 workers; must be at least 3");
    let open = shares().map(|share| {
        let mut emulation = worker(at_most(4), share).expect("a share");
        emulation.start(0);
        emulation.advance(MS, MS, false);
        emulation.open_flows(0, true)
    });
    assert_eq!(open.collect::<Vec<_>>(), [2, 1, 1]);
}

#[test]
fn flows_that_begin_together_have_tuples_of_their_own() {
    let mut of = clients(100_000);
    let one = |octets| Pool::new(Address::v4(octets), Address::v4(octets), Order::Sequential).expect("a pool");
    of.pools = vec![one(0x1000_0001), one(0x3000_0001)];
    let ports = &mut of.pools[0].source_ports;
    ports.highest = ports.lowest + 4;
    let mut emulation = emulation(of);
    emulation.start(0);
    emulation.advance(MS / 10, MS / 10, false);
    let counters = emulation.counters(0, true);
    assert_eq!(counters.get(Count::FlowsAttempted), 5);
    assert_eq!(counters.get(Count::PortsExhausted), 6);
}

#[test]
fn servers_of_several_workers_number_their_flows_apart() {
    for (worker, workers) in [(0, 1), (1, 3)] {
        let (client, server, mut payloads) = request_response(10, 6);
        let number = Field { offset: 0, values: Values::Counter { first: 0, step: 1, width: 6 } };
        payloads[1] = Payload::pattern(6).with_fields([number]).expect("it is in the answer");
        let mut net = Net::new(scenario(Protocol::Tcp, client, server, payloads), Path::default());
        net.stack.set_worker(worker, workers);
        net.record = true;
        (0..4).for_each(|_| net.open(0));
        net.run_for(1000 * MS);
        let answers = net.sent.iter().filter(|sent| sent.1 == SERVER_PORT && sent.2.len() == 54 + 12 + 6);
        let texts: Vec<_> = answers.map(|sent| String::from_utf8_lossy(&sent.2[66..]).into_owned()).collect();
        let expected = (0..4).map(|n| format!("{:06}", n * workers + worker));
        assert_eq!(texts, expected.collect::<Vec<_>>());
    }
}
