// SPDX-License-Identifier: Apache-2.0
//! An engine that serves a loopback on a Unix socket and sends records on another, and clients of it.
use contract::engine_client::EngineClient;
use contract::prepare_request::Part;
use contract::{Plan, PrepareHeader, PrepareRequest};
use prost::Message;
use prost::bytes::Bytes;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

pub const ENGINE: &str = env!("CARGO_BIN_EXE_spate-engine");

/// It ends with the test.
pub struct Engine(Child);

impl Engine {
    /// Serves a loopback of this name, and records beside the socket.
    #[allow(dead_code, reason = "not every test runs on a loopback")]
    pub async fn serve(socket: &Path, port: &str) -> (Self, EngineClient<Channel>) {
        Self::serve_port(socket, &format!("{port}=loopback")).await
    }

    /// The same of another port, as the command is given it.
    pub async fn serve_port(socket: &Path, port: &str) -> (Self, EngineClient<Channel>) {
        let listen = unix(socket);
        let child = Command::new(ENGINE)
            .args(["serve", "--port", port, "--hugepages", "none", "--metrics", "127.0.0.1:0"])
            .args(["--memory", "128M", "--listen", &listen, "--records-socket", &unix(&records_beside(socket))])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let engine = Self(child);
        channel(&records_beside(socket)).await;
        (engine, EngineClient::new(channel(socket).await))
    }
}

/// Where an engine that listens on a socket sends records.
pub fn records_beside(socket: &Path) -> PathBuf {
    socket.with_extension("records")
}

/// As commands are given it.
pub fn unix(socket: &Path) -> String {
    format!("unix:{}", socket.display())
}

/// A connection to the listener there, or one that will be soon.
pub async fn channel(socket: &Path) -> Channel {
    for _ in 0..300 {
        if let Ok(channel) = Endpoint::from_shared(unix(socket)).unwrap().connect().await {
            return channel;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody listens at {}", socket.display());
}

impl Engine {
    /// Of its process.
    #[allow(dead_code, reason = "not every test looks at the process")]
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The contract's maximum size of a chunk of a plan.
const CHUNK: usize = 1 << 20;

/// Prepares a plan.
#[allow(dead_code, reason = "not every test runs a plan")]
pub async fn prepare(client: &mut EngineClient<Channel>, plan: &Plan) -> Result<(), Status> {
    let bytes: Bytes = plan.encode_to_vec().into();
    let digest = Sha256::digest(&bytes).to_vec().into();
    let header = PrepareHeader { run_id: plan.run_id.clone(), total_bytes: bytes.len() as u64, digest };
    let chunks = (0..bytes.len()).step_by(CHUNK).map(|at| bytes.slice(at..bytes.len().min(at + CHUNK)));
    let parts: Vec<_> = std::iter::once(Part::Header(header))
        .chain(chunks.map(Part::Chunk))
        .map(|part| PrepareRequest { part: Some(part) })
        .collect();
    client.prepare(tokio_stream::iter(parts)).await.map(|_| ())
}
