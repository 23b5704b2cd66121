// SPDX-License-Identifier: Apache-2.0
//! The options that make ports stations on their links: addresses, gateways, multicast groups, VLAN.
use crate::control::routing::RouterPort;
use crate::datapath::{Link, Punt};
use anyhow::{Context, bail};
use spate_dpdk::Tap;
use spate_neighbour::{Group, Prefix};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::str::FromStr;

#[derive(Clone, Debug, clap::Args)]
pub struct Links {
    /// An address of a port, such as east=198.18.0.1/24 or east=2001:db8::1/64: the port answers ARP, neighbor discovery
    /// and ping for it, and finds the next hops of streams that ask for it. May be repeated.
    #[arg(long = "address", value_name = "NAME=ADDRESS/LENGTH")]
    addresses: Vec<PortValue<Prefix>>,
    /// Where a port's packets to other subnets go, such as east=198.18.0.254: one for IPv4, one for IPv6.
    #[arg(long = "gateway", value_name = "NAME=ADDRESS")]
    gateways: Vec<PortValue<IpAddr>>,
    /// A multicast group that a port receives, such as east=239.1.1.1, or east=232.1.1.1,198.18.0.9 for packets of certain sources only: the
    /// port reports by IGMP or MLD that it is a member. May be repeated.
    #[arg(long = "group", value_name = "NAME=GROUP[,SOURCE]...")]
    groups: Vec<PortValue<Group>>,
    /// VLAN (802.1Q) that a port's addresses are in, such as east=100. Streams bring their own tags.
    #[arg(long = "vlan", value_name = "NAME=VLAN")]
    vlans: Vec<PortValue<u16>>,
    /// Packets that a port receives, that are of no stream and that a filter (pcap-filter(7)) takes go to an interface of
    /// the kernel, which is made: such as east=bgp:"arp or tcp port 179". What the kernel sends on it leaves by the port.
    #[arg(long = "punt", value_name = "NAME=INTERFACE:FILTER")]
    punts: Vec<PortValue<PuntArgument>>,
    /// A port is a router: BIRD speaks BGP, OSPF, RIP and BFD from the port's addresses by an interface of the kernel, which is made, such as
    /// east=rt-east. Its sessions are set by the operator, or by --routing.
    #[arg(long = "router", value_name = "NAME=INTERFACE")]
    routers: Vec<PortValue<String>>,
}

/// Argument of --punt.
#[derive(Clone, Debug)]
struct PuntArgument(Punt);

impl FromStr for PuntArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (interface, filter) =
            text.split_once(':').ok_or("must be INTERFACE:FILTER, such as bgp:tcp port 179 (pcap-filter(7))")?;
        Tap::check_name(interface).map_err(|e| e.to_string())?;
        if filter.trim().is_empty() {
            return Err("the filter is missing: name the packets that are to be punted, such as tcp port 179".into());
        }
        let filter = spate_dpdk::compile(filter).map_err(|e| format!("the filter is wrong {e}"))?;
        Ok(Self(Punt::new(interface, filter)))
    }
}

/// Something of a port: `NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PortValue<T> {
    port: String,
    value: T,
}

impl<T: FromStr<Err: std::fmt::Display>> FromStr for PortValue<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (port, value) = text.split_once('=').ok_or("must be NAME=VALUE, NAME being a port's")?;
        let value = value.parse().map_err(|e| format!("{value:?}: {e}"))?;
        Ok(Self { port: port.to_owned(), value })
    }
}

impl Links {
    /// The first port that is to be a router.
    pub fn first_router(&self) -> Option<&str> {
        self.routers.first().map(|router| router.port.as_str())
    }

    /// By name of the port, for those that have an address, a group or a punt.
    pub fn by_port<'a>(&self, ports: impl Iterator<Item = &'a str>) -> anyhow::Result<Vec<(String, Link)>> {
        let ports: Vec<&str> = ports.collect();
        let known = |option: &str, port: &str| match ports.contains(&port) {
            true => Ok(()),
            false => bail!("--{option} {port}: no --port has this name"),
        };
        let mut links: BTreeMap<String, Link> = BTreeMap::new();
        for PortValue { port, value } in &self.addresses {
            known("address", port)?;
            links.entry(port.clone()).or_default().config.addresses.push(*value);
        }
        for PortValue { port, value } in &self.gateways {
            known("gateway", port)?;
            let Some(link) = links.get_mut(port) else { bail!("--gateway {port}={value}: {}", no_address(port)) };
            let other = match *value {
                IpAddr::V4(gateway) => link.config.gateway_v4.replace(gateway).map(IpAddr::V4),
                IpAddr::V6(gateway) => link.config.gateway_v6.replace(gateway).map(IpAddr::V6),
            };
            if let Some(other) = other {
                bail!(
                    "--gateway {port}={value}: the port has gateway {other} already: give one for IPv4 and one for IPv6"
                );
            }
        }
        for PortValue { port, value } in &self.groups {
            known("group", port)?;
            links.entry(port.clone()).or_default().config.groups.push(value.clone());
        }
        for PortValue { port, value } in &self.vlans {
            known("vlan", port)?;
            let Some(link) = links.get_mut(port) else { bail!("--vlan {port}={value}: {}", no_address(port)) };
            if link.config.vlan.replace(*value).is_some() {
                bail!("--vlan {port}={value}: the port is in another VLAN already: its addresses can be in one");
            }
        }
        let mut interfaces = BTreeMap::new();
        for PortValue { port, value: PuntArgument(punt) } in &self.punts {
            known("punt", port)?;
            let interface = punt.interface();
            if let Some(other) = interfaces.insert(interface.to_owned(), port) {
                bail!("--punt {port}={interface}: port {other} punts to this interface already: choose another name");
            }
            if links.entry(port.clone()).or_default().punt.replace(punt.clone()).is_some() {
                bail!("--punt {port}={interface}: the port has another punt already: join their filters with \"or\"");
            }
        }
        for PortValue { port, value: interface } in &self.routers {
            known("router", port)?;
            Tap::check_name(interface).with_context(|| format!("--router {port}={interface}"))?;
            if let Some(other) = interfaces.insert(interface.clone(), port) {
                bail!("--router {port}={interface}: port {other} has this interface already: choose another name");
            }
            let Some(link) = links.get_mut(port).filter(|link| !link.config.addresses.is_empty()) else {
                bail!("--router {port}={interface}: {}", no_address(port));
            };
            let router = Punt::of_router(interface, &link.config)?;
            if let Some(other) = link.punt.replace(router) {
                let other = other.interface();
                bail!(
                    "--router {port}={interface}: the port has interface {other} already: a port punts, or is one router"
                );
            }
        }
        for (port, link) in &links {
            link.config.check().with_context(|| format!("--address, --gateway, --group and --vlan of {port}"))?;
        }
        Ok(links.into_iter().collect())
    }
}

/// Ports that are routers, and their interfaces in the kernel.
pub fn routers(links: &[(String, Link)]) -> Vec<RouterPort> {
    let router = |(name, link): &(String, Link)| {
        let punt = link.punt.as_ref().filter(|punt| punt.is_of_router())?;
        let gateways = [link.config.gateway_v4.map(IpAddr::V4), link.config.gateway_v6.map(IpAddr::V6)];
        Some(RouterPort {
            name: name.clone(),
            interface: punt.interface().to_owned(),
            addresses: link.config.addresses.clone(),
            gateways: gateways.into_iter().flatten().collect(),
        })
    };
    links.iter().filter_map(router).collect()
}

fn no_address(port: &str) -> String {
    format!("the port has no address: give it one, such as --address {port}=198.18.0.1/24")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        links: Links,
    }

    fn links(arguments: &[&str]) -> Result<Vec<(String, Link)>, String> {
        let command = Command::try_parse_from([&["x"], arguments].concat()).map_err(|e| e.to_string())?;
        command.links.by_port(["east", "west"].into_iter()).map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn ports_get_their_links_by_name() {
        let all = links(&[
            "--address=east=198.18.0.1/24",
            "--address=east=2001:db8::1/64",
            "--gateway=east=198.18.0.254",
            "--gateway=east=fe80::1",
            "--vlan=east=100",
            "--address=west=10.0.0.1/8",
            "--punt=west=bgp:tcp port 179 and host 10.0.0.2",
            "--router=east=rt-east",
        ])
        .unwrap();
        assert_eq!(all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["east", "west"]);
        let east = &all[0].1.config;
        assert_eq!((east.addresses.len(), east.gateway_v4.is_some(), east.vlan), (2, true, Some(100)));
        let punts: Vec<_> = all.iter().map(|(_, link)| link.punt.as_ref().map(Punt::interface)).collect();
        assert_eq!(punts, [Some("rt-east"), Some("bgp")]);
        assert_eq!(
            all.iter().map(|(_, link)| link.punt.as_ref().is_some_and(Punt::is_of_router)).collect::<Vec<_>>(),
            [true, false]
        );
        assert_eq!(links(&["--punt=east=bgp:arp"]).unwrap().len(), 1);
        assert_eq!(east.gateway_v6, Some("fe80::1".parse().unwrap()));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_option_and_the_remedy() {
        for (arguments, problem) in [
            (&["--address=north=198.18.0.1/24"][..], "--address north: no --port has this name"),
            (&["--gateway=east=198.18.0.254"], "such as --address east=198.18.0.1/24"),
            (&["--vlan=east=5"], "--vlan east=5: the port has no address"),
            (&["--address=east=198.18.0.1/24", "--gateway=east=10.0.0.1"], "gateway 10.0.0.1 is in no subnet"),
            (&["--address=east=198.18.0.1/24", "--vlan=east=4095"], "VLAN 4095 does not exist"),
            (&["--address=east=198.18.0.1"], "has no prefix length; must be such as"),
            (&["--vlan=east=x"], "invalid digit"),
            (&["--punt=north=bgp:arp"], "--punt north: no --port has this name"),
            (&["--punt=east=bgp"], "must be INTERFACE:FILTER"),
            (&["--punt=east=bgp:"], "the filter is missing"),
            (&["--punt=east=a name that is long:arp"], "is no name of an interface"),
            (&["--punt=east=bgp:tcp prt 179"], "the filter is wrong from character 5"),
            (&["--punt=east=bgp:arp", "--punt=west=bgp:arp"], "port east punts to this interface already"),
            (&["--punt=east=a:arp", "--punt=east=b:arp"], "the port has another punt already"),
            (&["--router=north=rt"], "--router north: no --port has this name"),
            (&["--router=east=rt"], "--router east=rt: the port has no address: give it one"),
            (&["--group=east=239.1.1.1", "--router=east=rt"], "--router east=rt: the port has no address: give it one"),
            (&["--address=east=10.0.0.1/8", "--router=east=r/t"], "is no name of an interface"),
            (
                &["--address=east=10.0.0.1/8", "--punt=east=bgp:arp", "--router=east=rt"],
                "--router east=rt: the port has interface bgp already: a port punts, or is one router",
            ),
            (
                &["--address=east=10.0.0.1/8", "--punt=west=rt:arp", "--router=east=rt"],
                "--router east=rt: port west has this interface already",
            ),
        ] {
            let error = links(arguments).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
