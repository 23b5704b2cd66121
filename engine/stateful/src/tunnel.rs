// SPDX-License-Identifier: Apache-2.0
//! Tunnels that packets of clients pass through, one for each client of a pool, as data: between which addresses, with which identifiers,
//! and of which kind. A kind is a file that implements [`Tunnelling`] and a variant of [`Kind`].
use spate_net::encap::{Carries, Encap};

use crate::{Address, counters::Count};

pub mod gre;
pub mod gtpu;
pub mod mpls;
pub mod vxlan;

use gre::Gre;
use gtpu::Gtpu;
use mpls::Mpls;
use vxlan::Vxlan;

/// Towards the remote end, or from it towards the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelDirection {
    /// From clients.
    Up,
    /// Towards clients.
    Down,
}

/// The tunnels of a pool's clients, each by its offset in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnels {
    /// The address of the first near end.
    pub local: Address,
    /// Number of near ends, at addresses from the first on: clients take turns at them. At least 1.
    pub local_count: u32,
    /// The address of the remote end, of the same family.
    pub remote: Address,
    /// The identifier of what the first client sends, as it is on the wire.
    pub uplink: u32,
    /// The identifier of what comes for the first client.
    pub downlink: u32,
    /// From one client's identifiers to the next one's.
    pub step: u32,
    /// Servers that are emulated here are behind the remote end, for which their port stands.
    pub mirror: bool,
    /// Protocol of the tunnels.
    pub kind: Kind,
}

/// A tunnel's protocol, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 3GPP TS 29.281.
    Gtpu(Gtpu),
    /// RFC 7348.
    Vxlan(Vxlan),
    /// RFC 2784.
    Gre(Gre),
    /// RFC 3032.
    Mpls(Mpls),
}

impl Kind {
    /// What the protocol does.
    #[inline]
    pub(crate) fn tunnelling(&self) -> &dyn Tunnelling {
        match self {
            Self::Gtpu(gtpu) => gtpu,
            Self::Vxlan(vxlan) => vxlan,
            Self::Gre(gre) => gre,
            Self::Mpls(mpls) => mpls,
        }
    }

    /// The UDP port that its messages are sent to; 0: they are not sent over UDP.
    #[inline]
    pub(crate) fn port(&self) -> u16 {
        match self.tunnelling().over() {
            Over::Udp(port) => port,
            Over::Ip(_) | Over::Link(_) => 0,
        }
    }
}

/// Protocol below a tunnel's own header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// UDP, to this port.
    Udp(u16),
    /// An IP header, as this protocol.
    Ip(u8),
    /// Ethernet and its tags, with this EtherType: packets within are known by their own addresses alone.
    Link(u16),
}

/// Behavior of a tunnel protocol.
pub(crate) trait Tunnelling {
    /// Protocol below the tunnel's own header.
    fn over(&self) -> Over;

    /// Payload of the tunnel.
    fn carries(&self) -> Carries;

    /// The MAC that frames of clients within go to, if frames are carried; none: the one that flows write.
    fn inner_gateway(&self) -> Option<[u8; 6]> {
        None
    }

    /// Whether tunnels have identifiers. Those without are distinguished by their ends.
    fn has_id(&self) -> bool {
        true
    }

    /// The bits of an identifier that say which tunnel it is.
    fn id_bits(&self) -> u32 {
        u32::MAX
    }

    /// Whether nothing stands around packets of one way.
    fn is_without(&self, _: TunnelDirection) -> bool {
        false
    }

    /// What stands around packets of one way over IPv4 or IPv6.
    fn encap(&self, way: TunnelDirection, v6: bool) -> Encap;

    /// Reads a message: all that follows what it is sent over.
    fn read<'a>(&self, message: &'a [u8]) -> Result<Message<'a>, Malformed>;

    /// What counts packets that came in another tunnel than their client's, or in none; and messages that cannot be read.
    fn counts(&self) -> (Count, Count);
}

/// A message that a tunnel's end received.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message<'a> {
    /// A packet or frame, in the tunnel with this identifier.
    Carried {
        /// Identifier as it is on the wire, if there is one.
        id: Option<u32>,
        /// See [`Tunnelling::carries`].
        data: &'a [u8],
    },
    /// A request that is to be answered.
    Request(Answer),
    /// A message that is only counted.
    Other(Count),
}

/// An answer to a request about the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The message.
    pub(crate) message: [u8; Self::BYTES],
    /// Counts it.
    pub(crate) count: Count,
}

impl Answer {
    /// Bytes of the longest answer.
    pub(crate) const BYTES: usize = 14;
}

/// A message that cannot be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Malformed;

impl Tunnels {
    /// Encapsulation of packets in a direction.
    pub fn encap(&self, way: TunnelDirection) -> Encap {
        self.kind.tunnelling().encap(way, self.remote.is_v6())
    }

    /// Payload of the tunnels.
    pub fn carries(&self) -> Carries {
        self.kind.tunnelling().carries()
    }

    /// The address of the near end that the client at an offset is behind.
    #[inline]
    pub fn near_end(&self, client: u128) -> Address {
        Address(self.local.0 + client % u128::from(self.local_count.max(1)))
    }

    /// The address of the last near end.
    pub fn last_near_end(&self) -> Address {
        Address(self.local.0 + u128::from(self.local_count.max(1) - 1))
    }

    /// The identifier of the client at an offset.
    #[inline]
    pub(crate) fn id(&self, way: TunnelDirection, client: u128) -> u32 {
        let first = if way == TunnelDirection::Up { self.uplink } else { self.downlink };
        first.wrapping_add(self.step.wrapping_mul(client as u32))
    }

    /// Whether an identifier that arrived is that of the client at an offset.
    #[inline]
    pub(crate) fn is_id(&self, way: TunnelDirection, client: u128, id: Option<u32>) -> bool {
        let of = self.kind.tunnelling();
        let expected = of.has_id().then(|| self.id(way, client) & of.id_bits());
        id.map(|id| id & of.id_bits()) == expected
    }

    /// Whether packets of the other way come without a tunnel to the end that sends this way.
    #[inline]
    pub(crate) fn receives_without(&self, sends: TunnelDirection) -> bool {
        self.kind.tunnelling().is_without(if sends == TunnelDirection::Up {
            TunnelDirection::Down
        } else {
            TunnelDirection::Up
        })
    }
}
