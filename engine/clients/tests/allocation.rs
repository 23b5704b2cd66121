// SPDX-License-Identifier: Apache-2.0
//! A group takes all its memory when it is made: from then on, whatever its clients do, it neither takes any nor gives any back. And how
//! much that is.
#![allow(unsafe_code, reason = "an allocator")]
mod access;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    backtrace::Backtrace,
    cell::Cell,
};

use access::{
    FIRST_MAC, MS, Peer, SECOND,
    peer4::{FIRST, Server},
    peer6::Router,
};
use spate_clients::{
    Config, Count, Dhcp4, Dhcp6, Group, Ipv4, Ipv6, Leave, MAX_FRAME, Output, Probe, Rate, State, VlanRange,
};
use spate_net::vlan::{CUSTOMER, SERVICE, Tags};

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
    /// Calls of the allocator while the thread was watched.
    static CALLS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that the thread has taken and not given back.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Counts calls of watched threads; prints where the first came from.
struct Watching;

#[global_allocator]
static ALLOCATOR: Watching = Watching;

fn note(what: &str) {
    if WATCHED.replace(false) {
        CALLS.set(CALLS.get() + 1);
        if CALLS.get() == 1 {
            println!("{what}\n{}", Backtrace::force_capture());
        }
        WATCHED.set(true);
    }
}

// Growing is taking and giving back here, as by default.
// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note("memory is taken");
        BYTES.set(BYTES.get().wrapping_add(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note("memory is given back");
        BYTES.set(BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn watched<T>(work: impl FnOnce() -> T) -> T {
    WATCHED.set(true);
    let result = work();
    WATCHED.set(false);
    result
}

/// Frames in memory of its own: what the network takes for them is not the group's.
struct Burst {
    bytes: Box<[[u8; MAX_FRAME]]>,
    lens: Vec<usize>,
}

impl Burst {
    fn new() -> Self {
        Self { bytes: vec![[0; MAX_FRAME]; 64].into(), lens: Vec::with_capacity(64) }
    }

    fn take(&mut self) -> Vec<Vec<u8>> {
        let frames = self.bytes.iter().zip(&self.lens).map(|(bytes, len)| bytes[..*len].to_vec()).collect();
        self.lens.clear();
        frames
    }
}

impl Output for Burst {
    fn room(&self) -> usize {
        self.bytes.len() - self.lens.len()
    }

    fn send(&mut self, frame: &[u8]) {
        if let Some(bytes) = self.bytes.get_mut(self.lens.len()) {
            bytes[..frame.len()].copy_from_slice(frame);
            self.lens.push(frame.len());
        }
    }
}

fn config(count: u32) -> Config {
    let vlans = vec![
        VlanRange { ethertype: SERVICE, first: 100, count: 10 },
        VlanRange { ethertype: CUSTOMER, first: 1, count: 10 },
    ];
    let dhcp = Dhcp4 {
        vendor_class: b"spate".into(),
        circuit_id: Some("eth0/{n}".parse().unwrap()),
        probe: Some(Probe::ONE),
        ..Dhcp4::default()
    };
    Config {
        vlans,
        hostname: Some("sub-{n:06}".parse().unwrap()),
        ipv4: Some(Ipv4::Dhcp(Box::new(dhcp))),
        ipv6: Some(Ipv6 { slaac: true, dhcp: Some(Dhcp6 { prefix: Some(56), ..Dhcp6::default() }), dad_transmits: 1 }),
        ping_gateway: true,
        ..Config::dhcp(FIRST_MAC, count, Rate::per_second(2000))
    }
}

#[test]
fn nothing_is_allocated_after_the_start_whatever_happens() {
    let mut group = Group::new(config(1000), 0).unwrap();
    let mut server = Server { lease_s: 60, taken: (FIRST..FIRST + 50).collect(), ..Server::default() };
    let mut router =
        Router { managed: true, multicast: true, times: (40, 60), prefix: Some((90, 60)), ..Router::default() };
    let mut burst = Burst::new();
    watched(|| group.start_all(0));
    let mut answers: Vec<Vec<u8>> = Vec::new();
    for step in 0..300_000_u64 {
        let now = step * MS;
        for frame in answers.drain(..) {
            let tags = Tags::of(&frame).unwrap();
            watched(|| group.receive(&frame, tags, now, &mut burst));
        }
        watched(|| group.poll(now, &mut burst));
        // A time without server and router, one with refusals, and one in which all leave and come back.
        let down = (100..190).contains(&(now / SECOND));
        (server.is_up, router.is_up, router.server_is_up) = (!down, !down, !down);
        if step == 200_000 {
            server.naks = 300;
        }
        if step == 220_000 {
            watched(|| group.leave_all(Leave::Release, Rate::per_second(1000), now));
        }
        if step == 240_000 {
            watched(|| group.start_all(now));
        }
        for (number, frame) in burst.take().into_iter().enumerate() {
            // One in 16 is lost.
            if !(step + number as u64).is_multiple_of(16) {
                let v6 = frame[20..22] == [0x86, 0xdd];
                answers.extend(if v6 { router.receive(&frame, now) } else { server.receive(&frame, now) });
            }
        }
    }
    assert_eq!(CALLS.get(), 0, "the allocator was called after the start");
    let counters = group.counters();
    for count in [
        Count::Setups,
        Count::Renewals,
        Count::LeasesLost,
        Count::Duplicates,
        Count::Dhcp4Nak,
        Count::Dhcp4Release,
        Count::Dhcp6Release,
        Count::Dhcp6Rebind,
        Count::EchoRepliesReceived,
        Count::RouterAdvertisements,
    ] {
        assert!(counters.get(count) > 0, "{count:?} did not happen");
    }
    assert!(counters.clients(State::Bound) > 900, "{}", counters.clients(State::Bound));
}

#[test]
fn a_hundred_thousand_clients_fit_into_32_mebibytes_and_a_million_into_320() {
    for (count, most) in [(100_000, 32 << 20), (1_000_000, 320 << 20)] {
        let both = config(count);
        let four = Config { ipv6: None, ..config(count) };
        for (family, config) in [("IPv4", four), ("IPv4 and IPv6", both)] {
            let before = BYTES.get();
            let group = Group::new(config, 0).unwrap();
            let bytes = BYTES.get().wrapping_sub(before);
            println!("{count} clients of {family}: {bytes} bytes, {:.1} each", bytes as f64 / f64::from(count));
            assert!(bytes <= most, "{bytes} bytes for {count} clients of {family}");
            drop(group);
        }
    }
}
