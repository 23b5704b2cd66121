// SPDX-License-Identifier: Apache-2.0
//! Packets of a stream with a cache: which ones a worker has, and how they are built before the run, and again if the next hop has
//! another MAC.
use spate_dpdk::{Eal, Error, Prebuilt};
use spate_net::Trailer;
use spate_stateless::{Frames, Lanes, Numbers, Template, WorkerShare};

/// What is written into packets that are not measured: nothing.
const UNMEASURED: Trailer = Trailer { run_tag: 0, stream: 0, sender: 0, measured: false, sequence: 0, timestamp: 0 };

/// The cache of a stream in one worker.
#[derive(Clone, Debug)]
pub(in crate::datapath) struct Cache {
    /// The stream's name, for messages.
    pub(in crate::datapath) stream: String,
    /// Number of packets.
    pub(in crate::datapath) packets: usize,
    /// The worker's part of the stream.
    pub(in crate::datapath) share: WorkerShare,
}

impl Cache {
    /// Builds the packets of a template.
    pub(in crate::datapath) fn build(&self, eal: &Eal, template: &Template) -> Result<Prebuilt, Error> {
        let what = format!("{} packets of stream {}, built beforehand", self.packets, self.stream);
        let mut packets = Prebuilt::new(eal, &what, self.packets, template.frame_len())?;
        self.write(template, &mut PrebuiltFrames(&mut packets));
        Ok(packets)
    }

    /// Writes the packets of a template.
    pub(in crate::datapath) fn write(&self, template: &Template, frames: &mut impl Frames) {
        let (mut lanes, mut writer) = (Lanes::new(), template.writer(self.share));
        for at in 0..self.packets {
            let sequence = at as u64;
            let number = self.share.first + sequence * self.share.stride;
            template.write(&mut writer, &mut lanes, Numbers { number, sequence, count: 1 }, UNMEASURED, frames, at);
        }
    }
}

/// Prebuilt packets that are being written.
struct PrebuiltFrames<'a>(&'a mut Prebuilt);

impl Frames for PrebuiltFrames<'_> {
    fn frames<'a>(&'a mut self, first: usize, lens: &'a [u16]) -> impl Iterator<Item = &'a mut [u8]> {
        self.0.frames_mut(first, lens)
    }
}
