// SPDX-License-Identifier: Apache-2.0
//! How do commands reach a running engine on this machine, or in this pod?
use crate::control::listen::Address;
use anyhow::{Context, bail};
use rustix::process::Pid;
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

/// The greatest answer: somewhat more than engines send.
pub const MOST_MESSAGE_BYTES: usize = 16 << 20;

/// A connection to the engine that listens there. From now on this process keeps to the CPUs of the engine's control: in a pod it
/// would be given those of workers too.
pub async fn connect(address: &Address) -> anyhow::Result<Channel> {
    let Address::Unix(path) = address else {
        bail!("--connect: must be unix:PATH, a socket that the engine listens on")
    };
    let uri = format!("unix:{}", path.display());
    let stream =
        UnixStream::connect(path).await.with_context(|| format!("--connect {uri}: no engine listens there"))?;
    if let Some(engine) = stream.peer_cred()?.pid().and_then(Pid::from_raw) {
        let kept = sched_getaffinity(Some(engine)).and_then(|cpus| sched_setaffinity(None, &cpus));
        kept.context("the CPUs of the engine's control cannot be asked or kept to")?;
    }
    let endpoint = Endpoint::from_shared(uri.clone()).with_context(|| format!("--connect {uri}"))?;
    endpoint.connect().await.with_context(|| format!("--connect {uri}: no engine listens there"))
}

/// Why the engine does not do what it was asked for.
pub fn refused(status: tonic::Status) -> anyhow::Error {
    anyhow::anyhow!("the engine refuses: {}", status.message())
}
