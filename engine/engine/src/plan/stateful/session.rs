// SPDX-License-Identifier: Apache-2.0
//! Captures of templates as programs: what each side of the session sent, it sends; what it received, it waits for.
//!
//! Over TCP the bytes one side sends in a row are sent at once, those of the other side are counted; each side ends as it was captured.
//! Over UDP each message stays one. A message waits for all that came before it from the other side; between two of one side
//! passes the time that passed in the capture, from [`MIN_DELAY_NS`] to [`MAX_DELAY_NS`].
use super::super::Site;
use super::super::{Violation, Violations};
use super::USUAL_MTU;
use crate::index::TemplateIndex;
use contract::{
    Delay, Instruction, Nothing, Payload, Plan, Program, Receive, ReceiveMessages, Send, SendMessage, Stateful,
    Template, TransportProtocol, capture, instruction::Kind, payload,
};
use prost::bytes::Bytes;
use spate_replay::session::{End, Sender, Session, Transport};
use spate_stateful::FieldPath;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

/// Times up to this between messages are none: the file's clock and the capture itself are not more exact.
pub const MIN_DELAY_NS: u64 = 50_000;
/// Longer times between messages are cut to this.
pub const MAX_DELAY_NS: u64 = 700_000_000;
/// Flows that wait for longer than this between messages are kept for twice as long in silence.
const LONG_SILENCE_NS: u64 = 500_000_000;

/// The plan with each template's capture replaced by the programs, payloads, protocol and destination port that it comes to.
pub fn resolve<'a>(plan: &'a Plan, site: &Site) -> Result<Cow<'a, Plan>, Violations> {
    let Some(stateful) = plan.stateful.as_ref().filter(|s| s.templates.iter().any(|t| t.capture.is_some())) else {
        return Ok(Cow::Borrowed(plan));
    };
    let mut resolved = plan.clone();
    let mut wrong = Violations::default();
    let mut payloads = Payloads::of(stateful);
    for (i, template) in resolved.stateful.iter_mut().flat_map(|s| s.templates.iter_mut()).enumerate() {
        let at = TemplateIndex(i).path();
        let Some(asked) = template.capture.take() else { continue };
        let before = wrong.0.len();
        check_excluded_fields(&at, template, &mut wrong);
        match read(&at, &asked, mtu(template, site)) {
            Ok(session) if wrong.0.len() == before => put(&at, template, &session, &mut payloads, &mut wrong),
            Ok(_) => {}
            Err(unreadable) => wrong.add(unreadable.field, unreadable.description),
        }
    }
    if let Some(stateful) = &mut resolved.stateful {
        stateful.payloads.append(&mut payloads.new);
    }
    wrong.or(Cow::Owned(resolved))
}

fn check_excluded_fields(at: &FieldPath, template: &Template, wrong: &mut Violations) {
    for (field, set) in [("client", template.client.is_some()), ("server", template.server.is_some())] {
        if set {
            wrong.add(
                at.field(field),
                "cannot be combined with capture, which says what both sides do; leave out one of them",
            );
        }
    }
}

/// Bytes of an IP packet that both sides' ports take.
fn mtu(template: &Template, site: &Site) -> usize {
    let ports = site.ports.iter().filter(|p| p.name == template.client_port || p.name == template.server_port);
    ports.filter_map(|port| port.mtu).min().unwrap_or(USUAL_MTU) as usize
}

fn read(at: &FieldPath, asked: &contract::Capture, mtu: usize) -> Result<Session, Violation> {
    let refused = |field: &'static str, description| Violation { field: at.field("capture").field(field), description };
    match &asked.source {
        Some(capture::Source::Pcap(bytes)) => {
            Session::read(&bytes[..], mtu).map_err(|error| refused("pcap", error.to_string()))
        }
        Some(capture::Source::Path(path)) => {
            Session::of_file(Path::new(path), mtu).map_err(|error| refused("path", format!("{path:?}: {error}")))
        }
        // Data were filled in when the plan was decoded.
        Some(capture::Source::Data(_)) | None => Err(refused("source", "missing; set pcap or path".to_owned())),
    }
}

/// Writes what a session comes to into its template.
fn put(at: &FieldPath, template: &mut Template, session: &Session, payloads: &mut Payloads, wrong: &mut Violations) {
    let protocol = match session.transport {
        Transport::Tcp => TransportProtocol::Tcp,
        Transport::Udp => TransportProtocol::Udp,
    };
    if template.protocol != TransportProtocol::Unspecified as i32 && template.protocol != protocol as i32 {
        let name = protocol.as_str_name();
        wrong.add(at.field("protocol"), format!("the session of the capture is {name}; set that, or leave it out"));
    }
    template.protocol = protocol.into();
    if template.destination_port == 0 {
        template.destination_port = session.destination_port.into();
    }
    // Sides without a port are real ones. Where both are, that is reported later, of the template as it was meant.
    let both = template.client_port.is_empty() && template.server_port.is_empty();
    let program = |by| match session.transport {
        Transport::Tcp => tcp(session, by, payloads),
        Transport::Udp => udp(session, by, payloads),
    };
    let [client, server] = [Sender::Client, Sender::Server].map(program);
    template.client = (both || !template.client_port.is_empty()).then_some(client);
    template.server = (both || !template.server_port.is_empty()).then_some(server);
}

/// What one side does over TCP.
fn tcp(session: &Session, side: Sender, payloads: &mut Payloads) -> Program {
    let open = if side == Sender::Client { Kind::Connect(Nothing {}) } else { Kind::Accept(Nothing {}) };
    let mut kinds = vec![open];
    let mut heard = 0;
    let resets = matches!(session.end, End::Reset { by, .. } if by == side);
    for (i, dialogue) in session.dialogue.iter().enumerate() {
        if dialogue.by == side {
            // A reset takes back what is not acknowledged.
            let wait = resets && i + 1 == session.dialogue.len();
            kinds.push(Kind::Send(Send { payload: payloads.index(&dialogue.bytes), wait }));
        } else {
            heard += dialogue.bytes.len() as u64;
            kinds.push(Kind::Receive(Receive { bytes: heard, clear: false }));
        }
    }
    // The side that does not end it waits for the other's end; what is behind the last instruction closes.
    let (waits, resets) = match session.end {
        End::Open => (false, false),
        End::Closed(first) => (first != side, false),
        End::Reset { by, closed } => ((by == side) == closed, by == side),
    };
    kinds.extend(waits.then_some(Kind::WaitForPeerClose(Nothing {})));
    kinds.extend(resets.then_some(Kind::Reset(Nothing {})));
    program(kinds)
}

/// What one side does over UDP.
fn udp(session: &Session, side: Sender, payloads: &mut Payloads) -> Program {
    let in_a_row = |i: usize| i > 0 && session.dialogue[i - 1].by == session.dialogue[i].by;
    let delay = |i: usize| match session.dialogue[i].gap_ns {
        ns if in_a_row(i) && ns > MIN_DELAY_NS => ns.min(MAX_DELAY_NS),
        _ => 0,
    };
    let mut kinds = Vec::new();
    let longest = (0..session.dialogue.len()).map(delay).max().unwrap_or(0);
    if longest > LONG_SILENCE_NS {
        kinds.push(Kind::KeepaliveNs(2 * longest));
    }
    let (mut heard, mut waited) = (0, 0);
    for (i, dialogue) in session.dialogue.iter().enumerate() {
        if dialogue.by != side {
            heard += 1;
            continue;
        }
        if heard > waited {
            waited = heard;
            kinds.push(Kind::ReceiveMessages(ReceiveMessages { messages: heard, clear: false }));
        }
        if delay(i) > 0 {
            kinds.push(Kind::Delay(Delay { min_ns: delay(i), max_ns: delay(i) }));
        }
        kinds.push(Kind::SendMessage(SendMessage { payload: payloads.index(&dialogue.bytes) }));
    }
    if heard > waited {
        kinds.push(Kind::ReceiveMessages(ReceiveMessages { messages: heard, clear: false }));
    }
    program(kinds)
}

fn program(kinds: Vec<Kind>) -> Program {
    let instructions = kinds.into_iter().map(|kind| Instruction { kind: Some(kind) }).collect();
    Program { instructions, ..Program::default() }
}

/// Payloads of a plan and those to be appended, each once.
struct Payloads {
    known: HashMap<Bytes, u32>,
    next: u32,
    new: Vec<Payload>,
}

impl Payloads {
    fn of(stateful: &Stateful) -> Self {
        let constant = |(i, payload): (usize, &Payload)| match &payload.content {
            Some(payload::Content::Bytes(bytes)) if payload.fields.is_empty() => Some((bytes.clone(), i as u32)),
            _ => None,
        };
        let known = stateful.payloads.iter().enumerate().filter_map(constant).collect();
        Self { known, next: stateful.payloads.len() as u32, new: Vec::new() }
    }

    fn index(&mut self, bytes: &[u8]) -> u32 {
        if let Some(&index) = self.known.get(bytes) {
            return index;
        }
        let (bytes, index) = (Bytes::copy_from_slice(bytes), self.next);
        self.new.push(Payload { content: Some(payload::Content::Bytes(bytes.clone())), fields: Vec::new() });
        self.known.insert(bytes, index);
        self.next += 1;
        index
    }
}
