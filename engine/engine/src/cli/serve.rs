// SPDX-License-Identifier: Apache-2.0
//! `spate-engine serve`: an engine under the control of an operator.
use super::site::{Opened, Site};
use crate::control::listen::{self, Address};
use crate::control::observer::{NoControl, Observer};
use crate::control::routing::{self, Passwords, Place, Routing};
use crate::control::runs::Engine;
use crate::control::service::Service;
use crate::control::tls::Certificates;
use crate::control::watchdog;
use crate::control::{lease, stages};
use crate::machine::{self, Facts};
use crate::metrics;
use anyhow::{Context, bail};
use contract::engine_server::EngineServer;
use contract::observer_server::ObserverServer;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tonic::transport::Server;

/// How long runs may take to drain after the engine received a signal to end.
const END_LIMIT: Duration = Duration::from_secs(8);
/// The greatest message that is taken: a chunk of a plan is at most 1 MiB.
const MAX_REQUEST_BYTES: usize = 16 << 20;
/// The greatest message that is sent: statistics of 512 templates with 256 counters of 63 characters on both sides are 22 MiB. The operator
/// takes as much.
const MAX_ANSWER_BYTES: usize = 64 << 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    spate-engine serve --port a=loopback --hugepages none --listen unix:/run/spate.sock\n  \
    spate-engine serve --port east=pci:0000:3b:02.1 --workers 4 --memory 1G --tls-dir /etc/spate/tls")]
pub struct Serve {
    #[command(flatten)]
    site: Site,
    /// Where the control contract is served: ADDRESS:PORT (needs --tls-dir), or unix:PATH (plain; the file's mode guards it).
    #[arg(long, default_value = "0.0.0.0:7470", value_name = "ADDRESS")]
    listen: Address,
    /// Folder with ca.crt, tls.crt and tls.key, read again when they change. Clients must present a certificate of that
    /// authority for operator.spate.dev.
    #[arg(long, value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    /// Where records of connections are served, and nothing else is answered, to whoever may open the socket: unix:PATH, which is made
    /// for this process' user only.
    #[arg(long, value_name = "ADDRESS", env = super::RECORDS_SOCKET)]
    records_socket: Option<Address>,
    /// Where metrics are served, in plain HTTP: /metrics (OpenMetrics text, or Prometheus' protobuf with native histograms if the request prefers it),
    /// /healthz, /readyz.
    #[arg(long, default_value = "0.0.0.0:7471", value_name = "ADDRESS:PORT")]
    metrics: SocketAddr,
    /// Folder of the configuration (bird.conf) and the control socket (bird.ctl) of BIRD, which speaks routing protocols on ports with --router.
    #[arg(long, value_name = "DIR")]
    routing_dir: Option<PathBuf>,
    /// BIRD's program, such as /usr/sbin/bird, to run it here. Otherwise it is to be run beside this, with both files.
    #[arg(long, value_name = "PROGRAM", requires = "routing_dir")]
    bird: Option<PathBuf>,
    /// Folder of the files that have the passwords of sessions.
    #[arg(long, value_name = "DIR", requires = "routing_dir")]
    routing_passwords: Option<PathBuf>,
    /// Sessions of routing protocols to begin with (JSON of the contract's `Routing`); an operator sets its own in place of them.
    #[arg(long, value_name = "FILE", requires = "routing_dir")]
    routing: Option<PathBuf>,
}

impl Serve {
    /// Serves until SIGTERM or SIGINT.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        let certificates = match (&self.listen, &self.tls_dir) {
            (Address::Tcp(address), None) => {
                bail!("--listen {address}: plain gRPC is not served on TCP; give --tls-dir, or listen on unix:PATH")
            }
            (Address::Tcp(_), Some(folder)) => Some(Arc::new(Certificates::open(folder).context("--tls-dir")?)),
            (Address::Unix(_), _) => None,
        };
        let records = match &self.records_socket {
            Some(Address::Tcp(address)) => {
                bail!("--records-socket {address}: must be unix:PATH; records are not served over TCP")
            }
            Some(Address::Unix(path)) => Some(path.clone()),
            None => None,
        };
        let bird = self.bird()?;
        let Opened { datapath, used, routers } = self.site.open_to_serve()?;
        // Once the ports are open: packet memory has its pages then.
        let facts = machine::read(&machine::Roots::default(), used);
        let engine = Engine::new(datapath);
        let engine = Arc::new(match bird {
            Some(bird) => engine.with_routing(Routing::new(bird, Passwords(self.routing_passwords.clone()), routers)),
            None => engine,
        });
        super::event_loop()?.block_on(self.serve(engine.clone(), &facts, certificates, records))?;
        match Arc::into_inner(engine) {
            Some(engine) => engine.close(),
            None => tracing::debug!("a connection outlives the service; the ports close with the process"),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Where BIRD is; none if no port is a router.
    fn bird(&self) -> anyhow::Result<Option<Place>> {
        match (self.site.first_router(), &self.routing_dir) {
            (None, None) => Ok(None),
            (None, Some(folder)) => bail!("--routing-dir {}: no port is a router; give --router", folder.display()),
            (Some(port), None) => bail!("--router {port}: give --routing-dir, a folder for BIRD's files"),
            (Some(_), Some(folder)) => {
                let place = Place { folder: std::path::absolute(folder)?, program: self.bird.clone() };
                if place.folder.to_str().is_none_or(|path| path.contains(['"', '\n'])) {
                    bail!("--routing-dir {}: BIRD cannot read this path; choose another one", folder.display());
                }
                Ok(Some(place))
            }
        }
    }

    /// The sessions that the command line names.
    async fn begin_routing(&self, routing: &Routing) -> anyhow::Result<()> {
        let Some(file) = &self.routing else { return Ok(()) };
        let of_file = || format!("--routing {}", file.display());
        let text = std::fs::read(file).with_context(of_file)?;
        let sessions: contract::Routing = serde_json::from_slice(&text).with_context(of_file)?;
        routing.configure(&sessions).await.with_context(of_file)
    }

    async fn serve(
        &self,
        engine: Arc<Engine>,
        facts: &Facts,
        certificates: Option<Arc<Certificates>>,
        records: Option<PathBuf>,
    ) -> anyhow::Result<()> {
        if let Some(routing) = engine.routing() {
            self.begin_routing(routing).await?;
        }
        let metrics = TcpListener::bind(self.metrics).await.with_context(|| format!("--metrics {}", self.metrics))?;
        let service = EngineServer::new(Service::new(engine.clone(), self.site.hugepage_bytes(), facts))
            .max_decoding_message_size(MAX_REQUEST_BYTES)
            .max_encoding_message_size(MAX_ANSWER_BYTES);
        let observer = ObserverServer::new(Observer::new(engine.clone()));
        let router = Server::builder()
            .http2_keepalive_interval(Some(Duration::from_secs(20)))
            .add_service(service)
            .add_service(observer.clone());
        let only_records = async {
            let Some(path) = records else { return std::future::pending().await };
            let connections =
                listen::private(&path).with_context(|| format!("--records-socket unix:{}", path.display()))?;
            let router = Server::builder().add_service(observer).add_service(NoControl);
            Ok(router.serve_with_incoming(connections).await?)
        };
        let control = async {
            match (&self.listen, certificates) {
                (Address::Tcp(address), Some(certificates)) => {
                    let listener = TcpListener::bind(address).await.with_context(|| format!("--listen {address}"))?;
                    Ok(router.serve_with_incoming(listen::authorised(listener, certificates)).await?)
                }
                (Address::Unix(path), _) => {
                    let connections =
                        listen::local(path).with_context(|| format!("--listen unix:{}", path.display()))?;
                    Ok(router.serve_with_incoming(connections).await?)
                }
                (Address::Tcp(_), None) => unreachable!("refused before the ports were opened"),
            }
        };
        let routing = async {
            match engine.routing() {
                Some(routing) => tokio::join!(routing::follow(routing), routing::withdraw_ended(&engine)).0,
                None => std::future::pending().await,
            }
        };
        // It may run BIRD, which must not end before its sessions have.
        tokio::pin!(routing);
        for port in engine.ports() {
            tracing::info!(port = port.name, device = ?port.device, driver = port.driver, link_up = port.link_up, "port open");
        }
        tracing::info!(control = ?self.listen, metrics = %self.metrics, "serving");
        tokio::select! {
            ended = control => ended,
            ended = only_records => ended,
            () = metrics::serve(metrics, engine.clone()) => Ok(()),
            () = lease::enforce(&engine) => Ok(()),
            () = stages::conduct(&engine) => Ok(()),
            () = watchdog::watch(&engine) => Ok(()),
            () = &mut routing => Ok(()),
            signal = end_signal() => {
                tracing::info!(signal = signal?, "traffic stops, then the engine ends");
                engine.shut_down("the engine was requested to end", END_LIMIT).await;
                if let Some(routing) = engine.routing() {
                    routing.leave().await;
                }
                Ok(())
            }
        }
    }
}

/// Waits for SIGTERM or SIGINT.
pub(super) async fn end_signal() -> std::io::Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    })
}
