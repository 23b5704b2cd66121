// SPDX-License-Identifier: Apache-2.0
//! Destinations of packets that leave them to the engine: the MAC of the next hop, asked for while the run is prepared.
//!
//! It stays for the run. A neighbour that has another MAC later is told in the log and in GetInfo, not followed: packets
//! are templates by then, and a test whose next hop changes should notice.
use crate::datapath::{Datapath, PortDevice, PortInfo};
use crate::plan::Violations;
use contract::{Packet, Plan};
use spate_stateful::{Address, PortLink, Scenario};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Writes the next hop's MAC into the frames of streams that ask for it; from then on the frames are as given.
pub fn fill_in(plan: &mut Plan, datapath: &Datapath) -> Result<(), Violations> {
    let ports = datapath.ports();
    let port = |name: &str| ports.iter().position(|port| port.name == name);
    // What is wrong besides is for validation to tell.
    let asking: Vec<(usize, usize)> = plan
        .streams
        .iter()
        .enumerate()
        .filter(|(_, stream)| stream.packet.as_ref().is_some_and(|packet| packet.destination_mac_from_port))
        .filter_map(|(i, stream)| Some((i, port(&stream.tx_port)?)))
        .collect();
    let frame = |packet: &Option<Packet>| packet.as_ref().map(|packet| packet.frame.clone()).unwrap_or_default();
    let frames: Vec<_> = asking.iter().map(|&(i, port)| (port, frame(&plan.streams[i].packet))).collect();
    let packets: Vec<(usize, &[u8])> = frames.iter().map(|(port, frame)| (*port, &frame[..])).collect();
    let hops = datapath.next_hops(&packets);
    let mut wrong = Violations::default();
    for ((i, _), hop) in asking.into_iter().zip(hops) {
        match (hop, &mut plan.streams[i].packet) {
            (Ok(mac), Some(packet)) if packet.frame.len() >= mac.len() => {
                let mut frame = packet.frame.to_vec();
                frame[..mac.len()].copy_from_slice(&mac);
                packet.frame = frame.into();
                packet.destination_mac_from_port = false;
            }
            (Ok(_), _) => {}
            (Err(problem), _) => wrong.add(format!("streams[{i}].packet.destination_mac_from_port"), problem),
        }
    }
    wrong.or(())
}

/// By port, what emulated applications need of it: its own MAC and, where there are clients, that of the next hop on the way
/// to all servers. A software port without addresses is its own neighbour.
pub fn links(scenario: &Scenario, datapath: &Datapath) -> Result<Vec<PortLink>, Violations> {
    let ports = datapath.ports();
    let mut links: Vec<_> = ports.iter().map(|port| PortLink { mac: port.mac, next_hop: port.mac }).collect();
    let asking = servers_by_port(scenario, &ports);
    let frames: Vec<_> =
        asking.keys().map(|&(port, server)| (port, frame_to(scenario.pools[server].address(0)))).collect();
    let packets: Vec<(usize, &[u8])> = frames.iter().map(|(port, frame)| (*port, &frame[..])).collect();
    let hops = datapath.next_hops(&packets);
    let mut wrong = Violations::default();
    let mut found: BTreeMap<usize, ([u8; 6], IpAddr)> = BTreeMap::new();
    for ((&(port, server), template), hop) in asking.iter().zip(hops) {
        let field = format!("stateful.templates[{template}].client_port");
        let server: IpAddr = scenario.pools[server].address(0).into();
        match hop {
            Err(problem) => wrong.add(field, problem.replace("its tx_port", &format!("port {}", ports[port].name))),
            Ok(mac) => {
                let (known, other) = *found.entry(port).or_insert((mac, server));
                if known != mac {
                    let problem = format!(
                        "{server} and {other} have different next hops from port {}; clients of a port need one for all \
                         servers: use a gateway, or another port",
                        ports[port].name
                    );
                    wrong.add(field, problem);
                }
                links[port].next_hop = known;
            }
        }
    }
    wrong.or(links)
}

/// (Port, pool of servers) of all clients whose next hop must be asked for, with the first template that has them.
fn servers_by_port(scenario: &Scenario, ports: &[PortInfo]) -> BTreeMap<(usize, usize), usize> {
    let software = |port: &PortInfo| {
        matches!(port.device, PortDevice::Loopback | PortDevice::Null | PortDevice::Outlet) && port.addresses.is_empty()
    };
    let mut asking = BTreeMap::new();
    for (index, template) in scenario.templates.iter().enumerate() {
        let Some(port) = template.client.as_ref().map(|client| client.port) else { continue };
        for server in template.servers.iter().filter(|_| !software(&ports[port])) {
            asking.entry((port, server.pool)).or_insert(index);
        }
    }
    asking
}

/// As much of a packet to an address as finding its next hop takes.
fn frame_to(address: Address) -> Vec<u8> {
    let mut frame = vec![0; 12];
    match IpAddr::from(address) {
        IpAddr::V4(v4) => {
            frame.extend([0x08, 0x00, 0x45]);
            frame.resize(30, 0);
            frame.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            frame.extend([0x86, 0xdd, 0x60]);
            frame.resize(38, 0);
            frame.extend(v6.octets());
        }
    }
    frame.resize(74, 0);
    frame
}
