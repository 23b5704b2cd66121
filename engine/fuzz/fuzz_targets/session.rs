// SPDX-License-Identifier: Apache-2.0
//! Any bytes as a capture of one session: reading never panics, and what is read becomes programs that have nothing wrong,
//! send what was said and come to their end.
#![no_main]
use contract::{
    Capture, Instruction, Plan, Program, Ratio, Stateful, Template, WeightedPool, capture, instruction::Kind, payload,
};
use libfuzzer_sys::fuzz_target;
use spate_engine::plan::stateful::session;
use spate_engine::plan::{Site, validate::validate};
use spate_replay::session::{Sender, Session};

/// Of ports that are not known.
const MTU: usize = 1500;

fuzz_target!(|bytes: &[u8]| {
    let plan = plan(bytes);
    let site = Site::of_plan(&plan);
    let (session, resolved) = match (Session::read(bytes, MTU), session::resolve(&plan, &site)) {
        (Ok(session), Ok(resolved)) => (session, resolved),
        (Err(error), Err(violations)) => return assert!(violations.0[0].description == error.to_string()),
        (session, resolved) => panic!("{session:?} {resolved:?}"),
    };
    // Spoken to port 0, it cannot be served.
    if session.destination_port > 0 {
        validate(&resolved, &site).expect("programs of a capture are good");
    }
    let stateful = resolved.stateful.as_ref().expect("it was there");
    let template = &stateful.templates[0];
    for (side, program) in [(Sender::Client, &template.client), (Sender::Server, &template.server)] {
        let dialogue: Vec<&[u8]> = session.dialogue.iter().filter(|s| s.by == side).map(|s| &s.bytes[..]).collect();
        assert_eq!(sent(stateful, program.as_ref().expect("both are derived")), dialogue);
    }
});

/// What a program sends.
fn sent<'a>(stateful: &'a Stateful, program: &Program) -> Vec<&'a [u8]> {
    let payload = |instruction: &Instruction| {
        let index = match instruction.kind.as_ref()? {
            Kind::Send(send) => send.payload,
            Kind::SendMessage(send) => send.payload,
            _ => return None,
        };
        match &stateful.payloads[index as usize].content {
            Some(payload::Content::Bytes(bytes)) => Some(&bytes[..]),
            other => panic!("{other:?}"),
        }
    };
    program.instructions.iter().filter_map(payload).collect()
}

/// A template of this capture.
fn plan(capture: &[u8]) -> Plan {
    let pool = || contract::Pool {
        first: vec![10, 0, 0, 1].into(),
        last: vec![10, 0, 0, 9].into(),
        ..contract::Pool::default()
    };
    let template = Template {
        name: "captured".into(),
        client_port: "east".into(),
        server_port: "west".into(),
        flows_per_second: Some(Ratio { numerator: 1, denominator: 1 }),
        clients: vec![WeightedPool { pool: 0, weight: 1 }],
        servers: vec![WeightedPool { pool: 0, weight: 1 }],
        capture: Some(Capture { source: Some(capture::Source::Pcap(capture.to_vec().into())) }),
        ..Template::default()
    };
    Plan {
        run_id: "fuzz".into(),
        run_tag: 1,
        timing: Some(contract::Timing::default()),
        stateful: Some(Stateful { pools: vec![pool()], templates: vec![template], ..Stateful::default() }),
        ..Plan::default()
    }
}
