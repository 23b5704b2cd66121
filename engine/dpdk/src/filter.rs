// SPDX-License-Identifier: Apache-2.0
//! Packet filters as people write them (pcap-filter(7)), compiled by libpcap for Ethernet frames.
use std::ffi::{CStr, CString};

use spate_dpdk_sys as sys;
use spate_filter::{Instruction, Program};

/// Longest filter in bytes.
const MAX_FILTER_BYTES: usize = 16 << 10;
/// Beginnings of a wrong filter that are tried to find out where it goes wrong.
const MAX_PREFIXES: usize = 64;
/// Bytes of a packet that a filter may look at.
const SNAP_LENGTH: i32 = 65_535;

/// Why a filter cannot be used, and from where on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("from character {position} on ({rest:?}): {reason} (see pcap-filter(7))")]
pub struct FilterError {
    /// The first character, from 1, that does not belong to what was understood.
    pub position: usize,
    /// The filter from that position on, shortened.
    pub rest: String,
    /// Message of the compiler.
    pub reason: String,
}

/// Compiles a filter; an empty one takes every packet.
///
/// Names of hosts are looked up: this may take seconds.
pub fn compile(filter: &str) -> Result<Program, FilterError> {
    if filter.len() > MAX_FILTER_BYTES {
        let reason = format!("{} bytes; at most {MAX_FILTER_BYTES} are possible", filter.len());
        return Err(wrong(filter, 0, reason));
    }
    match try_compile(filter) {
        Ok(instructions) => Program::new(&instructions).map_err(|e| wrong(filter, 0, e.to_string())),
        Err(reason) => Err(wrong(filter, understood(filter), reason)),
    }
}

fn wrong(filter: &str, at: usize, reason: String) -> FilterError {
    let rest = filter[at..].trim_start();
    let position = filter[..filter.len() - rest.len()].chars().count() + 1;
    let mut shown: String = rest.chars().take(40).collect();
    if shown.len() < rest.len() {
        shown.push_str("...");
    }
    FilterError { position, rest: shown, reason }
}

/// Bytes of the longest beginning, by words, that is a filter by itself.
fn understood(filter: &str) -> usize {
    let ends = filter.char_indices().filter(|(_, c)| c.is_whitespace() || "()!".contains(*c)).map(|(at, _)| at);
    let ends: Vec<usize> = ends.collect();
    ends.into_iter().rev().take(MAX_PREFIXES).find(|&end| try_compile(&filter[..end]).is_ok()).unwrap_or(0)
}

fn try_compile(filter: &str) -> Result<Vec<Instruction>, String> {
    let text = CString::new(filter).map_err(|_| "a NUL byte is not possible".to_owned())?;
    // SAFETY: plain numbers; the handle is closed below.
    let handle = unsafe { sys::pcap_open_dead(sys::DLT_EN10MB as i32, SNAP_LENGTH) };
    if handle.is_null() {
        return Err("there is no memory to compile it".to_owned());
    }
    let mut program = sys::bpf_program { bf_len: 0, bf_insns: std::ptr::null_mut() };
    // SAFETY: the handle is open, the program is ours to fill, the text is a C string.
    let code = unsafe { sys::pcap_compile(handle, &raw mut program, text.as_ptr(), 1, sys::PCAP_NETMASK_UNKNOWN) };
    let result = if code == 0 {
        // SAFETY: on success the program has `bf_len` instructions, which stay until it is freed; it is freed once.
        unsafe {
            let instructions = std::slice::from_raw_parts(program.bf_insns, program.bf_len as usize);
            let copy = |i: &sys::bpf_insn| Instruction { code: i.code, jt: i.jt, jf: i.jf, k: i.k };
            let copied = instructions.iter().map(copy).collect();
            sys::pcap_freecode(&raw mut program);
            Ok(copied)
        }
    } else {
        // SAFETY: the handle is open; its message is a C string that stays until the next call.
        let reason = unsafe { CStr::from_ptr(sys::pcap_geterr(handle)) }.to_string_lossy().into_owned();
        Err(reason.trim_start_matches("can't parse filter expression: ").to_owned())
    };
    // SAFETY: opened above, and nothing refers to it any more.
    unsafe { sys::pcap_close(handle) };
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_filters_are_reported_where_and_why() {
        for (filter, position, rest) in [
            ("udp prot 53", 5, "prot 53"),
            ("udp and port fifty3", 5, "and port fifty3"),
            ("(udp", 1, "(udp"),
            ("udp and (tcp", 5, "and (tcp"),
            ("vlan 5000", 6, "5000"),
            ("nonsense", 1, "nonsense"),
            ("udp \0", 5, "\0"),
        ] {
            let error = compile(filter).unwrap_err();
            assert_eq!((error.position, error.rest.as_str()), (position, rest), "{error}");
            assert!(!error.reason.is_empty());
        }
        assert!(compile(&"udp or ".repeat(5000)).unwrap_err().reason.contains("at most"));
        println!("{}", compile("udp prot 53").unwrap_err());
    }

    /// The machine agrees with libpcap's own on real filters and packets that are nearly what they look for.
    #[test]
    fn filters_take_what_libpcap_takes() {
        let mut seed = 1u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize
        };
        for filter in [
            "",
            "ip",
            "ip6",
            "arp or icmp",
            "udp port 53",
            "tcp[tcpflags] & tcp-syn != 0",
            "host 198.18.0.1",
            "net 198.18.0.0/15 and not udp",
            "vlan 100 and udp",
            "len > 100",
            "ether[12:2] = 0x0800 and ip[8] < 64",
            "icmp6",
            "ip6 and udp dst portrange 50-60",
            "greater 64 and ether broadcast",
            "ip[2:2] % 7 = 3",
        ] {
            let instructions = try_compile(filter).unwrap();
            let program = compile(filter).unwrap();
            let raw: Vec<sys::bpf_insn> =
                instructions.iter().map(|i| sys::bpf_insn { code: i.code, jt: i.jt, jf: i.jf, k: i.k }).collect();
            let mut taken = 0;
            for _ in 0..2000 {
                let mut packet = vec![0u8; 40 + random() % 80];
                packet[..12].fill(if random() % 2 == 0 { 0xff } else { 2 });
                let types: [[u8; 2]; 4] = [[8, 0], [0x86, 0xdd], [8, 6], [0x81, 0]];
                packet[12..14].copy_from_slice(&types[random() % 4]);
                packet[14..34].copy_from_slice(&[
                    0x45,
                    0,
                    0,
                    60,
                    0,
                    0,
                    0,
                    0,
                    64,
                    [1, 6, 17, 58][random() % 4],
                    0,
                    0,
                    198,
                    18,
                    0,
                    1,
                    198,
                    18,
                    0,
                    2,
                ]);
                packet[37] = 53;
                for _ in 0..random() % 4 {
                    let at = random() % packet.len();
                    packet[at] = random() as u8;
                }
                let len = packet.len() as u32;
                // SAFETY: a compiled program, and as many bytes as its length says.
                let theirs = unsafe { sys::bpf_filter(raw.as_ptr(), packet.as_ptr(), len, len) };
                assert_eq!(program.run(&packet, len), theirs, "{filter}: {packet:02x?}");
                taken += u32::from(theirs != 0);
            }
            println!("{filter:?} takes {taken} of 2000");
        }
    }
}
