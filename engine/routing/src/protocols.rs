// SPDX-License-Identifier: Apache-2.0
//! What BIRD says of its protocols (`show protocols all`): a line of code 1002 for each, and details of code 1006.
use crate::{Line, Reply};

/// Codes of the lines.
const SUMMARY: u16 = 1002;
const DETAILS: u16 = 1006;

/// A protocol of BIRD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Its name in BIRD's configuration.
    pub name: String,
    /// What it is, such as "BGP".
    pub kind: String,
    /// Whether it is running.
    pub state: State,
    /// When that changed, as BIRD writes it.
    pub since: String,
    /// What it says itself, such as "Running" or "Established".
    pub info: String,
    /// The state of BGP's state machine (RFC 4271 section 8.2.2).
    pub bgp_state: Option<String>,
    /// Why BGP's last session ended or could not begin.
    pub last_error: Option<String>,
    /// What it exchanges with tables.
    pub channels: Vec<Channel>,
}

/// Whether a protocol is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is not.
    Down,
    /// It waits for a neighbor.
    Start,
    /// It is.
    Up,
    /// It ends.
    Stop,
    /// It has ended, and its routes are being removed.
    Flush,
}

/// What a protocol exchanges with a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// The family, such as "ipv4".
    pub name: String,
    /// Routes by now; none while the channel is down.
    pub routes: Option<Routes>,
    /// Routes that neighbors announced since the protocol was started.
    pub import_updates: Changes,
    /// Routes that neighbors withdrew.
    pub import_withdraws: Changes,
    /// Routes that were announced to neighbors.
    pub export_updates: Changes,
    /// Routes that were withdrawn from neighbors.
    pub export_withdraws: Changes,
}

/// Routes of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// Received and accepted.
    pub imported: u64,
    /// Received and not accepted, but kept.
    pub filtered: u64,
    /// Sent.
    pub exported: u64,
}

/// Changes of routes; what does not apply is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// All.
    pub received: u64,
    /// Those that are not valid.
    pub rejected: u64,
    /// Those that a filter rejected.
    pub filtered: u64,
    /// Those that changed nothing.
    pub ignored: u64,
    /// Those that took effect.
    pub accepted: u64,
}

/// The protocols in a reply to [`crate::Command::ShowProtocols`]. What it says besides is passed over.
pub fn protocols(reply: &Reply) -> Vec<Protocol> {
    let mut found: Vec<Protocol> = Vec::new();
    for line in &reply.lines {
        match line.code {
            SUMMARY => found.extend(summary(line)),
            DETAILS => {
                if let Some(protocol) = found.last_mut() {
                    details(line, protocol);
                }
            }
            _ => {}
        }
    }
    found
}

/// Name, kind, table, state, since when, and what it says.
fn summary(line: &Line) -> Option<Protocol> {
    let mut words = Words(&line.text);
    let name = words.next()?.to_owned();
    let kind = words.next()?.to_owned();
    let _table = words.next()?;
    let state = match words.next()? {
        "down" => State::Down,
        "start" => State::Start,
        "up" => State::Up,
        "stop" => State::Stop,
        "flush" => State::Flush,
        _ => return None,
    };
    let since = words.time()?;
    let info = words.0.trim().to_owned();
    Some(Protocol { name, kind, state, since, info, bgp_state: None, last_error: None, channels: Vec::new() })
}

/// The words of a line, and what is left of it.
pub(crate) struct Words<'a>(pub(crate) &'a str);

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let line = self.0.trim_start();
        let (word, rest) = line.split_at(line.find(char::is_whitespace).unwrap_or(line.len()));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

impl Words<'_> {
    /// A date and a time of a day, or one of them.
    pub(crate) fn time(&mut self) -> Option<String> {
        let first = self.next()?;
        let rest = self.0;
        match self.next().filter(|next| next.contains(':') && next.starts_with(|c: char| c.is_ascii_digit())) {
            Some(time) if !first.contains(':') => Some(format!("{first} {time}")),
            _ => {
                self.0 = rest;
                Some(first.to_owned())
            }
        }
    }
}

fn details(line: &Line, protocol: &mut Protocol) {
    let text = line.text.trim();
    if let Some(name) = text.strip_prefix("Channel ") {
        protocol.channels.push(Channel { name: name.to_owned(), ..Channel::default() });
        return;
    }
    let Some((key, value)) = text.split_once(':') else { return };
    let value = value.trim();
    match key {
        "BGP state" => protocol.bgp_state = Some(value.to_owned()),
        "Last error" => protocol.last_error = Some(value.to_owned()),
        _ => {
            let Some(channel) = protocol.channels.last_mut() else { return };
            match key {
                "Routes" => channel.routes = Some(routes(value)),
                "Import updates" => channel.import_updates = changes(value),
                "Import withdraws" => channel.import_withdraws = changes(value),
                "Export updates" => channel.export_updates = changes(value),
                "Export withdraws" => channel.export_withdraws = changes(value),
                _ => {}
            }
        }
    }
}

/// Such as "3 imported, 0 filtered, 2 exported, 1 preferred".
fn routes(value: &str) -> Routes {
    let mut routes = Routes::default();
    for part in value.split(',') {
        let mut words = Words(part);
        let Some(count) = words.next().and_then(|count| count.parse().ok()) else { continue };
        match words.next() {
            Some("imported") => routes.imported = count,
            Some("filtered") => routes.filtered = count,
            Some("exported") => routes.exported = count,
            _ => {}
        }
    }
    routes
}

/// Five numbers, or "---" for what does not apply.
fn changes(value: &str) -> Changes {
    let mut numbers = Words(value).map(|word| word.parse().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    Changes { received: next(), rejected: next(), filtered: next(), ignored: next(), accepted: next() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Decoder;

    /// A reply of BIRD 2.0.12, with a session that is up, one that is not, and the protocols beside them.
    pub(crate) const PROTOCOLS: &str = "\
2002-Name       Proto      Table      State  Since         Info
1002-device:all Device     ---        up     2026-11-28 10:11:12.345 \x20
1006-
1002-bgp:east:dut BGP        ---        up     2026-11-28 10:11:13.456  Established  \x20
1006-  BGP state:          Established
     Neighbor address: 10.99.0.2
     Neighbor AS:      65002
     Local AS:         65001
     Neighbor ID:      10.99.0.2
     Local capabilities
       Multiprotocol
         AF announced: ipv4 ipv6
     Hold timer:       62.441/90
   Channel ipv4
     State:          UP
     Table:          4:east
     Preference:     100
     Input filter:   REJECT
     Output filter:  (unnamed)
     Routes:         0 imported, 3 filtered, 1000000 exported, 0 preferred
     Route change stats:     received   rejected   filtered    ignored   accepted
       Import updates:              5          0          5          0          0
       Import withdraws:            2          0        ---          2          0
       Export updates:        1000007          0          7        ---    1000000
       Export withdraws:            4        ---        ---        ---          4
     BGP Next hop:   10.99.0.1
   Channel ipv6
     State:          DOWN
     Table:          6:east
     Preference:     100
     Input filter:   REJECT
     Output filter:  (unnamed)
\x20
1002-bgp:west:other BGP        ---        start  2026-11-28 10:11:12.346  Connect       Socket: Connection refused
1006-  BGP state:          Connect
     Neighbor address: 10.98.0.2
     Last error:       Socket: Connection refused
\x20
1002-ospf:east:core OSPF       4:east     up     2026-11-28 10:11:12.347  Running
1006-  Channel ipv4
     State:          UP
     Routes:         7 imported, 2 exported, 5 preferred
     Route change stats:     received   rejected   filtered    ignored   accepted
       Import updates:              7          0          0          0          7
       Import withdraws:            0          0        ---          0          0
       Export updates:              9          5          2        ---          2
       Export withdraws:            0        ---        ---        ---          0
\x20
0000\x20
";

    pub(crate) fn reply(text: &str) -> Reply {
        let mut decoder = Decoder::default();
        decoder.push(text.as_bytes());
        decoder.reply().unwrap().unwrap()
    }

    #[test]
    fn states_errors_and_counts_are_read() {
        let found = protocols(&reply(PROTOCOLS));
        let summary: Vec<_> =
            found.iter().map(|p| (p.name.as_str(), p.kind.as_str(), p.state, p.info.as_str())).collect();
        assert_eq!(
            summary,
            [
                ("device:all", "Device", State::Up, ""),
                ("bgp:east:dut", "BGP", State::Up, "Established"),
                ("bgp:west:other", "BGP", State::Start, "Connect       Socket: Connection refused"),
                ("ospf:east:core", "OSPF", State::Up, "Running"),
            ]
        );
        assert_eq!(found[1].since, "2026-11-28 10:11:13.456");
        assert_eq!((found[1].bgp_state.as_deref(), found[1].last_error.as_deref()), (Some("Established"), None));
        assert_eq!(found[2].bgp_state.as_deref(), Some("Connect"));
        assert_eq!(found[2].last_error.as_deref(), Some("Socket: Connection refused"));
        let v4 = &found[1].channels[0];
        assert_eq!(v4.routes, Some(Routes { imported: 0, filtered: 3, exported: 1_000_000 }));
        assert_eq!(v4.import_updates, Changes { received: 5, filtered: 5, ..Changes::default() });
        assert_eq!(v4.import_withdraws, Changes { received: 2, ignored: 2, ..Changes::default() });
        assert_eq!(
            v4.export_updates,
            Changes { received: 1_000_007, filtered: 7, accepted: 1_000_000, ..Changes::default() }
        );
        assert_eq!(v4.export_withdraws, Changes { received: 4, accepted: 4, ..Changes::default() });
        assert_eq!(found[1].channels[1], Channel { name: "ipv6".into(), ..Channel::default() });
        assert_eq!(found[3].channels[0].routes, Some(Routes { imported: 7, filtered: 0, exported: 2 }));
    }

    #[test]
    fn times_have_one_word_or_two() {
        for (line, since, info) in [
            ("x BGP --- up 2026-11-28 10:11:12.345  Established", "2026-11-28 10:11:12.345", "Established"),
            ("x BGP --- up 10:11:12.345  Established", "10:11:12.345", "Established"),
            ("x BGP --- up 2026-11-28  Established", "2026-11-28", "Established"),
            ("x BGP --- start 10:11:12  Idle  Error: Neighbor lost", "10:11:12", "Idle  Error: Neighbor lost"),
        ] {
            let protocol = summary(&Line { code: SUMMARY, text: line.into() }).unwrap();
            assert_eq!((protocol.since.as_str(), protocol.info.as_str()), (since, info));
        }
        for wrong in ["", "x", "x BGP ---", "x BGP --- sideways 10:11:12", "x BGP --- up"] {
            assert_eq!(summary(&Line { code: SUMMARY, text: wrong.into() }), None, "{wrong}");
        }
    }
}
