// SPDX-License-Identifier: Apache-2.0
//! Filters over any packets: any instructions are refused or run to their end without a panic, and so is what libpcap makes of
//! any words of its language.
#![no_main]
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use spate_filter::{Instruction, Program};

/// Words of the language; none is a name that would be looked up.
const WORDS: &[&str] = &[
    "and",
    "or",
    "not",
    "(",
    ")",
    "ip",
    "ip6",
    "arp",
    "tcp",
    "udp",
    "icmp",
    "icmp6",
    "sctp",
    "port",
    "src",
    "dst",
    "host",
    "net",
    "ether",
    "vlan",
    "mpls",
    "pppoes",
    "proto",
    "greater",
    "less",
    "len",
    "portrange",
    "10.0.0.1",
    "10.0.0.0/8",
    "2001:db8::1",
    "2:0:0:0:0:1",
    "179",
    "1-9",
    "64",
    "4094",
    "ether[0]",
    "ip[8]",
    "tcp[13]",
    "ip6[6:2]",
    "&",
    "|",
    "=",
    "!=",
    ">",
    "<",
    "+",
    "-",
    "*",
    "/",
    "%",
    "<<",
    "broadcast",
    "multicast",
    "protochain",
    "0x0800",
    "1",
    "0",
];

#[derive(Arbitrary, Debug)]
struct Input {
    instructions: Vec<(u16, u8, u8, u32)>,
    words: Vec<u8>,
    packets: Vec<(Vec<u8>, u32)>,
}

fuzz_target!(|input: Input| {
    let instruction = |&(code, jt, jf, k): &(u16, u8, u8, u32)| Instruction { code, jt, jf, k };
    let raw: Vec<Instruction> = input.instructions.iter().map(instruction).collect();
    let text: Vec<&str> = input.words.iter().take(24).map(|word| WORDS[usize::from(*word) % WORDS.len()]).collect();
    let text = text.join(" ");
    let compiled = spate_dpdk::compile(&text);
    if let Err(error) = &compiled {
        assert!((1..=text.chars().count() + 1).contains(&error.position), "{text:?}: {error:?}");
    }
    for program in [Program::new(&raw).ok(), compiled.ok()].into_iter().flatten() {
        for (packet, more) in &input.packets {
            let len = (packet.len() as u32).saturating_add(*more);
            let kept = program.run(packet, len);
            assert_eq!(program.matches(packet, len as usize), kept != 0);
        }
    }
});
