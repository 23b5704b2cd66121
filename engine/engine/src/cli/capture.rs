// SPDX-License-Identifier: Apache-2.0
//! `spate-engine capture`: packets of a running engine's port into a pcap file, live.
use super::connect::{MAX_MESSAGE_BYTES, connect, refused};
use super::serve::end_signal;
use crate::control::listen::Address;
use anyhow::Context;
use contract::engine_client::EngineClient;
use contract::{CaptureRequest, CaptureResponse, Direction};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// Magic number of pcap files (draft-ietf-opsawg-pcap) with times in nanoseconds.
const NANOSECOND_PCAP: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;
const WHOLE_PACKET: u32 = 65_535;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Packets are copied as workers read them from the device or hand it to them; times are in nanoseconds. What the \
    reader of the capture is too slow for is counted and printed at the end.\n\nExamples:\n  \
    spate-engine capture --connect unix:/run/spate.sock --port east --filter 'udp port 53' --pcap dns.pcap\n  \
    spate-engine capture --connect unix:/run/spate.sock --port east --direction rx --max-packets 10 --pcap - | tcpdump -r -\n\n\
    In a cluster engines listen on no such socket: kubectl spate capture GENERATOR --port east -w -"
)]
pub struct Capture {
    /// The engine's control socket (`serve --listen`): unix:PATH.
    #[arg(long, alias = "socket", value_name = "ADDRESS")]
    connect: Address,
    /// The port.
    #[arg(long, value_name = "NAME")]
    port: String,
    /// Which packets, as pcap-filter(7); all if it is empty.
    #[arg(long, default_value = "", value_name = "FILTER")]
    filter: String,
    /// Received packets, sent ones, or both.
    #[arg(long, value_enum, default_value = "both")]
    direction: CaptureDirection,
    /// Bytes of each packet to copy; 0 means all.
    #[arg(long, default_value_t = 0, value_name = "BYTES")]
    snap_length: u32,
    /// Packets to copy; 0 means until interrupted.
    #[arg(long, default_value_t = 0, value_name = "N")]
    max_packets: u64,
    /// The file to write, or - for standard output.
    #[arg(long, value_name = "FILE")]
    pcap: String,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum CaptureDirection {
    Rx,
    Tx,
    Both,
}

impl Capture {
    /// Writes until it has enough or is interrupted.
    pub fn execute(self) -> anyhow::Result<ExitCode> {
        super::event_loop()?.block_on(self.copy())?;
        Ok(ExitCode::SUCCESS)
    }

    async fn copy(&self) -> anyhow::Result<()> {
        let mut client = EngineClient::new(connect(&self.connect).await?).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let request = CaptureRequest {
            port: self.port.clone(),
            filter: self.filter.clone(),
            max_packets: self.max_packets,
            direction: match self.direction {
                CaptureDirection::Rx => Direction::Rx,
                CaptureDirection::Tx => Direction::Tx,
                CaptureDirection::Both => Direction::Unspecified,
            }
            .into(),
            snap_length: self.snap_length,
        };
        let mut answers = client.capture(request).await.map_err(refused)?.into_inner();
        // Made only once the request is known to be right.
        let mut file = self.file()?;
        let (mut written, mut missed) = (0, 0);
        let mut end = std::pin::pin!(end_signal());
        loop {
            let answer = tokio::select! {
                answer = answers.message() => answer.map_err(refused)?,
                _ = &mut end => None,
            };
            let Some(answer) = answer else { break };
            missed = answer.missed;
            written += self.write(&mut file, &answer)?;
        }
        eprintln!("{written} packets written to {}, {missed} missed", self.pcap);
        Ok(())
    }

    fn file(&self) -> anyhow::Result<BufWriter<Box<dyn Write>>> {
        let at = || format!("--pcap {}", self.pcap);
        let output: Box<dyn Write> = match self.pcap.as_str() {
            "-" => Box::new(std::io::stdout()),
            path => Box::new(File::create(path).with_context(at)?),
        };
        let mut file = BufWriter::new(output);
        // Version 2.4; two unused fields; some readers refuse packets that were longer than the snap length here.
        for word in [NANOSECOND_PCAP, 2 | 4 << 16, 0, 0, WHOLE_PACKET, ETHERNET] {
            file.write_all(&word.to_ne_bytes()).with_context(at)?;
        }
        Ok(file)
    }

    /// Writes packets so that a reader of the file sees them at once.
    fn write(&self, file: &mut BufWriter<Box<dyn Write>>, answer: &CaptureResponse) -> anyhow::Result<u64> {
        let at = || format!("--pcap {}", self.pcap);
        for packet in &answer.packets {
            let at_ns = packet.at_ns.max(0).cast_unsigned();
            let (seconds, rest) = ((at_ns / 1_000_000_000) as u32, (at_ns % 1_000_000_000) as u32);
            for word in [seconds, rest, packet.data.len() as u32, packet.original_length] {
                file.write_all(&word.to_ne_bytes()).with_context(at)?;
            }
            file.write_all(&packet.data).with_context(at)?;
        }
        file.flush().with_context(at)?;
        Ok(answer.packets.len() as u64)
    }
}
