// SPDX-License-Identifier: Apache-2.0
//! The contract's service: gRPC in, the engine's answers out. A call that names a run renews that run's lease.
use super::capture::Captures;
use super::instant::instant_of;
use super::runs::{Engine, Held};
use super::status::Refusal;
use super::{machine, receivers, routing, stats};
use crate::datapath::{BondMember, CopyMode, LacpState, PortDevice, PortInfo, StampedBy};
use crate::machine::Facts;
use crate::plan::{MAX_PLAN_BYTES, decode, rate, validate};
use crate::version::version;
use contract::engine_server;
use contract::*;
use prost::bytes::{Bytes, BytesMut};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// The contract's minor version that this engine serves.
pub const CONTRACT_MINOR: u32 = 0;
/// The shortest interval of WatchStats: reading all counters costs the control thread time.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// The service over an engine.
#[derive(Clone)]
pub struct Service {
    engine: Arc<Engine>,
    hugepage_bytes: u64,
    machine: Arc<Machine>,
    captures: Captures,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + std::marker::Send>>;

impl Service {
    /// The service over an engine with its bytes of hugepages, on a machine.
    pub fn new(engine: Arc<Engine>, hugepage_bytes: u64, facts: &Facts) -> Self {
        Self { engine, hugepage_bytes, machine: Arc::new(machine::reported(facts)), captures: Captures::default() }
    }

    /// The run of a request, whose lease is renewed. Its caller has authority, or the connection would not stand.
    fn held(&self, run_id: &str) -> Result<Arc<Held>, Status> {
        let held = self.engine.find(run_id)?;
        held.lease.renew();
        Ok(held)
    }

    /// Its ports as they are now, with their sessions as routers.
    fn ports(&self) -> Vec<contract::PortInfo> {
        let mut ports: Vec<_> = self.engine.datapath().ports().iter().map(port_info).collect();
        for known in self.engine.routing().map(routing::Routing::sessions).unwrap_or_default() {
            if let Some(port) = ports.iter_mut().find(|port| port.name == known.session.port) {
                port.sessions.push(routing::reported(&known));
            }
        }
        ports
    }

    fn info(&self, held: &Held) -> Option<RunInfo> {
        Some(held.info(self.engine.now_ns()))
    }
}

/// An instant of a request; negative ones are refused by name.
fn instant(at_ns: i64) -> Result<u64, Status> {
    u64::try_from(at_ns)
        .map_err(|_| Refusal::field("at_ns", format!("{at_ns}; must be nanoseconds since the epoch")).into())
}

#[tonic::async_trait]
impl engine_server::Engine for Service {
    async fn get_info(&self, _: Request<GetInfoRequest>) -> Result<Response<GetInfoResponse>, Status> {
        let now_ns = self.engine.now_ns();
        Ok(Response::new(GetInfoResponse {
            version: version().into(),
            contract_minor: CONTRACT_MINOR,
            ports: self.ports(),
            workers: self.engine.datapath().worker_counters().len() as u32,
            features: validate::FEATURES.iter().map(ToString::to_string).collect(),
            runs: self.engine.all().iter().map(|held| held.info(now_ns)).collect(),
            now_ns: self.engine.now_ns() as i64,
            final_counters_scraped: self.engine.final_counters_scraped(),
            time_source: self.engine.time_source(),
            hugepage_bytes: self.hugepage_bytes,
            dpdk_version: crate::datapath::Datapath::dpdk_version(),
            problem: self.engine.watchdog().problem().unwrap_or_default(),
            machine: Some((*self.machine).clone()),
            routing: self.engine.routing().map(routing::Routing::info),
        }))
    }

    async fn configure(&self, request: Request<ConfigureRequest>) -> Result<Response<ConfigureResponse>, Status> {
        let no_router = || Refusal::State("no port of this engine is a router; start it with --router".into());
        let routing = self.engine.routing().ok_or_else(no_router)?;
        let wanted = request.into_inner().routing;
        let wanted = wanted.ok_or_else(|| Refusal::field("routing", "is missing; set the sessions of all ports"))?;
        routing.configure(&wanted).await?;
        Ok(Response::new(ConfigureResponse {}))
    }

    async fn prepare(&self, request: Request<Streaming<PrepareRequest>>) -> Result<Response<PrepareResponse>, Status> {
        let (header, bytes) = receive(request.into_inner()).await?;
        let engine = self.engine.clone();
        // Validation and allocation of a large plan take time in which other calls shall be answered.
        let prepared =
            tokio::task::spawn_blocking(move || engine.prepare(&header.run_id, bytes, decode::Format::Binary))
                .await
                .map_err(|e| Status::internal(format!("preparing the run failed: {e}")))?;
        let (held, warnings) = prepared?;
        held.lease.renew();
        tracing::info!(run = held.run().id(), profile = held.profile, streams = held.streams().len(), "run prepared");
        Ok(Response::new(PrepareResponse { run: self.info(&held), warnings }))
    }

    async fn start(&self, request: Request<StartRequest>) -> Result<Response<StartResponse>, Status> {
        let request = request.into_inner();
        let held = self.held(&request.run_id)?;
        let at_mono_ns = instant_of("at_monotonic_ns", request.at_monotonic_ns)?;
        if (request.at_ns == 0) == (at_mono_ns == 0) {
            return Err(
                Refusal::field("at_monotonic_ns", "exactly one of at_ns and at_monotonic_ns must be set").into()
            );
        }
        if let Some(reference) = &request.reference {
            held.set_reference(reference)?;
        }
        if at_mono_ns > 0 {
            self.engine.start_at_mono(&held, at_mono_ns)?;
        } else {
            self.engine.start(&held, instant(request.at_ns)?)?;
        }
        let run = self.info(&held);
        tracing::info!(run = request.run_id, at_ns = run.as_ref().map_or(0, |run| run.started_at_ns), "run starts");
        Ok(Response::new(StartResponse { run }))
    }

    async fn start_trial(&self, request: Request<StartTrialRequest>) -> Result<Response<StartTrialResponse>, Status> {
        let request = request.into_inner();
        self.held(&request.run_id)?;
        let (engine, trial) = (self.engine.clone(), request.trial);
        // A trial of a large plan takes time to make, in which other calls shall be answered.
        let started = tokio::task::spawn_blocking(move || engine.start_trial(&request)).await;
        let held = started.map_err(|e| Status::internal(format!("starting trial {trial} failed: {e}")))??;
        tracing::info!(run = held.run().id(), trial, "trial starts");
        Ok(Response::new(StartTrialResponse { run: self.info(&held) }))
    }

    async fn update(&self, request: Request<UpdateRequest>) -> Result<Response<UpdateResponse>, Status> {
        let request = request.into_inner();
        let held = self.held(&request.run_id)?;
        let change = request
            .change
            .ok_or_else(|| Refusal::field("change", "is missing; set rate, rate_factor, paused or enabled"))?;
        let selector = request.selector.unwrap_or_default();
        let effective = self.engine.update(&held, &selector, &change, instant(request.at_ns)?)?;
        tracing::info!(run = request.run_id, ?change, effective_at_ns = effective, "run updated");
        Ok(Response::new(UpdateResponse { run: self.info(&held), effective_at_ns: effective as i64 }))
    }

    async fn pause(&self, request: Request<PauseRequest>) -> Result<Response<PauseResponse>, Status> {
        let request = request.into_inner();
        let held = self.held(&request.run_id)?;
        self.engine.pause(&held, instant(request.at_ns)?)?;
        Ok(Response::new(PauseResponse { run: self.info(&held) }))
    }

    async fn resume(&self, request: Request<ResumeRequest>) -> Result<Response<ResumeResponse>, Status> {
        let request = request.into_inner();
        let held = self.held(&request.run_id)?;
        self.engine.resume(&held, instant(request.at_ns)?)?;
        Ok(Response::new(ResumeResponse { run: self.info(&held) }))
    }

    async fn stop(&self, request: Request<StopRequest>) -> Result<Response<StopResponse>, Status> {
        let request = request.into_inner();
        let held = self.held(&request.run_id)?;
        tracing::info!(run = request.run_id, reason = request.reason, "run stops");
        held.run().stop(if request.reason.is_empty() { "stopped by request" } else { &request.reason });
        Ok(Response::new(StopResponse { run: self.info(&held) }))
    }

    async fn remove(&self, request: Request<RemoveRequest>) -> Result<Response<RemoveResponse>, Status> {
        self.engine.remove(&request.into_inner().run_id);
        Ok(Response::new(RemoveResponse {}))
    }

    type WatchStatsStream = Answers<WatchStatsResponse>;

    async fn watch_stats(
        &self,
        request: Request<WatchStatsRequest>,
    ) -> Result<Response<Self::WatchStatsStream>, Status> {
        let request = request.into_inner();
        let held = self.held(&request.run_id)?;
        if request.stage_end > 0 {
            let Some(stages) = held.stages() else {
                return Err(Refusal::field("stage_end", "the run's plan has no stages").into());
            };
            return Ok(Response::new(Box::pin(tokio_stream::once(Ok(stages.end(request.stage_end)?)))));
        }
        let engine = self.engine.clone();
        let grouping = if request.ungrouped { stats::Grouping::ByStream } else { stats::Grouping::ByGroup };
        if request.interval_ns == 0 {
            return Ok(Response::new(Box::pin(tokio_stream::once(Ok(stats::read(&engine, &held, grouping))))));
        }
        let mut interval = tokio::time::interval(Duration::from_nanos(request.interval_ns).max(MIN_INTERVAL));
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut ended = false;
        let ticks = tokio_stream::wrappers::IntervalStream::new(interval);
        let answers = ticks.map_while(move |_| {
            if std::mem::replace(&mut ended, held.has_ended()) {
                return None;
            }
            held.lease.renew();
            Some(Ok(stats::read(&engine, &held, grouping)))
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn reset_receivers(
        &self,
        request: Request<ResetReceiversRequest>,
    ) -> Result<Response<ResetReceiversResponse>, Status> {
        let request = request.into_inner();
        receivers::reset(&*self.held(&request.run_id)?, &request.receivers)?;
        Ok(Response::new(ResetReceiversResponse {}))
    }

    async fn set_limits(&self, request: Request<SetLimitsRequest>) -> Result<Response<SetLimitsResponse>, Status> {
        let rate = request.into_inner().max_rate;
        let limit = rate.as_ref().map(rate::max_rate).transpose();
        let limit = limit.map_err(|error| Status::from(Refusal::field("max_rate", error.to_string())))?;
        let engine = self.engine.clone();
        // All workers have it when this is answered.
        tokio::task::spawn_blocking(move || engine.datapath().limit(limit))
            .await
            .map_err(|e| Status::internal(format!("setting the limits failed: {e}")))?;
        tracing::info!(?limit, "limits set");
        Ok(Response::new(SetLimitsResponse {}))
    }

    async fn exchange_times(
        &self,
        _: Request<ExchangeTimesRequest>,
    ) -> Result<Response<ExchangeTimesResponse>, Status> {
        let clock = self.engine.clock();
        let receive_ns = clock.mono_ns() as i64;
        Ok(Response::new(ExchangeTimesResponse {
            receive_ns,
            wall_offset_ns: clock.wall_offset_ns(),
            clock_id: clock.id(),
            tolerance_ppb: clock.tolerance_ppb(),
            transmit_ns: clock.mono_ns() as i64,
        }))
    }

    async fn set_reference(
        &self,
        request: Request<SetReferenceRequest>,
    ) -> Result<Response<SetReferenceResponse>, Status> {
        let request = request.into_inner();
        let held = self.held(&request.run_id)?;
        let reference = request
            .reference
            .ok_or_else(|| Refusal::field("reference", "is missing; set how it stands to this engine's clock"))?;
        held.set_reference(&reference)?;
        Ok(Response::new(SetReferenceResponse {}))
    }

    type CaptureStream = Answers<CaptureResponse>;

    async fn capture(&self, request: Request<CaptureRequest>) -> Result<Response<Self::CaptureStream>, Status> {
        let answers = self.captures.start(&self.engine, request.into_inner()).await?;
        Ok(Response::new(Box::pin(answers)))
    }

    type PingStream = Answers<PingResponse>;

    async fn ping(&self, request: Request<PingRequest>) -> Result<Response<Self::PingStream>, Status> {
        let answers = super::ping::start(&self.engine, &request.into_inner())?;
        Ok(Response::new(Box::pin(answers)))
    }
}

/// Puts a plan together from its chunks.
async fn receive(mut parts: Streaming<PrepareRequest>) -> Result<(PrepareHeader, Bytes), Status> {
    let header = match parts.message().await?.and_then(|m| m.part) {
        Some(prepare_request::Part::Header(header)) => header,
        _ => return Err(Refusal::field("header", "must be the first part").into()),
    };
    if header.total_bytes > MAX_PLAN_BYTES {
        return Err(Refusal::field(
            "header.total_bytes",
            format!("{}; must be at most {MAX_PLAN_BYTES}", header.total_bytes),
        )
        .into());
    }
    // What is announced is not yet reserved: it is the chunks that cost the sender something.
    let mut bytes = BytesMut::new();
    while let Some(message) = parts.message().await? {
        let Some(prepare_request::Part::Chunk(chunk)) = message.part else {
            return Err(Refusal::field("chunk", "must follow the one header").into());
        };
        if bytes.len() as u64 + chunk.len() as u64 > header.total_bytes {
            return Err(Refusal::field(
                "chunk",
                format!("more than the {} bytes the header announces", header.total_bytes),
            )
            .into());
        }
        bytes.extend_from_slice(&chunk);
    }
    if (bytes.len() as u64) < header.total_bytes {
        let wrong = format!("{} bytes of {} arrived; send all of the plan", bytes.len(), header.total_bytes);
        return Err(Refusal::field("chunk", wrong).into());
    }
    if decode::digest(&bytes)[..] != header.digest[..] {
        return Err(Refusal::field(
            "header.digest",
            "is not the SHA-256 of the bytes that arrived; send the plan again",
        )
        .into());
    }
    Ok((header, bytes.freeze()))
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Devices of a bond.
fn names_of(members: &[BondMember]) -> String {
    members.iter().map(|member| member.device.as_str()).collect::<Vec<_>>().join(", ")
}

fn bond_member(member: &BondMember) -> contract::BondMember {
    let names = |state: LacpState| state.names().into_iter().map(str::to_owned).collect();
    let lacp = member.lacp.as_ref();
    contract::BondMember {
        device: member.device.clone(),
        link_up: member.link_up,
        in_use: member.is_in_use(),
        actor_state: lacp.map_or_else(Vec::new, |lacp| names(lacp.actor)),
        partner_state: lacp.map_or_else(Vec::new, |lacp| names(lacp.partner)),
        partner_system: lacp.map_or_else(String::new, |lacp| mac_text(lacp.partner_system)),
        partner_key: lacp.map_or(0, |lacp| lacp.partner_key.into()),
        partner_port: lacp.map_or(0, |lacp| lacp.partner_port.into()),
        aggregator: lacp.map_or_else(String::new, |lacp| lacp.aggregator.clone()),
    }
}

fn copy_mode(mode: CopyMode) -> contract::XdpCopyMode {
    match mode {
        CopyMode::ZeroCopy => contract::XdpCopyMode::ZeroCopy,
        CopyMode::Copy => contract::XdpCopyMode::Copy,
    }
}

fn neighbour(known: &spate_neighbour::Neighbour) -> Neighbour {
    Neighbour {
        address: known.address.to_string(),
        mac: known.mac.map(spate_neighbour::mac_text).unwrap_or_default(),
        problem: known.problem.clone().unwrap_or_default(),
    }
}

fn port_info(port: &PortInfo) -> contract::PortInfo {
    let (kind, device) = match &port.device {
        PortDevice::Pci(address) => (PortKind::Pci, address.clone()),
        PortDevice::Kernel(interface) | PortDevice::Xdp(interface) => (PortKind::Kernel, interface.clone()),
        PortDevice::Tap(interface) => (PortKind::Tap, interface.clone()),
        PortDevice::Loopback => (PortKind::Loopback, String::new()),
        PortDevice::Outlet => (PortKind::Loopback, String::new()),
        PortDevice::Null | PortDevice::NetNull => (PortKind::Null, String::new()),
        PortDevice::Bond(_) => (PortKind::Bond, names_of(&port.bond)),
        PortDevice::Memif(memif) => (PortKind::Memif, memif.socket.display().to_string()),
    };
    contract::PortInfo {
        name: port.name.clone(),
        kind: kind.into(),
        device,
        driver: port.driver.clone(),
        mac: mac_text(port.mac),
        link_up: port.link_up,
        removal_requested: port.removal_requested,
        line_rate_bps: port.line_rate_bps.unwrap_or(0),
        mtu: port.mtu,
        tx_workers: port.tx_workers.iter().map(|worker| worker.0 as u32).collect(),
        rx_workers: port.rx_workers.iter().map(|worker| worker.0 as u32).collect(),
        addresses: port.addresses.iter().map(ToString::to_string).collect(),
        gateways: port.gateways.iter().map(neighbour).collect(),
        offloads: port.offloads.names().into_iter().map(str::to_owned).collect(),
        max_rx_queues: port.max_queues.0 as u32,
        max_tx_queues: port.max_queues.1 as u32,
        workers: port.workers.count() as u32,
        refused: port.refused.iter().map(|refusal| refusal.name().to_owned()).collect(),
        bond_members: port.bond.iter().map(bond_member).collect(),
        xdp_copy_mode: port.copy_mode.map_or(contract::XdpCopyMode::Unspecified, copy_mode).into(),
        receive_timestamps: match port.stamped_by {
            StampedBy::Cpu => contract::ReceiveTimestamps::Cpu,
            StampedBy::Device => contract::ReceiveTimestamps::Device,
        }
        .into(),
        timestamp_bound_ns: port.stamp_bound_ns.unwrap_or(0),
        offers_timestamps: port.offers_stamps,
        sessions: Vec::new(),
    }
}
