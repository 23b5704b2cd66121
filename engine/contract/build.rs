// SPDX-License-Identifier: Apache-2.0
//! How the contract becomes Rust: protox parses engine/proto (no protoc needed), tonic and pbjson generate from its
//! descriptors.
use prost::Message;
use std::error::Error;

const PROTO_ROOT: &str = "../proto";
const FILES: [&str; 6] = [
    "spate/engine/v1/clients.proto",
    "spate/engine/v1/engine.proto",
    "spate/engine/v1/plan.proto",
    "spate/engine/v1/rate.proto",
    "spate/engine/v1/routing.proto",
    "spate/engine/v1/stateful.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo::rerun-if-changed={PROTO_ROOT}/{file}");
    }
    let descriptors = protox::compile(FILES, [PROTO_ROOT])?;
    let encoded = descriptors.encode_to_vec();
    // Frames and chunks as `Bytes`: a decoded plan refers to the buffer it was received in instead of copying it.
    tonic_prost_build::configure().bytes(".spate.engine.v1").compile_fds(descriptors)?;
    pbjson_build::Builder::new().register_descriptors(&encoded)?.build(&[".spate.engine.v1"])?;
    Ok(())
}
