// SPDX-License-Identifier: Apache-2.0
//! How packets of a pool's clients enter the network, as data.
use spate_net::vlan::Tags;

use crate::Address;

/// How packets of a pool's clients enter the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// VLAN tags of their frames. None: those of the port.
    pub tags: Option<Tags>,
    /// The neighbor to the MAC of which frames go, in their VLAN; none: the port's next hop.
    pub gateway: Option<Address>,
    /// Servers that are emulated on another port are met in the clients' tags too, and their port stands for the gateway.
    pub mirror: bool,
}
