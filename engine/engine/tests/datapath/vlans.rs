// SPDX-License-Identifier: Apache-2.0
//! Clients in VLANs of their own behind gateways of their own: on a port that gives back what it takes, where frames are examined as they
//! are sent, and between two ports, where gateways are asked for and frames are read from the wire.
use std::collections::HashSet;
use std::io::{BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use spate_engine::{
    control::next_hop,
    datapath::{AddressGuard, Blueprint, Datapath, Link, PollMode, PortDevice, RunSpec, RunState, Template},
};
use spate_net::{
    Headers,
    vlan::{self, SERVICE, Tag, Tags},
};
use spate_stateful::{Address, Pool, Protocol, Scenario, WeightedPool, envelope::Access, pool::Order};

use crate::answers::resolved;
use crate::gtpu::tunnels;
use crate::kernel::run_inside;
use crate::packet_socket::PacketSocket;
use crate::setup::{MS, open, pps, start, stream, turn, wait_for};
use crate::slow::{link, mac_bytes, mac_of};
use crate::stateful::{assert_all_complete, emulated, keep_only, loopback, over_v4, scenario, v4, v6};

fn qinq() -> Tags {
    Tags::new(&[Tag { ethertype: SERVICE, vlan: 200 }, Tag::customer(7)]).unwrap()
}

fn access(tags: Tags, gateway: Address) -> Access {
    Access { tags: Some(tags), gateway: Some(gateway), mirror: false }
}

/// Another pool of clients, of 250.
fn with_clients(mut scenario: Scenario, first: Address, access: Access) -> Scenario {
    let mut pool = Pool::new(first, Address(first.0 + 249), Order::Sequential).unwrap();
    pool.access = access;
    scenario.templates[0].clients.push(WeightedPool { pool: scenario.pools.len(), weight: 1 });
    scenario.pools.push(pool);
    scenario
}

/// Clients in QinQ, in a VLAN, and in none, over one family.
fn three(protocol: Protocol, v6_clients: bool) -> Scenario {
    let (mut all, gateway, others) = match v6_clients {
        false => (over_v4(protocol, 1000), v4(16, 0, 0, 254), [v4(17, 0, 0, 1), v4(18, 0, 0, 1)]),
        true => {
            let all = scenario(protocol, 1000, [v6(1, 1), v6(1, 0xff)], [v6(2, 1), v6(2, 0x20)]);
            (all, v6(1, 0xffff), [v6(3, 1), v6(4, 1)])
        }
    };
    all.pools[0].access = access(qinq(), gateway);
    let all = with_clients(all, others[0], access(Tags::from(Some(5)), gateway));
    with_clients(all, others[1], Access::default())
}

/// What the frames of a client, and those to it, must have.
fn expected(pools: &[Pool], frame: &[u8]) -> (Tags, usize) {
    let headers = Headers::find(frame).unwrap();
    let ends = [headers.source(frame), headers.destination(frame)];
    let of = |pool: &Pool| ends.iter().any(|end| pool.contains(*end).is_some());
    let place = [0, 2, 3].into_iter().position(|pool| of(&pools[pool])).expect("of a client");
    (pools[[0, 2, 3][place]].access.tags.unwrap_or_default(), place)
}

fn complete(workers: usize, scenario: Scenario) {
    let _turn = turn();
    let datapath = loopback(workers, PollMode::Busy);
    let (pools, seen) = (scenario.pools.clone(), Arc::new([const { AtomicU64::new(0) }; 3]));
    let counted = Arc::clone(&seen);
    // Only what has its client's tags, and comes from the port's MAC to its own, passes.
    let right = move |frame: &[u8]| {
        let (tags, place) = expected(&pools, frame);
        counted[place].fetch_add(1, Relaxed);
        Tags::of(frame) == Some(tags) && frame[..6] == frame[6..12]
    };
    keep_only(&datapath, right);
    let run = start(&datapath, emulated(&datapath, 7, Some(1000 * MS), scenario));
    wait_for(&run, RunState::Complete, 10);
    assert_all_complete(&run.template_counters(), 1000);
    assert_eq!(run.contradictions(), Vec::<String>::new());
    let port = &datapath.port_counters()[0];
    assert_eq!((port.tx_packets, port.foreign_packets), (port.rx_packets, 0));
    assert_eq!(port.tx_packets, seen.iter().map(|seen| seen.load(Relaxed)).sum::<u64>());
    assert_eq!((port.tx_bytes, seen.iter().all(|seen| seen.load(Relaxed) > 600)), (port.rx_bytes, true));
}

#[test]
fn clients_in_qinq_in_a_vlan_and_in_none_talk_to_servers_on_their_port() {
    complete(1, three(Protocol::Tcp, false));
    complete(2, three(Protocol::Tcp, false));
    complete(2, three(Protocol::Udp, true));
}

/// Tunnels within tags, too.
#[test]
fn tunnels_of_clients_in_vlans_are_within_the_tags() {
    let mut scenario = three(Protocol::Tcp, false);
    scenario.pools[0].tunnels = Some(tunnels());
    // The addresses outside are the tunnels'.
    let mut outside = scenario.pools.clone();
    outside[0] = scenario.pools[0].on_clients_link();
    let _turn = turn();
    let datapath = loopback(2, PollMode::Busy);
    let right = move |frame: &[u8]| Tags::of(frame) == Some(expected(&outside, frame).0);
    keep_only(&datapath, right);
    let run = start(&datapath, emulated(&datapath, 7, Some(1000 * MS), scenario));
    wait_for(&run, RunState::Complete, 10);
    assert_all_complete(&run.template_counters(), 1000);
    assert_eq!(datapath.port_counters()[0].foreign_packets, 0);
}

/// A segment to the first client, in tags.
fn segment(tags: Tags, to: [u8; 4]) -> Vec<u8> {
    let bytes = tags.as_slice().iter().flat_map(|tag| tag.bytes());
    let mut frame: Vec<u8> = [0; 12].into_iter().chain(bytes).chain([8, 0]).collect();
    frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 48, 0, 0, 1]);
    frame.extend(to);
    frame.resize(64, 0);
    frame
}

#[test]
fn frames_in_other_tags_than_their_clients_are_foreign() {
    let _turn = turn();
    let customer = Tags::from(Some(7));
    for (tags, to, foreign) in [
        (qinq(), [16, 0, 0, 1], 0),
        (customer, [16, 0, 0, 1], 50),
        (Tags::NONE, [16, 0, 0, 1], 50),
        (Tags::from(Some(5)), [17, 0, 0, 1], 0),
        (qinq(), [17, 0, 0, 1], 50),
        (Tags::NONE, [18, 0, 0, 1], 0),
        (customer, [18, 0, 0, 1], 50),
    ] {
        let datapath = loopback(2, PollMode::Busy);
        let mut spec = emulated(&datapath, 7, Some(500 * MS), three(Protocol::Udp, false));
        let mut forged = stream(1, 0, None, 64, pps(100));
        let frame = segment(tags, to);
        forged.template = Template::new(&Blueprint { frame, flow: false, ..Blueprint::default() }).unwrap();
        spec.streams = vec![forged];
        let run = start(&datapath, spec);
        wait_for(&run, RunState::Complete, 10);
        assert_all_complete(&run.template_counters(), 500);
        assert_eq!(datapath.port_counters()[0].foreign_packets, foreign, "{tags} to {to:?}");
    }
}

/// A run of a scenario with its gateways found; its addresses are answered for from before.
fn found(datapath: &Datapath, scenario: Scenario) -> (RunSpec, AddressGuard) {
    let address_guard = datapath.hold(&scenario).unwrap();
    (resolved(datapath, scenario), address_guard)
}

fn on_two_ports(scenario: &mut Scenario) {
    scenario.templates[0].looped = false;
    scenario.templates[0].server.as_mut().unwrap().port = 1;
}

/// Writes this many tagged frames that an interface receives to a file. What an engine sends is not captured where it leaves.
fn captured(file: &std::path::Path, interface: &str, frames: usize) -> Child {
    let command = format!("60 tcpdump -n -U -s 0 -i {interface} -c {frames} -w {} vlan", file.display());
    let mut tcpdump = Command::new("timeout");
    let tcpdump = tcpdump.args(command.split(' ')).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let ready = || std::fs::metadata(file).is_ok_and(|file| file.len() >= 24);
    for _ in 0..1000 {
        if !ready() {
            thread::sleep(Duration::from_millis(5));
        }
    }
    tcpdump
}

/// The frames of a capture.
fn frames(file: &std::path::Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).unwrap();
    let (mut at, mut frames) = (24, Vec::new());
    while at + 16 <= bytes.len() {
        let len = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        frames.push(bytes[at + 16..at + 16 + len].to_vec());
        at += 16 + len;
    }
    frames
}

#[test]
fn veth_gateways_are_found_in_their_vlans_and_frames_go_to_them() {
    run_inside("vlans::inside_found", "1508");
}

/// East has no address. Its clients are in VLAN 100 and in QinQ, where west stands for their gateway; or in VLAN 100 alone, as west's
/// own port is, and the gateway is the address of a server.
#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_found() {
    let folder = tempfile::tempdir().unwrap();
    let ports = [("east", PortDevice::Kernel("sp0".into())), ("west", PortDevice::Kernel("sp1".into()))];
    let macs = [mac_of("sp0"), mac_of("sp1")].map(|mac| mac_bytes(&mac));
    for mirror in [true, false] {
        let mut datapath = open(&ports, 2, PollMode::Adaptive);
        let west = if mirror { Link::default() } else { link(&[], Some(100)) };
        datapath.join(vec![("west".into(), west)]).unwrap();
        let vlan = Tags::from(Some(100));
        let mut all = over_v4(Protocol::Tcp, 400);
        all.pools[0].access =
            Access { mirror, ..access(vlan, if mirror { v4(16, 0, 0, 254) } else { v4(48, 0, 0, 3) }) };
        if mirror {
            all = with_clients(all, v4(17, 0, 0, 1), Access { mirror, ..access(qinq(), v4(17, 0, 0, 254)) });
            all.pools[2].first_mac = Some([2, 9, 0, 0, 0, 1]);
        }
        on_two_ports(&mut all);
        let pools = all.pools.clone();
        let file = |interface| folder.path().join(format!("{interface}-{mirror}.pcap"));
        let mut captures = ["sp0", "sp1"].map(|interface| captured(&file(interface), interface, 500));
        let (spec, address_guard) = found(&datapath, all);
        let gateways = &spec.stateful.as_ref().unwrap().on_link.gateways;
        let gateways: Vec<_> = gateways.iter().map(|gateway| (gateway.pool.0, gateway.mac)).collect();
        assert_eq!(gateways, if mirror { vec![(0, macs[1]), (2, macs[1])] } else { vec![(0, macs[1])] });
        let run = start(&datapath, spec);
        wait_for(&run, RunState::Complete, 10);
        assert_all_complete(&run.template_counters(), 200);
        for tcpdump in &mut captures {
            assert!(tcpdump.wait().unwrap().success());
        }
        let frames = ["sp0", "sp1"].map(|interface| frames(&file(interface))).concat();
        assert_eq!(frames.len(), 1000);
        let mut asked = 0;
        for frame in &frames {
            let Some(headers) = Headers::find(frame) else {
                // ARP: in the tags of the pool whose first client asks.
                let at = if Tags::of(frame) == Some(qinq()) { 22 } else { 18 };
                assert_eq!(frame[at - 2..at], [8, 6]);
                asked += 1;
                continue;
            };
            let (source, destination) = (headers.source(frame), headers.destination(frame));
            let offset = |address| {
                [0, 2]
                    .into_iter()
                    .filter(|pool| *pool < pools.len() && *pool != 1)
                    .find_map(|pool| Some((pool, pools[pool].contains(address)?)))
            };
            let (up, (pool, offset)) = match offset(source) {
                Some(client) => (true, client),
                None => (false, offset(destination).unwrap()),
            };
            assert_eq!(Tags::of(frame), pools[pool].access.tags);
            let client = pools[pool].mac(offset).unwrap_or(macs[0]);
            let [to, from] = if up { [macs[1], client] } else { [client, macs[1]] };
            assert_eq!([&frame[..6], &frame[6..12]], [to, from], "{up}");
        }
        assert!(asked >= 2 * gateways_of(&pools), "{asked}");
        drop(address_guard);
        run.remove();
    }
}

/// A link of a router: its tags, the router's address, and the first byte of all addresses behind it.
type Stick = (Tags, [u8; 4], u8);

const ROUTER: [u8; 6] = [2, 7, 0, 0, 0, 1];

/// What a router has returned: answers to who asked for its addresses, and by link the stations (IPv4 address and port) that packets came
/// from, and the MACs that they were sent to.
#[derive(Default)]
struct Returned {
    answers: u64,
    stations: [HashSet<[u8; 6]>; 3],
    macs: [HashSet<[u8; 6]>; 3],
}

/// What a router sends back to where a frame came from: its answer to who asks for its address on a link, or the packet in the tags of the
/// link that its destination is behind. `macs` are those of its links; it still takes what is sent to `ROUTER`.
fn routed(links: &[Stick; 3], macs: &[[u8; 6]; 3], frame: &[u8], returned: &mut Returned) -> Option<Vec<u8>> {
    let tags = Tags::of(frame)?;
    let from = links.iter().position(|(link, ..)| *link == tags).expect("no other tags are sent");
    let (_, own, network) = &links[from];
    let station = &frame[6..12];
    let on_link = |link: usize, packet: &[&[u8]]| {
        let tags: Vec<u8> = links[link].0.as_slice().iter().flat_map(|tag| tag.bytes()).collect();
        [station, &macs[link], &tags, &packet.concat()].concat()
    };
    match &frame[12 + vlan::LEN * tags.as_slice().len()..] {
        // What is asked for is the last of 28 bytes, and who asks begins with the ninth.
        [8, 6, arp @ ..] if arp[6..8] == [0, 1] && arp[24..28] == *own => {
            let answer: [&[u8]; 6] = [&[8, 6], &arp[..6], &[0, 2], &macs[from], own, &arp[8..18]];
            returned.answers += 1;
            Some(on_link(from, &answer))
        }
        packet @ [8, 0, ip @ ..] => {
            let mac: [u8; 6] = frame[..6].try_into().unwrap();
            assert!([ROUTER, macs[from]].contains(&mac) && ip[12] == *network, "{mac:x?}, in {tags:?}");
            let to = links.iter().position(|(.., network)| *network == ip[16])?;
            returned.stations[from].insert([&ip[12..16], &ip[20..22]].concat().try_into().unwrap());
            returned.macs[from].insert(mac);
            Some(on_link(to, &[packet]))
        }
        _ => None,
    }
}

/// A router on a stick at the kernel's end of the link, which returns frames to the port that they came from.
struct Router {
    tcpdump: Child,
    links: [Stick; 3],
    /// By link.
    macs: Arc<Mutex<[[u8; 6]; 3]>>,
    socket: Arc<PacketSocket>,
    returned: Arc<Mutex<Returned>>,
}

impl Router {
    fn new(links: [Stick; 3]) -> Self {
        // The kernel takes the outermost tag out of frames that it gives to a socket; tcpdump puts it in again.
        let command = "-n -U --immediate-mode -B 8192 -s 0 -Q in -i sp1 -w -";
        let tcpdump =
            Command::new("tcpdump").args(command.split(' ')).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let (socket, macs) = (Arc::new(PacketSocket::open("sp1").unwrap()), Arc::new(Mutex::new([ROUTER; 3])));
        let mut this = Self { tcpdump: tcpdump.unwrap(), links, macs, socket, returned: Arc::default() };
        let mut file = BufReader::new(this.tcpdump.stdout.take().unwrap());
        // It captures once it has written the file's header.
        file.read_exact(&mut [0; 24]).unwrap();
        let (socket, macs) = (Arc::clone(&this.socket), Arc::clone(&this.macs));
        let returned = Arc::clone(&this.returned);
        thread::spawn(move || {
            let mut header = [0; 16];
            while file.read_exact(&mut header).is_ok() {
                let mut frame = vec![0; u32::from_le_bytes(*header[8..].first_chunk().unwrap()) as usize];
                file.read_exact(&mut frame).unwrap();
                let macs = *macs.lock().unwrap();
                if let Some(frame) = routed(&links, &macs, &frame, &mut returned.lock().unwrap()) {
                    assert_eq!(socket.send(&[frame]).unwrap(), 1, "a veth takes all");
                }
            }
        });
        this
    }

    /// Another station takes over the router's address on a link, and announces that (gratuitous ARP).
    fn replace(&self, link: usize, mac: [u8; 6]) {
        let (tags, own, _) = &self.links[link];
        let tags: Vec<u8> = tags.as_slice().iter().flat_map(|tag| tag.bytes()).collect();
        let arp: [&[u8]; 6] = [&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &mac, own, &[0; 6], own, &[0; 18]];
        let frame = [&[0xff; 6][..], &mac, &tags, &arp.concat()].concat();
        self.macs.lock().unwrap()[link] = mac;
        assert_eq!(self.socket.send(&[frame]).unwrap(), 1, "a veth takes all");
    }

    /// What it has returned since it was last asked.
    fn take(&self) -> Returned {
        std::mem::take(&mut self.returned.lock().unwrap())
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.tcpdump.kill();
        let _ = self.tcpdump.wait();
    }
}

/// One-arm: frames of clients in their tags and of servers in none leave from one port and come back to it.
#[test]
fn veth_clients_in_a_vlan_and_in_qinq_reach_servers_of_their_own_port_through_a_router() {
    run_inside("vlans::inside_one_arm", "1508");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_one_arm() {
    let vlan = Tags::from(Some(100));
    let router =
        Router::new([(vlan, [16, 0, 0, 254], 16), (qinq(), [17, 0, 0, 254], 17), (Tags::NONE, [10, 9, 0, 2], 48)]);
    for (protocol, workers) in [(Protocol::Tcp, 1), (Protocol::Tcp, 2), (Protocol::Udp, 2)] {
        let mut datapath = open(&[("east", PortDevice::Kernel("sp0".into()))], workers, PollMode::Adaptive);
        let mut east = link(&["10.9.0.1/16"], None);
        east.config.gateway_v4 = Some("10.9.0.2".parse().unwrap());
        datapath.join(vec![("east".into(), east)]).unwrap();
        let mut all = over_v4(protocol, 400);
        all.templates[0].looped = false;
        all.pools[0].access = access(vlan, v4(16, 0, 0, 254));
        let all = with_clients(all, v4(17, 0, 0, 1), access(qinq(), v4(17, 0, 0, 254)));
        router.take();
        let (spec, address_guard) = found(&datapath, all);
        let on_link = &spec.stateful.as_ref().unwrap().on_link;
        let gateways: Vec<_> = on_link.gateways.iter().map(|gateway| (gateway.pool.0, gateway.mac)).collect();
        assert_eq!(gateways, [(0, ROUTER), (2, ROUTER)]);
        let run = start(&datapath, spec);
        wait_for(&run, RunState::Complete, 10);
        assert_all_complete(&run.template_counters(), 200);
        let Returned { answers, stations, .. } = router.take();
        // Clients of both pools take turns; each flow has a port of its own. Servers have one port.
        assert_eq!(stations.map(|link| link.len()), [100, 100, 20], "{protocol:?}, {workers} workers");
        // Of what arrives, nothing but the answers of gateways is foreign.
        let port = &datapath.port_counters()[0];
        assert!(port.foreign_packets <= answers && port.tx_dropped == 0, "{port:?}, {answers} answers");
        drop(address_guard);
        run.remove();
    }
}

/// Gateways in a VLAN and in QinQ with one MAC, of which that in the VLAN is replaced while flows are open.
#[test]
fn veth_clients_follow_the_gateway_of_their_vlan_to_another_mac() {
    run_inside("vlans::inside_moving_gateway", "1508");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_moving_gateway() {
    const NEW: [u8; 6] = [2, 7, 0, 0, 0, 2];
    let vlan = Tags::from(Some(100));
    let router =
        Router::new([(vlan, [16, 0, 0, 254], 16), (qinq(), [17, 0, 0, 254], 17), (Tags::NONE, [10, 9, 0, 2], 48)]);
    let mut datapath = open(&[("east", PortDevice::Kernel("sp0".into()))], 2, PollMode::Adaptive);
    let mut east = link(&["10.9.0.1/16"], None);
    east.config.gateway_v4 = Some("10.9.0.2".parse().unwrap());
    datapath.join(vec![("east".into(), east)]).unwrap();
    let mut all = over_v4(Protocol::Tcp, 400);
    all.templates[0].looped = false;
    all.pools[0].access = access(vlan, v4(16, 0, 0, 254));
    let all = with_clients(all, v4(17, 0, 0, 1), access(qinq(), v4(17, 0, 0, 254)));
    let (mut spec, address_guard) = found(&datapath, all);
    spec.timing.duration_ns = Some(4000 * MS);
    let run = start(&datapath, spec);
    // A neighbor that was heard a moment ago is not replaced.
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(router.take().macs.map(|macs| macs.into_iter().collect::<Vec<_>>()), [[ROUTER]; 3]);
    router.replace(0, NEW);
    thread::sleep(Duration::from_millis(500));
    router.take();
    wait_for(&run, RunState::Complete, 10);
    // Flows that start after that, and those that were open, use the new MAC only; on the other links nothing has changed.
    let Returned { macs, stations, .. } = router.take();
    assert_eq!(macs.map(|macs| macs.into_iter().collect::<Vec<_>>()), [[NEW], [ROUTER], [ROUTER]]);
    assert!(stations.iter().all(|link| link.len() >= 20), "{:?}", stations.map(|link| link.len()));
    assert_eq!(datapath.neighbor_moves().collect::<Vec<_>>(), [("east", 1)]);
    drop(address_guard);
    run.remove();
}

fn gateways_of(pools: &[Pool]) -> usize {
    pools.iter().filter(|pool| pool.access.gateway.is_some()).count()
}

#[test]
fn veth_gateways_that_are_not_there_are_named_with_who_asked_and_where() {
    run_inside("vlans::inside_not_found", "1500");
}

#[test]
#[ignore = "runs in the namespace that the test above makes"]
fn inside_not_found() {
    let ports = [("east", PortDevice::Kernel("sp0".into())), ("west", PortDevice::Kernel("sp1".into()))];
    let datapath = open(&ports, 1, PollMode::Adaptive);
    let mut all = over_v4(Protocol::Tcp, 1);
    // West answers for the gateway of no pool.
    all.pools[0].access = access(qinq(), v4(16, 0, 0, 254));
    on_two_ports(&mut all);
    let _holding = datapath.hold(&all).unwrap();
    let wrong = next_hop::links(&all, &datapath).unwrap_err().0.remove(0);
    assert_eq!(
        (&*wrong.field.to_string(), wrong.description.as_str()),
        (
            "stateful.pools[0].gateway",
            "port east: gateway 16.0.0.254 did not answer 4 ARP requests within 3 s (requested by 16.0.0.1, in VLAN 802.1ad 200, 802.1Q 7): is it \
             on this link, and is the link up?"
        )
    );
}
