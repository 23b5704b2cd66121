// SPDX-License-Identifier: Apache-2.0
//! Network namespaces of a run's own: the near end, the router, the far end, and what is behind that one.
//!
//! ```text
//! near                 router                       far                        behind
//!  kernel (10.9.0.3) --- near0  near1 --+
//!                                       +-- router -- far1   far0 --- kernel (10.9.0.2)
//!             engine --- our0   our1 ---+                    nat0 --- behind0 --- kernel (10.10.0.1 to .3)
//! (10.9.0.1, in the router's namespace)
//! ```
//! Both near ends lie behind the same router, so that the kernel can take the engine's place in a comparison.
use std::{
    fs::File,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::fd::AsFd,
    process::{self, Command},
    thread,
};

use anyhow::{Context, bail};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The engine's address.
pub const OURS: [u8; 4] = [10, 9, 0, 1];
/// The kernel's at the far end.
pub const FAR: [u8; 4] = [10, 9, 0, 2];
/// The kernel's at the near end.
pub const NEAR: [u8; 4] = [10, 9, 0, 3];
/// The router's, of its ICMP messages.
pub const ROUTER: [u8; 4] = [10, 9, 0, 254];
/// The kernel's behind the far end.
pub const BEHIND: [[u8; 4]; 3] = [[10, 10, 0, 1], [10, 10, 0, 2], [10, 10, 0, 3]];
/// The far end's on that side.
const NAT: [u8; 4] = [10, 10, 0, 254];

/// All of them.
const NAMESPACES: [&str; 4] = ["near", "router", "far", "behind"];

/// Links: an end in its namespace, the router's end, and the address of the first.
const LINKS: [(&str, &str, [u8; 4]); 3] = [("near0", "near1", NEAR), ("our0", "our1", OURS), ("far0", "far1", FAR)];

/// The IP between both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    V4,
    V6,
}

impl Family {
    /// The address of the host that has this one of IPv4; over IPv6 it ends with it.
    pub fn of(self, address: [u8; 4]) -> IpAddr {
        let v4 = Ipv4Addr::from(address);
        match self {
            Self::V4 => v4.into(),
            Self::V6 => Ipv6Addr::from_bits(0xfd09 << 112 | u128::from(v4.to_bits())).into(),
        }
    }
}

/// The namespaces, deleted at the end.
#[derive(Debug)]
pub struct Namespaces {
    prefix: String,
}

fn run(command: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(command[0]).args(&command[1..]).output().with_context(|| command.join(" "))?;
    if !output.status.success() {
        bail!("{}: {}", command.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// The name of a namespace of a run.
pub fn name(prefix: &str, which: &str) -> String {
    format!("{prefix}-{which}")
}

/// The MAC of the host that has an address.
pub fn mac([a, b, c, d]: [u8; 4]) -> [u8; 6] {
    [2, 0, a, b, c, d]
}

fn mac_text(address: [u8; 4]) -> String {
    mac(address).map(|byte| format!("{byte:02x}")).join(":")
}

fn dotted(address: [u8; 4]) -> String {
    Family::V4.of(address).to_string()
}

/// Runs a command in a namespace of a run.
pub fn within(prefix: &str, which: &str, command: &[&str]) -> anyhow::Result<()> {
    run(&[&["ip", "netns", "exec", &name(prefix, which)], command].concat())
}

/// A kernel forgets what it has learned of paths: MTUs keep its segments short for ten minutes, on a path that takes longer ones.
pub fn forget_paths(prefix: &str, which: &str) -> anyhow::Result<()> {
    within(prefix, which, &["ip", "-4", "route", "flush", "cache"])?;
    within(prefix, which, &["ip", "-6", "route", "flush", "cache"])?;
    within(prefix, which, &["ip", "tcp_metrics", "flush", "all"])
}

impl Namespaces {
    /// Makes them, with links, addresses and neighbors.
    pub fn new() -> anyhow::Result<Self> {
        let this = Self { prefix: format!("spate-peers-{}", process::id()) };
        for which in NAMESPACES {
            run(&["ip", "netns", "add", &this.name(which)])?;
        }
        for (end, router_end, address) in LINKS {
            this.link(end, router_end, address)?;
        }
        for (which, interface, address) in [("near", "near0", NEAR), ("far", "far0", FAR)] {
            this.within(which, &["sysctl", "-qw", &format!("net.ipv6.conf.{interface}.disable_ipv6=0")])?;
            for (family, bits) in [(Family::V4, 24), (Family::V6, 64)] {
                let address = format!("{}/{bits}", family.of(address));
                this.within(which, &["ip", "address", "add", &address, "dev", interface])?;
            }
            this.within(which, &["ip", "link", "set", "lo", "up"])?;
            // A connection must not profit from those before: ours do not either.
            this.within(which, &["sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1"])?;
            this.within(which, &["sysctl", "-qw", "net.ipv4.tcp_max_syn_backlog=16384"])?;
            this.within(which, &["sysctl", "-qw", "net.core.somaxconn=16384"])?;
            this.within(which, &["sysctl", "-qw", "net.ipv4.ip_local_port_range=10000 65535"])?;
        }
        this.introduce()?;
        this.hide()?;
        Ok(this)
    }

    fn name(&self, which: &str) -> String {
        name(&self.prefix, which)
    }

    /// What all names begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    fn within(&self, which: &str, command: &[&str]) -> anyhow::Result<()> {
        within(&self.prefix, which, command)
    }

    /// A pair of interfaces that neither put segments together nor leave checksums out.
    fn link(&self, end: &str, router_end: &str, address: [u8; 4]) -> anyhow::Result<()> {
        let namespace = match end {
            "near0" => "near",
            "far0" => "far",
            _ => "router",
        };
        let (router, there) = (self.name("router"), self.name(namespace));
        self.within("router", &["ip", "link", "add", router_end, "type", "veth", "peer", "name", end])?;
        self.within("router", &["ip", "link", "set", end, "address", &mac_text(address)])?;
        if there != router {
            self.within("router", &["ip", "link", "set", end, "netns", &there])?;
        }
        for (which, interface) in [("router", router_end), (namespace, end)] {
            self.quieten(which, interface)?;
        }
        Ok(())
    }

    /// Makes an interface that sends nothing of its own, and computes and verifies all checksums.
    fn quieten(&self, which: &str, interface: &str) -> anyhow::Result<()> {
        self.within(which, &["sysctl", "-qw", &format!("net.ipv6.conf.{interface}.disable_ipv6=1")])?;
        self.within(which, &["sysctl", "-qw", &format!("net.ipv6.conf.{interface}.accept_dad=0")])?;
        self.within(which, &["ip", "link", "set", interface, "addrgenmode", "none"])?;
        let offloads = ["tx", "rx", "tso", "gso", "gro"].map(|offload| [offload, "off"]).concat();
        self.within(which, &[&["ethtool", "-K", interface], &offloads[..]].concat())?;
        self.within(which, &["ip", "link", "set", interface, "up"])
    }

    /// Sets the neighbors' MACs in both kernels.
    fn introduce(&self) -> anyhow::Result<()> {
        for (which, interface) in [("near", "near0"), ("far", "far0")] {
            for (.., host) in LINKS {
                for family in [Family::V4, Family::V6] {
                    let (address, mac) = (family.of(host).to_string(), mac_text(host));
                    self.within(which, &["ip", "neighbour", "replace", &address, "lladdr", &mac, "dev", interface])?;
                }
            }
        }
        Ok(())
    }

    /// Puts clients behind the far end, which is their way out.
    fn hide(&self) -> anyhow::Result<()> {
        let behind = self.name("behind");
        self.within(
            "far",
            &["ip", "link", "add", "nat0", "type", "veth", "peer", "name", "behind0", "netns", &behind],
        )?;
        self.quieten("far", "nat0")?;
        self.quieten("behind", "behind0")?;
        self.within("far", &["ip", "address", "add", &format!("{}/24", dotted(NAT)), "dev", "nat0"])?;
        for address in BEHIND {
            self.within("behind", &["ip", "address", "add", &format!("{}/24", dotted(address)), "dev", "behind0"])?;
        }
        self.within("behind", &["ip", "route", "add", "default", "via", &dotted(NAT)])
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for which in NAMESPACES {
            if let Err(error) = run(&["ip", "netns", "delete", &self.name(which)]) {
                eprintln!("warning: {error:#}");
            }
        }
    }
}

/// Starts a thread in a namespace: the sockets that it makes belong there.
pub fn in_namespace<T: Send + 'static>(
    prefix: &str,
    which: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let path = format!("/run/netns/{}", name(prefix, which));
    thread::spawn(move || {
        let namespace = File::open(&path).expect("the namespace is there as long as the run");
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("root may change its namespace");
        work()
    })
}
