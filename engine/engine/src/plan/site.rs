// SPDX-License-Identifier: Apache-2.0
//! Where a plan is to run, as far as validation knows it: ports and workers.
use super::Violations;
use super::rate::LineRate;
use crate::index::PortIndex;
use contract::Plan;
use spate_net::ethernet::{HEADER, Link};
use spate_stateful::FieldPath;
use std::collections::HashSet;
use std::ops::Index;

/// The addresses of the port that sends a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Macs {
    /// Its own.
    pub own: [u8; 6],
    /// Its next hop's; none if there is none to be had.
    pub next_hop: Option<[u8; 6]>,
}

/// The address of ports that are only thought of, and of what they lead to.
pub(super) const SIMULATED: Macs = Macs { own: [0x02, 0x53, 0, 0, 0, 0], next_hop: Some([0x02, 0x53, 0, 0, 0, 1]) };

/// What validation knows of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortFacts {
    /// Its name in plans.
    pub name: String,
    /// Bits a second on the medium.
    pub line_rate: LineRate,
    /// Greatest layer-3 packet in bytes; `None` if the device has no limit or it is not known.
    pub mtu: Option<u32>,
    /// Bits a second on the medium that other runs have already claimed.
    pub claimed_bits: u128,
    /// What is written into frames that leave it to the port.
    pub macs: Macs,
    /// What is sent on it comes back to it, or that is not known.
    pub loops: Option<bool>,
    /// Workers of this engine that serve it: those of its group, or all.
    pub workers: u32,
}

/// Where a plan is to run.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its ports; a port's index here is its index in the datapath.
    pub ports: Vec<PortFacts>,
    /// Workers of this engine.
    pub workers: u32,
}

impl Site {
    /// A site that has every port a plan names, of unknown kind: what can be checked without an engine.
    pub fn of_plan(plan: &Plan) -> Self {
        let mut names: Vec<&str> = Vec::new();
        let mut seen = HashSet::new();
        for stream in &plan.streams {
            for name in [stream.tx_port.as_str(), stream.rx_port.as_str()] {
                if !name.is_empty() && seen.insert(name) {
                    names.push(name);
                }
            }
        }
        let others = plan.reflectors.iter().map(|r| &r.port).chain(plan.receivers.iter().map(|r| &r.port));
        let others = others.chain(plan.clients.iter().map(|group| &group.port));
        let templates = plan.stateful.iter().flat_map(|s| &s.templates);
        let others = others.chain(templates.flat_map(|t| [&t.client_port, &t.server_port]));
        names.extend(others.map(String::as_str).filter(|name| !name.is_empty() && seen.insert(name)));
        let port = |name: &str| PortFacts {
            name: name.to_owned(),
            line_rate: LineRate::NotYetKnown,
            mtu: None,
            claimed_bits: 0,
            macs: SIMULATED,
            loops: None,
            workers: 1,
        };
        Self { ports: names.into_iter().map(port).collect(), workers: 1 }
    }

    /// A site with this many workers, which serve all ports.
    #[must_use]
    pub fn with_workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self.ports.iter_mut().for_each(|port| port.workers = workers);
        self
    }

    pub(super) fn index(&self, name: &str) -> Option<PortIndex> {
        self.ports.iter().position(|p| p.name == name).map(PortIndex)
    }

    /// The index of the port that a field names; what is wrong with the name is noted.
    pub(super) fn port(&self, field: &FieldPath, name: &str, wrong: &mut Violations) -> Option<PortIndex> {
        let found = self.index(name);
        if name.is_empty() {
            wrong.add(field, format!("missing; must name a port ({})", self.known_names()));
        } else if found.is_none() {
            wrong.add(field, format!("{name:?} is no port of this engine; {}", self.known_names()));
        }
        found
    }

    fn known_names(&self) -> String {
        match self.ports.as_slice() {
            [] => "this engine has no ports".to_owned(),
            ports => {
                let names: Vec<&str> = ports.iter().map(|p| p.name.as_str()).collect();
                format!("known are {}", names.join(", "))
            }
        }
    }
}

impl Index<PortIndex> for Site {
    type Output = PortFacts;

    fn index(&self, port: PortIndex) -> &PortFacts {
        &self.ports[port.0]
    }
}

/// Whether a port's MTU has room for a frame.
pub(super) fn fits(frame: &[u8], port: &PortFacts) -> Result<(), String> {
    let Some(mtu) = port.mtu else { return Ok(()) };
    // VLAN tags do not count against the MTU (IEEE 802.1Q annex G).
    let most = mtu as usize + Link::find(frame).map_or(HEADER, |link| link.end);
    if frame.len() > most {
        let (len, name) = (frame.len(), &port.name);
        return Err(format!("{len} bytes; must be at most {most} on port {name}, which has the MTU {mtu}"));
    }
    Ok(())
}
