// SPDX-License-Identifier: Apache-2.0
//! How do commands reach a running engine on this machine, or in this pod?
use crate::control::listen::Address;
use crate::datapath::WORKER_THREAD;
use anyhow::{Context, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{fs, io};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

/// The greatest answer: somewhat more than engines send.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// A connection to the engine that listens there. From now on this process keeps off the CPUs of the engine's workers.
pub async fn connect(address: &Address) -> anyhow::Result<Channel> {
    let Address::Unix(path) = address else {
        bail!("--connect: must be unix:PATH, a socket that the engine listens on")
    };
    let uri = format!("unix:{}", path.display());
    let stream =
        UnixStream::connect(path).await.with_context(|| format!("--connect {uri}: no engine listens there"))?;
    if let Some(engine) = stream.peer_cred()?.pid() {
        keep_off_workers(engine).context("the CPUs of the engine's workers cannot be kept off")?;
    }
    let endpoint = Endpoint::from_shared(uri.clone()).with_context(|| format!("--connect {uri}"))?;
    endpoint.connect().await.with_context(|| format!("--connect {uri}: no engine listens there"))
}

/// Leaves the CPUs of an engine's workers alone: in a pod a command is given them too. Where there are no others, it takes any.
fn keep_off_workers(engine: i32) -> io::Result<()> {
    let mut left = sched_getaffinity(None)?;
    for task in fs::read_dir(format!("/proc/{engine}/task"))? {
        let task = task?;
        // Other threads come and go.
        if !fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with(WORKER_THREAD)) {
            continue;
        }
        let thread = task.file_name().to_str().and_then(|id| id.parse().ok()).and_then(Pid::from_raw);
        let theirs = sched_getaffinity(thread)?;
        (0..CpuSet::MAX_CPU).filter(|&cpu| theirs.is_set(cpu)).for_each(|cpu| left.unset(cpu));
    }
    if left.count() == 0 { Ok(()) } else { Ok(sched_setaffinity(None, &left)?) }
}

/// Why the engine does not do what it was asked for.
pub fn refused(status: tonic::Status) -> anyhow::Error {
    anyhow::anyhow!("the engine refuses: {}", status.message())
}
