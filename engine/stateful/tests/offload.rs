// SPDX-License-Identifier: Apache-2.0
//! Devices that complete checksums and cut frames into segments: what leaves them is what leaves the stack without them, and
//! counters have that.
mod net;

use net::{CLIENT_PORT, MS, Net, Path, SERVER_PORT, one_of, over_ipv6, request_response, with};
use spate_stateful::{Count, Offloads, Payload, Protocol, Scenario, Segmentation, Tunables, random::Numbers};

fn cutting(longest_frame: u32, longest_segment: u32, v6: bool) -> Offloads {
    Offloads { checksums: true, segmentation: Some(Segmentation { longest_frame, longest_segment, v6 }) }
}

fn tunables(random: &mut Numbers) -> Tunables {
    let mut so = || random.below(2) == 0;
    let (sack, timestamps, ecn, no_delay) = (so(), so(), so(), so());
    Tunables {
        sack,
        timestamps,
        ecn,
        no_delay,
        mss: one_of(random, &[88, 536, 1220, 1460, 4000, 8960]),
        receive_buffer: one_of(random, &[2000, 20_000, 65_535, 1 << 20]),
        send_buffer: one_of(random, &[10_000, 1 << 20]),
        initial_window: one_of(random, &[1, 3, 10]),
        time_wait_ns: 3_000 * MS,
        ..Tunables::default()
    }
}

/// A size of each magnitude as likely as others.
fn size(random: &mut Numbers, most_bits: u64) -> u64 {
    let bits = 1 + random.below(most_bits);
    1 + random.below(1 << bits)
}

fn drawn(seed: u64, most_bits: u64) -> (Scenario, u64, u64) {
    let mut random = Numbers::new(seed);
    let (request, response) = (size(&mut random, most_bits), size(&mut random, most_bits));
    let (client, server, payloads) = request_response(request, response);
    let (ours, theirs) = (tunables(&mut random), tunables(&mut random));
    let scenario = with(Protocol::Tcp, client, server, payloads, ours, theirs);
    (if seed.is_multiple_of(3) { over_ipv6(scenario) } else { scenario }, request, response)
}

/// What one flow puts on the wire, without what a device may choose: IPv4's identification, and the checksum over it.
fn wire(scenario: Scenario, path: Path, offloads: Offloads) -> Net {
    let mut net = Net::new(scenario, path);
    (net.record, net.offloads) = (true, offloads);
    net.open(0);
    net.run_for(2_000_000 * MS);
    for (.., frame) in &mut net.sent {
        if frame[12..14] == [8, 0] {
            frame[18..20].fill(0);
            frame[24..26].fill(0);
        }
    }
    net
}

#[test]
fn what_a_device_makes_is_what_leaves_without_it() {
    let (mut cut, mut most) = (0, 0);
    for seed in 0..3000 {
        let mut random = Numbers::new(!seed);
        let path = Path { bandwidth: one_of(&mut random, &[0, 100_000_000]), seed, ..Path::default() };
        let offloads = match random.below(5) {
            4 => Offloads { checksums: false, ..cutting(16_383, 9014, true) },
            0 => Offloads { checksums: true, segmentation: None },
            1 => cutting(16_383, 1514, random.below(2) == 0),
            2 => cutting(65_400, 9014, true),
            _ => cutting(1 + random.below(16_000) as u32, 9014, true),
        };
        let (scenario, request, response) = drawn(seed, 17);
        let without = wire(scenario.clone(), path, Offloads::default());
        let with = wire(scenario, path, offloads);
        let summary = format!("seed {seed}, {offloads:?}, {request} and {response} bytes\n{}", with.summary());
        assert_eq!(without.sent.len(), with.sent.len(), "{summary}");
        for (at, (software, device)) in without.sent.iter().zip(&with.sent).enumerate() {
            assert_eq!(software, device, "packet {at}; {summary}");
        }
        for (client, port) in [(true, CLIENT_PORT), (false, SERVER_PORT)] {
            let on_wire = with.sent.iter().filter(|sent| sent.1 == port).count() as u64;
            assert_eq!(with.count(client, Count::SentPackets), on_wire, "{summary}");
            for count in [Count::SentDataPackets, Count::SentDataBytes, Count::AckedBytes, Count::ReceivedDataBytes] {
                assert_eq!(with.count(client, count), without.count(client, count), "{count:?}, {summary}");
            }
        }
        cut += with.cut;
        most = most.max(with.most_cut);
    }
    assert!(cut > 5000 && most > 20, "{cut} frames were cut, into {most} segments at most");
}

#[test]
fn all_complete_where_segments_of_a_frame_are_lost() {
    let (mut cut, mut again) = (0, 0);
    for seed in 0..600 {
        let mut random = Numbers::new(!seed);
        let delay_ns = one_of(&mut random, &[0, MS, 20 * MS]);
        let path = Path {
            delay_ns,
            jitter_ns: one_of(&mut random, &[0, delay_ns / 2]),
            loss: one_of(&mut random, &[1_000, 10_000, 50_000]),
            duplicates: one_of(&mut random, &[0, 20_000]),
            late: one_of(&mut random, &[0, 50_000]),
            marks: one_of(&mut random, &[0, 100_000]),
            seed,
            ..Path::default()
        };
        let (scenario, request, response) = drawn(seed, 18);
        let mut net = Net::new(scenario, path);
        net.offloads = cutting(one_of(&mut random, &[4_000, 16_383, 65_400]), 9014, true);
        // Now and then the device has no memory for such frames.
        net.no_memory = one_of(&mut random, &[0, 300_000]);
        for _ in 0..3 {
            net.open(0);
        }
        net.run_for(2_000_000 * MS);
        let summary = format!("seed {seed}, {path:?}\n{}", net.summary());
        for (client, sent, received) in [(true, request, response), (false, response, request)] {
            assert_eq!(net.count(client, Count::FlowsClosed), 3, "{summary}");
            assert_eq!(net.count(client, Count::SentDataBytes), 3 * sent, "{summary}");
            assert_eq!(net.count(client, Count::ReceivedDataBytes), 3 * received, "{summary}");
            again += net.count(client, Count::RetransmittedPackets);
        }
        cut += net.cut;
    }
    assert!(cut > 1000 && again > 1000, "{cut} frames were cut, {again} segments sent again");
}

#[test]
fn datagrams_have_their_checksums_from_the_device() {
    use spate_stateful::Instruction::{Close, ReceiveMessages, SendMessage};
    for len in 1..600 {
        let client = vec![SendMessage { payload: 0 }, ReceiveMessages { messages: 1, clear: true }, Close];
        let server = vec![ReceiveMessages { messages: 1, clear: true }, SendMessage { payload: 0 }, Close];
        let payloads = vec![Payload::pattern(len)];
        let tunables = Tunables::default();
        let scenario = with(Protocol::Udp, client, server, payloads, tunables.clone(), tunables);
        let scenario = if len % 2 == 0 { over_ipv6(scenario) } else { scenario };
        let without = wire(scenario.clone(), Path::default(), Offloads::default());
        let with = wire(scenario, Path::default(), cutting(16_383, 1514, true));
        assert_eq!(without.sent, with.sent, "{len} bytes");
        assert_eq!(with.count(true, Count::MessagesReceived), 1, "{len} bytes");
    }
}

#[test]
fn only_a_mark_of_the_device_spares_the_look_at_a_checksum() {
    let (client, server, payloads) = request_response(1000, 10);
    let tunables = Tunables::default();
    let mut net = Net::new(with(Protocol::Tcp, client, server, payloads, tunables.clone(), tunables), Path::default());
    net.record = true;
    net.open(0);
    net.run_for(1000 * MS);
    let data = net.sent.iter().find(|sent| sent.2.len() > 1000).expect("the request").2.clone();
    let read = |frame: &[u8], verified| spate_stateful::packet::Packet::read_marked(frame, verified).is_ok();
    assert!(read(&data, false) && read(&data, true));
    let mut damaged = data.clone();
    damaged[500] ^= 1;
    assert!(!read(&damaged, false) && read(&damaged, true), "the device reports TCP's checksum");
    let mut damaged = data;
    damaged[22] ^= 1;
    assert!(!read(&damaged, false) && !read(&damaged, true), "and not of IPv4's header");
}
