// SPDX-License-Identifier: Apache-2.0
//! An engine that serves a loopback on a Unix socket, and a client of it.
use contract::engine_client::EngineClient;
use contract::prepare_request::Part;
use contract::{Plan, PrepareHeader, PrepareRequest};
use prost::Message;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

pub const ENGINE: &str = env!("CARGO_BIN_EXE_spate-engine");

/// It ends with the test.
pub struct Engine(Child);

impl Engine {
    /// Serves a loopback of this name.
    pub async fn serve(socket: &Path, port: &str) -> (Self, EngineClient<Channel>) {
        let listen = format!("unix:{}", socket.display());
        let child = Command::new(ENGINE)
            .args(["serve", "--port", &format!("{port}=loopback"), "--hugepages", "none", "--metrics", "127.0.0.1:0"])
            .args(["--memory", "128M", "--listen", &listen])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let engine = Self(child);
        for _ in 0..300 {
            if let Ok(channel) = Endpoint::from_shared(listen.clone()).unwrap().connect().await {
                return (engine, EngineClient::new(channel));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the engine does not listen");
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Prepares a plan in one chunk.
pub async fn prepare(client: &mut EngineClient<Channel>, plan: &Plan) {
    let bytes = plan.encode_to_vec();
    let digest = Sha256::digest(&bytes).to_vec().into();
    let header = PrepareHeader { run_id: plan.run_id.clone(), total_bytes: bytes.len() as u64, digest };
    let parts = [Part::Header(header), Part::Chunk(bytes.into())].map(|part| PrepareRequest { part: Some(part) });
    client.prepare(tokio_stream::iter(parts)).await.unwrap();
}
