// SPDX-License-Identifier: Apache-2.0
//! Commands for BIRD's control socket, a line each.
use std::fmt;

use crate::{
    Family, SessionKind,
    configuration::{BFD, bgp_name, routes_name, table},
    sessions::name_of,
};

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
        /// The run that it is of.
        run: u32,
        /// The set's name.
        set: String,
    },
    /// Withdraws a set.
    Withdraw {
        /// The run that it is of.
        run: u32,
        /// The set's name.
        set: String,
    },
    /// The routes that neighbors of a session have sent ([`crate::LearnedRoutes`]).
    ShowLearned {
        /// The port's name.
        port: String,
        /// The session's protocol.
        kind: SessionKind,
        /// The session's name.
        session: String,
        /// Their family.
        family: Family,
        /// Those that are used by nothing, and only counted (see [`crate::Learn`]); else those in the table.
        counted: bool,
    },
    /// Has neighbors of a session send their routes again, without an end of the session (in BGP, RFC 2918); refused if they cannot.
    ReceiveAgain {
        /// The port's name.
        port: String,
        /// The session's protocol.
        kind: SessionKind,
        /// The session's name.
        session: String,
    },
    /// Ends a session and starts it again.
    Restart {
        /// The port's name.
        port: String,
        /// The session's protocol.
        kind: SessionKind,
        /// The session's name.
        session: String,
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
            Self::Advertise { run, set } => write!(f, "enable '{}'", routes_name(*run, set)),
            Self::Withdraw { run, set } => write!(f, "disable '{}'", routes_name(*run, set)),
            Self::ShowLearned { port, kind, session, family, counted } => {
                let filtered = if *counted { " filtered" } else { "" };
                let (table, protocol) = (table(port, *family), name_of(*kind, port, session));
                write!(f, "show route table '{table}'{filtered} all protocol '{protocol}'")
            }
            Self::ReceiveAgain { port, kind, session } => write!(f, "reload in '{}'", name_of(*kind, port, session)),
            Self::Restart { port, kind, session } => write!(f, "restart '{}'", name_of(*kind, port, session)),
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
            (Command::Withdraw { run: 7, set: set.clone() }, "disable 'routes:7:customers'"),
            (Command::Advertise { run: 7, set }, "enable 'routes:7:customers'"),
            (
                Command::ShowLearned {
                    port: port.clone(),
                    kind: SessionKind::Ospf,
                    session: session.clone(),
                    family: Family::V4,
                    counted: true,
                },
                "show route table '4:east' filtered all protocol 'ospf:east:dut'",
            ),
            (
                Command::ShowLearned {
                    port: port.clone(),
                    kind: SessionKind::Bgp,
                    session: session.clone(),
                    family: Family::V6,
                    counted: false,
                },
                "show route table '6:east' all protocol 'bgp:east:dut'",
            ),
            (
                Command::ReceiveAgain { port: port.clone(), kind: SessionKind::Bgp, session: session.clone() },
                "reload in 'bgp:east:dut'",
            ),
            (
                Command::Restart { port: port.clone(), kind: SessionKind::Rip, session: session.clone() },
                "restart 'rip:east:dut'",
            ),
            (Command::StopBgp { port: port.clone(), session: session.clone() }, "disable 'bgp:east:dut'"),
            (Command::StartBgp { port, session }, "enable 'bgp:east:dut'"),
        ] {
            assert_eq!(command.to_string(), line);
        }
    }
}
