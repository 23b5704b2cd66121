// SPDX-License-Identifier: Apache-2.0
//! Identifiers of servers and clients of DHCPv6 (RFC 8415 section 11).
use spate_net::{dhcp6::MAX_DUID, ethernet::Mac};

/// The identifier of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Duid {
    len: u8,
    bytes: [u8; MAX_DUID],
}

impl Duid {
    pub(crate) const BLANK: Self = Self { len: 0, bytes: [0; MAX_DUID] };

    pub(crate) fn new(id: &[u8]) -> Option<Self> {
        let mut duid = Self { len: u8::try_from(id.len()).ok().filter(|len| *len > 0)?, bytes: [0; MAX_DUID] };
        duid.bytes.get_mut(..id.len())?.copy_from_slice(id);
        Some(duid)
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The identifier of a client, by its link-layer address (RFC 8415 section 11.4).
pub(crate) fn own_duid(mac: Mac) -> [u8; 10] {
    let [a, b, c, d, e, f] = mac;
    [0, 3, 0, 1, a, b, c, d, e, f]
}
