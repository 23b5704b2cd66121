// SPDX-License-Identifier: Apache-2.0
//! A trial: connections of one kind over one path, and their outcome.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;
use serde::Serialize;
use spate_stateful::{Count, Payload, Record, Tunables};

use crate::{
    byte_streams::{self, Clients, Exchange, Peer, Stream},
    emulated::{Counted, Emulated, Ending, Engine, Service},
    forwarder::{Forwarded, Forwarder, Near, Resets},
    kernel,
    namespaces::{self, FAR, Family, NEAR, OURS},
    nat::{self, Nat},
    nginx::{self, Nginx},
    path::Path,
    times::Times,
    wrk::{self, Wrk},
};

/// Servers listen on it: below the ports of the kernel's clients.
const PORT: u16 = 8080;
/// Bytes of a request.
const REQUEST: u64 = 300;
/// Connections may take as long after the last has started.
const PATIENCE: Duration = Duration::from_secs(190);

/// The end that sends the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sender {
    /// Our servers, to the kernel's clients.
    Ours,
    /// The kernel's servers in our place, to the same clients.
    Kernel,
    /// The kernel's servers at the far end, to our clients.
    ToOurs,
    /// nginx at the far end, to our clients.
    Nginx,
    /// Our servers, to the kernel's clients behind source NAT.
    OursThroughNat,
    /// Our HTTP servers, to wrk: requests one after the other.
    OursToWrk,
    /// The engine's servers answer wrk, with a connection for each request.
    OursOnceToWrk,
}

/// What is to become of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expected {
    /// All complete, all bytes arrive.
    Complete,
    /// One connection of this many is reset, the others complete.
    OneInReset(u16),
    /// The server is killed after a while: those before complete, the others end.
    Killed,
    /// The path falls silent: what is open then is cut at the end of the run.
    Silence,
}

/// Connections over a path.
#[derive(Clone, Debug)]
pub struct Trial {
    pub name: String,
    pub sender: Sender,
    pub family: Family,
    pub path: Path,
    pub resets: Option<Resets>,
    /// Connections; of wrk, requests.
    pub connections: usize,
    pub per_second: usize,
    pub bytes: u64,
    pub expected: Expected,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    pub name: String,
    pub sender: Sender,
    pub family: Family,
    pub connections: usize,
    /// As the peer's log has it.
    pub completed: usize,
    pub bytes: u64,
    /// Received, as the peer or, of those that send to it (`to-ours`, `nginx`), the engine counts.
    pub received: u64,
    /// Sent, as the other side counts.
    pub sent: u64,
    pub seconds: Times,
    /// Mean over connections of bytes by time, in kB/s: their bytes by the sum of their times.
    pub goodput: f64,
    /// Counters of the engine; of the kernel, if it sends in the engine's place.
    pub counters: BTreeMap<&'static str, u64>,
    pub router: Forwarded,
    /// Addresses and ports of the clients of the engine's servers.
    #[serde(skip)]
    pub peers: BTreeSet<(IpAddr, u16)>,
    /// What is not as it should be.
    pub faults: Vec<String>,
    /// Why connections failed at the peer, and how many.
    pub failures: BTreeMap<String, usize>,
}

/// What trials need.
pub struct Bench {
    pub prefix: String,
    pub engine: Engine,
    pub seed: u64,
}

fn pattern(len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    Payload::pattern(len).fill(0, 0, &mut bytes);
    bytes
}

fn times(streams: &[Stream]) -> Times {
    let done = streams.iter().filter(|stream| stream.failure.is_none());
    let mut seconds: Vec<f64> = done.map(|stream| stream.took.as_secs_f64()).collect();
    seconds.sort_by(f64::total_cmp);
    let Some(last) = seconds.len().checked_sub(1) else { return Times::default() };
    let rank = |share: f64| seconds[(last as f64 * share).round() as usize];
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    Times { mean, median: rank(0.5), p99: rank(0.99), longest: seconds[last] }
}

impl Trial {
    fn exchange(&self) -> Exchange {
        Exchange { request: pattern(REQUEST).into(), response: pattern(self.bytes).into() }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs((self.connections / self.per_second) as u64) + PATIENCE
    }

    /// Runs it.
    pub fn run(&self, bench: &mut Bench) -> anyhow::Result<Outcome> {
        for which in ["near", "far"] {
            namespaces::forget_paths(&bench.prefix, which)?;
        }
        let near = if self.sender == Sender::Kernel { Near::Kernel } else { Near::Ours };
        let router = Forwarder::start(&bench.prefix, near, self.path.clone(), bench.seed, self.resets)?;
        let mut outcome = match self.sender {
            Sender::Ours => self.ours_sends(bench, "far", |_| None)?,
            Sender::Kernel => self.kernel_sends(bench)?,
            Sender::ToOurs => self.ours_receives(bench)?,
            Sender::Nginx => self.nginx_sends(bench)?,
            Sender::OursThroughNat => self.ours_sends_through_nat(bench)?,
            Sender::OursToWrk => self.wrk_asks(bench, Service::Http)?,
            Sender::OursOnceToWrk => self.wrk_asks(bench, Service::HttpOnce)?,
        };
        outcome.router = router.stop()?;
        if outcome.router.missed > 0 {
            outcome.faults.push(format!("the router was too slow for {} packets", outcome.router.missed));
        }
        Ok(outcome)
    }

    fn at(&self, address: [u8; 4]) -> SocketAddr {
        (self.family.of(address), PORT).into()
    }

    fn tunables(&self) -> Tunables {
        Tunables { mss: if self.family == Family::V6 { 1440 } else { 1460 }, ..Tunables::default() }
    }

    fn ask(
        &self,
        bench: &Bench,
        which: &str,
        server: [u8; 4],
        from: fn(usize) -> Option<SocketAddr>,
    ) -> anyhow::Result<Peer> {
        let clients = Clients { count: self.connections, per_second: self.per_second, from };
        Ok(byte_streams::ask(&bench.prefix, which, self.at(server), self.exchange(), clients)?)
    }

    /// Waits until this many connections have ended.
    fn wait(&self, ended: impl Fn() -> usize) {
        wait(self.patience(), || ended() >= self.connections);
    }

    fn ours_sends(
        &self,
        bench: &mut Bench,
        which: &str,
        from: fn(usize) -> Option<SocketAddr>,
    ) -> anyhow::Result<Outcome> {
        let service = Service::Once(REQUEST);
        let servers = bench.engine.serve(self.at(OURS), service, Payload::pattern(self.bytes), self.tunables())?;
        let clients = self.ask(bench, which, OURS, from)?;
        self.wait(|| clients.ended());
        let counted = ended(servers)?;
        let streams = clients.stop()?;
        let sums = (streams.iter().map(|s| s.received).sum(), counted.get(Count::AckedBytes));
        let mut outcome = self.outcome(&streams, sums, Some(&counted));
        let accepted = counted.get(Count::FlowsAccepted);
        if accepted != self.connections as u64 {
            outcome.faults.push(format!("{accepted} connections accepted, {} made", self.connections));
        }
        let of = |record: &Record| (IpAddr::from(record.tuple.remote), record.tuple.remote_port);
        outcome.peers = counted.records.iter().map(of).collect();
        Ok(outcome)
    }

    /// Three clients have each port: they are distinguished by those that the NAT gives them.
    fn ours_sends_through_nat(&self, bench: &mut Bench) -> anyhow::Result<Outcome> {
        let _nat = Nat::start(&bench.prefix)?;
        let mut outcome = self.ours_sends(bench, "behind", |n| Some(nat::client(n)))?;
        let (all, peers) = (outcome.peers.len(), self.connections);
        let others = outcome.peers.iter().filter(|(address, _)| *address != nat::address()).count();
        if all != peers || others > 0 {
            outcome.faults.push(format!("{all} peers, not {peers}; {others} have not the NAT's address"));
        }
        Ok(outcome)
    }

    fn wrk_asks(&self, bench: &mut Bench, service: Service) -> anyhow::Result<Outcome> {
        let body = pattern(self.bytes);
        let (connection, connections) = match service {
            // Each is opened again after its answer.
            Service::HttpOnce => ("close", wrk::BEFORE + wrk::OPEN + self.connections),
            _ => ("keep-alive", wrk::BEFORE + wrk::OPEN),
        };
        let header = format!("HTTP/1.1 200 OK\r\nConnection: {connection}\r\nContent-Length: {}\r\n\r\n", body.len());
        let response = Payload::bytes([header.as_bytes(), &body].concat());
        let servers = bench.engine.serve(self.at(OURS), service, response, self.tunables())?;
        let mut wrk = Wrk::start(&bench.prefix, self.at(OURS), self.connections, &body)?;
        wrk.wait()?;
        // One whose handshake is not over would be reset.
        wait(PATIENCE, || servers.counted().get(Count::FlowsEstablished) >= connections as u64);
        let answered = wrk.stop()?;
        let counted = ended(servers)?;
        let sums = (answered.bytes, counted.get(Count::AckedBytes));
        let mut outcome =
            self.seen(answered.requests as usize, answered.seconds, answered.errors, sums, Some(&counted));
        let (served, accepted) = (counted.get(Count::ProgramCounts), counted.get(Count::FlowsAccepted));
        if served != answered.requests {
            outcome.faults.push(format!("wrk reports {} requests, our servers of {served}", answered.requests));
        }
        if accepted != connections as u64 {
            outcome.faults.push(format!("{accepted} connections accepted, {connections} made"));
        }
        if !outcome.failures.is_empty() {
            outcome.faults.push("wrk reports errors".into());
        }
        Ok(outcome)
    }

    fn kernel_sends(&self, bench: &Bench) -> anyhow::Result<Outcome> {
        let before = kernel::counters(&bench.prefix, "near")?;
        let servers = byte_streams::serve(&bench.prefix, "near", self.at(NEAR), self.exchange())?;
        let clients = self.ask(bench, "far", NEAR, |_| None)?;
        self.wait(|| clients.ended());
        self.wait(|| servers.ended());
        let (streams, served) = (clients.stop()?, servers.stop()?);
        let sums = (streams.iter().map(|s| s.received).sum(), served.iter().map(|s| s.sent).sum());
        let mut outcome = self.outcome(&streams, sums, None);
        for (name, count) in kernel::counters(&bench.prefix, "near")? {
            let counted = count - before.get(name).copied().unwrap_or(0);
            if counted > 0 {
                outcome.counters.insert(name, counted);
            }
        }
        Ok(outcome)
    }

    fn wait_for_ours(&self, clients: &Emulated) {
        self.wait(|| clients.counted().get(Count::FlowsClosed) as usize);
    }

    fn ours_receives(&self, bench: &mut Bench) -> anyhow::Result<Outcome> {
        let servers = byte_streams::serve(&bench.prefix, "far", self.at(FAR), self.exchange())?;
        let many = (self.connections, self.per_second);
        let request = Payload::pattern(REQUEST);
        let clients = bench.engine.ask(self.at(FAR), request, Ending::Length(self.bytes), many, self.tunables())?;
        if self.expected == Expected::Silence {
            thread::sleep(Duration::from_secs((self.connections / self.per_second) as u64 + 3));
            let counted = clients.stop()?;
            return Ok(self.silenced(&servers.stop()?, &counted));
        }
        self.wait_for_ours(&clients);
        self.wait(|| servers.ended());
        let counted = clients.stop()?;
        let streams = servers.stop()?;
        let sums = (counted.get(Count::ReceivedDataBytes), streams.iter().map(|s| s.sent).sum());
        Ok(self.outcome(&streams, sums, Some(&counted)))
    }

    fn nginx_sends(&self, bench: &mut Bench) -> anyhow::Result<Outcome> {
        let mut server = Nginx::start(&bench.prefix, self.at(FAR), &pattern(self.bytes))?;
        let many = (self.connections, self.per_second);
        let request = Payload::bytes(nginx::REQUEST);
        let clients = bench.engine.ask(self.at(FAR), request, Ending::PeerCloses, many, self.tunables())?;
        if self.expected == Expected::Killed {
            thread::sleep(Duration::from_secs((self.connections / self.per_second / 2) as u64));
            server.kill()?;
        }
        self.wait_for_ours(&clients);
        let counted = clients.stop()?;
        let log = server.log()?;
        let stream = |sent: &u64| Stream { received: 0, sent: *sent, took: Duration::ZERO, failure: None };
        let streams: Vec<_> = log.iter().map(stream).collect();
        let sums = (counted.get(Count::ReceivedDataBytes), log.iter().sum());
        let mut outcome = self.outcome(&streams, sums, Some(&counted));
        if self.expected == Expected::Complete && log.iter().any(|bytes| *bytes <= self.bytes) {
            outcome.faults.push(format!("nginx sent less than {} bytes and a header", self.bytes));
        }
        Ok(outcome)
    }

    /// What was seen, with what is wrong with it.
    fn outcome(&self, streams: &[Stream], sums: (u64, u64), counted: Option<&Counted>) -> Outcome {
        let completed = streams.iter().filter(|stream| stream.failure.is_none()).count();
        let mut failures = BTreeMap::new();
        for failure in streams.iter().filter_map(|stream| stream.failure.clone()) {
            *failures.entry(failure).or_default() += 1;
        }
        self.seen(completed, times(streams), failures, sums, counted)
    }

    fn seen(
        &self,
        completed: usize,
        seconds: Times,
        failures: BTreeMap<String, usize>,
        (received, sent): (u64, u64),
        counted: Option<&Counted>,
    ) -> Outcome {
        let goodput = if seconds.mean > 0.0 { self.bytes as f64 / seconds.mean / 1e3 } else { 0.0 };
        let mut outcome = Outcome {
            name: self.name.clone(),
            sender: self.sender,
            family: self.family,
            connections: self.connections,
            completed,
            bytes: self.bytes,
            received,
            sent,
            seconds,
            goodput,
            counters: counted.map(Counted::named).unwrap_or_default(),
            router: Forwarded::default(),
            peers: BTreeSet::new(),
            faults: vec![],
            failures,
        };
        self.judge(&mut outcome, counted);
        outcome
    }

    fn silenced(&self, streams: &[Stream], counted: &Counted) -> Outcome {
        let sums = (counted.get(Count::ReceivedDataBytes), streams.iter().map(|s| s.sent).sum());
        self.outcome(streams, sums, Some(counted))
    }

    fn judge(&self, outcome: &mut Outcome, counted: Option<&Counted>) {
        let mut faults = Vec::new();
        let mut must = |holds: bool, message: String| {
            if !holds {
                faults.push(message);
            }
        };
        let (done, all) = (outcome.completed, self.connections);
        let get = |count| counted.map_or(0, |counted| counted.get(count));
        match self.expected {
            Expected::Complete => {
                must(done == all, format!("{done} of {all} connections completed"));
                must(
                    outcome.received == outcome.sent,
                    format!("{} bytes received, {} sent", outcome.received, outcome.sent),
                );
                // A packet that comes late belongs to no connection any more: both kinds of ends answer it with RST.
                let (resets, strays) = (get(Count::ResetsSent), get(Count::StraysRefused));
                must(resets == strays, format!("{resets} RST sent, {strays} of them to late packets"));
                let resets: &[Count] = if self.path.keeps_order() { &[Count::ResetsReceived] } else { &[] };
                let bad = [Count::FlowsAborted, Count::TimeoutDrops, Count::ConnectDrops, Count::RecoveryExhausted];
                for bad in bad.iter().chain(resets) {
                    must(get(*bad) == 0, format!("{bad:?}: {}", get(*bad)));
                }
            }
            Expected::OneInReset(one_in) => {
                let reset = get(Count::ResetsReceived) as usize;
                must(done + reset == all, format!("{done} completed and {reset} reset of {all}"));
                let about = all / usize::from(one_in);
                must(reset > about / 2 && reset < 2 * about + 2, format!("{reset} reset, not about {about}"));
            }
            Expected::Killed => {
                must(done > 0 && done < all, format!("{done} of {all} completed"));
                let refused = get(Count::ResetsReceived) + get(Count::ConnectDrops);
                must(refused > 0, "no connection was refused".into());
                must(get(Count::FlowsAborted) == 0, format!("{} cut", get(Count::FlowsAborted)));
            }
            Expected::Silence => {
                must(done < all, "all completed".into());
                must(get(Count::FlowsAborted) > 0, "nothing was cut".into());
                let ended = get(Count::FlowsClosed);
                must(ended == all as u64, format!("{ended} of {all} ended"));
            }
        }
        if let Some(counted) = counted {
            must(counted.open() == 0, format!("{} flows are left", counted.open()));
            for message in &counted.contradictions {
                must(false, message.clone());
            }
        }
        outcome.faults = faults;
    }
}

/// Waits until a condition holds, or a timeout.
fn wait(most: Duration, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() && start.elapsed() < most {
        thread::sleep(Duration::from_millis(20));
    }
}

/// Ends our servers, which close after their clients.
fn ended(servers: Emulated) -> anyhow::Result<Counted> {
    wait(Duration::from_secs(100), || servers.counted().open() == 0);
    servers.stop()
}

/// Refuses a run from which nothing would follow.
pub fn check_root() -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("network namespaces and packet sockets need root");
    }
    Ok(())
}
