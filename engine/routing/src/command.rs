// SPDX-License-Identifier: Apache-2.0
//! Commands for BIRD's control socket, a line each.
use std::fmt;

use crate::configuration::{BFD, bgp_name, routes_name};

/// A command. Its `Display` is the line without the newline that ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reads a configuration file. What has not changed goes on; changed filters apply to later routes only, so that sets can be
    /// added and removed without sending all others again.
    ConfigureSoft {
        /// Its path, without quotation marks.
        file: String,
    },
    /// Reads a configuration file. Routes are sent again by sessions with other filters: for changed attributes.
    Configure {
        /// Its path, without quotation marks.
        file: String,
    },
    /// Details of all protocols ([`crate::protocols()`]).
    ShowProtocols,
    /// Sessions of BFD ([`crate::bfd_sessions`]).
    ShowBfd,
    /// Neighbors in OSPF ([`crate::ospf_neighbors`]); refused if there is no session.
    ShowOspf,
    /// Neighbors in RIP ([`crate::rip_neighbors`]); refused if there is no session.
    ShowRip,
    /// Advertises a set.
    Advertise {
        /// The set's name.
        set: String,
    },
    /// Withdraws a set.
    Withdraw {
        /// The set's name.
        set: String,
    },
    /// Starts a session of BGP that was stopped.
    StartBgp {
        /// The port's name.
        port: String,
        /// The session's name.
        session: String,
    },
    /// Stops a session of BGP, which says so to its peer (CEASE, RFC 4486).
    StopBgp {
        /// The port's name.
        port: String,
        /// The session's name.
        session: String,
    },
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ConfigureSoft { file } => write!(f, "configure soft \"{file}\""),
            Self::Configure { file } => write!(f, "configure \"{file}\""),
            Self::ShowProtocols => f.write_str("show protocols all"),
            Self::ShowBfd => write!(f, "show bfd sessions '{BFD}'"),
            Self::ShowOspf => f.write_str("show ospf neighbors"),
            Self::ShowRip => f.write_str("show rip neighbors"),
            Self::Advertise { set } => write!(f, "enable '{}'", routes_name(set)),
            Self::Withdraw { set } => write!(f, "disable '{}'", routes_name(set)),
            Self::StartBgp { port, session } => write!(f, "enable '{}'", bgp_name(port, session)),
            Self::StopBgp { port, session } => write!(f, "disable '{}'", bgp_name(port, session)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_what_the_configuration_does() {
        let (port, session, set) = ("east".to_owned(), "dut".to_owned(), "customers".to_owned());
        for (command, line) in [
            (Command::ConfigureSoft { file: "/r/new.conf".into() }, "configure soft \"/r/new.conf\""),
            (Command::ShowBfd, "show bfd sessions 'bfd:all'"),
            (Command::Withdraw { set: set.clone() }, "disable 'routes:customers'"),
            (Command::Advertise { set }, "enable 'routes:customers'"),
            (Command::StopBgp { port: port.clone(), session: session.clone() }, "disable 'bgp:east:dut'"),
            (Command::StartBgp { port, session }, "enable 'bgp:east:dut'"),
        ] {
            assert_eq!(command.to_string(), line);
        }
    }
}
