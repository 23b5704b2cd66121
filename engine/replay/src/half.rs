// SPDX-License-Identifier: Apache-2.0
//! The packets of one side of a conversation: those of the source of the capture's first packet, or those of all other sources.
use spate_net::{
    Headers,
    ethernet::{MACS, Mac},
    ip::Address,
};

/// The property of a packet by which the sides of a conversation are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitBy {
    /// Source MAC.
    Mac,
    /// Source of the first IP header. Packets without one are the initiator's.
    Ip,
    /// The interface that captured the packet, by its number in a section of pcapng; packets of pcap have number 0.
    Interface,
}

/// One side of a conversation. The initiator is the source of the capture's first packet; by [`SplitBy::Ip`], of its first packet with
/// an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Half {
    /// The property that distinguishes it from the other.
    pub by: SplitBy,
    /// All sources but the initiator.
    pub responder: bool,
}

/// Source of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Mac(Mac),
    Ip(Address),
    Interface(u32),
}

/// Decides of one packet of a capture after the other whether it is of a half.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divider {
    /// The half that is kept; none: all packets are.
    half: Option<Half>,
    initiator: Option<Source>,
}

impl SplitBy {
    fn source(self, frame: &[u8], interface: u32) -> Option<Source> {
        match self {
            Self::Mac => frame[..MACS].last_chunk().copied().map(Source::Mac),
            Self::Ip => Headers::find(frame).map(|headers| Source::Ip(headers.source(frame))),
            Self::Interface => Some(Source::Interface(interface)),
        }
    }

    /// What all packets of a capture have in common that has one side only.
    pub(crate) fn in_common(self) -> &'static str {
        match self {
            Self::Mac => "have the same source MAC",
            Self::Ip => "have the same source IP address, or none",
            Self::Interface => "are of one interface (pcap has no more; pcapng has)",
        }
    }
}

impl Divider {
    pub(crate) fn new(half: Option<Half>) -> Self {
        Self { half, initiator: None }
    }

    /// Whether a frame, captured by an interface, is of the half. Frames come in the order of the capture.
    pub(crate) fn keeps(&mut self, frame: &[u8], interface: u32) -> bool {
        let Some(half) = self.half else { return true };
        let Some(source) = half.by.source(frame, interface) else { return !half.responder };
        let initiated = *self.initiator.get_or_insert(source) == source;
        initiated != half.responder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARP: u8 = 0;

    /// A frame with these ends of its source MAC and source IPv4 address, or of ARP.
    fn frame(mac: u8, ip: u8) -> Vec<u8> {
        let mut frame = vec![0; 60];
        (frame[5], frame[11]) = (9, mac);
        frame[12..14].copy_from_slice(if ip == ARP { &[8, 6] } else { &[8, 0] });
        frame[14] = 0x45;
        (frame[29], frame[33]) = (ip, 200);
        frame
    }

    /// Which of some frames are the initiator's; all others are the responder's.
    fn initiated(by: SplitBy, frames: &[(Vec<u8>, u32)]) -> Vec<bool> {
        let [mut initiator, mut responder] = [false, true].map(|responder| Divider::new(Some(Half { by, responder })));
        let side = |(frame, interface): &(Vec<u8>, u32)| {
            let kept = initiator.keeps(frame, *interface);
            assert_eq!(responder.keeps(frame, *interface), !kept);
            kept
        };
        frames.iter().map(side).collect()
    }

    #[test]
    fn the_source_of_the_first_packet_is_the_initiator_and_all_others_respond() {
        let frames = [(1, 1, 4), (2, 2, 5), (1, 3, 4), (1, 1, 5), (3, 2, 6)];
        let frames = frames.map(|(mac, ip, interface)| (frame(mac, ip), interface));
        assert_eq!(initiated(SplitBy::Mac, &frames), [true, false, true, true, false]);
        assert_eq!(initiated(SplitBy::Ip, &frames), [true, false, false, true, false]);
        assert_eq!(initiated(SplitBy::Interface, &frames), [true, false, true, false, false]);
        assert!(frames.iter().all(|(frame, interface)| Divider::new(None).keeps(frame, *interface)));
    }

    #[test]
    fn packets_without_an_ip_header_are_the_initiators_and_do_not_name_it() {
        let frames = [(2, ARP), (1, 7), (2, 8), (1, ARP), (2, 8), (1, 7)].map(|(mac, ip)| (frame(mac, ip), 0));
        assert_eq!(initiated(SplitBy::Ip, &frames), [true, true, false, true, false, true]);
    }

    #[test]
    fn the_source_of_ipv6_and_behind_tags_is_found() {
        let v6 = |source: u8| {
            let mut frame = vec![0; 14 + 40 + 8];
            frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            frame[20] = 17;
            frame[37] = source;
            frame
        };
        let tagged = |mac, ip| {
            let mut frame = frame(mac, ip);
            frame.splice(12..12, [0x81, 0, 0, 100]);
            frame
        };
        let frames = [v6(1), v6(2), v6(1)].map(|frame| (frame, 0));
        assert_eq!(initiated(SplitBy::Ip, &frames), [true, false, true]);
        let frames = [tagged(1, 1), tagged(1, 2), tagged(2, 1)].map(|frame| (frame, 0));
        assert_eq!(initiated(SplitBy::Ip, &frames), [true, false, true]);
        assert_eq!(initiated(SplitBy::Mac, &frames), [true, true, false]);
    }
}
