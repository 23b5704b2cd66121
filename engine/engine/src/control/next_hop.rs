// SPDX-License-Identifier: Apache-2.0
//! Destination MACs of packets that leave them to the engine: that of the next hop, which is resolved while the run is prepared.
//!
//! The neighbor is known with its MAC. If it has another MAC later, the run follows it.
use crate::datapath::{Datapath, Hop, LinkHops, LinkNeighbor, PoolGateway, PortInfo, ResolutionGuard};
use crate::index::{PoolIndex, PortIndex, StreamIndex, TemplateIndex};
use crate::plan::{Violations, sending_part};
use contract::{Packet, Plan};
use spate_neighbour::{NeighborQuery, mac_text};
use spate_stateful::{Address, Neighbours, Pool, PortLink, Scenario, pool::Order};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Servers of a pool whose next hops are asked for, at most.
const MAX_RESOLVED_SERVERS: u128 = 64;
/// Servers of a larger pool that engines share, each of which has a next hop of its own in the report, at most.
const MAX_SAMPLED_SERVERS: u128 = 1 << 16;

/// Writes the next hop's MAC into the frames of streams that ask for it; from then on the frames are as given. Gives the neighbor that has
/// it, by stream.
pub fn fill_in(plan: &mut Plan, datapath: &Datapath) -> Result<Vec<Option<IpAddr>>, Violations> {
    let ports = datapath.ports();
    let port = |name: &str| ports.iter().position(|port| port.name == name).map(PortIndex);
    // Of what other engines send the destination is not looked at here.
    let share = plan.share.as_ref().map_or((0, 1), |share| (share.index, share.count));
    let sent = plan.streams.iter().enumerate().filter(|(_, stream)| sending_part(stream, share).is_none());
    let elsewhere: Vec<usize> = sent.map(|(i, _)| i).collect();
    for i in elsewhere {
        if let Some(packet) = &mut plan.streams[i].packet {
            packet.destination_mac_from_port = false;
        }
    }
    // Validation reports whatever else is wrong.
    let asking: Vec<(StreamIndex, PortIndex)> = plan
        .streams
        .iter()
        .enumerate()
        .filter(|(_, stream)| stream.packet.as_ref().is_some_and(|packet| packet.destination_mac_from_port))
        .filter_map(|(i, stream)| Some((StreamIndex(i), port(&stream.tx_port)?)))
        .collect();
    let frame = |packet: &Option<Packet>| packet.as_ref().map(|packet| packet.frame.clone()).unwrap_or_default();
    let frames: Vec<_> = asking.iter().map(|&(i, port)| (port, frame(&plan.streams[i.0].packet))).collect();
    let packets: Vec<(PortIndex, &[u8])> = frames.iter().map(|(port, frame)| (*port, &frame[..])).collect();
    let hops = datapath.next_hops(&packets);
    let mut wrong = Violations::default();
    let mut neighbours = vec![None; plan.streams.len()];
    for ((i, _), hop) in asking.into_iter().zip(hops) {
        match (hop, &mut plan.streams[i.0].packet) {
            (Ok(Hop { mac, neighbour }), Some(packet)) if packet.frame.len() >= mac.len() => {
                neighbours[i.0] = neighbour;
                let mut frame = packet.frame.to_vec();
                frame[..mac.len()].copy_from_slice(&mac);
                packet.frame = frame.into();
                packet.destination_mac_from_port = false;
            }
            (Ok(_), _) => {}
            (Err(problem), _) => {
                wrong.add(i.path().field("packet.destination_mac_from_port"), problem.of_a_written_packet());
            }
        }
    }
    wrong.or(neighbours)
}

/// What emulated applications need of their links.
#[derive(Debug, Default)]
pub struct Links {
    /// By port: its own MAC and, where there are clients, that of the next hop.
    pub links: Vec<PortLink>,
    /// By port: servers with another next hop than most have.
    pub neighbours: Vec<Neighbours>,
    /// By port: by which neighbors these were found.
    pub hops: Vec<LinkHops>,
    /// Gateways of pools that have one.
    pub gateways: Vec<PoolGateway>,
    /// Looks for those of clients' VLANs, also if they have another MAC later.
    pub resolution_guard: Option<ResolutionGuard>,
    /// Warnings for the caller.
    pub warnings: Vec<String>,
}

/// The next hop of every server that clients of each port connect to. Of large pools some addresses are asked for, and have to
/// have one next hop. A software port without addresses is its own neighbor.
pub fn links(scenario: &Scenario, datapath: &Datapath) -> Result<Links, Violations> {
    let ports = datapath.ports();
    let mut pools = scenario.pools.clone();
    let asking = destinations_by_port(scenario, &ports, &mut pools);
    let servers = |pool: PoolIndex| sample(&pools[pool.0]);
    let asked: Vec<_> =
        asking.keys().flat_map(|&(port, pool)| servers(pool).map(move |server| (port, server))).collect();
    let frames: Vec<_> = asked.iter().map(|&(port, server)| (port, frame_to(server))).collect();
    let packets: Vec<(PortIndex, &[u8])> = frames.iter().map(|(port, frame)| (*port, &frame[..])).collect();
    let mut hops = asked.iter().zip(datapath.next_hops(&packets));
    let mut wrong = Violations::default();
    let mut found: Vec<LinkHops> = vec![LinkHops::default(); ports.len()];
    // Where all servers of a large pool are, by port.
    let mut one_for_all: Vec<Option<(PoolIndex, [u8; 6])>> = vec![None; ports.len()];
    let mut warnings = Vec::new();
    for (&(PortIndex(port), pool), template) in &asking {
        let field = template.path().field("client_port");
        let mut known = BTreeMap::new();
        let mut problem = None;
        for ((_, server), hop) in hops.by_ref().take(servers(pool).count()) {
            match hop {
                Ok(Hop { mac, .. }) if mac == ports[port].mac && ports[port].device.leads_outside() => {
                    let at = format!(
                        "server {server:?} is at this port itself, {}, and what it sends does not come back to it",
                        ports[port].name
                    );
                    problem =
                        problem.or(Some(format!("{at}: use a gateway that returns it, or another port for servers")));
                }
                Ok(hop) => drop(known.insert(*server, hop)),
                Err(error) => problem = problem.or(Some(error.to_string())),
            }
        }
        if let Some(problem) = problem {
            wrong.add(field, problem);
            continue;
        }
        if pools[pool.0].last_offset() < MAX_RESOLVED_SERVERS {
            found[port].servers.append(&mut known);
            continue;
        }
        let of_pool = &pools[pool.0];
        let by_address: BTreeMap<_, _> = known.iter().map(|(server, hop)| (*server, hop.mac)).collect();
        if let Some(spread) = spread(of_pool, &by_address) {
            // Each is its own neighbor, and most were not looked for.
            let hops = spread.into_iter().map(|(server, mac)| (server, Hop { mac, neighbour: None }));
            found[port].servers.extend(hops);
            continue;
        }
        let [first, last] = [0, of_pool.last_offset()].map(|offset| of_pool.address(offset));
        let mut macs: Vec<_> = by_address.values().copied().collect();
        macs.sort_unstable();
        macs.dedup();
        let other = one_for_all[port].filter(|(_, mac)| macs != [*mac]);
        if macs.len() > 1 || other.is_some() {
            let problem = format!(
                "servers from {first:?} to {last:?}, and others, are at different MACs on the link of port {}; of a pool of more \
                 than {MAX_RESOLVED_SERVERS} servers all must be in one place: use a gateway, or pools of at most {MAX_RESOLVED_SERVERS}",
                ports[port].name
            );
            wrong.add(field, problem);
            continue;
        }
        one_for_all[port] = Some((pool, macs[0]));
        found[port].add_others(first.is_v6(), macs[0], known.values().map(|hop| hop.neighbour));
        if on_link(&ports[port], first) || on_link(&ports[port], last) {
            warnings.push(format!(
                "servers from {first:?} to {last:?} are on the link of port {}: {MAX_RESOLVED_SERVERS} of them, from end to end, were asked \
                 for, and frames to all go where those are, {}",
                ports[port].name,
                mac_text(macs[0])
            ));
        }
    }
    let (gateways, resolution_guard) = gateways(scenario, datapath, &ports, &mut wrong);
    let mut made = Links { gateways, resolution_guard: Some(resolution_guard), warnings, ..Links::default() };
    for ((port, found), large) in ports.iter().zip(found).zip(one_for_all) {
        let next_hop = large.map(|(_, mac)| mac).or_else(|| found.most_frequent(|_| true)).unwrap_or(port.mac);
        made.links.push(PortLink { mac: port.mac, next_hop });
        let macs = found.servers.iter().map(|(server, hop)| (*server, hop.mac));
        made.neighbours.push(macs.filter(|(_, mac)| *mac != next_hop).collect());
        made.hops.push(found);
    }
    wrong.or(made)
}

/// The gateways of pools. One in the port's own VLAN and in a subnet of its addresses is asked for by the port, others by the pool's first
/// client, which the gateway must resolve in that VLAN. A software port is its own gateway.
fn gateways(
    scenario: &Scenario,
    datapath: &Datapath,
    ports: &[PortInfo],
    wrong: &mut Violations,
) -> (Vec<PoolGateway>, ResolutionGuard) {
    let mut all: Vec<(PortIndex, PoolIndex, Address)> = Vec::new();
    for template in &scenario.templates {
        let Some(port) = template.client.as_ref().map(|client| PortIndex(client.port)) else { continue };
        let with_gateway = |pool: usize| Some((port, PoolIndex(pool), scenario.pools[pool].access.gateway?));
        all.extend(template.clients.iter().filter_map(|client| with_gateway(client.pool)));
    }
    all.sort_unstable();
    all.dedup();
    let by_port = |&(port, pool, gateway): &(PortIndex, PoolIndex, Address)| {
        scenario.pools[pool.0].access.tags.is_none() && on_link(&ports[port.0], gateway)
    };
    let (here, outside): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(port, ..)| !ports[port.0].device.leads_outside());
    let (of_ports, of_clients): (Vec<_>, Vec<_>) = outside.into_iter().partition(by_port);
    let frames: Vec<_> = of_ports.iter().map(|&(port, _, gateway)| (port, frame_to(gateway))).collect();
    let packets: Vec<(PortIndex, &[u8])> = frames.iter().map(|(port, frame)| (*port, &frame[..])).collect();
    let sought: Vec<_> = of_clients
        .iter()
        .map(|&(port, pool, gateway)| {
            let pool = &scenario.pools[pool.0];
            let stations = pool.on_clients_link();
            // An engine without clients of its own sends nothing to the gateway.
            let first = stations.first_own().unwrap_or(0);
            let (station, station_mac) = (stations.address(first).into(), stations.mac(first));
            (port, NeighborQuery { address: gateway.into(), station, station_mac, tags: pool.access.tags })
        })
        .collect();
    let here = here.into_iter().map(|place| (place, Ok((None, ports[place.0.0].mac))));
    let of_hop = |hop: Hop| (hop.neighbour.map(LinkNeighbor::from), hop.mac);
    let asked = datapath.next_hops(&packets).into_iter().map(|hop| hop.map(of_hop));
    let asked = of_ports.iter().copied().zip(asked);
    let (sought, resolution_guard) = datapath.seek(&sought);
    let sought = sought.into_iter().map(|found| found.map(|(neighbor, mac)| (Some(neighbor), mac)));
    let sought = of_clients.iter().copied().zip(sought);
    let mut found = Vec::new();
    for ((port, pool, _), hop) in here.chain(asked).chain(sought) {
        match hop {
            Ok((_, mac)) if ports[port.0].device.leads_outside() && (mac == ports[port.0].mac || mac[0] & 1 == 1) => {
                let problem =
                    "is at the port itself, or no address of one station; give the address of a router on the link";
                wrong.add(pool.path().field("gateway"), problem);
            }
            Ok((neighbor, mac)) => found.push(PoolGateway { port, pool, mac, neighbor }),
            Err(problem) => wrong.add(pool.path().field("gateway"), problem.to_string()),
        }
    }
    (found, resolution_guard)
}

/// Up to this many addresses of a pool, its first and last among them, evenly apart; of a larger one that engines share, some of
/// each part.
fn sample(pool: &Pool) -> impl Iterator<Item = Address> {
    let last = pool.last_offset();
    let count = last.min(MAX_RESOLVED_SERVERS - 1) + 1;
    let parts = if last < MAX_RESOLVED_SERVERS { 1 } else { u128::from(pool.part().of).min(MAX_RESOLVED_SERVERS) };
    (0..count).map(move |n| {
        let even = if count <= 1 { 0 } else { last / (count - 1) * n + last % (count - 1) * n / (count - 1) };
        let of_part = even - even % parts + n % parts;
        pool.address(if of_part <= last { of_part } else { of_part - parts })
    })
}

/// Where all servers of a pool that engines share are, if those of each part have one next hop, and not all the same. Not for
/// the largest.
fn spread(pool: &Pool, known: &BTreeMap<Address, [u8; 6]>) -> Option<BTreeMap<Address, [u8; 6]>> {
    let parts = u128::from(pool.part().of);
    let first = known.values().next()?;
    if parts == 1 || pool.last_offset() >= MAX_SAMPLED_SERVERS || known.values().all(|mac| mac == first) {
        return None;
    }
    let mut by_part = vec![None; parts as usize];
    for (address, mac) in known {
        let place = &mut by_part[(pool.contains(*address)? % parts) as usize];
        if place.replace(*mac).is_some_and(|other| other != *mac) {
            return None;
        }
    }
    (0..=pool.last_offset()).map(|offset| Some((pool.address(offset), by_part[(offset % parts) as usize]?))).collect()
}

/// Whether an address is in a subnet of a port.
fn on_link(port: &PortInfo, address: Address) -> bool {
    port.addresses.iter().any(|own| own.contains(address.into()))
}

/// (Port, pool) of all whose next hop clients must know, with the first template that has them: of servers, and in place of those
/// that clients reach through tunnels the remote end, a pool of its own that is added.
fn destinations_by_port(
    scenario: &Scenario,
    ports: &[PortInfo],
    pools: &mut Vec<Pool>,
) -> BTreeMap<(PortIndex, PoolIndex), TemplateIndex> {
    let software = |port: &PortInfo| !port.device.leads_outside() && port.addresses.is_empty();
    let mut asking = BTreeMap::new();
    for (index, template) in scenario.templates.iter().enumerate() {
        let Some(port) = template.client.as_ref().map(|client| client.port) else { continue };
        let (port, index) = (PortIndex(port), TemplateIndex(index));
        if software(&ports[port.0]) {
            continue;
        }
        // Packets of clients with a gateway of their own go there, whatever their destination.
        let clients = template.clients.iter().map(|client| &scenario.pools[client.pool]);
        let others = clients.filter(|pool| pool.access.gateway.is_none() && !pool.is_leased());
        let tunnels = || others.clone().map(|pool| pool.tunnels);
        for remote in tunnels().flatten().filter_map(|t| Pool::new(t.remote, t.remote, Order::Sequential).ok()) {
            let known = pools[scenario.pools.len()..].iter().position(|pool| *pool == remote);
            let place = scenario.pools.len() + known.unwrap_or(pools.len() - scenario.pools.len());
            if place == pools.len() {
                pools.push(remote);
            }
            asking.entry((port, PoolIndex(place))).or_insert(index);
        }
        if tunnels().any(|tunnels| tunnels.is_none()) {
            // Frames to groups go to the groups' MACs.
            for server in template.servers.iter().filter(|server| !scenario.pools[server.pool].is_of_groups()) {
                asking.entry((port, PoolIndex(server.pool))).or_insert(index);
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use spate_stateful::Part;

    fn pool(count: u128, of: u32) -> Pool {
        let whole = Pool::new(Address::v4(0), Address(Address::v4(0).0 + count - 1), Order::Sequential).unwrap();
        whole.part_of(Part { index: 0, of })
    }

    #[test]
    fn some_of_each_part_are_asked_for() {
        for count in [1, 2, 63, 64, 65, 66, 100, 1000, 1 << 20] {
            for of in [1, 2, 3, 5, 16, 63, 64] {
                let pool = pool(count, of);
                let asked: Vec<_> = sample(&pool).map(|address| pool.contains(address).unwrap()).collect();
                assert_eq!(asked.len() as u128, count.min(MAX_RESOLVED_SERVERS));
                if count <= MAX_RESOLVED_SERVERS {
                    assert!(asked.iter().copied().eq(0..count), "{count} {of}: {asked:?}");
                } else {
                    let found: std::collections::BTreeSet<_> =
                        asked.iter().map(|offset| offset % u128::from(of)).collect();
                    assert_eq!(found.len(), of as usize, "{count} {of}: {asked:?}");
                }
            }
        }
    }

    #[test]
    fn servers_of_other_engines_are_where_those_are() {
        let (pool, mac) = (pool(1000, 3), |offset: u128| [2, 0, 0, 0, 0, (offset % 3) as u8]);
        let asked = |mac: &dyn Fn(u128) -> [u8; 6]| {
            sample(&pool).map(|address| (address, mac(pool.contains(address).unwrap()))).collect::<BTreeMap<_, _>>()
        };
        let found = spread(&pool, &asked(&mac)).unwrap();
        assert_eq!(found.len(), 1000);
        assert!(found.iter().all(|(address, found)| *found == mac(pool.contains(*address).unwrap())));
        // All at a gateway, or anywhere.
        assert_eq!(spread(&pool, &asked(&|_| [2; 6])), None);
        assert_eq!(spread(&pool, &asked(&|offset| [2, 0, 0, 0, 0, (offset % 7) as u8])), None);
        assert_eq!(spread(&super::tests::pool(1 << 17, 3), &asked(&mac)), None);
    }
}
