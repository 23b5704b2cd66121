// SPDX-License-Identifier: Apache-2.0
//! What streams ask of their ports: bits a second on the medium, at the worst moment.
//!
//! A burst counts with its rate, whatever the gaps. Streams of one chain take turns: together they ask for no more than
//! their fastest, for each of them that starts by itself.
use super::rate::{self, FrameBytes};
use crate::index::{PortIndex, StreamIndex};
use spate_stateless::{Rate, StreamTiming};
use std::collections::BTreeMap;

/// What a stream asks for, and with which others it takes turns.
#[derive(Clone, Copy, Debug)]
pub struct StreamDemand {
    /// The port.
    pub port: PortIndex,
    /// The first stream of its chain, whose streams take turns.
    pub chain: StreamIndex,
    /// The stream starts by itself.
    pub starts: bool,
    /// Lengths of the stream's frames.
    pub frame_bytes: FrameBytes,
    /// The rate over all engines.
    pub rate: Rate,
    /// Number of engines that share it, this one included; 0: this one sends none of it.
    pub part: u32,
}

/// The first stream of each stream's chain.
pub fn chains(timings: &[StreamTiming]) -> Vec<StreamIndex> {
    let mut chain: Vec<usize> = (0..timings.len()).collect();
    fn root(chain: &mut [usize], mut at: usize) -> usize {
        while chain[at] != at {
            chain[at] = chain[chain[at]];
            at = chain[at];
        }
        at
    }
    for (index, timing) in timings.iter().enumerate() {
        if let Some(after) = timing.next {
            let (a, b) = (root(&mut chain, index), root(&mut chain, after.next.index()));
            chain[a.max(b)] = a.min(b);
        }
    }
    (0..timings.len()).map(|index| StreamIndex(root(&mut chain, index))).collect()
}

/// Bits a second on the medium by port, of this engine alone.
pub fn by_port(demands: impl IntoIterator<Item = StreamDemand>) -> BTreeMap<PortIndex, u128> {
    // By chain: its port, all together, the fastest, how many start by themselves.
    let mut chains: BTreeMap<StreamIndex, (PortIndex, u128, u128, u128)> = BTreeMap::new();
    for ask in demands {
        let bits = rate::l1_bits(ask.rate, ask.frame_bytes).checked_div(u128::from(ask.part)).unwrap_or(0);
        let (_, sum, most, starts) = chains.entry(ask.chain).or_insert((ask.port, 0, 0, 0));
        *sum += bits;
        *most = bits.max(*most);
        *starts += u128::from(ask.starts);
    }
    let mut ports = BTreeMap::new();
    for (port, sum, most, starts) in chains.into_values() {
        *ports.entry(port).or_default() += sum.min(most.saturating_mul(starts.max(1)));
    }
    ports
}
