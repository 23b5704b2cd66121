// SPDX-License-Identifier: Apache-2.0
//! Three network namespaces of a run's own: the near end, the router, the far end.
//!
//! ```text
//! near                 router                       far
//!  kernel (10.9.0.3) --- near0  near1 --+
//!                                       +-- router -- far1   far0 --- kernel (10.9.0.2)
//!             engine --- our0   our1 ---+
//! (10.9.0.1, in the router's namespace)
//! ```
//! Both near ends lie behind the same router, so that the kernel can take the engine's place in a comparison.
use std::{
    fs::File,
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

/// Links: an end in its namespace, the router's end, and the address of the first.
const LINKS: [(&str, &str, [u8; 4]); 3] = [("near0", "near1", NEAR), ("our0", "our1", OURS), ("far0", "far1", FAR)];

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

/// The MAC of who has an address.
pub fn mac([a, b, c, d]: [u8; 4]) -> [u8; 6] {
    [2, 0, a, b, c, d]
}

fn told_mac(address: [u8; 4]) -> String {
    mac(address).map(|byte| format!("{byte:02x}")).join(":")
}

fn told(address: [u8; 4]) -> String {
    address.map(|byte| byte.to_string()).join(".")
}

impl Namespaces {
    /// Makes them, with links, addresses and neighbours.
    pub fn new() -> anyhow::Result<Self> {
        let this = Self { prefix: format!("spate-peers-{}", process::id()) };
        for which in ["near", "router", "far"] {
            run(&["ip", "netns", "add", &this.name(which)])?;
        }
        for (end, router_end, address) in LINKS {
            this.link(end, router_end, address)?;
        }
        for (which, interface, address) in [("near", "near0", NEAR), ("far", "far0", FAR)] {
            let address = format!("{}/24", told(address));
            this.within(which, &["ip", "address", "add", &address, "dev", interface])?;
            this.within(which, &["ip", "link", "set", "lo", "up"])?;
            // A connection must not profit from those before: ours do not either.
            this.within(which, &["sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1"])?;
            this.within(which, &["sysctl", "-qw", "net.ipv4.tcp_max_syn_backlog=16384"])?;
            this.within(which, &["sysctl", "-qw", "net.core.somaxconn=16384"])?;
            this.within(which, &["sysctl", "-qw", "net.ipv4.ip_local_port_range=10000 65535"])?;
        }
        this.introduce()?;
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
        run(&[&["ip", "netns", "exec", &self.name(which)], command].concat())
    }

    /// A pair of interfaces that neither put segments together nor leave checksums out.
    fn link(&self, end: &str, router_end: &str, address: [u8; 4]) -> anyhow::Result<()> {
        let home = match end {
            "near0" => "near",
            "far0" => "far",
            _ => "router",
        };
        let (router, there) = (self.name("router"), self.name(home));
        self.within("router", &["ip", "link", "add", router_end, "type", "veth", "peer", "name", end])?;
        self.within("router", &["ip", "link", "set", end, "address", &told_mac(address)])?;
        if there != router {
            self.within("router", &["ip", "link", "set", end, "netns", &there])?;
        }
        for (which, interface) in [("router", router_end), (home, end)] {
            this_is_quiet(&self.name(which), interface)?;
        }
        Ok(())
    }

    /// Tells both kernels who has which MAC.
    fn introduce(&self) -> anyhow::Result<()> {
        for (which, interface) in [("near", "near0"), ("far", "far0")] {
            for (.., address) in LINKS {
                let (address, mac) = (told(address), told_mac(address));
                self.within(which, &["ip", "neighbour", "replace", &address, "lladdr", &mac, "dev", interface])?;
            }
        }
        Ok(())
    }
}

fn this_is_quiet(namespace: &str, interface: &str) -> anyhow::Result<()> {
    let within = |command: &[&str]| run(&[&["ip", "netns", "exec", namespace], command].concat());
    within(&["sysctl", "-qw", &format!("net.ipv6.conf.{interface}.disable_ipv6=1")])?;
    within(&["ethtool", "-K", interface, "tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off"])?;
    within(&["ip", "link", "set", interface, "up"])
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for which in ["near", "router", "far"] {
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
