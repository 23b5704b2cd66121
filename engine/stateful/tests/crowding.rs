// SPDX-License-Identifier: Apache-2.0
//! More flows are due than there are slots: those that have one go on, the others are counted, and no client waits for a server
//! that has none.
mod net;

use net::{MS, Net, Path, request_response, scenario, with};
use spate_stateful::{Address, Count, Instruction, NotOpened, Payload, Protocol, Scenario, Tunables, Tuple};

const SLOTS: usize = 100;

/// Flows that end 10 ms after their last segment.
fn short() -> Scenario {
    let (client, server, payloads) = request_response(100, 100);
    let tunables = || Tunables { time_wait_ns: 10 * MS, ..Tunables::default() };
    let mut of = with(Protocol::Tcp, client, server, payloads, tunables(), tunables());
    of.most_flows = SLOTS;
    of
}

/// Starts this many each millisecond of a second. Returns how many began.
fn demand(net: &mut Net, each_ms: u64) -> u64 {
    let mut started = 0;
    for due in 0..1000 * each_ms {
        let address = |net: u32| Address::v4(net + (due % 250) as u32);
        let local_port = 1024 + (due / 250 % 60_000) as u16;
        let tuple = Tuple { local: address(0x1000_0000), remote: address(0x3000_0000), local_port, remote_port: 80 };
        match net.stack.open(0, due, &tuple, net.now) {
            Ok(()) => started += 1,
            Err(why) => assert_eq!(why, NotOpened::Exhausted),
        }
        if due % each_ms == 0 {
            net.run_for(MS);
        }
    }
    started
}

#[test]
fn ten_times_more_than_there_are_places_for_do_not_keep_the_others_from_ending() {
    for loss in [0, 20_000] {
        let mut net = Net::new(short(), Path { loss, ..Path::default() });
        let started = demand(&mut net, 20);
        let count = |net: &Net, client, count| net.count(client, count);
        assert_eq!(started + count(&net, true, Count::FlowsExhausted), 20_000, "all that were due");
        // Half of the slots are clients', and a flow takes about 20 ms; one that lost its SYN, a second.
        let least = if loss == 0 { 1800 } else { 500 };
        assert!(started > least, "{started} began, {loss} of a million lost");
        net.run_for(300_000 * MS);
        assert_eq!((count(&net, true, Count::FlowsClosed), net.stack.flows()), (started, 0));
        assert_eq!(count(&net, true, Count::FlowsEstablished), started, "{}", net.summary());
        // Servers that wait for an acknowledgement look like those whose clients wait: some SYNs come too early.
        assert!(count(&net, false, Count::FlowsExhausted) < started / 20, "{}", net.summary());
    }
}

#[test]
fn nor_do_they_over_udp() {
    let client = [Instruction::SendMessage { payload: 0 }, Instruction::ReceiveMessages { messages: 1, clear: true }];
    let server = [Instruction::ReceiveMessages { messages: 1, clear: true }, Instruction::SendMessage { payload: 0 }];
    let mut of = scenario(Protocol::Udp, client.into(), server.into(), vec![Payload::pattern(50)]);
    of.most_flows = SLOTS;
    let mut net = Net::new(of, Path::default());
    let started = demand(&mut net, 40);
    assert!(started > 10_000, "{started} began");
    net.run_for(60_000 * MS);
    assert_eq!((net.count(true, Count::MessagesReceived), net.stack.flows()), (started, 0), "{}", net.summary());
}

#[test]
fn as_many_as_there_are_places_for_have_them_all() {
    let mut of = short();
    of.templates[0].client.as_mut().expect("clients").tunables.time_wait_ns = 60_000 * MS;
    let mut net = Net::new(of, Path::default());
    for _ in 0..SLOTS / 2 {
        net.open(0);
    }
    net.run_for(1000 * MS);
    assert_eq!((net.count(true, Count::FlowsEstablished), net.count(false, Count::FlowsEstablished)), (50, 50));
}

#[test]
fn clients_alone_have_all_slots() {
    let mut of = short();
    of.templates[0].server = None;
    let mut net = Net::new(of, Path { loss: 1_000_000, ..Path::default() });
    for _ in 0..SLOTS {
        net.open(0);
    }
    assert_eq!(net.stack.flows(), SLOTS);
}
