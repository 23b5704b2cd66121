// SPDX-License-Identifier: Apache-2.0
//! What the clients of a group are, and whether they can be that.
use core::net::Ipv4Addr;

use spate_net::{
    ethernet::Mac,
    vlan::{self, MAX_VLAN, Tags},
};
use spate_stateful::{FieldPath, slab};

use crate::{
    pacing::Rate,
    pattern::{MAX_TEXT, Pattern},
};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// A group of clients. Its client `i` has the number `first + i * stride`, from which its MAC, VLANs and texts follow: engines that
/// share a group have every `stride`-th each.
#[derive(Clone, Debug)]
pub struct Config {
    /// MAC of the client with number 0; that of number n is n further.
    pub mac: Mac,
    /// Number of this engine's first client.
    pub first: u64,
    /// From one number to the next; at least 1.
    pub stride: u64,
    /// This engine's clients.
    pub count: u32,
    /// VLAN tags, the outermost first; at most two. The last one's identifiers change from number to number, the other's whenever the last
    /// one's start again; so do all when there are more clients.
    pub vlans: Vec<VlanRange>,
    /// Host name (option 12 of DHCP).
    pub hostname: Option<Pattern>,
    /// IPv4, if the clients have it.
    pub ipv4: Option<Ipv4>,
    /// IPv6, if the clients have it.
    pub ipv6: Option<Ipv6>,
    /// A client is bound only when its gateway has answered a ping.
    pub ping_gateway: bool,
    /// Clients find the MAC address of their IPv4 gateway by ARP as soon as they have one: who sends packets from their addresses needs it.
    pub resolve_gateway: bool,
    /// How fast they start.
    pub rate: Rate,
    /// No client starts while this many have started and are neither bound nor failed; none: no limit.
    pub max_outstanding: Option<u32>,
    /// When requests are repeated.
    pub retry: Retry,
    /// Of all random numbers.
    pub seed: u64,
}

/// A tag's identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanRange {
    /// EtherType of the tag: see [`vlan::is_tag`].
    pub ethertype: u16,
    /// The first identifier.
    pub first: u16,
    /// How many there are; at least 1.
    pub count: u16,
}

/// How clients come to IPv4 addresses.
#[derive(Clone, Debug)]
pub enum Ipv4 {
    /// By DHCP (RFC 2131).
    Dhcp(Box<Dhcp4>),
    /// They have them.
    Static(Static4),
}

/// Fixed addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Static4 {
    /// Of the client with number 0; that of number n is n further.
    pub first: Ipv4Addr,
    /// Leading bits that the addresses of their subnet share.
    pub prefix_len: u8,
    /// Their gateway.
    pub gateway: Option<Ipv4Addr>,
    /// Looks for other stations with the address first.
    pub probe: Option<Probe>,
}

/// A client of DHCP.
#[derive(Clone, Debug, Default)]
pub struct Dhcp4 {
    /// Vendor class identifier (option 60); empty: none.
    pub vendor_class: Vec<u8>,
    /// Vendor-specific information (option 43); empty: none.
    pub vendor_specific: Vec<u8>,
    /// Parameters that are requested (option 55).
    pub requested_options: Vec<u8>,
    /// Client identifier (option 61) of type 0; none: the MAC address (type 1).
    pub client_id: Option<Pattern>,
    /// Circuit identifier of relay agent information (option 82), as an access node adds it.
    pub circuit_id: Option<Pattern>,
    /// Remote identifier of the same.
    pub remote_id: Option<Pattern>,
    /// Seconds of lease that are requested (option 51).
    pub lease_time: Option<u32>,
    /// Asks for answers by broadcast.
    pub broadcast: bool,
    /// Looks for other stations with the address before it is used.
    pub probe: Option<Probe>,
}

/// Probes for an address (RFC 5227 section 2.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// How many.
    pub count: u8,
    /// Maximum random delay before the first.
    pub delay_ns: u64,
    /// Least and greatest time from one to the next.
    pub interval_ns: (u64, u64),
    /// From the last one until the address is used.
    pub wait_ns: u64,
}

impl Probe {
    /// As RFC 5227 section 1.1 has it: an address is used 5 to 7 s after it was given.
    pub const RFC5227: Self =
        Self { count: 3, delay_ns: SECOND, interval_ns: (SECOND, 2 * SECOND), wait_ns: 2 * SECOND };
    /// One, and half a second for the answer, as is usual.
    pub const ONE: Self = Self { count: 1, delay_ns: 0, interval_ns: (SECOND / 2, SECOND / 2), wait_ns: SECOND / 2 };
}

/// How clients come to IPv6 addresses. Each has a link-local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6 {
    /// Forms an address of the first prefix that a router advertises for that (RFC 4862).
    pub slaac: bool,
    /// DHCPv6.
    pub dhcp: Option<Dhcp6>,
    /// Neighbor solicitations by which duplicates of an address are looked for, 1 s each (RFC 4862 section 5.1); 0: none.
    pub dad_transmits: u8,
}

/// A client of DHCPv6 (RFC 8415).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dhcp6 {
    /// Whether it waits for a router that says that addresses come by DHCPv6.
    pub when: Dhcp6When,
    /// An address (IA_NA).
    pub address: bool,
    /// A prefix (IA_PD), and the length that is requested; 0: any.
    pub prefix: Option<u8>,
    /// With two messages instead of four, if the server does that.
    pub rapid_commit: bool,
    /// Waits a second for more servers, for the one with the greatest preference (RFC 8415 section 18.2.9).
    pub collect: bool,
    /// Greatest time between SOLICIT messages: `SOL_MAX_RT`, an hour by RFC 8415.
    pub max_solicit_ns: u64,
}

/// See [`Dhcp6::when`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dhcp6When {
    /// When a router advertises it (flag M).
    Managed,
    /// Whatever routers say.
    Always,
}

impl Default for Dhcp6 {
    fn default() -> Self {
        Self {
            when: Dhcp6When::Managed,
            address: true,
            prefix: None,
            rapid_commit: false,
            collect: true,
            max_solicit_ns: 3600 * SECOND,
        }
    }
}

/// When requests are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// After the first message of DHCP; then twice as long each time (RFC 2131 section 4.1).
    pub first_ns: u64,
    /// At most this long. A client that has failed goes on at this pace.
    pub max_ns: u64,
    /// Random part: this much more or less.
    pub spread_ns: u64,
    /// Messages without an answer after which a client has failed.
    pub attempts: u8,
    /// Requests without an answer after which it looks for servers again.
    pub requests: u8,
    /// Times in sequence that an address is refused, declined or not given before it has failed.
    pub restarts: u8,
    /// Least time between requests for a longer lease (RFC 2131 section 4.4.5).
    pub min_renew_ns: u64,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            first_ns: 4 * SECOND,
            max_ns: 64 * SECOND,
            spread_ns: SECOND,
            attempts: 5,
            requests: 4,
            restarts: 3,
            min_renew_ns: 60 * SECOND,
        }
    }
}

impl Config {
    /// Clients of DHCP without tags, from a MAC on.
    pub fn dhcp(mac: Mac, count: u32, rate: Rate) -> Self {
        let dhcp = Dhcp4 { requested_options: vec![1, 3, 6, 51, 54, 58, 59], ..Dhcp4::default() };
        Self {
            mac,
            first: 0,
            stride: 1,
            count,
            vlans: Vec::new(),
            hostname: None,
            ipv4: Some(Ipv4::Dhcp(Box::new(dhcp))),
            ipv6: None,
            ping_gateway: false,
            resolve_gateway: true,
            rate,
            max_outstanding: None,
            retry: Retry::default(),
            seed: 0,
        }
    }

    /// Whether clients can be this.
    ///
    /// # Errors
    /// Which field cannot be as it is, and how it could be.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.count == 0 || self.count as usize >= slab::MAX_SLOTS {
            return wrong("count", format!("{} clients; must be 1..{}", self.count, slab::MAX_SLOTS - 1));
        }
        if self.stride == 0 {
            return wrong("stride", "0; must be at least 1");
        }
        let last = u64::from(self.count - 1).checked_mul(self.stride).and_then(|last| last.checked_add(self.first));
        self.check_macs(last)?;
        self.check_vlans()?;
        match &self.ipv4 {
            Some(Ipv4::Static(fixed)) => check_static(fixed, last)?,
            Some(Ipv4::Dhcp(dhcp)) => self.check_options(dhcp)?,
            None if self.ipv6.is_none() => return wrong("ipv4", "is missing, and so is ipv6; one must be given"),
            None => {}
        }
        let Retry { first_ns, spread_ns, .. } = self.retry;
        if self.retry.attempts == 0 || self.retry.requests == 0 {
            return wrong("retry.attempts", "0; must be at least 1");
        }
        if first_ns <= spread_ns {
            return wrong("retry.spread_ns", format!("{spread_ns}; must be less than first_ns, which is {first_ns}"));
        }
        match self.ipv6 {
            Some(Ipv6 { slaac: false, dhcp: None, .. }) => {
                wrong("ipv6", "neither slaac nor dhcp; one of them must be given")
            }
            Some(Ipv6 { dhcp: Some(Dhcp6 { address: false, prefix: None, .. }), .. }) => {
                wrong("ipv6.dhcp", "neither an address nor a prefix; one of them must be requested")
            }
            Some(Ipv6 { dhcp: Some(Dhcp6 { prefix: Some(length @ 65..), .. }), .. }) => {
                wrong("ipv6.dhcp.prefix", format!("{length}; must be at most 64"))
            }
            _ => Ok(()),
        }
    }

    fn check_macs(&self, last: Option<u64>) -> Result<(), ConfigError> {
        const MACS: u64 = 1 << 48;
        let first = mac_number(self.mac);
        let end = last.and_then(|last| last.checked_add(first)).filter(|end| *end < MACS);
        let Some(end) = end else {
            let problem = format!("{} has room for {} clients; use a lower one", text(self.mac), MACS - first);
            return wrong("mac.first", problem);
        };
        // The bit changes with the first byte only.
        if self.mac[0] & 1 != 0 || end >> 40 != first >> 40 {
            let remedy = "use one whose first byte is even, and leave room for all clients below the next first byte";
            return wrong("mac.first", format!("{} or a later one is a group address; {remedy}", text(self.mac)));
        }
        Ok(())
    }

    fn check_vlans(&self) -> Result<(), ConfigError> {
        if self.vlans.len() > Tags::MAX {
            return wrong("vlans", format!("{} tags; a frame has at most {}", self.vlans.len(), Tags::MAX));
        }
        for (index, range) in self.vlans.iter().enumerate() {
            let at = FieldPath::from("vlans").index(index);
            let last = u32::from(range.first) + u32::from(range.count) - u32::from(range.count > 0);
            if range.count == 0 || range.first == 0 || last > u32::from(MAX_VLAN) {
                let (count, first) = (range.count, range.first);
                return wrong(at, format!("{count} identifiers from {first} on; must lie within 1..{MAX_VLAN}"));
            }
            if !vlan::is_tag(range.ethertype) {
                let problem = format!("{:#06x} is of no tag; must be 0x8100, 0x88a8 or 0x9100", range.ethertype);
                return wrong(at.field("tpid"), problem);
            }
        }
        Ok(())
    }

    fn check_options(&self, dhcp: &Dhcp4) -> Result<(), ConfigError> {
        /// What a frame of 1,500 bytes leaves to options, without those that each message has.
        const ROOM: usize = 1500 - 20 - 8 - 240 - 48;
        let relay = [&dhcp.circuit_id, &dhcp.remote_id].into_iter().flatten().map(|id| 2 + id.max_len()).sum();
        let lens = [
            ("hostname", self.hostname.as_ref().map_or(0, Pattern::max_len)),
            ("ipv4.dhcp.vendor_class", dhcp.vendor_class.len()),
            ("ipv4.dhcp.vendor_specific", dhcp.vendor_specific.len()),
            ("ipv4.dhcp.requested_options", dhcp.requested_options.len()),
            ("ipv4.dhcp.client_id", dhcp.client_id.as_ref().map_or(7, |id| 1 + id.max_len())),
            ("ipv4.dhcp.circuit_id", relay),
        ];
        if let Some((field, len)) = lens.iter().find(|(_, len)| *len > MAX_TEXT) {
            let with = if *field == "ipv4.dhcp.circuit_id" { " with remote_id" } else { "" };
            return wrong(*field, format!("{len} bytes{with}; an option has at most {MAX_TEXT}"));
        }
        let all: usize = lens.iter().map(|(_, len)| 2 + len).sum();
        let problem = || format!("options of {all} bytes; a frame has room for {ROOM}");
        if all > ROOM { wrong("ipv4.dhcp", problem()) } else { Ok(()) }
    }
}

fn check_static(fixed: &Static4, last: Option<u64>) -> Result<(), ConfigError> {
    if fixed.prefix_len > 32 {
        return wrong("ipv4.fixed.prefix_len", format!("{}; must be at most 32", fixed.prefix_len));
    }
    let last = last.and_then(|last| u32::try_from(last).ok()).and_then(|last| fixed.first.to_bits().checked_add(last));
    let hosts = |address: Ipv4Addr| !(address.is_unspecified() || address.is_multicast() || address.is_broadcast());
    if hosts(fixed.first) && last.is_some_and(|last| hosts(Ipv4Addr::from_bits(last))) {
        return Ok(());
    }
    let remedy = "use a lower one, or fewer clients";
    wrong("ipv4.fixed.first", format!("the addresses from {} on are not all those of hosts; {remedy}", fixed.first))
}

/// A MAC address as a number.
pub(crate) fn mac_number(mac: Mac) -> u64 {
    mac.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// What is wrong with a `Config`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConfigError {
    /// Its field, as plans name it.
    pub field: FieldPath,
    /// What is wrong, and what would be right.
    pub problem: String,
}

fn wrong(field: impl Into<FieldPath>, problem: impl Into<String>) -> Result<(), ConfigError> {
    Err(ConfigError { field: field.into(), problem: problem.into() })
}

fn text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;
    use spate_net::vlan::CUSTOMER;

    fn config() -> Config {
        Config::dhcp([2, 0x10, 0, 0, 0, 0], 1000, Rate::per_second(5000))
    }

    #[test]
    fn what_clients_cannot_be_is_refused_with_the_field() {
        let vlan = |first, count| vec![VlanRange { ethertype: CUSTOMER, first, count }];
        let fixed =
            |first: [u8; 4]| Ipv4::Static(Static4 { first: first.into(), prefix_len: 8, gateway: None, probe: None });
        let dhcp = |dhcp: Dhcp4| Some(Ipv4::Dhcp(Box::new(dhcp)));
        let six = |dhcp| Some(Ipv6 { slaac: false, dhcp, dad_transmits: 1 });
        let cases: [(Config, &str); 17] = [
            (Config { count: 0, ..config() }, "count"),
            (Config { stride: 0, ..config() }, "stride"),
            (Config { mac: [3, 0, 0, 0, 0, 0], ..config() }, "mac.first: 03:00:00:00:00:00 or a later one is a group"),
            (Config { mac: [2, 0xff, 0xff, 0xff, 0xff, 0xff], ..config() }, "mac.first"),
            (
                Config { mac: [0xfe, 0xff, 0xff, 0xff, 0xff, 0], stride: 1 << 40, ..config() },
                "mac.first: fe:ff:ff:ff:ff:00 has room",
            ),
            (Config { first: u64::MAX, ..config() }, "mac.first"),
            (Config { vlans: vlan(0, 1), ..config() }, "vlans[0]: 1 identifiers from 0 on"),
            (Config { vlans: vlan(4000, 96), ..config() }, "vlans[0]"),
            (Config { vlans: vlan(1, 0), ..config() }, "vlans[0]"),
            (Config { vlans: vec![vlan(1, 1)[0]; 3], ..config() }, "vlans: 3 tags"),
            (
                Config { vlans: vec![VlanRange { ethertype: 0x0800, first: 1, count: 1 }], ..config() },
                "vlans[0].tpid: 0x0800",
            ),
            (Config { ipv4: None, ..config() }, "ipv4: is missing"),
            (Config { ipv4: Some(fixed([223, 255, 255, 0])), ..config() }, "ipv4.fixed.first"),
            (
                Config { ipv4: dhcp(Dhcp4 { vendor_class: vec![0; 256], ..Dhcp4::default() }), ..config() },
                "ipv4.dhcp.vendor_class: 256 bytes",
            ),
            (
                Config {
                    hostname: Some("x".repeat(255).parse().unwrap()),
                    ipv4: dhcp(Dhcp4 {
                        vendor_class: vec![0; 255],
                        vendor_specific: vec![0; 255],
                        requested_options: vec![0; 255],
                        circuit_id: Some("x".repeat(253).parse().unwrap()),
                        ..Dhcp4::default()
                    }),
                    ..config()
                },
                "ipv4.dhcp: options of",
            ),
            (Config { ipv6: six(None), ..config() }, "ipv6: neither"),
            (Config { ipv6: six(Some(Dhcp6 { address: false, ..Dhcp6::default() })), ..config() }, "ipv6.dhcp"),
        ];
        for (config, field) in cases {
            let error = config.check().unwrap_err().to_string();
            assert!(error.starts_with(field), "{error:?} is not about {field:?}");
        }
        let right = [
            config(),
            Config { vlans: vlan(4000, 95), ..config() },
            Config { ipv4: Some(fixed([10, 0, 0, 1])), ..config() },
            Config { mac: [2, 0xff, 0xff, 0xff, 0xfc, 0x18], ..config() },
        ];
        for config in right {
            assert_eq!(config.check(), Ok(()));
        }
    }
}
