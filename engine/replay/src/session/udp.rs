// SPDX-License-Identifier: Apache-2.0
//! Messages of a session over UDP, as they were captured.
use super::packet::Packet;
use super::{MAX_SESSION_BYTES, Message, Sender};

/// Messages sent so far.
#[derive(Default)]
pub(super) struct Udp {
    pub(super) dialogue: Vec<Message>,
    last_ns: u64,
    bytes: usize,
}

impl Udp {
    pub(super) fn add(
        &mut self,
        by: Sender,
        number: u64,
        at_ns: u64,
        packet: &Packet,
        mtu: usize,
    ) -> Result<(), String> {
        if packet.ip_len > mtu {
            let len = packet.ip_len;
            return Err(format!(
                "it has {len} bytes from its IP header on; messages over UDP must fit an MTU of {mtu}"
            ));
        }
        if packet.payload.is_empty() {
            return Err("its message is empty; messages must have at least 1 byte".to_owned());
        }
        self.bytes += packet.payload.len();
        if self.bytes > MAX_SESSION_BYTES {
            return Err(format!("with it the session has more than {MAX_SESSION_BYTES} bytes: cut the file"));
        }
        let gap_ns = if self.dialogue.is_empty() { 0 } else { at_ns.saturating_sub(self.last_ns) };
        self.last_ns = at_ns;
        self.dialogue.push(Message { by, bytes: packet.payload.to_vec(), packet: number, gap_ns });
        Ok(())
    }
}
