// SPDX-License-Identifier: Apache-2.0
//! The neighbors that are wanted, what is known of each, and when to ask again (RFC 4861 §7.3, for ARP alike).
//!
//! No station on the link can add an entry: only what is wanted is remembered, so the table cannot be flooded.
use std::{
    collections::{BTreeMap, btree_map},
    fmt,
    net::IpAddr,
};

use spate_net::vlan::Tags;

use crate::Mac;

/// Neighbors that can be wanted of one port.
pub const MAX_NEIGHBOURS: usize = 4096;

const MS: u64 = 1_000_000;
/// Intervals between requests for a neighbor that is not known: all are sent within 3 s.
const REQUEST_INTERVALS_NS: [u64; 4] = [200 * MS, 400 * MS, 800 * MS, 1600 * MS];
/// How long an entry is valid after the neighbor was heard.
const REACHABLE_NS: u64 = 30_000 * MS;
/// How long a neighbor is not replaced by another station after it was heard: two stations with one address would take turns else (Linux:
/// `locktime`, arp(7)).
const LOCKTIME_NS: u64 = 1000 * MS;
/// Between questions whether a neighbor is still there (RETRANS_TIMER), and how many: the first to where it was, then to all, so that one
/// that has another MAC now is found (RFC 7048).
const PROBE_NS: u64 = 1000 * MS;
const PROBES: u32 = 3;
/// Between questions for one that does not answer.
const RETRY_NS: u64 = 5000 * MS;

/// The table of neighbors is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the port resolves {MAX_NEIGHBOURS} neighbors already, the maximum: use a gateway, or fewer servers on its link"
)]
pub struct TableFull;

/// State of a neighbor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its MAC, or the last known one.
    pub mac: Option<Mac>,
    /// The search is over: it answered, or all questions went unanswered.
    pub settled: bool,
    /// Problem with the neighbor.
    pub problem: Option<String>,
}

/// An address that is resolved, and the VLAN tags in which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The tags.
    pub tags: Tags,
    /// The address.
    pub address: IpAddr,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.address, self.tags)
    }
}

/// A station that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requester {
    pub(crate) address: IpAddr,
    pub(crate) mac: Mac,
}

/// A station says that it has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) mac: Mac,
    /// Whether the claim replaces a station that is known to have the address.
    pub(crate) overrides: bool,
}

/// A question to send: to the neighbor itself if its MAC is known, else to all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) target: Target,
    pub(crate) mac: Option<Mac>,
    /// The emulated station that asks; none: the port.
    pub(crate) requester: Option<Requester>,
}

/// Change of an entry by an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// The answer changed nothing.
    Nothing,
    /// The MAC is known for the first time.
    First,
    /// A neighbor was here before.
    Moved(Mac),
}

#[derive(Clone, Debug)]
struct Entry {
    state: State,
    mac: Option<Mac>,
    /// MAC before the neighbor was searched again.
    former: Option<Mac>,
    /// When the neighbor was last heard at its MAC.
    heard_ns: u64,
    /// When the entry has to be polled.
    at_ns: u64,
    wanted: WantedBy,
}

/// Users of a neighbor's entry. The entry is removed with the last of them.
#[derive(Clone, Debug, Default)]
struct WantedBy {
    /// The port.
    port: bool,
    /// The port until it releases it (`want_until_released`).
    port_for_now: bool,
    /// Emulated stations, each with the owner that wants it in the station's place.
    stations: Vec<(u64, Requester)>,
}

impl WantedBy {
    fn is_unused(&self) -> bool {
        !self.port && !self.port_for_now && self.stations.is_empty()
    }

    /// The station that asks; none: the port.
    fn requester(&self) -> Option<Requester> {
        let station = self.stations.first().map(|(_, requester)| *requester);
        station.filter(|_| !self.port && !self.port_for_now)
    }
}

impl Entry {
    /// An entry that is not resolved, and is requested at once.
    fn new(now_ns: u64) -> Self {
        let wanted = WantedBy::default();
        Self { state: State::Asking(0), mac: None, former: None, heard_ns: 0, at_ns: now_ns, wanted }
    }

    /// The search for it begins again.
    fn seek_again(&mut self, now_ns: u64) {
        let (former, wanted) = (self.mac.or(self.former), std::mem::take(&mut self.wanted));
        *self = Self { former, wanted, ..Self::new(now_ns) };
    }

    /// Whether what is known of the neighbor is kept although another station says that it has the address. Then it is probed soon:
    /// whether it is still there.
    fn is_locked_against(&mut self, claim: Claim, now_ns: u64) -> bool {
        let replaceable_ns = self.heard_ns.saturating_add(LOCKTIME_NS);
        let reachable = matches!(self.state, State::Known | State::Probing(_));
        let kept =
            reachable && self.mac.is_some_and(|mac| mac != claim.mac) && (!claim.overrides || now_ns < replaceable_ns);
        if kept && self.state == State::Known {
            self.at_ns = self.at_ns.min(replaceable_ns.max(now_ns));
        }
        kept
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not known; with the number of requests so far.
    Asking(u32),
    Known,
    /// Known, and probed whether it is still there; with the number of requests so far.
    Probing(u32),
    /// Does not answer.
    Lost,
}

/// Wanted neighbors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<Target, Entry>,
}

impl Table {
    /// Resolves a neighbor for the port from now on; resolves again one that did not answer.
    pub(crate) fn want(&mut self, target: Target, now_ns: u64) -> Result<(), TableFull> {
        self.look(target, now_ns)?.wanted.port = true;
        Ok(())
    }

    /// Looks for a neighbor as `want` does, but only until it is released.
    pub(crate) fn want_until_released(&mut self, target: Target, now_ns: u64) -> Result<(), TableFull> {
        self.look(target, now_ns)?.wanted.port_for_now = true;
        Ok(())
    }

    /// Ends what `want_until_released` began: the port wants the neighbor no more.
    pub(crate) fn release(&mut self, target: Target) {
        if let btree_map::Entry::Occupied(mut place) = self.entries.entry(target) {
            place.get_mut().wanted.port_for_now = false;
            if place.get().wanted.is_unused() {
                place.remove();
            }
        }
    }

    /// Looks for a neighbor in the place of a station, until its owner forgets it.
    pub(crate) fn want_for(
        &mut self,
        owner: u64,
        requester: Requester,
        target: Target,
        now_ns: u64,
    ) -> Result<(), TableFull> {
        let stations = &mut self.look(target, now_ns)?.wanted.stations;
        if !stations.contains(&(owner, requester)) {
            stations.push((owner, requester));
        }
        Ok(())
    }

    /// An owner wants no neighbors any more in the place of stations.
    pub(crate) fn forget(&mut self, owner: u64) {
        self.entries.retain(|_, entry| {
            entry.wanted.stations.retain(|(other, _)| *other != owner);
            !entry.wanted.is_unused()
        });
    }

    fn look(&mut self, target: Target, now_ns: u64) -> Result<&mut Entry, TableFull> {
        let full = self.entries.len() >= MAX_NEIGHBOURS;
        match self.entries.entry(target) {
            btree_map::Entry::Vacant(_) if full => Err(TableFull),
            btree_map::Entry::Vacant(place) => Ok(place.insert(Entry::new(now_ns))),
            btree_map::Entry::Occupied(place) => {
                let entry = place.into_mut();
                if entry.state == State::Lost {
                    entry.seek_again(now_ns);
                }
                Ok(entry)
            }
        }
    }

    /// A received message has the MAC of an address.
    pub(crate) fn learn(&mut self, target: Target, claim: Claim, now_ns: u64) -> Learned {
        let Some(entry) = self.entries.get_mut(&target) else { return Learned::Nothing };
        if entry.is_locked_against(claim, now_ns) {
            return Learned::Nothing;
        }
        entry.state = State::Known;
        entry.heard_ns = now_ns;
        entry.at_ns = now_ns.saturating_add(REACHABLE_NS);
        let former = entry.former.take();
        match entry.mac.replace(claim.mac).or(former) {
            None => Learned::First,
            Some(before) if before == claim.mac => Learned::Nothing,
            Some(before) => Learned::Moved(before),
        }
    }

    /// Does what is due: the questions to send, and the neighbors that just went lost.
    pub(crate) fn poll(&mut self, now_ns: u64, requests: &mut Vec<Request>, lost: &mut Vec<Target>) {
        for (&target, entry) in &mut self.entries {
            if entry.at_ns > now_ns {
                continue;
            }
            let (state, wait, to) = match entry.state {
                State::Asking(asked) if (asked as usize) < REQUEST_INTERVALS_NS.len() => {
                    (State::Asking(asked + 1), REQUEST_INTERVALS_NS[asked as usize], Some(None))
                }
                State::Known => (State::Probing(1), PROBE_NS, Some(entry.mac)),
                State::Probing(asked) if asked < PROBES => (State::Probing(asked + 1), PROBE_NS, Some(None)),
                State::Asking(_) | State::Probing(_) => {
                    lost.push(target);
                    (State::Lost, RETRY_NS, None)
                }
                State::Lost => (State::Lost, RETRY_NS, Some(None)),
            };
            entry.state = state;
            entry.at_ns = now_ns.saturating_add(wait);
            requests.extend(to.map(|mac| Request { target, mac, requester: entry.wanted.requester() }));
        }
    }

    /// When to call `poll` next.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.entries.values().map(|entry| entry.at_ns).min()
    }

    /// What is known of a neighbor; none if it was never wanted.
    pub(crate) fn get(&self, target: Target) -> Option<Neighbour> {
        let entry = self.entries.get(&target)?;
        let address = target.address;
        let requests = if address.is_ipv4() { "ARP requests" } else { "neighbour solicitations" };
        let problem = match entry.state {
            State::Asking(asked) => Some(format!("{asked} {requests} sent, no answer yet")),
            State::Lost if entry.mac.is_some() => Some(format!("does not answer {requests} any more")),
            State::Lost => Some(format!("did not answer {} {requests} within 3 s", REQUEST_INTERVALS_NS.len())),
            State::Known | State::Probing(_) => None,
        };
        let settled = !matches!(entry.state, State::Asking(_));
        Some(Neighbour { address, mac: entry.mac, settled, problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: [u8; 6] = [2, 0, 0, 0, 0, 9];

    /// A station that replaces another.
    fn at(mac: Mac) -> Claim {
        Claim { mac, overrides: true }
    }

    fn peer() -> Target {
        Target { tags: Tags::NONE, address: "198.18.0.9".parse().unwrap() }
    }

    /// Runs until an instant; returns (instant, unicast?) of each question, and when it went lost.
    fn until(table: &mut Table, end_ns: u64) -> (Vec<(u64, bool)>, Vec<u64>) {
        let (mut requests, mut lost) = (Vec::new(), Vec::new());
        while let Some(at) = table.next_ns().filter(|at| *at <= end_ns) {
            let (mut asked, mut gone) = (Vec::new(), Vec::new());
            table.poll(at, &mut asked, &mut gone);
            requests.extend(asked.iter().map(|q| (at / MS, q.mac.is_some())));
            lost.extend(gone.iter().map(|_| at / MS));
        }
        (requests, lost)
    }

    #[test]
    fn a_silent_neighbour_is_asked_four_times_in_three_seconds_and_then_now_and_then() {
        let mut table = Table::default();
        table.want(peer(), 0).unwrap();
        let (requests, lost) = until(&mut table, 14_000 * MS);
        assert_eq!(requests, [(0, false), (200, false), (600, false), (1400, false), (8000, false), (13_000, false)]);
        assert_eq!(lost, [3000]);
        assert_eq!(table.get(peer()).unwrap().problem.unwrap(), "did not answer 4 ARP requests within 3 s");
        table.want(peer(), 20_000 * MS).unwrap();
        assert_eq!(until(&mut table, 20_000 * MS).0, [(20_000, false)]);
    }

    #[test]
    fn a_known_neighbour_is_asked_again_and_may_go_lost_and_come_back() {
        let mut table = Table::default();
        table.want(peer(), 0).unwrap();
        assert_eq!(table.learn(peer(), at(PEER), 10 * MS), Learned::First);
        assert_eq!(table.get(peer()).unwrap().mac, Some(PEER));
        let (requests, lost) = until(&mut table, 33_500 * MS);
        assert_eq!((requests, lost), (vec![(30_010, true), (31_010, false), (32_010, false)], vec![33_010]));
        let gone = table.get(peer()).unwrap();
        assert_eq!((gone.mac, gone.problem.unwrap().as_str()), (Some(PEER), "does not answer ARP requests any more"));
        assert_eq!(table.learn(peer(), at(PEER), 40_000 * MS), Learned::Nothing);
        assert_eq!(table.get(peer()).unwrap().problem, None);
        // The neighbor moves, and moves back.
        assert_eq!(table.learn(peer(), at([2; 6]), 41_000 * MS), Learned::Moved(PEER));
        assert_eq!(table.get(peer()).unwrap().mac, Some([2; 6]));
        assert_eq!(table.learn(peer(), at(PEER), 42_000 * MS), Learned::Moved([2; 6]));
        assert_eq!(table.get(peer()).unwrap().problem, None);
    }

    #[test]
    fn a_neighbour_that_was_heard_within_a_second_is_not_replaced_but_asked_whether_it_is_still_there() {
        let mut table = Table::default();
        table.want(peer(), 0).unwrap();
        until(&mut table, 0);
        table.learn(peer(), at(PEER), 0);
        // Another station with the address takes no turns with it...
        for ms in [1, 500, 999] {
            assert_eq!(table.learn(peer(), at([2; 6]), ms * MS), Learned::Nothing);
            assert_eq!(table.get(peer()).unwrap().mac, Some(PEER));
        }
        // ...and is found if the first does not answer: the second question is for all.
        assert_eq!(until(&mut table, 2500 * MS).0, [(1000, true), (2000, false)]);
        assert_eq!(table.learn(peer(), at([2; 6]), 2001 * MS), Learned::Moved(PEER));
        // A neighbor that answers stays.
        assert_eq!(table.learn(peer(), at(PEER), 2500 * MS), Learned::Nothing);
        assert_eq!(until(&mut table, 3500 * MS).0, [(3001, true)]);
        assert_eq!(table.learn(peer(), at([2; 6]), 3501 * MS), Learned::Nothing);
        assert_eq!(until(&mut table, 33_500 * MS), (vec![], vec![]));
        assert_eq!(table.learn(peer(), at(PEER), 33_501 * MS), Learned::Moved([2; 6]));
    }

    #[test]
    fn a_claim_that_does_not_override_replaces_only_a_neighbour_that_does_not_answer() {
        let other = Claim { mac: [2; 6], overrides: false };
        let mut table = Table::default();
        table.want(peer(), 0).unwrap();
        until(&mut table, 0);
        assert_eq!(table.learn(peer(), other, 0), Learned::First);
        table.learn(peer(), at(PEER), 10_000 * MS);
        assert_eq!(table.learn(peer(), other, 20_000 * MS), Learned::Nothing);
        assert_eq!(table.get(peer()).unwrap().mac, Some(PEER));
        // The entry becomes STALE (RFC 4861 section 7.2.5).
        assert_eq!(until(&mut table, 20_500 * MS).0, [(20_000, true)]);
        assert_eq!(table.learn(peer(), other, 20_600 * MS), Learned::Nothing);
        assert_eq!(until(&mut table, 23_000 * MS).1, [23_000]);
        assert_eq!(table.learn(peer(), other, 23_100 * MS), Learned::Moved(PEER));
        // The same station needs no flag.
        assert_eq!(table.learn(peer(), other, 23_200 * MS), Learned::Nothing);
    }

    #[test]
    fn a_neighbour_that_is_looked_for_again_and_found_elsewhere_has_moved() {
        let mut table = Table::default();
        table.want(peer(), 0).unwrap();
        assert_eq!(table.learn(peer(), at(PEER), 0), Learned::First);
        for (now, learned) in [(40_000, Learned::Moved(PEER)), (80_000, Learned::Nothing)] {
            assert_eq!(until(&mut table, (now - 1000) * MS).1.len(), 1);
            table.want(peer(), now * MS).unwrap();
            assert_eq!(table.get(peer()).unwrap().mac, None);
            assert_eq!(table.learn(peer(), at([2; 6]), now * MS), learned);
            assert_eq!(table.get(peer()).unwrap().mac, Some([2; 6]));
        }
    }

    #[test]
    fn a_neighbor_is_forgotten_with_the_last_that_wants_it_and_asked_for_by_one_that_does() {
        let mut table = Table::default();
        let tagged = Target { tags: Tags::from(Some(5)), ..peer() };
        let station = |last| Requester { address: IpAddr::from([198, 18, 0, last]), mac: PEER };
        table.want(peer(), 0).unwrap();
        table.want_for(1, station(1), peer(), 0).unwrap();
        [1, 2].into_iter().for_each(|owner| table.want_for(owner.into(), station(owner), tagged, 0).unwrap());
        let asked = |table: &mut Table, now_ns| {
            let (mut requests, mut lost) = (Vec::new(), Vec::new());
            table.poll(now_ns, &mut requests, &mut lost);
            requests.iter().map(|request| (request.target, request.requester)).collect::<Vec<_>>()
        };
        assert_eq!(asked(&mut table, 0), [(peer(), None), (tagged, Some(station(1)))]);
        assert_eq!(table.learn(tagged, at(PEER), 0), Learned::First);
        assert_eq!(table.get(peer()).unwrap().mac, None);
        table.forget(1);
        assert_eq!(asked(&mut table, REACHABLE_NS), [(peer(), None), (tagged, Some(station(2)))]);
        table.forget(2);
        assert_eq!((table.get(peer()).is_some(), table.get(tagged)), (true, None));
    }

    #[test]
    fn what_is_wanted_until_released_is_forgotten_then_unless_the_port_wants_it() {
        let mut table = Table::default();
        table.want_until_released(peer(), 0).unwrap();
        table.release(peer());
        assert_eq!(table.get(peer()), None);
        table.want_until_released(peer(), 0).unwrap();
        until(&mut table, 4000 * MS);
        table.want_until_released(peer(), 5000 * MS).unwrap(); // it was lost, and is resolved again
        assert!(!table.get(peer()).unwrap().settled);
        table.want(peer(), 5000 * MS).unwrap();
        table.want_until_released(peer(), 5000 * MS).unwrap();
        table.release(peer());
        assert!(table.get(peer()).is_some());
    }

    #[test]
    fn nobody_gets_in_unasked_and_there_is_a_limit() {
        let mut table = Table::default();
        assert_eq!(table.learn(peer(), at(PEER), 0), Learned::Nothing);
        assert_eq!(table.get(peer()), None);
        for i in 0..MAX_NEIGHBOURS as u32 {
            table.want(Target { address: IpAddr::V4((0x0a00_0000 + i).into()), ..peer() }, 0).unwrap();
        }
        assert_eq!(table.want(peer(), 0), Err(TableFull));
    }
}
