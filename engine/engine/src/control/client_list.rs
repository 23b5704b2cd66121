// SPDX-License-Identifier: Apache-2.0
//! Emulated clients of a run, one by one, in the messages of the contract.
use super::clients::EmulatedClients;
use super::runs::Held;
use super::status::Refusal;
use contract::{EmulatedClient, EmulatedIpv4, EmulatedIpv6, ListClientsRequest, ListClientsResponse, VlanTag};
use prost::bytes::Bytes;
use spate_clients::{Details, Details4, Details6, State};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// Clients of one answer.
const CHUNK: u32 = 1024;
/// Answers that wait for a slow caller.
const ANSWERS: usize = 4;

/// What a caller receives.
pub type Answer = Result<ListClientsResponse, Status>;

/// Starts to send the clients of a run that a request chooses; `permit` is the caller's until all are sent, or it has gone.
pub fn list(
    held: &Held,
    request: ListClientsRequest,
    permit: OwnedSemaphorePermit,
) -> Result<ReceiverStream<Answer>, Refusal> {
    let mut groups = held.clients();
    if groups.is_empty() {
        return Err(Refusal::State(format!("run {:?} has no emulated clients", held.run().id())));
    }
    if !request.clients.is_empty() {
        let names: Vec<String> = groups.iter().map(|group| group.clients().name().to_owned()).collect();
        groups.retain(|group| group.clients().name() == request.clients);
        if groups.is_empty() {
            let problem = format!("{:?} is no group of the run; must be one of {}", request.clients, names.join(", "));
            return Err(Refusal::field("clients", problem));
        }
    }
    let states = states(&request.states)?;
    let limit = if request.limit == 0 { usize::MAX } else { request.limit as usize };
    let (answers, stream) = mpsc::channel(ANSWERS);
    // To list a million clients takes a while, in which other calls shall be answered.
    tokio::task::spawn_blocking(move || {
        send(&groups, &states, limit, &answers);
        drop(permit);
    });
    Ok(ReceiverStream::new(stream))
}

/// The states that a request names; none: all.
fn states(names: &[String]) -> Result<Vec<State>, Refusal> {
    let known = |name: &String| {
        let found = State::ALL.iter().find(|state| state.to_string() == *name).copied();
        found.ok_or_else(|| {
            let all: Vec<String> = State::ALL.iter().map(ToString::to_string).collect();
            Refusal::field("states", format!("{name:?} is no state; must be one of {}", all.join(", ")))
        })
    };
    names.iter().map(known).collect()
}

fn send(groups: &[Arc<EmulatedClients>], states: &[State], limit: usize, answers: &mpsc::Sender<Answer>) {
    let mut left = limit;
    for group in groups {
        let (name, count) = (group.clients().name(), group.clients().count());
        for from in (0..count).step_by(CHUNK as usize) {
            let chunk = group.clients().details(from..from.saturating_add(CHUNK).min(count));
            let chosen = chunk.iter().filter(|client| states.is_empty() || states.contains(&client.state)).take(left);
            let clients: Vec<EmulatedClient> = chosen.map(|client| message(name, client)).collect();
            left -= clients.len();
            // A caller that does not receive it has gone.
            if !clients.is_empty() && answers.blocking_send(Ok(ListClientsResponse { clients })).is_err() || left == 0 {
                return;
            }
        }
    }
}

fn message(group: &str, client: &Details) -> EmulatedClient {
    let tags = client.tags.as_slice().iter();
    EmulatedClient {
        group: group.to_owned(),
        number: client.number,
        mac: Bytes::copy_from_slice(&client.mac),
        vlans: tags.map(|tag| VlanTag { id: tag.vlan.into(), tpid: tag.ethertype.into() }).collect(),
        state: client.state.to_string(),
        cause: client.cause.map(|cause| cause.to_string()).unwrap_or_default(),
        setup_ns: client.setup_ns.unwrap_or(0),
        ipv4: client.ipv4.as_ref().map(ipv4),
        ipv6: client.ipv6.as_ref().map(ipv6),
        given_twice: client.given_twice,
    }
}

fn ipv4(details: &Details4) -> EmulatedIpv4 {
    let bytes = |address: Option<Ipv4Addr>| address.map(v4).unwrap_or_default();
    EmulatedIpv4 {
        address: v4(details.address),
        prefix_len: details.prefix_len.map_or(0, u32::from),
        gateway: bytes(details.gateway),
        gateway_mac: mac(details.gateway_mac),
        server: bytes(details.server),
        lease_left_ns: details.lease_left_ns,
    }
}

fn ipv6(details: &Details6) -> EmulatedIpv6 {
    let bytes = |address: Option<Ipv6Addr>| address.map(v6).unwrap_or_default();
    EmulatedIpv6 {
        link_local: v6(details.link_local),
        slaac: bytes(details.slaac),
        leased: bytes(details.leased),
        delegated: bytes(details.delegated.map(|(prefix, _)| prefix)),
        delegated_len: details.delegated.map_or(0, |(_, len)| u32::from(len)),
        router: bytes(details.router),
        router_mac: mac(details.router_mac),
        lease_left_ns: details.lease_left_ns,
    }
}

fn v4(address: Ipv4Addr) -> Bytes {
    Bytes::copy_from_slice(&address.octets())
}

fn v6(address: Ipv6Addr) -> Bytes {
    Bytes::copy_from_slice(&address.octets())
}

fn mac(mac: Option<[u8; 6]>) -> Bytes {
    mac.map(|mac| Bytes::copy_from_slice(&mac)).unwrap_or_default()
}
