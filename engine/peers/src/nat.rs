// SPDX-License-Identifier: Apache-2.0
//! Source NAT at the far end: the kernel's clients behind it have its address, as long as this is there.
use std::net::{IpAddr, SocketAddr};

use crate::namespaces::{BEHIND, FAR, Family, within};

/// The first source port of each client's address: all have the same ones, so that the NAT has to choose others for most.
const FIRST_PORT: usize = 20_000;

/// The rules, deleted at the end.
#[derive(Debug)]
pub struct Nat {
    prefix: String,
}

impl Nat {
    /// What conntrack takes for no packet of any connection would keep its address: it is dropped.
    pub fn start(prefix: &str) -> anyhow::Result<Self> {
        let this = Self { prefix: prefix.into() };
        let rules = format!(
            "table ip nat {{
                chain out {{ type nat hook postrouting priority srcnat; oifname far0 snat to {}; }}
                chain through {{ type filter hook forward priority filter; ct state invalid drop; }}
            }}",
            address()
        );
        within(prefix, "far", &["nft", &rules])?;
        within(prefix, "far", &["sysctl", "-qw", "net.ipv4.ip_forward=1"])?;
        Ok(this)
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        for command in [&["nft", "flush", "ruleset"][..], &["sysctl", "-qw", "net.ipv4.ip_forward=0"]] {
            if let Err(error) = within(&self.prefix, "far", command) {
                eprintln!("warning: {error:#}");
            }
        }
    }
}

/// Address of all clients, as servers see them.
pub fn address() -> IpAddr {
    Family::V4.of(FAR)
}

/// Where the n-th client is: they take turns at their addresses.
pub fn client(n: usize) -> SocketAddr {
    let port = FIRST_PORT + n / BEHIND.len();
    (Family::V4.of(BEHIND[n % BEHIND.len()]), port as u16).into()
}
