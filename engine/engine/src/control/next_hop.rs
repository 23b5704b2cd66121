// SPDX-License-Identifier: Apache-2.0
//! Destinations of packets that leave them to the engine: the MAC of the next hop, asked for while the run is prepared.
//!
//! It stays for the run. A neighbour that has another MAC later is told in the log and in GetInfo, not followed: packets
//! are templates by then, and a test whose next hop changes should notice.
use crate::datapath::Datapath;
use crate::plan::Violations;
use contract::{Packet, Plan};

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
