// SPDX-License-Identifier: Apache-2.0
//! What each state of a connection makes of each kind of segment, as a table: RFC 9293 section 3.10.7 with RFC 5961 (RST, SYN and
//! ACK that an off-path attacker may have sent), RFC 1337 (RST in TIME-WAIT) and RFC 1122 section 4.2.2.13 (SYN in TIME-WAIT). Each state is
//! reached by events of the same table, which makes all transitions of RFC 9293 figure 5. What the stack does otherwise is listed.
use std::collections::BTreeSet;

use super::peer::{ACK, FIN, MSS, Peer, RST, SYN, Segment, plain, segment};
use spate_stateful::{Count, Instruction};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    SynSent,
    SynReceived,
    Established,
    FinWait1,
    FinWait2,
    CloseWait,
    Closing,
    LastAck,
    TimeWait,
    /// Of clients.
    Closed,
    /// Of servers, where they have no such flow (any more).
    Listen,
}
use State::*;

/// The order of the table's columns.
const STATES: [State; 9] =
    [SynSent, SynReceived, Established, FinWait1, FinWait2, CloseWait, Closing, LastAck, TimeWait];

/// What happens to an end. Behind the peer's FIN "next" is behind it; a FIN that is next is the same once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// With the next number; in SYN-SENT with an acknowledgement of the SYN.
    RstExact,
    /// Elsewhere in the window; in SYN-SENT without an acknowledgement.
    RstInWindow,
    /// In SYN-SENT, as the one below it: with an acknowledgement of something else.
    RstBeyondWindow,
    RstBelowWindow,
    /// In SYN-SENT without an acknowledgement: the peer connects too.
    SynInWindow,
    /// In SYN-SENT, as the one below it: with an acknowledgement of something else.
    SynBeyondWindow,
    SynBelowWindow,
    /// The peer's right SYN, with ACK if the peer is a server: for the first time in SYN-SENT.
    Syn,
    AckOfUnsent,
    /// Older than the widest window that the peer had.
    AckOld,
    AckDuplicate,
    /// Of all that was sent, FIN too.
    AckAll,
    DataNext,
    /// In the window, behind a gap.
    DataAhead,
    DataBeyondWindow,
    DataBelowWindow,
    FinNext,
    /// With `AckAll`.
    FinAckAll,
    FinBeyondWindow,
    FinBelowWindow,
    /// The program has nothing more to do.
    Close,
    /// As long as TIME-WAIT lasts.
    Time,
}
use Event::*;

/// The answer that is sent at once, or where data was accepted when acknowledgements may wait no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Nothing,
    /// The next numbers.
    Acked,
    /// The same, counted and bounded (RFC 5961 section 7).
    Challenge,
    /// With the number that was acknowledged.
    Reset,
    SynAck,
    Fin,
}
use Answer::*;

/// The answer, and where the state changes the next one; for clients and for servers.
#[derive(Clone, Copy)]
struct Cell([Option<(Answer, Option<State>)>; 2]);

impl Cell {
    fn of(self, client: bool, state: State) -> Option<(Answer, State)> {
        self.0[usize::from(!client)].map(|(answer, after)| (answer, after.unwrap_or(state)))
    }
}

const fn both(answer: Answer, after: Option<State>) -> Cell {
    Cell([Some((answer, after)); 2])
}

const fn to(answer: Answer, after: State) -> Cell {
    both(answer, Some(after))
}

/// Another for clients than for servers.
const fn each(client: Cell, server: Cell) -> Cell {
    Cell([client.0[0], server.0[1]])
}

/// Nothing is sent.
const N: Cell = both(Nothing, None);
const A: Cell = both(Acked, None);
const C: Cell = both(Challenge, None);
const R: Cell = both(Reset, None);
const S: Cell = both(SynAck, None);
/// The flow is forgotten without a word.
const X: Cell = Cell([Some((Nothing, Some(Closed))), Some((Nothing, Some(Listen)))]);
/// Does not happen.
const O: Cell = Cell([None; 2]);

/// The reactions that the RFCs demand.
const TABLE: [(Event, [Cell; 9]); 22] = [
    //          SYN-SENT, SYN-RECEIVED, ESTABLISHED, FIN-WAIT-1, FIN-WAIT-2, CLOSE-WAIT, CLOSING, LAST-ACK, TIME-WAIT
    (RstExact, [X, X, X, X, X, X, X, X, N]),
    (RstInWindow, [N, C, C, C, C, C, C, C, C]),
    (RstBeyondWindow, [N, N, N, N, N, N, N, N, N]),
    (RstBelowWindow, [N, N, N, N, N, N, N, N, N]),
    (SynInWindow, [to(SynAck, SynReceived), each(C, X), C, C, C, C, C, C, each(C, to(SynAck, SynReceived))]),
    (SynBeyondWindow, [R, C, C, C, C, C, C, C, each(C, to(SynAck, SynReceived))]),
    (SynBelowWindow, [R, C, C, C, C, C, C, C, C]),
    (Syn, [to(Acked, Established), each(to(Nothing, Established), S), C, C, C, C, C, C, C]),
    (AckOfUnsent, [R, R, C, C, C, C, C, C, C]),
    (AckOld, [R, R, C, C, C, C, C, C, C]),
    (AckDuplicate, [R, R, N, N, N, N, N, N, N]),
    (AckAll, [N, to(Nothing, Established), N, to(Nothing, FinWait2), N, N, to(Nothing, TimeWait), X, N]),
    (DataNext, [N, to(Acked, Established), A, A, A, N, N, N, N]),
    (DataAhead, [N, to(Acked, Established), A, A, A, N, N, N, N]),
    (DataBeyondWindow, [N, A, A, A, A, A, A, A, A]),
    (DataBelowWindow, [N, A, A, A, A, A, A, A, A]),
    (FinNext, [N, to(Acked, CloseWait), to(Acked, CloseWait), to(Acked, Closing), to(Acked, TimeWait), A, A, A, A]),
    (FinAckAll, [N, to(Acked, CloseWait), to(Acked, CloseWait), to(Acked, TimeWait), to(Acked, TimeWait), A, A, A, A]),
    (FinBeyondWindow, [N, A, A, A, A, A, A, A, A]),
    (FinBelowWindow, [N, A, A, A, A, A, A, A, A]),
    (Close, [O, O, to(Fin, FinWait1), O, O, to(Fin, LastAck), O, O, O]),
    (Time, [O, O, O, O, O, O, O, O, X]),
];

/// Where the stack deviates from the table: what it does, and why that is acceptable.
const OTHERWISE: [(State, Event, Cell, &str); 3] = [
    (SynReceived, SynInWindow, each(O, C), "an off-path attacker could end it (RFC 9293)"),
    (Closing, FinAckAll, to(Acked, TimeWait), "ACKs below the window count, as BSD's"),
    (LastAck, FinAckAll, X, "the same"),
];

/// Transitions of RFC 9293 figure 5, its note 2 with them.
const FIGURE: [(State, State, How); 21] = [
    (Closed, SynSent, Opens),
    (Closed, Listen, Never("a server of a scenario listens from its start on")),
    (Listen, Closed, Never("it listens to its end")),
    (Listen, SynReceived, Opens),
    (Listen, SynSent, Never("servers do not connect")),
    (SynSent, Closed, By(RstExact)),
    (SynSent, SynReceived, By(SynInWindow)),
    (SynSent, Established, By(Syn)),
    (SynReceived, Listen, By(RstExact)),
    (SynReceived, Established, By(AckAll)),
    (SynReceived, FinWait1, Never("a program begins when the connection is established")),
    (Established, FinWait1, By(Close)),
    (Established, CloseWait, By(FinNext)),
    (FinWait1, FinWait2, By(AckAll)),
    (FinWait1, Closing, By(FinNext)),
    (FinWait1, TimeWait, By(FinAckAll)),
    (FinWait2, TimeWait, By(FinNext)),
    (CloseWait, LastAck, By(Close)),
    (Closing, TimeWait, By(AckAll)),
    (LastAck, Closed, By(AckAll)),
    (TimeWait, Closed, By(Time)),
];

enum How {
    By(Event),
    /// By `End::begin`.
    Opens,
    Never(&'static str),
}
use How::*;

/// The table's entry.
fn right(client: bool, state: State, event: Event) -> Option<(Answer, State)> {
    let (_, row) = TABLE.iter().find(|row| row.0 == event).expect("a row");
    let cell = row[STATES.iter().position(|&of| of == state).expect("a column")];
    cell.of(client, state)
}

fn expected(client: bool, state: State, event: Event) -> Option<(Answer, State)> {
    let other = OTHERWISE.iter().find(|other| (other.0, other.1) == (state, event));
    other.and_then(|other| other.2.of(client, state)).or_else(|| right(client, state, event))
}

/// An end in a known state.
struct End {
    peer: Peer,
    client: bool,
    state: State,
    /// What the end expects next.
    next: u32,
    /// From here on, up to there, what it sent waits for an acknowledgement.
    unacked: u32,
    sent: u32,
    /// Connections that were established.
    connects: u64,
    what: String,
}

/// Beyond any window here.
const FAR: u32 = 70_000;

impl End {
    /// A client that has sent a SYN, or a server that has answered one.
    fn begin(client: bool) -> Self {
        let wait = |s: u64| Instruction::Delay { min_ns: s * 1_000_000_000, max_ns: s * 1_000_000_000 };
        let program = |first| vec![first, wait(5), Instruction::Send { payload: 0, wait: true }, wait(10)];
        let mut peer = if client {
            Peer::client(program(Instruction::Connect), 100, plain())
        } else {
            Peer::server(program(Instruction::Accept), 100, plain())
        };
        let (state, next) = if client {
            peer.expect_segment(SYN, 0, 0, 0);
            (SynSent, 0)
        } else {
            peer.send(segment(SYN).seq(0).options(MSS));
            peer.expect_segment(SYN | ACK, 0, 1, 0);
            (SynReceived, 1)
        };
        Self { peer, client, state, next, unacked: 0, sent: 1, connects: 0, what: String::new() }
    }

    /// One that came there by events of the table.
    fn reach(client: bool, state: State) -> Option<Self> {
        let (from, event) = match state {
            SynSent => return client.then(|| Self::begin(true)),
            SynReceived if !client => return Some(Self::begin(false)),
            SynReceived => (SynSent, SynInWindow),
            Established if client => (SynSent, Syn),
            Established => (SynReceived, AckAll),
            FinWait1 => (Established, Close),
            FinWait2 => (FinWait1, AckAll),
            CloseWait => (Established, FinNext),
            Closing => (FinWait1, FinNext),
            LastAck => (CloseWait, Close),
            TimeWait => (FinWait2, FinNext),
            Closed | Listen => return None,
        };
        let mut end = Self::reach(client, from)?;
        end.plays(event);
        assert_eq!(end.state, state);
        if state == Established {
            // Something below the numbers that are next.
            end.peer.send(segment(ACK).data(1000));
            end.peer.wait(5_100);
            end.peer.expect_segment(ACK, 1, 1001, 0);
            end.peer.expect_segment(ACK, 1, 1001, 100);
            end.peer.send(segment(ACK).seq(1001).ack(101));
            end.peer.expect_silence();
            (end.next, end.unacked, end.sent) = (1001, 101, 101);
        }
        Some(end)
    }

    fn segment(&self, event: Event) -> Segment {
        let unsynchronized = self.state == SynSent;
        let next = self.next;
        // A right acknowledgement that changes nothing where there is such.
        let right = if matches!(self.state, SynSent | SynReceived) { self.sent } else { self.unacked };
        let with = |flags, seq: u32| segment(flags).seq(seq).ack(right);
        let fin = if self.peer_closed() { next.wrapping_sub(1) } else { next };
        match event {
            RstExact if unsynchronized => with(RST | ACK, 0),
            RstBeyondWindow if unsynchronized => with(RST | ACK, 0).ack(self.sent + 1),
            RstBelowWindow if unsynchronized => with(RST | ACK, 0).ack(self.unacked),
            SynBeyondWindow if unsynchronized => with(SYN | ACK, 0).ack(self.sent + 1).options(MSS),
            SynBelowWindow if unsynchronized => with(SYN | ACK, 0).ack(self.unacked).options(MSS),
            SynInWindow if unsynchronized => with(SYN, 0).options(MSS),
            RstExact => with(RST, next),
            RstInWindow => with(RST, next.wrapping_add(100)),
            RstBeyondWindow => with(RST, next.wrapping_add(FAR)),
            RstBelowWindow => with(RST, next.wrapping_sub(1)),
            SynInWindow => with(SYN, next.wrapping_add(100)).options(MSS),
            SynBeyondWindow => with(SYN, next.wrapping_add(FAR)).options(MSS),
            SynBelowWindow => with(SYN, next.wrapping_sub(500)).options(MSS),
            Syn if self.client => segment(SYN | ACK).seq(0).ack(1).options(MSS),
            Syn => segment(SYN).seq(0).options(MSS),
            AckOfUnsent => with(ACK, next).ack(self.sent + 1),
            AckOld => with(ACK, next).ack(self.unacked.wrapping_sub(FAR)),
            AckDuplicate => with(ACK, next).ack(self.unacked),
            AckAll => with(ACK, next).ack(self.sent),
            DataNext => with(ACK, next).data(100),
            DataAhead => with(ACK, next.wrapping_add(100)).data(100),
            DataBeyondWindow => with(ACK, next.wrapping_add(FAR)).data(100),
            DataBelowWindow => with(ACK, next.wrapping_sub(100)).data(50),
            FinNext => with(FIN | ACK, fin),
            FinAckAll => with(FIN | ACK, fin).ack(self.sent),
            FinBeyondWindow => with(FIN | ACK, next.wrapping_add(FAR)),
            FinBelowWindow => with(FIN | ACK, next.wrapping_sub(100)),
            Close | Time => unreachable!("no segment"),
        }
    }

    fn peer_closed(&self) -> bool {
        matches!(self.state, CloseWait | Closing | LastAck | TimeWait)
    }

    /// Lets an event happen, and checks the reply; the events that follow show the state.
    fn plays(&mut self, event: Event) {
        let Some((answer, after)) = expected(self.client, self.state, event) else { return };
        self.what = format!("{event:?} in {:?} of a {}", self.state, if self.client { "client" } else { "server" });
        let challenges = self.peer.count(Count::ChallengeAcks);
        let mut acknowledged = 0;
        match event {
            Close => {
                // When the FIN is received its timeout has just been armed.
                for _ in 0..110 {
                    if self.peer.is_silent() {
                        self.peer.wait(100);
                    }
                }
            }
            Time => self.peer.wait(1010),
            _ => {
                let segment = self.segment(event);
                acknowledged = segment.acknowledged();
                self.peer.send(segment);
                self.peer.wait(50);
            }
        }
        let began = matches!(self.state, SynSent | SynReceived);
        let connects = began && !matches!(after, SynSent | SynReceived | Closed | Listen);
        let opens = after == SynReceived && self.state != SynReceived;
        self.next += match event {
            // A SYN's number from which on the peer counts.
            SynInWindow if opens && self.state == TimeWait => 101,
            SynBeyondWindow if opens => FAR + 1,
            SynInWindow if opens => 1,
            Syn if self.state == SynSent => 1,
            DataNext if matches!(after, Established | FinWait1 | FinWait2) => 100,
            FinNext | FinAckAll if after != self.state && !self.peer_closed() => 1,
            _ => 0,
        };
        if opens {
            (self.unacked, self.sent) = (0, 1);
        } else if connects || (after != self.state && matches!(event, AckAll | FinAckAll)) {
            self.unacked = self.sent;
        }
        match answer {
            Nothing => {}
            Acked | Challenge => self.expect_segment(ACK, self.sent, self.next),
            Reset => self.expect_segment(RST, acknowledged, 0),
            SynAck => self.expect_segment(SYN | ACK, 0, self.next),
            Fin => {
                self.expect_segment(FIN | ACK, self.sent, self.next);
                self.sent += 1;
            }
        }
        let more = self.peer.all();
        assert!(more.is_empty(), "{}: {more:?}", self.what);
        let challenged = self.peer.count(Count::ChallengeAcks) - challenges;
        assert_eq!(challenged, u64::from(answer == Challenge), "challenges after {}", self.what);
        self.connects += u64::from(connects);
        self.state = after;
    }

    fn expect_segment(&mut self, flags: u8, seq: u32, ack: u32) {
        let all = self.peer.all();
        let seen: Vec<_> = all.iter().map(|s| (s.flags, s.seq, s.ack, s.len())).collect();
        assert_eq!(seen, [(flags, seq, ack, 0)], "flags, seq, ack, length after {}", self.what);
    }

    /// Checks that it is in this state: what it sends by itself, and its replies to valid segments, are those of no other state.
    fn proves(mut self, held: bool) {
        let what = self.what.clone();
        let open = !matches!(self.state, TimeWait | Closed | Listen);
        let there = self.state == TimeWait || open;
        assert_eq!((self.peer.is_open(), self.peer.stack.flows()), (open, usize::from(there)), "after {what}");
        assert_eq!(self.peer.count(Count::FlowsEstablished), self.connects, "connects after {what}");
        if held {
            // What was held comes with what was missing.
            let missing = self.segment(DataNext);
            self.peer.send(missing);
            self.next += 200;
            self.expect_segment(ACK, self.sent, self.next);
        }
        // Only what waits for an acknowledgement is sent again.
        self.peer.wait(1010);
        let again = match self.state {
            SynSent => SYN,
            SynReceived => SYN | ACK,
            FinWait1 | Closing | LastAck => FIN | ACK,
            _ => 0,
        };
        let all = self.peer.all();
        assert_eq!(!all.is_empty(), again != 0, "{all:?} after {what}");
        assert!(all.iter().all(|s| (s.flags, s.seq) == (again, self.unacked)), "{all:?} after {what}");
        match self.state {
            SynSent => self.plays(Syn),
            SynReceived | FinWait1 | Closing | LastAck => self.plays(AckAll),
            Established | FinWait2 => self.plays(FinNext),
            // The program has not sent its data.
            CloseWait if self.sent == 1 => return,
            CloseWait => self.plays(Close),
            TimeWait => (self.state, self.what) = (if self.client { Closed } else { Listen }, what),
            Closed | Listen => return self.peer.expect_closed(),
        }
        self.proves(false);
    }
}

#[test]
fn each_state_answers_each_segment_as_the_rfcs_say() {
    for client in [true, false] {
        for state in STATES {
            for (event, _) in TABLE {
                let Some(mut end) = End::reach(client, state) else { continue };
                if expected(client, state, event).is_some() {
                    end.plays(event);
                    let held = event == DataAhead && matches!(end.state, Established | FinWait1 | FinWait2);
                    end.proves(held);
                }
            }
        }
    }
}

#[test]
fn only_what_differs_is_listed_as_otherwise() {
    for (state, event, cell, why) in OTHERWISE {
        let differs = |client| cell.of(client, state).is_some_and(|other| Some(other) != right(client, state, event));
        assert!([true, false].into_iter().any(differs) && !why.is_empty(), "{event:?} in {state:?}");
    }
}

#[test]
fn the_table_has_all_transitions_of_figure_5() {
    // Servers that are done listen.
    let same = |state| if state == Listen { Closed } else { state };
    let made: BTreeSet<_> = TABLE
        .iter()
        .flat_map(|&(event, _)| STATES.map(|state| (state, event)))
        .flat_map(|(state, event)| [true, false].map(|client| (state, right(client, state, event))))
        .filter_map(|(state, cell)| cell.map(|(_, after)| (state, same(after))))
        .collect();
    for (from, to, how) in &FIGURE {
        match how {
            By(event) => {
                let by = [true, false].map(|client| right(client, *from, *event));
                assert!(by.iter().flatten().any(|(_, after)| same(*after) == same(*to)), "{from:?} to {to:?}");
            }
            Opens => assert!([true, false].map(|client| End::begin(client).state).contains(to)),
            Never(why) => assert!(!made.contains(&(*from, *to)) && !why.is_empty(), "{from:?} to {to:?}"),
        }
    }
    // What the figure omits: RST from any state, two transitions by one segment, a new connection after TIME-WAIT.
    let more: Vec<_> = made
        .iter()
        .filter(|(from, to)| from != to && *to != Closed)
        .filter(|(from, to)| !FIGURE.iter().any(|(a, b, _)| (a, b) == (from, to)))
        .collect();
    assert_eq!(more, [&(SynReceived, CloseWait), &(TimeWait, SynReceived)]);
}
